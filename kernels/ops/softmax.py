"""softmax: each row turned into positive weights that sum to one.

    m = max_n x[m, n]    out[m, n] = exp(x[m, n] - m) / sum_n exp(x[m, n] - m)

Shapes    (..., N), N from 0 up, at least one dimension; rows run along the last dimension.
Dtypes    float32, float16, bfloat16; out has the dtype of x.
Strides   any row stride and any column stride, in elements, are read in place. Leading dimensions that do not merge
          into rows one stride apart (a permuted batch, say) are copied first. out is always contiguous, and never x.
Limits    offsets are 64 bits wide; at most 2**31 - 1 programs a launch. How rows are shared out among programs is said
          in `kernels.ops.row_plan`.
Precision maximum, exponentials, sum and quotient in float32, then one rounding to the dtype.
Special   -inf gives 0. A row that is all -inf, or that holds +inf or NaN, is NaN in every column, as torch.softmax has
          it. An input with no element gives an empty output of its shape, and launches nothing.
Gradient  recorded, from the weights: dx = y * (dy - sum_n y * dy); dy may have any strides. No second derivative.
"""

from collections.abc import Callable

import torch
import triton
import triton.language as tl
from triton.runtime.jit import JITFunction

from kernels.ops import checks, op
from kernels.ops import softmax_backward as backward_module
from kernels.ops.early import begin_early, starts_early
from kernels.ops.library import MAX_READY, PLAIN_TYPES, direct, launch, register, wrap_triton
from kernels.ops.row_plan import MAX_BLOCK as MAX_BLOCK
from kernels.ops.row_plan import plan_for, require_choice, sm_count
from kernels.ops.softmax_ahead import _softmax_ahead, tile_ahead
from kernels.ops.softmax_backward import softmax_backward
from kernels.ops.softmax_parts import FIRST_WORD, _softmax_finish, _softmax_joint, _softmax_parts, _softmax_words

PATHS = ("block", "twice", "joint", "split", "looped")

_ready: dict[tuple, Callable] = {}  # launches of rows of one kind, to be made again


def reference(x: torch.Tensor) -> torch.Tensor:
    """softmax of the last dimension in float64."""
    if x.numel() == 0:
        return x.double()
    exponentials = torch.exp(x.double() - x.double().amax(dim=-1, keepdim=True))
    return exponentials / exponentials.sum(dim=-1, keepdim=True)


@triton.jit
def _softmax_rows(
    x_ptr, out_ptr, M, N, x_stride_m, x_stride_n, out_stride_m, BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr
):
    # One program owns BLOCK_M whole rows. 64 bits: both m * stride and n * stride can pass
    # 2**31.
    m = tl.program_id(0).to(tl.int64) * BLOCK_M + tl.arange(0, BLOCK_M)[:, None]
    n = tl.arange(0, BLOCK_N)[None, :].to(tl.int64)
    mask = (m < M) & (n < N)
    # Padding is -inf, which no maximum picks and whose exponential is 0; zeros would win over a
    # negative row.
    x = tl.load(x_ptr + m * x_stride_m + n * x_stride_n, mask=mask, other=float("-inf")).to(tl.float32)
    # A row that is all -inf subtracts -inf from -inf and becomes NaN, which is the contract: no
    # guard.
    numerator = tl.exp(x - tl.max(x, axis=1, keep_dims=True))
    # One reciprocal a row and one product an element: a quotient would occupy the unit that
    # computes exp.
    scale = 1.0 / tl.sum(numerator, axis=1, keep_dims=True)
    tl.store(out_ptr + m * out_stride_m + n, (numerator * scale).to(out_ptr.dtype.element_ty), mask=mask)


@triton.jit
def _softmax_rows_early(
    x_ptr, out_ptr, M, N, x_stride_m, x_stride_n, out_stride_m, BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr
):
    begin_early()
    _softmax_rows(x_ptr, out_ptr, M, N, x_stride_m, x_stride_n, out_stride_m, BLOCK_M, BLOCK_N)


@triton.jit
def _softmax_twice(x_ptr, out_ptr, N, x_stride_m, x_stride_n, out_stride_m, BLOCK_N: tl.constexpr):
    # One program owns one row, looks at all of it for the maximum, and reads it again: from the
    # cache, which was told to keep it. Between the two, registers hold nothing.
    lanes = tl.arange(0, BLOCK_N)
    inside = lanes < N
    x_at = x_ptr + tl.program_id(0).to(tl.int64) * x_stride_m + lanes.to(tl.int64) * x_stride_n
    x = tl.load(x_at, mask=inside, other=float("-inf"), eviction_policy="evict_last")
    highest = tl.max(x.to(tl.float32), axis=0)
    x = tl.load(x_at, mask=inside, other=float("-inf"), eviction_policy="evict_first")
    numerator = tl.exp(x.to(tl.float32) - highest)
    weights = numerator * (1.0 / tl.sum(numerator, axis=0))
    out_at = out_ptr + tl.program_id(0).to(tl.int64) * out_stride_m + lanes
    tl.store(out_at, weights.to(out_ptr.dtype.element_ty), mask=inside, cache_modifier=".cs")


@triton.jit
def _softmax_looped(x_ptr, out_ptr, N, x_stride_m, x_stride_n, out_stride_m, BLOCK_N: tl.constexpr):
    # One program owns one row, in chunks of BLOCK_N. First pass: the maximum so far, and the
    # sum relative to it.
    x_row = x_ptr + tl.program_id(0).to(tl.int64) * x_stride_m
    out_row = out_ptr + tl.program_id(0).to(tl.int64) * out_stride_m
    lanes = tl.arange(0, BLOCK_N).to(tl.int64)
    width = tl.cast(N, tl.int64)  # a 32-bit loop counter would wrap within a chunk of 2**31
    maximum = tl.full((), float("-inf"), tl.float32)
    total = tl.full((), 0.0, tl.float32)
    for start in range(0, width, BLOCK_N):
        n = start + lanes
        x = tl.load(x_row + n * x_stride_n, mask=n < width, other=float("-inf"), eviction_policy="evict_last")
        x = x.to(tl.float32)
        new_maximum = tl.maximum(maximum, tl.max(x, axis=0))
        # While every element so far is -inf, -inf - -inf would be NaN and stay in `total` for
        # good: shift by 0.
        shift = tl.where(new_maximum == float("-inf"), 0.0, new_maximum)
        total = total * tl.exp(maximum - shift) + tl.sum(tl.exp(x - shift), axis=0)
        maximum = new_maximum
    scale = 1.0 / total
    # Second pass, last chunk first: the end of the row is what the L2 cache still holds.
    last = (width - 1) // BLOCK_N * BLOCK_N
    for back in range(0, width, BLOCK_N):
        n = last - back + lanes
        x = tl.load(x_row + n * x_stride_n, mask=n < width, other=float("-inf"), eviction_policy="evict_first")
        weights = tl.exp(x.to(tl.float32) - maximum) * scale
        # Streaming: what is written is not read again here, and the cache has better use.
        tl.store(out_row + n, weights.to(out_ptr.dtype.element_ty), mask=n < width, cache_modifier=".cs")


def _launch(x, out, path=None, block=None, num_warps=None):
    M, N = x.shape
    plan = plan_for(x, path, block, num_warps)
    tile = {"BLOCK_M": plan.block_m, "BLOCK_N": plan.block_n, "num_warps": plan.num_warps}
    strides = (*x.stride(), out.stride(0))
    groups = triton.cdiv(M, plan.block_m)
    if plan.path == "block":
        kernel = wrap_triton(_softmax_rows)
        if x.element_size() == 4 and starts_early(kernel, x.device):  # two bytes: measured slower
            kernel, tile["launch_pdl"] = _softmax_rows_early, True
        return launch(kernel, (groups,), (x, out, M, N, *strides), **tile)
    if plan.path == "twice":
        del tile["BLOCK_M"]
        return launch(wrap_triton(_softmax_twice), (M,), (x, out, N, *strides), **tile)
    if plan.path == "looped":
        del tile["BLOCK_M"]
        return launch(wrap_triton(_softmax_looped), (M,), (x, out, N, *strides), **tile)
    parts, grid = plan.parts, (groups * plan.parts,)
    all_parts = triton.next_power_of_2(parts)
    if plan.path == "joint" and plan.block_m == 1:
        kernel = wrap_triton(_softmax_ahead)
        chosen = block is None and num_warps is None and isinstance(kernel, JITFunction)
        if chosen and (ahead := tile_ahead(x, out, sm_count(x.device))):
            parts, programs, constants = ahead
            words = torch.zeros(FIRST_WORD + M * parts, dtype=torch.int64, device=x.device)
            launch(kernel, (programs,), (x, out, words, M, N, x.stride(0), out.stride(0), parts), **constants)
            return None
        del tile["BLOCK_M"]
        words = torch.zeros(FIRST_WORD + M * parts, dtype=torch.int64, device=x.device)
        arguments = (x, out, words, N, *strides, parts)
        launch(wrap_triton(_softmax_words), grid, arguments, ALL_PARTS=all_parts, **tile)
        return None
    state = torch.empty((2, M, parts), dtype=torch.float32, device=x.device)
    if plan.path == "joint":
        arrived = torch.zeros(1 + groups, dtype=torch.int32, device=x.device)
        arguments = (x, out, state, arrived, M, N, *strides, parts)
        launch(wrap_triton(_softmax_joint), grid, arguments, ALL_PARTS=all_parts, **tile)
    else:
        part_n = triton.cdiv(triton.cdiv(N, parts), plan.block_n) * plan.block_n
        launch(wrap_triton(_softmax_parts), grid, (x, state, M, N, *x.stride(), parts, part_n), **tile)
        arguments = (x, out, state, M, N, *strides, parts, part_n)
        launch(wrap_triton(_softmax_finish), grid, arguments, ALL_PARTS=all_parts, **tile)
    return None


def launch_softmax(
    x: torch.Tensor,
    out: torch.Tensor,
    *,
    path: str | None = None,
    block: int | None = None,
    num_warps: int | None = None,
) -> torch.Tensor:
    """Write the softmax of each row of `x` to `out` and return it, as the row plan says with the choices given.

    x: (M, N), any strides. out: (M, N), any row stride, column stride 1; it must not overlap x. path is "block",
    "twice", "looped", "joint" or "split" (see `kernels.ops.row_plan`); block (columns of a program's tile) and
    num_warps are powers of two, at most 32768 and 32. A tile of whole rows is at least N columns wide; joint parts are
    at most as many as multiprocessors, and run on a GPU only. Raises TypeError, ValueError or RuntimeError with a
    sentence before any launch.
    """
    for name, tensor in (("x", x), ("out", out)):
        checks.require_tensor(name, tensor)
        if tensor.dim() != 2:
            raise ValueError(f"{name} has shape {tuple(tensor.shape)}; expected two dimensions, (rows, columns).")
    checks.require_same("out", out, "x", x)
    checks.require_runnable("x", x, _softmax_rows)
    N = x.shape[1]
    if out.stride(1) != 1 and N > 1:
        raise ValueError(f"out has strides {out.stride()}; expected a column stride of 1.")
    checks.require_own_rows("out", out)
    checks.require_apart("out", out, "x", x)
    require_choice(x, path, block, num_warps, PATHS)
    if x.numel():
        _launch(x, out, path, block, num_warps)
    return out


def _key(x: torch.Tensor) -> tuple:
    """All that decides a launch on x, apart from where x lies."""
    return x.shape, x.stride(), x.dtype, x.device, x.data_ptr() % 16


def _forward(x: torch.Tensor) -> torch.Tensor:
    if x.dim() == 0:
        raise ValueError("x has shape (); expected at least one dimension.")
    checks.require_runnable("x", x, _softmax_rows)
    out = torch.empty(x.shape, dtype=x.dtype, device=x.device)
    if x.numel():
        N = x.shape[-1]
        rows = x.reshape(-1, N)
        again = _launch(rows, out.view(-1, N))
        if again is not None and rows.data_ptr() == x.data_ptr():
            if len(_ready) >= MAX_READY:
                _ready.clear()
            _ready[_key(x)] = again
    return out


def _registered(x: torch.Tensor) -> torch.Tensor:
    checks.require_tensor("x", x, differentiable=True)
    return _forward(x)


def _save(ctx, inputs, output):
    ctx.save_for_backward(output)


def _backward(ctx, gradient):
    return softmax_backward(*ctx.saved_tensors, gradient)


_softmax = register("softmax", _registered, lambda x: x.new_empty(x.shape), save=_save, backward=_backward)


def softmax(x: torch.Tensor) -> torch.Tensor:
    """softmax of the last dimension as a new contiguous tensor; this module's contract has shapes, strides and limits.

    Raises TypeError for a wrong kind or dtype, ValueError for a scalar or a device that is not CUDA, RuntimeError on a
    CPU tensor outside Triton's interpreter; each names the argument, and nothing has been launched. The running maximum
    and sum of wide rows: Milakov and Gimelshein, "Online normalizer calculation for softmax", 2018.
    """
    if torch.compiler.is_compiling():
        return _softmax(x)
    # A kind that was prepared has passed the checks of its dtype and device before.
    if type(x) in PLAIN_TYPES and x.layout is torch.strided and not x.is_neg() and direct(x):
        again = _ready.get(_key(x))
        if again is not None:
            out = torch.empty_like(x, memory_format=torch.contiguous_format)
            again(x, out)
            return out
    checks.require_tensor("x", x, differentiable=True)
    return _forward(x) if direct(x) else _softmax(x)


def inputs(shape: tuple[int, ...], dtype: str, device: str, seed: int, padding: int = 3) -> tuple[torch.Tensor, ...]:
    """x of `shape`, seeded, with `padding` NaN behind each row. Rows lie near -100, 0 and +100 in turn.

    Without the maximum the last kind overflows; with zeros as padding the first kind comes out as 0; with the width as
    row stride every kind meets NaN.
    """
    generator = torch.Generator(device).manual_seed(seed)
    values = torch.randn(shape, generator=generator, device=device)
    rows = torch.arange(op.elements(shape[:-1]), device=device)
    values += (rows % 3 - 1).mul(100.0).reshape(*shape[:-1], 1)
    return (op.with_padded_rows(values.to(getattr(torch, dtype)), padding),)


def _eager(x: torch.Tensor) -> torch.Tensor:
    """The formula as five PyTorch calls: each writes a float32 tensor to memory and the next one reads it back."""
    x32 = x.float()
    numerator = torch.exp(x32 - x32.amax(dim=-1, keepdim=True))
    return (numerator / numerator.sum(dim=-1, keepdim=True)).to(x.dtype)


def _library(x: torch.Tensor) -> torch.Tensor:
    return torch.softmax(x, dim=-1)


OP = op.Op(
    name="softmax",
    reference=reference,
    implementations=(
        op.Implementation("triton", softmax, "triton", "kernels.ops.softmax:_launch", ours=True),
        op.cuda_twin("softmax_serial"),
        op.cuda_twin("softmax_parallel"),
        op.cuda_twin("softmax_online"),
        op.Implementation("torch", _library, "torch", ""),
        op.Implementation("torch.compile", op.compiled(_library), "torch", ""),
        op.Implementation("eager", _eager, "torch", "kernels.ops.softmax:_eager"),
    ),
    inputs=inputs,
    bytes_moved=lambda shape, dtype: 2 * op.elements(shape) * op.ELEMENT_BYTES[dtype],  # read x once, write out once
    flops=lambda shape: 5 * op.elements(shape),  # maximum, difference, exponential, sum, product
    checks=(
        op.Case((3, 31), "ragged: one lane short of a warp"),
        op.Case((5, 1), "one column: every weight is 1"),
        op.Case((1, 33), "one row, one lane past a warp"),
        op.Case((17, 128), "narrow: several rows in a program, and one row left over"),
        op.Case((4, 256), "a power of two: no lane is masked"),
        op.Case((6, 257), "one past a power of two: nearly half of the block is padding"),
        op.Case((2, 3, 40), "two leading dimensions"),
        op.Case((65,), "one dimension: a single row"),
        op.Case((0, 8), "no row"),
        op.Case((8, 0), "no column"),
        op.Case((3, 1023), "one short of 1024, where a program begins to take a single row"),
        op.Case((2, 4097), "few rows, one column past a power of two"),
        op.Case((1, 32768), "the widest single block"),
        op.Case((1, 32769), "one past the widest block: several parts"),
        op.Case((2, 131072), "few rows of many parts"),
        op.Case((1, 1 << 20), "2**20 columns: very many parts"),
        op.Case((70000, 2), "more rows than a second grid dimension could count"),
    ),
    benches=(
        op.Case((4096, 1024), "16 MiB in float32: a short run, where the launch shows"),
        op.Case((16384, 4096), "far larger than the L2 cache; a row fits in a program"),
        op.Case((8192, 16384), "wide rows that still fit in a program"),
        op.Case((512, 131072), "wider than a block: several programs a row"),
        op.Case((32, 1 << 20), "fewer rows than the GPU has multiprocessors"),
        op.Case((131072, 128), "narrow rows, several in one program"),
    ),
    dtypes=op.DTYPES,
    # exp(-104) is the smallest exponential that float32 still holds, so no argument beyond -104
    # matters.
    tolerance=lambda dtype, shape: op.tolerance(dtype, terms=max(shape[-1], 2), largest_exponent=104),
    gradient_tolerance=backward_module.gradient_tolerance,
    backward=backward_module.OP,
)
