"""Links, anchors and missing pages under a version prefix."""

from __future__ import annotations

from pathlib import Path
from urllib.parse import unquote, urldefrag, urljoin, urlsplit

import pytest
from site_host import NEW, OLD, PREFIX, Document, results

# One process builds the site and keeps the browser.
pytestmark = [pytest.mark.browser, pytest.mark.xdist_group("site")]


@pytest.mark.parametrize("version", [OLD, NEW, "latest"])
def test_every_internal_link_and_anchor_exists(deployed, version):
    pages = {path: Document(path.read_text()) for path in sorted((deployed.files / version).rglob("*.html"))}
    pages = {path: page for path, page in pages.items() if path.name != "404.html"}
    broken, checked = [], 0
    for path, page in pages.items():
        here = deployed.url(path.relative_to(deployed.files).as_posix().removesuffix("index.html"))
        for link in page.links:
            address, anchor = urldefrag(urljoin(here, link))
            if not address.startswith(deployed.host.origin):
                continue
            checked += 1
            target = file_of(deployed, address)
            if target is None:
                broken.append(f"{here}: {link}")
            elif anchor and target in pages and unquote(anchor) not in pages[target].ids:
                broken.append(f"{here}: {link}: there is no such place on that page")
    assert broken == []
    assert checked > 100


def file_of(deployed, address: str) -> Path | None:
    """The file that a host answers with, or None."""
    path = unquote(urlsplit(address).path)
    if not path.startswith(PREFIX):
        return None
    file = deployed.files / path[len(PREFIX) :]
    if file.is_dir():
        file = file / "index.html"
    return file if file.is_file() else None


@pytest.mark.parametrize(
    ("missing", "base"),
    [
        (f"{OLD}/labs/no-such-page/", f"{OLD}/"),
        (f"{NEW}/nothing", f"{NEW}/"),
        ("latest/a/b/c/d/", "latest/"),
        ("no-version/at-all/", "latest/"),
    ],
)
def test_missing_page_is_styled_and_can_search(read, deployed, missing, base):
    with read(missing) as reading:
        page = reading.page
        assert page.locator("h1").inner_text().startswith("There is no page here")
        assert page.evaluate("document.baseURI") == deployed.url(base)
        assert page.evaluate("getComputedStyle(document.querySelector('.md-header')).position") == "sticky"
        assert page.evaluate("getComputedStyle(document.querySelector('.md-header')).borderBottomStyle") == "solid"
        assert page.locator(".md-header .md-logo img").evaluate("image => image.naturalWidth") > 0
        found = results(page, "warp shuffle")
        assert found[0].startswith(deployed.url(base))
        page.goto(found[0])
        assert page.locator("h1").inner_text() != "There is no page here"
    assert reading.failed == [f"404 {deployed.url(missing)}"]
    assert reading.outside == []


def test_below_a_version_that_is_not_there_the_newest_is_shown(read, deployed):
    with read("2.0/labs/3-softmax/#predict") as reading:
        reading.page.wait_for_url("**/latest/labs/3-softmax/#predict")
    with read("2.0/no-such-page/") as reading:
        reading.page.wait_for_url("**/latest/no-such-page/")
        assert reading.page.locator("h1").inner_text().startswith("There is no page here")
        assert reading.page.evaluate("document.baseURI") == deployed.url("latest/")
        assert reading.page.evaluate("getComputedStyle(document.querySelector('.md-header')).position") == "sticky"
