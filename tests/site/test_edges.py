"""What goes on to the side has a shadow at that edge, and none where its end is reached; sentences do not go there."""

from __future__ import annotations

import pytest
from site_host import ROOT

from kernels.figures import data_table

# One process keeps the browser.
pytestmark = [pytest.mark.browser, pytest.mark.xdist_group("site")]

FRAME = """<!doctype html><html lang="en" data-md-color-scheme="{scheme}"><meta charset="utf-8"><title>Edges</title>
<style>{css} body {{ width: 400px; background: var(--kl-paper); font-size: 20px }}
pre > code {{ display: block; overflow: auto }} .kl-wide, .kl-scroll {{ height: 90px; white-space: nowrap }}</style>
<main class="md-typeset">{body}</main>"""
LONG = "a line that is longer than its frame, by far, and goes on to the side, where nobody sees its end"
CODE = "<pre><code>{}\n\n\nlast</code></pre>"
KINDS = {
    "code": ("pre > code", CODE),
    "output": (
        "pre > code",
        f'<div class="kl-block"><div class="highlight"></div><div class="highlight">{CODE}</div></div>',
    ),
    "table": (".kl-wide", '<div class="kl-wide"><span>{}</span></div>'),
    "figure": (".kl-scroll", '<div class="kl-scroll"><span>{}</span></div>'),
}


@pytest.mark.parametrize("scheme", ["default", "slate"])
@pytest.mark.parametrize("kind", KINDS)
def test_a_shadow_says_that_there_is_more(chromium, kind, scheme):
    selector, body = KINDS[kind]
    css = "".join((ROOT / f"docs/assets/{name}.css").read_text() for name in ("lessons", "site"))
    page = chromium.new_page(viewport={"width": 500, "height": 400})

    def edges(words: str, scrolled: float) -> tuple[bytes, bytes]:
        """Pictures of a strip at either edge, in a row of pixels without words."""
        page.set_content(FRAME.format(scheme=scheme, css=css, body=body.format(words)))
        box = page.locator(selector).last
        box.evaluate("(node, part) => node.scrollLeft = part * (node.scrollWidth - node.clientWidth)", scrolled)
        place = box.bounding_box()
        at = {"y": place["y"] + 45, "width": 4, "height": 4}
        left, right = place["x"], place["x"] + place["width"] - 4
        return page.screenshot(clip={"x": left, **at}), page.screenshot(clip={"x": right, **at})

    plain = edges("short", 0)
    assert plain[0] == plain[1]
    begin, middle, end = (edges(LONG, part) for part in (0, 0.5, 1))
    assert [shot == plain[0] for shot in begin] == [True, False]
    assert [shot == plain[0] for shot in middle] == [False, False]
    assert [shot == plain[0] for shot in end] == [False, True]
    page.close()


@pytest.mark.parametrize("width", [390, 1000])
def test_a_table_of_sentences_has_a_row_a_cell_on_a_phone(chromium, width):
    css = "".join((ROOT / f"docs/assets/{name}.css").read_text() for name in ("lessons", "site"))
    rows = [("it is faster", "refuted", f"of {LONG}"), ("it is even", "observed", LONG)]
    table = data_table(("sentence", "what it is", "evidence"), rows, "What was seen", stack=True)
    page = chromium.new_page(viewport={"width": width, "height": 600})
    page.set_content(FRAME.format(scheme="default", css=css, body=table).replace("400px", "auto"))
    narrow = width < 720
    tall = page.evaluate(
        "[...document.querySelectorAll('tbody tr:first-child > *')].map(e => e.getBoundingClientRect().y)"
    )
    assert len(set(tall)) == (3 if narrow else 1)
    headings = "[...document.querySelectorAll('td')].map(e => getComputedStyle(e, '::before').content)"
    assert page.evaluate(headings)[:2] == (['"what it is: "', '"evidence: "'] if narrow else ["none"] * 2)
    assert page.locator("thead").is_visible() is not narrow
    assert page.evaluate("document.querySelector('caption').offsetTop > document.querySelector('tbody').offsetTop")
    if narrow:
        assert page.evaluate("(e => e.scrollWidth <= e.clientWidth)(document.querySelector('.kl-scroll'))")
    page.close()
