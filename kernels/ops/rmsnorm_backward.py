"""rmsnorm_backward: the gradients of rmsnorm, from its inputs, the factor of each row, and its outputs' gradients.

    z[m, n] = float32(x[m, n]) + float32(residual[m, n])    normed[m, n] = z[m, n] * root[m]
    dx[m, n] = root[m] * (dout[m, n] * weight[n] - normed[m, n] * mean_k dout[m, k] * weight[k] * normed[m, k])
               + dtotal[m, n]
    dweight[n] = sum_m dout[m, n] * normed[m, n]

dx is also the residual's gradient. dtotal is the gradient of x + residual, where that was an output too; it joins after
the norm's own gradient, since the sum does not pass through the norm.

Shapes    x, residual, dout, dtotal and dx (..., N); weight and dweight (N,); root (rows,). residual, weight and dtotal
          may be None; without a weight dweight is empty.
Dtypes    float32, float16, bfloat16, all of one; root float32.
Strides   any of x, residual, dout and dtotal, in elements, read in place: gradients often arrive with zero strides, or
          as part of a wider tensor. dx is contiguous.
Limits    offsets are 64 bits wide.
Precision float32, then one rounding. The weight's gradient is summed in float32 by a fixed number of programs, each of
          which leaves one row; the rows are added up in order. No atomic adds numbers: the same bits in every run.
Special   infinities and NaN as IEEE 754 says. An input with no element gives zeros for dweight, and launches nothing.
Gradient  none: a second derivative is refused with a sentence.
"""

import functools
import math
from dataclasses import dataclass

import torch
import triton
import triton.language as tl

from kernels.ops import checks, op
from kernels.ops.early import starts_early
from kernels.ops.joint import zeroed_words
from kernels.ops.library import direct, launch, register, wrap_triton
from kernels.ops.partials import multiprocessors, partials, sum_partials
from kernels.ops.rmsnorm_backward_wide import (
    rmsnorm_backward_columns,
    rmsnorm_backward_dots,
    rmsnorm_backward_joint,
    rmsnorm_backward_words,
)
from kernels.ops.rmsnorm_shared import (
    forward_inputs,
    read_row,
    read_weight,
    require_weight,
    rows_of,
    strides,
    write_row,
)

MAX_ROW = 16384  # columns of a whole row, and their share of the weight's gradient, in one program's registers
TILE = 4096  # elements of a step, from whole rows of up to 2048 columns
PATHS = ("block", "joint", "split")


def reference(x, residual, weight, root, dout, dtotal=None) -> tuple[torch.Tensor, torch.Tensor]:
    """dx and dweight in float64, with the roots as given."""
    z = x.double() if residual is None else x.double() + residual.double()
    normed = z * root.double().reshape(*z.shape[:-1], 1)
    scaled = dout.double() if weight is None else dout.double() * weight.double()
    dx = root.double().reshape(*z.shape[:-1], 1) * (scaled - normed * (scaled * normed).mean(dim=-1, keepdim=True))
    dweight = (dout.double() * normed).reshape(z.shape[:-1].numel(), z.shape[-1]).sum(dim=0)
    return dx if dtotal is None else dx + dtotal.double(), dweight if weight is not None else dweight[:0]


@triton.jit
def _rmsnorm_backward_rows(
    x_ptr, residual_ptr, weight_ptr, dout_ptr, dsum_ptr, root_ptr, dx_ptr, partial_ptr, M, N, x_stride_m, x_stride_n,
    residual_stride_m, residual_stride_n, weight_stride, dout_stride_m, dout_stride_n, dsum_stride_m, dsum_stride_n,
    HAS_RESIDUAL: tl.constexpr, HAS_WEIGHT: tl.constexpr, HAS_DSUM: tl.constexpr, KEEP_WEIGHT: tl.constexpr,
    STAGES: tl.constexpr, BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr
):  # fmt: skip
    # A program walks every num_programs-th tile of whole rows, and sums its share of the weight's
    # gradient in registers. The same rows meet in the same order each time.
    n = tl.arange(0, BLOCK_N)[None, :].to(tl.int64)
    weight = read_weight(weight_ptr, n, N, weight_stride, BLOCK_N, HAS_WEIGHT)
    dweight = tl.zeros([BLOCK_M, BLOCK_N], tl.float32)
    for tile in tl.range(tl.program_id(0), tl.cdiv(M, BLOCK_M), tl.num_programs(0), num_stages=STAGES):
        m = tl.cast(tile, tl.int64) * BLOCK_M + tl.arange(0, BLOCK_M)[:, None]
        normed, dout, root = read_row(
            x_ptr, residual_ptr, dout_ptr, root_ptr, m, n, M, N, x_stride_m, x_stride_n, residual_stride_m,
            residual_stride_n, dout_stride_m, dout_stride_n, HAS_RESIDUAL,
        )  # fmt: skip
        dout = dout.to(tl.float32)
        scaled = dout * weight
        dx = root * (scaled - normed * (tl.sum(scaled * normed, axis=1, keep_dims=True) / N))
        write_row(dx, dsum_ptr, dx_ptr, m, n, M, N, dsum_stride_m, dsum_stride_n, HAS_DSUM)
        if KEEP_WEIGHT:
            dweight += dout * normed
    if KEEP_WEIGHT:
        partial = tl.sum(dweight, axis=0, keep_dims=True)
        tl.store(partial_ptr + tl.program_id(0).to(tl.int64) * N + n, partial, mask=n < N)


@dataclass(frozen=True)
class BackwardPlan:
    """How rows are walked: the path, a step's tile in elements, warps, parts of a row, and teams of that many programs.

    Each team leaves one row of partial sums of the weight's gradient.
    """

    path: str
    block_m: int
    block_n: int
    num_warps: int
    parts: int
    teams: int


def roomy(element_bytes: int, block_n: int) -> bool:
    """Whether a program of a joint row has all the registers it asks for, and not a quarter of a multiprocessor's."""
    return element_bytes == 4 and block_n <= 2048


@functools.cache
def plan_backward(
    M: int | None,
    N: int,
    multiprocessors: int,
    may_wait: bool = True,
    path: str | None = None,
    block_m: int | None = None,
    block: int | None = None,
    num_warps: int | None = None,
    teams: int | None = None,
    element_bytes: int = 2,
) -> BackwardPlan:
    """The plan for M rows (None: not known) of N elements; a choice that is given is kept.

    block   whole rows, up to MAX_ROW wide. Each program has a steady share of the rows, so that there are few partial
            sums: with steps of 4096 elements, from narrow rows, two programs a multiprocessor; with steps of 2048
            elements and half the warps four; beyond 4096 columns one, which has all the registers.
    joint   wider rows in parts: a team of programs walks down the rows together. Small parts, with four programs a
            multiprocessor, wait best: while one waits, the others read. Four bytes an element need more registers than
            a quarter of a multiprocessor has: three programs there. Beyond 65536 columns parts are twice as wide, so
            that a row's sums stay few, and half as many.
    split   the same in two launches that read everything twice: for the interpreter, where no program can wait.
    """
    path = path or ("block" if N <= MAX_ROW else "joint" if may_wait else "split")
    width = triton.next_power_of_2(N)
    if path == "block":
        block_n, parts = block or width, 1
        block_m = block_m or max(1, TILE // 2 // block_n if N > 512 else TILE // block_n)
        warps = num_warps or (16 if N > 2048 else 4 if N > 512 else 8)
        teams = teams or (1 if N > 4096 else 2 if N > 2048 or N <= 512 else 4) * multiprocessors
    else:
        block_n = block or min(width, 4096 if path == "joint" and N > 65536 else 2048)
        parts, block_m = triton.cdiv(N, block_n), block_m or 1
        warps = num_warps or (max(block_n // 512, 1) if path == "joint" else 8)
        programs = 3 if path == "joint" and roomy(element_bytes, block_n) else 4
        teams = teams or max(1, programs * 2048 * multiprocessors // (max(block_n, 2048) * parts))
    if M is not None:
        teams = max(1, min(teams, triton.cdiv(M, block_m)))
    return BackwardPlan(path, block_m, block_n, warps, parts, teams)


def _launch(
    x, residual, weight, root, dout, dsum, dx, dweight,
    path=None, block_m=None, block=None, num_warps=None, teams=None, stages=1,
):  # fmt: skip
    """dx (M, N) and, where there is a weight, dweight (N,) from the upstream gradients of out and of the sum."""
    M, N = x.shape
    # A number of rows that torch.compile left open does not decide the plan: one graph serves them all.
    rows = M if isinstance(M, int) else None
    plan = plan_backward(
        rows, N, multiprocessors(x.device), x.is_cuda, path, block_m, block, num_warps, teams, x.element_size()
    )  # fmt: skip
    read = {"HAS_RESIDUAL": residual is not None, "HAS_WEIGHT": weight is not None}
    flags = {"HAS_DSUM": dsum is not None, "KEEP_WEIGHT": dweight is not None}
    tile = {"BLOCK_M": plan.block_m, "BLOCK_N": plan.block_n, "num_warps": plan.num_warps}
    steps = (*strides(x), *strides(residual), 0 if weight is None else weight.stride(0), *dout.stride())
    partial = None if dweight is None else partials(plan.teams, N, x.device)
    tensors = (x, residual, weight, dout, dsum, root)
    if plan.path == "block":
        arguments = (*tensors, dx, partial, M, N, *steps, *strides(dsum))
        launch(wrap_triton(_rmsnorm_backward_rows), (plan.teams,), arguments, **read, **flags, STAGES=stages, **tile)
    else:
        parts, all_parts = plan.parts, {"ALL_PARTS": triton.next_power_of_2(plan.parts)}
        kernel = wrap_triton(rmsnorm_backward_words)
        if plan.path == "joint" and plan.block_m == 1 and starts_early(kernel, x.device):
            del tile["BLOCK_M"]
            ends = (dx, partial, M, N, *steps, *strides(dsum), parts, plan.teams)
            arguments, options = (*tensors, zeroed_words(M * parts, x.device), *ends), {"launch_pdl": True}
            if plan.num_warps * 512 == plan.block_n <= 4096 and not roomy(x.element_size(), plan.block_n):
                options["maxnreg"] = 128  # so that the programs of the plan all run at once
            launch(kernel, (parts * plan.teams,), arguments, **read, **flags, **all_parts, **tile, **options)
            if dweight is not None:
                sum_partials(partial, dweight)
            return
        state = torch.empty((M, parts), dtype=torch.float32, device=x.device)
        tiles, ends = triton.cdiv(M, plan.block_m), (dx, partial, M, N, *steps, *strides(dsum), parts, plan.teams)
        if plan.path == "joint":
            arrived = torch.zeros(1 + tiles + plan.teams, dtype=torch.int32, device=x.device)
            kernel, arguments = wrap_triton(rmsnorm_backward_joint), (*tensors, state, arrived, *ends)
        else:
            arguments = (x, residual, weight, dout, root, state, M, N, *steps, parts)
            launch(wrap_triton(rmsnorm_backward_dots), (tiles * parts,), arguments, **read, **tile)
            kernel, arguments = wrap_triton(rmsnorm_backward_columns), (*tensors, state, *ends)
        launch(kernel, (parts * plan.teams,), arguments, **read, **flags, **all_parts, **tile)
    if dweight is not None:
        sum_partials(partial, dweight)


def launch_rmsnorm_backward(
    x: torch.Tensor,
    residual: torch.Tensor | None,
    weight: torch.Tensor | None,
    root: torch.Tensor,
    dout: torch.Tensor,
    dx: torch.Tensor,
    dweight: torch.Tensor | None,
    *,
    path: str | None = None,
    block_m: int | None = None,
    block: int | None = None,
    num_warps: int | None = None,
    teams: int | None = None,
) -> tuple[torch.Tensor, torch.Tensor | None]:
    """Write the gradients to `dx` and `dweight` and return them, as `plan_backward` says with the choices given.

    x, residual, dout: (M, N), any strides; weight and dweight: (N,); root: float32 (M,). dx: (M, N), contiguous; it may
    overlap no other. path is "block", "joint" (on a GPU only) or "split"; block_m, block (columns of a step) and
    num_warps are powers of two, at most 64, 32768 and 32; teams is at least 1. Raises TypeError, ValueError or
    RuntimeError with a sentence before any launch.
    """
    for name, tensor in (("x", x), ("residual", residual), ("weight", weight), ("root", root), ("dout", dout)):
        if tensor is not None:
            checks.require_tensor(name, tensor, ("float32",) if name == "root" else op.DTYPES)
    _require(x, residual, weight, root, dout, None)
    if x.dim() != 2:
        raise ValueError(f"x has shape {tuple(x.shape)}; expected two dimensions, (rows, columns).")
    checks.require_tensor("dx", dx)
    checks.require_same("dx", dx, "x", x)
    checks.require_contiguous("dx", dx)
    others = (("x", x), ("residual", residual), ("dout", dout), ("weight", weight), ("root", root))
    for name, tensor in others:
        if tensor is not None:
            checks.require_apart("dx", dx, name, tensor)
    if dweight is not None:
        if weight is None:
            raise ValueError("dweight is a tensor where weight is None; expected None.")
        checks.require_tensor("dweight", dweight)
        checks.require_same("dweight", dweight, "weight", weight)
        checks.require_contiguous("dweight", dweight)
        for name, tensor in (*others, ("dx", dx)):
            if tensor is not None:
                checks.require_apart("dweight", dweight, name, tensor)
    if path not in (None, *PATHS):
        raise ValueError(f'path is {path!r}; expected "block", "joint", "split" or None.')
    if path == "joint" and not x.is_cuda:
        raise ValueError(
            'path is "joint" on the CPU, where programs run one after the other and cannot wait for one another; '
            'expected path="split".'
        )
    for name, value, most in (("block_m", block_m, 64), ("block", block, 32768), ("num_warps", num_warps, 32)):
        if value is not None:
            checks.require_power_of_two(name, value, most)
    checks.require_tile(block_m, block)
    if teams is not None:
        checks.require_count("teams", teams)
    M, N = x.shape
    if x.numel() == 0:
        return dx, None if dweight is None else dweight.zero_()
    choices = (path, block_m, block, num_warps, teams, x.element_size())
    plan = plan_backward(M, N, multiprocessors(x.device), x.is_cuda, *choices)
    if plan.path == "block" and plan.block_n < N:
        raise ValueError(f'block is {plan.block_n} for rows of {N} elements; expected at least {N}, or path="split".')
    if plan.path == "joint" and plan.parts > multiprocessors(x.device):
        most = multiprocessors(x.device)
        raise ValueError(
            f'path is "joint" with rows of {plan.parts} parts on a GPU of {most} multiprocessors, where not all of '
            f'them run at once; expected at most {most} parts: a larger block, or path="split".'
        )
    _launch(x, residual, weight, root, dout, None, dx, dweight, path, block_m, block, num_warps, teams)
    return dx, dweight


def _require(x, residual, weight, root, dout, dtotal) -> None:
    checks.require_tensor("x", x, differentiable=True)
    if x.dim() == 0:
        raise ValueError("x has shape (); expected at least one dimension.")
    for name, tensor in (("residual", residual), ("dout", dout), ("dtotal", dtotal)):
        if tensor is not None or name == "dout":
            checks.require_tensor(name, tensor, differentiable=True)
            checks.require_same(name, tensor, "x", x)
    require_weight(x, weight)
    checks.require_tensor("root", root, ("float32",), differentiable=True)
    rows = math.prod(x.shape[:-1])
    if root.dim() != 1 or root.shape[0] != rows:
        raise ValueError(f"root has shape {tuple(root.shape)}; expected one number a row of x, ({rows},).")
    if root.device != x.device:
        raise ValueError(f"root is on {root.device}; expected the device of x, {x.device}.")
    checks.require_contiguous("root", root)
    checks.require_extents("x", x)
    checks.require_runnable("x", x, _rmsnorm_backward_rows)


def _empty(x: torch.Tensor, weight: torch.Tensor | None) -> tuple[torch.Tensor, torch.Tensor]:
    shape = (0,) if weight is None else weight.shape
    dx = torch.empty(x.shape, dtype=x.dtype, device=x.device)
    return dx, torch.empty(shape, dtype=x.dtype, device=x.device)


def _gradients(
    x: torch.Tensor,
    residual: torch.Tensor | None,
    weight: torch.Tensor | None,
    root: torch.Tensor,
    dout: torch.Tensor,
    dtotal: torch.Tensor | None,
) -> tuple[torch.Tensor, torch.Tensor]:
    _require(x, residual, weight, root, dout, dtotal)
    dx, dweight = _empty(x, weight)
    if x.numel() == 0:
        return dx, dweight.zero_()
    N = x.shape[-1]
    wanted = None if weight is None else dweight
    upstream = (rows_of(dout, N), rows_of(dtotal, N))
    _launch(rows_of(x, N), rows_of(residual, N), weight, root, *upstream, dx.view(-1, N), wanted)
    return dx, dweight


_rmsnorm_backward = register(
    "rmsnorm_backward", _gradients, lambda x, residual, weight, root, dout, dtotal: _empty(x, weight)
)


def rmsnorm_backward(
    x: torch.Tensor,
    residual: torch.Tensor | None,
    weight: torch.Tensor | None,
    root: torch.Tensor,
    dout: torch.Tensor,
    dtotal: torch.Tensor | None = None,
) -> tuple[torch.Tensor, torch.Tensor]:
    """dx, which is also the residual's gradient, and dweight (empty without a weight), as new contiguous tensors.

    root: what rmsnorm multiplied each row by, float32, one number a row. Raises TypeError for a wrong kind or dtype,
    ValueError for shapes or devices that differ, RuntimeError on a CPU tensor outside Triton's interpreter; each names
    the argument, and nothing has been launched.
    """
    given = (x, residual, weight, root, dout, dtotal)
    if torch.compiler.is_compiling():
        return _rmsnorm_backward(*given)
    if direct(*given):
        return _gradients(*given)
    _require(*given)
    return _rmsnorm_backward(*given)


def inputs(shape: tuple[int, ...], dtype: str, device: str, seed: int, padding: int = 3) -> tuple[torch.Tensor, ...]:
    """x, residual and weight as rmsnorm has them, the factor of each row, and an upstream gradient."""
    x, residual, weight = forward_inputs(shape, dtype, device, seed, padding)
    z = x.float() + residual.float()
    root = torch.rsqrt(z.square().mean(dim=-1) + 1e-6).reshape(-1)
    generator = torch.Generator(device).manual_seed(seed + 1)
    dout = torch.randn(shape, generator=generator, device=device).to(x.dtype)
    return x, residual, weight, root, op.with_padded_rows(dout, padding)


def tolerance(dtype: str, shape: tuple[int, ...]) -> tuple[float, float]:
    """The weight's gradient adds a term a row, of about 4 at most, and its sum may lie near zero; dx is a difference of
    terms that reach 64 times that where rows were scaled down."""
    terms = max(2, shape[-1], op.elements(shape[:-1]))
    rtol, _ = op.tolerance(dtype, terms=terms, largest_exponent=8)
    return rtol, 64 * 16 * op.ROUNDOFF["float32"] * (math.sqrt(terms) + 4)


def _library(x, residual, weight, root, dout) -> tuple[torch.Tensor, torch.Tensor]:
    """PyTorch's own, after a residual addition that is rounded wherever the dtype is not float32."""
    roots, both = root.reshape(*x.shape[:-1], 1), [True, True]
    return torch.ops.aten._fused_rms_norm_backward(dout, x + residual, x.shape[-1:], roots, weight, both)


def _eager(x, residual, weight, root, dout) -> tuple[torch.Tensor, torch.Tensor]:
    """The formulas as PyTorch calls, in float32."""
    roots = root.reshape(*x.shape[:-1], 1)
    normed, upstream = (x.float() + residual.float()) * roots, dout.float()
    scaled = upstream * weight.float()
    dx = roots * (scaled - normed * (scaled * normed).mean(dim=-1, keepdim=True))
    dweight = (upstream * normed).reshape(x.shape[:-1].numel(), x.shape[-1]).sum(dim=0)
    return dx.to(x.dtype), dweight.to(x.dtype)


OP = op.Op(
    name="rmsnorm_backward",
    reference=reference,
    implementations=(
        op.Implementation("triton", rmsnorm_backward, "triton", "kernels.ops.rmsnorm_backward:_launch", ours=True),
        op.Implementation("torch", _library, "torch", "", dtypes=("float32",)),
        op.Implementation("torch.compile", op.compiled(_eager), "torch", "kernels.ops.rmsnorm_backward:_eager"),
        op.Implementation("eager", _eager, "torch", "kernels.ops.rmsnorm_backward:_eager"),
    ),
    inputs=inputs,
    outputs=lambda x, residual, weight, root, dout: _empty(x, weight),
    # read x, the residual, the upstream gradient, the weight and a root a row; write dx and the weight's gradient
    bytes_moved=lambda shape, dtype: (
        (4 * op.elements(shape) + 2 * shape[-1]) * op.ELEMENT_BYTES[dtype] + 4 * op.elements(shape[:-1])
    ),
    flops=lambda shape: 11 * op.elements(shape),
    checks=(
        op.Case((3, 31), "ragged: one lane short of a warp"),
        op.Case((5, 1), "one column"),
        op.Case((17, 128), "narrow: several rows in a step, and one row left over"),
        op.Case((150, 33), "more tiles than programs: each walks on"),
        op.Case((6, 257), "one past a power of two: nearly half of the block is padding"),
        op.Case((2, 3, 40), "two leading dimensions"),
        op.Case((65,), "one dimension: a single row"),
        op.Case((0, 8), "no row: the weight's gradient is zero"),
        op.Case((8, 0), "no column"),
        op.Case((2, 16385), "one past the widest block: parts"),
    ),
    benches=(
        op.Case((4096, 1024), "8 MiB a tensor in bfloat16: a short run, where the partial sums show"),
        op.Case((16384, 4096), "rows of one block, far larger than the L2 cache"),
        op.Case((16384, 8192), "the same, twice as wide"),
        op.Case((4096, 32768), "rows of several parts"),
        op.Case((64, 131072), "fewer rows than the GPU has multiprocessors"),
        op.Case((131072, 128), "narrow rows, many in one program"),
    ),
    dtypes=op.DTYPES,
    tolerance=tolerance,
)
