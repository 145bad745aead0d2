"""Sums of a row that come out different, for three different reasons; Lab 2 tells them apart."""

import triton
import triton.language as tl


@triton.jit
def _sum_in_chunks(
    x_ptr, out_ptr, N, x_stride_m, BLOCK_N: tl.constexpr, PADDING: tl.constexpr, IN_ITS_DTYPE: tl.constexpr
):  # fmt: skip
    # As it should be with PADDING = 0 and IN_ITS_DTYPE false; the other choices are mistakes.
    row = x_ptr + tl.program_id(0).to(tl.int64) * x_stride_m
    total = 0.0
    for start in range(0, N, BLOCK_N):
        n = start + tl.arange(0, BLOCK_N)
        x = tl.load(row + n, mask=n < N, other=PADDING).to(tl.float32)
        total += tl.sum(x, axis=0)
        if IN_ITS_DTYPE:  # what a running sum in a tensor of that dtype does
            total = total.to(x_ptr.dtype.element_ty).to(tl.float32)
    tl.store(out_ptr + tl.program_id(0), total)


def sum_in_chunks(x, out, block, padding=0.0, in_its_dtype=False):
    """Writes the sum of each row of x (M, N), with neighbouring columns, to out (M,), float32."""
    M, N = x.shape
    _sum_in_chunks[(M,)](x, out, N, x.stride(0), BLOCK_N=block, PADDING=padding, IN_ITS_DTYPE=in_its_dtype)
    return out
