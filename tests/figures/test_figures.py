"""Figures as text: what they say, that they say it twice alike, and that nothing from outside becomes markup."""

import re
from dataclasses import dataclass, field
from html.parser import HTMLParser
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest

from kernels import figures
from kernels.figures.charts import Axis
from kernels.figures.html import number, shape_text, unique_id
from kernels.figures.ownership import MASKED, NOBODY, runs
from kernels.trace import Buffer, Launch, Recorder
from kernels.trace.model import READ, WRITE

NARROW = '<div class="kl-narrow">'


def wide(html):
    """A figure without its drawing for a phone."""
    return html.partition(NARROW)[0]


def phone(html):
    """What a phone shows of a figure that has two drawings."""
    assert html.count(NARROW) == 1
    return html.partition(NARROW)[2]


EVIL = "<script>alert('x')</script>&\""
TAIL = dict.fromkeys(range(257, 512), 1)


class Reader(HTMLParser):
    """The text, the ids and the tags of a figure; fails on a tag that is closed in the wrong place."""

    VOID = frozenset(["br", "rect", "path"])

    def __init__(self, html):
        super().__init__()
        self.open, self.ids, self.tags, self.words, self.classes, self.steps = [], [], [], [], [], []
        self.feed(html)
        assert self.open == [], f"never closed: {self.open}"

    def handle_starttag(self, tag, attributes):
        self.open.append(tag)
        self.handle_startendtag(tag, attributes)

    def handle_startendtag(self, tag, attributes):
        self.tags.append(tag)
        self.steps += [value for name, value in attributes if name == "data-steps"]
        self.ids += [value for name, value in attributes if name == "id"]
        self.classes += [word for name, value in attributes if name == "class" for word in value.split()]

    def handle_endtag(self, tag):
        assert self.open and self.open.pop() == tag

    def handle_data(self, data):
        self.words.append(data)

    @property
    def text(self):
        return " ".join(" ".join(self.words).split())


@dataclass
class Facts:
    kernel: str = "cuda/kernels.cu:softmax_parallel"
    arch: int = 90
    registers: int = 32
    spill_store_bytes: int = 8
    spill_load_bytes: int = 16
    shared_bytes: int = 64
    toolchain: str = "nvcc 13.0.88"
    counts: dict = field(default_factory=lambda: {"LDG": 5, "BAR": 2})

    def instructions(self, prefix):
        return self.counts.get(prefix, 0)


def record(implementation="triton", median=12.34, shape=(4096, 1024), **more):
    given = {
        "op": "softmax",
        "implementation": implementation,
        "shape": list(shape),
        "dtype": "float32",
        "ours": False,
        "config": {},
        "status": "ok",
        "reason": None,
        "stale": False,
        "median_us": median,
        "spread_us": 0.25,
        "gb_per_s": 2719.0,
        "fraction_of_limit": 0.834,
        "max_abs_error": 1.2e-7,
        "provenance": SimpleNamespace(
            gpu="NVIDIA H200", utc="2026-11-20T10:00:00Z", commit="1a2b3c4d5e6f7788", dirty=False
        ),
    }
    return SimpleNamespace(**given | more)


def request(elements, size=4, threads=None):
    recorder = Recorder()
    recorder.launch(Launch("k", (1, 1, 1), (32, 1, 1), "cuda"))
    recorder.buffer(Buffer("x", 4, (4096,)))
    elements = np.asarray(elements)
    threads = np.arange(len(elements)) if threads is None else threads
    site = recorder.site("k.cu", 1)
    recorder.add(launch=0, block=0, thread=threads, what=READ, buffer=0, element=elements, size=size, site=site)
    return recorder.trace().requests()[0]


def events(count=3):
    recorder = Recorder()
    recorder.launch(Launch("k", (1, 1, 1), (64, 1, 1), "cuda"))
    recorder.buffer(Buffer(EVIL, 4, (1000,), space="shared"))
    site = recorder.site("k.cu", 12)
    for i in range(count):
        recorder.add(
            launch=0, block=0, thread=40, what=WRITE, buffer=0, element=i, size=4, site=site, interval=i % 2,
            active=i != 1,
        )  # fmt: skip
    return recorder.trace()


ALL = {
    "strip": lambda: figures.ownership_strip([0] * 256 + [1], TAIL, label=EVIL, who=EVIL),
    "grid": lambda: figures.ownership_grid([[0, 0, MASKED], [1, NOBODY, 1]], label=EVIL, who=EVIL, rows=EVIL),
    "request": lambda: figures.request_figure(request(np.arange(32) + 1), EVIL),
    "timeline": lambda: figures.timeline(events().timeline(), EVIL, {(1, 0): EVIL}),
    "threads": lambda: figures.thread_table(events(), EVIL),
    "compile": lambda: figures.compile_table([Facts(toolchain=EVIL), Facts(kernel=EVIL)]),
    "results": lambda: figures.result_table([record(EVIL), record("b", None, status="failed", reason=EVIL)]),
    "table": lambda: figures.data_table(["a", EVIL], [[EVIL, 1], ["c", EVIL]], EVIL, [(EVIL, 2)]),
    "bars": lambda: figures.bar_chart([(EVIL, 3.0), ("b", None)], EVIL, EVIL, heading=EVIL),
    "lines": lambda: figures.line_chart({EVIL: [(1, 2), (2, None), (3, 4)], "b": [(1, 2)]}, EVIL, EVIL, EVIL),
}
EMPTY = {
    "strip": lambda: figures.ownership_strip([]),
    "grid": lambda: figures.ownership_grid(np.zeros((0, 0), int)),
    "grid of no columns": lambda: figures.ownership_grid(np.zeros((2, 0), int)),
    "timeline": lambda: figures.timeline([]),
    "threads": lambda: figures.thread_table([]),
    "compile": lambda: figures.compile_table([]),
    "results": lambda: figures.result_table([]),
    "table": lambda: figures.data_table(["a"], []),
    "bars": lambda: figures.bar_chart([], "µs"),
    "lines": lambda: figures.line_chart({"a": [(1, None)]}, "x", "y"),
}


@pytest.mark.parametrize("name", ALL)
def test_text_from_outside_stays_text(name):
    html = ALL[name]()
    read = Reader(html)
    assert "script" not in read.tags and "<script" not in html
    assert EVIL in read.text, "the words themselves must still be there to read"


@pytest.mark.parametrize("name", ALL)
def test_the_same_data_gives_the_same_bytes_and_no_style(name):
    html = ALL[name]()
    assert html == ALL[name]()
    assert "\n\n" not in html, "an empty line would end the HTML block in Markdown"
    assert not re.search(r"style=|#[0-9a-f]{3,6}\b|<script|\bon\w+=", html.replace("url(#", ""))


@pytest.mark.parametrize("name", ALL)
def test_every_class_is_in_the_stylesheet(name):
    css = (Path(__file__).parents[2] / "docs/assets/lessons.css").read_text()
    plain = {f"kl-fig--{kind}" for kind in ("strip", "grid", "request", "lines", "timeline")}
    plain |= {"kl-dash0", "kl-run--owned"}  # the usual look: nothing to add
    missing = {word for word in Reader(ALL[name]()).classes if f".{word}" not in css} - plain
    assert missing == set()


@pytest.mark.parametrize("name", EMPTY)
def test_no_data_gives_a_figure_that_says_so(name):
    assert re.search(r"nothing|no element|No access|No point|Nothing|0 elements", Reader(EMPTY[name]()).text)


def test_ids_differ_with_the_content_and_within_a_page():
    page = "".join(
        [
            figures.ownership_grid([[0, 1]], label="x"),
            figures.ownership_grid([[0, 1]], label="y"),
            figures.ownership_grid([[1, 1]], label="x"),
            figures.request_figure(request(np.arange(32))),
            figures.request_figure(request(np.arange(32) * 2)),
        ]
    )
    ids = Reader(page).ids
    assert len(ids) == len(set(ids)) == 17
    assert unique_id("a", 1) != unique_id("a", 2) != unique_id("b", 2)


def test_the_strip_joins_runs_and_names_the_tail():
    html = figures.ownership_strip([0] * 256 + [1], TAIL, label="out")
    text = Reader(html).text
    assert html.count("<li") == 3
    assert "program 0 out[0–255] 256 elements" in text and "program 1 out[256] 1 element" in text
    assert "program 1, masked off out[257–511] 255 elements" in text
    assert "out: 257 elements owned by 2 programs, 255 masked off." in text
    assert len(html) < 1500


def test_runs_tell_states_apart():
    found = runs([0, 0, NOBODY, MASKED, 1], {3: 4, 5: 1}, {6: 1, -2: 0})
    assert [(r.first, r.last, r.owner, r.state) for r in found] == [
        (-2, -2, 0, "outside"), (0, 1, 0, "owned"), (2, 2, -1, "nobody"), (3, 3, -1, "masked"), (4, 4, 1, "owned"),
        (5, 5, 1, "masked"), (6, 6, 1, "outside"),
    ]  # fmt: skip
    owned = runs([0, 1], {0: 7})
    assert [(r.owner, r.state) for r in owned] == [(0, "owned"), (1, "owned")], "a mask takes nothing from an owner"
    assert [(r.first, r.last) for r in runs([], {5: 1, 9: 1, 6: 1})] == [(5, 6), (9, 9)], "a gap parts two runs"
    held = runs([0, NOBODY], {1: 7})
    assert [(r.owner, r.state) for r in held] == [(0, "owned"), (7, "masked")], "nobody wrote it, 7 masked it off"


def test_one_element():
    assert "program 3 out[0] 1 element" in Reader(figures.ownership_strip([3], label="out")).text
    assert "row 0: 0 program 3" in Reader(figures.ownership_grid([[3]])).text
    assert "1 element owned by 1 program." in Reader(figures.ownership_grid([[3]])).text


@pytest.mark.parametrize("owners", [np.arange(100_000), np.arange(100_000) // 1000, np.zeros(100_000, int)])
def test_a_hundred_thousand_elements_stay_small(owners):
    assert len(figures.ownership_strip(owners)) < 12_000
    assert len(figures.ownership_grid(owners.reshape(100, 1000))) < 60_000
    assert len(figures.ownership_grid(owners.reshape(1000, 100))) < 60_000


def test_what_is_left_out_is_said():
    text = Reader(figures.ownership_grid(np.zeros((100, 1000), int))).text
    assert "80 more rows" in text and "964 columns in the middle are not drawn" in text
    assert "68 more runs" in Reader(figures.ownership_strip(np.arange(100) % 8)).text


def test_the_grids_alternative_text_holds_what_is_drawn():
    html = figures.ownership_grid([[0, 0, MASKED], [1, NOBODY, 1]], label="out", who="block")
    description = re.search(r"<desc[^>]*>(.*?)</desc>", html).group(1)
    assert description == "row 0: 0–1 block 0, 2 masked off; row 1: 0 block 1, 1 nobody, 2 block 1"
    drawn = {name: html.count(name) for name in ('"kl-own kl-c0"', '"kl-own kl-c1"', '"kl-own kl-none"', '"kl-masked"')}
    assert set(drawn.values()) == {1}
    boxes = {m[1]: m[2].count("M") for m in re.finditer(r'class="kl-own (kl-\w+)" d="([^"]*)"', html)}
    assert boxes == {"kl-c0": 1, "kl-c1": 2, "kl-none": 1}
    assert 'role="img"' in html and "out, 2 × 3: 4 elements owned by 2 blocks, 1 masked off, 1 owned by nobody." in html


def test_a_grid_needs_two_dimensions():
    with pytest.raises(ValueError, match="2 dimensions; this array has 1"):
        figures.ownership_grid([0, 1])


def test_a_request_says_lanes_sectors_and_use():
    html = figures.request_figure(request(np.arange(32) + 1))
    text = Reader(html).text
    assert (
        "Block 0, warp 0: 32 lanes read 4 bytes each of x in 5 sectors; 128 of 160 bytes moved are used (80%)." in text
    )
    assert "lanes 0–6 → sector 0; lanes 7–14 → sector 1" in text and "lane 31 → sector 4" in text
    assert re.search(r'kl-sector" d="([^"]*)"', html).group(1).count("M") == 5
    assert re.search(r'kl-wire" d="([^"]*)"', html).group(1).count("M") == 32
    assert "kl-idle" not in html


def test_lanes_that_do_not_take_part_are_drawn_as_such():
    html = figures.request_figure(request([0, 8, 16], threads=np.array([0, 2, 9])))
    assert re.search(r'kl-idle" d="([^"]*)"', html).group(1).count("M") == 29
    straddling = figures.request_figure(request([6], size=16, threads=np.array([3])))
    assert "lane 3 → sectors 0 and 1" in straddling and "1 lane read" in straddling


def test_a_triton_request_is_refused():
    with pytest.raises(ValueError, match="3 elements of a whole program"):
        figures.request_figure(request([0, 1, 2], threads=-1))


def test_the_timeline_shows_warps_intervals_and_notes():
    cells = [
        {"warp": 0, "interval": 0, "reads": 0, "writes": 32, "atomics": 0},
        {"warp": 1, "interval": 1, "reads": 1, "writes": 0, "atomics": 2},
    ]
    html = figures.timeline(cells, "Partials", {(0, 1): "race"})
    text = Reader(html).text
    assert "before barrier 1 after barrier 1 0 32 writes race 1 · 1 read 2 atomics" in text
    assert html.count("<tr>") == 3


def test_thread_table_shows_masked_steps_and_stops():
    html = figures.thread_table(events(100), "Thread 40")
    text = Reader(html).text
    assert html.count('scope="row"') == 60
    assert "write, masked off" in text and "(the first 60 of 100)" in text


def test_compile_table_adds_spills_and_counts_instructions():
    text = Reader(figures.compile_table([Facts(), Facts(arch=120, counts={})], ("LDG", "BAR"))).text
    assert "softmax_parallel sm_90 32 24 64 5 2 softmax_parallel sm_120 32 24 64 0 0" in text
    assert "Compiled by nvcc 13.0.88" in text


def test_compile_table_says_once_what_is_the_same_in_all_rows():
    alike = [Facts(), Facts(counts={}, spill_store_bytes=0, spill_load_bytes=0, shared_bytes=0)]
    text = Reader(figures.compile_table(alike, ("LDG",))).text
    assert "Compiled for sm_90 by nvcc 13.0.88 kernel registers spilled bytes shared bytes LDG" in text
    text = Reader(figures.compile_table(alike[1:] * 2, ("LDG",), "Two of one kind")).text
    assert "Two of one kind; for sm_90; nothing spilled; no shared memory kernel registers LDG" in text
    assert "sm_90; for" not in Reader(figures.compile_table(alike, ("LDG",), "For sm_90")).text


def test_results_are_sorted_within_a_shape_and_name_their_origin():
    rows = [
        record("slow", 61.2, shape=(8, 8)),
        record("fast", 9.5, shape=(8, 8), ours=True, stale=True, config={"block": 1024}),
        record("none", None, shape=(8, 8), status="unavailable", max_abs_error=None),
        record("other", 1.0, shape=(3,)),
    ]
    html = figures.result_table(rows)
    text = Reader(html).text
    assert re.findall(r"fast|slow|none|other|softmax 8 × 8|softmax 3,", text) == [
        "softmax 8 × 8", "fast", "slow", "none", "softmax 3,", "other",
    ]  # fmt: skip
    assert "fast block 1024 stale 9.50 2,719 83% 0.25 1.2e-07" in text
    assert "none not available — — — —" in text
    assert text.startswith("Measured on NVIDIA H200, 2026-11-20, commit 1a2b3c4d5e6f; in bold: kernels of this project")
    assert "in bold" not in figures.result_table([record()])
    assert html.count("kl-marked") == 1 and html.count('scope="rowgroup"') == 2


def test_bars_show_their_values_and_lengths():
    html = figures.bar_chart([("a", 5.0), ("b", 10.0), ("c", None)], "µs", marked=["b"])
    assert "a 5 b 10 c —" in Reader(html).text
    assert re.findall(r'kl-bar" x="0" y="4" width="(\d+)"', html) == ["500", "1000"]


def test_a_logarithmic_bar_says_so_and_refuses_zero():
    html = figures.bar_chart([("a", 1.0), ("b", 10.0), ("c", 1000.0)], "µs", log=True)
    assert "µs, logarithmic" in html
    assert re.findall(r'kl-bar" x="0" y="4" width="([\d.]+)"', html) == ["0", "333.3", "1000"]
    with pytest.raises(ValueError, match="above 0; one is 0"):
        figures.bar_chart([("a", 0.0)], "µs", log=True)


def test_lines_carry_their_numbers_as_a_table():
    html = figures.line_chart({"ours": [(1, 10.0), (2, 20.0)], "copy": [(1, 30.0), (2, None)]}, "n", "GB/s", "Rate")
    text = Reader(html).text
    assert "ours: 10 at 1 to 20 at 2; copy: 30 at 1 to 30 at 1" in text
    assert "n ours copy 1 10 30 2 20 —" in text and "The numbers" in text
    path = re.search(r'class="kl-line kl-c0 kl-dash0" d="([^"]*)"', html).group(1)
    (x1, y1), (x2, y2) = ([float(v) for v in point.split()] for point in path[1:].split("L"))
    assert x2 > x1 and y2 < y1, "larger is further right and higher up"


def test_sizes_that_double_are_labelled_in_binary_units():
    html = figures.line_chart({"a": [(1024, 1.0), (1 << 20, 2.0)]}, "n", "y", log_x=True, log_base_x=2)
    for drawn in wide(html), phone(html):
        assert re.findall(r">(\d+[KM])<", drawn) == ["1K", "4K", "16K", "64K", "256K", "1M"]


def test_labels_of_lines_that_end_together_are_apart():
    html = figures.line_chart({str(i): [(1, 5.0), (2, 5.0 + i / 100)] for i in range(6)}, "n", "y")
    heights = sorted(float(y) for y in re.findall(r'kl-end kl-c\d" x="[\d.]+" y="([\d.]+)"', html))
    assert len(heights) == 6 and min(np.diff(heights)) >= 14.9


@pytest.mark.parametrize("bad", [float("nan"), float("inf")])
def test_no_figure_shows_what_is_not_a_number(bad):
    for draw in (
        lambda: figures.bar_chart([("a", bad)], "µs"),
        lambda: figures.line_chart({"a": [(1, bad)]}, "x", "y"),
        lambda: figures.data_table(["a"], [[bad]]),
    ):
        with pytest.raises(ValueError, match=r"finite|a figure was given"):
            draw()


@pytest.mark.parametrize(
    ("shape", "words"),
    [
        ((268435456,), "268,435,456"),
        ((4096,), "4,096"),
        ((4096, 1024), "4,096 × 1,024"),
        ((32, 1 << 20), "32 × 1,048,576"),
        ((), "scalar"),
    ],
)
def test_a_shape_is_written_for_readers(shape, words):
    assert shape_text(shape) == words


@pytest.mark.parametrize(
    ("least", "ticks"), [(1e-6, ["1e-06", "1e-04", "1e-02", "1", "100"]), (1e-2, ["0.01", "0.1", "1", "10", "100"])]
)
def test_ticks_of_an_axis_have_one_notation(least, ticks):
    html = figures.line_chart({"a": [(least, 1.0), (100, 2.0)]}, "n", "y", log_x=True)
    assert re.findall(r'<text x="[\d.]+" y="[\d.]+">([^<]*)</text>', html)[: len(ticks)] == ticks


def test_axes_have_round_ticks_that_enclose_the_values():
    assert Axis([3, 61.2], log=False).ticks == [0, 20, 40, 60, 80]
    assert Axis([12, 6100], log=True).ticks == [10, 100, 1000, 10000]
    assert Axis([1024, 1 << 20], log=True, base=2).ticks[0] == 1024
    assert Axis([5.0, 5.0], log=False).ticks[-1] >= 5 and Axis([0.0], log=False).ticks[-1] > 0


@pytest.mark.parametrize(
    ("value", "words"),
    [
        (None, "—"), (257, "257"), (12345, "12,345"), (12.345, "12.3"), (0.98765, "0.988"), (1234.5, "1,234"),
        (2e-7, "2.00e-07"),
    ],
)  # fmt: skip
def test_numbers_read_well(value, words):
    assert number(value) == words


def test_a_ragged_table_is_refused():
    with pytest.raises(ValueError, match="2 headings, but a row has 1 cells"):
        figures.data_table(["a", "b"], [["c"]])
