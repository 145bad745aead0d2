"""bias_act_backward: the gradients of bias_act, from its inputs and the gradient of its output.

    dx[m, n] = dout[m, n] * scale * act'(x[m, n] + bias[n])    dbias[n] = sum_m dx[m, n]

Shapes    x, dout and dx (..., N), at least one dimension; bias and dbias (N,).
Dtypes    float32, float16, bfloat16, all of one.
Strides   any of x, bias and dout, in elements, read in place: gradients often arrive with zero strides, or as part of a
          wider tensor. dx and dbias are contiguous.
Limits    offsets are 64 bits wide; at most 2**31 - 2**20 columns, and as many rows.
Precision float32, then one rounding; dbias sums what was not yet rounded, in float32: a fixed number of programs leave
          a row each, and the rows are added up in order. No atomic adds numbers: the same bits in every run.
Special   the slope of "relu" at 0 is 0, and where x + bias is NaN dx is dout * scale, as PyTorch has it; with "gelu" dx
          is NaN there. An input with no element gives zeros for dbias, and launches nothing.
Gradient  none: a second derivative is refused with a sentence.
"""

import math

import torch
import triton
import triton.language as tl

from kernels.ops import checks, op
from kernels.ops.library import direct, launch, register, wrap_triton
from kernels.ops.partials import multiprocessors, partials, sum_partials

ACTIVATIONS = ("relu", "gelu")
TILE = 4096  # elements of one step
MAX_COLUMNS = 128  # of one program, which walks down many rows
MAX_PROGRAMS = 65535  # of a launch, in its second dimension
STEPS = 4  # a program takes at least so many, or the partial sums outweigh what they are sums of


def reference(x, bias, dout, activation="relu", scale=1.0) -> tuple[torch.Tensor, torch.Tensor]:
    """dx and dbias in float64."""
    value, upstream = x.double() + bias.double(), dout.double() * scale
    if activation == "relu":
        slope = (value > 0).double()
    else:
        tanh = torch.tanh(math.sqrt(2 / math.pi) * (value + 0.044715 * value**3))
        slope = 0.5 * (1 + tanh)
        slope = slope + 0.5 * value * (1 - tanh**2) * math.sqrt(2 / math.pi) * (1 + 3 * 0.044715 * value**2)
    dx = upstream.where(value.isnan(), upstream * slope) if activation == "relu" else upstream * slope
    return dx, dx.reshape(x.shape[:-1].numel(), x.shape[-1]).sum(dim=0)


@triton.jit
def doubled_argument(value):
    """The argument of the tanh in GELU, doubled: 0.5 * (1 + tanh(u)) is the sigmoid of 2u."""
    return 1.5957691216057308 * (value + 0.044715 * value * value * value)


@triton.jit
def _bias_act_backward(
    x_ptr, bias_ptr, dout_ptr, dx_ptr, partial_ptr, M, N, x_stride_m, x_stride_n, bias_stride, dout_stride_m,
    dout_stride_n, scale, GELU: tl.constexpr, BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr
):  # fmt: skip
    # A program owns BLOCK_N columns and walks every num_programs(1)-th tile of rows down them,
    # adding up its share of the bias's gradient.
    n = tl.program_id(0).to(tl.int64) * BLOCK_N + tl.arange(0, BLOCK_N)[None, :]
    bias = tl.load(bias_ptr + n * bias_stride, mask=n < N, other=0.0).to(tl.float32)
    dbias = tl.zeros([BLOCK_M, BLOCK_N], tl.float32)
    scale = tl.cast(scale, tl.float32)  # torch.compile hands over a Python float as float64
    for tile in range(tl.program_id(1), tl.cdiv(M, BLOCK_M), tl.num_programs(1)):
        m = tl.cast(tile, tl.int64) * BLOCK_M + tl.arange(0, BLOCK_M)[:, None]
        mask = (m < M) & (n < N)
        value = tl.load(x_ptr + m * x_stride_m + n * x_stride_n, mask=mask, other=0.0).to(tl.float32) + bias
        dout = tl.load(dout_ptr + m * dout_stride_m + n * dout_stride_n, mask=mask, other=0.0).to(tl.float32) * scale
        if GELU:
            # gate is the sigmoid, and falling is gate * (1 - gate) without the subtraction: where gate
            # has been rounded to 1, or nearly, what is left of 1 - gate is mostly rounding.
            argument = doubled_argument(value)
            small = tl.exp(-tl.abs(argument))
            large = 1.0 / (1.0 + small)
            gate = tl.where(argument >= 0, large, small * large)
            falling = small * large * large
            slope = gate + value * falling * 1.5957691216057308 * (1.0 + 0.134145 * value * value)
            dx = dout * slope
        else:
            dx = tl.where(value <= 0, 0.0, dout)
        tl.store(dx_ptr + m * N + n, dx.to(dx_ptr.dtype.element_ty), mask=mask)
        dbias += dx  # 0 where it is masked off, as dout is
    total = tl.sum(dbias, axis=0, keep_dims=True)
    at = partial_ptr + tl.program_id(1).to(tl.int64) * N + n
    tl.store(at, total.to(partial_ptr.dtype.element_ty), mask=n < N)


def _launch(x, bias, dout, dx, dbias, activation, scale, programs=None, block_m=None, block_n=None, num_warps=None):
    """dx (M, N) and dbias (N,), in tiles of up to MAX_COLUMNS columns; `programs` walk down each strip of columns."""
    M, N = x.shape
    columns = block_n or min(triton.next_power_of_2(N), MAX_COLUMNS)
    few = columns == MAX_COLUMNS and isinstance(M, int) and TILE < columns * M <= 2 * TILE
    if few and x.element_size() == 4 and not (block_n or block_m):
        columns //= 2  # half as wide and twice as high, and one step takes all rows
    rows = block_m or max(1, TILE // columns)
    across = triton.cdiv(N, columns)
    parts = programs or max(1, 16 * multiprocessors(x.device) // across)
    if isinstance(M, int):  # a size that torch.compile left open does not decide the number of programs
        parts = min(parts, triton.cdiv(M, rows if programs else STEPS * rows))
    # One program down each strip: its sums are the gradient, and nothing is left to add up.
    partial = partials(parts, N, x.device) if parts != 1 else dbias
    launch(
        wrap_triton(_bias_act_backward),
        (across, parts),
        (x, bias, dout, dx, partial, M, N, *x.stride(), bias.stride(0), *dout.stride(), scale),
        GELU=activation == "gelu",
        BLOCK_M=rows,
        BLOCK_N=columns,
        num_warps=num_warps or 4,
    )
    if partial is not dbias:
        sum_partials(partial, dbias)


def launch_bias_act_backward(
    x: torch.Tensor,
    bias: torch.Tensor,
    dout: torch.Tensor,
    dx: torch.Tensor,
    dbias: torch.Tensor,
    *,
    activation: str = "relu",
    scale: float = 1.0,
    programs: int | None = None,
    block_m: int | None = None,
    block_n: int | None = None,
    num_warps: int | None = None,
) -> tuple[torch.Tensor, torch.Tensor]:
    """Write the gradients to `dx` and `dbias` and return them, in tiles of block_m rows and block_n columns.

    x, dout: (M, N), any strides; bias, dbias: (N,). dx: (M, N), contiguous; neither dx nor dbias may overlap another.
    block_m, block_n and num_warps are powers of two, programs is from 1 to 65535; those left out are chosen. Raises
    TypeError, ValueError or RuntimeError with a sentence before any launch.
    """
    for name, tensor in (("x", x), ("bias", bias), ("dout", dout)):
        checks.require_tensor(name, tensor)
    _require(x, bias, dout, activation)
    scale = checks.number("scale", scale)
    if x.dim() != 2:
        raise ValueError(f"x has shape {tuple(x.shape)}; expected two dimensions, (rows, columns).")
    for name, out, like_name, like in (("dx", dx, "x", x), ("dbias", dbias, "bias", bias)):
        checks.require_tensor(name, out)
        checks.require_same(name, out, like_name, like)
        checks.require_contiguous(name, out)
    for name, tensor in (("x", x), ("dout", dout), ("bias", bias)):
        checks.require_apart("dx", dx, name, tensor)
        checks.require_apart("dbias", dbias, name, tensor)
    checks.require_apart("dbias", dbias, "dx", dx)
    for name, value, most in (("block_m", block_m, 1024), ("block_n", block_n, 8192), ("num_warps", num_warps, 32)):
        if value is not None:
            checks.require_power_of_two(name, value, most)
    checks.require_tile(block_m, block_n)
    if programs is not None:
        checks.require_count("programs", programs, MAX_PROGRAMS)
    if x.numel() == 0:
        return dx, dbias.zero_()
    _launch(x, bias, dout, dx, dbias, activation, scale, programs, block_m, block_n, num_warps)
    return dx, dbias


def require_bias(x: torch.Tensor, bias: torch.Tensor, activation: str) -> None:
    """x is a tensor of rows, bias has one number a column of it, and the activation is one of ACTIVATIONS."""
    checks.require_tensor("x", x, differentiable=True)
    checks.require_tensor("bias", bias, differentiable=True)
    if x.dim() == 0:
        raise ValueError("x has shape (); expected at least one dimension.")
    if bias.shape != x.shape[-1:]:
        raise ValueError(f"bias has shape {tuple(bias.shape)}; expected one number a column of x, ({x.shape[-1]},).")
    checks.require_alike("bias", bias, "x", x)
    checks.require_extents("x", x)
    if activation not in ACTIVATIONS:
        raise ValueError(f"activation is {activation!r}; expected {' or '.join(map(repr, ACTIVATIONS))}.")


def _require(x: torch.Tensor, bias: torch.Tensor, dout: torch.Tensor, activation: str) -> None:
    require_bias(x, bias, activation)
    checks.require_tensor("dout", dout, differentiable=True)
    checks.require_same("dout", dout, "x", x)
    checks.require_runnable("x", x, _bias_act_backward)


def _empty(x: torch.Tensor, bias: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    return tuple(torch.empty(each.shape, dtype=x.dtype, device=x.device) for each in (x, bias))


def _gradients(
    x: torch.Tensor, bias: torch.Tensor, dout: torch.Tensor, activation: str, scale: float
) -> tuple[torch.Tensor, torch.Tensor]:
    _require(x, bias, dout, activation)
    dx, dbias = _empty(x, bias)
    if x.numel() == 0:
        return dx, dbias.zero_()
    N = x.shape[-1]
    _launch(x.reshape(-1, N), bias, dout.reshape(-1, N), dx.view(-1, N), dbias, activation, scale)
    return dx, dbias


_registered = register("bias_act_backward", _gradients, lambda x, bias, dout, activation, scale: _empty(x, bias))


def bias_act_backward(
    x: torch.Tensor, bias: torch.Tensor, dout: torch.Tensor, activation: str = "relu", scale: float = 1.0
) -> tuple[torch.Tensor, torch.Tensor]:
    """dx and dbias as new contiguous tensors; this module's contract has shapes, strides and limits.

    Raises TypeError or ValueError for arguments that do not fit, RuntimeError on a CPU tensor outside Triton's
    interpreter; each names the argument, and nothing has been launched.
    """
    if torch.compiler.is_compiling():
        return _registered(x, bias, dout, activation, float(scale))
    scale = checks.number("scale", scale)
    if direct(x, bias, dout):
        return _gradients(x, bias, dout, activation, scale)
    _require(x, bias, dout, activation)
    return _registered(x, bias, dout, activation, scale)


def forward_inputs(
    shape: tuple[int, ...], dtype: str, device: str, seed: int, padding: int = 3
) -> tuple[torch.Tensor, ...]:
    """x of `shape` with `padding` NaN behind each row, and a bias, seeded. Rows lie near -2, 0 and +2 in turn, so that
    both sides of the activation are met; a column's bias is large enough for a shifted column to show."""
    generator = torch.Generator(device).manual_seed(seed)
    values = torch.randn(shape, generator=generator, device=device)
    rows = torch.arange(op.elements(shape[:-1]), device=device)
    values += (rows % 3 - 1).mul(2.0).reshape(*shape[:-1], 1)
    bias = torch.randn(shape[-1:], generator=generator, device=device)
    as_dtype = getattr(torch, dtype)
    return op.with_padded_rows(values.to(as_dtype), padding), bias.to(as_dtype)


def inputs(shape: tuple[int, ...], dtype: str, device: str, seed: int, padding: int = 3) -> tuple[torch.Tensor, ...]:
    """x and bias as bias_act has them, and an upstream gradient."""
    x, bias = forward_inputs(shape, dtype, device, seed, padding)
    return x, bias, forward_inputs(shape, dtype, device, seed + 1, padding)[0]


def tolerance(dtype: str, shape: tuple[int, ...]) -> tuple[float, float]:
    """A sum near zero keeps the absolute error of its terms, which lie within about 16: hence the absolute part."""
    terms = max(2, op.elements(shape[:-1]))
    rtol, _ = op.tolerance(dtype, terms=terms, largest_exponent=24)
    return rtol, 16 * op.ROUNDOFF["float32"] * (math.sqrt(terms) + 4)


BENCHES = (
    op.Case((4096, 1024), "8 MiB in bfloat16: a short run, where the partial sums show"),
    op.Case((16384, 4096), "far larger than the L2 cache"),
    op.Case((64, 131072), "few wide rows"),
    op.Case((131072, 128), "narrow rows"),
)


def _record(name: str, activation: str, scale: float, benches: tuple[op.Case, ...]) -> op.Op:
    """The record for one activation: the same kernel, another constant."""

    def ours(x, bias, dout):
        return bias_act_backward(x, bias, dout, activation, scale)

    def precise(x, bias, dout):
        value, upstream = x.float() + bias.float(), dout.float() * scale
        if activation == "relu":
            dx = torch.ops.aten.threshold_backward(upstream, value, 0)
        else:
            dx = torch.ops.aten.gelu_backward(upstream, value, approximate="tanh")
        dbias = dx.reshape(x.shape[:-1].numel(), x.shape[-1]).sum(dim=0)
        return dx.to(x.dtype), dbias.to(x.dtype)

    operations = 4 if activation == "relu" else 24
    return op.Op(
        name=name,
        reference=lambda x, bias, dout: reference(x, bias, dout, activation, scale),
        implementations=(
            op.Implementation("triton", ours, "triton", "kernels.ops.bias_act_backward:_launch", ours=True),
            op.Implementation("torch", precise, "torch", ""),
            op.Implementation("torch.compile", op.compiled(precise), "torch", ""),
        ),
        inputs=inputs,
        outputs=lambda x, bias, dout: _empty(x, bias),
        # read x, the upstream gradient and the bias; write dx and the bias's gradient
        bytes_moved=lambda shape, dtype: (3 * op.elements(shape) + 2 * shape[-1]) * op.ELEMENT_BYTES[dtype],
        flops=lambda shape: operations * op.elements(shape),
        checks=(
            op.Case((3, 31), "ragged: one lane short of a warp"),
            op.Case((5, 1), "one column"),
            op.Case((7, 129), "one column past a tile"),
            op.Case((300, 33), "many short rows: several tiles down, and the last one ragged"),
            op.Case((2, 3, 40), "two leading dimensions"),
            op.Case((65,), "one dimension: a single row"),
            op.Case((0, 8), "no row: the bias's gradient is zero"),
            op.Case((8, 0), "no column"),
        ),
        benches=benches,
        dtypes=op.DTYPES,
        launch={"activation": activation, "scale": scale},
        tolerance=tolerance,
    )


OP = _record("bias_act_backward", "relu", 0.5, BENCHES)
MORE = (_record("bias_gelu_backward", "gelu", 1.0, BENCHES[:2]),)
