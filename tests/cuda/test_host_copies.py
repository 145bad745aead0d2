"""Asynchronous copies in the host build: nothing is there before the wait, and each way to forget it has a verdict."""

from pathlib import Path

import numpy as np
import pytest

from kernels.trace.cuda import trace_cuda, why_not

pytestmark = pytest.mark.skipif(why_not() is not None, reason=str(why_not()))
SOURCE = Path(__file__).parent / "host_sources" / "copies.cu"
F32 = np.float32
WAIT = "    __pipeline_wait_prior(0);\n    __syncthreads();\n"


def run(kernel, *args, block=64, **more):
    return trace_cuda(kernel, grid=1, block=block, args=args, source=SOURCE, **more)


def neighbour(**more):
    x, out = np.arange(256, dtype=F32), np.zeros(64, F32)
    return run("neighbour", x, out, **more), out


def stages(tiles=5, **more):
    x, out = np.arange(64 * tiles, dtype=F32), np.zeros(64, F32)
    trace = run("two_stages", x, out, tiles, **more)
    return trace, out, x.reshape(tiles, 64).sum(0)[::-1]


def line_of(text):
    return next(n for n, line in enumerate(SOURCE.read_text().splitlines(), 1) if text in line)


@pytest.mark.parametrize("order", ["forward", "backward"])
def test_a_copy_that_is_waited_for_is_a_read_and_a_write_of_its_size(order):
    trace, out = neighbour(order=order)
    assert out.tolist() == [4 * ((i + 1) % 64) for i in range(64)]
    assert trace.faults() == []
    events = list(trace.select(thread=3))
    assert [(e.what, e.buffer, e.element, e.size, e.interval) for e in events] == [
        ("read", "x", 12, 16, 0), ("write", "tile", 12, 16, 0), ("read", "tile", 16, 4, 1), ("write", "out", 3, 4, 1),
    ]  # fmt: skip
    copy = line_of("memcpy_async(tile + 4 * i")
    assert [e.line for e in events][:2] == [copy, copy]
    assert trace.warp_requests("tile", warp=0, what="write")[0].conflict_degree >= 1


@pytest.mark.parametrize("kernel", ["own", "within_warp"])
def test_no_barrier_is_asked_for_where_none_is_needed(kernel):
    x, out = np.arange(64, dtype=F32), np.zeros(64, F32)
    trace = run(kernel, x, out)
    assert out.tolist() == x[np.arange(64) ^ (kernel == "within_warp")].tolist()
    assert trace.faults() == []


def test_a_forgotten_wait_is_named_and_the_values_are_nan():
    x, out = np.arange(64, dtype=F32), np.zeros(64, F32)
    trace = run("own", x, out, replace={"    __pipeline_wait_prior(0);\n    out": "    out"})
    (fault,) = trace.faults()
    assert (fault.kind, fault.buffer, fault.element, fault.count) == ("read-before-written", "tile", 0, 64)
    assert "before it has waited for its asynchronous copy" in fault.sentence
    assert fault.line == line_of("out[i] = tile[i];") - 1  # the line above is gone
    assert np.isnan(out).all()


def test_a_forgotten_wait_before_a_barrier_is_a_race():
    trace, out = neighbour(replace={WAIT: "    __syncthreads();\n"})
    assert [(f.kind, f.buffer) for f in trace.faults()] == [("shared-race", "tile")]
    assert "may still be copying" in trace.faults()[0].sentence and np.isnan(out).all()


def test_a_batch_that_was_never_committed_is_not_waited_for():
    trace, out = neighbour(replace={"    __pipeline_commit();\n" + WAIT: WAIT})
    assert [f.kind for f in trace.faults()] == ["shared-race"] and np.isnan(out).all()


def test_a_forgotten_barrier_after_the_wait_is_a_race():
    trace, _ = neighbour(replace={WAIT: "    __pipeline_wait_prior(0);\n"})
    (fault,) = trace.faults()
    assert (fault.kind, fault.buffer, fault.count) == ("shared-race", "tile", 64)
    assert "barrier is missing" in fault.sentence


@pytest.mark.parametrize("order", ["forward", "backward"])
def test_two_stages_are_right(order):
    trace, out, expected = stages(order=order)
    assert (out == expected).all()
    assert trace.faults() == []


@pytest.mark.parametrize(
    "replace",
    [
        {"        __syncthreads();  // read\n": ""},
        {"        __syncthreads();  // arrived\n": ""},
        {"        __pipeline_wait_prior(1);\n": "        __pipeline_wait_prior(2);\n"},
        {"        __pipeline_wait_prior(1);\n": ""},
    ],
    ids=["overwritten while read", "read before it arrived", "the wrong batch", "no wait"],
)
def test_each_way_to_break_two_stages_is_a_race(replace):
    trace, _, _ = stages(replace=replace)
    assert [(f.kind, f.buffer) for f in trace.faults()] == [("shared-race", "buffer")]


def test_what_lies_past_the_end_is_zero_and_not_read():
    x, out = np.arange(1, 9, dtype=F32), np.full(6, -1, F32)
    trace = run("tail", x, out, block=1)
    assert out.tolist() == [1, 2, 0, 0, 0, 0]
    assert [(e.what, e.element, e.size) for e in trace.select(buffer="x")] == [("read", 0, 8)]
    assert trace.faults() == []


def test_a_copy_from_an_address_off_its_boundary_is_refused():
    trace = run("misaligned", np.arange(8, dtype=F32), np.zeros(1, F32), block=1)
    assert [f.kind for f in trace.faults()] == ["misaligned"]
    assert "reads 16 bytes at x[1] at once" in trace.faults()[0].sentence
