"""A sum of products over 32 lanes, as it is usually written, and with products and sum kept apart.

In the first one the compiler may fuse a multiplication with the addition of what a neighbour sent. A lane then adds its
own product unrounded to the neighbour's rounded one, the neighbour does the reverse, and both believe to have the sum.
"""

import triton
import triton.language as tl


@triton.jit
def fused(a_ptr, b_ptr, out_ptr, n):
    lane = tl.arange(0, 32)
    a = tl.load(a_ptr + lane, mask=lane < n, other=0.0)
    b = tl.load(b_ptr + lane, mask=lane < n, other=0.0)
    tl.store(out_ptr, tl.sum(a * b, axis=0))


@triton.jit
def apart(a_ptr, b_ptr, out_ptr, n):
    lane = tl.arange(0, 32)
    a = tl.load(a_ptr + lane, mask=lane < n, other=0.0)
    b = tl.load(b_ptr + lane, mask=lane < n, other=0.0)
    products = tl.where(lane < n, a * b, 0.0)  # a choice stands between multiplication and addition
    tl.store(out_ptr, tl.sum(products, axis=0))
