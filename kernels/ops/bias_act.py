"""bias_act: a bias added to each row, an activation, and a factor, in one pass.

    out[m, n] = act(x[m, n] + bias[n]) * scale

Shapes    x (..., N), N from 0 up, at least one dimension; bias (N,): one number a column, and nothing else is broadcast.
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
from kernels.ops.partials import partials, sum_partials

ACTIVATIONS = ("relu", "gelu")
TILE = 4096  # elements of one program
MAX_COLUMNS = 1024  # of one program


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
    if GELU:
        out = value * tl.sigmoid(_inner(value))
    else:
        out = tl.where(value <= 0, 0.0, value)  # asked this way round, NaN stays NaN
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


def _tile(N: int, block_m: int | None, block_n: int | None) -> tuple[int, int]:
    columns = block_n or min(triton.next_power_of_2(N), MAX_COLUMNS)
    return block_m or max(1, TILE // columns), columns


def _launch(x, bias, out, activation, scale, block_m=None, block_n=None, num_warps=None):
    M, N = x.shape
    rows, columns = _tile(N, block_m, block_n)
    grid = (triton.cdiv(M, rows) * triton.cdiv(N, columns),)
    with torch.cuda.device_of(x):  # the tensor's GPU, which need not be the current one
        _bias_act[grid](
            x, bias, out, M, N, *x.stride(), bias.stride(0), scale, GELU=activation == "gelu", BLOCK_M=rows,
            BLOCK_N=columns, num_warps=num_warps or 8
        )  # fmt: skip


def _launch_backward(
    x, bias, dout, dx, dbias, activation, scale, *, programs=None, block_m=None, block_n=None, num_warps=None
):
    M, N = x.shape
    rows, columns = _tile(N, block_m, block_n or min(triton.next_power_of_2(N), 256))
    across, down = triton.cdiv(N, columns), triton.cdiv(M, rows)
    sms = torch.cuda.get_device_properties(x.device).multi_processor_count if x.device.type == "cuda" else 4
    parts = min(programs or max(1, 8 * sms // across), down)
    partial = None if dbias is None else partials(parts, N, x.device)
    with torch.cuda.device_of(x):
        _bias_act_backward[(across, parts)](
            x, bias, dout, dx, partial, M, N, *x.stride(), bias.stride(0), *dout.stride(), scale,
            GELU=activation == "gelu", KEEP_BIAS=dbias is not None, BLOCK_M=rows, BLOCK_N=columns,
            num_warps=num_warps or 8
        )  # fmt: skip
        if dbias is not None:
            sum_partials(partial, dbias)
