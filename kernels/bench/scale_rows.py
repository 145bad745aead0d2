"""Kernels that differ in one word, for the experiment on specialization: a width at run time or at compile time."""

import triton
import triton.language as tl


@triton.jit
def _scale_rows(x_ptr, out_ptr, N, stride, BLOCK_N: tl.constexpr):
    # One program doubles one row. Triton looks at N and stride when it is launched: whether they are
    # multiples of 16, and whether they are 1.
    row = tl.program_id(0).to(tl.int64) * stride
    n = tl.arange(0, BLOCK_N)
    x = tl.load(x_ptr + row + n, mask=n < N)
    tl.store(out_ptr + row + n, 2 * x, mask=n < N)


@triton.jit
def _scale_rows_constant(x_ptr, out_ptr, N: tl.constexpr, stride: tl.constexpr, BLOCK_N: tl.constexpr):
    # The same with the numbers compiled in: one compilation for each width.
    row = tl.program_id(0).to(tl.int64) * stride
    n = tl.arange(0, BLOCK_N)
    x = tl.load(x_ptr + row + n, mask=n < N)
    tl.store(out_ptr + row + n, 2 * x, mask=n < N)


@triton.jit(do_not_specialize=["N", "stride"])
def _scale_rows_unknown(x_ptr, out_ptr, N, stride, BLOCK_N: tl.constexpr):
    # The same, and Triton is told not to look.
    row = tl.program_id(0).to(tl.int64) * stride
    n = tl.arange(0, BLOCK_N)
    x = tl.load(x_ptr + row + n, mask=n < N)
    tl.store(out_ptr + row + n, 2 * x, mask=n < N)
