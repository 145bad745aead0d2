"""Softmax of rows that several programs share: the kernels of the paths "joint" and "split" of `kernels.ops.softmax`.

In each a program finds the maximum of its part and the sum of exponentials relative to it, leaves both in memory, and
combines what all parts of the row have left, in the same order everywhere: the same bits everywhere. Where they wait
for one another within a launch, the memory that they meet in is allocated and zeroed for each call, and inside a CUDA
graph by each replay, so that calls at the same time never share it.
"""

import triton
import triton.language as tl

FIRST_WORD = 16  # 64-bit words from the count of arrivals to the parts' words: a line of memory


@triton.jit
def _softmax_joint(
    x_ptr, out_ptr, state_ptr, arrived_ptr, M, N, x_stride_m, x_stride_n, out_stride_m, parts,
    ALL_PARTS: tl.constexpr, BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr,
):  # fmt: skip
    # A program owns one part of BLOCK_M rows, and keeps it in registers while it waits for the other
    # parts. Which part is settled by arrival: a program waits only for programs that have started
    # or are next to start, so that all get on whatever the order in which the GPU starts them.
    arrival = tl.atomic_add(arrived_ptr, 1, sem="relaxed")
    group = arrival // parts
    m = group.to(tl.int64) * BLOCK_M + tl.arange(0, BLOCK_M)[:, None]
    part = arrival % parts
    n = part.to(tl.int64) * BLOCK_N + tl.arange(0, BLOCK_N)[None, :]
    mask = (m < M) & (n < N)
    x = tl.load(x_ptr + m * x_stride_m + n * x_stride_n, mask=mask, other=float("-inf")).to(tl.float32)
    maximum = tl.max(x, axis=1, keep_dims=True)
    shift = tl.where(maximum == float("-inf"), 0.0, maximum)  # a part may be all -inf in a row that is not
    numerator = tl.exp(x - shift)
    # Published: what this part found. A barrier and a release: whoever sees the count sees both.
    totals_ptr = state_ptr + tl.cast(M, tl.int64) * parts
    tl.store(state_ptr + m * parts + part, maximum, mask=m < M)
    tl.store(totals_ptr + m * parts + part, tl.sum(numerator, axis=1, keep_dims=True), mask=m < M)
    tl.debug_barrier()
    tl.atomic_add(arrived_ptr + 1 + group, 1, sem="release")
    while tl.atomic_add(arrived_ptr + 1 + group, 0, sem="acquire") < parts:
        pass
    row_shift, row_total = _combine(state_ptr, totals_ptr, m, M, parts, ALL_PARTS)
    weights = numerator * (tl.exp(shift - row_shift) / row_total)
    tl.store(out_ptr + m * out_stride_m + n, weights.to(out_ptr.dtype.element_ty), mask=mask)


@triton.jit
def _softmax_words(
    x_ptr, out_ptr, words_ptr, N, x_stride_m, x_stride_n, out_stride_m, parts,
    ALL_PARTS: tl.constexpr, BLOCK_N: tl.constexpr,
):  # fmt: skip
    # A part of a single row. Maximum and sum travel in one word of 64 bits, which is there or is not:
    # whoever sees it sees both, so nothing is counted and nothing has to be made visible before.
    # Which part is settled by arrival, as above; the count of arrivals has a line of its own.
    arrival = tl.atomic_add(words_ptr, 1, sem="relaxed").to(tl.int32)
    m = (arrival // parts).to(tl.int64)
    part = (arrival % parts).to(tl.int64)
    first = part * BLOCK_N
    lanes = tl.arange(0, BLOCK_N)
    mask = lanes < tl.minimum(N - first, BLOCK_N).to(tl.int32)
    x_part = x_ptr + m * x_stride_m + first * x_stride_n
    x = tl.load(x_part + lanes.to(tl.int64) * x_stride_n, mask=mask, other=float("-inf")).to(tl.float32)
    maximum = tl.max(x, axis=0)
    shift = tl.where(maximum == float("-inf"), 0.0, maximum)
    numerator = tl.exp(x - shift)
    row_words = words_ptr + 16 + m * parts
    tl.atomic_xchg(row_words + part, _word(maximum, tl.sum(numerator, axis=0)), sem="relaxed")
    found = _all_words(row_words, parts, ALL_PARTS)
    each = tl.arange(0, ALL_PARTS)
    maxima = tl.where(each < parts, (found >> 32).to(tl.int32).to(tl.float32, bitcast=True), float("-inf"))
    totals = tl.where(each < parts, found.to(tl.int32).to(tl.float32, bitcast=True), 0.0)
    row_maximum = tl.max(maxima, axis=0)
    row_shift = tl.where(row_maximum == float("-inf"), 0.0, row_maximum)
    row_total = tl.sum(_scaled(totals, maxima - row_shift, each < parts), axis=0)
    weights = numerator * (tl.exp(shift - row_shift) / row_total)
    tl.store(out_ptr + m * out_stride_m + first + lanes, weights.to(out_ptr.dtype.element_ty), mask=mask)


@triton.jit
def _word(maximum, total):
    # Never 0, which means that nothing is there yet: a sum is 0 only where the maximum is -inf.
    high = maximum.to(tl.int32, bitcast=True).to(tl.int64) << 32
    return high | (total.to(tl.int32, bitcast=True).to(tl.int64) & 0xFFFFFFFF)


@triton.jit
def _all_words(row_words, parts, ALL_PARTS: tl.constexpr):
    # The words of a row once all are there. Volatile: past the L1 cache, which would not change.
    each = tl.arange(0, ALL_PARTS)
    there = 0
    while there == 0:
        seen = tl.load(row_words + each, mask=each < parts, other=1, volatile=True)
        there = tl.min((seen != 0).to(tl.int32), axis=0)
    # Several warps may have looked, each for itself: another look, now that all is there.
    return tl.load(row_words + each, mask=each < parts, other=1, volatile=True)


@triton.jit
def _combine(state_ptr, totals_ptr, m, M, parts, ALL_PARTS: tl.constexpr):
    # The parts of each row in the same order everywhere: the same bits everywhere. Past the L1
    # cache, which may still hold what was there before.
    part = tl.arange(0, ALL_PARTS)[None, :]
    mask = (m < M) & (part < parts)
    maxima = tl.load(state_ptr + m * parts + part, mask=mask, other=float("-inf"), cache_modifier=".cg")
    totals = tl.load(totals_ptr + m * parts + part, mask=mask, other=0.0, cache_modifier=".cg")
    maximum = tl.max(maxima, axis=1, keep_dims=True)
    shift = tl.where(maximum == float("-inf"), 0.0, maximum)
    return shift, tl.sum(_scaled(totals, maxima - shift, mask), axis=1, keep_dims=True)


@triton.jit
def _scaled(totals, differences, mask):
    # What is added up, and a choice that keeps multiplication and addition apart. Fused, a lane would
    # round all products but its own, and lanes that hold the same row would end with different bits.
    return tl.where(mask, totals * tl.exp(differences), 0.0)


@triton.jit
def _softmax_parts(
    x_ptr, state_ptr, M, N, x_stride_m, x_stride_n, parts, part_n, BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr
):
    # First of two launches: a program walks along one part of BLOCK_M rows and leaves its maximum
    # and sum.
    m = (tl.program_id(0) // parts).to(tl.int64) * BLOCK_M + tl.arange(0, BLOCK_M)[:, None]
    part = (tl.program_id(0) % parts).to(tl.int64)
    begin = part * part_n
    maximum = tl.full((BLOCK_M, 1), float("-inf"), tl.float32)
    total = tl.full((BLOCK_M, 1), 0.0, tl.float32)
    for start in range(0, tl.cast(part_n, tl.int64), BLOCK_N):
        n = begin + start + tl.arange(0, BLOCK_N)[None, :]
        mask = (m < M) & (n < N)
        x = tl.load(
            x_ptr + m * x_stride_m + n * x_stride_n, mask=mask, other=float("-inf"), eviction_policy="evict_last"
        )
        x = x.to(tl.float32)
        new_maximum = tl.maximum(maximum, tl.max(x, axis=1, keep_dims=True))
        shift = tl.where(new_maximum == float("-inf"), 0.0, new_maximum)
        total = total * tl.exp(maximum - shift) + tl.sum(tl.exp(x - shift), axis=1, keep_dims=True)
        maximum = new_maximum
    tl.store(state_ptr + m * parts + part, maximum, mask=m < M)
    tl.store(state_ptr + (m + M) * parts + part, total, mask=m < M)


@triton.jit
def _softmax_finish(
    x_ptr, out_ptr, state_ptr, M, N, x_stride_m, x_stride_n, out_stride_m, parts, part_n,
    ALL_PARTS: tl.constexpr, BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr,
):  # fmt: skip
    # Second launch: combine, and write the same parts. The last part first: it is what the L2 cache
    # still holds.
    program = tl.num_programs(0) - 1 - tl.program_id(0)
    m = (program // parts).to(tl.int64) * BLOCK_M + tl.arange(0, BLOCK_M)[:, None]
    begin = (program % parts).to(tl.int64) * part_n
    totals_ptr = state_ptr + tl.cast(M, tl.int64) * parts
    shift, total = _combine(state_ptr, totals_ptr, m, M, parts, ALL_PARTS)
    scale = 1.0 / total
    for start in range(0, tl.cast(part_n, tl.int64), BLOCK_N):
        n = begin + start + tl.arange(0, BLOCK_N)[None, :]
        mask = (m < M) & (n < N)
        x_at = x_ptr + m * x_stride_m + n * x_stride_n
        x = tl.load(x_at, mask=mask, other=float("-inf"), eviction_policy="evict_first")
        weights = (tl.exp(x.to(tl.float32) - shift) * scale).to(out_ptr.dtype.element_ty)
        tl.store(out_ptr + m * out_stride_m + n, weights, mask=mask, cache_modifier=".cs")
