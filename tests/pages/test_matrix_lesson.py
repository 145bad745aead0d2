"""The kernel that Lesson 6 shows: right on ragged and strided matrices, and within the memory of each."""

import pytest

pytest.importorskip("triton")
torch = pytest.importorskip("torch")


from kernels.trace.triton import trace_triton  # noqa: E402
from lessons_src.examples.tiled_matmul import matmul_tiles  # noqa: E402

pytestmark = pytest.mark.interpreted

SHAPES = (
    (1, 1, 1),  # the smallest
    (32, 32, 32),  # one whole tile
    (33, 31, 65),  # ragged in all three
    (40, 70, 1),  # one step, of which one column is there
)


def draw(rows, columns, layout, seed, dtype):
    """A matrix in one of three layouts; what lies between its rows is NaN."""
    values = torch.randn(rows, columns, generator=torch.Generator().manual_seed(seed)).to(dtype)
    if layout == "columns":
        return values.t().contiguous().t()
    if layout == "padded":
        stored = torch.full((rows, columns + 3), float("nan"), dtype=dtype)
        stored[:, :columns] = values
        return stored[:, :columns]
    return values


@pytest.mark.parametrize("dtype", [torch.float32, torch.float16, torch.bfloat16], ids=str)
@pytest.mark.parametrize("layout", ["rows", "columns", "padded"])
@pytest.mark.parametrize(("M", "N", "K"), SHAPES)
def test_the_product_and_its_accesses(M, N, K, layout, dtype):
    a, b = draw(M, K, layout, 1, dtype), draw(K, N, layout, 2, dtype)
    results = []
    trace = trace_triton(lambda: results.append(matmul_tiles(a, b)), {"a": a, "b": b})
    assert trace.faults(outputs=["c"]) == []
    assert set(trace.counts("a", "read").flatten().tolist()) == {-(-N // 32)}
    assert set(trace.counts("b", "read").flatten().tolist()) == {-(-M // 32)}
    exact = a.double() @ b.double()
    # K products and K - 1 sums in float32, and one rounding to the dtype of the result
    allowed = 2.0**-24 * (K + 2) * (a.double().abs() @ b.double().abs()) + torch.finfo(dtype).eps * exact.abs()
    assert ((results[0].double() - exact).abs() <= allowed).all()


def test_sizes_of_nothing_and_shapes_that_do_not_fit():
    assert matmul_tiles(torch.empty(0, 5), torch.empty(5, 4)).shape == (0, 4)
    assert torch.equal(matmul_tiles(torch.empty(3, 0), torch.empty(0, 4)), torch.zeros(3, 4))
    for a, b in ((torch.ones(2, 3), torch.ones(2, 3)), (torch.ones(2, 3), torch.ones(3, 2, dtype=torch.float16))):
        with pytest.raises(ValueError, match="M × K and K × N of one dtype"):
            matmul_tiles(a, b)
