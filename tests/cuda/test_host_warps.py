"""Warp operations, voting barriers, intrinsics, vector types and atomics of the host build: numbers and events."""

from pathlib import Path

import numpy as np
import pytest

from kernels.trace.cuda import CompileFailed, trace_cuda, why_not

pytestmark = pytest.mark.skipif(why_not() is not None, reason=str(why_not()))
SOURCE = Path(__file__).parent / "host_sources" / "warps.cu"
LANE = np.arange(32)
FULL = 0xFFFFFFFF


def run(kernel, *args, block=32, **more):
    return trace_cuda(kernel, grid=1, block=block, args=args, source=SOURCE, **more)


def rows(trace, **which):
    return [(e.what, e.buffer, e.element, e.size) for e in trace.select(**which)]


@pytest.mark.parametrize(
    ("type_", "dtype"),
    [
        ("int", "i4"), ("unsigned", "u4"), ("long long", "i8"), ("unsigned long long", "u8"), ("float", "f4"),
        ("double", "f8"), ("__half", "f2"),
    ],
)  # fmt: skip
def test_every_shuffle_in_every_type_and_in_segments(type_, dtype):
    x = (LANE * 3 + 1).astype(dtype)
    if dtype in ("i8", "u8"):
        x = x + (x << np.array(33, dtype))
    out = np.zeros((4, 32), dtype)
    run(f"shuffles<{type_}>", x, out)
    assert (out[0] == x[LANE // 8 * 8 + 3]).all()
    assert (out[1] == x[np.where(LANE % 16 < 2, LANE, LANE - 2)]).all()
    assert (out[2] == x[np.where(LANE + 5 > 31, LANE, LANE + 5)]).all()
    assert (out[3] == x[LANE ^ 9]).all()


def test_votes_of_whole_warps_and_of_a_few_lanes():
    ballot, active = np.zeros(64, np.uint32), np.zeros(128, np.uint32)
    any_, all_ = np.zeros(64, np.int32), np.zeros(64, np.int32)
    run("votes", ballot, any_, all_, active, block=64)
    assert set(ballot.tolist()) == {0xAAAAAAAA}
    assert (any_.tolist(), all_.tolist()) == ([0] * 32 + [1] * 32, [1] * 32 + [0] * 32)
    assert active[:64].tolist() == ([0xFF] * 8 + [0] * 24) * 2
    assert active[64:].tolist() == [0x7F] * 7 + [FULL ^ 0x7F] * 25 + [0x7F] * 7 + [FULL ^ 0x7F] * 25


def test_matches_find_equal_values():
    x = np.float32(LANE % 5)
    any_, all_, equal = np.zeros(32, np.uint32), np.zeros(64, np.uint32), np.full(64, 9, np.int32)
    run("matches", x, any_, all_, equal)
    assert any_.tolist() == [sum(1 << o for o in range(32) if o % 5 == lane % 5) for lane in range(32)]
    assert (all_.tolist(), equal.tolist()) == ([0] * 32 + [FULL] * 32, [0] * 32 + [1] * 32)


def test_reductions_of_signed_and_unsigned_values():
    x = np.int32((LANE * 7919) % 1000 - 500)
    out, bits = np.zeros((4, 32), np.int32), np.zeros((3, 32), np.uint32)
    run("reductions", x, out, bits)
    expected = [x.sum(), x.min(), x.max(), x.view(np.uint32).max() >> 1]
    assert out.tolist() == [[int(e)] * 32 for e in expected]
    whole = [f.reduce(x.view(np.uint32)) for f in (np.bitwise_and, np.bitwise_or, np.bitwise_xor)]
    assert bits.tolist() == [[int(w)] * 32 for w in whole]


def test_barriers_that_vote_in_a_block_of_three_dimensions():
    out = np.zeros((24, 4), np.int32)
    trace = run("barriers", out, block=(2, 3, 4))
    assert out.tolist() == [[8, 1, 1, 0]] * 24
    assert [b.threads for b in trace.barriers()] == [24] * 4


def test_intrinsics_on_bits():
    x = np.uint32([0, 1, 0x80000000, 0x00F0A000, FULL])
    out, reversed_ = np.zeros((5, 4), np.int32), np.zeros((5, 2), np.uint32)
    run("bits", x, out, reversed_, block=5)
    for value, numbers, turned in zip(x.tolist(), out.tolist(), reversed_.tolist()):
        text = f"{value:032b}"
        first = text[::-1].find("1") + 1
        leading = 32 - value.bit_length()
        assert numbers[:3] == [text.count("1"), first, leading]
        assert numbers[3] == text.count("1") + 100 * (64 - value.bit_length()) + 10000 * first
        assert turned[0] == int(text[::-1], 2)
        sign = 0xFF if value >> 31 else 0  # nibble b: the sign of byte 3, eight times
        assert turned[1] == 0x80 << 24 | sign << 16 | 0x33 << 8 | value & 0xFF


def test_vector_types_of_all_widths_are_one_access_each():
    rng = np.random.default_rng(0)
    kinds = [("i4", 4), ("f8", 2), ("u1", 4), ("i8", 2), ("u2", 3)]
    a, b, c, d, e = (rng.integers(0, 200, (8, n)).astype(kind) for kind, n in kinds)
    outs = [np.zeros((8, 2), "i4"), *(np.zeros((8, n), kind) for kind, n in kinds[1:])]
    trace = run("vectors", a, b, c, d, e, *outs, block=8)
    assert (outs[0] == np.stack([a[:, 0] + a[:, 3], a[:, 1] * a[:, 2]], axis=1)).all()
    assert (outs[1] == b[:, ::-1]).all() and (outs[2] == c[:, ::-1]).all() and (outs[3] == d[:, ::-1]).all()
    assert (outs[4] == e).all()
    found = rows(trace, thread=3)
    assert sorted(found) == sorted([
        ("read", "a", 12, 16), ("write", "a_out", 6, 8), ("read", "b", 7, 8), ("read", "b", 6, 8),
        ("write", "b_out", 6, 16), ("read", "c", 12, 4), ("write", "c_out", 12, 4), ("read", "d", 6, 16),
        ("write", "d_out", 6, 16), ("read", "e", 9, 6), ("write", "e_out", 9, 6),
    ])  # fmt: skip


def test_a_copy_of_a_structure_is_one_read_and_one_write():
    x = np.arange(24, dtype=np.float32)
    out = np.zeros_like(x)
    trace = run("structures", x, out, block=8)
    assert out.tolist() == x.tolist()
    assert sorted(rows(trace, thread=2)) == [("read", "x", 6, 12), ("write", "out", 6, 12)]


@pytest.mark.parametrize(("type_", "dtype"), [("int", "i4"), ("unsigned", "u4"), ("unsigned long long", "u8")])
def test_atomics_of_whole_numbers_with_every_scope(type_, dtype):
    x = np.array([1, 5, 2, 0xFFFF, 0, 0, 9, 0], dtype)
    trace = run(f"whole_atomics<{type_}>", x, block=8)
    assert x.tolist() == [25, 0, 7, 0xFF00, 0xFF, 0, 7, 8]
    size = np.dtype(dtype).itemsize
    assert rows(trace, thread=6) == [("atomic", "x", n, size) for n in range(8)]
    assert len({e.line for e in trace}) == 8 and trace.faults() == []


def test_atomics_of_the_other_types():
    l, u, s = np.zeros(2, np.int64), np.zeros(3, np.uint32), np.zeros(1, np.uint16)
    f, d, f2, f4 = np.zeros(2, np.float32), np.zeros(1), np.zeros(2, np.float32), np.zeros(4, np.float32)
    trace = run("other_atomics", l, u, s, f, d, f2, f4, block=8)
    assert (l.tolist(), u.tolist(), s.tolist()) == ([-7, 7 << 40], [2, 4, 2**32 - 16], [8])
    assert (f.tolist(), d.tolist(), f2.tolist(), f4.tolist()) == ([4, 7], [2], [8, 16], [8, 16, 24, 32])
    assert rows(trace, thread=1) == [
        ("atomic", "l", 0, 8), ("atomic", "l", 1, 8), ("atomic", "u", 0, 4), ("atomic", "u", 1, 4),
        ("atomic", "u", 2, 4), ("atomic", "s", 0, 2), ("atomic", "f", 0, 4), ("atomic", "f", 1, 4),
        ("atomic", "d", 0, 8), ("atomic", "f2", 0, 8), ("atomic", "f4", 0, 16),
    ]  # fmt: skip


def test_an_atomic_that_cuda_does_not_have_does_not_compile():
    with pytest.raises(CompileFailed, match="atomicMin"):
        run("hints<float>", np.zeros(1, np.float32), np.zeros(4, np.float32),
            replace={"__stwb(o + 2, c)": "atomicMin(o + 2, c)"})  # fmt: skip


@pytest.mark.parametrize(("type_", "dtype", "width"), [("float", "f4", 1), ("float4", "f4", 4), ("__half2", "f2", 2)])
def test_cache_hints_are_plain_accesses_of_their_size(type_, dtype, width):
    x, out = np.arange(8 * width).astype(dtype), np.zeros(32 * width, dtype)
    trace = run(f"hints<{type_}>", x, out, block=8)
    assert (out.reshape(8, 4, width) == x.reshape(8, 1, width)).all()
    size = width * np.dtype(dtype).itemsize
    found = rows(trace, thread=2)
    assert found == [("read", "x", 2 * width, size)] * 6 + [("write", "out", (8 + n) * width, size) for n in range(4)]
