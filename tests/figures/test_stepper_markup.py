"""The stepper's markup: the table says every step, the data says the same, all of it stays small and safe."""

import json
import re
from pathlib import Path

import numpy as np
import pytest
from test_figures import EVIL, Reader
from test_steps import unfolded

from kernels.figures import stepper
from kernels.figures.steps import KINDS, Part
from kernels.trace import Buffer, Launch, Recorder
from kernels.trace.model import READ, WRITE

SOURCE = "".join(f"line {n} <b>&amp;</b>\n" if n != 12 else "\n" for n in range(1, 41))


def trace(rounds=3, name="x", threads=64, scattered=False, programs=0):
    """`rounds` loads and stores of a block; with `programs`, a Triton launch that knows no threads."""
    recorder = Recorder()
    block = None if programs else (threads, 1, 1)
    recorder.launch(Launch("k", (programs or 2, 1, 1), block, "triton" if programs else "cuda"))
    recorder.buffer(Buffer(name, 4, (100_000,)))
    recorder.buffer(Buffer("tile", 4, (64,), space="shared", address=256 + 4))
    who = np.full(threads, -1) if programs else np.arange(threads)
    generator = np.random.default_rng(0)
    for number in range(programs or 1):
        for turn in range(rounds):
            elements = np.arange(threads) + threads * (turn + rounds * number)
            if scattered:
                elements = generator.permutation(100_000)[:threads]
            for what, buffer, line in ((READ, 0, 10), (WRITE, 1, 30)):
                recorder.add(
                    launch=0, block=number, thread=who, what=what, buffer=buffer,
                    element=elements if buffer == 0 else np.arange(threads), size=4,
                    site=recorder.site("k.cu", line), active=np.arange(threads) < threads - 3 if programs else True,
                )  # fmt: skip
    return recorder.trace()


def data(html):
    return json.loads(re.search(r"data-steps='([^']*)'", html).group(1))


def test_every_step_of_the_trace_is_in_the_table_and_in_the_data():
    given = trace()
    html = stepper(given, source=SOURCE, caption="Loads and stores.")
    text = Reader(html).text
    rows = re.findall(r'<tr><th scope="row" class="kl-num">(\d+)</th><td class="kl-num">0</td>', html)
    assert rows == list("123456")
    assert "1 0 10 reads threads 0–63 → x[0]–x[63] 2 0 30 writes threads 0–63 → tile[0]–tile[63]" in text
    found = data(html)
    assert (found["threads"], found["drawn"]) == (64, 2) and found["start"] == {"thread": 0, "step": 0}
    told = {
        (found["buffers"][buffer]["name"], KINDS[kind], line, thread, element)
        for line, kind, buffer, _, _, _, on, _ in found["blocks"][0]["steps"]
        for thread, element in unfolded(Part(*numbers) for numbers in on)
    }
    assert told == {(e.buffer, e.what, e.line, e.thread, e.element) for e in given}


def test_masked_elements_are_told_apart():
    html = stepper(trace(1, programs=2))
    assert "x[0]–x[60]<br>masked off: x[61]–x[63]" in html
    assert "program 0" in html and "program 1" in html
    assert [block["steps"][0][7] for block in data(html)["blocks"]] == [[[61, 1, 3, 61, 1]], [[61, 1, 3, 125, 1]]]


def test_the_source_shows_what_does_something_with_its_numbers():
    html = stepper(trace(), source=SOURCE)
    lines = [int(n) for n in re.findall(r'data-line="(\d+)"', html)]
    assert lines == [8, 9, 10, 11, 28, 29, 30, 31, 32] and "⋮" in html
    assert "line 10 &lt;b&gt;&amp;amp;&lt;/b&gt;" in html
    assert "<pre" not in stepper(trace())


@pytest.mark.parametrize(
    "name", [EVIL, "</script><script>alert(1)</script>", "<!--", "]]>", "\u2028&amp;", "' onclick='alert(1)"]
)
def test_no_name_leaves_its_place(name):
    html = stepper(trace(name=name), source=f"{name}\n" * 40, caption=name)
    read = Reader(html)
    assert "script" not in read.tags and "</script" not in html and "<!--" not in html
    assert html.count("data-steps=") == 1 and json.loads(read.steps[0]) == data(html)
    assert data(html)["buffers"][0]["name"] == name
    assert " ".join(name.split()) in read.text


def test_the_same_trace_gives_the_same_bytes_without_style_ids_or_empty_lines():
    html = stepper(trace(), source=SOURCE)
    assert html == stepper(trace(), source=SOURCE)
    assert "\n\n" not in html and not re.search(r"style=|\bid=|\bon\w+=|#[0-9a-f]{3,6}\b|https?:", html)


def test_classes_are_in_the_stylesheet():
    css = (Path(__file__).parents[2] / "docs/assets/lessons.css").read_text()
    missing = {word for word in Reader(stepper(trace(), source=SOURCE)).classes if f".{word}" not in css}
    assert missing == set()
    script = "".join(path.read_text() for path in (Path(__file__).parents[2] / "docs/assets").glob("stepper*.js"))
    used = set(re.findall(r"kl-[a-z]+(?:__[a-z]+)?(?:--[a-z]+)?", script)) - {"kl-stepper", "kl-m--", "kl-t--m"}
    plain = {"kl-m--barrier", "kl-m--exchange", "kl-t--e", "kl-t--soft"}
    assert {word for word in used - plain if f".{word}" not in css} == set()
    script = script.replace("http://www.w3.org/2000/svg", "")
    assert not re.search(r"#[0-9a-f]{3,6}\b|rgb|https?:|\bfetch\b|eval\(|\.style\b", script)


def test_too_many_steps_are_thinned_and_it_is_said():
    html = stepper(trace(rounds=600))
    assert 50_000 < len(html.encode()) <= 60_000
    shown = int(re.search(r"Shown: the first (\d+) of 1,200 steps\.", html).group(1))
    assert len(data(html)["blocks"][0]["steps"]) == shown == html.count('<th scope="row"')


def test_too_many_programs_are_thinned_first():
    html = stepper(trace(rounds=10, programs=64))
    assert 50_000 < len(html.encode()) <= 60_000
    last = int(re.search(r"Shown: programs 0–(\d+) of 64\.", html).group(1))
    assert [block["number"] for block in data(html)["blocks"]] == list(range(last + 1))
    assert all(len(block["steps"]) == 20 for block in data(html)["blocks"])
    more = stepper(trace(rounds=1, programs=100))
    assert "Shown: programs 0–63 of 100." in more


def test_a_step_that_does_not_fit_is_refused_in_words():
    with pytest.raises(ValueError, match=r"the first step alone needs [\d,]+ bytes, and a stepper may have 60,000"):
        stepper(trace(rounds=1, threads=1024, scattered=True, name="a_name_as_long_as_this"))


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"block": 2}, "the launch has 2 blocks, so there is no block 2"),
        ({"block": []}, "no block was chosen"),
        ({"thread": 64}, "thread=64, but a block has 64 threads"),
        ({"step": 6}, "step=6, but there are 6 steps"),
    ],
)
def test_what_the_launch_does_not_have_is_refused(given, said):
    with pytest.raises(ValueError, match=said):
        stepper(trace(), **given)
    with pytest.raises(KeyError, match="no buffer 'nosuch'"):
        stepper(trace(), buffers=["nosuch"])


def test_an_empty_trace_says_so():
    recorder = Recorder()
    assert "No access" in stepper(recorder.trace())
    recorder.launch(Launch("k", (1, 1, 1), (32, 1, 1), "cuda"))
    assert "No access" in stepper(recorder.trace())
    assert "No access" in stepper(trace(), block=1)


def test_banks_do_not_depend_on_where_a_compiler_puts_an_array():
    assert [buffer["address"] for buffer in data(stepper(trace()))["buffers"]] == [0, 4]


def test_drawn_buffers_come_first_and_others_are_still_told():
    found = data(stepper(trace(), buffers=["tile"]))
    assert [buffer["name"] for buffer in found["buffers"]] == ["tile", "x"] and found["drawn"] == 1
