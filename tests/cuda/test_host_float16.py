"""Half precision and bfloat16 in the host build: every bit pattern, every rounding, and what the trace says of them."""

from fractions import Fraction
from pathlib import Path

import numpy as np
import pytest

from kernels.trace.cuda import trace_cuda, why_not

pytestmark = pytest.mark.skipif(why_not() is not None, reason=str(why_not()))
SOURCE = Path(__file__).parent / "host_sources" / "float16.cu"
EVERY = np.arange(65536, dtype=np.uint16)


def run(kernel, *args, block=64, **more):
    return trace_cuda(kernel, grid=1, block=block, args=args, source=SOURCE, **more)


def widened_bfloat16(bits):
    return (bits.astype(np.uint32) << 16).view(np.float32)


def same(got, expected):
    """Equal bits, or both NaN."""
    nan = np.isnan(expected)
    assert (np.isnan(got) == nan).all()
    unsigned = {2: np.uint16, 4: np.uint32}[expected.itemsize]
    wrong = np.flatnonzero((got.view(unsigned) != expected.view(unsigned)) & ~nan)
    assert not len(wrong), (len(wrong), wrong[:5], got[wrong[:5]], expected[wrong[:5]])


def same_bfloat16(got, expected):
    same(widened_bfloat16(got), widened_bfloat16(expected))


def hard_floats(seed):
    """Any bit pattern, and what lies on, just above and just below the middle of two neighbours of each format."""
    rng = np.random.default_rng(seed)
    any_ = rng.integers(0, 2**32, 100_000, dtype=np.uint32).view(np.float32)
    with np.errstate(all="ignore"):
        halves = EVERY.view(np.float16).astype(np.float32)
        middle = (halves[:-1] + halves[1:]) / 2
    coarse = rng.integers(0, 2**16, 20_000, dtype=np.uint32) << 16 | 0x8000
    patterns = np.concatenate([middle[np.isfinite(middle)].view(np.uint32), coarse])
    near = np.concatenate([patterns, patterns + np.uint32(1), patterns - np.uint32(1)]).view(np.float32)
    return np.concatenate([any_, near, np.float32([0, -0.0, np.inf, -np.inf, np.nan, 65519.996, 65520, 1e-45])])


def test_widening_is_exact_for_every_bit_pattern():
    out = np.zeros(65536, np.float32)
    run("widen_half", EVERY.view(np.float16), out, 65536)
    same(out, EVERY.view(np.float16).astype(np.float32))
    run("widen_bfloat16", EVERY, out, 65536)
    same(out, widened_bfloat16(EVERY))


def test_narrowing_rounds_to_nearest_even():
    torch = pytest.importorskip("torch")
    x = hard_floats(1)
    half, bfloat = np.zeros(len(x), np.float16), np.zeros(len(x), np.uint16)
    run("narrow", x, half, bfloat, len(x))
    with np.errstate(over="ignore", invalid="ignore"):
        same(half, x.astype(np.float16))
    expected = torch.from_numpy(x).to(torch.bfloat16).view(torch.int16).numpy().view(np.uint16)
    same_bfloat16(bfloat, expected)
    assert set(half.view(np.uint16)[np.isnan(x)].tolist()) == {0x7FFF}


def test_a_double_is_rounded_once():
    """1 + 2**-11 + 2**-30 lies above the middle; by way of float it would lie on it, and go down to 1."""
    x = np.array([1 + 2**-11 + 2**-30, 1 + 2**-11, 1 + 3 * 2**-11 - 2**-40, 2**-25 * (1 + 2**-40), 2**-25, 1e300])
    out = np.zeros(len(x), np.float16)
    run("narrow_double", x, out, len(x))
    assert out.tolist() == [1 + 2**-10, 1, 1 + 2**-10, 2**-24, 0, np.inf]


def test_directed_roundings_stand_on_the_right_side():
    x = hard_floats(2)
    zero, up, down = (np.zeros(len(x), np.float16) for _ in range(3))
    run("directed", x, zero, up, down, len(x))
    finite = np.isfinite(x)
    a, b, exact = down[finite].astype(np.float64), up[finite].astype(np.float64), x[finite].astype(np.float64)
    assert ((a <= exact) & (exact <= b)).all()
    with np.errstate(over="ignore"):
        fits = exact == x[finite].astype(np.float16)
        next_ = np.nextafter(down[finite], np.float16(np.inf))
    assert (a[fits] == b[fits]).all() and (next_[~fits].astype(np.float64) == b[~fits]).all()
    assert (zero[finite] == np.where(x[finite] > 0, down[finite], up[finite])).all()


def operands(kind, seed, n=30_000):
    rng = np.random.default_rng(seed)
    if kind == "half":
        patterns = rng.integers(0, 65536, (3, n), dtype=np.uint16)
        patterns[:, : n // 2] = (patterns[:, : n // 2] & 0x83FF) | rng.integers(10, 20, (3, n // 2), np.uint16) << 10
        return [row.view(np.float16) for row in patterns]
    patterns = rng.integers(0, 65536, (3, n), dtype=np.uint16)
    patterns[:, : n // 2] = (patterns[:, : n // 2] & 0x807F) | rng.integers(120, 135, (3, n // 2), np.uint16) << 7
    return list(patterns)


def nearest(exact, got, below, above):
    """Whether `got` is the nearest of three neighbours to an exact fraction."""
    distance = abs(Fraction(got) - exact)
    others = [abs(Fraction(v) - exact) for v in (below, above) if np.isfinite(v)]
    return all(distance <= other for other in others)


@pytest.mark.parametrize(("kind", "type_"), [("half", "__half"), ("bfloat16", "__nv_bfloat16")])
def test_each_operation_rounds_once(kind, type_):
    torch = pytest.importorskip("torch")
    a, b, c = operands(kind, 3)
    n = len(a)
    outputs = [np.zeros_like(a) for _ in range(7)]
    trace = run(f"arithmetic<{type_}>", a, b, c, *outputs, n)
    assert not trace.stopped
    with np.errstate(invalid="ignore"):  # signalling NaN
        wide = [v.astype(np.float64) if kind == "half" else widened_bfloat16(v).astype(np.float64) for v in (a, b, c)]

    def rounded(values):
        if kind == "half":
            return values.astype(np.float16)
        return torch.from_numpy(values).to(torch.bfloat16).view(torch.int16).numpy().view(np.uint16)

    compare = same if kind == "half" else same_bfloat16
    x, y, z = wide
    with np.errstate(all="ignore"):
        # float32 holds products and sums well enough: rounding them again changes nothing but subnormal bfloat16.
        normal = (lambda v: v) if kind == "half" else (lambda v: np.where(np.abs(v) < 2.0**-120, 0, v))
        for got, expected in zip(outputs[:4], (x + y, x - y, x * y, x / y)):
            keep = normal(expected) == expected
            keep |= np.isnan(expected)
            expected = expected if kind == "half" else expected.astype(np.float32)
            compare(got[keep], rounded(expected)[keep])
    as_number = (lambda v: v.view(np.float16)) if kind == "half" else widened_bfloat16
    fused = as_number(outputs[4])
    bits = outputs[4].view(np.uint16)
    inside = np.isfinite(x) & np.isfinite(y) & np.isfinite(z) & np.isfinite(fused) & (fused != 0)
    for i in np.flatnonzero(inside)[:12_000].tolist():
        exact = Fraction(x[i]) * Fraction(y[i]) + Fraction(z[i])
        near = [float(as_number(np.array([int(bits[i]) + d], np.uint16))[0]) for d in (-1, 1)]
        assert nearest(exact, float(fused[i]), *near), (x[i], y[i], z[i], fused[i])
    with np.errstate(all="ignore"):
        for got, expected in ((outputs[5], np.fmax(x, y)), (outputs[6], np.fmin(x, y))):
            assert np.array_equal(as_number(got).astype(np.float64), expected, equal_nan=True)


def test_a_fused_product_that_two_roundings_would_get_wrong():
    """The exact sum lies just below the middle of two values; rounded to float first (half), or to double (bfloat16),
    it would lie on the middle, and go up to the even one."""
    a, b, c = (np.array([v], np.float16) for v in (1 + 2**-10, 2**-11 * (1 - 2**-10), 1 + 2**-10))
    outputs = [np.zeros(1, np.float16) for _ in range(7)]
    run("arithmetic<__half>", a, b, c, *outputs, 1)
    assert outputs[4].tolist() == [1 + 2**-10]
    a, b, c = (np.array([np.float32(v).view(np.uint32) >> 16], np.uint16) for v in (7, 37 / 256, -(2**-100)))
    outputs = [np.zeros(1, np.uint16) for _ in range(7)]
    run("arithmetic<__nv_bfloat16>", a, b, c, *outputs, 1)
    assert widened_bfloat16(outputs[4]).tolist() == [258 / 256]


def test_pairs_work_element_by_element_and_are_one_access_each():
    rng = np.random.default_rng(4)
    a, b = (rng.normal(size=(8, 2)).astype(np.float16) for _ in range(2))
    out, wide, mask = np.zeros((8, 2), np.float16), np.zeros((8, 2), np.float32), np.zeros(8, np.uint32)
    trace = run("pairs", a, b, out, wide, mask, block=8)
    expected = (a.astype(np.float64) * b.astype(np.float64) + [1, 2]).astype(np.float16)
    assert (out == expected).all() and (wide == expected[:, ::-1]).all()
    assert mask.tolist() == [(0xFFFF if r[0] else 0) | (0xFFFF0000 if r[1] else 0) for r in a > b]
    rows = [(e.what, e.buffer, e.element, e.size) for e in trace.select(thread=3)]
    assert rows[:4] == [("read", "a", 6, 4), ("read", "b", 6, 4), ("write", "out", 6, 4), ("write", "wide", 6, 8)]
    assert sorted(rows[4:6]) == [("read", "a", 6, 4), ("read", "b", 6, 4)]
    assert rows[6:] == [("write", "mask", 3, 4)]


def test_comparisons_with_nan_and_conversions_to_integers():
    x = np.float16([2.5, np.nan, -np.inf, -0.5, 1.0, 65504])
    flags, whole = np.zeros(6, np.int32), np.zeros((6, 2), np.int32)
    run("compare_and_convert", x, flags, whole, block=6)
    nan = 4 | 16 | 64
    assert flags.tolist() == [1 | 2, nan, 2 | 8, 2, 2, 1 | 2]
    assert whole.tolist() == [[2, 2], [0, 0], [-(2**31), -(2**31)], [0, 0], [1, 1], [65504, 65504]]


def test_shared_arrays_and_shuffles_of_bfloat16():
    x = np.arange(1, 65, dtype=np.float32)
    bits = (x.view(np.uint32) >> 16).astype(np.uint16)
    out = np.zeros((32, 2), np.uint16)
    trace = run("shared_pairs", bits, out, block=32)
    pairs = x.reshape(32, 2)
    assert (widened_bfloat16(out) == pairs + pairs[np.arange(32) ^ 1]).all()
    assert trace.faults() == []
    buffer = trace.buffer("tile")
    assert (buffer.shape, buffer.itemsize) == ((64,), 2)
    rows = [(e.what, e.buffer, e.element, e.size) for e in trace.select(thread=5, buffer="tile")]
    assert rows == [("write", "tile", 5, 2), ("write", "tile", 37, 2), ("read", "tile", 10, 4)]


def test_atomics_of_16_bit_types_and_their_pairs():
    h, h2 = np.zeros(1, np.float16), np.zeros(2, np.float16)
    b, b2 = np.zeros(1, np.uint16), np.zeros(2, np.uint16)
    trace = run("atomic_sums", h, h2, b, b2, block=4)
    assert (h.tolist(), h2.tolist()) == ([2.0], [4.0, -8.0])
    assert (widened_bfloat16(b).tolist(), widened_bfloat16(b2).tolist()) == ([1.0], [12.0, -4.0])
    rows = [(e.what, e.buffer, e.element, e.size) for e in trace.select(thread=2)]
    assert rows == [("atomic", "h", 0, 2), ("atomic", "h2", 0, 4), ("atomic", "b", 0, 2), ("atomic", "b2", 0, 4)]
    text = SOURCE.read_text().splitlines()
    assert [text[e.line - 1].split("(")[1].split(",")[0] for e in trace.select(thread=2)] == ["h", "h2", "b", "b2"]
    assert trace.faults() == []
