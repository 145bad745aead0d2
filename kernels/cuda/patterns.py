"""The four access patterns of cuda/patterns.cu as functions on PyTorch tensors."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kernels.cuda.call import _check_tensor, _launch

if TYPE_CHECKING:
    from torch import Tensor


def copy_rows(x: Tensor) -> Tensor:
    """A copy of a matrix in which a warp's lanes move along a row, so that its accesses fill whole sectors.

    Args:
        x: float32 matrix on a CUDA device, (rows, columns). Neighbouring columns must be neighbours in memory; rows may
            be any one stride apart. May be empty. At most 2097120 rows.

    Returns:
        A new contiguous matrix of that shape, written on the device's current stream.

    Raises:
        TypeError, ValueError: x is not as described; nothing was launched.
        RuntimeError: CUDA refused the launch.
    """
    return _pattern("copy_rows", x, transposed=False)


def copy_columns(x: Tensor) -> Tensor:
    """A copy in which a warp's lanes are one row apart, so that each opens a sector of its own. See `copy_rows`."""
    return _pattern("copy_columns", x, transposed=False)


def transpose_tile_32(x: Tensor) -> Tensor:
    """The transpose (columns, rows), through shared tiles of 32 x 32: 32 lanes meet in one bank. See `copy_rows`."""
    return _pattern("transpose_tile_32", x, transposed=True)


def transpose_tile_33(x: Tensor) -> Tensor:
    """The transpose (columns, rows), through shared tiles of 32 x 33: each lane has its own bank. See `copy_rows`."""
    return _pattern("transpose_tile_33", x, transposed=True)


def _pattern(kernel: str, x: Tensor, *, transposed: bool) -> Tensor:
    _check_tensor(kernel, "x", x)
    if x.dim() != 2:
        raise ValueError(f"{kernel} works on a matrix, and x has {x.dim()} dimensions.")
    rows, columns = x.shape
    out = x.new_empty((columns, rows) if transposed else (rows, columns))
    if x.numel() == 0:
        return out
    if columns > 1 and x.stride(1) != 1:
        raise ValueError(
            f"{kernel} needs neighbouring columns side by side in memory, and x has strides {x.stride()}. "
            "Pass x.contiguous()."
        )
    _launch(f"launch_{kernel}", (x, out), (rows, columns, x.stride(0), rows if transposed else columns))
    return out
