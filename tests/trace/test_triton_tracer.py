"""The tracer's manners: the interpreter is left as it was, and what cannot be traced is refused in words."""

import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

torch = pytest.importorskip("torch")
triton = pytest.importorskip("triton")
from test_triton import fail, fill  # noqa: E402
from triton.runtime import interpreter  # noqa: E402

from kernels.trace.triton import trace_triton  # noqa: E402

pytestmark = pytest.mark.triton


def hooks():
    executor = interpreter.GridExecutor
    return interpreter._interpreter, interpreter._implicit_cvt, executor.__call__, executor._init_args_hst


@pytest.mark.parametrize("how", ["returns", "kernel fails", "launch fails", "exits"])
def test_the_interpreter_is_left_as_it_was(how):
    before, x = hooks(), torch.zeros(4)

    def launch():
        if how == "kernel fails":
            fail[(1,)](x)
        if how == "launch fails":
            raise ValueError("planted")
        if how == "exits":
            raise SystemExit(3)

    if how == "returns":
        trace_triton(launch, {"x": x})
    else:
        with pytest.raises((interpreter.InterpreterError, ValueError, SystemExit)):
            trace_triton(launch, {"x": x})
    assert hooks() == before
    fill[(1,)](x, 4, STEP=4, BLOCK=4)
    assert x.tolist() == [1.0] * 4


def test_a_trace_within_a_trace_is_refused():
    with pytest.raises(RuntimeError, match="taken already"):
        trace_triton(lambda: trace_triton(lambda: None, {}), {})


def test_a_launch_that_launches_nothing_gives_an_empty_trace():
    trace = trace_triton(lambda: None, {"x": torch.zeros(0)})
    assert len(trace) == 0 and trace.launches == () and trace.faults() == []


def test_compiled_kernels_are_refused_with_a_sentence():
    code = "from kernels.trace.triton import trace_triton; trace_triton(lambda: None, {})"
    root = Path(__file__).parents[2]
    done = subprocess.run([sys.executable, "-c", code], cwd=root, env={"PATH": ""}, capture_output=True, text=True)
    assert done.returncode == 1 and "TRITON_INTERPRET=1" in done.stderr.splitlines()[-1]


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ({"x": [1.0, 2.0]}, "buffer 'x' is a list; it is a torch tensor that the launch works on"),
        ({"x": "x"}, "buffer 'x' is a str"),
        ({"x": np.zeros(3)}, "buffer 'x' is a numpy array, which Triton does not take; pass torch.from_numpy(...)"),
        ({0: torch.zeros(3)}, "buffer name 0 is not a string"),
        ([torch.zeros(3)], "buffers is a list; it is a dict that names tensors"),
        (None, "buffers is a NoneType"),
    ],
)
def test_what_is_no_tensor_is_refused_in_words(given, words):
    with pytest.raises(TypeError) as caught:
        trace_triton(lambda: None, given)
    assert str(caught.value).startswith(words)


def test_a_launch_that_cannot_be_called_is_refused_in_words():
    with pytest.raises(TypeError, match="launch is a Tensor; it is a function without arguments"):
        trace_triton(torch.zeros(3), {})
