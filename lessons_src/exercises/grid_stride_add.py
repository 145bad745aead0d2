"""Exercise of Lab 1: add two vectors with a fixed number of programs, each of which takes several blocks.

    lessons check grid_stride_add

Edit only what lies between the marks. The check runs the kernel in Triton's interpreter, so it needs no GPU; it looks
at the result, and at every element that the kernel touched.
"""

import triton
import triton.language as tl


@triton.jit
def _add_grid_stride(x_ptr, y_ptr, out_ptr, n, BLOCK: tl.constexpr):
    # --- fill in ---
    # A program takes the block with its own number and stops. Let it go on: where does its next block begin?
    offsets = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    mask = offsets < n
    total = tl.load(x_ptr + offsets, mask=mask) + tl.load(y_ptr + offsets, mask=mask)
    tl.store(out_ptr + offsets, total, mask=mask)
    # --- end ---
