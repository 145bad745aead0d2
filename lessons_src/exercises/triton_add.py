"""First exercise of Lesson 8: add two vectors.

    out[i] = x[i] + y[i]        for each of n elements

    lessons check triton_add

Edit only what lies between the marks. There are two places: the kernel says what one program does, and the launch says
how many programs there are. The check runs your kernel in Triton's interpreter, so it needs no GPU; it looks at the
result, and at every element that the kernel touched.
"""

import torch
import triton
import triton.language as tl

BLOCK = 256  # offsets a program


@triton.jit
def _add(x_ptr, y_ptr, out_ptr, n, BLOCK: tl.constexpr):
    # --- fill in ---
    # Which offsets does this program own, and which of them exist?
    # Load a block of x and a block of y, add them, store the block of out.
    raise NotImplementedError("the kernel: load a block of x and of y, add, store")
    # --- end ---


def add(x: torch.Tensor, y: torch.Tensor, out: torch.Tensor) -> None:
    """Writes x + y to out: contiguous, of one length (0, too), float32 or float16."""
    n = out.numel()
    # --- fill in ---
    # How many programs do n elements take? Launch that many: _add[(programs,)](...)
    raise NotImplementedError("the launch: as many programs of _add as n elements take")
    # --- end ---
