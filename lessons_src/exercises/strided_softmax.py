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
    # A tile of BLOCK_M rows and BLOCK_N columns. Where does element [m, n] of x lie, and where that of out?
    # A row past the last one is masked like a column past the last one.
    raise NotImplementedError("the kernel: load a tile of whole rows, five steps, store the weights")
    # --- end ---


def shares_addresses(sizes: tuple[int, int], strides: tuple[int, int]) -> bool:
    """Whether two different elements of a matrix have the same address.

    sizes: rows and columns, from 0 up. strides: elements between neighbours, from 0 up.
    """
    # --- fill in ---
    # A stride of 0 is easy. Then think of two elements that meet: one is some rows further down, the other some
    # columns further right.
    raise NotImplementedError("return True where two different elements have one address")
    # --- end ---


def softmax(x: torch.Tensor, out: torch.Tensor, block_m: int = 1) -> None:
    """Writes the softmax of each row of x to out, computed in float32.

    x, out: (M, N), M from 0 and N from 1 up, of one dtype, with any row and column stride each; x may be expanded.
    block_m: rows of a program, a power of two. Raises ValueError, before any launch, where two elements of out
    have one address.
    """
    M, N = x.shape
    # --- fill in ---
    # Refuse an out that cannot be written. Then: how many programs do M rows take, block_m at a time?
    raise NotImplementedError("the launch: refuse, or one program of _softmax_anywhere for each block_m rows")
    # --- end ---
