"""Every page in both colour schemes, on a desktop and on a phone."""

from __future__ import annotations

import pytest
from site_host import nav_pages

# One process builds the site and keeps the browser.
pytestmark = [pytest.mark.browser, pytest.mark.xdist_group("site")]

WINDOWS = [("light", 1280), ("dark", 1280), ("light", 390), ("dark", 390)]


@pytest.mark.parametrize(("scheme", "width"), WINDOWS, ids=lambda value: str(value))
@pytest.mark.parametrize("path", nav_pages())
def test_page_is_quiet_fits_and_is_open_to_all(read, path, scheme, width):
    from axe_playwright_python.sync_playwright import Axe

    with read(f"latest/{path}", scheme, width) as reading:
        page = reading.page
        assert page.evaluate("document.body.dataset.mdColorScheme") == {"light": "default", "dark": "slate"}[scheme]
        over = page.evaluate(
            """() => [...document.querySelectorAll("main *")]
                .filter(e => e.getBoundingClientRect().right > innerWidth + 1)
                .map(e => e.tagName + "." + e.className).slice(0, 5)"""
        )
        wide = page.evaluate("document.documentElement.scrollWidth") - width
        assert wide <= 0, f"the page is {wide} px wider than the window; elements that reach out: {over}"
        found = Axe().run(page).response["violations"]
        grave = [
            f"{v['impact']} {v['id']}: {node['html'][:160]} ({node['failureSummary'][:300]})"
            for v in found
            if v["impact"] in ("serious", "critical")
            for node in v["nodes"][:4]
        ]
        assert grave == []
        assert page.locator(".kl-block .md-code__button, .kl-block .md-clipboard, .kl-excerpt button").count() == 0
        captions = page.locator(".kl-excerpt figcaption").all_text_contents()
        assert [caption for caption in captions if not caption.startswith(("Excerpt of ", "The file "))] == []
    assert reading.outside == []
    assert reading.failed == []
    assert reading.console == []


def test_keyboard_reaches_the_text_first_and_shows_where_it_is(read):
    with read("latest/guides/setup/") as reading:
        page = reading.page
        page.keyboard.press("Tab")
        assert page.evaluate("document.activeElement.matches('.md-skip')")
        page.keyboard.press("Enter")
        assert page.url.endswith("#setup")
        page.locator(".md-tabs__link").first.focus()
        page.keyboard.press("Tab")
        outline = page.evaluate("getComputedStyle(document.activeElement).outlineStyle")
        assert outline == "solid"


@pytest.mark.parametrize(("wish", "still"), [("no-preference", False), ("reduce", True)])
def test_motion_is_off_for_readers_who_ask(read, wish, still):
    with read("latest/", reduced_motion=wish) as reading:
        moves = "e => Math.max(...getComputedStyle(e).transitionDuration.split(',').map(parseFloat))"
        assert (reading.page.locator(".md-typeset a").first.evaluate(moves) < 0.001) == still


def test_page_says_what_it_ran_on(read):
    with read("latest/") as reading:
        assert "1 block of code" in reading.page.locator(".kl-ran").inner_text()
        assert reading.page.locator(".kl-ran li").count() == 1
