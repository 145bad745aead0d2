"""A wrong value is traced to who wrote it; NaN where the reference has none is a verdict of its own."""

import numpy as np
import pytest

from kernels.trace import Buffer, Launch, Recorder
from kernels.trace.cuda import trace_cuda_launcher, why_not
from kernels.trace.faults import VERDICTS
from kernels.trace.values import changed_inputs, value_faults


def written(shape=(2, 4), strides=(6, 1), skip=()):
    """Two blocks, each of which writes a row; thread t writes column t."""
    recorder = Recorder()
    launch = recorder.launch(Launch("made", (2, 1, 1), (32, 1, 1), "cuda"))
    buffer = recorder.buffer(Buffer("out", 4, shape, strides))
    site = recorder.site("made.cu", 7)
    for row in range(shape[0]):
        for column in range(shape[1]):
            element = row * strides[0] + column
            if element not in skip:
                recorder.add(
                    launch=launch, block=row, thread=column, what=1, buffer=buffer, element=element, size=4, site=site
                )
    return recorder.trace()


def test_nan_names_its_writer_before_wrong_values():
    right = np.arange(8.0).reshape(2, 4)
    result = right.copy()
    result[0, 2], result[1, 1], result[1, 2] = 2.5, np.nan, np.nan
    nan, wrong = value_faults(written(), "out", result, right, atol=0.1)
    assert (nan.kind, nan.element, nan.count, nan.line) == ("not-a-number", 7, 2, 7)
    assert nan.who == "block 1, thread 1 (warp 0, lane 1)" and "out[1, 1] is NaN" in nan.sentence
    assert (wrong.kind, wrong.element, wrong.count) == ("wrong-value", 2, 1)
    assert "out[0, 2] is 2.5, and the reference has 2 there: more than 0.1 apart" in wrong.sentence
    assert {nan.explanation, wrong.explanation} <= set(VERDICTS)


@pytest.mark.parametrize(
    ("result", "right", "kinds"),
    [
        (1.0, 1.0, []),
        (1.05, 1.0, []),
        (1.2, 1.0, ["wrong-value"]),
        (np.nan, np.nan, []),
        (1.0, np.nan, ["wrong-value"]),
        (np.nan, 1.0, ["not-a-number"]),
        (np.nan, np.inf, ["not-a-number"]),
        (np.inf, np.inf, []),
        (np.inf, -np.inf, ["wrong-value"]),
        (np.inf, 1.0, ["wrong-value"]),
        (1.0, np.inf, ["wrong-value"]),
    ],
)
def test_special_values(result, right, kinds):
    trace = written((1, 1), (1, 1))
    assert [fault.kind for fault in value_faults(trace, "out", [[result]], [[right]], rtol=0.1)] == kinds


def test_an_element_that_nobody_wrote_is_left_to_the_trace():
    trace = written(skip=(1,))
    result = np.zeros((2, 4))
    result[0, 1] = np.nan
    assert value_faults(trace, "out", result, np.zeros((2, 4))) == []
    assert [fault.kind for fault in trace.faults(["out"])] == ["unwritten"]


def test_shapes_must_agree():
    with pytest.raises(ValueError, match=r"result has shape \(4,\); buffer 'out' has \(2, 4\)"):
        value_faults(written(), "out", np.zeros(4), np.zeros((2, 4)))


@pytest.mark.skipif(why_not() is not None, reason=str(why_not()))
def test_the_unguarded_merge_of_a_masked_stretch():
    x = np.full((1, 300), -np.inf, np.float32)
    x[0, 299] = 0
    out = np.full_like(x, np.nan)
    guard = "if (score == -INFINITY) {"
    args = [x, out, 1, 300, 300, 300]
    trace = trace_cuda_launcher("launch_softmax_online", args, replace={guard: "if (false) {"})
    right = np.zeros((1, 300))
    right[0, 299] = 1
    assert trace.faults() == []
    (fault,) = value_faults(trace, "out", out, right)
    assert (fault.kind, fault.buffer, fault.element, fault.count) == ("not-a-number", "out", 0, 300)
    assert "exp(-inf - -inf)" in fault.cause


def test_an_input_that_was_changed_names_who_did_it():
    before = np.full((2, 4), np.nan)
    after = before.copy()
    assert changed_inputs(written(), "out", before, after) == []
    after[1, 0], after[1, 3] = 5.0, 6.0
    (fault,) = changed_inputs(written(), "out", before, after)
    assert (fault.kind, fault.element, fault.count, fault.line) == ("input-changed", 6, 2, 7)
    assert fault.who == "block 1, thread 0 (warp 0, lane 0)" and "from nan to 5" in fault.sentence
    (elsewhere,) = changed_inputs(written(skip=(6,)), "out", before, after)  # by PyTorch, say: no access is known
    assert (elsewhere.who, elsewhere.line) == ("", 0)
