"""Small Triton kernels with every kind of memory operation, for tests of layouts and of traces with lanes."""

import triton
import triton.language as tl


@triton.jit
def copy(x_ptr, out_ptr, n, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(out_ptr + i, tl.load(x_ptr + i, mask=i < n), mask=i < n)


@triton.jit
def row_sums(x_ptr, out_ptr, total_ptr, N, BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr):
    m = tl.program_id(0) * BLOCK_M + tl.arange(0, BLOCK_M)
    n = tl.arange(0, BLOCK_N)
    scale = tl.load(total_ptr + 1)
    x = tl.load(x_ptr + m[:, None] * N + n[None, :])
    sums = tl.sum(x * scale, axis=1)
    tl.store(out_ptr + m, sums)
    tl.atomic_add(total_ptr, tl.sum(sums, axis=0))


@triton.jit
def transpose(x_ptr, out_ptr, N: tl.constexpr):
    i, j = tl.arange(0, N)[:, None], tl.arange(0, N)[None, :]
    x = tl.load(x_ptr + i * N + j)
    tl.store(out_ptr + j * N + i, x)


@triton.jit
def add_to_bins(x_ptr, bins_ptr, n, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    x = tl.load(x_ptr + i, mask=i < n, other=0)
    tl.atomic_add(bins_ptr + i % 4, x, mask=i < n)


@triton.jit
def swap(flags_ptr, seen_ptr, BLOCK: tl.constexpr):
    i = tl.arange(0, BLOCK)
    seen = tl.atomic_cas(flags_ptr + i, tl.full((BLOCK,), 2, tl.int32), tl.full((BLOCK,), 7, tl.int32))
    tl.store(seen_ptr + i, seen)


@triton.jit
def product(a_ptr, b_ptr, out_ptr, K, BLOCK: tl.constexpr):
    i, j = tl.arange(0, BLOCK)[:, None], tl.arange(0, BLOCK)[None, :]
    total = tl.zeros((BLOCK, BLOCK), tl.float32)
    for k in range(0, K, BLOCK):
        a = tl.load(a_ptr + i * K + k + j)
        b = tl.load(b_ptr + (k + i) * BLOCK + j)
        total = tl.dot(a, b, total)
    tl.store(out_ptr + i * BLOCK + j, total.to(tl.float16))


@triton.jit
def described(x_ptr, out_ptr, n, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK
    source = tl.make_tensor_descriptor(x_ptr, [n], [1], [BLOCK])
    target = tl.make_tensor_descriptor(out_ptr, [n], [1], [BLOCK])
    target.store([at], source.load([at]))


@triton.jit
def handed(source, target, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK
    target.store([at], source.load([at]))


@triton.jit
def _read(ptr, i, n):
    return tl.load(ptr + i, mask=i < n)


@triton.jit
def through_a_helper(x_ptr, out_ptr, n, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(out_ptr + i, _read(x_ptr, i, n), mask=i < n)


@triton.jit
def two_layouts(x_ptr, out_ptr, N: tl.constexpr):
    i, j = tl.arange(0, N)[:, None], tl.arange(0, N)[None, :]
    x = tl.load(x_ptr + i * N + j) + tl.load(x_ptr + j * N + i)  # AMBIGUOUS
    tl.store(out_ptr + i * N + j, x)


@triton.jit
def loads_for_nothing(x_ptr, out_ptr, BLOCK: tl.constexpr):
    i = tl.arange(0, BLOCK)
    x = tl.load(x_ptr + i)
    tl.store(out_ptr + i, x * 0 + 1)
    y = tl.load(x_ptr + i + 1)  # UNUSED  # noqa: F841


@triton.jit
def in_a_loop(x_ptr, out_ptr, n, BLOCK: tl.constexpr):
    i = tl.arange(0, BLOCK)
    total = tl.zeros((BLOCK,), tl.float32)
    for start in range(0, n, BLOCK):
        total += tl.load(x_ptr + start + i, mask=start + i < n, other=0.0)
    tl.store(out_ptr + i, total)


@triton.jit
def gathered(source, rows_ptr, out_ptr, N: tl.constexpr):
    i, j = tl.arange(0, 8), tl.arange(0, N)
    x = source.gather(tl.load(rows_ptr + i), 0)
    tl.store(out_ptr + i[:, None] * N + j[None, :], x)


@triton.jit
def typed(out_ptr, KIND: tl.constexpr):
    tl.store(out_ptr, tl.full((), 1, KIND))


@triton.jit
def add_side_by_side(x_ptr, out_ptr, n, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.atomic_add(out_ptr + i, tl.load(x_ptr + i, mask=i < n), mask=i < n)


@triton.autotune([triton.Config({"BLOCK": 512}, num_warps=8)], key=[])
@triton.jit
def tuned(x_ptr, out_ptr, n, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(out_ptr + i, tl.load(x_ptr + i, mask=i < n), mask=i < n)
