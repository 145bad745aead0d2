"""Every page in both colour schemes, at three widths, and without scripts."""

from __future__ import annotations

import re
import sys

import pytest
from site_host import ROOT, nav_pages

sys.path.insert(0, str(ROOT / "scripts"))
from check_pages import Looker
from site_browser import hosted

# One process builds the site and keeps the browser.
pytestmark = [pytest.mark.browser, pytest.mark.xdist_group("site")]


@pytest.fixture(scope="module")
def looker(chromium, deployed):
    return Looker(chromium, deployed.url("latest/"))


@pytest.mark.parametrize("path", nav_pages())
def test_page_is_quiet_fits_and_is_open_to_all(looker, path):
    """See scripts/check_pages.py: both schemes, three widths, axe, the Tab key, and once without scripts."""
    assert looker.faults(path) == []
    page = looker.shown()  # code has one way to be copied, and an excerpt says what it is
    assert page.locator(".kl-block .md-code__button, .kl-block .md-clipboard, .kl-excerpt button").count() == 0
    captions = page.locator(".kl-excerpt figcaption").all_text_contents()
    assert [caption for caption in captions if not caption.startswith(("Excerpt of ", "The file "))] == []


# What is planted into a page, and the sentence that must be said of it.
PLANTS = [
    ("e.innerHTML += '<p style=\"width:3000px\">wide</p>'", "px too wide: p."),
    ("e.innerHTML += '<p style=\"color:#999;background:#aaa\">pale</p>'", "color-contrast"),
    ("e.innerHTML += '<button></button>'", "button-name"),
    ("e.innerHTML += '<a href=x tabindex=3>jumps the queue</a>'", "a tabindex above 0"),
    (
        "e.prepend(e.lastElementChild); e.innerHTML += '<a href=x style=\"position:absolute;top:0\">up</a>'",
        "stands above",
    ),
    ("console.error('broken')", "the console says: broken"),
    ("new Image().src = 'https://elsewhere.example/a.png'", "asks another host"),
    ("e.innerHTML += '<a href=x style=\"outline:0!important\">nowhere</a>'", "does not show that it has the focus"),
]


@pytest.mark.parametrize(("plant", "said"), PLANTS, ids=[said for _, said in PLANTS])
def test_a_planted_fault_is_found(chromium, deployed, plant, said):
    planted = Looker(
        chromium, deployed.url("latest/"), plant=f"{{ const e = document.querySelector('article'); {plant} }}"
    )
    found = planted.faults("authoring/drift/")
    planted.close()
    assert any(said in each for each in found), found


def test_pale_text_is_found_again_and_good_text_is_judged_once(chromium, tmp_path):
    def page(colour: str) -> str:
        return f"<!doctype html><html lang=en><title>T</title><main><h1>H</h1><p style='color:{colour}'>Text</p></main>"

    with hosted(tmp_path) as root:
        looker = Looker(chromium, root, body=page("#999"))
        for _ in range(2):
            assert any("color-contrast" in each for each in looker.faults("index.html"))
        looker._body, judged = page("#222"), []
        looker._ask = lambda *asked, ask=looker._ask: judged.append(asked[1]) or ask(*asked)
        for _ in range(2):
            assert not any("color-contrast" in each for each in looker.faults("index.html"))
        good = set(looker._good)
        assert good and judged.count("contrast") == 8
        looker._body = page("#999")
        assert any("color-contrast" in each for each in looker.faults("index.html"))
        looker.close()
    assert looker._good == good


def test_a_control_that_does_nothing_without_scripts_is_found(chromium, deployed):
    page = "<article><button>dead</button><figure class=kl-fig><span>drawn by a script</span></figure></article>"
    planted = Looker(chromium, deployed.url("latest/"), body=page)
    found = planted.faults("authoring/drift/")
    planted.close()
    assert any(each.startswith("without scripts: a button.") for each in found), found
    assert any("that shows nothing" in each for each in found), found


def test_keyboard_reaches_the_text_first_and_shows_where_it_is(read):
    with read("latest/guides/setup/") as reading:
        page = reading.page
        page.keyboard.press("Tab")
        assert page.evaluate("document.activeElement.matches('.md-skip')")
        page.keyboard.press("Enter")
        page.wait_for_url("**#setup")
        page.locator(".md-tabs__link").first.focus()
        page.keyboard.press("Tab")
        outline = page.evaluate("getComputedStyle(document.activeElement).outlineStyle")
        assert outline == "solid"


PLACE = """() => {
  const box = document.activeElement.getBoundingClientRect()
  return [document.activeElement.closest(".md-sidebar--primary") !== null, box.right <= 0 || box.left >= innerWidth]
}"""


def test_a_closed_drawer_takes_no_focus_and_the_keyboard_opens_it(read):
    with read("latest/labs/3-softmax/", width=390) as reading:
        page, button = reading.page, reading.page.get_by_role("button", name="Navigation", exact=True)
        for _ in range(25):
            page.keyboard.press("Tab")
            assert page.evaluate(PLACE) == [False, False]
        for key in ("Enter", " "):
            button.focus()
            page.keyboard.press(key)
            assert button.get_attribute("aria-expanded") == "true"
            page.locator(".md-sidebar--primary a:visible").last.focus()
            page.wait_for_function("document.activeElement.getBoundingClientRect().right <= 250")  # it slides in
            assert page.evaluate(PLACE) == [True, False]
            page.keyboard.press("Escape")
            assert button.get_attribute("aria-expanded") == "false"
            assert button.evaluate("button => button === document.activeElement")
        assert reading.console == []
    with read("latest/labs/3-softmax/", width=1280) as reading:
        assert reading.page.locator(".md-sidebar--primary a:visible").count() > 3


def test_without_scripts_too_a_closed_drawer_takes_no_focus(read):
    with read("latest/labs/3-softmax/", width=390, java_script_enabled=False) as reading:
        for _ in range(12):
            reading.page.keyboard.press("Tab")
            assert not reading.page.locator(":focus").evaluate("e => e.closest('.md-sidebar--primary') !== null")


COLOURS = """names => {
  const style = getComputedStyle(document.body)
  return Object.fromEntries(names.map(name => [name, style.getPropertyValue(name)]))
}"""


def test_every_scheme_is_printed_in_the_light_one(read):
    css = "".join((ROOT / "docs/assets" / name).read_text() for name in ("site.css", "lessons.css"))
    names = sorted(set(re.findall(r"(--(?:kl|md)-[\w-]+): #", css)))
    assert {"--md-code-fg-color", "--md-code-hl-keyword-color", "--kl-f0", "--kl-e0", "--kl-ink"} <= set(names)
    seen = []
    for scheme in ("light", "dark"):
        with read("latest/labs/3-softmax/", scheme) as reading:
            reading.page.emulate_media(media="print", color_scheme=scheme)
            seen.append(reading.page.evaluate(COLOURS, names))
    assert seen[0] == seen[1]


@pytest.mark.parametrize(("wish", "still"), [("no-preference", False), ("reduce", True)])
def test_motion_is_off_for_readers_who_ask(read, wish, still):
    with read("latest/", reduced_motion=wish) as reading:
        moves = "e => Math.max(...getComputedStyle(e).transitionDuration.split(',').map(parseFloat))"
        assert (reading.page.locator(".md-typeset a").first.evaluate(moves) < 0.001) == still


def test_page_says_what_it_ran_on(read):
    with read("latest/") as reading:
        assert "1 block of code" in reading.page.locator(".kl-ran").inner_text()
        assert reading.page.locator(".kl-ran li").count() == 1
