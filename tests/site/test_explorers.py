"""Explorers in a browser: what the script says of a case is what Python's table says of it."""

from __future__ import annotations

import random
import re
from math import log2

import pytest
from site_host import ROOT, script_of, scripts_of

from kernels.figures import access_explorer, merge_explorer, roofline_explorer, tile_explorer
from kernels.figures.banks import passes
from kernels.figures.explorers import access, merged
from kernels.figures.html import number

# One process keeps the browser.
pytestmark = [pytest.mark.browser, pytest.mark.xdist_group("site")]

FRAME = """<!doctype html><html lang="en"><meta charset="utf-8"><title>An explorer</title>
<link rel="icon" href="data:,"><style>{css}</style><main><h1>An explorer</h1>{figure}</main><script>{script}</script>"""
ROOFS = roofline_explorer([("float16", 900.0, 2), ("float32", 60.0, 4)], 4000.0, (4096, 4096, 4096))
VALUES = [1, 3, 2, 0.5, 2.5, 4, -1, 0, 6]


@pytest.fixture
def show(chromium):
    """`show(figure, width)`: a page with the figure and the script; errors of the script fail."""
    contexts, faults = [], []

    def shown(html: str, width: int = 1000, **named):
        context = chromium.new_context(viewport={"width": width, "height": 900}, **named)
        contexts.append(context)
        page = context.new_page()
        page.on("pageerror", lambda error: faults.append(str(error)))
        css = (ROOT / "docs/assets/lessons.css").read_text()
        page.set_content(FRAME.format(css=css, script=script_of("explorers"), figure=html))
        return page

    yield shown
    for context in contexts:
        context.close()
    assert faults == []


def move(page, label: str, place: int) -> None:
    page.get_by_role("slider", name=label, exact=True).fill(str(place))


def choose(page, label: str, words: str) -> None:
    page.get_by_role("combobox", name=label, exact=True).select_option(label=words)


def said(page) -> str:
    return page.locator(".kl-stepper__say").inner_text()


@pytest.mark.parametrize("size", [4, 8, 16])
def test_sectors_and_passes_are_those_of_a_traced_request(show, size):
    page = show(access_explorer(size=size))
    for offset in (0, 5):
        move(page, "Offset", offset)
        for stride in (0, 1, 2, 3, 16, 32, 33):
            move(page, "Step", stride)
            choose(page, "Memory", "global")
            found = access(stride, offset, size, "global")
            sectors = len(found.sectors)
            words = f"{sectors} sector{'s' * (sectors != 1)}, {found.sector_bytes:,} bytes moved"
            assert words in said(page), (stride, offset)
            assert f"{number(100 * found.efficiency)}% of them used" in said(page)
            choose(page, "Memory", "shared")
            turns = len(passes(access(stride, offset, size, "shared")))
            assert f": {turns} pass{'es' * (turns != 1)} over" in said(page), (stride, offset)
            assert page.locator("svg text", has_text=re.compile("^pass ")).count() == turns


def test_tiles_say_what_is_read_and_owned(show):
    page = show(tile_explorer(127, 255, 65, tile=(32, 64, 32)))
    assert "Each element of A is read 4 times, each of B 4 times" in said(page)
    move(page, "Program", 5)
    move(page, "Step", 2)
    assert said(page).startswith(
        "Program 5 of 16 owns rows 32–63, columns 64–127 of C. Step 3 of 3 loads column 64 of A and the same rows of B."
    )
    assert said(page).endswith(" Past the edge, and masked off: 31 columns of A and 31 rows of B.")
    drawn = page.locator("svg").text_content()
    assert "past the edge, masked off" in drawn and page.locator("svg path.kl-masked").count() == 2 + 1
    assert "loaded in this step" in drawn and "its tile of C" in drawn
    move(page, "Step", 0)
    assert "Past the edge" not in said(page) and page.locator("svg path.kl-masked").count() == 0
    move(page, "Tile columns", 0)
    assert "Each element of A is read 32 times, each of B 4 times" in said(page)
    loaded = (127 * 65 * 32 + 65 * 255 * 4) * 4
    assert f"{loaded:,} bytes in all" in said(page)
    move(page, "Program", 127)
    move(page, "Tile rows", 5)  # fewer programs than the chosen one: the last there is
    assert said(page).startswith("Program 31 of 32")


@pytest.mark.parametrize("width", [390, 1280])
def test_what_lies_past_an_edge_is_drawn_past_it_and_in_view(show, width):
    page = show(tile_explorer(127, 255, 65, tile=(32, 64, 32)), width)
    move(page, "Program", 15)
    move(page, "Step", 2)
    assert said(page).endswith("masked off: 31 columns of A and 31 rows of B; 1 row of A and C; 1 column of B and C.")
    inside = """() => { const svg = document.querySelector("svg").getBoundingClientRect()
      return [...document.querySelectorAll("svg path")].map(e => e.getBoundingClientRect()).every(
        r => r.left >= svg.left - 1 && r.right <= svg.right + 1 && r.bottom <= svg.bottom + 1) }"""
    assert page.evaluate(inside)
    edges = """() => {
      const [a, past] = ["kl-cell", "kl-masked"].map(name => document.querySelector(`svg path.${name}`).getBBox())
      return [a.x + a.width, past.x] }"""
    right_of_a, first_past = page.evaluate(edges)
    assert first_past == pytest.approx(right_of_a, abs=0.1)


@pytest.mark.parametrize("width", [320, 390, 1000])
def test_no_word_of_a_picture_is_cut(show, width):
    for figure in (access_explorer(size=4), tile_explorer(200, 300, 100), merge_explorer(VALUES), ROOFS):
        page = show(figure, width)
        cut = page.locator(".kl-explore__stage svg").evaluate("""svg => {
          const frame = svg.getBoundingClientRect()
          return [...svg.querySelectorAll("text")].filter(text => {
            const box = text.getBoundingClientRect()
            return box.left < frame.left - 1 || box.right > frame.right + 1 || box.bottom > frame.bottom + 1
          }).map(text => text.textContent)
        }""")
        assert cut == []


LOOKS = """svg => [...svg.querySelectorAll('path')].map(path => {
  const style = getComputedStyle(path)
  return [path.getAttribute("class"), [style.fill, style.stroke, style.strokeWidth, style.strokeDasharray].join(" ")]
})"""


def test_forced_colours_tell_what_colours_told(show):
    """Every class that a legend or a cell of an explorer has looks like no other one."""
    for figure in (access_explorer(size=4), tile_explorer(200, 300, 100), merge_explorer(VALUES)):
        page = show(figure, forced_colors="active")
        if page.get_by_role("slider", name="Chunk").count():
            move(page, "Chunk", 1)
            move(page, "Step", 1)
        looks = dict(page.locator(".kl-explore__stage svg").evaluate(LOOKS))
        drawn = {
            name: look for name, look in looks.items() if name and name.startswith(("kl-own", "kl-now", "kl-cell"))
        }
        drawn.pop("kl-cell", None)  # the matrices behind the tiles
        assert len(drawn) > 1 and len(set(drawn.values())) == len(drawn), drawn


def test_scores_below_zero_go_downwards(show):
    page = show(merge_explorer(VALUES, 3))
    bars = page.evaluate(
        "[...document.querySelectorAll('svg path[class*=\\'kl-c\\']')].map(e => e.getBBox())"
        ".slice(0, 9).map(b => [b.y, b.y + b.height])"
    )
    zero = max(bottom for value, (_, bottom) in zip(VALUES, bars, strict=True) if value > 0)
    for value, (top, bottom) in zip(VALUES, bars, strict=True):
        assert (top if value < 0 else bottom) == pytest.approx(zero, abs=1.1), value
    heights = [bottom - top for top, bottom in bars]
    assert heights[VALUES.index(-1)] == pytest.approx(heights[VALUES.index(1)], abs=0.1)


@pytest.mark.parametrize("chunk", [1, 2, 4, 9])
def test_merging_says_every_state(show, chunk):
    page = show(merge_explorer(VALUES, chunk))
    steps = merged(VALUES, chunk)
    for step, (first, last, own, state, factor) in enumerate(steps):
        move(page, "Step", step)
        words = said(page)
        which = f"scores {first}–{last} have" if last > first else f"score {first} has"
        assert words.startswith(f"Step {step + 1} of {len(steps)}: {which} the maximum {own[0]:.4f}")
        assert page.locator("svg").text_content().count("scores of this step") == 1
        assert f" and the sum {own[1]:.4f}. " in words
        assert words.endswith(f"{state[1]:.4f} so far.")
        assert factor in (0, 1) or f"multiplied by {factor:.4f}" in words
    assert steps[-1][3][1] == pytest.approx(merged(VALUES, 9)[-1][3][1], rel=1e-15)


def test_roofline_names_the_limit(show):
    page = show(ROOFS)
    assert "limited by computing, 153 µs at least, 900 TFLOP/s at most" in said(page)
    move(page, "K", 0)
    assert "limited by memory" in said(page)
    choose(page, "Element", "float32")
    moved = 4 * (4096 + 4096 + 4096 * 4096)
    assert f"{moved / 4e6:.1f} µs at least" in said(page)


def words(kind: str, state: dict, data: dict) -> dict:
    return {"kind": kind, "state": state, "data": data}


def cases_of_all_kinds(pick: random.Random):
    """What the reader may choose, with what Python says of it: parts of the sentence."""
    for _ in range(400):
        stride, offset, size = pick.randrange(34), pick.randrange(32), pick.choice((4, 8, 16))
        found = access(stride, offset, size, "global")
        state = {"space": "global", "stride": stride, "offset": offset, "size": size}
        yield words("access", state, {"sector": 32}), [f"moved, {number(100 * found.efficiency)}% of them used"]
        found = access(stride, offset, size, "shared")
        said = f"banks; {found.ideal_wavefronts} pass{'es' * (found.ideal_wavefronts != 1)} would do"
        yield words("access", state | {"space": "shared"}, {}), [f": {len(passes(found))} pass", said]
    for _ in range(400):
        m, n, k = (pick.choice((1, 8, 9, pick.randint(1, 500))) for _ in range(3))
        tile_m, tile_n, tile_k, item = *(pick.choice((8, 32, 256)) for _ in range(3)), pick.choice((2, 4))
        down, across = -(-m // tile_m), -(-n // tile_n)
        loaded = (m * k * across + k * n * down) * item
        state = {"bm": tile_m, "bn": tile_n, "bk": tile_k, "program": down * across - 1, "step": -(-k // tile_k)}
        said = [
            f"{loaded:,} bytes in all, {number(2 * m * n * k / loaded)} operations a byte",
            f"of {down * across} owns",
        ]
        yield words("tiles", state, {"m": m, "n": n, "k": k, "item": item}), said
    for _ in range(400):
        m, n, k = (2 ** pick.randrange(15) for _ in range(3))
        flops, moved = 2 * m * n * k, 2 * (m * k + k * n + m * n)
        memory_us, flops_us = moved / 4217.3e3, flops / 989.4e6
        state = {"m": m, "n": n, "k": k, "roof": 0}
        said = [
            f"{number(flops / moved)} operations a byte",
            f"takes {number(memory_us)} µs, computing {number(flops_us)} µs",
            f"{number(max(memory_us, flops_us))} µs at least, {number(min(989.4, flops / moved * 4.2173))} TFLOP/s",
        ]
        yield words("roofline", state, {"roofs": [{"name": "a", "peak": 989.4, "item": 2}], "memory": 4217.3}), said


def test_every_choice_gets_the_sentence_that_python_computes(show):
    """Also to the digit: a table's 16.0 is not 16 in the sentence above it."""
    page = show(access_explorer())
    cases = list(cases_of_all_kinds(random.Random(9)))
    said = page.evaluate(
        "cases => cases.map(c => klExplorers.KINDS[c.kind].draw(c.state, c.data, 800).say)", [case for case, _ in cases]
    )
    for (case, parts), one in zip(cases, said, strict=True):
        assert [part for part in parts if part not in one] == [], (case, one)


def test_numbers_are_written_as_in_tables(show):
    pick = random.Random(4)
    numbers = [10 ** pick.uniform(-7, 12) for _ in range(2000)] + [pick.randrange(1, 8000) / 8 for _ in range(500)]
    numbers += [0, 1e-4, 99.96, 999.6, 6.475, 2.625, 1e9, 1.5e9, 123456789.5, 1e14]
    assert show(access_explorer()).evaluate("all => all.map(klExplorers.short)", numbers) == [
        number(n) for n in numbers
    ]


@pytest.mark.parametrize(
    ("missing", "stand"),
    [
        ("banks", [True, False]),
        ("explorer-access", [True, False]),
        ("explorer-parts", [True] * 2),
        ("explorers", [True] * 2),
    ],
)
def test_where_a_script_is_missing_the_tables_stand(chromium, missing, stand):
    """A choice that needs the banks would else change the slider and not the picture. Other kinds need no banks."""
    page = chromium.new_page()
    scripts = "</script><script>".join(scripts_of("explorers", without=missing))
    css = (ROOT / "docs/assets/lessons.css").read_text()
    page.set_content(FRAME.format(css=css, script=scripts, figure=access_explorer() + merge_explorer(VALUES)))
    figures = page.locator("figure").all()
    assert [figure.locator("table").is_visible() for figure in figures] == stand
    assert [figure.locator("input, button").count() == 0 for figure in figures] == stand
    page.close()


@pytest.mark.parametrize("width", [390, 1280])
def test_keyboard_moves_and_the_picture_fits(show, width):
    page = show(access_explorer("shared"), width)
    slider = page.get_by_role("slider", name="Step", exact=True)
    slider.focus()
    before = said(page)
    page.keyboard.press("ArrowRight")
    assert slider.get_attribute("aria-valuetext") == "2 elements" and said(page) != before
    assert page.locator("svg").get_attribute("aria-label") == said(page)
    assert page.evaluate("document.documentElement.scrollWidth") <= width
    assert page.locator("table").is_hidden()
    page.get_by_role("button", name="Table of some cases").click()
    assert page.locator("table").is_visible()


def press(page, words: str) -> None:
    page.get_by_role("button", name=words, exact=True).click()


def test_every_step_is_drawn_as_high_as_it_is_dear_and_can_be_chosen(show):
    """The heights are those of Python's sectors and passes: a logarithm between the cheapest and the dearest."""
    page = show(access_explorer(size=8))
    for space in ("shared", "global"):
        choose(page, "Memory", space)
        requests = [access(stride, 0, 8, space) for stride in range(34)]
        costs = [len(request.sectors) if space == "global" else len(passes(request)) for request in requests]
        bars = page.locator("svg > path:is(.kl-bar, .kl-asked-bank)").evaluate_all(
            "all => all.map(e => e.getBBox().height)"
        )
        most = log2(max(costs))
        assert bars == pytest.approx([4 + 42 * log2(cost) / most for cost in costs], abs=0.01), space
    page.locator("svg > path.kl-bar").nth(16).click()  # the chosen step, 1, is no such bar
    assert ", 17 elements apart: " in said(page)
    assert page.get_by_role("slider", name="Step", exact=True).get_attribute("aria-valuetext") == "17 elements"


def test_a_case_worth_a_look_is_one_button_and_says_why(show):
    page = show(access_explorer("shared"))
    why = page.locator(".kl-explore__more [role=status]")
    shared = page.get_by_role("group", name="shared memory")
    shared.get_by_role("button", name="a padded column").click()
    assert ", 33 elements apart: 1 pass over the banks" in said(page)
    assert why.inner_text().startswith("One unused word in each row")
    assert page.locator("button[aria-pressed=true]").all_inner_texts() == ["a padded column"]
    press(page, "a column")
    assert ", 32 elements apart: 32 passes over the banks" in said(page)
    press(page, "one off the line")
    assert ": 5 sectors, 160 bytes moved" in said(page)
    move(page, "Offset", 3)  # no case any more
    assert why.inner_text() == "" and page.locator("button[aria-pressed=true]").count() == 0


@pytest.mark.parametrize("size", [(127, 255, 65), (300, 40, 64), (8, 8, 8)])
def test_every_case_is_one_that_the_explorer_can_show(show, size):
    """Pressed, its button stays pressed: nothing of what it sets had to be corrected."""
    figures = [access_explorer(), tile_explorer(*size), merge_explorer(VALUES, 4), merge_explorer([2.0], 1), ROOFS]
    page = show("".join(figures))
    for figure in page.locator("figure").all():
        for button in figure.locator(".kl-explore__cases button").all():
            button.click()
            assert button.get_attribute("aria-pressed") == "true", button.inner_text()
            assert figure.locator(".kl-explore__more [role=status]").inner_text()


def test_what_a_case_says_of_itself_is_so(show):
    page = show(ROOFS)
    press(page, "just under the ridge")
    assert "limited by memory" in said(page)
    slider = page.get_by_role("slider", name="M", exact=True)
    slider.press("ArrowRight")
    assert "limited by computing" in said(page)
    press(page, "a single row")
    press(page, "Compare with this")
    press(page, "32 rows")
    against = page.locator(".kl-explore__more").inner_text()
    moved = [item * 4096 + 4096 * 4096 + item * 4096 for item in (1, 32)]
    assert f"{moved[1] / moved[0]:.3g} times the time" in against and moved[1] / moved[0] < 1.05
    page = show(merge_explorer(VALUES, 3))
    press(page, "the largest arrives")
    assert "The maximum grows to 6.0000" in said(page)
    page = show(tile_explorer(127, 255, 65))
    press(page, "long and narrow")
    ratio = (127 * 65 * 16 + 65 * 255 * 1) / (127 * 65 * 4 + 65 * 255 * 4)
    more = page.locator(".kl-explore__more").inner_text()
    against = re.search(r"Against 32 × 64: ([\d.]+) times the bytes, the same programs\.$", more)
    assert against and float(against[1]) == pytest.approx(ratio, abs=0.005)


def test_two_cases_are_compared_by_what_both_of_them_have(show):
    page = show(access_explorer("shared", stride=32))
    more = page.locator(".kl-explore__more")
    press(page, "a row")
    assert more.inner_text().endswith("Against a step of 32: 1/32 of the passes.")
    press(page, "Compare with this")
    assert "Against" not in more.inner_text()
    press(page, "16 bytes a lane")
    assert more.inner_text().endswith("Against a step of 1: 4 times the passes.")
    press(page, "in line")  # sectors are no passes
    assert "Against" not in more.inner_text()


def test_a_link_keeps_what_was_set(show):
    page = show(ROOFS)
    press(page, "a single row")
    choose(page, "Element", "float32")
    link = page.get_by_role("link", name="Link to this").get_attribute("href")
    assert link == "#roofline:m=1;n=4096;k=4096;roof=1"
    before = said(page)
    press(page, "a cube")
    for address, words in [
        (link, before),
        ("#roofline:m=3;n=x;nothing=1;k=16;;%E0%A4%A=", None),  # malformed: nothing of it is taken
        ("#roofline:m=3;n=x;nothing=1;k=16", before.replace("1 × 4,096 × 4,096", "1 × 4,096 × 16")),
        ("#tiles:bm=8", None),
    ]:
        last = said(page)
        page.evaluate("address => { location.hash = address }", address)
        page.wait_for_function("address => location.hash === address", arg=address)
        page.wait_for_timeout(50)
        assert said(page).partition(":")[0] == (words or last).partition(":")[0], address


def test_a_walk_has_buttons_for_a_thumb(show):
    page = show(merge_explorer(VALUES, 3), 390, has_touch=True)
    previous, following = page.get_by_role("button", name="Previous step"), page.get_by_role("button", name="Next step")
    assert previous.get_attribute("aria-disabled") == "true"
    following.click()
    following.click()
    assert said(page).startswith("Step 3 of 3") and following.get_attribute("aria-disabled") == "true"
    following.click(force=True)
    assert said(page).startswith("Step 3 of 3")
    assert following.bounding_box()["height"] >= 40


def test_the_bar_of_a_sum_is_as_long_as_the_sum(show):
    page = show(merge_explorer(VALUES, 2))
    steps = merged(VALUES, 2)
    longest = max(max(own[1], state[1]) for *_, own, state, _ in steps)
    for step, (_, _, _, state, factor) in enumerate(steps):
        move(page, "Step", step)
        bars = page.locator("svg path").evaluate_all(
            """all => all.map(e => [e.getAttribute("class"), e.getBBox()])
            .filter(([name, box]) => box.height === 18).map(([name, box]) => [name, box.width])"""
        )
        scale = (page.locator(".kl-explore__stage").evaluate("e => e.clientWidth") - 12) / longest
        assert sum(width for _, width in bars) == pytest.approx(state[1] * scale, abs=1.1)
        old = [width for name, width in bars if name == "kl-own kl-c0"]
        if step:
            assert old == pytest.approx([max(1, steps[step - 1][3][1] * factor * scale)], abs=0.1)


def test_what_stands_below_a_picture_stays_where_it_is(show):
    page = show(access_explorer("shared", stride=32))
    tall = page.locator(".kl-explore__stage").bounding_box()["height"]
    press(page, "a row")
    assert page.locator(".kl-explore__stage").bounding_box()["height"] == tall


def test_without_the_script_the_table_stands(show):
    page = show(access_explorer(), java_script_enabled=False)
    assert page.locator("table").is_visible()
    assert page.locator("input, button").count() == 0


@pytest.mark.parametrize(
    ("call", "said"),
    [
        (lambda: access_explorer("registers"), "registers"),
        (lambda: access_explorer(stride=99), "stride=99"),
        (lambda: tile_explorer(8, 8, 8, tile=(12, 8, 8)), "tile=(12, 8, 8)"),
        (lambda: merge_explorer([1.0, float("nan")]), "2 values"),
        (lambda: roofline_explorer([("x", 0.0, 4)], 1.0, (1, 1, 1)), "above 0"),
    ],
)
def test_a_wrong_argument_is_named(call, said):
    with pytest.raises(ValueError) as raised:
        call()
    assert said in str(raised.value)
