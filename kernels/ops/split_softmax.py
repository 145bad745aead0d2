"""split_softmax: softmax of rows that are each cut into a number of splits, so that few wide rows fill a GPU.

    in every split s:   m_s = max x      l_s = sum exp(x - m_s)                     the state of a split
    merged:             m = max_s m_s    l = sum_s l_s * exp(m_s - m)               the state of the row
    in every split:     out = exp(x - m) / l

Shapes    (..., N), N from 0 up, at least one dimension; rows run along the last dimension.
Splits    from 1 to MAX_SPLITS, of as many columns each as a whole number of tiles; the last ones may own nothing.
          Without a number, as many as give a GPU PROGRAMS programs for each multiprocessor.
Dtypes    float32, float16, bfloat16; out has the dtype of x.
Strides   any row stride and any column stride are read in place. Leading dimensions that do not merge into rows one
          stride apart are copied first. out is always contiguous, and never x.
Limits    offsets are 64 bits wide; at most 2**31 - 1 programs a launch.
Precision states and weights in float32, then one rounding to the dtype. The states of a row are merged in the same
          order by every program, so the same number of splits gives the same bits; another number, other last bits.
Special   A split that holds nothing but -inf has the state (-inf, 0), which changes no other. A row that is all -inf,
          or that holds +inf or NaN, is NaN in every column, as torch.softmax has it. An empty input launches nothing.
Gradient  recorded, from the weights: dx = y * (dy - sum_n y * dy). No second derivative.

Two launches: one leaves the states in memory, one merges them and writes. The kernels are those of softmax's path
"split" (`kernels.ops.softmax_parts`); this operator lets the caller say how many splits, and hands out the states.
"""

import math

import torch
import triton

from kernels.ops import checks, op, softmax
from kernels.ops.library import direct, launch, register, wrap_triton
from kernels.ops.row_plan import INTERPRETER_SM_COUNT
from kernels.ops.softmax_backward import softmax_backward
from kernels.ops.softmax_parts import _softmax_finish, _softmax_parts

MAX_SPLITS = 4096
TILE = 4096  # columns that a program takes at a time, in 8 warps
PROGRAMS = 16  # for each multiprocessor

reference = softmax.reference
inputs = softmax.inputs


def plan_splits(M: int, N: int, sm_count: int, splits: int | None = None) -> tuple[int, int, int]:
    """(splits, columns of each, columns of a tile) for M rows of N elements, neither of them 0."""
    if splits is None:
        splits = min(triton.cdiv(PROGRAMS * sm_count, M), triton.cdiv(N, TILE), MAX_SPLITS)
    tile = min(triton.next_power_of_2(triton.cdiv(N, splits)), TILE)
    return splits, triton.cdiv(triton.cdiv(N, splits), tile) * tile, tile


def _plan(rows: torch.Tensor, splits: int | None) -> tuple[int, int, dict]:
    sm_count = INTERPRETER_SM_COUNT
    if rows.is_cuda:
        sm_count = torch.cuda.get_device_properties(rows.device).multi_processor_count
    splits, columns, tile = plan_splits(*rows.shape, sm_count, splits)
    return splits, columns, {"BLOCK_M": 1, "BLOCK_N": tile, "num_warps": max(1, min(8, tile // 128))}


def _launch_states(x, state, splits, columns, tile) -> None:
    M, N = x.shape
    launch(wrap_triton(_softmax_parts), (M * splits,), (x, state, M, N, *x.stride(), splits, columns), **tile)


def _launch(x, out, splits=None) -> None:
    M, N = x.shape
    splits, columns, tile = _plan(x, splits)
    state = torch.empty((2, M, splits), dtype=torch.float32, device=x.device)
    _launch_states(x, state, splits, columns, tile)
    arguments = (x, out, state, M, N, *x.stride(), out.stride(0), splits, columns)
    all_splits = triton.next_power_of_2(splits)
    launch(wrap_triton(_softmax_finish), (M * splits,), arguments, ALL_PARTS=all_splits, **tile)


def launch_split_softmax(x: torch.Tensor, out: torch.Tensor, *, splits: int | None = None) -> torch.Tensor:
    """Write the softmax of each row of x to out and return it.

    x: (M, N), any strides. out: (M, N), any row stride, column stride 1; it must not overlap x. Raises TypeError,
    ValueError or RuntimeError with a sentence before any launch.
    """
    for name, tensor in (("x", x), ("out", out)):
        checks.require_tensor(name, tensor)
        if tensor.dim() != 2:
            raise ValueError(f"{name} has shape {tuple(tensor.shape)}; expected two dimensions, (rows, columns).")
    checks.require_same("out", out, "x", x)
    _require(x, splits)
    if out.stride(1) != 1 and x.shape[1] > 1:
        raise ValueError(f"out has strides {out.stride()}; expected a column stride of 1.")
    checks.require_own_rows("out", out)
    checks.require_apart("out", out, "x", x)
    if x.numel():
        _launch(x, out, splits)
    return out


def _require(x: torch.Tensor, splits: int | None) -> None:
    checks.require_tensor("x", x, differentiable=True)
    if x.dim() == 0:
        raise ValueError("x has shape (); expected at least one dimension.")
    whole = isinstance(splits, int) and not isinstance(splits, bool)
    if splits is not None and not (whole and 1 <= splits <= MAX_SPLITS):
        raise ValueError(f"splits is {splits!r}; expected None or a whole number from 1 to {MAX_SPLITS}.")
    if x.numel():  # left alone, splits are few where rows are many
        checks.require_programs("x", x, math.prod(x.shape[:-1]) * (splits or 1))
    checks.require_runnable("x", x, _softmax_parts)


def _forward(x: torch.Tensor, splits: int | None) -> torch.Tensor:
    splits = checks.settled(splits)
    _require(x, splits)
    out = torch.empty(x.shape, dtype=x.dtype, device=x.device)
    if x.numel():
        _launch(x.reshape(-1, x.shape[-1]), out.view(-1, x.shape[-1]), splits)
    return out


def _save(ctx, inputs, output):
    ctx.save_for_backward(output)


def _backward(ctx, gradient):
    return softmax_backward(*ctx.saved_tensors, gradient), None


_split_softmax = register(
    "split_softmax", _forward, lambda x, splits: x.new_empty(x.shape), save=_save, backward=_backward
)


def split_softmax(x: torch.Tensor, *, splits: int | None = None) -> torch.Tensor:
    """softmax of the last dimension, in `splits` pieces a row, as a new contiguous tensor.

    Raises TypeError for a wrong kind or dtype, ValueError for a scalar, a number of splits outside 1 to MAX_SPLITS or a
    device that is not CUDA, RuntimeError on a CPU tensor outside Triton's interpreter; nothing has been launched then.
    The rule that merges states: Milakov and Gimelshein, "Online normalizer calculation for softmax", 2018.
    """
    if torch.compiler.is_compiling():
        return _split_softmax(x, splits)
    _require(x, splits)
    return _forward(x, splits) if direct(x) else _split_softmax(x, splits)


def split_states(x: torch.Tensor, splits: int) -> torch.Tensor:
    """What the first launch leaves: (2, M, splits) in float32, the maximum of each split of each row, then its sum.

    x: (M, N), any strides, without a gradient. Errors as those of `split_softmax`.
    """
    checks.require_tensor("x", x)
    _require(x, splits)
    checks.require_count("splits", splits, MAX_SPLITS)
    if x.dim() != 2:
        raise ValueError(f"x has shape {tuple(x.shape)}; expected two dimensions, (rows, columns).")
    state = torch.empty((2, x.shape[0], splits), dtype=torch.float32, device=x.device)
    state[0], state[1] = float("-inf"), 0.0
    if x.numel():
        _launch_states(x, state, *_plan(x, splits))
    return state


OP = op.Op(
    name="split_softmax",
    reference=reference,
    implementations=(
        op.Implementation("triton", split_softmax, "triton", "kernels.ops.split_softmax:_launch", ours=True),
        op.Implementation("softmax", softmax.softmax, "triton", "kernels.ops.softmax:_launch", ours=True),
        op.Implementation("torch", lambda x: torch.softmax(x, dim=-1), "torch", ""),
        op.Implementation("torch.compile", op.compiled(softmax._library), "torch", ""),
    ),
    inputs=inputs,
    bytes_moved=softmax.OP.bytes_moved,  # read x once, write out once; the second reading is of the cache, or the price
    flops=softmax.OP.flops,
    checks=(
        op.Case((3, 31), "ragged: one lane short of a warp"),
        op.Case((5, 1), "one column: every weight is 1"),
        op.Case((2, 4096), "exactly one tile: a single split"),
        op.Case((2, 4097), "one column more: a second split that owns one element"),
        op.Case((2, 3, 5000), "two leading dimensions"),
        op.Case((65,), "one dimension: a single row"),
        op.Case((0, 8), "no row"),
        op.Case((8, 0), "no column"),
        op.Case((1, 131073), "33 splits, the last of one element"),
    ),
    benches=(
        op.Case((1, 1 << 24), "a single row: without splits one multiprocessor works"),
        op.Case((32, 1 << 20), "fewer rows than multiprocessors"),
        op.Case((512, 131072), "more rows than multiprocessors, each wider than a block"),
        op.Case((16384, 4096), "many rows of one tile: splits have nothing to give"),
    ),
    dtypes=op.DTYPES,
    tolerance=softmax.OP.tolerance,
    gradient_tolerance=softmax.OP.gradient_tolerance,
)
