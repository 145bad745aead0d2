"""Second exercise of Lesson 8: the sum of each row.

    out[m] = sum over n of x[m, n]        for each of M rows

    lessons check triton_sum

Edit only what lies between the marks: the kernel, one program of which adds up one row, and the launch. The check runs
your kernel in Triton's interpreter, so it needs no GPU; it looks at the result, and at every element that the kernel
touched.
"""

import torch
import triton
import triton.language as tl


@triton.jit
def _sum_rows(x_ptr, out_ptr, N, x_stride_m, BLOCK_N: tl.constexpr):
    # --- fill in ---
    # This program owns one row. Where does the row begin in memory?
    # Its block has spare places: what must they hold so that the sum is right?
    raise NotImplementedError("the kernel: load one row, add it up in float32, store one number")
    # --- end ---


def row_sum(x: torch.Tensor, out: torch.Tensor) -> None:
    """Writes the sum of each row of x to out, added up in float32.

    x: (M, N), M from 0 and N from 1 up, float32 or float16. Rows begin x.stride(0) elements
    apart, which can be more than N; the elements of a row are neighbours. out: (M,),
    contiguous, float32 for both.
    """
    M, N = x.shape
    # --- fill in ---
    # How many programs do M rows take, and which block holds N columns?
    raise NotImplementedError("the launch: one program of _sum_rows for each row")
    # --- end ---
