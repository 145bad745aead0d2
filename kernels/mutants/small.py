"""Small Triton kernels with what the operators do not have: atomics, tiles on two axes, a neighbour's element.

Each is right; the catalogue beside this file makes them wrong.
"""

import torch
import triton
import triton.language as tl


@triton.jit
def _histogram(values_ptr, counts_ptr, n, bins, BLOCK: tl.constexpr):
    offsets = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    mask = offsets < n
    values = tl.load(values_ptr + offsets, mask=mask, other=-1)
    counted = (values >= 0) & (values < bins)
    tl.atomic_add(counts_ptr + values, 1, mask=counted)


def histogram(values: torch.Tensor, counts: torch.Tensor, block: int) -> None:
    """counts[v] += 1 for each value v that has a bin; both int32."""
    n = values.numel()
    _histogram[(triton.cdiv(n, block),)](values, counts, n, counts.numel(), BLOCK=block)


@triton.jit
def _transpose(x_ptr, out_ptr, M, N, x_stride_m, out_stride_n, BLOCK: tl.constexpr):
    m = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)[:, None]
    n = tl.program_id(1) * BLOCK + tl.arange(0, BLOCK)[None, :]
    mask = (m < M) & (n < N)
    x = tl.load(x_ptr + m * x_stride_m + n, mask=mask)
    tl.store(out_ptr + n * out_stride_n + m, x, mask=mask)


def transpose(x: torch.Tensor, out: torch.Tensor, block: int) -> None:
    """out[n, m] = x[m, n]."""
    M, N = x.shape
    grid = (triton.cdiv(M, block), triton.cdiv(N, block))
    _transpose[grid](x, out, M, N, x.stride(0), out.stride(0), BLOCK=block)


@triton.jit
def _shift_left(x_ptr, out_ptr, n, BLOCK: tl.constexpr):
    offsets = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    after = tl.load(x_ptr + offsets + 1, mask=offsets + 1 < n, other=0.0)
    tl.store(out_ptr + offsets, after, mask=offsets < n)


def shift_left(x: torch.Tensor, out: torch.Tensor, block: int) -> None:
    """out[i] = x[i + 1], and 0 for the last one."""
    _shift_left[(triton.cdiv(x.numel(), block),)](x, out, x.numel(), BLOCK=block)
