"""The row plan's grid: what is measured over the stand-in device, how it is scored, and the script's sentences."""

import os
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest
import torch
from documents import provenance
from fake_device import FakeDevice

from kernels.bench.results import Limit, Writer, read
from kernels.bench.row_grid import FEW, FULL, QUICK, measure_grid, old_rule, scores, table
from kernels.bench.run import Options
from kernels.ops import softmax as module
from kernels.ops.op import Implementation

SCRIPT = Path(__file__).resolve().parents[2] / "scripts" / "row_plan_grid.py"
TIMES = {None: 20.0, "block": 30.0, "twice": 25.0, "looped": 10.0}


def grid(tmp_path, monkeypatch, shapes, seconds=100.0, now=lambda: 0.0):
    device = FakeDevice()

    def launch_softmax(x, out, *, path=None, block=None, num_warps=None):
        if path not in TIMES:
            raise ValueError(f"path is {path!r}, which cannot run here.")
        device.busy(TIMES[path] * (4.0 if block else 1.0))
        return out.copy_(torch.softmax(x, -1))

    monkeypatch.setattr(module, "launch_softmax", launch_softmax)
    source = module.OP.implementation("triton").source
    plan = Implementation("triton", lambda x: launch_softmax(x, torch.empty_like(x)), "triton", source, ours=True)
    writer = Writer(tmp_path / "grid.json", provenance())
    writer.add_limit(Limit(name="copy", method="x", gb_per_s=10.0))
    options = Options(samples=3, cache="warm", dtypes=("float32", "bfloat16"))
    op = replace(module.OP, implementations=(plan,))
    paths = ("block", "twice", "joint", "looped")
    whole = measure_grid(device, op, shapes, options, writer, str, paths=paths, seconds=seconds, now=now)
    writer.finish()
    return whole, read(tmp_path / "grid.json").cases


def test_every_path_and_the_old_rule_are_scored(tmp_path, monkeypatch):
    whole, cases = grid(tmp_path, monkeypatch, ((4, 40), (2, 2000)))
    assert whole and len(cases) == 2 * 2 * 6
    assert {case.status for case in cases if case.implementation == "triton[path=joint]"} == {"unavailable"}
    found = scores(cases)
    assert [(score.shape, score.dtype) for score in found[:2]] == [((4, 40), "float32"), ((4, 40), "bfloat16")]
    for score in found:
        assert score.best == "triton[path=looped]"
        assert (score.plan_us, score.best_us, score.old_us) == pytest.approx((20.0, 10.0, 120.0))
    text = table(found)
    assert "2 x 2000" in text and "2.00" in text and "6.00" in text
    assert "takes 2.000 times the time of the best" in text
    assert "takes 6.000 times the time of the plan, 4 cases" in text


def test_no_case_begins_after_the_time_is_over(tmp_path, monkeypatch):
    ticks = iter([0.0, 1.0, 6.0])
    whole, cases = grid(tmp_path, monkeypatch, ((4, 40), (2, 20)), seconds=5.0, now=lambda: next(ticks))
    assert not whole and {(tuple(case.shape), case.dtype) for case in cases} == {((4, 40), "float32")}


def test_a_case_whose_plan_failed_has_no_score(tmp_path, monkeypatch):
    _, cases = grid(tmp_path, monkeypatch, ((4, 40),))
    for case in cases:
        if case.implementation == "triton" and case.dtype == "float32":
            case.status = "wrong"
    assert [score.dtype for score in scores(cases)] == ["bfloat16"]
    assert table([]) == "No case was measured: there is nothing to score."


@pytest.mark.parametrize(
    "columns,size,rule",
    [
        (128, 4, "path=block,block=128,warps=4"),
        (1000, 2, "path=block,block=1024,warps=4"),
        (16384, 4, "path=block,block=16384,warps=32"),
        (16384, 2, "path=block,block=16384,warps=16"),
        (32769, 4, "path=looped,block=16384,warps=32"),
        (1 << 20, 2, "path=looped,block=32768,warps=32"),
    ],
)
def test_the_old_rule_is_the_one_that_was_replaced(columns, size, rule):
    assert old_rule(columns, size) == rule


def test_the_grids_hold_each_shape_once_and_fit_a_gpu():
    for shapes in (QUICK, (*FULL, *FEW)):
        assert len(set(shapes)) == len(shapes)
        assert all(m > 0 and m * n * 4 <= 2**30 for m, n in shapes)


def run(*options):
    environment = {**os.environ, "CUDA_VISIBLE_DEVICES": ""}
    return subprocess.run(
        [sys.executable, str(SCRIPT), *options], env=environment, capture_output=True, text=True, timeout=500
    )


def test_without_a_gpu_it_says_so():
    done = run("--quick")
    assert done.returncode == 3 and "GPU" in done.stderr and "Traceback" not in done.stderr


def test_no_time_is_a_usage_error():
    done = run("--seconds", "0")
    assert done.returncode == 2 and "expected more than 0" in done.stderr
