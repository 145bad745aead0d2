"""The kernels of `kernels.ops.rmsnorm`: whole rows in one program, parts of a row that meet, and two launches.

Pointers and extents come first, then strides in elements, then constants. x and residual are (M, N) with any strides,
out is contiguous. KEEP_SUM and KEEP_ROOT store what a gradient needs: x + residual rounded to the dtype, and the
factor of each row in float32.
"""

import triton
import triton.language as tl
from triton.language.extra.cuda import gdc_wait

from kernels.ops.early import begin_early
from kernels.ops.joint import add_up, arrive, leave, publish, sum_of_words, wait
from kernels.ops.rmsnorm_shared import read_sum


@triton.jit
def _weight(weight_ptr, n, N, weight_stride, HAS_WEIGHT: tl.constexpr):
    # It serves every row and stays in the cache. Read before anybody waits, used at the end.
    weight = 1.0
    if HAS_WEIGHT:
        weight = tl.load(weight_ptr + n * weight_stride, mask=n < N, other=0.0, eviction_policy="evict_last")
    return weight


@triton.jit
def _write(
    z, root, weight, out_ptr, sum_ptr, root_ptr, m, n, mask, first, M, N,
    HAS_WEIGHT: tl.constexpr, KEEP_SUM: tl.constexpr, KEEP_ROOT: tl.constexpr
):  # fmt: skip
    # ".cs": nobody reads the output soon, so it need not push anything out of the L2 cache.
    if KEEP_SUM:
        tl.store(sum_ptr + m * N + n, z.to(sum_ptr.dtype.element_ty), mask=mask)
    if KEEP_ROOT:
        tl.store(root_ptr + m, root, mask=(m < M) & first)
    out = z * root
    if HAS_WEIGHT:
        out *= weight.to(tl.float32)
    tl.store(out_ptr + m * N + n, out.to(out_ptr.dtype.element_ty), mask=mask, cache_modifier=".cs")


@triton.jit
def _rmsnorm_rows(
    x_ptr, residual_ptr, weight_ptr, out_ptr, sum_ptr, root_ptr, M, N, x_stride_m, x_stride_n, residual_stride_m,
    residual_stride_n, weight_stride, eps, HAS_RESIDUAL: tl.constexpr, HAS_WEIGHT: tl.constexpr,
    KEEP_SUM: tl.constexpr, KEEP_ROOT: tl.constexpr, BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr
):  # fmt: skip
    # One program owns BLOCK_M whole rows, from the load to the store.
    m = tl.program_id(0).to(tl.int64) * BLOCK_M + tl.arange(0, BLOCK_M)[:, None]
    n = tl.arange(0, BLOCK_N)[None, :].to(tl.int64)
    mask = (m < M) & (n < N)
    x_offset, residual_offset = m * x_stride_m + n * x_stride_n, m * residual_stride_m + n * residual_stride_n
    z = read_sum(x_ptr, residual_ptr, x_offset, residual_offset, mask, HAS_RESIDUAL)
    weight = _weight(weight_ptr, n, N, weight_stride, HAS_WEIGHT)
    # Zeros beyond the row add nothing to the sum of squares; the mean divides by N and not by
    # BLOCK_N.
    root = tl.rsqrt(tl.sum(z * z, axis=1, keep_dims=True) / N + tl.cast(eps, tl.float32))
    _write(z, root, weight, out_ptr, sum_ptr, root_ptr, m, n, mask, True, M, N,
           HAS_WEIGHT, KEEP_SUM, KEEP_ROOT)  # fmt: skip


@triton.jit
def _rmsnorm_rows_early(
    x_ptr, residual_ptr, weight_ptr, out_ptr, sum_ptr, root_ptr, M, N, x_stride_m, x_stride_n, residual_stride_m,
    residual_stride_n, weight_stride, eps, HAS_RESIDUAL: tl.constexpr, HAS_WEIGHT: tl.constexpr,
    KEEP_SUM: tl.constexpr, KEEP_ROOT: tl.constexpr, BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr
):  # fmt: skip
    begin_early()
    _rmsnorm_rows(x_ptr, residual_ptr, weight_ptr, out_ptr, sum_ptr, root_ptr, M, N, x_stride_m, x_stride_n,
                  residual_stride_m, residual_stride_n, weight_stride, eps,
                  HAS_RESIDUAL, HAS_WEIGHT, KEEP_SUM, KEEP_ROOT, BLOCK_M, BLOCK_N)  # fmt: skip


@triton.jit
def _rmsnorm_joint(
    x_ptr, residual_ptr, weight_ptr, out_ptr, sum_ptr, root_ptr, state_ptr, arrived_ptr, M, N, x_stride_m, x_stride_n,
    residual_stride_m, residual_stride_n, weight_stride, eps, parts, HAS_RESIDUAL: tl.constexpr,
    HAS_WEIGHT: tl.constexpr, KEEP_SUM: tl.constexpr, KEEP_ROOT: tl.constexpr, ALL_PARTS: tl.constexpr,
    BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr
):  # fmt: skip
    # A program keeps one part of BLOCK_M rows in registers while it waits for the other parts.
    arrival = arrive(arrived_ptr)
    group, part = arrival // parts, arrival % parts
    m = group.to(tl.int64) * BLOCK_M + tl.arange(0, BLOCK_M)[:, None]
    n = part.to(tl.int64) * BLOCK_N + tl.arange(0, BLOCK_N)[None, :]
    mask = (m < M) & (n < N)
    x_offset, residual_offset = m * x_stride_m + n * x_stride_n, m * residual_stride_m + n * residual_stride_n
    z = read_sum(x_ptr, residual_ptr, x_offset, residual_offset, mask, HAS_RESIDUAL)
    weight = _weight(weight_ptr, n, N, weight_stride, HAS_WEIGHT)
    tl.store(state_ptr + m * parts + part, tl.sum(z * z, axis=1, keep_dims=True), mask=m < M)
    publish(arrived_ptr + 1 + group)
    wait(arrived_ptr + 1 + group, parts)
    total = add_up(state_ptr, m, M, parts, ALL_PARTS)
    root = tl.rsqrt(total / N + tl.cast(eps, tl.float32)) + tl.zeros((BLOCK_M, 1), tl.float32)
    _write(z, root, weight, out_ptr, sum_ptr, root_ptr, m, n, mask, part == 0, M, N,
           HAS_WEIGHT, KEEP_SUM, KEEP_ROOT)  # fmt: skip


@triton.jit
def _rmsnorm_words(
    x_ptr, residual_ptr, weight_ptr, out_ptr, sum_ptr, root_ptr, words_ptr, N, x_stride_m, x_stride_n,
    residual_stride_m, residual_stride_n, weight_stride, eps, parts, HAS_RESIDUAL: tl.constexpr,
    HAS_WEIGHT: tl.constexpr, KEEP_SUM: tl.constexpr, KEEP_ROOT: tl.constexpr, ONE_WARP: tl.constexpr,
    ALL_PARTS: tl.constexpr, BLOCK_N: tl.constexpr
):  # fmt: skip
    # A part of a single row, whose sum of squares travels in a word; a program's part is its number.
    # What does not depend on the lane is said once, in front of the lanes: offsets of 64 bits in every
    # lane take registers, and so programs from each multiprocessor.
    m = (tl.program_id(0) // parts).to(tl.int64)
    part = (tl.program_id(0) % parts).to(tl.int64)
    first = part * BLOCK_N
    lanes = tl.arange(0, BLOCK_N)
    n = lanes.to(tl.int64)
    mask = lanes < tl.minimum(N - first, BLOCK_N).to(tl.int32)
    x_part = x_ptr + m * x_stride_m + first * x_stride_n
    residual_part = residual_ptr
    if HAS_RESIDUAL:
        residual_part += m * residual_stride_m + first * residual_stride_n
    z = read_sum(x_part, residual_part, n * x_stride_n, n * residual_stride_n, mask, HAS_RESIDUAL)
    weight = 1.0
    if HAS_WEIGHT:
        weight_part = weight_ptr + first * weight_stride
        weight = tl.load(weight_part + n * weight_stride, mask=mask, other=0.0, eviction_policy="evict_last")
    squares = tl.sum(z * z, axis=0)
    gdc_wait()  # the words are zero from here on
    row_words = words_ptr + m * parts
    leave(row_words, part, squares)
    root = tl.rsqrt(sum_of_words(row_words, parts, ALL_PARTS, ONE_WARP) / N + tl.cast(eps, tl.float32))
    # Not `_write`, whose offsets of two dimensions cost sixteen registers a thread.
    at = m * N + first
    if KEEP_SUM:
        tl.store(sum_ptr + at + lanes, z.to(sum_ptr.dtype.element_ty), mask=mask)
    if KEEP_ROOT:
        tl.store(root_ptr + m, root, mask=part == 0)
    out = z * root
    if HAS_WEIGHT:
        out *= weight.to(tl.float32)
    tl.store(out_ptr + at + lanes, out.to(out_ptr.dtype.element_ty), mask=mask, cache_modifier=".cs")


@triton.jit
def _rmsnorm_parts(
    x_ptr, residual_ptr, state_ptr, M, N, x_stride_m, x_stride_n, residual_stride_m, residual_stride_n, parts, part_n,
    HAS_RESIDUAL: tl.constexpr, BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr
):  # fmt: skip
    # First of two launches: a program walks along one part of BLOCK_M rows and leaves the sum of its
    # squares.
    m = (tl.program_id(0) // parts).to(tl.int64) * BLOCK_M + tl.arange(0, BLOCK_M)[:, None]
    part = (tl.program_id(0) % parts).to(tl.int64)
    squares = tl.full((BLOCK_M, 1), 0.0, tl.float32)
    for start in range(0, tl.cast(part_n, tl.int64), BLOCK_N):
        n = part * part_n + start + tl.arange(0, BLOCK_N)[None, :]
        mask = (m < M) & (n < N)
        x_offset, residual_offset = m * x_stride_m + n * x_stride_n, m * residual_stride_m + n * residual_stride_n
        z = read_sum(x_ptr, residual_ptr, x_offset, residual_offset, mask, HAS_RESIDUAL)
        squares += tl.sum(z * z, axis=1, keep_dims=True)
    tl.store(state_ptr + m * parts + part, squares, mask=m < M)


@triton.jit
def _rmsnorm_finish(
    x_ptr, residual_ptr, weight_ptr, out_ptr, sum_ptr, root_ptr, state_ptr, M, N, x_stride_m, x_stride_n,
    residual_stride_m, residual_stride_n, weight_stride, eps, parts, part_n, HAS_RESIDUAL: tl.constexpr,
    HAS_WEIGHT: tl.constexpr, KEEP_SUM: tl.constexpr, KEEP_ROOT: tl.constexpr, ALL_PARTS: tl.constexpr,
    BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr
):  # fmt: skip
    # Second launch: add the sums up, and write the same parts, the last one first: it is what the L2
    # cache still holds.
    program = tl.num_programs(0) - 1 - tl.program_id(0)
    m = (program // parts).to(tl.int64) * BLOCK_M + tl.arange(0, BLOCK_M)[:, None]
    begin = (program % parts).to(tl.int64) * part_n
    root = tl.rsqrt(add_up(state_ptr, m, M, parts, ALL_PARTS) / N + tl.cast(eps, tl.float32))
    for start in range(0, tl.cast(part_n, tl.int64), BLOCK_N):
        n = begin + start + tl.arange(0, BLOCK_N)[None, :]
        mask = (m < M) & (n < N)
        x_offset, residual_offset = m * x_stride_m + n * x_stride_n, m * residual_stride_m + n * residual_stride_n
        z = read_sum(x_ptr, residual_ptr, x_offset, residual_offset, mask, HAS_RESIDUAL)
        weight = _weight(weight_ptr, n, N, weight_stride, HAS_WEIGHT)
        _write(z, root, weight, out_ptr, sum_ptr, root_ptr, m, n, mask, begin + start == 0, M, N,
               HAS_WEIGHT, KEEP_SUM, KEEP_ROOT)  # fmt: skip
