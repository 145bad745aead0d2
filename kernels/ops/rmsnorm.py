"""rmsnorm: each row divided by its root mean square, after an optional residual is added.

    z[m, n] = float32(x[m, n]) + float32(residual[m, n])    (z = float32(x) without a residual)
    out[m, n] = z[m, n] * rsqrt(mean_n z[m, n]**2 + eps) * float32(weight[n])

Shapes    x and residual (..., N), N from 0 up, at least one dimension; weight (N,), or None for no scale. out has the
          shape of x.
Dtypes    float32, float16, bfloat16; x, residual, weight and out share one.
Strides   any row stride and any column stride of x and residual, and any stride of weight, in elements, are read in
          place. Leading dimensions that do not merge into rows one stride apart are copied first. out is contiguous.
Limits    offsets are 64 bits wide; at most 2**31 - 1 programs a launch. How rows are shared out among programs is said
          in `kernels.ops.row_plan`, and what is different here in
          `kernels.ops.rmsnorm_plan`.
Precision every intermediate is float32: the sum with the residual is *not* rounded to the dtype, nor are mean, root and
          product. One rounding at the end. No mean is subtracted: this is not LayerNorm.
Special   a row of zeros gives zeros while eps > 0, and NaN with eps = 0 (0 times infinity). A row that holds NaN or an
          infinity has NaN in it. An input with no element gives an empty output and launches nothing.
Gradient  x, residual and weight, by `kernels.ops.rmsnorm_backward`; the weight's is deterministic. There is no second
          derivative.
"""

import math

import torch
import triton

from kernels.ops import checks, op
from kernels.ops.early import starts_early
from kernels.ops.joint import zeroed_words
from kernels.ops.library import direct, launch, register, wrap_triton
from kernels.ops.rmsnorm_backward import rmsnorm_backward
from kernels.ops.rmsnorm_backward import tolerance as backward_tolerance
from kernels.ops.rmsnorm_kernels import (
    _rmsnorm_finish,
    _rmsnorm_joint,
    _rmsnorm_parts,
    _rmsnorm_rows,
    _rmsnorm_rows_early,
    _rmsnorm_words,
)
from kernels.ops.rmsnorm_plan import JOINT_PART, PATHS, plan_rmsnorm
from kernels.ops.rmsnorm_shared import forward_inputs as inputs
from kernels.ops.rmsnorm_shared import require_weight, rows_of, strides
from kernels.ops.row_plan import require_choice

EPS = 1e-6


def reference(
    x: torch.Tensor, residual: torch.Tensor | None, weight: torch.Tensor | None, eps: float = EPS
) -> torch.Tensor:
    """The formula in float64. The sum with the residual is exact, as float32 has it but for its last bits."""
    z = x.double() if residual is None else x.double() + residual.double()
    out = z * torch.rsqrt(z.square().mean(dim=-1, keepdim=True) + eps)
    return out if weight is None else out * weight.double()


def _launch(x, residual, weight, out, eps, total=None, root=None, path=None, block=None, num_warps=None):
    """Rows of x (M, N) to out; `total` takes x + residual rounded to the dtype, `root` the factor of every row."""
    M, N = x.shape
    plan = plan_rmsnorm(x, path, block, num_warps)
    read = {"HAS_RESIDUAL": residual is not None}
    flags = {"HAS_WEIGHT": weight is not None, "KEEP_SUM": total is not None, "KEEP_ROOT": root is not None}
    tile = {"BLOCK_M": plan.block_m, "BLOCK_N": plan.block_n, "num_warps": plan.num_warps}
    steps = (*strides(x), *strides(residual), 0 if weight is None else weight.stride(0))
    tensors = (x, residual, weight, out, total, root)
    groups, parts = triton.cdiv(M, plan.block_m), plan.parts
    if plan.path == "block":
        arguments = (*tensors, M, N, *steps, eps)
        kernel = wrap_triton(_rmsnorm_rows)
        if starts_early(kernel, x.device):
            kernel, tile["launch_pdl"] = _rmsnorm_rows_early, True
        launch(kernel, (groups,), arguments, **read, **flags, **tile)
        return
    grid, all_parts = (groups * parts,), {"ALL_PARTS": triton.next_power_of_2(parts)}
    if plan.path == "joint" and plan.block_m == 1 and starts_early(wrap_triton(_rmsnorm_words), x.device):
        arguments = (*tensors, zeroed_words(M * parts, x.device), N, *steps, eps, parts)
        options = {"num_warps": plan.num_warps, "launch_pdl": True}
        two_bytes = x.element_size() == 2
        if two_bytes and plan.block_n == JOINT_PART:
            options["maxnreg"] = 64  # four programs a multiprocessor; it would take 70, and three
        # Two bytes: rows pass quickly, and looking is then a larger share of the time.
        launch(wrap_triton(_rmsnorm_words), grid, arguments, **read, **flags, ONE_WARP=two_bytes, **all_parts,
               BLOCK_N=plan.block_n, **options)  # fmt: skip
        return
    state = torch.empty((M, parts), dtype=torch.float32, device=x.device)
    if plan.path == "joint":
        meeting = torch.zeros(1 + groups, dtype=torch.int32, device=x.device)
        arguments = (*tensors, state, meeting, M, N, *steps, eps, parts)
        launch(wrap_triton(_rmsnorm_joint), grid, arguments, **read, **flags, **all_parts, **tile)
        return
    part_n = triton.cdiv(triton.cdiv(N, parts), plan.block_n) * plan.block_n
    arguments = (x, residual, state, M, N, *steps[:4], parts, part_n)
    launch(wrap_triton(_rmsnorm_parts), grid, arguments, **read, **tile)
    arguments = (*tensors, state, M, N, *steps, eps, parts, part_n)
    launch(wrap_triton(_rmsnorm_finish), grid, arguments, **read, **flags, **all_parts, **tile)


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
    "block", "joint" or "split" (see `kernels.ops.row_plan`); block and num_warps are powers of two, at most 32768 and
    32. A single block is at least N columns wide; joint parts are at most as many as multiprocessors, and run on a GPU
    only. Raises TypeError, ValueError or RuntimeError with a sentence before any launch.
    """
    for name, tensor in (("x", x), ("residual", residual), ("weight", weight)):
        if tensor is not None:
            checks.require_tensor(name, tensor)
    _require(x, residual, weight)
    eps = checks.number("eps", eps)
    if x.dim() != 2:
        raise ValueError(f"x has shape {tuple(x.shape)}; expected two dimensions, (rows, columns).")
    checks.require_tensor("out", out)
    checks.require_same("out", out, "x", x)
    checks.require_contiguous("out", out)
    for name, tensor in (("x", x), ("residual", residual), ("weight", weight)):
        if tensor is not None:
            checks.require_apart("out", out, name, tensor)
    require_choice(x, path, block, num_warps, PATHS)
    if x.numel():
        _launch(x, residual, weight, out, eps, None, None, path, block, num_warps)
    return out


def _require(x: torch.Tensor, residual: torch.Tensor | None, weight: torch.Tensor | None) -> None:
    checks.require_tensor("x", x, differentiable=True)
    if x.dim() == 0:
        raise ValueError("x has shape (); expected at least one dimension.")
    if residual is not None:
        checks.require_tensor("residual", residual, differentiable=True)
        checks.require_same("residual", residual, "x", x)
    require_weight(x, weight)
    checks.require_runnable("x", x, _rmsnorm_rows)


def _empty(x: torch.Tensor) -> torch.Tensor:
    return torch.empty(x.shape, dtype=x.dtype, device=x.device)


def _roots(x: torch.Tensor) -> torch.Tensor:
    return torch.empty((math.prod(x.shape[:-1]),), dtype=torch.float32, device=x.device)


def _forward(x, residual, weight, eps, total=None, root=None) -> torch.Tensor:
    _require(x, residual, weight)
    out = _empty(x)
    if x.numel():
        N = x.shape[-1]
        _launch(rows_of(x, N), rows_of(residual, N), weight, out.view(-1, N), eps, rows_of(total, N), root)
    elif root is not None:
        root.fill_(
            eps**-0.5 if eps > 0 else math.inf if eps == 0 else math.nan
        )  # rows without a column: their mean is taken for 0
    return out


def _kept(
    x: torch.Tensor, residual: torch.Tensor | None, weight: torch.Tensor | None, eps: float
) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """out, the sum rounded to the dtype, and the factor of each row in float32."""
    total, root = _empty(x), _roots(x)
    return _forward(x, residual, weight, eps, total, root), total, root


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
        dx, dweight = rmsnorm_backward(x, residual, weight, root, dout, dtotal)
    return dx, None if residual is None else dx, None if weight is None else dweight, None


_rmsnorm = register(
    "rmsnorm",
    _kept,
    lambda x, residual, weight, eps: (_empty(x), _empty(x), _roots(x)),
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
    if torch.compiler.is_compiling():
        return _rmsnorm(x, residual, weight, eps)[0]
    eps = checks.number("eps", eps)
    if direct(x, residual, weight):
        return _forward(x, residual, weight, eps)
    _require(x, residual, weight)
    return _rmsnorm(x, residual, weight, eps)[0]


def add_rmsnorm(
    x: torch.Tensor, residual: torch.Tensor, weight: torch.Tensor | None = None, eps: float = EPS
) -> tuple[torch.Tensor, torch.Tensor]:
    """`rmsnorm(x, residual, weight)`, and x + residual rounded to the dtype: what the next layer adds to.

    The normalised rows come from the sum before it is rounded, and so do the gradients.
    """
    if torch.compiler.is_compiling():
        return _rmsnorm(x, residual, weight, eps)[:2]
    eps = checks.number("eps", eps)
    if direct(x, residual, weight):
        total = _empty(x)
        return _forward(x, residual, weight, eps, total), total
    _require(x, residual, weight)
    return _rmsnorm(x, residual, weight, eps)[:2]


def _eager(x: torch.Tensor, residual: torch.Tensor, weight: torch.Tensor) -> torch.Tensor:
    """The contract as PyTorch calls: each writes a float32 tensor to memory and the next one reads it back."""
    z = x.float() + residual.float()
    return (z * torch.rsqrt(z.square().mean(dim=-1, keepdim=True) + EPS) * weight.float()).to(x.dtype)


def _library(x: torch.Tensor, residual: torch.Tensor, weight: torch.Tensor) -> torch.Tensor:
    """PyTorch's own, after a residual addition that is rounded: another contract wherever the dtype is not float32."""
    return torch.nn.functional.rms_norm(x + residual, x.shape[-1:], weight, EPS)


def _liger(x: torch.Tensor, residual: torch.Tensor, weight: torch.Tensor) -> torch.Tensor:
    """Liger's fused kernel, which rounds the sum too, and returns it as well."""
    from liger_kernel.ops.fused_add_rms_norm import LigerFusedAddRMSNormFunction

    return LigerFusedAddRMSNormFunction.apply(x, residual, weight, EPS, 0.0, "llama", False)[0]


OP = op.Op(
    name="rmsnorm",
    reference=reference,
    implementations=(
        op.Implementation("triton", rmsnorm, "triton", "kernels.ops.rmsnorm:_launch", ours=True),
        op.Implementation("torch", _library, "torch", "", dtypes=("float32",)),
        op.Implementation("torch.compile", op.compiled(_eager), "torch", "kernels.ops.rmsnorm:_eager"),
        op.Implementation("liger", _liger, "liger_kernel", "", dtypes=("float32",)),
        op.Implementation("eager", _eager, "torch", "kernels.ops.rmsnorm:_eager"),
    ),
    inputs=inputs,
    # read x, the residual and the weight once, write out once
    bytes_moved=lambda shape, dtype: (3 * op.elements(shape) + shape[-1]) * op.ELEMENT_BYTES[dtype],
    flops=lambda shape: 5 * op.elements(shape),  # sum, square, its sum, two products
    checks=(
        op.Case((3, 31), "ragged: one lane short of a warp"),
        op.Case((5, 1), "one column: the root is its magnitude"),
        op.Case((1, 33), "one row, one lane past a warp"),
        op.Case((17, 128), "narrow: several rows in a program, and one row left over"),
        op.Case((6, 257), "one past a power of two: nearly half of the block is padding"),
        op.Case((2, 3, 40), "two leading dimensions"),
        op.Case((65,), "one dimension: a single row"),
        op.Case((0, 8), "no row"),
        op.Case((8, 0), "no column"),
        op.Case((2, 4097), "pads to 8192"),
        op.Case((1, 32769), "one past the widest block: parts"),
    ),
    benches=(
        op.Case((4096, 1024), "8 MiB a tensor in bfloat16: a short run, where the launch shows"),
        op.Case((16384, 4096), "rows of one block, far larger than the L2 cache"),
        op.Case((16384, 8192), "the same, twice as wide"),
        op.Case((4096, 32768), "the widest block"),
        op.Case((64, 131072), "fewer rows than the GPU has multiprocessors"),
    ),
    dtypes=op.DTYPES,
    tolerance=lambda dtype, shape: op.tolerance(dtype, terms=max(shape[-1], 2), largest_exponent=8),
    gradient_tolerance=backward_tolerance,
)
