"""softmax_backward: the gradient of softmax, from its weights and the gradient of its output.

    dx[m, n] = y[m, n] * (dy[m, n] - sum_k y[m, k] * dy[m, k])

Shapes    y and dy (..., N), the same one, at least one dimension; rows run along the last dimension.
Dtypes    float32, float16, bfloat16; y and dy have the same one, and so has dx.
Strides   any, in elements, read in place as in softmax: dy often arrives with zero strides, or as part of a wider
          tensor. dx is always contiguous, and neither y nor dy.
Limits    offsets are 64 bits wide; at most 2**31 - 1 programs a launch. How rows are shared out among programs is said
          in `kernels.ops.row_plan`.
Precision products, sum and difference in float32, then one rounding to the dtype.
Special   infinities and NaN as IEEE 754 says. An input with no element gives an empty dx, and launches nothing.
Gradient  none: a second derivative is refused with a sentence.
"""

import torch
import triton
import triton.language as tl

from kernels.ops import checks, op
from kernels.ops.early import begin_early, starts_early
from kernels.ops.joint import zeroed_words
from kernels.ops.library import direct, launch, register, wrap_triton
from kernels.ops.row_plan import plan_for, require_choice
from kernels.ops.softmax_backward_pairs import _softmax_backward_pairs, in_pairs
from kernels.ops.softmax_parts import FIRST_WORD, _all_words

HELD = 2  # y and dy stay in a program's registers until the sum is known
PATHS = ("block", "joint", "split")


def reference(y: torch.Tensor, dy: torch.Tensor) -> torch.Tensor:
    """y * (dy - sum(y * dy)) over the last dimension in float64."""
    y, dy = y.double(), dy.double()
    return y * (dy - (y * dy).sum(dim=-1, keepdim=True))


@triton.jit
def _softmax_backward_rows(
    y_ptr, dy_ptr, dx_ptr, M, N, y_stride_m, y_stride_n, dy_stride_m, dy_stride_n, dx_stride_m,
    BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr,
):  # fmt: skip
    # One program owns BLOCK_M whole rows. Padding adds 0 to the sum.
    m = tl.program_id(0).to(tl.int64) * BLOCK_M + tl.arange(0, BLOCK_M)[:, None]
    n = tl.arange(0, BLOCK_N)[None, :].to(tl.int64)
    mask = (m < M) & (n < N)
    y = tl.load(y_ptr + m * y_stride_m + n * y_stride_n, mask=mask, other=0.0).to(tl.float32)
    dy = tl.load(dy_ptr + m * dy_stride_m + n * dy_stride_n, mask=mask, other=0.0).to(tl.float32)
    dx = y * (dy - tl.sum(y * dy, axis=1, keep_dims=True))
    tl.store(dx_ptr + m * dx_stride_m + n, dx.to(dx_ptr.dtype.element_ty), mask=mask)


@triton.jit
def _softmax_backward_parts(
    y_ptr, dy_ptr, state_ptr, M, N, y_stride_m, y_stride_n, dy_stride_m, dy_stride_n, parts, part_n,
    BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr,
):  # fmt: skip
    # First of two launches: a program walks along one part of BLOCK_M rows and leaves its sum.
    m = (tl.program_id(0) // parts).to(tl.int64) * BLOCK_M + tl.arange(0, BLOCK_M)[:, None]
    part = (tl.program_id(0) % parts).to(tl.int64)
    total = tl.full((BLOCK_M, 1), 0.0, tl.float32)
    for start in range(0, tl.cast(part_n, tl.int64), BLOCK_N):
        n = part * part_n + start + tl.arange(0, BLOCK_N)[None, :]
        mask = (m < M) & (n < N)
        y = tl.load(y_ptr + m * y_stride_m + n * y_stride_n, mask=mask, other=0.0).to(tl.float32)
        dy = tl.load(dy_ptr + m * dy_stride_m + n * dy_stride_n, mask=mask, other=0.0).to(tl.float32)
        total += tl.sum(y * dy, axis=1, keep_dims=True)
    tl.store(state_ptr + m * parts + part, total, mask=m < M)


@triton.jit
def _softmax_backward_finish(
    y_ptr, dy_ptr, dx_ptr, state_ptr, M, N, y_stride_m, y_stride_n, dy_stride_m, dy_stride_n, dx_stride_m, parts,
    part_n, ALL_PARTS: tl.constexpr, BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr,
):  # fmt: skip
    # Second launch: add the sums up, and write the same parts, the last one first: it is what the
    # L2 cache still holds.
    program = tl.num_programs(0) - 1 - tl.program_id(0)
    m = (program // parts).to(tl.int64) * BLOCK_M + tl.arange(0, BLOCK_M)[:, None]
    begin = (program % parts).to(tl.int64) * part_n
    total = _add_up(state_ptr, m, M, parts, ALL_PARTS)
    for start in range(0, tl.cast(part_n, tl.int64), BLOCK_N):
        n = begin + start + tl.arange(0, BLOCK_N)[None, :]
        mask = (m < M) & (n < N)
        y = tl.load(y_ptr + m * y_stride_m + n * y_stride_n, mask=mask, other=0.0).to(tl.float32)
        dy = tl.load(dy_ptr + m * dy_stride_m + n * dy_stride_n, mask=mask, other=0.0).to(tl.float32)
        tl.store(dx_ptr + m * dx_stride_m + n, (y * (dy - total)).to(dx_ptr.dtype.element_ty), mask=mask)


@triton.jit
def _add_up(state_ptr, m, M, parts, ALL_PARTS: tl.constexpr):
    # In the same order everywhere: the same bits everywhere. Past the L1 cache, which may still hold
    # what was there before.
    part = tl.arange(0, ALL_PARTS)[None, :]
    sums = tl.load(state_ptr + m * parts + part, mask=(m < M) & (part < parts), other=0.0, cache_modifier=".cg")
    return tl.sum(sums, axis=1, keep_dims=True)


@triton.jit
def _softmax_backward_joint(
    y_ptr, dy_ptr, dx_ptr, state_ptr, arrived_ptr, M, N, y_stride_m, y_stride_n, dy_stride_m, dy_stride_n,
    dx_stride_m, parts, ALL_PARTS: tl.constexpr, BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr,
):  # fmt: skip
    # A program keeps one part of BLOCK_M rows in registers while it waits for the other parts. Which
    # part is settled by arrival, as in `_softmax_joint`.
    arrival = tl.atomic_add(arrived_ptr, 1, sem="relaxed")
    group = arrival // parts
    m = group.to(tl.int64) * BLOCK_M + tl.arange(0, BLOCK_M)[:, None]
    part = arrival % parts
    n = part.to(tl.int64) * BLOCK_N + tl.arange(0, BLOCK_N)[None, :]
    mask = (m < M) & (n < N)
    y = tl.load(y_ptr + m * y_stride_m + n * y_stride_n, mask=mask, other=0.0).to(tl.float32)
    dy = tl.load(dy_ptr + m * dy_stride_m + n * dy_stride_n, mask=mask, other=0.0).to(tl.float32)
    tl.store(state_ptr + m * parts + part, tl.sum(y * dy, axis=1, keep_dims=True), mask=m < M)
    tl.debug_barrier()
    tl.atomic_add(arrived_ptr + 1 + group, 1, sem="release")
    while tl.atomic_add(arrived_ptr + 1 + group, 0, sem="acquire") < parts:
        pass
    dx = y * (dy - _add_up(state_ptr, m, M, parts, ALL_PARTS))
    tl.store(dx_ptr + m * dx_stride_m + n, dx.to(dx_ptr.dtype.element_ty), mask=mask)


@triton.jit
def _softmax_backward_words(
    y_ptr, dy_ptr, dx_ptr, words_ptr, N, y_stride_m, y_stride_n, dy_stride_m, dy_stride_n, dx_stride_m, parts,
    ALL_PARTS: tl.constexpr, BLOCK_N: tl.constexpr,
):  # fmt: skip
    # A part of a single row, whose sum travels in one word, as in `_softmax_words`: the upper half
    # is the sum, the lower half says that it is there.
    arrival = tl.atomic_add(words_ptr, 1, sem="relaxed").to(tl.int32)
    m = (arrival // parts).to(tl.int64)
    part = (arrival % parts).to(tl.int64)
    first = part * BLOCK_N
    lanes = tl.arange(0, BLOCK_N)
    mask = lanes < tl.minimum(N - first, BLOCK_N).to(tl.int32)
    n = lanes.to(tl.int64)
    y_part = y_ptr + m * y_stride_m + first * y_stride_n
    dy_part = dy_ptr + m * dy_stride_m + first * dy_stride_n
    y = tl.load(y_part + n * y_stride_n, mask=mask, other=0.0).to(tl.float32)
    dy = tl.load(dy_part + n * dy_stride_n, mask=mask, other=0.0).to(tl.float32)
    row_words = words_ptr + 16 + m * parts
    word = tl.sum(y * dy, axis=0).to(tl.int32, bitcast=True).to(tl.int64) << 32
    tl.atomic_xchg(row_words + part, word | 1, sem="relaxed")
    found = _all_words(row_words, parts, ALL_PARTS)
    sums = (found >> 32).to(tl.int32).to(tl.float32, bitcast=True)
    total = tl.sum(tl.where(tl.arange(0, ALL_PARTS) < parts, sums, 0.0), axis=0)
    tl.store(dx_ptr + m * dx_stride_m + first + lanes, (y * (dy - total)).to(dx_ptr.dtype.element_ty), mask=mask)


@triton.jit
def _softmax_backward_rows_early(
    y_ptr, dy_ptr, dx_ptr, M, N, y_stride_m, y_stride_n, dy_stride_m, dy_stride_n, dx_stride_m,
    BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr,
):  # fmt: skip
    begin_early()
    _softmax_backward_rows(y_ptr, dy_ptr, dx_ptr, M, N, y_stride_m, y_stride_n, dy_stride_m, dy_stride_n, dx_stride_m,
                           BLOCK_M, BLOCK_N)  # fmt: skip


def _launch(y, dy, dx, path=None, block=None, num_warps=None):
    M, N = y.shape
    plan = plan_for(y, path, block, num_warps, HELD)
    tile = {"BLOCK_M": plan.block_m, "BLOCK_N": plan.block_n, "num_warps": plan.num_warps}
    groups, parts = triton.cdiv(M, plan.block_m), plan.parts
    strides = (*y.stride(), *dy.stride())
    if plan.path == "block":
        kernel = wrap_triton(_softmax_backward_rows)
        if starts_early(kernel, y.device):
            kernel, tile["launch_pdl"] = _softmax_backward_rows_early, True
        launch(kernel, (groups,), (y, dy, dx, M, N, *strides, dx.stride(0)), **tile)
        return
    grid, all_parts = (groups * parts,), triton.next_power_of_2(parts)
    if plan.path == "joint" and plan.block_m == 1:
        del tile["BLOCK_M"]
        kernel = wrap_triton(_softmax_backward_pairs)
        if starts_early(kernel, y.device) and in_pairs(y, dy, dx):
            steps = (y.stride(0), dy.stride(0), dx.stride(0))
            arguments = (y, dy, dx, zeroed_words(M * parts, y.device), N, *steps, parts)
            tile |= {"HALF": y.dtype == torch.float16, "WHOLE": N % plan.block_n == 0}
            launch(kernel, grid, arguments, ALL_PARTS=all_parts, launch_pdl=True, **tile)
            return
        words = torch.zeros(FIRST_WORD + M * parts, dtype=torch.int64, device=y.device)
        arguments = (y, dy, dx, words, N, *strides, dx.stride(0), parts)
        launch(wrap_triton(_softmax_backward_words), grid, arguments, ALL_PARTS=all_parts, **tile)
        return
    state = torch.empty((M, parts), dtype=torch.float32, device=y.device)
    if plan.path == "joint":
        arrived = torch.zeros(1 + groups, dtype=torch.int32, device=y.device)
        arguments = (y, dy, dx, state, arrived, M, N, *strides, dx.stride(0), parts)
        launch(wrap_triton(_softmax_backward_joint), grid, arguments, ALL_PARTS=all_parts, **tile)
        return
    part_n = triton.cdiv(triton.cdiv(N, parts), plan.block_n) * plan.block_n
    launch(wrap_triton(_softmax_backward_parts), grid, (y, dy, state, M, N, *strides, parts, part_n), **tile)
    arguments = (y, dy, dx, state, M, N, *strides, dx.stride(0), parts, part_n)
    launch(wrap_triton(_softmax_backward_finish), grid, arguments, ALL_PARTS=all_parts, **tile)


def launch_softmax_backward(
    y: torch.Tensor,
    dy: torch.Tensor,
    dx: torch.Tensor,
    *,
    path: str | None = None,
    block: int | None = None,
    num_warps: int | None = None,
) -> torch.Tensor:
    """Write the gradient to `dx` and return it, as the row plan says with the choices given.

    y, dy: (M, N), any strides. dx: (M, N), any row stride, column stride 1; it must overlap neither. path is "block",
    "joint" or "split" (see `kernels.ops.row_plan`); block (columns of a program's tile) and num_warps are powers of
    two, at most 32768 and 32. Raises TypeError, ValueError or RuntimeError with a sentence before any launch.
    """
    for name, tensor in (("y", y), ("dy", dy), ("dx", dx)):
        checks.require_tensor(name, tensor)
        if tensor.dim() != 2:
            raise ValueError(f"{name} has shape {tuple(tensor.shape)}; expected two dimensions, (rows, columns).")
        checks.require_same(name, tensor, "y", y)
    checks.require_runnable("y", y, _softmax_backward_rows)
    if dx.stride(1) != 1 and dx.shape[1] > 1:
        raise ValueError(f"dx has strides {dx.stride()}; expected a column stride of 1.")
    checks.require_own_rows("dx", dx)
    for name, tensor in (("y", y), ("dy", dy)):
        checks.require_apart("dx", dx, name, tensor)
    require_choice(y, path, block, num_warps, PATHS, HELD)
    if y.numel():
        _launch(y, dy, dx, path, block, num_warps)
    return dx


def _forward(y: torch.Tensor, dy: torch.Tensor) -> torch.Tensor:
    if y.dim() == 0:
        raise ValueError("y has shape (); expected at least one dimension.")
    checks.require_same("dy", dy, "y", y)
    checks.require_runnable("y", y, _softmax_backward_rows)
    dx = torch.empty(y.shape, dtype=y.dtype, device=y.device)
    if y.numel():
        N = y.shape[-1]
        _launch(y.reshape(-1, N), dy.reshape(-1, N), dx.view(-1, N))
    return dx


def _registered(y: torch.Tensor, dy: torch.Tensor) -> torch.Tensor:
    checks.require_tensor("y", y, differentiable=True)
    checks.require_tensor("dy", dy, differentiable=True)
    return _forward(y, dy)


_softmax_backward = register("softmax_backward", _registered, lambda y, dy: y.new_empty(y.shape))


def softmax_backward(y: torch.Tensor, dy: torch.Tensor) -> torch.Tensor:
    """The gradient of softmax's input as a new contiguous tensor; this module's contract has shapes and limits.

    y: what softmax returned. dy: the gradient of it, any strides. Raises TypeError for a wrong kind or dtype,
    ValueError for shapes or devices that differ, RuntimeError on a CPU tensor outside Triton's interpreter; each names
    the argument, and nothing has been launched.
    """
    if torch.compiler.is_compiling():
        return _softmax_backward(y, dy)
    checks.require_tensor("y", y, differentiable=True)
    checks.require_tensor("dy", dy, differentiable=True)
    return _forward(y, dy) if direct(y, dy) else _softmax_backward(y, dy)


def inputs(shape: tuple[int, ...], dtype: str, device: str, seed: int, padding: int = 3) -> tuple[torch.Tensor, ...]:
    """Weights of a softmax and a gradient, seeded, with `padding` NaN behind each row; a common part in the gradient
    changes nothing on paper, so half of the rows have one."""
    generator = torch.Generator(device).manual_seed(seed)
    y = torch.softmax(torch.randn(shape, generator=generator, device=device), dim=-1)
    dy = torch.randn(shape, generator=generator, device=device)
    rows = torch.arange(op.elements(shape[:-1]), device=device)
    dy += (rows % 2).mul(2.0).reshape(*shape[:-1], 1)
    kind = getattr(torch, dtype)
    return op.with_padded_rows(y.to(kind), padding), op.with_padded_rows(dy.to(kind), padding)


def tolerance(dtype: str, shape: tuple[int, ...]) -> tuple[float, float]:
    """(rtol, atol): the sum is at most as large as dy, 8 in these inputs, and its error reaches dx times a weight."""
    rtol, smallest = op.tolerance(dtype, terms=max(shape[-1], 2))
    return rtol, smallest + 8 * (rtol - op.ROUNDOFF[dtype])


def gradient_tolerance(dtype: str, shape: tuple[int, ...]) -> tuple[float, float]:
    """(rtol, atol) through softmax and back: the saved weights are rounded to the dtype, and in float32 their arguments
    are good to 104 roundoffs."""
    rtol, smallest = op.tolerance(dtype, terms=max(shape[-1], 2), largest_exponent=104)
    return 2 * rtol, smallest + 8 * rtol


def _library(y: torch.Tensor, dy: torch.Tensor) -> torch.Tensor:
    return torch._softmax_backward_data(dy, y, -1, y.dtype)


def _eager(y: torch.Tensor, dy: torch.Tensor) -> torch.Tensor:
    """The formula as PyTorch calls, in float32."""
    y32, dy32 = y.float(), dy.float()
    return (y32 * (dy32 - (y32 * dy32).sum(dim=-1, keepdim=True))).to(y.dtype)


OP = op.Op(
    name="softmax_backward",
    reference=reference,
    implementations=(
        op.Implementation("triton", softmax_backward, "triton", "kernels.ops.softmax_backward:_launch", ours=True),
        op.Implementation("torch", _library, "torch", ""),
        op.Implementation("torch.compile", op.compiled(_eager), "torch", "kernels.ops.softmax_backward:_eager"),
        op.Implementation("eager", _eager, "torch", "kernels.ops.softmax_backward:_eager"),
    ),
    inputs=inputs,
    bytes_moved=lambda shape, dtype: 3 * op.elements(shape) * op.ELEMENT_BYTES[dtype],  # read y and dy, write dx
    flops=lambda shape: 4 * op.elements(shape),  # product, sum, difference, product
    checks=(
        op.Case((3, 31), "ragged: one lane short of a warp"),
        op.Case((5, 1), "one column: the gradient is 0"),
        op.Case((17, 128), "narrow: several rows in a program, and one row left over"),
        op.Case((6, 257), "one past a power of two: nearly half of the block is padding"),
        op.Case((2, 3, 40), "two leading dimensions"),
        op.Case((65,), "one dimension: a single row"),
        op.Case((0, 8), "no row"),
        op.Case((8, 0), "no column"),
        op.Case((1, 16385), "one past the widest block"),
        op.Case((2, 65537), "many parts, the last of one element"),
    ),
    benches=(
        op.Case((4096, 1024), "a short run, where the launch shows"),
        op.Case((16384, 4096), "rows of one block, far larger than the L2 cache"),
        op.Case((512, 131072), "rows of many parts"),
        op.Case((131072, 128), "narrow rows, several in one program"),
    ),
    dtypes=op.DTYPES,
    tolerance=tolerance,
)
