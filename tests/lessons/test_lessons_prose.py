"""Numbers that were typed into prose: which are listed, which are not, and how one is excused."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from kernels.lessons.model import PageSource
from kernels.lessons.prose import typed_numbers

ROOT = Path(__file__).resolve().parents[2]


def listed(text: str, offset: int = 0) -> list[tuple[int, str]]:
    found = typed_numbers(PageSource("page.md", Path("page.md"), text, offset))
    return [(fault.line, re.search(r"the number ['\"](.*?)['\"] is typed", fault.message)[1]) for fault in found]


@pytest.mark.parametrize(
    "number",
    [
        "3 µs", "3.5 μs", "12us", "4 ms", "7 ns", "3–5 µs", "3-5 µs", "3 — 5 ms", "-3 µs", "10-µs", "1.5 s",
        "2 seconds", "900 nanoseconds", "6 GB", "512 KB", "48 KiB", "64 kB", "1.2 TB", "80 MB/s", "4,800 GB/s",
        "4 800 GB/s",
        "4\u202f800\u00a0GB/s", "3.3e12 B/s", "3.3 × 10^12 B/s", "2·10¹² FLOP/s", "400 Gbit/s", "12 %", "12%",
        "12 percent", "60 TFLOP/s", "60 TFLOPS", "500 GFLOPs", "156 FLOP/byte", "10 FLOP per byte", "1 980 MHz",
        "700 W", "85 °C", "255 registers", "1 register", "400 cycles", "32 clock cycles", "8 sectors", "132 SMs",
        "132 multiprocessors", "2×", "1.7 ×", "3x", "4-fold", "40fold", "12 times as fast", "2.5 times the traffic",
        "3 times faster", "5 gigabytes per second", "1'000 µs", "&#49;2 µs", "12&nbsp;µs",
    ],
)  # fmt: skip
@pytest.mark.parametrize("around", ["It takes {} here.", "({})", "**{}**", "| {} | yes |", "<td>{}</td>", "- {}, then"])
def test_a_number_with_a_unit_is_listed(number, around):
    assert [line for line, _ in listed(around.format(number))] == [1]


@pytest.mark.parametrize(
    "text",
    [
        "It takes <b>12</b> µs.", "It takes *12* µs.", "It takes 12\nµs on a GPU.", "<p>12\n<em>GB/s</em></p>",
        "??? question \"Why 12 µs?\"", "> 12 µs", "    12 µs in a folded part", "[12 µs](page.md)", "# 12 µs",
    ],
)  # fmt: skip
def test_it_is_listed_however_it_is_marked_up(text):
    assert len(listed(text)) == 1


@pytest.mark.parametrize(
    "text",
    [
        "a shape of 4096 × 1024", "32 × 32 floats", "4096 × `N`", "256 threads", "32 bytes", "a float of 4 bytes",
        "33 columns", "`12 µs`", "`#!value f\"{x:.0f} µs\"`", "takes `#!value x` µs", "```text\n12 µs\n```",
        "~~~\n12 µs\n~~~",
        "````markdown\n```\n12 µs\n```\n12 µs\n````", "> ```text\n> 12 µs\n> ```\n", "<!-- 12 µs -->",
        "<!--\n12 µs\n-->", '<div style="width: 50%; height: 12 µs">x</div>', "[here](a%20b.md#12%20ms)",
        "Lesson 9: registers", "sm_90 s",
        "1 to 7, plain Python", "45 minutes", "8192 times, and each", "the 1980s", "kernel-12 ms",
        "12 sessions", "{: style=\"12 ms\"}", "2³¹ elements", "float32 µs", "3 xs", "64-bit",
        "12 mechanisms", "100 spilling threads", "<svg><text>12 µs</text></svg>", "5 operations", "threefold",
    ],
)  # fmt: skip
def test_what_is_code_or_a_choice_is_not_listed(text):
    assert listed(text) == []


def test_a_column_carries_the_unit_of_its_cells():
    table = "| width | median µs | GB/s | note |\n| --- | ---: | ---: | --- |\n"
    table += "| 1024 | 12.5 | `#!value x` | 3 |\n| 33 | ~7 | - | a |\n"
    assert listed(table) == [(3, "12.5 in the column median µs"), (4, "~7 in the column median µs")]
    assert listed(table.replace("median µs", "x").replace("GB/s", "what")) == []


def test_each_line_is_listed_once_by_its_number_in_the_file():
    assert listed("one 1 µs and 2 µs\n\n```text\n3 µs\n```\n\nfour 4 %\r\n", offset=3) == [(4, "1 µs"), (10, "4 %")]


@pytest.mark.parametrize(
    ("text", "lines"),
    [
        ("12 µs <!-- typed: a data sheet -->\n13 µs", [2]),
        ("<!-- typed: a data sheet -->\n\n12 µs\n13 µs", [4]),
        ("<!-- typed: -->\n12 µs", [2]),
        ("12 µs <!-- a data sheet -->", [1]),
    ],
)
def test_an_excuse_names_its_source_and_speaks_for_one_line(text, lines):
    assert [line for line, _ in listed(text)] == lines


def test_the_pages_have_no_typed_number_and_each_excuse_says_whose_it_is():
    excuses, faults = [], []
    for path in sorted((ROOT / "docs").rglob("*.md")):
        text = path.read_text(encoding="utf-8")
        prose = re.sub(r"^( *)(`{3,}|~{3,}).*?^\1\2", "", text, flags=re.MULTILINE | re.DOTALL)
        excuses += re.findall(r"(?<!`)<!--\s*typed:\s*(.*?)\s*-->", prose)
        faults += [fault.where() for fault in typed_numbers(PageSource(path.name, path, text))]
    assert faults == []
    assert [excuse for excuse in excuses if len(excuse.split()) < 3] == []
    assert len(excuses) > 3
