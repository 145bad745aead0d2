"""A batch of matrices, softmaxed where it lies: Workshop I1's second exercise, one answer to it.

The kernel of the first exercise with one dimension and one stride more. A permuted batch has leading dimensions that
no single row stride can walk, so a kernel for matrices needs a copy there. This one does not.
"""

import torch
import triton
import triton.language as tl


@triton.jit
def _softmax_batch(
    x_ptr, out_ptr, M, N, x_stride_b, x_stride_m, x_stride_n, out_stride_b, out_stride_m, out_stride_n,
    BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr,
):  # fmt: skip
    batch = tl.program_id(1).to(tl.int64)
    m = tl.program_id(0).to(tl.int64) * BLOCK_M + tl.arange(0, BLOCK_M)[:, None]
    n = tl.arange(0, BLOCK_N)[None, :].to(tl.int64)
    mask = (m < M) & (n < N)
    x_at = x_ptr + batch * x_stride_b + m * x_stride_m + n * x_stride_n
    x = tl.load(x_at, mask=mask, other=float("-inf")).to(tl.float32)
    numerator = tl.exp(x - tl.max(x, axis=1, keep_dims=True))
    weights = numerator / tl.sum(numerator, axis=1, keep_dims=True)
    out_at = out_ptr + batch * out_stride_b + m * out_stride_m + n * out_stride_n
    tl.store(out_at, weights, mask=mask)


def softmax_batch(x: torch.Tensor, out: torch.Tensor, block_m: int = 1) -> None:
    """Writes the softmax of each row of x to out, computed in float32.

    x, out: (B, M, N) of one dtype, N from 1 up, with any strides each, in elements; no two elements of out share an
    address. block_m: rows of a program, a power of two.
    """
    B, M, N = x.shape
    if B and M:
        grid = (triton.cdiv(M, block_m), B)
        block_n = triton.next_power_of_2(N)
        _softmax_batch[grid](x, out, M, N, *x.stride(), *out.stride(), BLOCK_M=block_m, BLOCK_N=block_n)
