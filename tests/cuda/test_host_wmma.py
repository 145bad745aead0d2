"""WMMA in the host build: the products, the bytes that a warp touches, and who of it touches which."""

from itertools import product
from pathlib import Path

import numpy as np
import pytest

from kernels.trace.cuda import CompileFailed, trace_cuda, why_not

pytestmark = pytest.mark.skipif(why_not() is not None, reason=str(why_not()))
SOURCE = Path(__file__).parent / "host_sources" / "wmma.cu"
ROW, COLUMN = "wmma::row_major", "wmma::col_major"


def run(kernel, *args, block=32, **more):
    return trace_cuda(kernel, grid=1, block=block, args=args, source=SOURCE, **more)


def small(rng, shape):
    """Halves whose products and sums are exact, so that no order of adding matters."""
    return (rng.integers(-8, 9, shape) / 4).astype(np.float32)


def stored(values, kind):
    if kind == "__half":
        return values.astype(np.float16)
    return (values.view(np.uint32) >> 16).astype(np.uint16)


def run_product(kind="__half", sum_="float", left=ROW, right=ROW, m=16, n=16, **more):
    rng = np.random.default_rng(5)
    a, b, c = small(rng, (m, 16)), small(rng, (16, n)), small(rng, (m, n))
    number = np.float16 if sum_ == "__half" else np.float32
    d = np.full((n, m), np.nan, number)
    a_kept, b_kept = (a if left == ROW else a.T.copy()), (b if right == ROW else b.T.copy())
    args = [stored(a_kept, kind), stored(b_kept, kind), c.astype(number), d, a_kept.shape[1], b_kept.shape[1]]
    trace = run(f"product<{kind}, {sum_}, {left}, {right}, {m}, {n}>", *args, **more)
    return trace, d, 2 * (a @ b + c).T


@pytest.mark.parametrize(("kind", "sum_"), [("__half", "float"), ("__half", "__half"), ("__nv_bfloat16", "float")])
@pytest.mark.parametrize(("left", "right"), list(product((ROW, COLUMN), repeat=2)))
def test_products_in_every_layout(kind, sum_, left, right):
    trace, d, expected = run_product(kind, sum_, left, right)
    assert (d == expected).all() and trace.faults() == []


@pytest.mark.parametrize(("m", "n"), [(32, 8), (8, 32)])
def test_products_of_the_other_shapes(m, n):
    _, d, expected = run_product(m=m, n=n)
    assert (d == expected).all()


@pytest.mark.parametrize(("left", "right"), list(product((ROW, COLUMN), repeat=2)))
def test_a_warp_touches_every_element_once(left, right):
    trace, _, _ = run_product(left=left, right=right)
    for buffer, what in (("a", "read"), ("b", "read"), ("c", "read"), ("d", "write")):
        rows = trace.select(buffer=buffer, what=what).expanded()
        assert sorted(rows.columns["element"].tolist()) == list(range(256)), buffer
    sizes = {name: set(trace.select(buffer=name).columns["size"].tolist()) for name in "abcd"}
    assert sizes == {"a": {4 if left == ROW else 2}, "b": {4 if right == COLUMN else 2}, "c": {8}, "d": {4}}


def test_lanes_hold_what_the_ptx_manual_gives_them():
    trace, _, _ = run_product(right=COLUMN)
    lane = 13
    group, near = lane // 4, 2 * (lane % 4)
    a = [16 * (group + 8 * (i % 2)) + near + 8 * (i // 2) + j for i in range(4) for j in range(2)]
    assert trace.elements("a", thread=lane) == a
    b = [16 * (group + 8 * (i // 2)) + near + 8 * (i % 2) + j for i in range(4) for j in range(2)]
    assert trace.elements("b", thread=lane) == b
    text = SOURCE.read_text().splitlines()
    lines = {name: {text[e.line - 1].strip() for e in trace.select(buffer=name)} for name in "abd"}
    assert lines["a"] == {"wmma::load_matrix_sync(left, a, lda);"}
    assert lines["b"] == {"wmma::load_matrix_sync(right, b, ldb);"}
    assert lines["d"] == {"wmma::store_matrix_sync(d, sum, M, wmma::mem_col_major);"}


def test_a_fragment_may_change_once_the_product_is_done():
    rng = np.random.default_rng(8)
    a, b, d = small(rng, (16, 16)), small(rng, (16, 16)), np.zeros((16, 16), np.float32)
    run("changed_after", a.astype(np.float16), b.astype(np.float16), d)
    assert (d == a @ b).all()


def test_a_sum_is_rounded_once():
    """2048 + 1 is no half; in float it is, and the product is exact."""
    a, b = np.zeros((16, 16), np.float16), np.zeros((16, 16), np.float16)
    a[0, :4], b[:4, 0] = [2048, 1, 1, 1], 1
    for sum_, expected in (
        ("float", 2051),
        ("__half", 2052),
    ):  # halves there are 2 apart, and 2051 goes to the even one
        c = np.zeros((16, 16), np.float32 if sum_ == "float" else np.float16)
        d = np.zeros_like(c)
        run(f"product<__half, {sum_}, {ROW}, {ROW}, 16, 16>", a, b, c, d, 16, 16)
        assert d[0, 0] == 2 * expected


def test_tf32_keeps_ten_bits():
    rng = np.random.default_rng(6)
    a, b = rng.normal(size=(16, 8)).astype(np.float32), rng.normal(size=(16, 8)).astype(np.float32)
    d = np.zeros((16, 16), np.float32)
    run("tf32", a, b, d)
    bits = [v.view(np.uint32) for v in (a, b)]
    short = [((v + 0xFFF + (v >> 13 & 1)) & 0xFFFFE000).astype(np.uint32).view(np.float32).astype(float) for v in bits]
    assert np.allclose(d, short[0] @ short[1].T, rtol=1e-6, atol=1e-6)
    assert np.abs(d - a.astype(float) @ b.T).max() > 1e-5


def tiled(**more):
    rng = np.random.default_rng(7)
    a, b = small(rng, (32, 48)), small(rng, (48, 32))
    d = np.full((32, 32), np.nan, np.float32)
    return run("tiled", a.astype(np.float16), b.astype(np.float16), d, 48, block=64, **more), d, a @ b


@pytest.mark.parametrize("order", ["forward", "backward"])
def test_a_tiled_product_through_shared_memory(order):
    trace, d, expected = tiled(order=order)
    assert (d == expected).all() and trace.faults() == []


@pytest.mark.parametrize("which", [0, 1])
def test_a_missing_barrier_around_the_product_is_a_race(which):
    old = "        __syncthreads();\n        wmma::fragment" if which == 0 else "        __syncthreads();\n    }\n"
    trace, _, _ = tiled(replace={old: old.replace("        __syncthreads();\n", "")})
    assert {f.kind for f in trace.faults()} == {"shared-race"}


def test_a_lane_that_stays_away_stops_the_launch():
    trace, _, _ = tiled(replace={"    const int warp =": "    if (threadIdx.x == 40) return;\n    const int warp ="})
    assert trace.stopped.kind in ("barrier-divergence", "warp-divergence")
    load = "    wmma::load_matrix_sync(left, a"
    alone, _, _ = run_product(replace={load: f"    if (threadIdx.x == 5) return;\n{load}"})
    assert alone.stopped.kind == "warp-divergence" and "thread 5 returned" in alone.stopped.sentence


def test_a_shape_that_does_not_exist_is_a_sentence():
    with pytest.raises(CompileFailed, match="WMMA has the shapes 16x16x16"):
        run_product(replace={"M, N, 16, T, LayoutA>": "M, N, 12, T, LayoutA>"})
