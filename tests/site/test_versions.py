"""Versions beside each other: the selector, the alias that moves, canonical addresses."""

from __future__ import annotations

import json
import urllib.request
from urllib.parse import urljoin

import pytest
from site_host import NEW, OLD, Document

# One process builds the site and keeps the browser.
pytestmark = [pytest.mark.browser, pytest.mark.xdist_group("site")]


def status(url: str) -> int:
    with urllib.request.urlopen(url) as answer:
        return answer.status


def test_selector_switches_and_stays_on_the_page(read):
    with read(f"{OLD}/guides/setup/") as reading:
        page = reading.page
        page.locator(".md-version__current").focus()  # opens the list, as hovering does
        page.locator(".md-version__link", has_text=NEW).click()
        page.wait_for_url(f"**/{NEW}/guides/setup/")
        assert NEW in page.locator(".md-version__current").inner_text()
    assert reading.console == []


def test_older_version_says_that_it_is_older(read):
    with read(f"{OLD}/") as reading:
        banner = reading.page.locator("[data-md-component=outdated]")
        banner.wait_for(state="visible")
        reading.page.locator("[data-md-component=outdated] a").click()
        reading.page.wait_for_url("**/latest/")
    with read(f"{OLD}/guides/setup/") as reading:
        reading.page.locator("[data-md-component=outdated] a").click()
        reading.page.wait_for_url("**/latest/guides/setup/")
    for page in ("labs/3-softmax/", "reference/operators/", "essentials/"):
        with read(f"{OLD}/{page}") as reading:
            reading.page.locator("[data-md-component=outdated]").wait_for(state="visible")
    with read("latest/") as reading:
        reading.page.locator(".md-version__current").wait_for()
        assert reading.page.locator("[data-md-component=outdated]").is_hidden()
    with read(f"{NEW}/") as reading:
        reading.page.locator(".md-version__current").wait_for()
        assert reading.page.locator("[data-md-component=outdated]").is_hidden()


def test_the_banner_keeps_the_place_and_leads_to_no_error(read, deployed):
    banner = "[data-md-component=outdated] a"
    with read(f"{OLD}/labs/3-softmax/#predict") as reading:
        reading.page.locator(banner).click()
        reading.page.wait_for_url("**/latest/labs/3-softmax/#predict")
        assert reading.console == []
    gone = deployed.files / OLD / "labs" / "gone"
    gone.mkdir(exist_ok=True)
    (gone / "index.html").write_bytes((deployed.files / OLD / "labs/3-softmax/index.html").read_bytes().replace(
        b"/../latest/labs/3-softmax/", b"/../latest/labs/gone/"))  # fmt: skip
    try:
        with read(f"{OLD}/labs/gone/") as reading:
            reading.page.locator(banner).click()
            reading.page.wait_for_url("**/latest/")
    finally:
        (gone / "index.html").unlink()
        gone.rmdir()


def test_latest_moves_with_the_second_deployment(deployed):
    before = json.loads(deployed.versions_after_first)
    after = json.loads((deployed.files / "versions.json").read_text())
    assert [(v["version"], v["aliases"]) for v in before] == [(OLD, ["latest"])]
    assert [(v["version"], v["aliases"]) for v in after] == [(NEW, ["latest"]), (OLD, [])]


def test_alias_is_files_not_a_link(deployed):
    assert not (deployed.files / "latest").is_symlink()
    for path in ("latest/", "latest/assets/site.css", "latest/assets/logo.svg", f"{OLD}/", f"{NEW}/assets/lessons.css"):
        assert status(deployed.url(path)) == 200, path


def test_canonical_address_is_the_latest(deployed):
    for version in (OLD, NEW, "latest"):
        page = Document((deployed.files / version / "guides" / "setup" / "index.html").read_text())
        assert page.canonical == deployed.url("latest/guides/setup/")


def test_root_leads_to_the_latest(read):
    with read("") as reading:
        reading.page.wait_for_url("**/latest/")


def test_one_worker_does_it_all(request):
    """pytest-xdist groups tests by what it adds to their names; where that fails, every worker builds the site."""
    if not hasattr(request.config, "workerinput"):
        pytest.skip("one process runs the tests")
    assert request.node.nodeid.endswith("@site")


def test_each_version_keeps_its_own_results_and_sources(deployed):
    """Nothing that a version shows is read from a place that another version shares."""
    page = (deployed.files / OLD / "reference" / "your-gpu" / "index.html").read_text()
    assert "data-your-gpu" in page  # our records are in the page, not fetched
    for version in (OLD, NEW):
        root = deployed.files / version
        assert list((root / "source").rglob("*.html")) and (root / "search" / "search_index.json").is_file()
        outside = []
        for path in root.rglob("*.html"):
            here = deployed.url(path.relative_to(deployed.files).as_posix().removesuffix("index.html"))
            for link in Document(path.read_text()).links:
                address = urljoin(here, link)
                if address.startswith(deployed.url()) and not address.startswith(deployed.url(f"{version}/")):
                    page = here.removeprefix(deployed.url(f"{version}/")).removesuffix("404.html")
                    same = deployed.url("latest/") + page
                    outside += [(here, link)] if address != same else []
        assert outside == []  # but for the banner's, which leads to the same page
