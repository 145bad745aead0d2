"""From tensors to launches of the matmul kernels: batches folded, operands described or packed, slices added up."""

import dataclasses
import functools
import itertools
import math

import torch
import triton
from triton.runtime.jit import JITFunction
from triton.tools.tensor_descriptor import TensorDescriptor

from kernels.ops import checks
from kernels.ops.library import MAX_READY, launch, wrap_triton
from kernels.ops.matmul_kernels import _add_slices, _matmul_persistent, _matmul_tiles, _pack
from kernels.ops.matmul_plan import LINE, MOST_SPLITS, MatmulPlan, plan_matmul
from kernels.ops.row_plan import sm_count

ALIGNMENT = 16  # bytes: of a descriptor's address and of its outer stride
PACK_ROWS, PACK_COLUMNS = 4, 1024
FINISH_ROWS, FINISH_COLUMNS = 8, 256

_ready: dict[tuple, tuple] = {}


def launch_product(
    a: torch.Tensor,
    b: torch.Tensor,
    out: torch.Tensor,
    precision: str,
    bias: torch.Tensor | None = None,
    residual: torch.Tensor | None = None,
    activation: str = "none",
    scale: float = 1.0,
    choices: dict | None = None,
) -> None:
    """Write act(a @ b + bias) * scale + residual to `out` (..., M, N), contiguous, of at least one element.

    a: (..., M, K), b: (..., K, N), leading dimensions as out's (expanded ones have stride 0), any strides. bias (N,)
    and residual (M, N), where out is a matrix. choices: fields of the plan that are settled already.
    """
    for a_one, b_one, out_one in products(a, b, out):
        _one(a_one, b_one, out_one, precision, bias, residual, activation, scale, choices or {})


def products(a, b, out):
    """The launches of a batched product, as tensors with two leading dimensions and those of one matrix.

    Leading dimensions that lie one stride apart in both operands count as one, and where b is the same for all of them
    and a's rows go on at the same stride they are rows of a. Two that remain are the kernel's; more are launches.
    """
    M, K = a.shape[-2:]
    merged: list[list[int]] = []
    for size, a_stride, b_stride in zip(out.shape[:-2], a.stride()[:-2], b.stride()[:-2]):
        if size == 1:
            continue
        if merged and merged[-1][1] == size * a_stride and merged[-1][2] == size * b_stride:
            merged[-1] = [merged[-1][0] * size, a_stride, b_stride]
        else:
            merged.append([size, a_stride, b_stride])
    rows, row_stride = M, a.stride(-2)
    if merged and merged[-1][2] == 0 and (M == 1 or merged[-1][1] == M * row_stride):
        size, a_stride, _ = merged.pop()
        rows, row_stride = size * M, a_stride if M == 1 else row_stride
    sizes, a_strides, b_strides = zip(*[[1, 0, 0]] * (2 - len(merged)), *merged)
    a = a.as_strided((*sizes, rows, K), (*a_strides, row_stride, a.stride(-1)))
    b = b.as_strided((*sizes, *b.shape[-2:]), (*b_strides, *b.stride()[-2:]))
    out = out.view(*sizes, rows, out.shape[-1])
    for index in itertools.product(*map(range, sizes[:-2])):
        yield a[index], b[index], out[index]


def require_programs(a: torch.Tensor, b: torch.Tensor, shape: tuple[int, ...], precision: str, choices: dict) -> None:
    """No launch of a batched product of `shape` may take more programs than there are; ValueError with a sentence.

    One matrix never does: it would have more elements than any memory.
    """
    batch = math.prod(shape[:-2])
    most = batch * triton.cdiv(shape[-2], 16) * triton.cdiv(shape[-1], 16) * MOST_SPLITS
    if batch == 1 or most <= checks.MAX_PROGRAMS or 0 in (*shape, a.shape[-1]):
        return
    a, b = (each.expand(*shape[:-2], *each.shape[-2:]) for each in (a, b))
    for a_one, b_one, out_one in products(a, b, torch.empty(shape, dtype=a.dtype, device="meta")):
        plan = plan_for(a_one, b_one, out_one, precision, choices)
        outer, inner, *sides = out_one.shape
        M, N = reversed(sides) if plan.turned else sides
        if plan.path == "tiles":
            tiles = triton.cdiv(M, plan.block_m) * triton.cdiv(N, plan.block_n)
            checks.require_programs("the product", out_one, outer * inner * tiles * plan.splits)


def describable(x: torch.Tensor) -> bool:
    """Whether the copy engine can read a matrix, or its transpose, as it lies in memory."""
    return _outer_stride(x) is not None


def _outer_stride(x: torch.Tensor) -> tuple[bool, int] | None:
    """Whether it is the transpose that lies row by row, and how many elements its rows are apart."""
    if x.data_ptr() % ALIGNMENT or x.numel() == 0:
        return None
    for turned, (rows, columns), (outer, inner) in (
        (False, x.shape, x.stride()),
        (True, x.shape[::-1], x.stride()[::-1]),
    ):
        if columns > 1 and inner != 1:
            continue
        if rows == 1:
            outer = triton.cdiv(columns, ALIGNMENT) * ALIGNMENT
        if outer >= columns and outer * x.element_size() % ALIGNMENT == 0:
            return turned, outer
    return None


@functools.cache
def _may_describe(device: torch.device) -> bool:
    return device.type == "cuda" and torch.cuda.get_device_capability(device)[0] >= 9


@functools.cache
def _may_ring(device: torch.device) -> bool:
    """Whether a GPU has the instructions of `kernels.ops.matmul_gluon`: those of compute capability 9.0 alone."""
    return _may_describe(device) and torch.cuda.get_device_capability(device) == (9, 0)


def plan_for(
    a: torch.Tensor,
    b: torch.Tensor,
    out: torch.Tensor,
    precision: str,
    choices: dict,
    residual: torch.Tensor | None = None,
    activation: str = "none",
) -> MatmulPlan:
    """The plan for one launch of `products`, with the choices given in the place of its own.

    Who chooses anything but the ring gets the rest of the plan as if there were no ring: it takes few tiles, no slices.
    """
    *batch, M, K = a.shape
    single = batch == [1, 1]
    can = (single and describable(a[0, 0]), single and describable(b[0, 0]))
    may = _may_describe(a.device) and a.element_size() == 2
    interpreted = not isinstance(_matmul_tiles, JITFunction)
    ring = may and residual is None and _out_describable(out) and _may_ring(a.device)
    kind = (a.element_size(), precision, sm_count(a.device))
    given = {name: value for name, value in choices.items() if value is not None}
    planned = ring and (not given or given.get("path") == "ring")
    sizes = (M, out.shape[-1], K, batch[0] * batch[1])
    plan = plan_matmul(*sizes, *kind, can, may, planned, interpreted, activation)
    path = given.get("path", plan.path)
    if path == "tiles":
        given |= {"subtiles": 1, "residents": 1, "early": False, "pack_a": False, "pack_b": False}
    elif path == "ring":
        given |= {"residents": 1, "splits": 1, "turned": False}
        if not ring:
            raise ValueError(
                'path is "ring"; expected compute capability 9.0, a two-byte dtype, no residual, and an output whose '
                'rows are multiples of 16 bytes long, or path="persistent".'
            )
    plan = dataclasses.replace(plan, **given)
    if plan.path == "persistent" and plan.subtiles > 2:
        raise ValueError(f'subtiles is {plan.subtiles}; expected 1 or 2, or path="ring".')
    if plan.path == "ring" and plan.block_m < (128 if plan.consumers == "halves" else 64):
        raise ValueError(
            f'block_m is {plan.block_m} for path="ring" with consumers="{plan.consumers}"; expected at least 64 rows '
            f"for each consumer."
        )
    if plan.path != "tiles":
        if not single or a.element_size() != 2 or K == 0:
            raise ValueError(
                f'path is "{plan.path}" for a of shape {tuple(a.shape)} and {a.element_size()} bytes an element; '
                f'expected a single product of a two-byte dtype with K of at least 1, or path="tiles".'
            )
        # What cannot be described is packed: a descriptor that lies would fail without a word.
        plan = dataclasses.replace(plan, pack_a=plan.pack_a or not can[0], pack_b=plan.pack_b or not can[1])
    return plan


def _one(a, b, out, precision, bias, residual, activation, scale, choices):
    """One launch of `products`: a (O, I, M, K), b (O, I, K, N), out (O, I, M, N)."""
    plan = plan_for(a, b, out, precision, choices, residual, activation)
    outer, inner, M, N = out.shape
    K = a.shape[-1]
    slice_k = triton.cdiv(triton.cdiv(max(K, 1), plan.block_k), plan.splits) * plan.block_k
    target = out
    if plan.sliced:
        target = torch.empty((outer * inner * plan.splits, M, N), dtype=torch.float32, device=out.device)
    finish = (None, None, 0, 0, 0) if plan.sliced else (bias, residual, *_strides(bias, residual))
    then = "none" if plan.sliced else activation
    factor = 1.0 if plan.sliced else scale
    overlap = plan.overlap and plan.sliced and _may_describe(out.device)
    if plan.path == "ring":
        _ring(plan, a[0, 0], b[0, 0], out[0, 0], bias, activation, scale)
    elif plan.path == "persistent":
        _persistent(plan, a[0, 0], b[0, 0], target, finish, factor, then, slice_k, precision, overlap)
    else:
        _tiles(plan, a, b, target, finish, factor, then, slice_k, precision, overlap)
    if plan.sliced:
        rows = outer * inner * M
        sizes = {"BLOCK_M": FINISH_ROWS, "BLOCK_N": min(FINISH_COLUMNS, max(16, triton.next_power_of_2(N)))}
        grid = (triton.cdiv(rows, sizes["BLOCK_M"]) * triton.cdiv(N, sizes["BLOCK_N"]),)
        arguments = (target, out, bias, residual, M, N, rows, *_strides(bias, residual), scale)
        constants = {"SPLITS": plan.splits, "ACTIVATION": activation, **sizes, "OVERLAP": overlap, "num_warps": 4}
        if overlap:  # it is set up while the slices are computed, and waits for them where it begins to read
            constants["launch_pdl"] = True
        launch(wrap_triton(_add_slices), grid, arguments, **constants)


def _strides(bias: torch.Tensor | None, residual: torch.Tensor | None) -> tuple[int, int, int]:
    return (
        bias.stride(0) if bias is not None else 0,
        residual.stride(0) if residual is not None else 0,
        residual.stride(1) if residual is not None else 0,
    )


def _constants(plan: MatmulPlan, activation: str, precision: str) -> dict:
    return {
        "SPLITS": plan.splits,
        "SLICED": plan.sliced,
        "ACTIVATION": activation,
        "PRECISION": precision,
    }


def _blocks(plan: MatmulPlan) -> dict:
    return {"BLOCK_M": plan.block_m, "BLOCK_N": plan.block_n, "BLOCK_K": plan.block_k, "GROUP_M": plan.group_m}


def _tiles(plan, a, b, target, finish, scale, activation, slice_k, precision, overlap):
    outer, inner, M, K = a.shape
    N = b.shape[-1]
    out_strides = (N, 1)
    if plan.turned:
        a, b, M, N, out_strides = b.transpose(-1, -2), a.transpose(-1, -2), N, M, (1, N)
    bias, residual, *strides = finish
    grid = (triton.cdiv(M, plan.block_m) * triton.cdiv(N, plan.block_n) * plan.splits * outer * inner,)
    launch(
        wrap_triton(_matmul_tiles),
        grid,
        (
            a,
            b,
            target,
            bias,
            residual,
            M,
            N,
            K,
            inner,
            *a.stride(),
            *b.stride(),
            *out_strides,
            *strides,
            scale,
            slice_k,
        ),
        **_constants(plan, activation, precision),
        **_blocks(plan),
        OVERLAP=overlap,
        num_warps=plan.num_warps,
        num_stages=plan.num_stages,
    )


def _ring(plan, a, b, out, bias, activation, scale):
    from kernels.ops.matmul_gluon import _matmul_ring, ring_launch  # Gluon is imported where it is used

    a, b = _packed(a) if plan.pack_a else a, _packed(b) if plan.pack_b else b
    ways, tile = (_outer_stride(a), _outer_stride(b)), (plan.block_m, plan.block_n, plan.block_k)
    sms = sm_count(out.device)
    finish = (bias, activation, scale, plan.consumers, plan.subtiles, plan.early)
    made = ring_launch(a, b, out, ways, tile, sms, plan.group_m, plan.num_stages, *finish)
    _launch_described(_matmul_ring, *made[:2], out.device, **made[2])


def _persistent(plan, a, b, target, finish, scale, activation, slice_k, precision, overlap):
    a, b = _packed(a) if plan.pack_a else a, _packed(b) if plan.pack_b else b
    (M, K), N = a.shape, b.shape[-1]
    out_strides = (N, 1)
    if plan.turned:
        a, b, M, N, out_strides = b.t(), a.t(), N, M, (1, N)
    a_desc, a_turned = _described(a, plan.block_m, plan.block_k)
    b_desc, b_turned = _described(b, plan.block_k, plan.block_n)
    out_desc, subtiles = None, 1  # in halves only by descriptor: pointers to both halves would not fit into registers
    if not plan.sliced:
        out = target.view(M, N)
        if _out_describable(out):
            subtiles = plan.subtiles
            out_desc = TensorDescriptor(out, [M, N], [N, 1], [plan.block_m, plan.block_n // subtiles])
    tiles = triton.cdiv(M, plan.block_m) * triton.cdiv(N, plan.block_n) * plan.splits
    programs = min(tiles, plan.residents * sm_count(target.device))
    bias, residual, *strides = finish
    _launch_described(
        _matmul_persistent,
        (programs,),
        (a_desc, b_desc, out_desc, target, bias, residual, M, N, K, *out_strides, *strides, scale, slice_k, programs),
        target.device,
        **_constants(plan, activation, precision),
        A_TURNED=a_turned,
        B_TURNED=b_turned,
        **_blocks(plan),
        SUBTILES=subtiles,
        OVERLAP=overlap,
        EARLY=plan.early,
        **({"launch_pdl": True} if plan.early else {}),
        num_warps=plan.num_warps,
        num_stages=plan.num_stages,
    )


def _out_describable(out: torch.Tensor) -> bool:
    """Whether the copy engine can write a contiguous output.

    It writes 16 bytes at a time, also where a row ends before them: what lies behind the row would be overwritten.
    """
    return out.data_ptr() % ALIGNMENT == 0 and out.shape[-1] * out.element_size() % ALIGNMENT == 0


def _described(x: torch.Tensor, block_rows: int, block_columns: int) -> tuple[TensorDescriptor, bool]:
    """A descriptor of a matrix that `describable` accepts, or of its transpose, and which of the two."""
    turned, outer = _outer_stride(x)
    shape, block = list(x.shape), [block_rows, block_columns]
    if turned:
        shape, block = shape[::-1], block[::-1]
    return TensorDescriptor(x, shape, [outer, 1], block), turned


def _packed(x: torch.Tensor) -> torch.Tensor:
    """A copy of a matrix in aligned rows, or of its transpose where that lies row by row; zeros behind each row."""
    turned = x.stride(0) == 1 and x.shape[0] > 1
    rows, columns = x.shape[::-1] if turned else x.shape
    strides = x.stride()[::-1] if turned else x.stride()
    stride = triton.cdiv(columns, LINE) * LINE
    out = torch.empty((rows, stride), dtype=x.dtype, device=x.device)
    sizes = {"BLOCK_M": PACK_ROWS, "BLOCK_N": min(PACK_COLUMNS, triton.next_power_of_2(stride))}
    grid = (triton.cdiv(rows, sizes["BLOCK_M"]) * triton.cdiv(stride, sizes["BLOCK_N"]),)
    launch(wrap_triton(_pack), grid, (x, out, rows, columns, *strides, stride), **sizes, num_warps=8)
    out = out[:, :columns]
    return out.t() if turned else out


def _launch_described(kernel, grid, arguments, device, **constants):
    """`kernels.ops.library.launch` for arguments among which are descriptors."""
    if not isinstance(kernel, JITFunction):
        kernel[grid](*arguments, **constants)
        return
    key = (id(kernel), device, *map(_kind, arguments), *constants.values())
    ready = _ready.get(key)
    with torch.cuda.device(device):
        if ready is not None:
            ready[0][(*grid, 1, 1)[:3]](*arguments, *ready[1])
            return
        compiled = kernel[grid](*arguments, **constants)
    if compiled is not None:
        if len(_ready) >= MAX_READY:
            _ready.clear()
        _ready[key] = (compiled, tuple(constants[name] for name in kernel.arg_names[len(arguments) :]))


def _kind(argument: object) -> object:
    """What of an argument decides which compiled kernel serves it."""
    if hasattr(argument, "block_shape"):  # a descriptor, of Triton's or of Gluon's
        return (argument.base.dtype, *argument.block_shape)
    if isinstance(argument, torch.Tensor):
        return (argument.dtype, argument.data_ptr() % ALIGNMENT)
    return argument
