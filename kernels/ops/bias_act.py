"""bias_act: a bias added to each row, an activation, and a factor, in one pass.

    out[m, n] = act(x[m, n] + bias[n]) * scale

Shapes    x (..., N), N from 0 up, at least one dimension; bias (N,): one number a column; nothing else is broadcast.
Dtypes    float32, float16, bfloat16; bias and out have the dtype of x.
Strides   any row stride and any column stride of x, and any stride of bias, in elements, are read in place. Leading
          dimensions that do not merge into rows one stride apart are copied first. out is contiguous, and never x.
Limits    offsets are 64 bits wide; at most 2**31 - 2**20 columns, and as many rows.
Precision sum, activation and product in float32, then one rounding to the dtype.
Special   "relu" keeps NaN; "gelu" is the tanh approximation, and NaN for -inf as PyTorch has it. An input with no
          element gives an empty output and launches nothing.
Gradient  x and bias, by `kernels.ops.bias_act_backward`; the bias's is deterministic. The slope of "relu" at 0 is 0.
          No second derivative.
"""

import torch
import triton
import triton.language as tl

from kernels.ops import checks, op
from kernels.ops.bias_act_backward import bias_act_backward, doubled_argument, require_bias
from kernels.ops.bias_act_backward import forward_inputs as inputs
from kernels.ops.bias_act_backward import tolerance as backward_tolerance
from kernels.ops.early import begin_early, starts_early
from kernels.ops.library import direct, launch, register, wrap_triton

TILE_BYTES = 4096  # of x in one program; so many of one row too


def reference(x: torch.Tensor, bias: torch.Tensor, activation: str = "relu", scale: float = 1.0) -> torch.Tensor:
    """The formula in float64."""
    value = x.double() + bias.double()
    if activation == "relu":
        return torch.relu(value) * scale
    return torch.nn.functional.gelu(value, approximate="tanh") * scale


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
    out = value * tl.sigmoid(doubled_argument(value)) if GELU else tl.where(value <= 0, 0.0, value)
    tl.store(out_ptr + m * N + n, (out * tl.cast(scale, tl.float32)).to(out_ptr.dtype.element_ty), mask=mask)


@triton.jit
def _bias_act_early(
    x_ptr, bias_ptr, out_ptr, M, N, x_stride_m, x_stride_n, bias_stride, scale, GELU: tl.constexpr,
    BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr
):  # fmt: skip
    begin_early()
    _bias_act(x_ptr, bias_ptr, out_ptr, M, N, x_stride_m, x_stride_n, bias_stride, scale, GELU, BLOCK_M, BLOCK_N)


def _launch(x, bias, out, activation, scale, block_m=None, block_n=None, num_warps=None):
    """Rows of x (M, N) to out, a tile a program, 16 bytes of it in each thread."""
    M, N = x.shape
    elements = TILE_BYTES // x.element_size()
    columns = block_n or min(triton.next_power_of_2(N), elements)
    rows = block_m or max(1, elements // columns)
    warps = num_warps or 8
    tile = {"GELU": activation == "gelu", "BLOCK_M": rows, "BLOCK_N": columns, "num_warps": warps}
    kernel = wrap_triton(_bias_act)
    if starts_early(kernel, x.device):
        kernel, tile["launch_pdl"] = _bias_act_early, True
    grid = (triton.cdiv(M, rows) * triton.cdiv(N, columns),)
    launch(kernel, grid, (x, bias, out, M, N, *x.stride(), bias.stride(0), scale), **tile)


def _require(x: torch.Tensor, bias: torch.Tensor, activation: str) -> None:
    require_bias(x, bias, activation)
    checks.require_runnable("x", x, _bias_act)


def _forward(x: torch.Tensor, bias: torch.Tensor, activation: str, scale: float) -> torch.Tensor:
    _require(x, bias, activation)
    out = torch.empty(x.shape, dtype=x.dtype, device=x.device)
    if x.numel():
        N = x.shape[-1]
        _launch(x.reshape(-1, N), bias, out.view(-1, N), activation, scale)
    return out


def _save(ctx, inputs, output):
    x, bias, ctx.activation, ctx.scale = inputs
    ctx.save_for_backward(x, bias)


def _backward(ctx, dout):
    x, bias = ctx.saved_tensors
    dx, dbias = bias_act_backward(x, bias, dout, ctx.activation, ctx.scale)
    return dx, dbias, None, None


_registered = register(
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
    if torch.compiler.is_compiling():
        return _registered(x, bias, activation, float(scale))
    scale = checks.number("scale", scale)
    if direct(x, bias):
        return _forward(x, bias, activation, scale)
    _require(x, bias, activation)
    return _registered(x, bias, activation, scale)


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

    x: (M, N), any strides. out: (M, N), contiguous; it must not overlap x or bias. block_m, block_n and num_warps are
    powers of two; those left out are chosen. Raises TypeError, ValueError or RuntimeError with a sentence before any
    launch.
    """
    for name, tensor in (("x", x), ("bias", bias)):
        checks.require_tensor(name, tensor)
    _require(x, bias, activation)
    scale = checks.number("scale", scale)
    if x.dim() != 2:
        raise ValueError(f"x has shape {tuple(x.shape)}; expected two dimensions, (rows, columns).")
    checks.require_tensor("out", out)
    checks.require_same("out", out, "x", x)
    checks.require_contiguous("out", out)
    checks.require_apart("out", out, "x", x)
    checks.require_apart("out", out, "bias", bias)
    for name, value, most in (("block_m", block_m, 1024), ("block_n", block_n, 8192), ("num_warps", num_warps, 32)):
        if value is not None:
            checks.require_power_of_two(name, value, most)
    checks.require_tile(block_m, block_n or min(triton.next_power_of_2(x.shape[1]), TILE_BYTES // x.element_size()))
    if x.numel():
        _launch(x, bias, out, activation, scale, block_m, block_n, num_warps)
    return out


BENCHES = (
    op.Case((4096, 1024), "8 MiB in bfloat16: a short run, where the launch shows"),
    op.Case((16384, 4096), "far larger than the L2 cache"),
    op.Case((64, 131072), "few wide rows"),
    op.Case((131072, 128), "narrow rows"),
)


def _record(name: str, activation: str, scale: float, benches: tuple[op.Case, ...]) -> op.Op:
    """The record for one activation: the same kernel, another constant."""

    def ours(x, bias):
        return bias_act(x, bias, activation, scale)

    def eager(x, bias):
        value = x + bias
        value = torch.relu(value) if activation == "relu" else torch.nn.functional.gelu(value, approximate="tanh")
        return value * scale if scale != 1.0 else value

    def precise(x, bias):
        value = x.float() + bias.float()
        value = torch.relu(value) if activation == "relu" else torch.nn.functional.gelu(value, approximate="tanh")
        return (value * scale).to(x.dtype)

    operations = 3 if activation == "relu" else 12
    source = "kernels.ops.bias_act:_launch"
    return op.Op(
        name=name,
        reference=lambda x, bias: reference(x, bias, activation, scale),
        implementations=(
            op.Implementation("triton", ours, "triton", source, ours=True),
            op.Implementation("torch", eager, "torch", "", dtypes=("float32",)),
            op.Implementation("torch.compile", op.compiled(precise), "torch", ""),
            op.Implementation("eager", precise, "torch", ""),
        ),
        inputs=inputs,
        # read x and the bias once, write out once
        bytes_moved=lambda shape, dtype: (2 * op.elements(shape) + shape[-1]) * op.ELEMENT_BYTES[dtype],
        flops=lambda shape: operations * op.elements(shape),
        checks=(
            op.Case((3, 31), "ragged: one lane short of a warp"),
            op.Case((1, 1), "one number"),
            op.Case((5, 1), "one column"),
            op.Case((4, 1024), "whole tiles: no lane is masked"),
            op.Case((7, 1025), "one column past a tile"),
            op.Case((130, 33), "many short rows: several tiles down, and the last one ragged"),
            op.Case((2, 3, 40), "two leading dimensions"),
            op.Case((65,), "one dimension: a single row"),
            op.Case((0, 8), "no row"),
            op.Case((8, 0), "no column"),
        ),
        benches=benches,
        dtypes=op.DTYPES,
        launch={"activation": activation, "scale": scale},
        tolerance=lambda dtype, shape: (
            op.tolerance(dtype, terms=2, largest_exponent=24)[0],
            32 * op.ROUNDOFF["float32"],  # a sum near zero keeps the absolute error of its terms
        ),
        gradient_tolerance=backward_tolerance,
    )


OP = _record("bias_act", "relu", 0.5, BENCHES)
MORE = (_record("bias_gelu", "gelu", 1.0, BENCHES[:2]),)
