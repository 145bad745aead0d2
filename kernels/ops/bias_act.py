"""bias_act: a bias added to each row, an activation, and a factor, in one pass.

    out[m, n] = act(x[m, n] + bias[n]) * scale

Shapes    x (..., N), N from 0 up, at least one dimension; bias (N,): one number a column; nothing else is broadcast.
Dtypes    float32, float16, bfloat16; bias and out have the dtype of x.
Strides   any row stride and any column stride of x, and any stride of bias, in elements, are read in place. Leading
          dimensions that do not merge into rows one stride apart are copied first. out is contiguous, and never x.
Limits    offsets are 64 bits wide.
Precision sum, activation and product in float32, then one rounding to the dtype.
Special   "relu" keeps NaN; "gelu" is the tanh approximation, and NaN for -inf as PyTorch has it. An input with no
          element gives an empty output and launches nothing.
Gradient  x and bias; the bias's is deterministic. The slope of "relu" at 0 is 0. There is no second derivative.
"""

import math

import torch
import triton
import triton.language as tl

from kernels.ops import checks, op
from kernels.ops.library import direct, launch, register, wrap_triton
from kernels.ops.partials import multiprocessors, partials, sum_partials

ACTIVATIONS = ("relu", "gelu")
TILE = 4096  # elements of one program
MAX_COLUMNS = 1024  # of one program
MAX_BACKWARD_COLUMNS = 256  # of one program, which walks down many rows


def reference(x: torch.Tensor, bias: torch.Tensor, activation: str = "relu", scale: float = 1.0) -> torch.Tensor:
    """The formula in float64."""
    value = x.double() + bias.double()
    if activation == "relu":
        return torch.relu(value) * scale
    return torch.nn.functional.gelu(value, approximate="tanh") * scale


@triton.jit
def _inner(value):
    """The argument of the tanh in GELU, doubled: 0.5 * (1 + tanh(u)) is the sigmoid of 2u."""
    return 1.5957691216057308 * (value + 0.044715 * value * value * value)


@triton.jit
def _bias_act(
    x_ptr, bias_ptr, out_ptr, M, N, x_stride_m, x_stride_n, bias_stride, scale, GELU: tl.constexpr,
    BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr
):  # fmt: skip
    # One program owns a tile. The tiles of one row stand side by side along axis 0.
    tiles = tl.cdiv(N, BLOCK_N)
    m = (tl.program_id(0) // tiles).to(tl.int64) * BLOCK_M + tl.arange(0, BLOCK_M)[:, None]
    n = (tl.program_id(0) % tiles).to(tl.int64) * BLOCK_N + tl.arange(0, BLOCK_N)[None, :]
    mask = (m < M) & (n < N)
    value = tl.load(x_ptr + m * x_stride_m + n * x_stride_n, mask=mask, other=0.0).to(tl.float32)
    value += tl.load(bias_ptr + n * bias_stride, mask=n < N, other=0.0).to(tl.float32)
    # Asked this way round, NaN stays NaN in the second one.
    out = value * tl.sigmoid(_inner(value)) if GELU else tl.where(value <= 0, 0.0, value)
    tl.store(out_ptr + m * N + n, (out * scale).to(out_ptr.dtype.element_ty), mask=mask)


@triton.jit
def _bias_act_backward(
    x_ptr, bias_ptr, dout_ptr, dx_ptr, partial_ptr, M, N, x_stride_m, x_stride_n, bias_stride, dout_stride_m,
    dout_stride_n, scale, GELU: tl.constexpr, KEEP_BIAS: tl.constexpr, BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr
):  # fmt: skip
    # A program owns BLOCK_N columns and walks every num_programs(1)-th tile of rows down them,
    # adding up its share of the bias's gradient.
    n = tl.program_id(0).to(tl.int64) * BLOCK_N + tl.arange(0, BLOCK_N)[None, :]
    bias = tl.load(bias_ptr + n * bias_stride, mask=n < N, other=0.0).to(tl.float32)
    dbias = tl.zeros([BLOCK_M, BLOCK_N], tl.float32)
    for tile in range(tl.program_id(1), tl.cdiv(M, BLOCK_M), tl.num_programs(1)):
        m = tl.cast(tile, tl.int64) * BLOCK_M + tl.arange(0, BLOCK_M)[:, None]
        mask = (m < M) & (n < N)
        value = tl.load(x_ptr + m * x_stride_m + n * x_stride_n, mask=mask, other=0.0).to(tl.float32) + bias
        dout = tl.load(dout_ptr + m * dout_stride_m + n * dout_stride_n, mask=mask, other=0.0).to(tl.float32) * scale
        if GELU:
            gate = tl.sigmoid(_inner(value))
            slope = gate + value * gate * (1.0 - gate) * 1.5957691216057308 * (1.0 + 0.134145 * value * value)
            dx = dout * slope
        else:
            dx = tl.where(value <= 0, 0.0, dout)
        tl.store(dx_ptr + m * N + n, dx.to(dx_ptr.dtype.element_ty), mask=mask)
        if KEEP_BIAS:
            dbias += tl.where(mask, dx, 0.0)
    if KEEP_BIAS:
        total = tl.sum(dbias, axis=0, keep_dims=True)
        tl.store(partial_ptr + tl.program_id(1).to(tl.int64) * N + n, total, mask=n < N)


def _tile(N: int, columns: int, block_m: int | None, block_n: int | None) -> tuple[int, int]:
    columns = block_n or min(triton.next_power_of_2(N), columns)
    return block_m or max(1, TILE // columns), columns


def _launch(x, bias, out, activation, scale, block_m=None, block_n=None, num_warps=None):
    M, N = x.shape
    rows, columns = _tile(N, MAX_COLUMNS, block_m, block_n)
    launch(
        wrap_triton(_bias_act),
        (triton.cdiv(M, rows) * triton.cdiv(N, columns),),
        (x, bias, out, M, N, *x.stride(), bias.stride(0), scale),
        GELU=activation == "gelu",
        BLOCK_M=rows,
        BLOCK_N=columns,
        num_warps=num_warps or 8,
    )


def _launch_backward(
    x, bias, dout, dx, dbias, activation, scale, *, programs=None, block_m=None, block_n=None, num_warps=None
):
    M, N = x.shape
    rows, columns = _tile(N, MAX_BACKWARD_COLUMNS, block_m, block_n)
    across = triton.cdiv(N, columns)
    parts = programs or max(1, 8 * multiprocessors(x.device) // across)
    if isinstance(M, int):  # a size that torch.compile left open does not decide the number of programs
        parts = min(parts, triton.cdiv(M, rows))
    partial = None if dbias is None else partials(parts, N, x.device)
    launch(
        wrap_triton(_bias_act_backward),
        (across, parts),
        (x, bias, dout, dx, partial, M, N, *x.stride(), bias.stride(0), *dout.stride(), scale),
        GELU=activation == "gelu",
        KEEP_BIAS=dbias is not None,
        BLOCK_M=rows,
        BLOCK_N=columns,
        num_warps=num_warps or 8,
    )
    if dbias is not None:
        sum_partials(partial, dbias)


def _require(x: torch.Tensor, bias: torch.Tensor, activation: str) -> None:
    checks.require_tensor("x", x, differentiable=True)
    checks.require_tensor("bias", bias, differentiable=True)
    if x.dim() == 0:
        raise ValueError("x has shape (); expected at least one dimension.")
    if bias.shape != x.shape[-1:]:
        raise ValueError(f"bias has shape {tuple(bias.shape)}; expected one number a column of x, ({x.shape[-1]},).")
    checks.require_alike("bias", bias, "x", x)
    if activation not in ACTIVATIONS:
        raise ValueError(f"activation is {activation!r}; expected {' or '.join(map(repr, ACTIVATIONS))}.")
    checks.require_runnable("x", x, _bias_act)


def _forward(x: torch.Tensor, bias: torch.Tensor, activation: str, scale: float) -> torch.Tensor:
    _require(x, bias, activation)
    out = torch.empty(x.shape, dtype=x.dtype, device=x.device)
    if x.numel():
        N = x.shape[-1]
        _launch(x.reshape(-1, N), bias, out.view(-1, N), activation, scale)
    return out


def _gradients(
    x: torch.Tensor, bias: torch.Tensor, dout: torch.Tensor, activation: str, scale: float
) -> tuple[torch.Tensor, torch.Tensor]:
    dx = torch.empty(x.shape, dtype=x.dtype, device=x.device)
    dbias = torch.empty(bias.shape, dtype=bias.dtype, device=bias.device)
    if x.numel() == 0:
        return dx, dbias.zero_()
    N = x.shape[-1]
    _launch_backward(x.reshape(-1, N), bias, dout.reshape(-1, N), dx.view(-1, N), dbias, activation, scale)
    return dx, dbias


_bias_act_backward_op = register(
    "bias_act_backward",
    _gradients,
    lambda x, bias, dout, activation, scale: (
        torch.empty(x.shape, dtype=x.dtype, device=x.device),
        torch.empty(bias.shape, dtype=bias.dtype, device=bias.device),
    ),
)


def _save(ctx, inputs, output):
    x, bias, ctx.activation, ctx.scale = inputs
    ctx.save_for_backward(x, bias)


def _backward(ctx, dout):
    x, bias = ctx.saved_tensors
    dx, dbias = _bias_act_backward_op(x, bias, dout, ctx.activation, ctx.scale)
    return dx, dbias, None, None


_bias_act_op = register(
    "bias_act",
    _forward,
    lambda x, bias, activation, scale: torch.empty(x.shape, dtype=x.dtype, device=x.device),
    save=_save,
    backward=_backward,
)


def bias_act(x: torch.Tensor, bias: torch.Tensor, activation: str = "relu", scale: float = 1.0) -> torch.Tensor:
    """act(x + bias) * scale as a new contiguous tensor; this module's contract has shapes, strides and limits.

    activation: "relu", or "gelu" in the tanh approximation of Hendrycks and Gimpel, "Gaussian Error Linear Units",
    2016. Raises TypeError or ValueError for arguments that do not fit, RuntimeError on a CPU tensor outside Triton's
    interpreter; each names the argument, and nothing has been launched.
    """
    if not torch.compiler.is_compiling() and direct(x, bias):
        return _forward(x, bias, activation, scale)
    return _bias_act_op(x, bias, activation, float(scale))


def launch_bias_act(
    x: torch.Tensor,
    bias: torch.Tensor,
    out: torch.Tensor,
    *,
    activation: str = "relu",
    scale: float = 1.0,
    block_m: int | None = None,
    block_n: int | None = None,
    num_warps: int | None = None,
) -> torch.Tensor:
    """Write act(x + bias) * scale to `out` and return it, in tiles of block_m rows and block_n columns.

    x: (M, N), any strides. out: (M, N), contiguous; it must not overlap x. block_m, block_n and num_warps are powers of
    two; those left out are chosen. Raises TypeError, ValueError or RuntimeError with a sentence before any launch.
    """
    _require(x, bias, activation)
    if x.dim() != 2:
        raise ValueError(f"x has shape {tuple(x.shape)}; expected two dimensions, (rows, columns).")
    checks.require_tensor("out", out)
    checks.require_same("out", out, "x", x)
    checks.require_contiguous("out", out)
    checks.require_apart("out", out, "x", x)
    for name, value, most in (("block_m", block_m, 1024), ("block_n", block_n, 8192), ("num_warps", num_warps, 32)):
        if value is not None:
            checks.require_power_of_two(name, value, most)
    if x.numel():
        _launch(x, bias, out, activation, scale, block_m, block_n, num_warps)
    return out


def inputs(shape: tuple[int, ...], dtype: str, device: str, seed: int, padding: int = 3) -> tuple[torch.Tensor, ...]:
    """x of `shape` with `padding` NaN behind each row, and a bias, seeded. Rows lie near -2, 0 and +2 in turn, so that
    both sides of the activation are met; a column's bias is large enough for a shifted column to show."""
    generator = torch.Generator(device).manual_seed(seed)
    values = torch.randn(shape, generator=generator, device=device)
    rows = torch.arange(op.elements(shape[:-1]), device=device)
    values += (rows % 3 - 1).mul(2.0).reshape(*shape[:-1], 1)
    bias = torch.randn(shape[-1:], generator=generator, device=device)
    as_dtype = getattr(torch, dtype)
    return op.with_padded_rows(values.to(as_dtype), padding), bias.to(as_dtype)


def gradient_inputs(shape: tuple[int, ...], dtype: str, device: str, seed: int, padding: int = 3):
    """x, bias and an upstream gradient."""
    x, bias = inputs(shape, dtype, device, seed, padding)
    (dout, _) = inputs(shape, dtype, device, seed + 1, padding)
    return x, bias, dout


def _record(name: str, activation: str, scale: float) -> op.Op:
    """The record for one activation: the same kernel, another constant."""

    def ours(x, bias):
        return bias_act(x, bias, activation, scale)

    def eager(x, bias):
        value = x + bias
        value = torch.relu(value) if activation == "relu" else torch.nn.functional.gelu(value, approximate="tanh")
        return value * scale if scale != 1.0 else value

    def both(x, bias, dout):
        return _bias_act_backward_op(x, bias, dout, activation, scale)

    def exact(x, bias, dout):
        x, bias = x.double().requires_grad_(), bias.double().requires_grad_()
        return torch.autograd.grad(reference(x, bias, activation, scale), (x, bias), dout.double())

    def by_torch(x, bias, dout):
        x, bias = x.detach().requires_grad_(), bias.detach().requires_grad_()
        with torch.enable_grad():
            return torch.autograd.grad(eager(x, bias), (x, bias), dout)

    operations = 3 if activation == "relu" else 12
    source = "kernels.ops.bias_act:_launch"
    return op.Op(
        name=name,
        reference=lambda x, bias: reference(x, bias, activation, scale),
        implementations=(
            op.Implementation("triton", ours, "triton", source, ours=True),
            op.Implementation("eager", eager, "torch", ""),
            op.Implementation("torch.compile", op.compiled(eager), "torch", ""),
        ),
        inputs=inputs,
        # read x and the bias once, write out once
        bytes_moved=lambda shape, dtype: (2 * op.elements(shape) + shape[-1]) * op.ELEMENT_BYTES[dtype],
        flops=lambda shape: operations * op.elements(shape),
        checks=CHECKS,
        benches=BENCHES,
        dtypes=op.DTYPES,
        tolerance=lambda dtype, shape: _tolerance(dtype, 1),
        gradient_tolerance=lambda dtype, shape: _tolerance(dtype, max(1, op.elements(shape[:-1]))),
        backward=op.Op(
            name=f"{name}_backward",
            reference=exact,
            implementations=(
                op.Implementation("triton", both, "triton", "kernels.ops.bias_act:_launch_backward", ours=True),
                op.Implementation("eager", by_torch, "torch", ""),
            ),
            inputs=gradient_inputs,
            bytes_moved=lambda shape, dtype: (3 * op.elements(shape) + 2 * shape[-1]) * op.ELEMENT_BYTES[dtype],
            flops=lambda shape: 2 * operations * op.elements(shape),
            checks=CHECKS,
            benches=BENCHES,
            dtypes=op.DTYPES,
            tolerance=lambda dtype, shape: _tolerance(dtype, max(1, op.elements(shape[:-1]))),
        ),
    )


def _tolerance(dtype: str, terms: int) -> tuple[float, float]:
    """A sum near zero keeps the absolute error of its terms, which lie within about 16: hence the absolute part."""
    rtol, _ = op.tolerance(dtype, terms=max(terms, 2), largest_exponent=8)
    return rtol, 16 * op.ROUNDOFF["float32"] * (math.sqrt(terms) + 4)


CHECKS = (
    op.Case((3, 31), "ragged: one lane short of a warp"),
    op.Case((1, 1), "one number"),
    op.Case((5, 1), "one column"),
    op.Case((4, 1024), "whole tiles: no lane is masked"),
    op.Case((7, 1025), "one column past a tile"),
    op.Case((130, 33), "many short rows: several tiles down, and the last one ragged"),
    op.Case((2, 3, 40), "two leading dimensions"),
    op.Case((65,), "one dimension: a single row"),
    op.Case((0, 8), "no row: the bias's gradient is zero"),
    op.Case((8, 0), "no column"),
)
BENCHES = (
    op.Case((4096, 1024), "8 MiB in bfloat16: a short run, where the launch shows"),
    op.Case((16384, 4096), "far larger than the L2 cache"),
)

OP = _record("bias_act", "relu", 0.5)
GELU = _record("bias_gelu", "gelu", 1.0)
