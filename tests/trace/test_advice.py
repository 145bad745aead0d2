"""Advice names the lines that waste sectors or bank passes, with the numbers; lines that cannot do better get none."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from pace import in_sorts

from kernels.trace import Buffer, Launch, Recorder
from kernels.trace.advice import ADVICE
from kernels.trace.cuda import trace_cuda, trace_cuda_launcher, why_not

SOURCE = Path(__file__).parent / "cuda_sources" / "advice.cu"
cuda = pytest.mark.skipif(why_not() is not None, reason=str(why_not()))


def floats(*shape):
    return np.zeros(shape, np.float32)


def advised(kernel, args, block=128, grid=1, source=SOURCE):
    trace = trace_cuda(kernel, grid=grid, block=block, args=args, source=source)
    assert trace.faults([]) == []
    return trace.advice()


def pattern(kernel, rows, columns):
    out = floats(columns, rows) if "transpose" in kernel else floats(rows, columns)
    args = [floats(rows, columns), out, rows, columns, columns, out.shape[1]]
    return trace_cuda_launcher(f"launch_{kernel}", args, source="cuda/patterns.cu").advice()


def numbers(item):
    return item.kind, item.buffer, item.moved, item.needed, item.worst, item.count


# ---- the four patterns, whole and ragged ----


@cuda
@pytest.mark.parametrize("shape", [(64, 64), (70, 45), (37, 33)])
@pytest.mark.parametrize("kernel", ["copy_rows", "transpose_tile_33"])
def test_kernels_that_do_well_get_no_advice(kernel, shape):
    assert pattern(kernel, *shape) == []


@cuda
@pytest.mark.parametrize(("rows", "columns"), [(64, 64), (70, 45)])
def test_lanes_that_run_down_a_column(rows, columns):
    found = pattern("copy_columns", rows, columns)
    requests = columns * -(-rows // 32) - columns * (0 < rows % 32 < 8)  # a tail of six lanes does not count
    sectors = 32 * columns * (rows // 32)
    assert [numbers(item) for item in found] == [
        ("uncoalesced", name, sectors, sectors // 8, 32, requests) for name in ("x", "out")
    ]
    assert (found[0].degree, found[0].efficiency, found[0].who) == (8.0, 0.125, "block (0, 0, 0), warp 0")
    assert "threadIdx.x runs down a column" in found[0].cause and "swap the roles of x and y" in found[0].remedy
    assert "32 sectors of 32 bytes, where 4 would do" in found[0].sentence


@cuda
@pytest.mark.parametrize(("rows", "columns"), [(64, 64), (37, 33)])
def test_a_tile_column_in_one_bank(rows, columns):
    (item,) = pattern("transpose_tile_32", rows, columns)
    requests = columns * (rows // 32)
    assert numbers(item) == ("bank-conflict", "tile", 32 * requests, requests, 32, requests)
    assert item.efficiency == 1 / 32 and item.remedy == "pad each row by one column: `tile[32][32 + 1]`"
    assert "meet in one bank" in item.cause


@cuda
def test_one_thread_a_row_of_softmax_is_told_to_share_the_row():
    x = floats(64, 40)
    trace = trace_cuda_launcher("launch_softmax_serial", [x, np.empty_like(x), 64, 40, 40, 40])
    found = trace.advice()
    assert [item.kind for item in found] == ["uncoalesced"] * 4 and {item.moved for item in found} == {64 * 40}
    assert "each lane walks along a row of its own" in found[0].cause
    narrow = floats(3, 40)  # three rows: three lanes, which is a tail
    assert trace_cuda_launcher("launch_softmax_serial", [narrow, np.empty_like(narrow), 3, 40, 40, 40]).advice() == []


# ---- what cannot do better, and what can ----


@cuda
def test_a_kernel_that_cannot_do_better_gets_no_advice():
    assert advised("one_column", [floats(96 * 50), floats(96), 96, 50]) == []


@cuda
def test_a_piece_for_each_thread():
    (item,) = advised("strided", [floats(128 * 8), floats(128), 128, 8])
    assert numbers(item) == ("uncoalesced", "x", 4 * 8 * 32, 128, 32, 32)
    assert "a piece of its own, 8 elements from its neighbour's" in item.cause and "float4" in item.remedy


@cuda
@pytest.mark.parametrize("at", [0, 1, 7])
@pytest.mark.parametrize(("kernel", "kind"), [("dealt", np.float32), ("bytes", np.uint8)])
def test_a_dense_run_that_begins_within_a_sector_gets_no_advice(kernel, kind, at):
    assert advised(kernel, [np.zeros(1008, kind), np.zeros(1000, kind), 1000, at]) == []


@cuda
def test_wide_loads_are_counted_by_their_bytes():
    assert advised("quads", [floats(1024), floats(1024), 256, 1]) == []
    (item,) = advised("quads", [floats(1024), floats(1024), 256, 5])
    # 32 lanes of 16 bytes fill 16 sectors and open 32: half of each sector is for another warp.
    assert numbers(item) == ("uncoalesced", "x", 256, 128, 32, 8)
    assert item.efficiency == 0.5


@cuda
def test_a_gather_says_so_and_atomics_are_left_alone():
    n = 256
    index = np.random.default_rng(0).permutation(n).astype(np.int32)
    (item,) = advised("gather", [index, floats(n), floats(n), n], grid=2)
    assert item.buffer == "x" and "no fixed step" in item.cause and 2 <= item.degree <= 8
    assert advised("histogram", [np.arange(256, dtype=np.int32) % 32, np.zeros(512, np.int32), 256], grid=2) == []


@cuda
@pytest.mark.parametrize(
    ("kind", "step", "passes", "ideal"),
    [("float", 2, 2, 1), ("float", 32, 32, 1), ("float", 6, 2, 1), ("float2", 2, 4, 2), ("float4", 2, 8, 4)],
)
def test_steps_over_the_banks(kind, step, passes, ideal):
    (item,) = advised(f"shared_step<{kind}>", [floats(128), floats(32), step, 32], block=32)
    assert numbers(item) == ("bank-conflict", "words", passes, ideal, passes // ideal, 1)


@cuda
@pytest.mark.parametrize(
    ("kind", "step", "lanes"),
    [("float", 1, 32), ("float", 33, 32), ("float2", 1, 32), ("float4", 1, 32), ("float", 32, 7)],
)
def test_banks_that_are_free_of_conflicts_and_a_tail(kind, step, lanes):
    assert advised(f"shared_step<{kind}>", [floats(128), floats(32), step, lanes], block=32) == []


# ---- order, Triton, size ----


def made(reads, threads=True, lanes=32):
    """A trace of one warp (or program) whose line k reads the elements reads[k] of one buffer."""
    recorder = Recorder()
    language, block = ("cuda", (32, 1, 1)) if threads else ("triton", None)
    launch = recorder.launch(Launch("made", (1, 1, 1), block, language))
    buffer = recorder.buffer(Buffer("x", 4, (1 << 20,)))
    for line, elements in enumerate(reads, 1):
        elements = np.asarray(elements)
        thread = np.arange(len(elements)) % lanes if threads else -1
        sequence = recorder.next_sequence + np.arange(len(elements)) if threads else None
        recorder.add(
            launch=launch, block=0, thread=thread, what=0, buffer=buffer, element=elements, size=4,
            site=recorder.site("made.cu", line), sequence=sequence,
        )  # fmt: skip
    return recorder.trace()


def test_the_line_that_wastes_most_comes_first():
    lanes = np.arange(32)
    half = np.concatenate([lanes * 4 + k for k in range(4)])
    whole = np.concatenate([lanes * 8 + k for k in range(8)])
    found = made([half, lanes, whole]).advice()
    assert [(item.line, item.degree) for item in found] == [(3, 8.0), (1, 4.0)]
    assert all(item.kind in ADVICE and item.explanation == item.kind for item in found)


def test_one_sector_too_many_is_no_advice():
    eight = np.tile(np.arange(8), 10)  # 32 bytes, read ten times over
    assert made([eight + 1], lanes=8).advice() == []
    (item,) = made([eight * 4 + 1], lanes=8).advice()
    assert (item.moved, item.needed) == (40, 10)


def test_advice_is_the_same_as_what_the_requests_say():
    generator = np.random.default_rng(5)
    trace = made([generator.integers(0, 400, 32 * 40)])
    (item,) = trace.advice()
    requests = trace.requests()
    assert item.count == len(requests) == 40
    assert item.moved == sum(len(request.sectors) for request in requests)
    assert item.efficiency == sum(r.useful_bytes for r in requests) / sum(r.sector_bytes for r in requests)


def test_a_program_whose_elements_lie_apart():
    sweep = [np.arange(64) * 8 + k for k in range(8)]
    trace = made(sweep, threads=False)
    assert trace.advice() == []  # a line each: no sector twice on any line
    trace.columns["site"][:] = 0
    (item,) = trace.advice()
    assert (item.degree, item.mask) == (8.0, "on") and "lie 8 elements apart" in item.cause


def test_lanes_that_triton_could_not_give_a_wide_load():
    trace = made([np.concatenate([np.arange(32) * 4 + k for k in range(4)])])
    launch = Launch("made", (1, 1, 1), (32, 1, 1), "triton")
    trace = replace(trace, launches=(launch,), columns=dict(trace.columns, sequence=np.repeat(np.arange(4), 32)))
    (item,) = trace.advice()
    assert (item.moved, item.needed) == (64, 16)
    assert "each thread 4 neighbouring elements" in item.cause and "multiples of 16" in item.remedy


def test_a_large_trace_takes_seconds_not_minutes():
    lanes = np.arange(32)
    trace = made([(np.arange(40_000)[:, None] * 32 + lanes).reshape(-1) % (1 << 20)])
    assert trace.advice() == [] and len(trace) == 1_280_000
    assert in_sorts(trace.advice) < 600  # 55 here; a second is about 60
