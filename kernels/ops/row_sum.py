"""row_sum: the sum of each row.

    out[m] = sum_n x[m, n]

Shapes    x (..., N), at least one dimension; out has the leading dimensions of x. A row without elements sums to 0.
Dtypes    float32, float16, bfloat16; out has the dtype of x.
Strides   any row stride and any column stride, in elements, are read in place. Leading dimensions that do not merge
          into rows one stride apart are copied first. out is always contiguous, and never x.
Limits    offsets are 64 bits wide; at most 2**31 - 1 programs a launch. How rows are shared out among programs is said
          in `kernels.ops.row_plan`.
Precision added up in float32, in an order that depends on shape, strides and GPU and on nothing else, then one rounding
          to the dtype: the same input gives the same bits.
Special   infinities and NaN as IEEE 754 says. A sum beyond the dtype's range is infinite.
Gradient  recorded: every element of a row has the gradient of its sum, as a view that copies nothing.
"""

import dataclasses
import math

import torch
import triton
import triton.language as tl
from triton.language.extra.cuda import gdc_launch_dependents, gdc_wait

from kernels.ops import checks, op
from kernels.ops.early import starts_early
from kernels.ops.library import direct, launch, register, wrap_triton
from kernels.ops.row_plan import RowPlan, plan_for, require_choice

HELD = 0  # a sum needs no second look at the row
PATHS = ("block", "looped", "split")
SPLIT_BYTES = 8192  # of a row that a program of many takes at a time


def reference(x: torch.Tensor) -> torch.Tensor:
    """The sum over the last dimension in float64."""
    return x.double().sum(dim=-1)


@triton.jit
def _row_sum(
    x_ptr, out_ptr, M, N, x_stride_m, x_stride_n, parts, part_n, EARLY: tl.constexpr, ONE_STEP: tl.constexpr,
    BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr,
):  # fmt: skip
    # One program adds up one part of BLOCK_M rows, lane by lane, and the lanes at the end. Out has a
    # number for each part: a row of one part is done, the parts of others are added up by another launch.
    if EARLY:
        gdc_launch_dependents()  # which may start, and waits until this one has ended
    group = tl.program_id(0) // parts
    part = (tl.program_id(0) % parts).to(tl.int64)
    m = group.to(tl.int64) * BLOCK_M + tl.arange(0, BLOCK_M)[:, None]
    n = part * part_n + tl.arange(0, BLOCK_N)[None, :]
    lanes = tl.load(x_ptr + m * x_stride_m + n * x_stride_n, mask=(m < M) & (n < N), other=0.0).to(tl.float32)
    if not ONE_STEP:  # a loop of one step would still cost what a loop does
        for start in range(BLOCK_N, tl.cast(part_n, tl.int64), BLOCK_N):
            n = part * part_n + start + tl.arange(0, BLOCK_N)[None, :]
            x = tl.load(x_ptr + m * x_stride_m + n * x_stride_n, mask=(m < M) & (n < N), other=0.0)
            lanes += x.to(tl.float32)
    total = tl.sum(lanes, axis=1, keep_dims=True)
    tl.store(out_ptr + m * parts + part, total.to(out_ptr.dtype.element_ty), mask=m < M)


@triton.jit
def _row_sum_finish(parts_ptr, out_ptr, parts, EARLY: tl.constexpr, ALL_PARTS: tl.constexpr):
    # The parts of one row, in their order.
    if EARLY:
        gdc_wait()
    m = tl.program_id(0).to(tl.int64)
    part = tl.arange(0, ALL_PARTS)
    sums = tl.load(parts_ptr + m * parts + part, mask=part < parts, other=0.0)
    tl.store(out_ptr + m, tl.sum(sums, axis=0).to(out_ptr.dtype.element_ty))


def plan_row_sum(
    x: torch.Tensor, path: str | None = None, block: int | None = None, num_warps: int | None = None
) -> RowPlan:
    """The row plan for x (M, N), with what is different here.

    A part of a row is walked in steps of SPLIT_BYTES, whatever the dtype, and no part is left empty by their rounding.
    """
    plan = plan_for(x, path, block, num_warps, HELD)
    if plan.path == "split" and block is None and plan.block_m == 1:
        columns = min(triton.next_power_of_2(x.shape[1]), SPLIT_BYTES // x.element_size())
        plan = plan_for(x, "split", columns, num_warps, HELD)
    N = int(x.shape[1])
    part_n = triton.cdiv(triton.cdiv(N, plan.parts), plan.block_n) * plan.block_n
    return dataclasses.replace(plan, parts=triton.cdiv(N, part_n))


def _launch(x, out, path=None, block=None, num_warps=None):
    M, N = x.shape
    plan = plan_row_sum(x, path, block, num_warps)
    tile = {"BLOCK_M": plan.block_m, "BLOCK_N": plan.block_n, "num_warps": plan.num_warps}
    groups, parts = triton.cdiv(M, plan.block_m), plan.parts
    part_n = triton.cdiv(triton.cdiv(N, parts), plan.block_n) * plan.block_n
    sums = out if parts == 1 else torch.empty((M, parts), dtype=torch.float32, device=x.device)
    kernel, finish = wrap_triton(_row_sum), wrap_triton(_row_sum_finish)
    early = parts > 1 and starts_early(finish, x.device)
    tile |= {"EARLY": early, "ONE_STEP": part_n == plan.block_n}
    launch(kernel, (groups * parts,), (x, sums, M, N, *x.stride(), parts, part_n), **tile)
    if parts > 1:
        options = {"launch_pdl": True} if early else {}
        all_parts = triton.next_power_of_2(parts)
        launch(finish, (M,), (sums, out, parts), EARLY=early, ALL_PARTS=all_parts, num_warps=1, **options)


def launch_row_sum(
    x: torch.Tensor,
    out: torch.Tensor,
    *,
    path: str | None = None,
    block: int | None = None,
    num_warps: int | None = None,
) -> torch.Tensor:
    """Write the sum of each row of `x` to `out` and return it, as the row plan says with the choices given.

    x: (M, N), any strides. out: (M,), contiguous; it must not overlap x. path is "block", "looped" or "split" (see
    `kernels.ops.row_plan`); block (columns of a program's tile) and num_warps are powers of two, at most 32768 and 32.
    Raises TypeError, ValueError or RuntimeError with a sentence before any launch.
    """
    for name, tensor, dimensions in (
        ("x", x, "two dimensions, (rows, columns)"),
        ("out", out, "one dimension, (rows,)"),
    ):
        checks.require_tensor(name, tensor)
        if tensor.dim() != (2 if name == "x" else 1):
            raise ValueError(f"{name} has shape {tuple(tensor.shape)}; expected {dimensions}.")
    checks.require_same("out", out, "the rows of x", x[:, 0] if x.shape[1] else x.new_empty(x.shape[:1]))
    checks.require_runnable("x", x, _row_sum)
    checks.require_contiguous("out", out)
    checks.require_apart("out", out, "x", x)
    require_choice(x, path, block, num_warps, PATHS, HELD)
    if x.numel() == 0:
        return out.zero_()
    _launch(x, out, path, block, num_warps)
    return out


def _forward(x: torch.Tensor) -> torch.Tensor:
    if x.dim() == 0:
        raise ValueError("x has shape (); expected at least one dimension.")
    checks.require_runnable("x", x, _row_sum)
    if x.numel() == 0:
        return torch.zeros(x.shape[:-1], dtype=x.dtype, device=x.device)
    out = torch.empty(x.shape[:-1], dtype=x.dtype, device=x.device)
    _launch(x.reshape(-1, x.shape[-1]), out.view(-1))
    return out


def _registered(x: torch.Tensor) -> torch.Tensor:
    checks.require_tensor("x", x, differentiable=True)
    return _forward(x)


def _save(ctx, inputs, output):
    ctx.shape = inputs[0].shape


def _backward(ctx, gradient):
    return gradient.unsqueeze(-1).expand(ctx.shape)


_row_sum_operator = register(
    "row_sum", _registered, lambda x: x.new_empty(x.shape[:-1]), save=_save, backward=_backward
)


def row_sum(x: torch.Tensor) -> torch.Tensor:
    """The sum over the last dimension as a new contiguous tensor; this module's contract has shapes and limits.

    Raises TypeError for a wrong kind or dtype, ValueError for a scalar or a device that is not CUDA, RuntimeError on a
    CPU tensor outside Triton's interpreter; each names the argument, and nothing has been launched.
    """
    if torch.compiler.is_compiling():
        return _row_sum_operator(x)
    checks.require_tensor("x", x, differentiable=True)
    return _forward(x) if direct(x) else _row_sum_operator(x)


def inputs(shape: tuple[int, ...], dtype: str, device: str, seed: int, padding: int = 3) -> tuple[torch.Tensor, ...]:
    """x of `shape`, seeded, with `padding` NaN behind each row. A little above 0 on average, so that a long row sums to
    something, and 2**20 of them stay within float16."""
    generator = torch.Generator(device).manual_seed(seed)
    values = torch.randn(shape, generator=generator, device=device) / 8 + 1 / 64
    return (op.with_padded_rows(values.to(getattr(torch, dtype)), padding),)


def tolerance(dtype: str, shape: tuple[int, ...]) -> tuple[float, float]:
    """(rtol, atol): partial sums of these inputs are about sqrt(N) / 8 large, whatever they come to in the end."""
    terms = max(shape[-1], 2)
    rtol, smallest = op.tolerance(dtype, terms=terms)
    return rtol, smallest + op.ROUNDOFF["float32"] * (math.sqrt(terms) + 4) * math.sqrt(terms) / 4


def _library(x: torch.Tensor) -> torch.Tensor:
    return torch.sum(x, dim=-1)


OP = op.Op(
    name="row_sum",
    reference=reference,
    implementations=(
        op.Implementation("triton", row_sum, "triton", "kernels.ops.row_sum:_launch", ours=True),
        op.Implementation("torch", _library, "torch", ""),
        op.Implementation("torch.compile", op.compiled(_library), "torch", ""),
    ),
    inputs=inputs,
    outputs=lambda x: torch.empty(x.shape[:-1], dtype=x.dtype, device=x.device),
    # read x once, write one element a row
    bytes_moved=lambda shape, dtype: (op.elements(shape) + op.elements(shape[:-1])) * op.ELEMENT_BYTES[dtype],
    flops=op.elements,
    checks=(
        op.Case((3, 31), "ragged: one lane short of a warp"),
        op.Case((5, 1), "one column: the row itself"),
        op.Case((17, 128), "narrow: several rows in a program, and one row left over"),
        op.Case((6, 257), "one past a power of two: nearly half of the block is padding"),
        op.Case((2, 3, 40), "two leading dimensions"),
        op.Case((65,), "one dimension: a single sum, a scalar"),
        op.Case((0, 8), "no row"),
        op.Case((8, 0), "no column: sums of nothing"),
        op.Case((133, 1025), "more rows than multiprocessors, wider than a block of several rows"),
        op.Case((2, 4097), "few rows: several parts, the last of one element"),
        op.Case((1, 1 << 20), "2**20 columns in many parts"),
        op.Case((70000, 2), "more rows than a second grid dimension could count"),
    ),
    benches=(
        op.Case((4096, 1024), "a short run, where the launch shows"),
        op.Case((16384, 4096), "far larger than the L2 cache"),
        op.Case((8192, 16384), "wide rows"),
        op.Case((32, 1 << 20), "fewer rows than the GPU has multiprocessors"),
        op.Case((131072, 128), "narrow rows, several in one program"),
    ),
    dtypes=op.DTYPES,
    tolerance=tolerance,
    gradient_tolerance=lambda dtype, shape: (0.0, 0.0),
)
