"""What a reader at a desk meets, under the styles of the theme and ours: whole lines, flush numbers, forced colours."""

from __future__ import annotations

import runpy
from pathlib import Path

import material
import pytest
from site_host import ROOT

from kernels.figures.html import data_table

# One process keeps the browser.
pytestmark = [pytest.mark.browser, pytest.mark.xdist_group("site")]

THEME = Path(material.__file__).parent / "templates/assets/stylesheets"
STYLES = [
    *sorted(THEME.glob("main.*.css")),
    *(ROOT / f"docs/assets/{name}.css" for name in ("lessons", "site", "occupancy")),
]
COLUMN = 976  # pixels that the article has beside the two lists of a window of 1440
FRAME = """<!doctype html><html lang="en" dir="ltr"><meta charset="utf-8"><title>Desk</title><style>{css}</style>
<body data-md-color-scheme="default"><article class="md-typeset" style="width: {width}px">{inside}</article>"""
LINE = "x" * 120
MARK = '<a class="headerlink" href="#top">¶</a>'
CODE = f"<pre><span></span><code>{{}}{LINE}\n</code></pre>"
NUMBER = '<span class="linenos" data-linenos="118 "></span>'
KINDS = {
    "a fence": f'<div class="language-python highlight">{CODE.format("")}</div>',
    "a block": f'<div class="kl-block"><div class="language-python highlight">{CODE.format("")}</div></div>',
    "an excerpt": f'<figure class="kl-excerpt"><div class="highlight">{CODE.format(NUMBER)}</div></figure>',
}


@pytest.fixture
def shown(chromium):
    """`shown(html, width=…, …)`: a page with that HTML in an article of a window of 1440."""
    opened = []
    css = "\n".join(path.read_text("utf-8") for path in STYLES)

    def show(inside: str, width: float = COLUMN, **named):
        page = chromium.new_page(viewport={"width": 1440, "height": 900}, **named)
        opened.append(page)
        page.set_content(FRAME.format(css=css, width=width, inside=inside))
        return page

    yield show
    for page in opened:
        page.close()


@pytest.mark.parametrize("kind", KINDS)
def test_a_line_of_120_characters_is_whole(shown, kind):
    code = shown(KINDS[kind]).locator("code")
    assert code.evaluate("e => e.scrollWidth - e.clientWidth") <= 0
    assert float(code.evaluate("e => parseFloat(getComputedStyle(e).fontSize)")) >= 12  # and can be read


def test_a_command_is_wrapped_beside_its_button_and_a_program_is_not(shown):
    command = (
        '<div class="highlight"><pre><span></span><code>kernel-bench<span class="w"> </span>{}\n</code></pre></div>'
    )
    inside = command.format("--shape 4096x4096x4096 " * 9) + command.format(f'<span class="k">for</span> {LINE}{LINE}')
    over = shown(inside).locator("code").evaluate_all("all => all.map(e => e.scrollWidth > e.clientWidth)")
    assert over == [False, True]


@pytest.mark.parametrize("level", ["h1", "h2", "h3"])
def test_a_heading_that_fills_its_line_has_one(shown, level):
    def height(mark: str, width: float) -> float:
        return (
            shown(f"<{level}><span>A heading, long</span>{mark}</{level}>", width)
            .locator(level)
            .bounding_box()["height"]
        )

    page = shown(f"<{level}><span>A heading, long</span></{level}>")
    full = page.locator("span").bounding_box()["width"] + 1
    assert height(MARK, full) == height("", full)


def test_a_table_of_markdown_is_closed_by_a_rule(shown):
    rows = "<tr><td>a</td></tr><tr><td>b</td></tr>"
    page = shown(f'<div class="kl-wide"><table><thead><tr><th>x</th></tr></thead><tbody>{rows}</tbody></table></div>')
    widths = page.locator("td").evaluate_all("all => all.map(e => getComputedStyle(e).borderBottomWidth)")
    assert widths == ["0px", "1px"]


def test_a_formula_stands_in_the_middle_of_the_text(shown):
    short, long = ("<mi>n</mi>" * count for count in (3, 200))
    words = "word " * 60
    page = shown(
        f"<p>{words}</p>"
        + "".join(
            f'<div class="kl-formula"><math display="block"><mrow>{each}</mrow></math></div>' for each in (short, long)
        )
    )
    text = page.locator("p").bounding_box()
    drawn = page.locator("mrow").first.bounding_box()
    assert abs(drawn["x"] + drawn["width"] / 2 - text["x"] - text["width"] / 2) < 2
    assert page.locator(".kl-formula").last.evaluate("e => e.scrollWidth > e.clientWidth")  # and is scrolled
    assert page.locator("article").evaluate("e => e.scrollWidth <= e.clientWidth")


def test_numbers_handed_over_as_text_stand_flush_right_and_days_are_whole(shown):
    rows = [
        (1, "47%", "4.6 s", "on 2026-11-30", "2 of 3"),
        (2, None, "13.1 s", "x", "10 of 30"),
        (3, "100.0%", "–", "7", "7"),
    ]
    table = data_table(
        ("n", "a share of the whole", "took", "words", "both"), rows, "A table", groups=[("one", 2), ("two", 1)]
    )
    page = shown(runpy.run_path(str(ROOT / "docs/.theme/typesetting.py"))["on_page_content"](table), width=420)
    sides = page.locator("tr:not(.kl-group)").evaluate_all(
        "rows => rows.map(row => [...row.cells].map(cell => getComputedStyle(cell).textAlign).join(' '))"
    )
    assert sides == ["right right right left left"] * 4
    assert page.locator("thead .kl-head").count() == 1  # it keeps what it was
    assert page.get_by_text("2026-11-30", exact=True).evaluate("e => getComputedStyle(e).whiteSpace") == "nowrap"


@pytest.mark.parametrize("state", ["still", "focused"])
def test_where_colours_are_forced_a_button_can_be_read(shown, state):
    page = shown(
        '<a class="md-button md-button--primary" href="#x">Begin</a>', forced_colors="active", color_scheme="dark"
    )
    button = page.locator(".md-button")
    if state == "focused":
        button.focus()
    found = button.evaluate(
        "e => { const s = getComputedStyle(e); return [s.color, s.backgroundColor, s.forcedColorAdjust] }"
    )
    system = page.evaluate(
        """() => ["HighlightText", "Highlight"].map(name => {
            const e = document.body.appendChild(document.createElement("i"))
            e.style = `forced-color-adjust: none; color: ${name}`
            return getComputedStyle(e).color
        })"""
    )
    assert found == [*system, "none"]


def test_where_colours_are_forced_the_tab_of_the_page_has_a_line(shown):
    page = shown(
        '<li class="md-tabs__item">a</li><li class="md-tabs__item md-tabs__item--active">b</li>', forced_colors="active"
    )
    lines = page.locator("li").evaluate_all("all => all.map(e => getComputedStyle(e).borderBottomWidth)")
    assert lines == ["0px", "2px"]


def test_on_paper_the_lines_of_a_stepper_are_whole(shown):
    lines = "\n".join(
        f'<span data-line="{i}">{words}</span>' for i, words in ((1, f"{LINE} {LINE}"), (2, "y"), (3, "z"))
    )
    source = f'<pre class="kl-stepper__source"><code>{lines}</code></pre>'
    page = shown(f'<figure class="kl-fig kl-fig--stepper">{source}</figure>', width=600)
    assert page.locator("pre").evaluate("e => e.scrollWidth > e.clientWidth")
    page.emulate_media(media="print")
    assert page.locator("pre").evaluate("e => e.scrollWidth <= e.clientWidth")
    tops = page.locator("pre span").evaluate_all("all => all.map(e => e.getBoundingClientRect().top)")
    assert tops[2] - tops[1] < 30  # no empty line between them


def test_on_paper_the_home_page_has_one_column(shown):
    page = shown('<div class="kl-home"><div>words</div><div>picture</div></div>')
    assert page.locator(".kl-home").evaluate("e => getComputedStyle(e).display") == "grid"
    page.emulate_media(media="print")
    assert page.locator(".kl-home").evaluate("e => getComputedStyle(e).display") == "block"


def test_no_frame_stands_in_a_frame(shown):
    calculator = '<div class="kl-occupancy">calculator</div>'
    page = shown(f'<div class="kl-block"><figure>{calculator}</figure></div>{calculator}')
    widths = page.locator(".kl-occupancy").evaluate_all("all => all.map(e => getComputedStyle(e).borderTopWidth)")
    assert widths == ["0px", "1px"]
