"""rmsnorm: each row divided by its root mean square, after an optional residual is added.

    z[m, n] = float32(x[m, n]) + float32(residual[m, n])    (z = float32(x) without a residual)
    out[m, n] = z[m, n] * rsqrt(mean_n z[m, n]**2 + eps) * float32(weight[n])

Shapes    x and residual (..., N), N from 0 up, at least one dimension; weight (N,), or None for no scale. out has the
          shape of x.
Dtypes    float32, float16, bfloat16; x, residual, weight and out share one.
Strides   any row stride and any column stride of x and residual, and any stride of weight, in elements, are read in
          place. Leading dimensions that do not merge into rows one stride apart are copied first. out is contiguous.
Limits    offsets are 64 bits wide. Rows are kept in registers, walked twice, or split across programs: see the plan.
Precision every intermediate is float32: the sum with the residual is *not* rounded to the dtype, nor are mean, root and
          product. One rounding at the end. No mean is subtracted: this is not LayerNorm.
Special   a row of zeros gives zeros while eps > 0, and NaN with eps = 0 (0 times infinity). A row that holds NaN or an
          infinity has NaN in it. An input with no element gives an empty output and launches nothing.
Gradient  x, residual and weight; the weight's is deterministic. There is no second derivative.
"""

import functools
from dataclasses import dataclass

import torch
import triton
import triton.language as tl

from kernels.ops import checks, op
from kernels.ops.partials import partials, sum_partials

EPS = 1e-6
MAX_BLOCK = 32768  # columns of one program; 32 warps hold 32 elements in each thread
MAX_BACKWARD_BLOCK = 16384  # columns whose weight gradient one program sums in registers
NARROW_TILE = 2048  # elements a program takes together, from whole rows of up to 512 columns
SPLIT_TILE = 4096  # columns of one program where rows are split


def reference(
    x: torch.Tensor, residual: torch.Tensor | None, weight: torch.Tensor | None, eps: float = EPS
) -> torch.Tensor:
    """The formula in float64. The sum with the residual is exact, as float32 has it but for its last bits."""
    z = x.double() if residual is None else x.double() + residual.double()
    if z.numel() == 0:
        return z
    out = z * torch.rsqrt(z.square().mean(dim=-1, keepdim=True) + eps)
    return out if weight is None else out * weight.double()


@triton.jit
def _read(x_ptr, residual_ptr, x_offset, residual_offset, mask, HAS_RESIDUAL: tl.constexpr, POLICY: tl.constexpr):
    """x, plus the residual where there is one, in float32: the sum is never rounded."""
    z = tl.load(x_ptr + x_offset, mask=mask, other=0.0, eviction_policy=POLICY).to(tl.float32)
    if HAS_RESIDUAL:
        z += tl.load(residual_ptr + residual_offset, mask=mask, other=0.0, eviction_policy=POLICY).to(tl.float32)
    return z


@triton.jit
def _rmsnorm_rows(
    x_ptr, residual_ptr, weight_ptr, out_ptr, sum_ptr, root_ptr, M, N, x_stride_m, x_stride_n, residual_stride_m,
    residual_stride_n, weight_stride, eps, BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, HAS_RESIDUAL: tl.constexpr,
    HAS_WEIGHT: tl.constexpr, KEEP_SUM: tl.constexpr, KEEP_ROOT: tl.constexpr
):  # fmt: skip
    # One program owns BLOCK_M whole rows, from the load to the store.
    m = tl.program_id(0).to(tl.int64) * BLOCK_M + tl.arange(0, BLOCK_M)[:, None]
    n = tl.arange(0, BLOCK_N)[None, :].to(tl.int64)
    mask = (m < M) & (n < N)
    x_offset, residual_offset = m * x_stride_m + n * x_stride_n, m * residual_stride_m + n * residual_stride_n
    z = _read(x_ptr, residual_ptr, x_offset, residual_offset, mask, HAS_RESIDUAL, "evict_first")
    # Zeros beyond the row add nothing to the sum of squares; the mean divides by N and not by
    # BLOCK_N.
    root = tl.rsqrt(tl.sum(z * z, axis=1, keep_dims=True) / N + eps)
    if KEEP_SUM:
        tl.store(sum_ptr + m * N + n, z.to(sum_ptr.dtype.element_ty), mask=mask)
    if KEEP_ROOT:
        tl.store(root_ptr + m, root, mask=m < M)
    out = z * root
    if HAS_WEIGHT:
        out *= tl.load(weight_ptr + n * weight_stride, mask=n < N, other=0.0).to(tl.float32)
    tl.store(out_ptr + m * N + n, out.to(out_ptr.dtype.element_ty), mask=mask)


@triton.jit
def _rmsnorm_looped(
    x_ptr, residual_ptr, weight_ptr, out_ptr, sum_ptr, root_ptr, N, x_stride_m, x_stride_n, residual_stride_m,
    residual_stride_n, weight_stride, eps, BLOCK_N: tl.constexpr, HAS_RESIDUAL: tl.constexpr,
    HAS_WEIGHT: tl.constexpr, KEEP_SUM: tl.constexpr, KEEP_ROOT: tl.constexpr
):  # fmt: skip
    # One program owns one row, in chunks of BLOCK_N, and reads it twice.
    m = tl.program_id(0).to(tl.int64)
    lanes = tl.arange(0, BLOCK_N).to(tl.int64)
    width = tl.cast(N, tl.int64)
    squares = tl.zeros([BLOCK_N], tl.float32)  # a sum a lane, so that the loop needs no barrier
    for start in range(0, width, BLOCK_N):
        n = start + lanes
        x_offset, residual_offset = m * x_stride_m + n * x_stride_n, m * residual_stride_m + n * residual_stride_n
        z = _read(x_ptr, residual_ptr, x_offset, residual_offset, n < width, HAS_RESIDUAL, "evict_last")
        squares += z * z
    root = tl.rsqrt(tl.sum(squares, axis=0) / N + eps)
    if KEEP_ROOT:
        tl.store(root_ptr + m, root)
    # Last chunk first: the end of the row is what the L2 cache still holds.
    last = (width - 1) // BLOCK_N * BLOCK_N
    for back in range(0, width, BLOCK_N):
        n = last - back + lanes
        mask = n < width
        x_offset, residual_offset = m * x_stride_m + n * x_stride_n, m * residual_stride_m + n * residual_stride_n
        z = _read(x_ptr, residual_ptr, x_offset, residual_offset, mask, HAS_RESIDUAL, "evict_first")
        if KEEP_SUM:
            tl.store(sum_ptr + m * N + n, z.to(sum_ptr.dtype.element_ty), mask=mask)
        out = z * root
        if HAS_WEIGHT:
            out *= tl.load(weight_ptr + n * weight_stride, mask=mask, other=0.0).to(tl.float32)
        tl.store(out_ptr + m * N + n, out.to(out_ptr.dtype.element_ty), mask=mask)


@triton.jit
def _rmsnorm_squares(
    x_ptr, residual_ptr, squares_ptr, N, x_stride_m, x_stride_n, residual_stride_m, residual_stride_n,
    SPLITS: tl.constexpr, BLOCK_N: tl.constexpr, HAS_RESIDUAL: tl.constexpr
):  # fmt: skip
    # Few wide rows: SPLITS programs share a row, and each leaves the sum of its squares.
    m, split = tl.program_id(1).to(tl.int64), tl.program_id(0)
    n = split.to(tl.int64) * BLOCK_N + tl.arange(0, BLOCK_N)
    x_offset, residual_offset = m * x_stride_m + n * x_stride_n, m * residual_stride_m + n * residual_stride_n
    z = _read(x_ptr, residual_ptr, x_offset, residual_offset, n < N, HAS_RESIDUAL, "evict_last")
    tl.store(squares_ptr + m * SPLITS + split, tl.sum(z * z, axis=0))


@triton.jit
def _rmsnorm_scaled(
    x_ptr, residual_ptr, weight_ptr, out_ptr, sum_ptr, root_ptr, squares_ptr, N, x_stride_m, x_stride_n,
    residual_stride_m, residual_stride_n, weight_stride, eps, SPLITS: tl.constexpr, SPLITS_BLOCK: tl.constexpr,
    BLOCK_N: tl.constexpr, HAS_RESIDUAL: tl.constexpr, HAS_WEIGHT: tl.constexpr, KEEP_SUM: tl.constexpr,
    KEEP_ROOT: tl.constexpr
):  # fmt: skip
    # Every program adds up its row's sums, always in the same order, and scales its own part.
    # The grid runs backwards: what was read last is what the L2 cache still holds.
    m = (tl.num_programs(1) - 1 - tl.program_id(1)).to(tl.int64)
    split = tl.num_programs(0) - 1 - tl.program_id(0)
    n = split.to(tl.int64) * BLOCK_N + tl.arange(0, BLOCK_N)
    mask = n < N
    parts = tl.arange(0, SPLITS_BLOCK)
    squares = tl.load(squares_ptr + m * SPLITS + parts, mask=parts < SPLITS, other=0.0)
    x_offset, residual_offset = m * x_stride_m + n * x_stride_n, m * residual_stride_m + n * residual_stride_n
    z = _read(x_ptr, residual_ptr, x_offset, residual_offset, mask, HAS_RESIDUAL, "evict_first")
    root = tl.rsqrt(tl.sum(squares, axis=0) / N + eps)
    if KEEP_ROOT:
        tl.store(root_ptr + m, root, mask=split == 0)
    if KEEP_SUM:
        tl.store(sum_ptr + m * N + n, z.to(sum_ptr.dtype.element_ty), mask=mask)
    out = z * root
    if HAS_WEIGHT:
        out *= tl.load(weight_ptr + n * weight_stride, mask=mask, other=0.0).to(tl.float32)
    tl.store(out_ptr + m * N + n, out.to(out_ptr.dtype.element_ty), mask=mask)


@dataclass(frozen=True)
class RmsnormPlan:
    """How rows are normalised: "block", "looped" or "split"; the tile of one program in elements; its warps."""

    path: str
    block_m: int
    block_n: int
    num_warps: int


@functools.cache
def plan_rmsnorm(
    M: int,
    N: int,
    element_bytes: int,
    multiprocessors: int,
    path: str | None = None,
    block: int | None = None,
    num_warps: int | None = None,
) -> RmsnormPlan:
    """The plan for M rows of N elements on a GPU of so many multiprocessors; a choice that is given is kept.

    A row that fits into registers is read once ("block"). A wider one is walked twice ("looped"). With fewer rows than
    multiprocessors a wide row is shared by several programs ("split"), so that no multiprocessor is idle.
    """
    few = M < 2 * multiprocessors and N > 8192
    path = path or ("split" if few else "block" if N <= MAX_BLOCK else "looped")
    widest = {"block": MAX_BLOCK, "looped": 8192, "split": SPLIT_TILE}[path]
    block_n = block or min(triton.next_power_of_2(max(N, 1)), widest)
    block_m = max(1, NARROW_TILE // block_n) if path == "block" and block_n < 1024 else 1
    warps = min(max(block_m * block_n // 1024, 4), op.MAX_WARPS)
    return RmsnormPlan(path, block_m, block_n, num_warps or warps)


def _multiprocessors(device: torch.device) -> int:
    return torch.cuda.get_device_properties(device).multi_processor_count if device.type == "cuda" else 4


def _strides(tensor: torch.Tensor | None) -> tuple[int, ...]:
    return (0, 0) if tensor is None else tensor.stride()


def _launch(x, residual, weight, out, eps, total=None, root=None, path=None, block=None, num_warps=None):
    """Rows of x (M, N) to out; `total` takes x + residual rounded to the dtype, `root` the factor of every row."""
    M, N = x.shape
    plan = plan_rmsnorm(M, N, x.element_size(), _multiprocessors(x.device), path, block, num_warps)
    flags = {"HAS_RESIDUAL": residual is not None, "HAS_WEIGHT": weight is not None}
    keeps = {"KEEP_SUM": total is not None, "KEEP_ROOT": root is not None}
    strides = (*x.stride(), *_strides(residual), 0 if weight is None else weight.stride(0))
    tensors = (x, residual, weight, out, total, root)
    with torch.cuda.device_of(x):  # the tensor's GPU, which need not be the current one
        if plan.path == "block":
            grid, tile = (triton.cdiv(M, plan.block_m),), {"BLOCK_M": plan.block_m, "BLOCK_N": plan.block_n}
            _rmsnorm_rows[grid](*tensors, M, N, *strides, eps, **tile, **flags, **keeps, num_warps=plan.num_warps)
        elif plan.path == "looped":
            _rmsnorm_looped[(M,)](
                *tensors, N, *strides, eps, BLOCK_N=plan.block_n, **flags, **keeps, num_warps=plan.num_warps
            )
        else:
            splits = triton.cdiv(N, plan.block_n)
            squares = torch.empty((M, splits), dtype=torch.float32, device=x.device)
            parts = {"SPLITS": splits, "BLOCK_N": plan.block_n, "num_warps": plan.num_warps}
            _rmsnorm_squares[(splits, M)](
                x, residual, squares, N, *strides[:4], **parts, HAS_RESIDUAL=residual is not None
            )
            _rmsnorm_scaled[(splits, M)](
                *tensors, squares, N, *strides, eps, **parts, SPLITS_BLOCK=triton.next_power_of_2(splits), **flags, **keeps
            )


@triton.jit
def _rmsnorm_backward_rows(
    x_ptr, residual_ptr, weight_ptr, dout_ptr, dsum_ptr, root_ptr, dx_ptr, partial_ptr, M, N, x_stride_m, x_stride_n,
    residual_stride_m, residual_stride_n, weight_stride, dout_stride_m, dout_stride_n, dsum_stride_m, dsum_stride_n,
    BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, HAS_RESIDUAL: tl.constexpr, HAS_WEIGHT: tl.constexpr,
    HAS_DSUM: tl.constexpr, KEEP_WEIGHT: tl.constexpr
):  # fmt: skip
    # A program walks every num_programs-th tile of rows, and sums its share of the weight's
    # gradient in registers. The same rows meet in the same order each time: no atomic, one result.
    n = tl.arange(0, BLOCK_N)[None, :].to(tl.int64)
    weight = tl.full([1, BLOCK_N], 1.0, tl.float32)
    if HAS_WEIGHT:
        weight = tl.load(weight_ptr + n * weight_stride, mask=n < N, other=0.0).to(tl.float32)
    dweight = tl.zeros([BLOCK_M, BLOCK_N], tl.float32)
    for tile in range(tl.program_id(0), tl.cdiv(M, BLOCK_M), tl.num_programs(0)):
        m = tl.cast(tile, tl.int64) * BLOCK_M + tl.arange(0, BLOCK_M)[:, None]
        mask = (m < M) & (n < N)
        x_offset, residual_offset = m * x_stride_m + n * x_stride_n, m * residual_stride_m + n * residual_stride_n
        z = _read(x_ptr, residual_ptr, x_offset, residual_offset, mask, HAS_RESIDUAL, "evict_first")
        dout = tl.load(dout_ptr + m * dout_stride_m + n * dout_stride_n, mask=mask, other=0.0).to(tl.float32)
        root = tl.load(root_ptr + m, mask=m < M, other=0.0)
        normed = z * root
        scaled = dout * weight
        dot = tl.sum(scaled * normed, axis=1, keep_dims=True) / N
        dx = root * (scaled - normed * dot)
        if HAS_DSUM:  # the other output is z itself: its gradient goes on unchanged
            dx += tl.load(dsum_ptr + m * dsum_stride_m + n * dsum_stride_n, mask=mask, other=0.0).to(tl.float32)
        tl.store(dx_ptr + m * N + n, dx.to(dx_ptr.dtype.element_ty), mask=mask)
        if KEEP_WEIGHT:
            dweight += dout * normed
    if KEEP_WEIGHT:
        partial = tl.sum(dweight, axis=0, keep_dims=True)
        tl.store(partial_ptr + tl.program_id(0).to(tl.int64) * N + n, partial, mask=n < N)


@triton.jit
def _rmsnorm_dots(
    x_ptr, residual_ptr, weight_ptr, dout_ptr, root_ptr, dots_ptr, N, x_stride_m, x_stride_n, residual_stride_m,
    residual_stride_n, weight_stride, dout_stride_m, dout_stride_n, SPLITS: tl.constexpr, BLOCK_N: tl.constexpr,
    HAS_RESIDUAL: tl.constexpr, HAS_WEIGHT: tl.constexpr
):  # fmt: skip
    # Wide rows: the sum over the row of dout * weight * normed, in SPLITS parts.
    m, split = tl.program_id(0).to(tl.int64), tl.program_id(1)
    n = split.to(tl.int64) * BLOCK_N + tl.arange(0, BLOCK_N)
    mask = n < N
    x_offset, residual_offset = m * x_stride_m + n * x_stride_n, m * residual_stride_m + n * residual_stride_n
    z = _read(x_ptr, residual_ptr, x_offset, residual_offset, mask, HAS_RESIDUAL, "evict_last")
    dout = tl.load(dout_ptr + m * dout_stride_m + n * dout_stride_n, mask=mask, other=0.0).to(tl.float32)
    if HAS_WEIGHT:
        dout *= tl.load(weight_ptr + n * weight_stride, mask=mask, other=0.0).to(tl.float32)
    tl.store(dots_ptr + m * SPLITS + split, tl.sum(dout * z, axis=0) * tl.load(root_ptr + m))


@triton.jit
def _rmsnorm_backward_columns(
    x_ptr, residual_ptr, weight_ptr, dout_ptr, dsum_ptr, root_ptr, dots_ptr, dx_ptr, partial_ptr, M, N, x_stride_m,
    x_stride_n, residual_stride_m, residual_stride_n, weight_stride, dout_stride_m, dout_stride_n, dsum_stride_m,
    dsum_stride_n, SPLITS: tl.constexpr, SPLITS_BLOCK: tl.constexpr, BLOCK_N: tl.constexpr,
    HAS_RESIDUAL: tl.constexpr, HAS_WEIGHT: tl.constexpr, HAS_DSUM: tl.constexpr, KEEP_WEIGHT: tl.constexpr
):  # fmt: skip
    # A program owns BLOCK_N columns and walks every num_programs(1)-th row down them.
    n = tl.program_id(0).to(tl.int64) * BLOCK_N + tl.arange(0, BLOCK_N)
    mask = n < N
    parts = tl.arange(0, SPLITS_BLOCK)
    weight = tl.full([BLOCK_N], 1.0, tl.float32)
    if HAS_WEIGHT:
        weight = tl.load(weight_ptr + n * weight_stride, mask=mask, other=0.0).to(tl.float32)
    dweight = tl.zeros([BLOCK_N], tl.float32)
    for row in range(tl.program_id(1), M, tl.num_programs(1)):
        m = tl.cast(row, tl.int64)
        x_offset, residual_offset = m * x_stride_m + n * x_stride_n, m * residual_stride_m + n * residual_stride_n
        z = _read(x_ptr, residual_ptr, x_offset, residual_offset, mask, HAS_RESIDUAL, "evict_first")
        dout = tl.load(dout_ptr + m * dout_stride_m + n * dout_stride_n, mask=mask, other=0.0).to(tl.float32)
        root = tl.load(root_ptr + m)
        dot = tl.sum(tl.load(dots_ptr + m * SPLITS + parts, mask=parts < SPLITS, other=0.0), axis=0) / N
        normed = z * root
        dx = root * (dout * weight - normed * dot)
        if HAS_DSUM:
            dx += tl.load(dsum_ptr + m * dsum_stride_m + n * dsum_stride_n, mask=mask, other=0.0).to(tl.float32)
        tl.store(dx_ptr + m * N + n, dx.to(dx_ptr.dtype.element_ty), mask=mask)
        if KEEP_WEIGHT:
            dweight += dout * normed
    if KEEP_WEIGHT:
        tl.store(partial_ptr + tl.program_id(1).to(tl.int64) * N + n, dweight, mask=mask)


def _launch_backward(
    x, residual, weight, dout, dsum, root, dx, dweight, *, programs=None, block_m=None, block_n=None, num_warps=None
):
    """dx (M, N) and, where there is a weight, dweight (N,) from the upstream gradients of out and of the sum."""
    M, N = x.shape
    sms = _multiprocessors(x.device)
    flags = {"HAS_RESIDUAL": residual is not None, "HAS_WEIGHT": weight is not None}
    ends = {"HAS_DSUM": dsum is not None, "KEEP_WEIGHT": dweight is not None}
    strides = (*x.stride(), *_strides(residual), 0 if weight is None else weight.stride(0), *dout.stride())
    with torch.cuda.device_of(x):
        if N <= MAX_BACKWARD_BLOCK:
            tile_n = block_n or triton.next_power_of_2(N)
            tile_m = block_m or max(1, NARROW_TILE // tile_n)
            parts = min(programs or 2 * sms, triton.cdiv(M, tile_m))
            partial = None if dweight is None else partials(parts, N, x.device)
            warps = num_warps or min(max(tile_m * tile_n // 512, 4), op.MAX_WARPS)
            _rmsnorm_backward_rows[(parts,)](
                x, residual, weight, dout, dsum, root, dx, partial, M, N, *strides, *_strides(dsum),
                BLOCK_M=tile_m, BLOCK_N=tile_n, **flags, **ends, num_warps=warps
            )  # fmt: skip
        else:
            tile_n = block_n or 2048
            splits = triton.cdiv(N, tile_n)
            parts = min(programs or max(1, 4 * sms // splits), M)
            partial = None if dweight is None else partials(parts, N, x.device)
            dots = torch.empty((M, splits), dtype=torch.float32, device=x.device)
            shape = {"SPLITS": splits, "BLOCK_N": tile_n, "num_warps": num_warps or 8}
            _rmsnorm_dots[(M, splits)](x, residual, weight, dout, root, dots, N, *strides, **shape, **flags)
            _rmsnorm_backward_columns[(splits, parts)](
                x, residual, weight, dout, dsum, root, dots, dx, partial, M, N, *strides, *_strides(dsum),
                SPLITS_BLOCK=triton.next_power_of_2(splits), **shape, **flags, **ends
            )  # fmt: skip
        if dweight is not None:
            sum_partials(partial, dweight)
