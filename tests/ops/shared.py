"""Comparisons that the operators' tests share."""

import torch

from kernels.ops.op import Op


def whole_storage(tensor: torch.Tensor) -> torch.Tensor:
    """Every byte behind `tensor`, the gaps between its rows included, as a copy."""
    flat = torch.empty(0, dtype=torch.uint8, device=tensor.device).set_(tensor.untyped_storage())
    return flat.clone()


def assert_matches(op: Op, result: torch.Tensor, inputs: tuple[torch.Tensor, ...], dtype: str) -> None:
    """`result` is what `op` promises for `inputs`: values within tolerance, shape, dtype, layout, and a new tensor."""
    shape = tuple(inputs[0].shape)
    rtol, atol = op.tolerance(dtype, shape)
    assert result.dtype == getattr(torch, dtype)
    assert result.shape == inputs[0].shape
    assert result.is_contiguous()
    assert all(result.numel() == 0 or result.data_ptr() != x.data_ptr() for x in inputs)
    torch.testing.assert_close(result.double(), op.reference(*inputs), rtol=rtol, atol=atol, equal_nan=True)


def assert_all_match(op: Op, results: tuple[torch.Tensor, ...], inputs: tuple[torch.Tensor, ...], dtype: str) -> None:
    """The same for an operator with several results, each new and contiguous."""
    rtol, atol = op.tolerance(dtype, tuple(inputs[0].shape))
    for result, expected in zip(results, op.reference(*inputs), strict=True):
        assert result.dtype == getattr(torch, dtype)
        assert result.shape == expected.shape and result.is_contiguous()
        assert all(result.numel() == 0 or result.data_ptr() != x.data_ptr() for x in inputs)
        torch.testing.assert_close(result.double(), expected, rtol=rtol, atol=atol, equal_nan=True)


class Banded:
    """A contiguous output filled with NaN (integers: the lowest), between two bands of sentinels."""

    SENTINEL, BAND = 113, 64

    def __init__(self, shape: tuple[int, ...], dtype: torch.dtype, device: str):
        count = torch.Size(shape).numel()
        self.buffer = torch.full((count + 2 * self.BAND,), self.SENTINEL, dtype=dtype, device=device)
        self.out = self.buffer[self.BAND : self.BAND + count].view(shape)
        self.out.fill_(float("nan") if dtype.is_floating_point else torch.iinfo(dtype).min)

    def assert_bands_untouched(self) -> None:
        bands = torch.cat([self.buffer[: self.BAND], self.buffer[self.BAND + self.out.numel() :]])
        assert (bands == self.SENTINEL).all(), "the kernel wrote outside its output"


class Framed:
    """A (rows, columns) output filled with NaN, inside a buffer of sentinels: a row above and below, columns beside."""

    SENTINEL = 12288.0  # exact in float32, float16 and bfloat16

    def __init__(self, rows: int, columns: int, dtype: torch.dtype, device: str):
        self.buffer = torch.full((rows + 2, columns + 7), self.SENTINEL, dtype=dtype, device=device)
        self.out = self.buffer[1:-1, 2 : columns + 2]
        self.out.fill_(float("nan"))

    def assert_frame_untouched(self) -> None:
        frame = self.buffer.clone()
        frame[1:-1, 2 : self.out.shape[1] + 2] = self.SENTINEL
        assert (frame == self.SENTINEL).all(), "the kernel wrote outside its output"


def views(device: str) -> dict[str, torch.Tensor]:
    """Tensors that lie in memory in every way that a reduction along rows can meet."""
    base = torch.randn(6, 8, generator=torch.Generator(device).manual_seed(4), device=device)
    return {
        "transposed": base.t(),
        "every other row": base[::2],
        "every other column": base[:, ::2],
        "one row repeated": base[:1].expand(5, 8),
        "one column repeated": base[:, :1].expand(6, 8),
        "one number repeated": base[:1, :1].expand(6, 8),
        "batch permuted, rows not one stride apart": base.reshape(2, 3, 8).permute(1, 0, 2),
        "rows along the first dimension": base.reshape(2, 3, 8).permute(2, 1, 0),
        "offset by one element": base.flatten()[1:],
        "last columns": base[:, 5:],
    }
