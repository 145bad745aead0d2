"""A kernel to make an operator of: a matrix times a number. Lesson 10 registers it with PyTorch."""

import torch
import triton
import triton.language as tl


@triton.jit
def _times(x_ptr, out_ptr, N, x_stride_m, x_stride_n, factor, BLOCK_N: tl.constexpr):
    m, n = tl.program_id(0), tl.arange(0, BLOCK_N)  # a program has one row
    x = tl.load(x_ptr + m * x_stride_m + n * x_stride_n, mask=n < N)
    tl.store(out_ptr + m * N + n, x * factor, mask=n < N)


def times(x: torch.Tensor, factor: float) -> torch.Tensor:
    """x * factor as a new contiguous tensor. x: (M, N), float32, any strides."""
    M, N = x.shape
    out = torch.empty(x.shape, dtype=x.dtype, device=x.device)
    if M and N:
        _times[(M,)](x, out, N, *x.stride(), factor, BLOCK_N=triton.next_power_of_2(N))
    return out
