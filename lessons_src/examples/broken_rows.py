"""Kernels over rows that are wrong on purpose, for Lessons 3 to 5. Each is what somebody writes in good faith."""

import triton
import triton.language as tl


@triton.jit
def _row_sum_asks_late(x_ptr, out_ptr, N, x_stride_m, BLOCK_N: tl.constexpr):
    # Loads all lanes, and throws away afterwards what does not belong to the row.
    m = tl.program_id(0)
    n = tl.arange(0, BLOCK_N)
    x = tl.load(x_ptr + m * x_stride_m + n)
    total = tl.sum(tl.where(n < N, x, 0.0), axis=0)
    tl.store(out_ptr + m, total)


@triton.jit
def _softmax_zero_padding(x_ptr, out_ptr, N, x_stride_m, BLOCK_N: tl.constexpr):
    # Pads with 0, as a sum would like it.
    m = tl.program_id(0)
    n = tl.arange(0, BLOCK_N)
    x = tl.load(x_ptr + m * x_stride_m + n, mask=n < N, other=0.0)
    numerator = tl.exp(x - tl.max(x, axis=0))
    tl.store(out_ptr + m * N + n, numerator / tl.sum(numerator, axis=0), mask=n < N)


@triton.jit
def _softmax_stores_all(x_ptr, out_ptr, N, x_stride_m, BLOCK_N: tl.constexpr):
    # Stores the lanes of padding too: their weights are 0, and what can a 0 do?
    m = tl.program_id(0)
    n = tl.arange(0, BLOCK_N)
    x = tl.load(x_ptr + m * x_stride_m + n, mask=n < N, other=float("-inf"))
    numerator = tl.exp(x - tl.max(x, axis=0))
    tl.store(out_ptr + m * N + n, numerator / tl.sum(numerator, axis=0))


@triton.jit
def _rmsnorm_weight_by_row(x_ptr, weight_ptr, out_ptr, N, x_stride_m, eps, BLOCK_N: tl.constexpr):
    # Finds the weight where it finds x: one row further on for every row.
    m = tl.program_id(0)
    n = tl.arange(0, BLOCK_N)
    x = tl.load(x_ptr + m * x_stride_m + n, mask=n < N, other=0.0).to(tl.float32)
    weight = tl.load(weight_ptr + m * N + n, mask=n < N, other=0.0).to(tl.float32)
    root = tl.rsqrt(tl.sum(x * x, axis=0) / N + eps)
    tl.store(out_ptr + m * N + n, (x * root * weight).to(out_ptr.dtype.element_ty), mask=n < N)


@triton.jit
def _rmsnorm_mean_of_block(x_ptr, weight_ptr, out_ptr, N, x_stride_m, eps, BLOCK_N: tl.constexpr):
    # Divides the sum of squares by the lanes of the block, padding and all.
    m = tl.program_id(0)
    n = tl.arange(0, BLOCK_N)
    x = tl.load(x_ptr + m * x_stride_m + n, mask=n < N, other=0.0).to(tl.float32)
    weight = tl.load(weight_ptr + n, mask=n < N, other=0.0).to(tl.float32)
    root = tl.rsqrt(tl.sum(x * x, axis=0) / BLOCK_N + eps)
    tl.store(out_ptr + m * N + n, (x * root * weight).to(out_ptr.dtype.element_ty), mask=n < N)
