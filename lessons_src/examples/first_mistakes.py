"""Two kernels of Lesson 8 with one thing wrong in each."""

import torch
import triton
import triton.language as tl


@triton.jit
def _row_max_padded(x_ptr, out_ptr, N, x_stride_m, PADDING: tl.constexpr, BLOCK_N: tl.constexpr):
    n = tl.arange(0, BLOCK_N)
    values = tl.load(x_ptr + tl.program_id(0) * x_stride_m + n, mask=n < N, other=PADDING)
    tl.store(out_ptr + tl.program_id(0), tl.max(values, axis=0))


def row_max_padded(x: torch.Tensor, out: torch.Tensor, padding: float) -> None:
    """Like `row_max` of `first_kernels`, with `padding` in the places behind a row."""
    M, N = x.shape
    _row_max_padded[(M,)](x, out, N, x.stride(0), PADDING=padding, BLOCK_N=triton.next_power_of_2(N))


@triton.jit
def _row_shares_stored_whole(x_ptr, out_ptr, N, x_stride_m, out_stride_m, BLOCK_N: tl.constexpr):
    row = tl.program_id(0)
    n = tl.arange(0, BLOCK_N)
    values = tl.load(x_ptr + row * x_stride_m + n, mask=n < N, other=0.0)
    total = tl.sum(values, axis=0)
    tl.store(out_ptr + row * out_stride_m + n, values / total)  # the whole block


def row_shares_stored_whole(x: torch.Tensor, out: torch.Tensor) -> None:
    """Like `row_shares` of `first_kernels`, without the mask of the store."""
    M, N = x.shape
    _row_shares_stored_whole[(M,)](x, out, N, x.stride(0), out.stride(0), BLOCK_N=triton.next_power_of_2(N))
