"""The bundle that opens from disk, and the pages that forward to where a moved page is now."""

from __future__ import annotations

import runpy
import subprocess
import sys
import zipfile
from types import SimpleNamespace

import pytest
from site_host import ROOT, Document, results

sys.path.insert(0, str(ROOT / "scripts"))
import offline_bundle

# One process builds the site and keeps the browser.
pytestmark = [pytest.mark.browser, pytest.mark.xdist_group("site"), pytest.mark.timeout(600)]

moved = runpy.run_path(str(ROOT / "docs/.theme/moved.py"))


@pytest.fixture(scope="module")
def unpacked(tmp_path_factory):
    work = tmp_path_factory.mktemp("offline")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("LESSONS_MODE", "run")
        patch.delenv("TRITON_INTERPRET", raising=False)
        offline_bundle.build(work / "site")
    offline_bundle.pack(work / "site", work / "bundle.zip", "kernel-lessons-1.1")
    with zipfile.ZipFile(work / "bundle.zip") as bundle:
        bundle.extractall(work)
    return work / "kernel-lessons-1.1"


def test_who_makes_a_bundle_reads_no_notice_of_another_project(monkeypatch, tmp_path):
    called = []
    monkeypatch.setattr(offline_bundle.subprocess, "run", lambda command, **how: called.append(how["env"]))
    offline_bundle.build(tmp_path)
    assert called[0]["NO_MKDOCS_2_WARNING"] == "1" and called[0]["OFFLINE"] == "true"


def test_bundle_opens_from_disk_and_searches(chromium, unpacked):
    context = chromium.new_context()
    page, wrong = context.new_page(), []
    page.on("console", lambda m: wrong.append(m.text) if m.type in ("error", "warning") else None)
    page.on("pageerror", lambda error: wrong.append(str(error)))
    page.on("request", lambda r: wrong.append(r.url) if not r.url.startswith(("file:", "data:", "blob:")) else None)
    page.goto((unpacked / "index.html").as_uri())
    page.locator(".kl-stepper--live").wait_for()
    page.get_by_role("link", name="Begin with Lesson 0").click()
    page.wait_for_url((unpacked / "lessons/0-orientation.html").as_uri())
    found = results(page, "warp shuffle")
    assert found and all(address.startswith(unpacked.as_uri()) for address in found)
    page.goto(found[0])
    assert "shuffle" in page.locator("article").inner_text().lower()
    context.close()
    assert wrong == []


def test_every_link_of_the_bundle_leads_to_a_file(unpacked):
    done = subprocess.run(
        [sys.executable, ROOT / "scripts/check_links.py", unpacked], capture_output=True, text=True, timeout=500
    )
    assert done.returncode == 0, done.stdout[-3000:]
    assert not list(unpacked.rglob("*.map"))


def test_links_that_mean_a_folder_lead_to_the_file(tmp_path):
    for name in ("a/index.html", "a/one.html", "a/two.html", "a/files/x.txt", "b/index.html", "index.html"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text("")
    turned = {"../two/#at": "two.html#at", "../files/x.txt": "files/x.txt", "../../b/": "../b/index.html"}
    turned |= {"../gone/": "../gone/", "two.html": "two.html"}
    for before, after in turned.items():
        page = offline_bundle.mend(f'<a href="{before}">it</a>', tmp_path / "a/one.html", tmp_path)
        assert page == f'<a href="{after}">it</a>'
    for index, before, after in (
        ("a", "two/", "two.html"),
        ("a", "../b/#at", "../b/index.html#at"),
        ("", "a/two/", "a/two.html"),
    ):
        page = offline_bundle.mend(f'<a href="{before}">it</a>', tmp_path / index / "index.html", tmp_path)
        assert page == f'<a href="{after}">it</a>'
    same = '<a href="https://example.org/../x/"><a href="#here"><a href="mailto:me">'
    assert offline_bundle.mend(same, tmp_path / "a/one.html", tmp_path) == same


def test_a_bundle_has_the_same_bytes_twice(tmp_path):
    for name, text in (("index.html", "one"), ("a/b.css", "two"), ("x.map", "left out")):
        (tmp_path / "site" / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / "site" / name).write_text(text)
    assert offline_bundle.pack(tmp_path / "site", tmp_path / "1.zip", "it") == 2
    (tmp_path / "site/index.html").touch()
    offline_bundle.pack(tmp_path / "site", tmp_path / "2.zip", "it")
    assert (tmp_path / "1.zip").read_bytes() == (tmp_path / "2.zip").read_bytes()


def forwarded(tmp_path, table: dict[str, str], directory_urls: bool = True, site_url: str = "https://here.example/"):
    """What `on_env` writes for pages that moved, in a site that has the page labs/new.md."""
    there = "labs/new/index.html" if directory_urls else "labs/new.html"
    page = SimpleNamespace(dest_uri=there, url="labs/new/")
    files = SimpleNamespace(get_file_from_path=lambda name: page if name == "labs/new.md" else None)
    config = SimpleNamespace(
        extra={"moved": table},
        use_directory_urls=directory_urls,
        site_dir=str(tmp_path),
        site_url=site_url,
    )
    moved["on_env"](None, config=config, files=files)


def test_a_moved_page_forwards_with_its_anchor(chromium, tmp_path):
    forwarded(tmp_path, {"guides/old.md": "labs/new.md", "part.md": "labs/new.md#place"}, directory_urls=False)
    (tmp_path / "labs").mkdir()
    (tmp_path / "labs/new.html").write_text("<title>new</title><p id=place>here")
    context = chromium.new_context()
    page = context.new_page()
    ways = (
        ("guides/old.html", ""),
        ("guides/old.html#that", "#that"),
        ("part.html", "#place"),
        ("part.html?h=a+b", "?h=a+b#place"),
    )
    for old, new in ways:
        page.goto(f"{tmp_path.as_uri()}/{old}")
        page.wait_for_url(lambda url, new=new: url.endswith(f"/labs/new.html{new}"))
    context.close()


def test_a_moved_page_says_where_without_scripts(tmp_path):
    forwarded(tmp_path, {"old.md": "labs/new.md#place"})
    page = Document((tmp_path / "old/index.html").read_text())
    assert page.links == ["../labs/new/#place"] and page.canonical == "https://here.example/labs/new/"


@pytest.mark.parametrize("old", ["guides/index.md", "guides/README.md"])
def test_a_page_that_its_folder_is_named_after_forwards_from_there(tmp_path, old):
    """`guides/index.md` had the address guides/, and never guides/index/."""
    forwarded(tmp_path, {old: "labs/new.md"})
    assert Document((tmp_path / "guides/index.html").read_text()).links == ["../labs/new/"]


def test_a_notebook_that_moved_forwards_from_its_address(tmp_path):
    forwarded(tmp_path, {"notebooks/old.ipynb": "labs/new.md"})
    assert Document((tmp_path / "notebooks/old/index.html").read_text()).links == ["../../labs/new/"]


def test_a_moved_page_of_a_version_names_its_address(tmp_path):
    forwarded(tmp_path, {"old.md": "labs/new.md"}, site_url="https://here.example/latest")  # as mike gives it
    assert Document((tmp_path / "old/index.html").read_text()).canonical == "https://here.example/latest/labs/new/"


@pytest.mark.parametrize("table", [{"a.md": "gone.md"}, {"labs/new.md": "labs/new.md"}])
def test_a_wrong_forward_is_named(tmp_path, table):
    with pytest.raises(ValueError, match=next(iter(table))):
        forwarded(tmp_path, table)
