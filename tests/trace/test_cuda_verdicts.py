"""Each wrong kernel gets the verdict that names its line and its threads; the right ones get none."""

from pathlib import Path

import numpy as np
import pytest

from kernels.trace.cuda import trace_cuda, trace_cuda_launcher, why_not
from kernels.trace.cuda_build import host_compiler

GCC_ONLY = pytest.mark.skipif(
    why_not() is None and host_compiler().family != "g++",
    reason="clang++ copies a float4 without saying that it is one",
)
pytestmark = pytest.mark.skipif(why_not() is not None, reason=str(why_not()))
TRAPS = Path(__file__).parent / "cuda_sources" / "traps.cu"
TEXT = TRAPS.read_text().splitlines()


def ints(n=64):
    return np.zeros(n, np.int32)


def floats(n=64):
    return np.zeros(n, np.float32)


def verdict(kernel, args, block, **more):
    """The only verdict, besides outputs that a stopped kernel did not reach."""
    trace = trace_cuda(kernel, grid=1, block=block, args=args, source=TRAPS, **more)
    found = trace.faults()
    assert len(found) == 1, [str(fault) for fault in found]
    return found[0]


STOPPED = [
    # kernel, arguments, block, kind, words of the line, words of the sentence
    ("forever", [ints()], 1, "too-long", "while (spin)", "thread 0"),
    ("recursive", [ints()], 1, "stack-overflow", "depth", "calls itself"),
    ("divides", [ints(), 0], 4, "crash", "100 / by", "division by zero"),
    ("through_null", [None], 4, "out-of-bounds", "*out = 1;", "near no buffer"),
    ("far_away", [floats()], 4, "out-of-bounds", "out[100000000]", "near no buffer"),
    ("past_shared", [floats()], 64, "out-of-bounds", "few[threadIdx.x] =", "lane 4) writes 4 bytes outside shared few"),
    ("half_warp", [ints()], 32, "warp-divergence", "0xffffffffu, 1, 1)", "threads 16–31 returned"),
    ("outside_mask", [ints(32)], 32, "warp-divergence", "void outside_mask", "mask 0x0000ffff, which leaves it out"),
    ("asserts", [ints()], 4, "assertion", "assert(", "lane 3) finds that `threadIdx.x != 3` is false"),
    ("traps", [ints()], 4, "assertion", "__trap()", "lane 2) calls `__trap()`"),
    ("votes", [np.zeros(48, np.uint32), *[ints(48)] * 3], 48, "warp-divergence", "__ballot", "48–63 do not"),
]  # fmt: skip


@pytest.mark.parametrize(
    ("kernel", "args", "block", "kind", "line", "words"), STOPPED, ids=[case[0] for case in STOPPED]
)
def test_a_kernel_that_cannot_go_on_is_stopped_with_a_sentence(kernel, args, block, kind, line, words):
    fault = verdict(kernel, args, block, max_seconds=0.3)
    assert fault.kind == kind
    assert line in TEXT[fault.line - 1]
    assert f"traps.cu:{fault.line}" in fault.sentence
    assert words in fault.sentence


def test_an_endless_kernel_that_touches_memory_is_stopped_by_the_events_it_makes():
    fault = verdict("hog", [ints()], 1, max_events=10_000)
    assert (fault.kind, fault.who) == ("too-many-events", "block 0, thread 0 (warp 0, lane 0)")
    assert "out[0] + 1" in TEXT[fault.line - 1]


def test_the_process_works_on_after_a_crash():
    verdict("divides", [ints(), 0], 4)
    out = ints(4)
    assert trace_cuda("divides", grid=1, block=4, args=[out, 5], source=TRAPS).faults() == []
    assert out.tolist() == [20] * 4


def test_two_halves_of_a_block_at_two_barriers():
    fault = verdict("two_barriers", [ints()], 64)
    lines = [number for number, text in enumerate(TEXT, 1) if "        __syncthreads();" in text]
    assert fault.kind == "barrier-divergence"
    assert f"threads 0–39 at line {lines[0]} and threads 40–63 at line {lines[1]} wait for each other" in fault.sentence


def test_a_shuffle_from_a_lane_that_the_mask_leaves_out():
    fault = verdict("narrow_mask", [ints(16)], 32)
    assert (fault.kind, fault.count) == ("inactive-lane", 1)
    assert "thread 15 (warp 0, lane 15) shuffles from lane 16" in fault.sentence


def test_two_threads_that_write_one_element():
    fault = verdict("all_write", [ints(32)], 64)
    assert (fault.kind, fault.count, fault.element) == ("double-write", 32, 0)


def test_a_write_before_the_first_element():
    fault = verdict("below", [ints(62)], 64)
    assert (fault.kind, fault.element, fault.count) == ("out-of-bounds", -1, 2)


def test_syncwarp_orders_the_lanes_of_a_warp_and_its_absence_is_a_race():
    right = trace_cuda("neighbours", grid=1, block=64, args=[ints()], source=TRAPS)
    assert right.faults() == []
    fault = verdict("neighbours", [ints()], 64, replace={"    __syncwarp();\n": "\n"})
    assert (fault.kind, fault.buffer, fault.count) == ("shared-race", "slot", 64)


def test_shared_memory_begins_every_block_without_values():
    out = floats(64)
    trace = trace_cuda("unset", grid=2, block=32, args=[out], source=TRAPS)
    assert (out[:33] == 7).all() and np.isnan(out[33:]).all()
    assert [(f.kind, f.buffer, f.element, f.count) for f in trace.faults()] == [("read-before-written", "slot", 1, 31)]
    assert trace.faults()[0].who == "block 1, thread 1 (warp 0, lane 1)"


def test_a_launch_that_the_gpu_would_refuse():
    trace = trace_cuda_launcher("launch_too_many", [ints(1024)], source=TRAPS)
    assert trace.result == 9  # cudaErrorInvalidConfiguration
    assert [fault.kind for fault in trace.faults()] == ["launch-refused", "unwritten"]
    assert "this one has 2048" in trace.faults()[0].sentence


def opt_in(bytes_, launcher="launch_through_shared", replace=None):
    source = TRAPS.parent / "opt_in.cu"
    return trace_cuda_launcher(launcher, [floats(32), bytes_], source=source, replace=replace).faults()


def test_dynamic_shared_memory_that_the_launch_does_not_ask_for():
    x, out = floats(), floats()
    found = trace_cuda("reversed", grid=1, block=64, args=[x, out], source=TRAPS).faults()
    assert {fault.kind for fault in found} == {"out-of-bounds"} and {fault.buffer for fault in found} == {"line"}
    assert all("asks for no dynamic shared memory" in fault.sentence for fault in found)


def test_the_limits_of_shared_memory_name_their_architectures():
    refused, unwritten = opt_in(300 * 1024)
    assert (refused.kind, unwritten.kind) == ("launch-refused", "unwritten")
    assert "163 KiB on sm_80" in refused.cause and "99 KiB on sm_86, sm_89 and sm_120" in refused.cause
    assert "227 KiB on sm_90 and sm_100" in refused.cause and refused.cause.endswith("this one wants 300 KiB")


def test_more_than_48_kib_of_shared_memory_must_be_asked_for():
    assert opt_in(48 * 1024) == []
    (fault,) = opt_in(48 * 1024 + 4)
    assert fault.kind == "launch-refused" and "It ran here all the same" in fault.sentence
    assert "cudaFuncSetAttribute(through_shared, " in fault.cause and fault.line == 11
    call = "cudaFuncSetAttribute(through_shared, cudaFuncAttributeMaxDynamicSharedMemorySize, bytes);"
    assert opt_in(64 * 1024, "launch_asked_for", {"// ASK": call}) == []
    direct = trace_cuda(
        "through_shared", grid=1, block=32, args=[floats(32)], shared_bytes=1 << 16, source=TRAPS.parent / "opt_in.cu"
    )
    assert direct.faults() == []


# ---- the kernels of the lessons, broken on purpose ----


def add(n=257, **more):
    x, y = (np.random.default_rng(seed).normal(size=n).astype(np.float32) for seed in (1, 2))
    return trace_cuda_launcher("launch_vector_add", [x, y, np.full(n, np.nan, np.float32), n], **more)


def softmax(columns=33, rows=2, kernel="softmax_parallel", **more):
    x = np.random.default_rng(3).normal(size=(rows, columns)).astype(np.float32)
    out = np.full_like(x, np.nan)
    return trace_cuda_launcher(f"launch_{kernel}", [x, out, rows, columns, columns, columns], **more)


def source_line(words):
    text = (Path(__file__).parents[2] / "cuda" / "kernels.cu").read_text().splitlines()
    return [number for number, line in enumerate(text, 1) if words in line]


def test_a_dropped_guard_of_vector_add():
    found = add(replace={"if (i < n) {": "{"}).faults()
    assert [(f.kind, f.buffer, f.element, f.count) for f in found] == [
        ("out-of-bounds", "x", 257, 255),
        ("out-of-bounds", "y", 257, 255),
        ("out-of-bounds", "out", 257, 255),
    ]
    assert {f.line for f in found} == set(source_line("        out[i] = x[i] + y[i];"))
    assert {f.who for f in found} == {"block 1, thread 1 (warp 0, lane 1)"}


def test_an_element_owned_twice_and_one_owned_by_nobody():
    twice = add(replace={"out[i] =": "out[i / 2] ="}).faults()
    assert [(f.kind, f.element, f.count) for f in twice] == [("double-write", 0, 128), ("unwritten", 129, 128)]
    short = add(replace={"n + kThreads - 1": "n"}).faults()
    assert [(f.kind, f.element, f.count) for f in short] == [("unwritten", 256, 1)]


@pytest.mark.parametrize("comment", ["all kWarps partials", "the result is in scratch[0]", "every thread has read"])
def test_each_missing_barrier_of_the_parallel_softmax(comment):
    barrier = f"    __syncthreads();  // {comment}"
    found = softmax(replace={barrier: "    // "}).faults()
    assert [fault.kind for fault in found] == ["shared-race"]
    assert found[0].buffer == "scratch"
    assert "scratch" in (Path(__file__).parents[2] / "cuda" / "kernels.cu").read_text().splitlines()[found[0].line - 1]


def test_an_early_return_before_a_barrier_names_the_threads():
    head = "    float thread_max = -INFINITY;\n"
    early = {head: f"    if (threadIdx.x >= columns) {{ return; }} {head}"}
    whole_warps = softmax(columns=64, replace=early).faults()
    assert [fault.kind for fault in whole_warps] == ["barrier-divergence"]
    assert "threads 0–63 at line" in whole_warps[0].sentence
    assert "threads 64–255 returned and never arrive" in whole_warps[0].sentence
    assert whole_warps[0].line in source_line("__syncthreads();")
    torn_warp = softmax(columns=33, replace=early).faults()
    assert [fault.kind for fault in torn_warp] == ["warp-divergence"]
    assert "threads 33–255 returned" in torn_warp[0].sentence


def test_scratch_that_is_too_small_for_the_warps():
    found = softmax(replace={"float scratch[kWarps]": "float scratch[kWarps / 2]"}).faults()
    assert [(f.kind, f.buffer, f.element) for f in found] == [("out-of-bounds", "scratch", 4)]


@GCC_ONLY
def test_float4_on_rows_that_are_not_aligned():
    guard = "columns % 4 == 0 && is_aligned_16(x_row) && is_aligned_16(out_row)"
    found = softmax(columns=33, kernel="softmax_online", replace={guard: "true"}).faults()
    assert [(f.kind, f.buffer, f.element) for f in found] == [("misaligned", "x", 33)]
    assert found[0].who == "block 1, thread 0 (warp 0, lane 0)"


def test_the_faults_planted_for_the_sanitizers_are_found_without_a_gpu():
    plants = Path(__file__).parents[1] / "cuda" / "plants"
    x, out = floats(256), floats(256)
    race = trace_cuda("reverse_without_barrier", grid=1, block=256, args=[x, out], source=plants / "missing_barrier.cu")
    assert [(f.kind, f.buffer, f.count) for f in race.faults()] == [("shared-race", "tile", 256)]
    past = trace_cuda(
        "store_past_the_end", grid=5, block=256, args=[floats(1024), 1024], source=plants / "out_of_bounds.cu"
    )
    assert [(f.kind, f.buffer, f.element) for f in past.faults()] == [("out-of-bounds", "out", 1024)]


@GCC_ONLY
def test_a_float4_laid_over_an_odd_element():
    fault = verdict("misaligned", [floats(), floats()], 1)
    assert (fault.kind, fault.buffer, fault.element) == ("misaligned", "x", 1)
    assert "thread 0 (warp 0, lane 0) reads 16 bytes at x[1]" in fault.sentence


@pytest.mark.parametrize("kernel", ["softmax_serial", "softmax_parallel", "softmax_online", "softmax_online_scalar"])
@pytest.mark.parametrize("columns", [1, 31, 33, 256, 260, 513])
def test_right_kernels_are_not_accused(kernel, columns):
    assert softmax(columns=columns, kernel=kernel).faults() == []
    assert add(n=columns).faults() == []


def test_padding_between_rows_belongs_to_nobody():
    x, out = np.zeros((3, 40), np.float32), np.full((3, 40), np.nan, np.float32)
    args = [x[:, :33], out[:, :33], 3, 33, 40, 40]
    assert trace_cuda_launcher("launch_softmax_parallel", args).faults() == []
    assert np.isnan(out[:, 33:]).all()
    np.testing.assert_allclose(out[:, :33], 1 / 33, rtol=1e-6)
    args[3] = 34
    found = trace_cuda_launcher("launch_softmax_parallel", args).faults()
    assert {(f.kind, f.buffer) for f in found} == {("out-of-bounds", "out"), ("out-of-bounds", "x")}
    assert {f.count for f in found} == {3}  # one element behind each row, of which the last lies behind the buffer
    assert {f.element for f in found} == {2 * 40 + 33}
