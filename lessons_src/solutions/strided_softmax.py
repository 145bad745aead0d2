"""Workshop I1: the softmax of each row, wherever its elements lie.

    lessons check strided_softmax

Edit only what lies between the marks: the kernel, one program of which takes `BLOCK_M` whole rows, the launch, and the
question that comes before every launch: is `out` a tensor that can be written at all? The check runs your kernel in
Triton's interpreter, so it needs no GPU; it looks at the result, and at every element that the kernel touched.
"""

import math

import torch
import triton
import triton.language as tl


@triton.jit
def _softmax_anywhere(
    x_ptr, out_ptr, M, N, x_stride_m, x_stride_n, out_stride_m, out_stride_n,
    BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr,
):  # fmt: skip
    # --- fill in ---
    m = tl.program_id(0).to(tl.int64) * BLOCK_M + tl.arange(0, BLOCK_M)[:, None]
    n = tl.arange(0, BLOCK_N)[None, :].to(tl.int64)
    mask = (m < M) & (n < N)
    x = tl.load(x_ptr + m * x_stride_m + n * x_stride_n, mask=mask, other=float("-inf")).to(tl.float32)
    numerator = tl.exp(x - tl.max(x, axis=1, keep_dims=True))
    weights = numerator / tl.sum(numerator, axis=1, keep_dims=True)
    tl.store(out_ptr + m * out_stride_m + n * out_stride_n, weights, mask=mask)
    # --- end ---


def shares_addresses(sizes: tuple[int, int], strides: tuple[int, int]) -> bool:
    """Whether two different elements of a matrix have the same address.

    sizes: rows and columns, from 0 up. strides: elements between neighbours, from 0 up.
    """
    # --- fill in ---
    if 0 in sizes:
        return False
    for size, stride in zip(sizes, strides):
        if size > 1 and stride == 0:
            return True
    if 1 in sizes:
        return False
    # Elements [i, j] and [k, l] meet where (i - k) * row == (l - j) * column: at the least common multiple first.
    row, column = strides
    common = math.lcm(row, column)
    return common // row < sizes[0] and common // column < sizes[1]
    # --- end ---


def softmax(x: torch.Tensor, out: torch.Tensor, block_m: int = 1) -> None:
    """Writes the softmax of each row of x to out, computed in float32.

    x, out: (M, N), M from 0 and N from 1 up, of one dtype, with any row and column stride each; x may be expanded.
    block_m: rows of a program, a power of two. Raises ValueError, before any launch, where two elements of out
    have one address.
    """
    M, N = x.shape
    # --- fill in ---
    if shares_addresses(out.shape, out.stride()):
        raise ValueError(f"out has strides {out.stride()} for shape {tuple(out.shape)}: elements share an address.")
    if M:
        grid = (triton.cdiv(M, block_m),)
        _softmax_anywhere[grid](
            x, out, M, N, *x.stride(), *out.stride(), BLOCK_M=block_m, BLOCK_N=triton.next_power_of_2(N)
        )
    # --- end ---
