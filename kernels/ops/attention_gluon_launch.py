"""What the Gluon kernel of attention takes, in what tiles, and who computes which tile.

Tensor maps describe the tensors as (heads, positions, D): the strides of batch and head are multiples of one step, so
that a head's coordinate is a whole number of steps, also in a view that repeats heads. A map needs an address and
strides at multiples of 16 bytes, and strides above 0. `refusal` says what does not fit; it is for the readable kernel.
"""

import heapq
import math
from dataclasses import dataclass
from functools import cache, lru_cache

import torch
import triton
from triton.experimental.gluon import language as gl
from triton.experimental.gluon.nvidia.hopper import TensorDescriptor

from kernels.ops.attention_gluon import FAR, GROUP_ROWS, _attention_ring
from kernels.ops.attention_shared import LOG2_E
from kernels.ops.library import PLAIN_TYPES

ENABLED = True  # or all is left to the readable kernel

HEADS = (64, 128)  # head sizes
DTYPES = (torch.float16, torch.bfloat16)
ROWS, FARTHEST = GROUP_ROWS.value, FAR.value
MAX_STRIDE_BYTES = 2**40
WARPS = 4  # of a consumer
NEAR = 8192  # keys: up to so many, those of four heads are worked on side by side and stay in the L2 cache


@dataclass(frozen=True)
class RingPlan:
    """How the kernel is cut up.

    groups: consumers of 64 queries each, 2 or 3. block_n: keys of a block. stages: buffers of each ring. slots: buffers
    of queries, 2 to fetch those of the next tile early. section: heads that are worked on side by side. schedule:
    "each", one program a tile, which the GPU hands out; "strided", as many programs as multiprocessors, each taking
    every so many-th tile; "planned", as many, each with a list of tiles about as long as the others' to compute.
    pingpong: whether the consumers start their products in turn. mixed: every fourth exponential is a polynomial.
    """

    groups: int = 2
    block_n: int = 128
    stages: int = 2
    slots: int = 1
    section: int = 1
    schedule: str = "each"
    pingpong: bool = False
    mixed: bool = False

    @property
    def tile_rows(self) -> int:
        return self.groups * ROWS

    @property
    def registers(self) -> tuple[int, int]:
        """Of a thread at the start, and of a consumer's thread once the producer has given up its own."""
        return (168, 240) if self.groups == 2 else (128, 160)


def plan_ring(D: int, causal: bool, Sk: int) -> RingPlan:
    """What was fastest on an H200, in two sweeps of plans.

    Heads of 64 without a mask: exponentials take longer than products, so a fourth of them is multiplied (2.4%
    faster in the sweep, whose text lost NaN; the kernel's has one product more. With heads of 128: 4% slower).
    Causal heads of 128: four side by side, with up to 4096 keys 3 to 8% faster than one after the other; with 16384
    keys that alone was measured. NEAR lies between the two.
    """
    if D == 64 and not causal:
        return RingPlan(slots=2, schedule="strided", mixed=True)
    return RingPlan(slots=2, schedule="planned", section=4 if causal and D == 128 and Sk <= NEAR else 1)


def refusal(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, scale: float) -> str | None:
    """Why the kernel cannot compute this, in words, or None where it can. Arguments that fit attention's contract."""
    if any(type(tensor) not in PLAIN_TYPES for tensor in (q, k, v)):
        return "somebody traces: there is no tensor to describe"
    B, H, Sq, D = q.shape
    Sk = k.shape[2]
    if q.dtype not in DTYPES or D not in HEADS:
        return f"head size {D} of {q.dtype}; it takes 64 and 128, in float16 and bfloat16"
    if not (B and H and Sq and Sk):
        return "an empty tensor cannot be described"
    if Sk >= FARTHEST or B * H * Sq >= 2**31:
        return "too many keys or queries for numbers of 32 bits"
    if not scale > 0:
        return f"scale {scale}; the maximum is taken before the scores are scaled, so it takes those above 0"
    if not q.is_cuda or torch.cuda.get_device_capability(q.device) != (9, 0):
        return "its instructions are those of compute capability 9.0 alone"
    return next((why for each in (q, k, v) if (why := undescribable(each)) is not None), None)


def undescribable(tensor: torch.Tensor) -> str | None:
    """Why no tensor map describes a tensor (batch, heads, positions, D), or None where one does."""
    size = tensor.element_size()
    b, h, m, column = tensor.stride()
    used = [stride for stride, extent in zip((b, h, m), tensor.shape[:3], strict=True) if extent > 1]
    if column != 1:
        return "the elements of a head do not lie side by side"
    if tensor.data_ptr() % 16 or any(stride * size % 16 for stride in used):
        return "an address or a stride is not a multiple of 16 bytes"
    if any(stride < 0 or stride * size >= MAX_STRIDE_BYTES // 4 for stride in used):
        return "a stride is negative or too large"
    if tensor.shape[2] > 1 and m == 0:
        return "one position is repeated"
    return None if as_heads(tensor)[0] < 2**31 else "batch and head strides have no common step"


def as_heads(tensor: torch.Tensor) -> tuple[int, int, int, int]:
    """(heads, step, b_steps, h_steps): head h of batch element b is number b * b_steps + h * h_steps of that many.

    step: the distance of two neighbours of these, in elements.
    """
    b, h = (stride if extent > 1 else 0 for stride, extent in zip(tensor.stride()[:2], tensor.shape[:2], strict=True))
    step = math.gcd(b, h) or tensor.shape[2] * _row_stride(tensor)
    b_steps, h_steps = b // step, h // step
    return (tensor.shape[0] - 1) * b_steps + (tensor.shape[1] - 1) * h_steps + 1, step, b_steps, h_steps


def _row_stride(tensor: torch.Tensor) -> int:
    return tensor.stride(2) if tensor.shape[2] > 1 else tensor.shape[3]


def layout_of(block: list[int]) -> gl.NVMMASharedLayout:
    """How a block of two-byte elements lies in shared memory for the copy engine and the tensor cores."""
    return gl.NVMMASharedLayout.get_default_for(block, gl.bfloat16)


def describe(tensor: torch.Tensor, rows: int, ragged: bool = False) -> TensorDescriptor:
    """A tensor map of (heads, positions, D) that brings `rows` positions of a head, or writes them where it is whole.

    The copy engine writes 16 bytes at a time, also where a row ends before them. D of HEADS is a multiple of 8
    elements, so nothing is written behind a row; what is written to is contiguous, and never ragged.

    ragged: each load says where the sequence ends, and positions behind are zero. Two more dimensions in front take an
    offset back by the wraparound of 64-bit addresses; the method of triton.tools.ragged_tma.
    """
    heads, step, *_ = as_heads(tensor)
    m, D = _row_stride(tensor), tensor.shape[3]
    shape, strides, block = [heads, tensor.shape[2], D], [step, m, 1], [1, rows, D]
    if ragged:
        shape, strides = [2**31 - 2**16, 2**31 - 2**16, heads, FARTHEST, D], [2**34 - m, m, *strides]
        block = [1, 1, *block]
    return TensorDescriptor(tensor, shape, strides, block, layout_of(block))


def blocks_of(first: int, Sq: int, Sk: int, causal: bool, window: int, tile_rows: int, block_n: int) -> int:
    """How many blocks of keys the tile that begins at query `first` walks along, if no sequence is shorter than Sk."""
    shift, last = Sk - Sq, min(first + tile_rows, Sq) - 1
    end = min(max(last + shift + 1, 0), Sk) if causal else Sk
    begin = max(first + shift - window + 1, 0) // block_n if window else 0
    return max(triton.cdiv(end, block_n) - begin, 1)


@lru_cache(maxsize=256)
def planned_order(
    heads: int, Sq: int, Sk: int, causal: bool, window: int, plan: RingPlan, programs: int
) -> tuple[int, ...]:
    """Where each program's list begins, then where the last one ends, then the lists one after the other, then a zero.

    Tiles are dealt in the order of their numbers, each to the program that would be done first with what it has; only
    the last four for each program go by their size, the largest first, so that all end at about the same time.
    """
    blocks = triton.cdiv(Sq, plan.tile_rows)

    def cost(tile: int) -> int:
        section = tile // (blocks * plan.section) * plan.section
        block = blocks - 1 - tile % (blocks * plan.section) // min(heads - section, plan.section)
        walked = blocks_of(block * plan.tile_rows, Sq, Sk, causal, window, plan.tile_rows, plan.block_n)
        return walked + 1  # to begin and to end a tile takes about as long as a block

    tiles = list(range(heads * blocks))
    early = max(len(tiles) - 4 * programs, 0)
    lists: list[list[int]] = [[] for _ in range(programs)]
    load = [(0, program) for program in range(programs)]
    for tile in tiles[:early] + sorted(tiles[early:], key=cost, reverse=True):
        busy, program = load[0]
        lists[program].append(tile)
        heapq.heapreplace(load, (busy + cost(tile), program))
    starts = [programs + 1]
    for mine in lists:
        starts.append(starts[-1] + len(mine))
    return (*starts, *(tile for mine in lists for tile in mine), 0)


# All lists are kept, four bytes a tile: a captured CUDA graph has only the address of its list, and memory that a list
# gave back would be somebody else's when the graph is replayed.
@cache
def _order_on(device: torch.device, *work: object) -> torch.Tensor:
    return torch.tensor(planned_order(*work), dtype=torch.int32, device=device)


def arguments(q, k, v, out, lse, lengths, order, causal, window, scale, plan: RingPlan) -> tuple[tuple, dict]:
    """The kernel's arguments, in its order, and its constants. Where it takes no order or no lengths, lse stands."""
    ragged = lengths is not None
    values = (
        describe(q, ROWS),
        describe(k, plan.block_n),
        describe(v, plan.block_n, ragged),
        describe(out, ROWS),
        lse,
        lse if order is None else order,
        lengths if ragged else lse,
        q.shape[0] * q.shape[1],
        q.shape[1],
        q.shape[2],
        k.shape[2],
        q.shape[1] // k.shape[1],
        scale * LOG2_E,
        *(steps for each in (q, k, v) for steps in as_heads(each)[2:]),
    )
    constants = {
        "GROUPS": plan.groups,
        "STAGES": plan.stages,
        "SLOTS": plan.slots,
        "SECTION": plan.section,
        "PLANNED": order is not None,
        "CAUSAL": causal,
        "WINDOW": window,
        "RAGGED": ragged,
        "PINGPONG": plan.pingpong,
        "MIXED": plan.mixed,
        "REGISTERS": plan.registers[1],
    }
    return values, constants


def launch_ring(q, k, v, out, lse, lengths, causal: bool, window: int, scale: float, plan: RingPlan | None = None):
    """Write attention's out and lse, as `kernels.ops.attention._launch` does, for what `refusal` has nothing against.

    out: (B, H, Sq, D), contiguous. lse: (B, H, Sq), float32. lengths: int32, contiguous, or None.
    """
    B, H, Sq, D = q.shape
    plan = plan_ring(D, causal, k.shape[2]) if plan is None else plan
    programs, order = B * H * triton.cdiv(Sq, plan.tile_rows), None
    if plan.schedule != "each":
        programs = min(programs, torch.cuda.get_device_properties(q.device).multi_processor_count)
    if plan.schedule == "planned":
        order = _order_on(q.device, B * H, Sq, k.shape[2], causal, window, plan, programs)
    values, constants = arguments(q, k, v, out, lse, lengths, order, causal, window, scale, plan)
    with torch.cuda.device(q.device):
        _attention_ring[(programs,)](*values, **constants, num_warps=WARPS, maxnreg=plan.registers[0])
