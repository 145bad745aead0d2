"""Global memory that threads or blocks share: every open order gets its verdict, and what is ordered gets none."""

from pathlib import Path

import numpy as np
import pytest

from kernels.trace.cuda import trace_cuda, why_not

pytestmark = pytest.mark.skipif(why_not() is not None, reason=str(why_not()))
RACES = Path(__file__).parent / "cuda_sources" / "races.cu"
TEXT = RACES.read_text().splitlines()
BOTH = pytest.mark.parametrize("order", ["forward", "backward"])


def floats(n=64):
    return np.arange(n, dtype=np.float32)


def empty(n=64, kind=np.float32):
    return np.zeros(n, kind)


def run(kernel, args, block=64, grid=1, **more):
    return trace_cuda(kernel, grid=grid, block=block, args=args, source=RACES, **more)


def kinds(trace):
    return [(f.kind, f.buffer, f.count) for f in trace.faults()]


WITHIN = [
    # kernel, arguments, buffer, elements, words of the two lines
    ("shift_in_place", lambda: [floats(), 64], "x", 64, ("x[i] = x[(i + 1)", "x[i] = x[(i + 1)")),
    ("through_tmp", lambda: [floats(), empty(), empty(), 64], "tmp", 64, ("tmp[i] = in[i]", "tmp[(i + 33)")),
    ("running_sum", lambda: [floats(), empty()], "out", 63, ("out[i] = ", "out[i - 1] + in[i]")),
    ("count_and_read", lambda: [empty(1, np.int32), empty(64, np.int32)], "c", 1, ("atomicAdd(c", "= *c")),
    ("guess_and_leave", lambda: [empty(1, np.int32), empty(64, np.int32)], "c", 1, ("atomicCAS(c", "= *c")),
    ("read_and_count", lambda: [empty(1, np.int32), empty(64, np.int32)], "c", 1, ("atomicAdd(c", "= *c")),
]  # fmt: skip


@BOTH
@pytest.mark.parametrize(("kernel", "args", "buffer", "count", "words"), WITHIN, ids=[case[0] for case in WITHIN])
def test_a_race_in_global_memory_within_a_block(kernel, args, buffer, count, words, order):
    trace = run(kernel, args(), order=order)
    assert kinds(trace) == [("global-race", buffer, count)]
    fault = trace.faults()[0]
    assert words[0] in TEXT[fault.line - 1] and f"races.cu:{fault.line}" in fault.sentence
    lines = [
        number for number, text in enumerate(TEXT, 1) if words[1] in text and f"races.cu:{number})" in fault.sentence
    ]
    assert lines, fault.sentence
    assert "thread" in fault.who and "__syncthreads()" in fault.cause


def test_the_race_shows_in_the_result_of_the_other_order():
    one, other = floats(), floats()
    run("shift_in_place", [one, 64])
    run("shift_in_place", [other, 64], order="backward")
    assert one.tolist() != other.tolist()


def test_a_shared_counter_that_others_still_update_is_read_too_early():
    assert kinds(run("count_and_read_shared", [empty(64, np.int32)])) == [("shared-race", "c", 1)]


def test_two_writers_of_one_element_are_named_once():
    assert kinds(run("add_to_one", [floats(), empty(1)])) == [("double-write", "sum", 1)]


def test_syncwarp_orders_lanes_in_global_memory_too():
    args = [floats(), empty(), empty()]
    assert kinds(run("lane_to_lane", args)) == []
    assert kinds(run("lane_to_lane", args, replace={"    __syncwarp();\n": "\n"})) == [("global-race", "tmp", 64)]
    assert kinds(run("lane_to_lane", args, replace={"tmp[i ^ 1]": "tmp[i ^ 32]"})) == [("global-race", "tmp", 64)]


def sum_of(n):
    return n * (n - 1) / 2


RIGHT = [
    ("shift_with_barrier", lambda: [floats(), 64], lambda x, n: x.tolist() == [*range(1, 64), 0]),
    ("tree_sum", lambda: [floats(), empty(), empty(1)], lambda i, t, out: out[0] == sum_of(64)),
    ("scan_in_place", lambda: [floats()], lambda x: x[63] == sum_of(64)),
    ("last_thread_sums", lambda: [floats(), empty(), empty(1, np.int32), empty(1)], lambda *a: a[3][0] == sum_of(64)),
    ("count_wait_read", lambda: [empty(1, np.int32), empty(64, np.int32)], lambda c, out: (out == 64).all()),
    ("add_by_compare_and_swap", lambda: [empty(1), floats()], lambda s, i: s[0] == sum_of(64)),
]  # fmt: skip


@BOTH
@pytest.mark.parametrize(("kernel", "args", "holds"), RIGHT, ids=[case[0] for case in RIGHT])
def test_right_kernels_that_meet_in_global_memory_are_not_accused(kernel, args, holds, order):
    given = args()
    assert [str(fault) for fault in run(kernel, given, order=order).faults()] == []
    assert holds(*given)


def test_each_order_of_a_right_kernel_is_needed():
    shift, fence = (
        "    const float next = x[(i + 1) % n];\n    __syncthreads();\n",
        "    tmp[i] = in[i];\n    __threadfence_block();",
    )
    assert kinds(run("shift_with_barrier", [floats(), 64], replace={shift: shift.replace("__syncthreads();", "")})) == [
        ("global-race", "x", 64)
    ]
    given = [floats(), empty(), empty(1, np.int32), empty(1)]
    # The last thread may read its own value without a fence.
    assert kinds(run("last_thread_sums", given, replace={fence: "    tmp[i] = in[i];\n"})) == [
        ("global-race", "tmp", 63)
    ]


# ---- between blocks ----


def last_block(kernel="last_block_sums", partials=4, **more):
    args = [floats(256), empty(partials), empty(1, np.uint32), empty(1)]
    return run(kernel, args, grid=4, **more), args[3][0]


@BOTH
def test_the_last_block_may_read_what_the_others_wrote_before_their_fence_and_count(order):
    trace, total = last_block(order=order)
    assert [str(fault) for fault in trace.faults()] == [] and total == sum_of(256)
    trace, total = last_block("last_block_reads_all", 256, order=order)
    assert [str(fault) for fault in trace.faults()] == [] and total == 2 * sum_of(256)


EACH_FENCES = "    __threadfence();\n    __syncthreads();\n    if (threadIdx.x == blockDim.x - 1) last ="


@BOTH
def test_one_thread_may_fence_for_its_block_after_a_barrier_and_not_before(order):
    one = "    __syncthreads();\n    if (threadIdx.x == blockDim.x - 1) __threadfence();\n"
    one += "    if (threadIdx.x == blockDim.x - 1) last ="
    trace, _ = last_block("last_block_reads_all", 256, order=order, replace={EACH_FENCES: one})
    assert [str(fault) for fault in trace.faults()] == []
    before = "    if (threadIdx.x == blockDim.x - 1) __threadfence();\n    __syncthreads();\n"
    before += "    if (threadIdx.x == blockDim.x - 1) last ="
    trace, _ = last_block("last_block_reads_all", 256, order=order, replace={EACH_FENCES: before})
    # Of each block but the last, the thread that fences itself is in order.
    assert kinds(trace) == [("read-write-overlap", "partial", 3 * 63)]


@BOTH
def test_a_lock_orders_the_blocks_that_take_it(order):
    total = empty(1)
    trace = run("one_at_a_time", [floats(256), empty(1, np.int32), total], grid=4, order=order)
    assert [str(fault) for fault in trace.faults()] == [] and total[0] == sum_of(256)


@BOTH
@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("        __threadfence();  // the partial before the count\n", "\n"),
        ("        __threadfence();  // the partial", "        __threadfence_block();  // the partial"),
        ("atomicInc(count, gridDim.x - 1) == gridDim.x - 1", "blockIdx.x == gridDim.x - 1"),
        ("atomicInc(count, gridDim.x - 1)", "(atomicInc(count + blockIdx.x, 0), blockIdx.x)"),
    ],
    ids=["no fence", "a fence for one block only", "no count", "each its own count"],
)
def test_without_fence_or_count_the_last_block_reads_too_early(old, new, order):
    args = [floats(256), empty(4), empty(4, np.uint32), empty(1)]
    trace = run("last_block_sums", args, grid=4, order=order, replace={old: new})
    assert kinds(trace)[0] == ("read-write-overlap", "partial", 3)


@BOTH
def test_a_count_that_nobody_looks_at_and_one_that_comes_too_early(order):
    args = [floats(256), empty(4), empty(1, np.uint32), empty(4)]
    found = kinds(run("counts_and_does_not_look", args, grid=4, order=order))
    assert [fault[:2] for fault in found] == [("read-write-overlap", "partial")]
    assert kinds(last_block("counts_too_early", order=order)[0])[0] == ("read-write-overlap", "partial", 3)


def test_without_its_lock_each_block_writes_the_sum():
    text = "    while (atomicCAS(lock, 0, 1) != 0) {\n    }\n"
    args = [floats(256), empty(1, np.int32), empty(1)]
    found = kinds(run("one_at_a_time", args, grid=4, replace={text: "\n\n"}))
    assert ("double-write", "sum", 1) in found


def test_backward_begins_with_the_last_block():
    out = empty(1, np.int32)
    source = Path(__file__).parent / "cuda_sources" / "traps.cu"
    args = {"source": source, "replace": {"out[threadIdx.x / 2] = threadIdx.x": "out[0] = blockIdx.x"}}
    trace_cuda("all_write", grid=3, block=1, args=[out], **args)
    assert out[0] == 2
    trace_cuda("all_write", grid=3, block=1, args=[out], order="backward", **args)
    assert out[0] == 0
