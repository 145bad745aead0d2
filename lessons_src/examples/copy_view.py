"""Copies a matrix, wherever its elements lie: the kernel of Lesson 2, and a wrong one, which knows no strides."""

import torch
import triton
import triton.language as tl


@triton.jit
def _copy_rows(x_ptr, out_ptr, columns, x_stride_m, x_stride_n, out_stride_m, out_stride_n, BLOCK: tl.constexpr):
    row = tl.program_id(0).to(tl.int64)
    column = tl.arange(0, BLOCK)
    mask = column < columns
    values = tl.load(x_ptr + row * x_stride_m + column * x_stride_n, mask=mask)
    tl.store(out_ptr + row * out_stride_m + column * out_stride_n, values, mask=mask)


@triton.jit
def _copy_rows_by_shape(x_ptr, out_ptr, columns, BLOCK: tl.constexpr):
    row = tl.program_id(0).to(tl.int64)
    column = tl.arange(0, BLOCK)
    mask = column < columns
    values = tl.load(x_ptr + row * columns + column, mask=mask)  # wrong: as if the rows lay end to end
    tl.store(out_ptr + row * columns + column, values, mask=mask)


def copy_view(x: torch.Tensor, out: torch.Tensor) -> None:
    """Copy x to out, a program for each row. Both have two dimensions and one shape; their strides are their own.

    Raises ValueError where the shapes differ or have not two dimensions.
    """
    if x.ndim != 2 or x.shape != out.shape:
        raise ValueError(f"x is {tuple(x.shape)} and out is {tuple(out.shape)}; both must be one matrix shape")
    rows, columns = x.shape
    if x.numel():
        block = triton.next_power_of_2(columns)
        _copy_rows[(rows,)](x, out, columns, *x.stride(), *out.stride(), BLOCK=block)


def copy_view_by_shape(x: torch.Tensor, out: torch.Tensor) -> None:
    """As `copy_view`, with a kernel that is told the shape and no strides. Wrong for most views."""
    rows, columns = x.shape
    _copy_rows_by_shape[(rows,)](x, out, columns, BLOCK=triton.next_power_of_2(columns))
