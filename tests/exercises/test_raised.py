"""Errors that beginners get from a Triton launch: the failure names the line, and says what they mean."""

import importlib.util

import pytest

torch = pytest.importorskip("torch")
pytest.importorskip("triton")

from kernels.exercises.expect import CheckFailed  # noqa: E402
from kernels.exercises.traced import traced  # noqa: E402

pytestmark = pytest.mark.triton

RIGHT = """
import math

import torch
import triton
import triton.language as tl

BLOCK = 8


@triton.jit
def _double(x_ptr, out_ptr, n, BLOCK: tl.constexpr):
    offsets = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    x = tl.load(x_ptr + offsets, mask=offsets < n)
    tl.store(out_ptr + offsets, 2 * x, mask=offsets < n)


def double(x, out, n):
    _double[(1,)](x, out, n, BLOCK=BLOCK)
"""
MISTAKES = {
    "called without a grid": ("_double[(1,)](", "_double(", "without a grid", ""),
    "a number for a grid": ("[(1,)]", "[1]", "it is a tuple", "_double[1]"),
    "an argument left out": (", BLOCK=BLOCK)", ")", "leaves out an argument", "_double[(1,)](x, out, n)"),
    "arguments in another order": ("(x, out, n, ", "(x, n, out, ", "another order", "x = tl.load"),
    "arange with one number": ("arange(0, BLOCK)", "arange(BLOCK)", "no short form", "offsets ="),
    "program_id without an axis": ("program_id(0)", "program_id()", "takes the axis", "offsets ="),
    "a block of seven places": ("BLOCK = 8", "BLOCK = 7", "power of two", "offsets ="),
    "range for arange": ("tl.arange(0, BLOCK)", "range(0, BLOCK)", "Python's lists and ranges", "offsets ="),
    "an index for a load": (
        "tl.load(x_ptr + offsets, mask=offsets < n)",
        "x_ptr[offsets]",
        "a pointer is no list",
        "x =",
    ),
    "one place for a block": ("out_ptr + offsets", "out_ptr", "the pointer has one", "tl.store"),
    "an axis too many": ("2 * x", "tl.sum(x, axis=1)", "axes count from 0", "tl.store"),
    "math for tl": ("2 * x", "math.exp(x)", "functions on blocks come from tl", "tl.store"),
    "torch for tl": ("2 * x", "torch.exp(x)", "functions on blocks come from tl", "tl.store"),
    "Python's sum": ("2 * x", "sum(x)", "functions on blocks come from tl", "tl.store"),
    "an exponential of float16": ("2 * x", "tl.exp(x.to(tl.float16))", "take float32", "tl.store"),
}


def failure(tmp_path, text):
    path = tmp_path / "answer.py"
    path.write_text(text)
    spec = importlib.util.spec_from_file_location("answer", path)
    answer = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(answer)
    x, out = torch.ones(8), torch.zeros(8)
    with pytest.raises(CheckFailed) as ended:
        traced(lambda: answer.double(x, out, 8), {"x": x, "out": out}, ["out"], given="eight ones")
    return ended.value.failure


@pytest.fixture(autouse=True)
def fresh(monkeypatch):
    from kernels.exercises.expect import seen

    monkeypatch.setattr(seen, "failure", None)


@pytest.mark.parametrize("name", MISTAKES)
def test_a_known_error_says_what_it_means(tmp_path, name):
    before, after, cause, line = MISTAKES[name]
    assert RIGHT.count(before) == 1
    found = failure(tmp_path, RIGHT.replace(before, after))
    assert cause in found.cause and found.hint
    assert found.got.startswith(line) and found.place.startswith("answer.py:")
    assert found.kind == "raised" and found.given == "eight ones" and "answer.py" in found.traceback


@pytest.mark.parametrize("error", ["NotImplementedError('to do')", "KeyError('mine')"])
def test_other_errors_pass_through(error):
    def launch():
        raise eval(error)

    with pytest.raises(type(eval(error))):
        traced(launch, {"x": torch.ones(1)}, [])


def test_an_input_that_was_written_goes_before_an_output_that_was_not(tmp_path):
    found = failure(tmp_path, RIGHT.replace("tl.store(out_ptr", "tl.store(x_ptr"))
    assert found.kind == "input-changed"


def test_what_an_answer_reads_unwritten_is_nan_and_only_while_it_runs(tmp_path):
    path = tmp_path / "answer.py"
    path.write_text(RIGHT)
    spec = importlib.util.spec_from_file_location("answer", path)
    answer = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(answer)
    x, out, seen = torch.arange(5.0), torch.full((5,), float("nan")), []

    def launch():
        seen.append(torch.empty(4096))
        answer.double(x, out, 5)

    traced(launch, {"x": x, "out": out}, outputs=["out"])
    assert bool(seen[0].isnan().all())
    assert not torch.are_deterministic_algorithms_enabled()
