"""What a glossary's word means, by keyboard and by touch; a computed number, by touch."""

from __future__ import annotations

import pytest
from site_host import script_of

# One process keeps the browser.
pytestmark = [pytest.mark.browser, pytest.mark.xdist_group("site")]

PAGE = """<!doctype html><meta charset="utf-8"><meta name="viewport" content="width=device-width">
<title>A page</title><link rel="icon" href="data:,">
<style>.kl-hint { position: absolute } .kl-hint[hidden] { display: none }</style>
<article><p>A <a class="kl-term" href="#warp" title="warp: 32 threads">warp</a> and
a <a class="kl-term" href="#lane" title="lane: one of them">lane</a> and
<span class="kl-value" title="computed: 4 * 8">32</span>.</p><p id="warp">Its entry.</p></article>
<script>{script}</script>"""


@pytest.fixture
def opened(chromium, tmp_path):
    """`opened(touch)`: the page, in a browser with a mouse or one that is touched."""
    file = tmp_path / "index.html"
    file.write_text(PAGE.replace("{script}", script_of("hints")))
    contexts, faults = [], []

    def open_page(touch: bool):
        contexts.append(chromium.new_context(has_touch=touch, viewport={"width": 390, "height": 700}))
        page = contexts[-1].new_page()
        page.on("pageerror", lambda error: faults.append(str(error)))
        page.goto(file.as_uri())
        return page

    yield open_page
    for context in contexts:
        context.close()
    assert faults == []


def test_the_keyboard_is_shown_what_a_word_means_and_follows_its_link(opened):
    page = opened(touch=False)
    page.keyboard.press("Tab")
    page.locator(".kl-hint", has_text="warp: 32 threads").wait_for()
    box = page.locator(".kl-hint").bounding_box()
    assert box["x"] >= 0 and box["x"] + box["width"] <= 390
    page.keyboard.press("Tab")
    page.locator(".kl-hint", has_text="lane: one of them").wait_for()
    page.keyboard.press("Escape")
    assert page.locator(".kl-hint").is_hidden()
    page.keyboard.press("Shift+Tab")
    page.keyboard.press("Enter")
    page.wait_for_url("**#warp")  # the browser tells of it when it has gone there


def test_the_first_tap_shows_what_a_word_means_and_the_second_follows_its_link(opened):
    page = opened(touch=True)
    page.locator("a").first.tap()
    assert "32 threads" in page.locator(".kl-hint").inner_text() and "#" not in page.url
    page.locator(".kl-value").tap()
    page.locator(".kl-hint", has_text="computed: 4 * 8").wait_for()
    page.locator("#warp").tap()
    assert page.locator(".kl-hint").is_hidden()
    page.locator("a").first.tap()
    page.locator("a").first.tap()
    page.wait_for_url("**#warp")  # the browser tells of it when it has gone there


def test_a_mouse_follows_the_link_at_once(opened):
    page = opened(touch=False)
    page.locator("a").first.click()
    page.wait_for_url("**#warp")
    assert not page.locator(".kl-hint:visible").count()
