"""Figures on a phone: whole, with words that can be read, and one drawing of each for everybody."""

from __future__ import annotations

import numpy as np
import pytest
from site_host import ROOT

from kernels import figures
from kernels.ops.error_budget import budget, measure
from kernels.trace import Buffer, Launch, Recorder
from kernels.trace.model import READ, WRITE
from kernels.trace.triton import TritonTrace
from lessons_src.examples import sums

# One process keeps the browser.
pytestmark = [pytest.mark.browser, pytest.mark.xdist_group("site")]

FRAME = """<!doctype html><html lang="en"><meta charset="utf-8"><title>Figures</title>
<meta name="viewport" content="width=device-width">
<style>{css} html {{ font-size: 125% }} body {{ margin: 0 16px }}</style>
<main class="md-typeset"><div class="kl-block">{figure}</div></main>"""
PAGES = ("page-has-heading-one", "region", "landmark-one-main", "landmark-unique")  # rules for a page as a whole
LEAST_PX = 9.0  # the smallest words on a phone of 390 px


def warp(step: int, size: int = 4, space: str = "global"):
    """A trace of one warp that reads elements `step` apart."""
    recorder = Recorder()
    recorder.launch(Launch("k", (1, 1, 1), (32, 1, 1), "cuda"))
    shape = (32, 33) if space == "shared" else (4096,)
    recorder.buffer(Buffer("x", 4, shape, space=space))
    lanes = np.arange(32)
    recorder.add(
        launch=0, block=0, thread=lanes, what=READ, buffer=0, element=lanes * step, size=size,
        site=recorder.site("k.cu", 1),
    )  # fmt: skip
    return recorder.trace()


def barriers(count: int):
    """Two warps that write and read shared memory, with `count` barriers."""
    recorder = Recorder()
    recorder.launch(Launch("k", (1, 1, 1), (64, 1, 1), "cuda"))
    recorder.buffer(Buffer("x", 4, (64,), space="shared"))
    threads = np.arange(64)
    for interval in range(count + 1):
        who = threads[: 64 >> interval] if interval else threads
        for what in (WRITE, READ):
            recorder.add(
                launch=0, block=0, thread=who, what=what, buffer=0, element=who, size=4, site=recorder.site("k.cu", 1),
                interval=interval,
            )  # fmt: skip
    return recorder.trace().timeline()


def product():
    """One program of a product of 40 × 90 × 70, with tiles of 32 × 64 and steps of 32, at the lower right."""
    recorder, positions, shapes, kinds = Recorder(), [], [], ((32, 32), (32, 64), (32, 64))
    for name, shape in (("a", (40, 70)), ("b", (70, 90)), ("c", (40, 90))):
        recorder.buffer(Buffer(name, 4, shape))
    recorder.launch(Launch("k", (4, 1, 1), None, "triton"))

    def touch(buffer, what, rows, columns, width):
        rows, columns = np.meshgrid(rows, columns, indexing="ij")
        limit = ((40, 70), (70, 90), (40, 90))[buffer]
        active = (rows < limit[0]) & (columns < limit[1])
        recorder.add(
            launch=0, block=3, what=what, buffer=buffer, element=(rows * width + columns).ravel(), size=4,
            site=recorder.site("k.py", 1), active=active.ravel(),
        )  # fmt: skip
        positions.append(np.arange(rows.size))
        shapes.append(np.full(rows.size, buffer))

    m, n = 32 + np.arange(32), 64 + np.arange(64)
    for first in (0, 32, 64):
        k = first + np.arange(32)
        touch(0, READ, m, k, 70)
        touch(1, READ, k, n, 90)
    touch(2, WRITE, m, n, 90)
    trace = recorder.trace()
    return TritonTrace(trace.launches, trace.buffers, trace.sites, trace.columns, positions=np.concatenate(positions),
                       shapes=np.concatenate(shapes), tensor_shapes=kinds)  # fmt: skip


def shared(step: int):
    trace = warp(step, space="shared")
    return trace.requests()[0], trace.buffer("x")


LINES = {
    name: [(2**i, i * (n + 1)) for i in range(10, 24)] for n, name in enumerate(("ours", "torch", "CUDA", "d", "e"))
}
POINTS = {f"operator_{i}": (0.1 + i / 8, 0.5 + 0.4 * i) for i in range(9)}
KINDS = {
    "request": lambda: figures.request_figure(warp(2).requests()[0]),
    "a request of many sectors": lambda: figures.request_figure(warp(33, 16).requests()[0]),
    "tree": lambda: figures.reduction_tree(sums.halves((0.1353, -0.7183, 0.0498, 1e8, 5.0), 8), 5),
    "tiles": lambda: figures.tile_walk(product(), 3),
    "timeline": lambda: figures.timeline(barriers(2), "Two barriers"),
    "a timeline of many barriers": lambda: figures.timeline(barriers(6), "Six barriers"),
    "banks": lambda: figures.bank_figure(shared(8)[0]),
    "a tile's banks": lambda: figures.bank_tile(*shared(33)),
    "divergence": lambda: figures.divergence_figure(warp(2)),
    "grid": lambda: figures.ownership_grid(np.repeat(np.arange(20), 300).reshape(20, 300), columns="lane"),
    "view": lambda: figures.view_figure((4, 6), (8, 1), 2, 40),
    "lines": lambda: figures.line_chart(LINES, "elements", "% of the copy limit", "x", log_x=True, log_base_x=2),
    "roofline": lambda: figures.roofline(POINTS, 4000, 60, "float32"),
}

SHOWN = """() => {
  const visible = e => e.checkVisibility() && e.getBoundingClientRect().width > 0
  const frame = document.querySelector(".kl-block").getBoundingClientRect()
  const words = [...document.querySelectorAll("svg text, .kl-legend li, .kl-narrow :is(td, th)")].filter(visible)
  const within = (a, b, rim) => a.left >= b.left + rim && a.right <= b.right - rim
  const inside = e => { // the frame, and the picture, which cuts off what goes beyond it
    const own = e.getBoundingClientRect(), svg = e.closest(".kl-fig:not(.kl-fig--lines) svg")
    return within(own, frame, 4) && (!svg || within(own, svg.getBoundingClientRect(), -.5))
  }
  const size = e => {
    const svg = e.closest("svg"), scale = svg ? svg.getBoundingClientRect().width / svg.viewBox.baseVal.width : 1
    return parseFloat(getComputedStyle(e).fontSize) * scale
  }
  const all = (selector, wanted) => [...document.querySelectorAll(selector)].filter(visible).filter(wanted)
  const scrolls = e => !e.matches("details *") && e.scrollWidth > e.clientWidth + 1 // a table that opens may
  return {
    page: document.documentElement.scrollWidth,
    drawings: all(".kl-fits > *", () => true).length,
    pictures: all("svg[role=img]", () => true).length,
    scrolls: all(".kl-scroll", scrolls).length,
    outside: words.filter(e => !inside(e)).map(e => e.textContent),
    least: Math.min(99, ...words.map(size)),
    unnamed: all("svg[role=img]", e => !document.getElementById(e.getAttribute("aria-labelledby"))).length,
  }
}"""


@pytest.fixture
def show(chromium):
    contexts = []

    def shown(html: str, width: int, **named):
        contexts.append(chromium.new_context(viewport={"width": width, "height": 900}, **named))
        page = contexts[-1].new_page()
        css = "".join((ROOT / f"docs/assets/{name}.css").read_text() for name in ("lessons", "site"))
        page.set_content(FRAME.format(css=css, figure=html))
        return page

    yield shown
    for context in contexts:
        context.close()


@pytest.mark.parametrize("width", [390, 1280])
@pytest.mark.parametrize("kind", KINDS)
def test_a_figure_is_whole_and_its_words_can_be_read(show, kind, width):
    found = show(KINDS[kind](), width, java_script_enabled=True).evaluate(SHOWN)
    assert found["page"] <= width and found["scrolls"] == 0
    assert found["outside"] == []
    assert found["least"] >= LEAST_PX
    assert found["drawings"] <= 1 and found["pictures"] <= 1 and found["unnamed"] == 0, "one of two, for everybody"


@pytest.mark.parametrize("scheme", ["default", "slate"])
def test_no_barrier_in_either_drawing(show, scheme):
    from axe_playwright_python.sync_playwright import Axe

    html = "".join(draw() for draw in KINDS.values())
    for width in (390, 1280):
        page = show(html, width)
        page.evaluate("scheme => { document.documentElement.dataset.mdColorScheme = scheme }", scheme)
        page.add_style_tag(content="body { background: var(--kl-paper) }")
        found = Axe().run(page).response["violations"]
        assert [(each["id"], each["nodes"][0]["html"][:200]) for each in found if each["id"] not in PAGES] == []


def test_lines_have_names_at_their_ends_or_below_and_differ_without_colour(show):
    html = KINDS["lines"]()
    for width, at_ends in ((390, False), (1280, True)):
        page = show(html, width)
        assert page.locator(".kl-legend").is_visible() is not at_ends
        assert page.locator(".kl-end").filter(visible=True).count() == len(LINES) * at_ends
    marks = page.evaluate(
        """() => [...document.querySelectorAll(".kl-legend li")].map(li => {
          const [line, point] = li.querySelectorAll("path")
          return [li.textContent.trim(), getComputedStyle(line).strokeDasharray + point.getAttribute("d")]
        })"""
    )
    assert [name for name, _ in marks] == list(LINES) and len({mark for _, mark in marks}) == len(LINES)


def test_on_paper_a_figure_is_there_once(show):
    page = show(KINDS["request"](), 700)
    page.emulate_media(media="print")
    assert page.locator(".kl-fits svg").filter(visible=True).count() == 1


@pytest.mark.parametrize("width", [390, 1280])
def test_the_value_of_a_row_of_a_budget_is_in_view(show, width):
    found = budget("bfloat16", 1000, largest_exponent=104)
    table = figures.error_budget_table([measure([1.0], [1.0 + 2.0**-9], found, "softmax")])
    page = show(table, width)
    boxes = page.evaluate(
        """() => [...document.querySelectorAll("tbody tr:not(.kl-group)")].map(row => {
          const [name, value] = [row.cells[0], [...row.cells].pop()].map(e => e.getBoundingClientRect())
          return [value.right <= innerWidth, Math.abs(name.top - value.top) < 12]
        })"""
    )
    assert len(boxes) >= 4 and all(map(all, boxes)), boxes
    assert page.evaluate("(e => e.scrollWidth <= e.clientWidth + 1)(document.querySelector('.kl-scroll'))")
