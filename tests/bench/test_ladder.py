"""The ladder's record: what is read of it, what is drawn, and what a page says where there is none."""

import json
import re
import subprocess
import sys
from dataclasses import replace

import pytest

from kernels.bench import ladder
from kernels.bench import ladder_patterns as patterns
from kernels.bench.device import gpu_missing
from kernels.cuda.matmul import RUNGS
from kernels.figures.ladder import ladder_chart, ladder_table
from kernels.sources import project_root


def row(name, dtype="float32", size=1024, us=100.0, **more):
    flops = 2 * size**3
    return {"name": name, "dtype": dtype, "size": size, "median_us": us, "spread_us": 1.0, "samples": 3,
            "tflop_per_s": flops / us / 1e6, "of_cublas": 80.0 / us, "rung": name, **more}  # fmt: skip


DOCUMENT = {
    "times": [
        row("cublas", us=80.0),
        row("matmul_tiled", us=400.0),
        row("async k 8", us=95.0),
        row("matmul_naive", us=1000.0),
        row("cublas", us=81.0),  # timed again beside the slow ones
        row("matmul_wmma", "bfloat16"),
    ],
    "counters": {"matmul_tiled": {"launch__registers_per_thread": 32.0, "dram__bytes_read.sum": 5e9,
                                  "launch__shared_mem_per_block_static": 8192.0,
                                  "launch__shared_mem_per_block_dynamic": 0.0}},
}  # fmt: skip


def test_rungs_stand_in_the_order_of_the_ladder_with_the_library_last():
    names = [rung.name for rung in ladder.rungs(DOCUMENT, "float32", 1024)]
    assert names == ["matmul_naive", "matmul_tiled", "cublas"]
    assert ladder.rungs(DOCUMENT, "float32", 1024)[-1].median_us == 80.0  # as it was timed first
    with_variants = [rung.name for rung in ladder.rungs(DOCUMENT, "float32", 1024, variants=True)]
    assert with_variants == [*names, "async k 8"]
    assert ladder.rungs(DOCUMENT, "float32", 2048) == []


def test_a_counter_that_is_not_there_is_none():
    assert ladder.counter(DOCUMENT, "matmul_tiled", "dram__bytes_read.sum") == 5e9
    assert ladder.counter(DOCUMENT, "matmul_naive", "dram__bytes_read.sum") is None
    assert ladder.counter({}, "matmul_naive", "x") is None


def test_the_table_shows_counters_in_their_units_and_a_dash_for_none():
    html = ladder_table(ladder.rungs(DOCUMENT, "float32", 1024), DOCUMENT, "caption")
    tiled = html[html.index("matmul_tiled") : html.index("cublas</th>")]
    assert ">32<" in tiled and ">8<" in tiled and ">5<" in tiled and "0.20" in tiled and "—" in tiled
    assert "caption" in html


def test_the_chart_has_a_line_a_rung():
    rows = [rung for size in (1024,) for rung in ladder.rungs(DOCUMENT, "float32", size)]
    html = ladder_chart([*rows, *(replace(rung, size=2048) for rung in rows)], "caption")
    assert all(f">{name}</text>" in html for name in ("naive", "tiled", "cublas"))
    bars = ladder_chart(rows, "caption")  # one size makes no line
    assert "</text>" not in bars and all(f"{name}, float32" in bars for name in ("naive", "tiled", "cublas"))


def test_the_middle_half_is_the_spread():
    found = ladder.summary("x", [4.0, 1.0, 3.0, 2.0], dtype="float32")
    assert (found["median_us"], found["samples"], found["dtype"]) == (2.5, 4, "float32")
    assert found["spread_us"] == pytest.approx(2.5)
    assert ladder.summary("x", [7.0])["spread_us"] == 0


def test_no_record_is_none(tmp_path):
    assert ladder.read(tmp_path / "none.json") is None
    (tmp_path / "some.json").write_text(json.dumps(DOCUMENT), encoding="utf-8")
    assert ladder.read(tmp_path / "some.json") == DOCUMENT


def test_the_committed_record_has_every_rung_at_8192_and_nothing_that_was_wrong():
    document = ladder.read()
    if document is None:
        pytest.skip("The ladder has not been measured on the H200 yet.")
    names = {rung.name for dtype in ("float32", "bfloat16") for rung in ladder.rungs(document, dtype, 8192)}
    assert names == {*RUNGS, "cublas"}
    wrong = {
        (arm, shape): said
        for arm, checks in document["checks"].items()
        for shape, said in checks.items()
        if said != "ok"
    }
    assert wrong == {} and document["hung"] == []


def test_changed_code_is_stale():
    today = ladder.hashes()
    assert set(today) == set(ladder.launchers().values()) and len(set(today.values())) == len(today)
    place = "cuda/matmul.cu:launch_matmul_tiled"
    assert ladder.stale({"hashes": today}) == [] == ladder.stale({})
    assert ladder.stale({"hashes": today | {place: "another"}}) == [place]


def test_a_rung_that_was_measured_with_earlier_code_says_so():
    today = ladder.hashes()
    document = DOCUMENT | {"hashes": today | {"cuda/matmul.cu:launch_matmul_tiled": "another"}}
    assert ladder.stale_rungs(document) == {"matmul_tiled"}
    html = ladder_table(ladder.rungs(document, "float32", 1024), document, stale=ladder.stale_rungs(document))
    assert html.count("(earlier code)") == 1 and "matmul_tiled (earlier code)" in html


def test_the_committed_record_names_the_code_of_every_rung():
    document = ladder.read()
    if document is None:
        pytest.skip("The ladder has not been measured on the H200 yet.")
    assert {ladder.launchers()[rung] for rung in RUNGS} <= set(document["hashes"])


def test_the_pages_read_the_patterns_by_the_names_that_they_are_measured_under():
    keys = {
        f"{name} {m}x{n}" for name in ("fused_bias_relu_scale", "fused_bias_gelu") for m, n in patterns.FUSED_SHAPES
    }
    pages = [project_root() / "docs/essentials" / name for name in ("6-synchronization.md", "10-fused-patterns.md")]
    text = "\n".join(page.read_text(encoding="utf-8") for page in pages)
    read = set(re.findall(r'(?:arms|bars)\("([^"{]+)"', text)) - {"dequantize_matmul 1"}
    assert read and read <= keys
    few = re.search(r"^FEW = (\(.*\))$", text, re.M)[1]
    assert eval(few) == patterns.FEW_ROWS and set(re.findall(r"\(\((1 << \d+), ", text)) == {"1 << 16"}


@pytest.mark.gpu
@pytest.mark.skipif(gpu_missing() is not None, reason="needs an NVIDIA GPU")
def test_every_pattern_is_timed_on_the_gpu():
    found = patterns.measure_patterns(samples=3, say=lambda _: None)
    assert len(found) == 4 + len(patterns.FEW_ROWS) + 2 * len(patterns.SUMMED)
    assert all(arm["median_us"] > 0 for entry in found.values() for arm in entry["arms"])


def test_without_a_gpu_the_command_says_so():
    import torch

    if torch.cuda.is_available():
        pytest.skip("This machine has a GPU.")
    command = [sys.executable, str(project_root() / "scripts/ladder.py")]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 3 and "GPU" in done.stderr
