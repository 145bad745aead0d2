"""Tables and outputs on a phone: nothing that a reader came for lies out of sight."""

from __future__ import annotations

import re
import runpy

import pytest
from site_host import ROOT

from kernels.figures.html import data_table

pytestmark = [pytest.mark.browser, pytest.mark.xdist_group("site")]

SENTENCE = "Read it from the top: every line is a sentence, and the last column is the one that a reader came for."
ROWS = [("first", "a short one", SENTENCE), ("second", "another", SENTENCE)]
HOOK = ROOT / "docs/.theme/typesetting.py"
FRAME = """<!doctype html><html lang="en"><title>T</title><meta name="viewport" content="width=device-width">
<style>pre > code {{ display: block; overflow: auto }}
{css}</style><body data-md-color-scheme="default"><article class="md-typeset">{inside}</article>"""


@pytest.fixture
def shown(chromium):
    """`shown(html, width)`: a page with the HTML as the hook of the site sets it, in a window of that width."""
    opened = []

    def show(inside: str, width: int):
        css = "\n".join((ROOT / "docs/assets" / f"{name}.css").read_text("utf-8") for name in ("lessons", "site"))
        page = chromium.new_page(viewport={"width": width, "height": 900})
        opened.append(page)
        page.set_content(FRAME.format(css=css, inside=runpy.run_path(str(HOOK))["on_page_content"](inside)))
        return page

    yield show
    for page in opened:
        page.close()


def overflow(page, selector: str) -> int:
    return page.locator(selector).evaluate("e => e.scrollWidth - e.clientWidth")


def roles(page) -> dict[str, list[str]]:
    """Names of what a screen reader meets, by role, from the browser's own tree."""
    tree = page.context.new_cdp_session(page).send("Accessibility.getFullAXTree")["nodes"]
    found: dict[str, list[str]] = {}
    for node in tree:
        if not node.get("ignored"):
            found.setdefault(node["role"]["value"], []).append(node.get("name", {}).get("value", ""))
    return found


def test_a_table_of_sentences_stands_cell_below_cell_on_a_phone(shown):
    page = shown(data_table(("what", "how", "why"), ROWS, "Why"), 390)
    assert overflow(page, ".kl-scroll") <= 0
    left = page.locator("td").evaluate_all("all => all.map(e => Math.round(e.getBoundingClientRect().left))")
    assert len(left) == 4 and len(set(left)) == 1
    label = page.locator("td").nth(1).evaluate("e => getComputedStyle(e, '::before').content")
    assert "why:" in label


def test_its_rows_and_cells_are_still_those_of_a_table(shown):
    found = roles(shown(data_table(("what", "how", "why"), ROWS, "Why"), 390))
    assert len(found["table"]) == 1 and len(found["row"]) >= 2
    assert found["rowheader"] == ["first", "second"] and len(found["cell"]) == 4
    assert found["cell"][1].startswith("why:") and SENTENCE in found["cell"][1]


def test_it_is_a_table_where_there_is_room(shown):
    page = shown(data_table(("what", "how", "why"), ROWS, "Why"), 1280)
    tops = page.locator("td").evaluate_all("all => all.map(e => Math.round(e.getBoundingClientRect().top))")
    assert tops[0] == tops[1] < tops[2] == tops[3] and page.locator("thead").is_visible()


def test_numbers_are_compared_down_a_column_on_a_phone_too(shown):
    page = shown(data_table(("shape", "ours", "theirs"), [("4096", 1.0, 2.0), ("8192", 3.0, 4.0)], "Times"), 390)
    assert page.locator("thead").is_visible() and page.locator(".kl-table--stack").count() == 0


def block(text: str) -> str:
    output = f'<div class="language-text highlight"><pre><span></span><code>{text}\n</code></pre></div>'
    return f'<div class="kl-block kl-block--text">{output}\n<div class="kl-block__bar">bar</div></div>'


@pytest.mark.parametrize("width", [390, 1280])
def test_a_printed_sentence_wraps_beside_columns_that_scroll(shown, width):
    columns = "  ".join(f"{i:>12,}" for i in range(0, 20_000, 1_000))
    page = shown(block(f"a  b\n{SENTENCE} {SENTENCE}"), width)
    assert overflow(page, "pre > code") <= 0
    page = shown(block(f"{SENTENCE} {SENTENCE} {SENTENCE}\n{columns}"), width)
    assert overflow(page, "pre > code") > 0
    assert page.locator(".kl-says").evaluate("e => e.getBoundingClientRect().height") > 30
    shown_text = page.locator("pre > code").inner_text()
    columns, shown_text = (re.sub(" +", " ", each) for each in (columns, shown_text))  # a phone leaves out blanks
    assert columns in shown_text and shown_text.count("\n") <= 3


def test_an_empty_cell_of_markdown_takes_no_line_on_a_phone(shown):
    heads = "<th>question</th><th>yours</th><th>command</th><th>result</th>"
    cells = f"<td>{SENTENCE}</td><td></td><td>A</td><td></td>"
    table = f"<table><thead><tr>{heads}</tr></thead><tbody><tr>{cells}</tr></tbody></table>"
    page = shown(f'<div class="kl-wide">{table}</div>', 390)
    assert [cell.is_visible() for cell in page.locator("tbody td").all()] == [True, False, True, False]
    assert overflow(page, ".kl-wide") <= 0


RATIOS = "\n".join(
    f"{name:<28}{shape:<18}{ratio:>8}"
    for name, shape, ratio in [("softmax", "4,096 x 1,024", "1.02"), ("softmax_backward", "131,072 x 128", "0.98")]
)
WRAPPED = (
    "likely cause   A row begins at a row times the stride, and here it begins where\n"
    "               the row before it ends"
)


def test_no_number_of_a_row_is_out_of_sight_on_a_phone_and_a_wide_page_keeps_the_columns(shown):
    text = shown(block(RATIOS), 1280).locator("pre > code").inner_text()
    assert text.rstrip("\n") == RATIOS
    page = shown(block(RATIOS), 390)
    assert overflow(page, "pre > code") <= 0 and "0.98" in page.locator("pre > code").inner_text()
    page = shown(block("a" + " " * 40 + "1\nb" + " " * 40 + "2"), 390)  # blanks alone are left out
    assert overflow(page, "pre > code") <= 0 and page.locator(".kl-row").count() == 0


TABLE = """values                     median µs  spread µs  TFLOP/s  of random
zeros and nothing else        1442.4       7.33    762.3      0.993
a random number               1452.2      13.86    757.1      1.000"""
LISTS = """  what every lane gets of the lanes:
  __shfl_down_sync  [16 17 18 19] … [29 30 31 31]
  __shfl_xor_sync   [16 17 18 19] … [13 14 15 14]"""
LIKE_WORDS = """   1 row:  fused     16.8 µs, 3.50 TB/s of weights; ahead of cuBLAS by 1.83
   2 rows: fused    133.8 µs, 0.44 TB/s of weights; behind cuBLAS by 4.36"""


@pytest.mark.parametrize("columns", [TABLE, LISTS], ids=["figures", "lists"])
def test_printed_columns_stay_columns_on_a_phone_under_an_arrow_that_says_that_they_go_on(shown, columns):
    """Looked at in a picture, as that of a table is: is the strip over the right end blank?"""
    page = shown(block(columns), 390)
    page.add_style_tag(content="html { font-size: 125% }")
    code = page.locator("pre > code")
    assert overflow(page, "pre > code") > 0 and page.locator(".kl-row").count() == 0

    def marked() -> bool:
        box = code.bounding_box()
        strip = {"y": box["y"] + 4, "width": 18, "height": 10}  # inside of the round corner
        left, right = ({"x": box["x"] + x, **strip} for x in (40, box["width"] - 22))
        return page.screenshot(clip=right) != page.screenshot(clip=left)

    assert marked()
    code.evaluate("e => e.scrollTo(e.scrollWidth, 0)")
    assert not marked()
    wide = shown(block(columns), 1280).locator("pre > code")
    assert wide.inner_text().rstrip("\n") == columns


def test_words_that_only_look_like_columns_wrap(shown):
    page = shown(block(LIKE_WORDS), 390)
    assert overflow(page, "pre > code") <= 0 and page.locator(":is(.kl-row, .kl-says)").count() == 2
    assert page.locator(".kl-columns").count() == 0


def test_what_a_program_has_wrapped_is_wrapped_once_on_a_phone(shown):
    text = shown(block(WRAPPED), 1280).locator("pre > code").inner_text()
    assert text.rstrip("\n") == WRAPPED
    page = shown(block(WRAPPED), 390)
    assert overflow(page, "pre > code") <= 0
    height = "e => e.getBoundingClientRect().height / parseFloat(getComputedStyle(e).lineHeight)"
    lines = page.locator(".kl-turns").evaluate(height)
    assert round(lines) <= 4  # of 115 characters: each line is full


def test_code_is_scrolled_and_not_wrapped(shown):
    code = "\n".join(f"        /*{i:04x}*/    IMAD.WIDE.U32.X R{i}, R{i}, 0x4, c[0x0][0x210] ;" for i in range(3))
    assert overflow(shown(block(code), 390), "pre > code") > 0


def test_what_a_group_of_rows_is_about_is_in_sight_on_a_phone(shown):
    heads = ("way", *(f"a number of {i}" for i in range(9)))
    groups = [("4 × 16 heads of 128, 4,096 long, causal, bfloat16", 1)]
    table = data_table(heads, [("ours", *range(9))], "Times", groups)
    page = shown(table, 390)
    assert overflow(page, ".kl-scroll") > 0
    box = page.locator(".kl-over").bounding_box()
    assert box["x"] >= 0 and box["x"] + box["width"] <= 390


CHECKED = """FAIL  strides  (lessons_src/exercises/strides.py)
  element [0] is 0.102771685, and should be 0.126410825 within 7.75e-07: they are 0.0236
  apart
  cell     |   3 |   4 |   5 | 6 | 7 |   8 |   9 | 10 | 11 | 12 |
                               ^
  make serve     http://localhost:8000/lessons/2-strides/#what-goes-wrong
1 more check failed; mend the first one first.

  edit           lessons_src/exercises/strides.py
  a hint         lessons check strides --hint"""


def test_a_verdict_is_wrapped_on_a_phone_and_its_drawing_is_not(shown):
    page = shown(block(CHECKED), 390)
    text = page.locator("pre > code").inner_text()
    assert "they are 0.0236 apart" in re.sub(r"\s+", " ", text) and "| 12 |" in text
    drawn = [line for line in text.splitlines() if "|" in line or "^" in line]
    assert drawn == CHECKED.splitlines()[3:5]
    assert "a hint  lessons check" in text
    wrapped = page.locator(":is(.kl-says, .kl-row, .kl-turns)")
    ends = wrapped.evaluate_all("all => all.map(e => e.getBoundingClientRect().right)")
    assert len(ends) >= 4 and max(ends) <= 390
    labels = "FAIL  strides  (lessons_src/exercises/strides.py)\n"
    labels += "  FAIL        every weight is written once, by its own row\n  PASS        no row is left"
    text = shown(block(labels), 390).locator("pre > code").inner_text()
    assert re.search(r"FAIL  every", text) and re.search(r"PASS  no row", text)  # both in the same way
    wide = shown(block(CHECKED), 1280).locator("pre > code").inner_text()
    assert wide.rstrip("\n") == CHECKED


def test_what_ends_a_sentence_goes_on_in_no_other_line(shown):
    """Two lines of one length may be two sentences; and a sentence may quote an assignment."""
    said = "  The plan and triton[path=looped] do not differ by more than their spreads."
    quoting = "out-of-bounds: Program 1 reads x[257]. Line: `x = tl.load(x_ptr + offsets)`"
    for width in (390, 1280):
        page = shown(block(f"{said}\n{said}\n{quoting}"), width)
        assert overflow(page, "pre > code") <= 0
        assert page.locator(".kl-turns").count() == 0 and page.locator(".kl-says").count() == 3


def test_an_address_behind_a_label_is_whole_on_a_wide_page(shown):
    address = "http://localhost:8000/workshops/a1-mergeable-statistics/" + "#nothing-and-masked-parts" * 3
    page = shown(block(f"  read           docs/a.md\n  make serve     {address}"), 1280)
    assert overflow(page, "pre > code") <= 0 and address in page.locator("pre > code").inner_text()


def test_what_goes_on_stands_behind_the_beginning_of_its_line(shown):
    page = shown(block(f"  PASS        {SENTENCE}\n{SENTENCE}"), 390)
    places = page.locator("pre .kl-says").evaluate_all(
        """all => all.map(e => { const r = document.createRange(); r.selectNodeContents(e);
            const all = [...r.getClientRects()], below = all.filter(b => b.top > all[0].top);
            return below[0].left - all[0].left })"""
    )
    width = page.locator("pre > code").evaluate("e => parseFloat(getComputedStyle(e).fontSize) * .6")
    assert places[0] > 3 * width and width < places[1] < 3 * width


LINES = """([selector, words]) => [...document.querySelectorAll(selector)].map((e, i) => {
  const range = document.createRange(), texts = document.createTreeWalker(e, NodeFilter.SHOW_TEXT), at = []
  for (let text; (text = texts.nextNode()); ) for (let i = 0; i < text.length; i++) at.push([text, i])
  const whole = at.map(([text, i]) => text.data[i]).join("")
  return words[i % words.length].map(words => {
    const first = whole.indexOf(words), [text, last] = at[first + words.length - 1]
    range.setStart(...at[first])
    range.setEnd(text, last + 1)
    return new Set([...range.getClientRects()].filter(r => r.width).map(r => Math.round(r.top / 6))).size
  })
})"""
VALUE = '<span class="kl-value" title="computed: x">'
TORN = {  # what a line must not tear, and the HTML that it stands in
    "1.41 GHz": "1.41 GHz",
    "62,914,560 bytes": "62,914,560 bytes",
    "1,577.3 μs": "1,577.3 μs",
    "3.3 %": "3.3 %",
    "1.9e-04": "1.9e-04",
    "32 × 8 × 16": "32 × 8 × 16",
    "1020–1023": "1020–1023",
    "N = 16384": "N = 16384",
    "--no-strict": "--no-strict",
    "668 TFLOP/s": f"{VALUE}668</span> TFLOP/s",
}


@pytest.mark.parametrize("frame", ["p", "td", "pre > code"])
def test_no_line_tears_a_number_from_its_unit(shown, frame):
    """Behind a word that grows letter by letter, the end of a line falls on each of their places once."""
    within = {"p": "<p>{}</p>", "td": "<table><tr><td>{}</td></tr></table>", "pre > code": block("{}")}[frame]
    torn = [words for words in TORN if frame != "pre > code" or "<" not in TORN[words]]  # no value in an output
    said = [
        f"{'m' * more} {TORN[words]} is what it takes for all of the rows" for more in range(8, 40) for words in torn
    ]
    page = shown("".join(map(within.format, said)), 300)
    page.add_style_tag(content="p, td { overflow-wrap: anywhere } table { width: 260px; table-layout: fixed }")
    lines = page.evaluate(LINES, [frame, [[words] for words in torn]])
    assert len(lines) == len(said) and [said[i] for i, found in enumerate(lines) if found != [1]] == []


@pytest.mark.parametrize(
    "name", ["cudaFuncAttributeMaxDynamicSharedMemorySize", "kernels.bench.a_module.of_that_name:go"]
)
def test_a_name_that_fits_into_no_line_is_broken_between_its_words(shown, name):
    page = shown(f"<p>It asks for <code>{name}</code> at the launch.</p>", 300)
    page.add_style_tag(content=".md-typeset code { word-break: break-word }")
    whole, *parts = page.evaluate(LINES, ["code", [[name, *re.findall(r"[A-Z]?[a-z]+", name)]]])[0]
    assert whole > 1 and set(parts) == {1}
    assert page.locator("code").inner_text() == name


def test_a_command_of_an_output_is_broken_at_no_hyphen_and_a_path_behind_a_stroke(shown):
    words = ["--trace", "--stats", "--force-overwrite", "profile_with_torch.py"]
    command = "--trace=cuda --stats=true --force-overwrite lessons_src/examples/profile_with_torch.py"
    page = shown("".join(block(f"{'m' * more} {command}") for more in range(8, 40)), 390)
    assert page.evaluate(LINES, ["pre > code", [words]]) == [[1, 1, 1, 1]] * 32


def test_a_computed_sentence_is_not_underlined_and_a_number_is(shown):
    page = shown(f"<p>{VALUE}{SENTENCE}</span></p><p>{VALUE}17</span></p>", 390)
    line = "e => getComputedStyle(e).borderBottomStyle"
    assert [each.evaluate(line) for each in page.locator(".kl-value").all()] == ["none", "solid"]


WIDE = data_table([f"a number of {i}" for i in range(9)], [range(9)], "Times")
PLAIN = f"<table><thead><tr>{''.join(f'<th>a_long_heading_{i}</th>' for i in range(5))}</tr></thead></table>"
GOES_ON = {
    "figure": (f'<div class="kl-block">{WIDE}</div>', True),
    "plain": (f'<p>Text.</p><div class="kl-wide">{PLAIN}</div>', True),
    "fits": (f'<div class="kl-block">{data_table(["a", "b"], [(1, 2)], "Few")}</div>', False),
}


@pytest.mark.parametrize("scheme", ["default", "slate"])
@pytest.mark.parametrize("table", GOES_ON)
def test_a_table_that_goes_on_says_so_over_its_edge_until_the_edge_is_reached(shown, table, scheme):
    """Looked at in pictures, since it is a background that says so: is the strip over the table's right end blank?"""
    inside, goes_on = GOES_ON[table]
    page = shown(inside, 390)
    page.evaluate("scheme => { document.body.dataset.mdColorScheme = scheme }", scheme)
    page.add_style_tag(content="body { background: var(--kl-paper) }")
    box = page.locator(":is(.kl-scroll, .kl-wide)").first

    def marked() -> bool:
        place = box.bounding_box()
        strip = {"y": place["y"] + 1, "width": 60, "height": 13}
        left, right = ({"x": place["x"] + x, **strip} for x in (20, place["width"] - 66))
        return page.screenshot(clip=right) != page.screenshot(clip=left)

    assert page.locator("th").first.bounding_box()["y"] >= box.bounding_box()["y"] + 14, "it stands over no cell"
    assert marked() is goes_on
    box.evaluate("e => e.scrollTo(e.scrollWidth, 0)")
    assert marked() is False


CONTROLS = """<div class="kl-block"><div class="kl-block__bar"><details class="kl-scratch"><summary>Scratch</summary>
</details><button class="kl-copy">Copy</button></div></div><details class="kl-data"><summary>Numbers</summary></details>
<details class="question"><summary>Why?</summary></details><div class="kl-here"><p><a href="/">Home</a></p></div>
<div class="kl-stepper__buttons"><button class="kl-button">Next</button></div>
<div class="kl-stepper__slider"><label for="a">Step</label><input type="range" id="a"></div>
<div class="kl-explore__controls"><select><option>1</option></select></div>
<div class="kl-yours__drop"><input type="file"></div><div class="kl-predict"><textarea rows="1"></textarea></div>
<pre><nav class="md-code__nav"><button class="md-code__button"></button></nav><code>make</code></pre>"""
SIZES = """() => [...document.querySelectorAll("a, button, summary, input, select, textarea")].map(e => {
  const box = e.getBoundingClientRect()
  return [e.outerHTML.slice(0, 60), Math.min(box.height, box.width)]
})"""


@pytest.mark.parametrize("touch", [True, False])
def test_a_thumb_meets_what_it_is_to_meet(chromium, touch):
    css = "".join((ROOT / f"docs/assets/{name}.css").read_text("utf-8") for name in ("lessons", "site"))
    context = chromium.new_context(viewport={"width": 390, "height": 900}, has_touch=touch, is_mobile=touch)
    page = context.new_page()
    page.set_content(FRAME.format(css="html { font-size: 125% }" + css, inside=CONTROLS))
    small = [each for each in page.evaluate(SIZES) if each[1] < 43.9]
    context.close()
    assert bool(small) is not touch, small  # a mouse keeps the small ones


LONG = "kernel-bench --op softmax --shape 16384x4096 --dtype float32 --output results/local/softmax.json"
BUTTON = '<nav class="md-code__nav"><button class="md-code__button"></button></nav>'
COMMAND = f'<div class="highlight"><pre>{BUTTON}<code>{LONG}\nmake site\n</code></pre></div>'
COVERED = """() => [...document.querySelectorAll(".md-code__nav")].map(nav => {
  const range = document.createRange(), button = nav.getBoundingClientRect(), code = nav.nextElementSibling
  const rects = [...code.textContent.matchAll(/\\S+/g)].flatMap(word => { // a blank at the end of a line may lie there
    range.setStart(code.firstChild, word.index)
    range.setEnd(code.firstChild, word.index + word[0].length)
    return [...range.getClientRects()]
  })
  const within = b => b.right > button.left && b.left < button.right && b.bottom > button.top && b.top < button.bottom
  return rects.some(within) || code.scrollWidth > code.clientWidth
})"""


@pytest.mark.parametrize("inside", [COMMAND, f"<ol><li>{COMMAND}</li></ol>"], ids=["alone", "in a list"])
@pytest.mark.parametrize("touch", [True, False])
def test_the_button_that_copies_covers_no_part_of_a_long_command(chromium, inside, touch):
    css = "".join((ROOT / f"docs/assets/{name}.css").read_text("utf-8") for name in ("lessons", "site"))
    css = "html { font-size: 125% } pre { position: relative } .md-code__nav { position: absolute; right: 4px }" + css
    context = chromium.new_context(viewport={"width": 390, "height": 900}, has_touch=touch, is_mobile=touch)
    page = context.new_page()
    page.set_content(FRAME.format(css=css, inside=inside))
    if not touch:
        page.add_style_tag(content=".md-code__button { width: 30px; height: 30px }")
    covered = page.evaluate(COVERED)
    context.close()
    assert covered == [False]


def test_the_button_that_chooses_files_is_one_of_the_site(chromium):
    css = "".join((ROOT / f"docs/assets/{name}.css").read_text("utf-8") for name in ("lessons", "site"))
    page = chromium.new_page()
    page.set_content(FRAME.format(css=css, inside=CONTROLS))
    of = ("backgroundColor", "borderTopWidth", "borderTopColor", "color")
    look = f"(e, part) => (s => [{', '.join(f's.{each}' for each in of)}])(getComputedStyle(e, part))"
    chooser = page.locator("input[type=file]").evaluate(look, "::file-selector-button")
    assert chooser == page.locator(".kl-button").evaluate(look, None)
    page.close()


def test_the_strip_over_a_table_covers_no_frame_for_files(shown):
    drop = '<div class="kl-yours__drop"><input type="file"></div>'
    page = shown(f'<figure class="kl-fig kl-fig--yours">{drop}<div class="kl-yours__ours">{WIDE}</div></figure>', 390)
    above, below = (page.locator(each).bounding_box() for each in (".kl-yours__drop", ".kl-scroll"))
    assert above["y"] + above["height"] <= below["y"]


def test_an_owners_range_stands_in_one_line_with_its_name(shown):
    owner = '<li class="kl-c0"><b>program 0</b><span>out[<span class="kl-whole">0–255</span>]</span></li>'
    page = shown(f'<ol class="kl-strip">{owner}</ol>', 390)
    heights = page.evaluate("[...document.querySelectorAll('li > *')].map(e => e.getBoundingClientRect().height)")
    assert heights[1] < 1.5 * heights[0], heights
