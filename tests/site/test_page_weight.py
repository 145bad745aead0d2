"""scripts/page_weight.py: on the heaviest pages of the site, and on small ones with a fault planted."""

from __future__ import annotations

import gzip
import sys
import urllib.request

import pytest
from site_host import ROOT

sys.path.insert(0, str(ROOT / "scripts"))
from page_weight import best, faults, measure
from site_browser import hosted, page_names

# One process builds the site and keeps the browser.
pytestmark = [pytest.mark.browser, pytest.mark.xdist_group("site")]


def test_the_heaviest_pages_are_within_the_limits(chromium, deployed):
    site = deployed.files / "latest"
    sizes = {name: (site / name / "index.html").stat().st_size for name in page_names(site)}
    heaviest = sorted(sizes, key=sizes.get)[-3:]
    with hosted(deployed.files) as root:
        for name, width in [("", 1280), ("", 390), *((name, 1280) for name in heaviest)]:
            found = best([measure(chromium, f"{root}latest/{name}", width) for _ in range(3)])
            assert faults(found) == [], (name, width)


PLANTS = {
    "came over the line": "<script src=big.js></script>",
    "the layout shifted": "<script>setTimeout(() => document.body.prepend(document.querySelector('hr')), 100)</script>",
    "was first painted": "<script>for (const end = performance.now() + 1100; performance.now() < end;) ;</script>",
}


@pytest.mark.parametrize("said", PLANTS)
def test_a_planted_fault_is_found(chromium, tmp_path, said):
    page = f"<!doctype html><link rel=icon href=data:,><p>Text</p>{'<p>Text</p>' * 20}<hr style='height:99px'>"
    (tmp_path / "index.html").write_text("<!doctype html><link rel=icon href=data:,>" + PLANTS[said] + page)
    (tmp_path / "big.js").write_text("".join(f"/*{i * 7919 % 1_000_003:x}*/" for i in range(140_000)))
    with hosted(tmp_path) as root:
        found = measure(chromium, root)
    assert any(said in each for each in faults(found)), found


@pytest.mark.parametrize("order", [("", "gzip"), ("gzip", "")])
def test_a_page_is_packed_for_those_who_ask_for_it(tmp_path, order):
    (tmp_path / "index.html").write_bytes(b"A page. " * 100)
    with hosted(tmp_path) as root:
        for encoding in order:
            asked = urllib.request.Request(root, headers={"Accept-Encoding": encoding})
            with urllib.request.urlopen(asked, timeout=20) as answer:
                body, packed = answer.read(), answer.headers.get("Content-Encoding", "")
            assert packed == encoding and (gzip.decompress(body) if packed else body) == b"A page. " * 100


def test_a_small_quiet_page_has_no_fault(chromium, tmp_path):
    (tmp_path / "index.html").write_text("<!doctype html><link rel=icon href=data:,><p>Text</p>")
    with hosted(tmp_path) as root:
        found = measure(chromium, root)
    assert faults(found) == []
    assert 0 < found["kilobytes"] < 5
