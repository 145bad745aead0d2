"""The four kernels of cuda/patterns.cu: right results for ragged matrices, and the cost that each is there to show."""

import numpy as np
import pytest

from kernels.trace.cuda import trace_cuda_launcher, why_not

traced = pytest.mark.skipif(why_not() is not None, reason=str(why_not()))
COPIES = ("copy_rows", "copy_columns")
TRANSPOSES = ("transpose_tile_32", "transpose_tile_33")
KERNELS = COPIES + TRANSPOSES
SHAPES = [
    (1, 1),  # one lane of one warp
    (31, 33),  # one row short of a tile, one column more than a tile
    (257, 65),  # many tiles, one row and one column over
    (64, 96),  # whole tiles
]
SOURCE = "cuda/patterns.cu"


def launch(kernel, x, padding=(0, 0)):
    """The traced launch and its output matrix; `padding` unused elements follow each row of x and of out."""
    rows, columns = x.shape
    height, width = (columns, rows) if kernel in TRANSPOSES else (rows, columns)
    wide = np.full((rows, columns + padding[0]), np.nan, np.float32)
    wide[:, :columns] = x
    out = np.full((height, width + padding[1]), np.nan, np.float32)
    strides = (columns + padding[0], width + padding[1])
    trace = trace_cuda_launcher(f"launch_{kernel}", [wide, out, rows, columns, *strides], source=SOURCE)
    return out, trace


@traced
@pytest.mark.parametrize("padding", [(0, 0), (3, 5)])
@pytest.mark.parametrize(("rows", "columns"), SHAPES)
@pytest.mark.parametrize("kernel", KERNELS)
def test_every_element_arrives_and_nothing_else_is_touched(kernel, rows, columns, padding):
    x = np.random.default_rng(rows).normal(size=(rows, columns)).astype(np.float32)
    out, trace = launch(kernel, x, padding)
    want = x.T if kernel in TRANSPOSES else x
    assert (out[:, : want.shape[1]] == want).all()
    assert np.isnan(out[:, want.shape[1] :]).all()
    assert trace.result == 0
    assert trace.faults(outputs=()) == []  # the padding of out stays unwritten
    assert (len(trace.select(buffer="x", what="read")), len(trace.select(buffer="out", what="write"))) == (
        x.size,
        x.size,
    )


@traced
@pytest.mark.parametrize("kernel", KERNELS)
def test_the_cost_of_a_whole_tile(kernel):
    _, trace = launch(kernel, np.ones((64, 96), np.float32))
    warps = 6 * 32  # six tiles, 32 lines each
    loads, stores = trace.requests(buffer="x", what="read"), trace.requests(buffer="out", what="write")
    assert (len(loads), len(stores)) == (warps, warps)
    sectors = 32 if kernel == "copy_columns" else 4  # a sector a lane, or eight lanes to a sector
    assert {len(request.sectors) for request in loads + stores} == {sectors}
    if kernel in TRANSPOSES:
        degrees = {r.conflict_degree for r in trace.requests(buffer="tile", what="read")}
        assert degrees == {32 if kernel == "transpose_tile_32" else 1}
        assert {r.conflict_degree for r in trace.requests(buffer="tile", what="write")} == {1}
        assert {b.threads for b in trace.barriers(block=3)} == {256}


@traced
@pytest.mark.parametrize("kernel", KERNELS)
def test_a_launcher_refuses_before_it_launches(kernel):
    none = np.empty(0, np.float32)

    def result(*extents):
        trace = trace_cuda_launcher(f"launch_{kernel}", [none, none.copy(), *extents], source=SOURCE)
        assert trace.launches == ()
        return trace.result

    assert result(0, 5, 5, 5) == result(5, 0, 0, 5) == 0
    assert result(-1, 5, 5, 5) == result(5, -1, 5, 5) == result(5, 5, -1, 5) == 1
    assert result(5, 5, 5, 4) == 1  # output rows would overlap
    assert result(65535 * 32 + 1, 1, 1, 65535 * 32 + 1) == 1
    assert result(1, (2**31 - 1) * 32 + 1, 0, (2**31 - 1) * 32 + 1) == 1


def test_every_pattern_has_a_fingerprint_of_its_own():
    from kernels.sources import fingerprint

    assert len({fingerprint(f"{SOURCE}:launch_{kernel}") for kernel in KERNELS}) == len(KERNELS)
