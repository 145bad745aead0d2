"""Every access once, with its true size, kind and line: the traps of the host build, one by one."""

import re
from pathlib import Path

import numpy as np
import pytest

from kernels.trace.cuda import trace_cuda, trace_cuda_launcher, why_not

pytestmark = pytest.mark.skipif(why_not() is not None, reason=str(why_not()))
TRAPS = Path(__file__).parent / "cuda_sources" / "traps.cu"
F32 = np.float32


def run(kernel, args, block, grid=1, **more):
    return trace_cuda(kernel, grid=grid, block=block, args=args, source=TRAPS, **more)


def line_of(text):
    lines = TRAPS.read_text().splitlines()
    found = [number for number, line in enumerate(lines, 1) if text in line]
    assert len(found) == 1, f"{text!r} is on lines {found}"
    return found[0]


def rows(trace, **which):
    return [(e.what, e.buffer, e.element, e.size) for e in trace.select(**which)]


def test_a_float4_is_one_access_of_sixteen_bytes():
    x, out = np.arange(32, dtype=F32), np.zeros(32, F32)
    trace = run("copy_float4", [x, out], 8)
    assert rows(trace, thread=3) == [("read", "x", 12, 16), ("write", "out", 12, 16)]
    assert out.reshape(8, 4)[3].tolist() == [12, 14, 14, 15]
    assert [e.line for e in trace.select(thread=3)] == [line_of("v = x[threadIdx.x]"), line_of("out[threadIdx.x] = v;")]


def test_memcpy_is_a_read_and_a_write():
    x, out = np.arange(8, dtype=F32), np.zeros(8, F32)
    trace = run("copy_bytes", [x, out], 2)
    assert rows(trace, thread=1) == [("read", "x", 4, 16), ("write", "out", 4, 16)]
    assert out.tolist() == x.tolist()
    assert {e.line for e in trace} == {line_of("std::memcpy")}


def test_reads_of_tables_are_seen_const_or_not():
    out = np.zeros(6, F32)
    trace = run("lookup", [out], 6)
    assert out.tolist() == [111, 222, 333, 444, 111, 222]
    assert rows(trace, thread=5) == [
        ("read", "plain_table", 1, 4),
        ("read", "const_table", 1, 4),
        ("read", "device_table", 1, 4),
        ("write", "out", 5, 4),
    ]
    assert trace.buffer("plain_table").space == "constant"
    assert trace.buffer("device_table").space == "global"


def test_repeated_reads_and_writes_are_not_merged():
    x, out = np.arange(1, 5, dtype=F32), np.zeros(4, F32)
    trace = run("square", [x, out], 4)
    assert rows(trace, thread=2) == [
        ("read", "x", 2, 4),
        ("read", "x", 2, 4),
        ("write", "out", 2, 4),
        ("read", "out", 2, 4),
        ("read", "x", 0, 4),
        ("write", "out", 2, 4),
    ]


def test_a_value_that_is_overwritten_at_once_was_written():
    out = np.zeros(2, F32)
    assert rows(run("twice", [out], 1), thread=0) == [("write", "out", 0, 4)] * 2


def test_loads_and_stores_with_a_cache_hint_stand_at_the_callers_line():
    x, out = np.arange(4, dtype=F32), np.zeros(4, F32)
    trace = run("hinted", [x, out], 4)
    assert rows(trace, thread=1) == [("read", "x", 1, 4), ("read", "x", 1, 4), ("write", "out", 1, 4)]
    assert {e.line for e in trace} == {line_of("__stcs(out")}


def test_an_atomic_is_one_event_of_its_own_kind():
    i, u, f, l = np.zeros(3, np.int32), np.zeros(3, np.uint32), np.zeros(1, F32), np.zeros(1, np.uint64)
    trace = run("atomics", [i, u, f, l], 40)
    assert rows(trace, thread=7) == [
        *[("atomic", "i", n, 4) for n in range(3)],
        *[("atomic", "u", n, 4) for n in range(3)],
        ("atomic", "f", 0, 4),
        ("atomic", "l", 0, 8),
    ]
    assert i.tolist() == [40, 39, -39]
    assert u.tolist() == [7, 40, 40 % 10]
    assert (f[0], int(l[0])) == (20.0, 40 << 33)
    assert len({e.line for e in trace}) == 8


def test_blocks_and_threads_in_three_dimensions():
    out = np.full((4, 6, 4), -1, np.int32)
    trace = run("volumes", [out], (2, 3, 2), (2, 2, 2))
    z, y, x = np.indices(out.shape)
    assert (out == 100 * z + 10 * y + x).all()
    where = trace.owners("out", "block")
    assert (where == x // 2 + 2 * (y // 3) + 4 * (z // 2)).all()
    assert (trace.owners("out", "thread") == x % 2 + 2 * (y % 3) + 6 * (z % 2)).all()
    assert trace.launches[0].block_id(int(where[3, 4, 1])) == (0, 1, 1)


def test_dynamic_shared_memory_has_the_size_of_the_launch():
    x, out = np.arange(64, dtype=F32), np.zeros(64, F32)
    trace = run("reversed", [x, out], 64, shared_bytes=256)
    assert out.tolist() == x[::-1].tolist()
    assert trace.buffer("line").shape == (64,)
    assert trace.faults() == []
    short = run("reversed", [x, out], 64, shared_bytes=252)
    assert next((f.kind, f.buffer, f.element) for f in short.faults()) == ("out-of-bounds", "line", 63)


@pytest.mark.parametrize(("pad", "degree"), [(0, 32), (1, 1)])
def test_shared_tiles_of_a_template_and_their_bank_conflicts(pad, degree):
    x, out = np.arange(1024, dtype=F32), np.zeros(1024, F32)
    trace = run(f"transpose<{pad}>", [x, out], (32, 32))
    assert (out.reshape(32, 32) == x.reshape(32, 32).T).all()
    assert trace.buffer("tile").shape == (32, 32 + pad)
    reads = trace.warp_requests("tile", warp=4)
    assert [r.conflict_degree for r in reads] == [degree]
    assert [r.conflict_degree for r in trace.warp_requests("tile", warp=4, what="write")] == [1]


def test_shuffles_as_the_ptx_manual_defines_them():
    up, down, flipped, picked = (np.zeros(32, np.int32) for _ in range(4))
    wide = np.zeros(32)
    run("shuffles", [up, down, flipped, picked, wide], 32)
    lane = np.arange(32)
    assert (up == np.where(lane < 3, lane, lane - 3)).all()
    assert (down == np.where(lane % 16 + 5 > 15, lane, lane + 5)).all()
    assert (flipped == (lane ^ 6)).all()
    assert (picked == lane // 8 * 8 + 1).all()
    assert (wide == np.where(lane == 31, 31, lane + 1) + 0.25).all()


def test_votes_and_counting_barriers():
    ballot, (any_, all_, count) = np.zeros(64, np.uint32), (np.zeros(64, np.int32) for _ in range(3))
    run("votes", [ballot, any_, all_, count], 64)
    expected = [sum(1 << lane for lane in range(32) if (32 * warp + lane) % 3 == 0) for warp in (0, 1)]
    assert ballot.reshape(2, 32).tolist() == [[e] * 32 for e in expected]
    assert any_.reshape(2, 32).any(1).tolist() == [False, True]
    assert all_.reshape(2, 32).all(1).tolist() == [True, False]
    assert set(count.tolist()) == {13 * 4 + 2 + 0}


def test_the_launcher_chooses_the_configuration_and_may_allocate():
    x, out = np.arange(1, 9, dtype=F32), np.zeros(8, F32)
    trace = trace_cuda_launcher("launch_two", [x, out, 8], source=TRAPS)
    first = x * x + x[0]
    assert (out == first * first + first[0]).all()
    assert [(l.kernel, l.grid, l.block) for l in trace.launches] == [("square", (1, 1, 1), (8, 1, 1))] * 2
    assert [l.line for l in trace.launches] == [line_of("square<<<dim3(1)"), line_of("square<<<1, (n > 0)")]
    assert trace.result == 0
    assert trace.owners("allocation 0", "thread", launch=0).tolist() == list(range(8))
    assert trace.elements("allocation 0", thread=3, launch=1) == [3, 3, 0]


def test_a_launch_of_a_template_in_two_dimensions():
    x, out = np.arange(1024, dtype=F32), np.zeros(1024, F32)
    trace = trace_cuda_launcher("launch_transpose", [x, out], source=TRAPS)
    assert (trace.launches[0].kernel, trace.launches[0].block) == ("transpose<1>", (32, 32, 1))
    assert (out.reshape(32, 32) == x.reshape(32, 32).T).all()


def test_lines_are_those_of_the_source_after_translation():
    x, out = np.arange(4, dtype=F32), np.zeros(4, F32)
    trace = trace_cuda_launcher("launch_two", [x, out, 4], source=TRAPS)
    text = TRAPS.read_text().splitlines()
    assert len(trace) > 0
    for event in trace:
        assert re.search(r"\b(x|out)\[", text[event.line - 1]), (event, text[event.line - 1])


def test_what_a_kernel_prints_is_there_when_the_launch_returns(capfd):
    run("prints", [np.zeros(2, np.int32)], 2)
    assert capfd.readouterr().out == "thread 0\nthread 1\n"


def test_order_backward_runs_the_last_thread_first():
    out = np.zeros(8, np.int32)
    run("all_write", [out], 16)
    assert out.tolist() == [1, 3, 5, 7, 9, 11, 13, 15]
    run("all_write", [out], 16, order="backward")
    assert out.tolist() == [0, 2, 4, 6, 8, 10, 12, 14]
