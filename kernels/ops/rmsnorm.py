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
import math
from dataclasses import dataclass

import torch
import triton
import triton.language as tl

from kernels.ops import checks, op
from kernels.ops.library import direct, launch, register, wrap_triton
from kernels.ops.partials import multiprocessors, partials, sum_partials

EPS = 1e-6
MAX_BLOCK = 32768  # columns of one program; 32 warps hold 32 elements in each thread
MAX_BACKWARD_BLOCK = 16384  # columns whose weight gradient one program sums in registers
NARROW_TILE = 2048  # elements a program takes together, from whole rows of up to 512 columns
SPLIT_TILE = 4096  # columns of one program where rows are split
MAX_GRID_Y = 65535  # programs along the second axis of a grid


def reference(
    x: torch.Tensor, residual: torch.Tensor | None, weight: torch.Tensor | None, eps: float = EPS
) -> torch.Tensor:
    """The formula in float64. The sum with the residual is exact, as float32 has it but for its last bits."""
    z = x.double() if residual is None else x.double() + residual.double()
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
    M: int | None,
    N: int,
    element_bytes: int,
    multiprocessors: int,
    path: str | None = None,
    block: int | None = None,
    num_warps: int | None = None,
) -> RmsnormPlan:
    """The plan for M rows (None: not known) of N elements on a GPU of so many multiprocessors; a choice given is kept.

    A row that fits into registers is read once ("block"). A wider one is walked twice ("looped"). With fewer rows than
    multiprocessors a wide row is shared by several programs ("split"), so that no multiprocessor is idle.
    """
    few = M is not None and 2 * multiprocessors > M and N > 8192
    path = path or ("split" if few else "block" if N <= MAX_BLOCK else "looped")
    widest = {"block": MAX_BLOCK, "looped": 8192, "split": SPLIT_TILE}[path]
    block_n = block or min(triton.next_power_of_2(max(N, 1)), widest)
    block_m = max(1, NARROW_TILE // block_n) if path == "block" and block_n < 1024 else 1
    warps = min(max(block_m * block_n // 1024, 4), op.MAX_WARPS)
    return RmsnormPlan(path, block_m, block_n, num_warps or warps)


def _strides(tensor: torch.Tensor | None) -> tuple[int, ...]:
    return (0, 0) if tensor is None else tensor.stride()


def _launch(x, residual, weight, out, eps, total=None, root=None, path=None, block=None, num_warps=None):
    """Rows of x (M, N) to out; `total` takes x + residual rounded to the dtype, `root` the factor of every row."""
    M, N = x.shape
    # A number of rows that torch.compile left open does not decide the plan: one graph serves them all.
    rows = M if isinstance(M, int) else None
    plan = plan_rmsnorm(rows, N, x.element_size(), multiprocessors(x.device), path, block, num_warps)
    flags = {"HAS_RESIDUAL": residual is not None, "HAS_WEIGHT": weight is not None}
    keeps = {"KEEP_SUM": total is not None, "KEEP_ROOT": root is not None}
    strides = (*x.stride(), *_strides(residual), 0 if weight is None else weight.stride(0))
    tensors = (x, residual, weight, out, total, root)
    if plan.path == "block":
        grid, tile = (triton.cdiv(M, plan.block_m),), {"BLOCK_M": plan.block_m, "BLOCK_N": plan.block_n}
        kernel = wrap_triton(_rmsnorm_rows)
        launch(kernel, grid, (*tensors, M, N, *strides, eps), **tile, **flags, **keeps, num_warps=plan.num_warps)
    elif plan.path == "looped":
        kernel, constants = wrap_triton(_rmsnorm_looped), {"BLOCK_N": plan.block_n, **flags, **keeps}
        launch(kernel, (M,), (*tensors, N, *strides, eps), **constants, num_warps=plan.num_warps)
    else:
        splits = triton.cdiv(N, plan.block_n)
        squares = torch.empty((M, splits), dtype=torch.float32, device=x.device)
        first, second = wrap_triton(_rmsnorm_squares), wrap_triton(_rmsnorm_scaled)
        sizes, warps = {"SPLITS": splits, "BLOCK_N": plan.block_n}, {"num_warps": plan.num_warps}
        read = (x, residual, squares, N, *strides[:4])
        launch(first, (splits, M), read, **sizes, HAS_RESIDUAL=flags["HAS_RESIDUAL"], **warps)
        sizes = {"SPLITS": splits, "SPLITS_BLOCK": triton.next_power_of_2(splits), "BLOCK_N": plan.block_n}
        launch(second, (splits, M), (*tensors, squares, N, *strides, eps), **sizes, **flags, **keeps, **warps)


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
    sms = multiprocessors(x.device)
    flags = {"HAS_RESIDUAL": residual is not None, "HAS_WEIGHT": weight is not None}
    ends = {"HAS_DSUM": dsum is not None, "KEEP_WEIGHT": dweight is not None}
    strides = (*x.stride(), *_strides(residual), 0 if weight is None else weight.stride(0), *dout.stride())
    if N <= MAX_BACKWARD_BLOCK:
        tile_n = block_n or triton.next_power_of_2(N)
        tile_m = block_m or max(1, NARROW_TILE // tile_n)
        parts = programs or 2 * sms
        if isinstance(M, int):
            parts = min(parts, triton.cdiv(M, tile_m))
        partial = None if dweight is None else partials(parts, N, x.device)
        warps = num_warps or min(max(tile_m * tile_n // 512, 4), op.MAX_WARPS)
        given = (x, residual, weight, dout, dsum, root, dx, partial, M, N, *strides, *_strides(dsum))
        sizes = {"BLOCK_M": tile_m, "BLOCK_N": tile_n}
        launch(wrap_triton(_rmsnorm_backward_rows), (parts,), given, **sizes, **flags, **ends, num_warps=warps)
    else:
        tile_n = block_n or 2048
        splits = triton.cdiv(N, tile_n)
        parts = programs or max(1, 4 * sms // splits)
        if isinstance(M, int):
            parts = min(parts, M)
        partial = None if dweight is None else partials(parts, N, x.device)
        dots = torch.empty((M, splits), dtype=torch.float32, device=x.device)
        sizes, warps = {"SPLITS": splits, "BLOCK_N": tile_n}, num_warps or 8
        given = (x, residual, weight, dout, root, dots, N, *strides)
        launch(wrap_triton(_rmsnorm_dots), (M, splits), given, **sizes, **flags, num_warps=warps)
        given = (x, residual, weight, dout, dsum, root, dots, dx, partial, M, N, *strides, *_strides(dsum))
        sizes = {"SPLITS": splits, "SPLITS_BLOCK": triton.next_power_of_2(splits), "BLOCK_N": tile_n}
        kernel = wrap_triton(_rmsnorm_backward_columns)
        launch(kernel, (splits, parts), given, **sizes, **flags, **ends, num_warps=warps)
    if dweight is not None:
        sum_partials(partial, dweight)


def _require(x: torch.Tensor, residual: torch.Tensor | None, weight: torch.Tensor | None) -> None:
    checks.require_tensor("x", x, differentiable=True)
    if x.dim() == 0:
        raise ValueError("x has shape (); expected at least one dimension.")
    if residual is not None:
        checks.require_tensor("residual", residual, differentiable=True)
        checks.require_same("residual", residual, "x", x)
    if weight is not None:
        checks.require_tensor("weight", weight, differentiable=True)
        if weight.shape != x.shape[-1:]:
            expected = f"one number a column of x, ({x.shape[-1]},)"
            raise ValueError(f"weight has shape {tuple(weight.shape)}; expected {expected}.")
        checks.require_alike("weight", weight, "x", x)
    checks.require_runnable("x", x, _rmsnorm_rows)


def _rows(tensor: torch.Tensor | None, N: int) -> torch.Tensor | None:
    return None if tensor is None else tensor.reshape(-1, N)


def _empty(x: torch.Tensor, shape: tuple[int, ...] | None = None) -> torch.Tensor:
    return torch.empty(x.shape if shape is None else shape, dtype=x.dtype, device=x.device)


def _forward(x, residual, weight, eps, total=None, root=None) -> torch.Tensor:
    _require(x, residual, weight)
    out = _empty(x)
    if x.numel():
        N = x.shape[-1]
        _launch(_rows(x, N), _rows(residual, N), weight, out.view(-1, N), eps, _rows(total, N), root)
    return out


def _kept(
    x: torch.Tensor, residual: torch.Tensor | None, weight: torch.Tensor | None, eps: float
) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """out, the sum rounded to the dtype, and the factor of each row in float32."""
    total, root = _empty(x), torch.empty((math.prod(x.shape[:-1]),), dtype=torch.float32, device=x.device)
    return _forward(x, residual, weight, eps, total, root), total, root


def _gradients(
    x: torch.Tensor,
    residual: torch.Tensor | None,
    weight: torch.Tensor | None,
    root: torch.Tensor,
    dout: torch.Tensor,
    dtotal: torch.Tensor | None,
) -> tuple[torch.Tensor, torch.Tensor]:
    """The gradient of x, which is also the residual's, and the weight's; without a weight an empty tensor."""
    dx, dweight = _empty(x), _empty(x, (0,) if weight is None else weight.shape)
    if x.numel() == 0:
        return dx, dweight.zero_()
    N = x.shape[-1]
    wanted = None if weight is None else dweight
    upstream = (_rows(dout, N), _rows(dtotal, N))
    _launch_backward(_rows(x, N), _rows(residual, N), weight, *upstream, root, dx.view(-1, N), wanted)
    return dx, dweight


_rmsnorm_backward_op = register(
    "rmsnorm_backward",
    _gradients,
    lambda x, residual, weight, root, dout, dtotal: (_empty(x), _empty(x, (0,) if weight is None else weight.shape)),
)


def _save(ctx, inputs, output):
    x, residual, weight, _ = inputs
    ctx.save_for_backward(x, residual, weight, output[2])
    ctx.mark_non_differentiable(output[2])
    ctx.set_materialize_grads(False)  # an output that nobody used has None for a gradient


def _backward(ctx, dout, dtotal, _droot):
    x, residual, weight, root = ctx.saved_tensors
    if dout is None and dtotal is None:
        return None, None, None, None
    if dout is None:
        dx, dweight = dtotal, None if weight is None else torch.zeros_like(weight)
    else:
        dx, dweight = _rmsnorm_backward_op(x, residual, weight, root, dout, dtotal)
    return dx, None if residual is None else dx, None if weight is None else dweight, None


_rmsnorm_op = register(
    "rmsnorm",
    _kept,
    lambda x, residual, weight, eps: (
        _empty(x),
        _empty(x),
        torch.empty((math.prod(x.shape[:-1]),), dtype=torch.float32, device=x.device),
    ),
    save=_save,
    backward=_backward,
)


def rmsnorm(
    x: torch.Tensor, residual: torch.Tensor | None = None, weight: torch.Tensor | None = None, eps: float = EPS
) -> torch.Tensor:
    """The normalised rows of x, or of x + residual, as a new contiguous tensor; this module's contract has the rest.

    Raises TypeError or ValueError for arguments that do not fit, RuntimeError on a CPU tensor outside Triton's
    interpreter; each names the argument, and nothing has been launched. The method: Zhang and Sennrich, "Root Mean
    Square Layer Normalization", 2019.
    """
    if not torch.compiler.is_compiling() and direct(x, residual, weight):
        return _forward(x, residual, weight, eps)
    return _rmsnorm_op(x, residual, weight, float(eps))[0]


def add_rmsnorm(
    x: torch.Tensor, residual: torch.Tensor, weight: torch.Tensor | None = None, eps: float = EPS
) -> tuple[torch.Tensor, torch.Tensor]:
    """`rmsnorm(x, residual, weight)`, and x + residual rounded to the dtype: what the next layer adds to.

    The normalised rows come from the sum before it is rounded, and so do the gradients.
    """
    if not torch.compiler.is_compiling() and direct(x, residual, weight):
        total = _empty(x)
        return _forward(x, residual, weight, eps, total), total
    return _rmsnorm_op(x, residual, weight, float(eps))[:2]


def launch_rmsnorm(
    x: torch.Tensor,
    residual: torch.Tensor | None,
    weight: torch.Tensor | None,
    out: torch.Tensor,
    *,
    eps: float = EPS,
    path: str | None = None,
    block: int | None = None,
    num_warps: int | None = None,
) -> torch.Tensor:
    """Write the normalised rows to `out` and return it, as `plan_rmsnorm` says with the choices given.

    x and residual: (M, N), any strides; weight: (N,). out: (M, N), contiguous; it must not overlap the others. path is
    "block", "looped" or "split"; block and num_warps are powers of two, at most 32768 and 32, and a single block is at
    least N columns wide. Raises TypeError, ValueError or RuntimeError with a sentence before any launch.
    """
    _require(x, residual, weight)
    if x.dim() != 2:
        raise ValueError(f"x has shape {tuple(x.shape)}; expected two dimensions, (rows, columns).")
    checks.require_tensor("out", out)
    checks.require_same("out", out, "x", x)
    checks.require_contiguous("out", out)
    for name, tensor in (("x", x), ("residual", residual), ("weight", weight)):
        if tensor is not None:
            checks.require_apart("out", out, name, tensor)
    if path not in (None, "block", "looped", "split"):
        raise ValueError(f'path is {path!r}; expected "block", "looped", "split" or None.')
    if block is not None:
        checks.require_power_of_two("block", block, MAX_BLOCK)
    if num_warps is not None:
        checks.require_power_of_two("num_warps", num_warps, op.MAX_WARPS)
    if x.numel() == 0:
        return out
    M, N = x.shape
    plan = plan_rmsnorm(M, N, x.element_size(), multiprocessors(x.device), path, block, num_warps)
    if plan.path == "block" and plan.block_n < N:
        raise ValueError(f'block is {plan.block_n} for rows of {N} elements; expected at least {N}, or path="looped".')
    if plan.path == "split" and M > MAX_GRID_Y:
        raise ValueError(f'path is "split" for {M} rows; expected at most {MAX_GRID_Y}, or another path.')
    _launch(x, residual, weight, out, eps, None, None, path, block, num_warps)
    return out


def inputs(shape: tuple[int, ...], dtype: str, device: str, seed: int, padding: int = 3) -> tuple[torch.Tensor, ...]:
    """x and residual of `shape` with `padding` NaN behind each row, and a weight near 1, seeded.

    Rows are scaled by 1/64, 1 and 64 in turn, so that a root taken over the wrong row or the wrong number of columns
    shows. The residual is 64 times smaller than x: a sum that is rounded too early loses part of it.
    """
    generator = torch.Generator(device).manual_seed(seed)
    as_dtype = getattr(torch, dtype)
    scale = 64.0 ** (torch.arange(op.elements(shape[:-1]), device=device) % 3 - 1).reshape(*shape[:-1], 1)
    x = (torch.randn(shape, generator=generator, device=device) * scale).to(as_dtype)
    residual = (torch.randn(shape, generator=generator, device=device) * scale / 64).to(as_dtype)
    weight = (1 + 0.25 * torch.randn(shape[-1:], generator=generator, device=device)).to(as_dtype)
    return op.with_padded_rows(x, padding), op.with_padded_rows(residual, padding + 1 if padding else 0), weight


def gradient_inputs(shape: tuple[int, ...], dtype: str, device: str, seed: int, padding: int = 3):
    """x, residual, weight, the factor of each row, and an upstream gradient."""
    x, residual, weight = inputs(shape, dtype, device, seed, padding)
    total = x.double() + residual.double()
    root = torch.rsqrt(total.square().mean(dim=-1) + EPS).float().reshape(-1) if total.numel() else None
    if root is None:
        root = torch.empty((op.elements(shape[:-1]),), dtype=torch.float32, device=device)
    generator = torch.Generator(device).manual_seed(seed + 1)
    dout = torch.randn(shape, generator=generator, device=device).to(x.dtype)
    return x, residual, weight, root, op.with_padded_rows(dout, padding)


def _gradient_reference(x, residual, weight, root, dout):
    with torch.enable_grad():
        leaves = [each.double().requires_grad_() for each in (x, residual, weight)]
        dx, _, dweight = torch.autograd.grad(reference(*leaves), leaves, dout.double())
    return dx, dweight


def _eager(x: torch.Tensor, residual: torch.Tensor, weight: torch.Tensor) -> torch.Tensor:
    """The contract as PyTorch calls: each writes a float32 tensor to memory and the next one reads it back."""
    z = x.float() + residual.float()
    return (z * torch.rsqrt(z.square().mean(dim=-1, keepdim=True) + EPS) * weight.float()).to(x.dtype)


def _library(x: torch.Tensor, residual: torch.Tensor, weight: torch.Tensor) -> torch.Tensor:
    """PyTorch's own, after a residual addition that is rounded: another contract wherever the dtype is not float32."""
    return torch.nn.functional.rms_norm(x + residual, x.shape[-1:], weight, EPS)


def _gradient_eager(x, residual, weight, root, dout):
    with torch.enable_grad():
        leaves = [each.detach().requires_grad_() for each in (x, residual, weight)]
        dx, _, dweight = torch.autograd.grad(_eager(*leaves), leaves, dout)
    return dx, dweight


CHECKS = (
    op.Case((3, 31), "ragged: one lane short of a warp"),
    op.Case((5, 1), "one column: the root is its magnitude"),
    op.Case((1, 33), "one row, one lane past a warp"),
    op.Case((17, 128), "narrow: several rows in a program, and one row left over"),
    op.Case((6, 257), "one past a power of two: nearly half of the block is padding"),
    op.Case((2, 3, 40), "two leading dimensions"),
    op.Case((65,), "one dimension: a single row"),
    op.Case((0, 8), "no row: the weight's gradient is zero"),
    op.Case((8, 0), "no column"),
    op.Case((2, 4097), "pads to 8192"),
    op.Case((2, 20000), "few wide rows: split"),
    op.Case((1, 32769), "one past the widest block"),
)
BENCHES = (
    op.Case((4096, 1024), "8 MiB a tensor in bfloat16: a short run, where the launch shows"),
    op.Case((16384, 4096), "rows of one block, far larger than the L2 cache"),
    op.Case((16384, 8192), "the same, twice as wide"),
    op.Case((4096, 32768), "the widest block"),
    op.Case((64, 131072), "fewer rows than the GPU has multiprocessors"),
)


def _gradient_tolerance(dtype: str, shape: tuple[int, ...]) -> tuple[float, float]:
    """The weight's gradient adds a term a row; terms are about 4 at most, and their sum may be near zero."""
    rows = max(2, op.elements(shape[:-1]))
    rtol, _ = op.tolerance(dtype, terms=max(shape[-1], rows), largest_exponent=8)
    return rtol, 64 * 16 * op.ROUNDOFF["float32"] * (math.sqrt(max(rows, shape[-1])) + 4)


OP = op.Op(
    name="rmsnorm",
    reference=reference,
    implementations=(
        op.Implementation("triton", rmsnorm, "triton", "kernels.ops.rmsnorm:_launch", ours=True),
        op.Implementation("torch", _library, "torch", "", dtypes=("float32",)),
        op.Implementation("torch.compile", op.compiled(_eager), "torch", ""),
        op.Implementation("eager", _eager, "torch", "kernels.ops.rmsnorm:_eager"),
    ),
    inputs=inputs,
    # read x, the residual and the weight once, write out once
    bytes_moved=lambda shape, dtype: (3 * op.elements(shape) + shape[-1]) * op.ELEMENT_BYTES[dtype],
    flops=lambda shape: 5 * op.elements(shape),  # sum, square, its sum, two products
    checks=CHECKS,
    benches=BENCHES,
    dtypes=op.DTYPES,
    tolerance=lambda dtype, shape: op.tolerance(dtype, terms=max(shape[-1], 2), largest_exponent=8),
    gradient_tolerance=_gradient_tolerance,
    backward=op.Op(
        name="rmsnorm_backward",
        reference=_gradient_reference,
        implementations=(
            op.Implementation(
                "triton",
                lambda x, residual, weight, root, dout: _rmsnorm_backward_op(x, residual, weight, root, dout, None),
                "triton",
                "kernels.ops.rmsnorm:_launch_backward",
                ours=True,
            ),
            op.Implementation("eager", _gradient_eager, "torch", ""),
        ),
        inputs=gradient_inputs,
        # read x, the residual, the upstream gradient, the weight and a root a row; write dx and the weight's gradient
        bytes_moved=lambda shape, dtype: (
            (4 * op.elements(shape) + 2 * shape[-1]) * op.ELEMENT_BYTES[dtype] + 4 * op.elements(shape[:-1])
        ),
        flops=lambda shape: 11 * op.elements(shape),
        checks=CHECKS,
        benches=BENCHES,
        dtypes=op.DTYPES,
        tolerance=_gradient_tolerance,
    ),
)
