"""The row plan: how rows are shared out among programs, chosen in one place for every operator that reduces rows.

Four ways, by where a row's elements are between the first look at them and the last:

block   one program holds whole rows in its registers: read once. Narrow rows come several to a program, so that a
        program has enough to do; a row is at most MAX_BLOCK wide, which is what the registers of 32 warps hold.
looped  one program walks along a row in chunks, twice. The second time the row comes from the cache while the rows
        that are under way fit into it: 132 multiprocessors with rows of 64 KiB are 8 MiB. One chunk may hold a whole
        row, and that is often the fastest: nothing is held between the walks, so more programs are under way.
joint   a row is cut into parts, each held by one program's registers; the programs of a row publish what they found,
        wait for one another within the launch, and finish: read once, however wide. All parts of a row must be on the
        GPU at once, so there are at most as many as multiprocessors.
split   a row is cut into parts and two launches walk along them: the first leaves what it found, the second combines
        and writes. Nobody waits, so it works everywhere, Triton's interpreter included; the second read is from memory
        unless the tensor fits into the cache. (A sum needs no second look: whoever comes last adds the parts up.)

What decides:
- the width, rounded up to a power of two, because a block is one;
- the element's size, because a thread should have THREAD_BYTES on the way, whatever they hold;
- the rows and the multiprocessors: fewer rows than multiprocessors leave some of the GPU idle unless rows are cut;
- whether rows lie side by side (a transposed tensor): then a program takes as many rows as fill LINE_BYTES, so that
  what memory delivers together is used together.
"""

import functools
from dataclasses import dataclass

import torch
import triton

from kernels.ops import checks
from kernels.ops.op import MAX_WARPS

MAX_BLOCK = 32768  # columns; 32 warps hold 32 elements in each thread
THREAD_BYTES = 64  # of the row in each thread: four 16-byte loads in flight
NARROW_TILE = 2048  # elements a program takes together, from whole rows of up to 512 columns
PART = 16384  # columns of a part, where there are rows enough
SMALLEST_PART = 2048
SIDE_BY_SIDE_TILE = 16384  # elements; turning a tile around takes shared memory, and 64 KiB is what every GPU has
LINE_BYTES = 128
MAX_PARTS = 4096  # of a row in two launches; the second one looks at all of them
INTERPRETER_SM_COUNT = 132  # what a plan for a CPU tensor assumes, so that pages show the plan of a large GPU
MAX_PROGRAMS = 2**31 - 1  # of a launch, in its first dimension


@dataclass(frozen=True)
class RowPlan:
    """How a launch shares out rows: the path, a program's tile in elements, its warps, and the parts of a row."""

    path: str
    block_m: int
    block_n: int
    num_warps: int
    parts: int = 1


@functools.cache
def plan_rows(
    M: int | None,
    N: int,
    element_bytes: int,
    sm_count: int,
    held: int = 1,
    side_by_side: bool = False,
    may_wait: bool = True,
    path: str | None = None,
    block: int | None = None,
    num_warps: int | None = None,
) -> RowPlan:
    """The plan for M rows of N elements; M is None for "many", where a graph is to serve every number of rows.

    held: how many tensors a program needs again once it knows the row: 1 for softmax, 2 for its gradient, 0 for a sum,
    which takes no second look. side_by_side: neighbouring rows are closer in memory than neighbouring columns.
    may_wait: programs of one launch run at the same time, as on a GPU and not in the interpreter. A path, block
    (columns) or num_warps that is given is kept as it is; the launchers check it.
    """
    width, share = triton.next_power_of_2(N), max(held, 1)
    part = _part(M, N, sm_count, share)
    path = path or _path(M, N, element_bytes, sm_count, held, side_by_side, may_wait)
    block_m = 1
    if side_by_side and path != "looped":
        tile = SIDE_BY_SIDE_TILE // share
        block_m = min(LINE_BYTES // element_bytes, triton.next_power_of_2(M) if M else LINE_BYTES)
        if path == "block" and held:
            block_m = min(block_m, max(tile // (block or width), 1))
        block_n = block or (width if path == "block" and held else min(width, tile // block_m))
    elif path == "block":
        block_n = block or min(width, MAX_BLOCK)
        block_m = max(1, NARROW_TILE // block_n) if block_n < 1024 else 1
    elif path == "looped":
        block_n = block or min(width, MAX_WARPS * 32 * THREAD_BYTES // element_bytes)
    else:
        block_n = block or min(width, part)
    parts = 1
    if path == "joint":
        parts = triton.cdiv(N, block_n)
    elif path == "split":
        groups = triton.cdiv(M or sm_count, block_m)
        parts = min(triton.cdiv(N, block_n), triton.cdiv(4 * sm_count, groups), MAX_PARTS)
    tile_bytes = block_m * block_n * element_bytes * share
    warps = num_warps or min(max(tile_bytes // (32 * THREAD_BYTES), 4), MAX_WARPS)
    return RowPlan(path, block_m, block_n, warps, parts)


def _path(
    M: int | None, N: int, element_bytes: int, sm_count: int, held: int, side_by_side: bool, may_wait: bool
) -> str:
    few = M is not None and sm_count > M
    width, share = triton.next_power_of_2(N), max(held, 1)
    line = LINE_BYTES // element_bytes
    if not held:
        groups = 1 if M is None else triton.cdiv(M, line if side_by_side else 1)
        if (M is None or groups >= sm_count) and not side_by_side:
            return "block" if N <= 1024 else "looped"
        return "split" if N > SMALLEST_PART else "block"
    if side_by_side:
        tile = SIDE_BY_SIDE_TILE // share
        if width * line <= 2 * tile:  # half a line at a time is still whole sectors
            return "block"
        return "joint" if may_wait and triton.cdiv(N, tile // line) <= sm_count else "split"
    if MAX_BLOCK // share < N or (may_wait and few and N > 4 * SMALLEST_PART):
        if may_wait and triton.cdiv(N, _part(M, N, sm_count, share)) <= sm_count:
            return "joint"
        return "looped" if held == 1 and not few else "split"
    return "looped" if held == 1 and element_bytes == 4 and N > 1024 else "block"


def _part(M: int | None, N: int, sm_count: int, share: int) -> int:
    """Columns of a part: PART, less where M rows would leave multiprocessors idle, more where a row would otherwise
    have more parts than there are multiprocessors."""
    wanted = triton.cdiv(2 * sm_count, M) if M else 1
    columns = max(SMALLEST_PART, min(PART, triton.next_power_of_2(triton.cdiv(N, wanted)))) // share
    fewest = triton.next_power_of_2(triton.cdiv(N, sm_count))
    return max(columns, fewest) if fewest <= MAX_BLOCK // share else columns


@functools.cache
def sm_count(device: torch.device) -> int:
    """Multiprocessors of a device; INTERPRETER_SM_COUNT for one that is not a GPU."""
    if device.type != "cuda":
        return INTERPRETER_SM_COUNT
    return torch.cuda.get_device_properties(device).multi_processor_count


def plan_for(
    x: torch.Tensor,
    path: str | None = None,
    block: int | None = None,
    num_warps: int | None = None,
    held: int = 1,
) -> RowPlan:
    """The plan for a (M, N) tensor. While torch.compile traces, a number of rows that is a symbol counts as many, so
    that one graph serves all of them."""
    M, N = x.shape
    return plan_rows(
        M if type(M) is int else None,
        int(N),
        x.element_size(),
        sm_count(x.device),
        held,
        bool(x.stride(0) < x.stride(1)) and M > 1,
        x.is_cuda,
        path,
        block,
        num_warps,
    )


def require_choice(
    x: torch.Tensor, path: str | None, block: int | None, num_warps: int | None, paths: tuple[str, ...], held: int = 1
) -> None:
    """A launcher's choices must be possible for `x` (M, N); ValueError with a sentence otherwise."""
    if path not in (None, *paths):
        known = ", ".join(f'"{name}"' for name in paths)
        raise ValueError(f"path is {path!r}; expected {known} or None.")
    if block is not None:
        checks.require_power_of_two("block", block, MAX_BLOCK)
    if num_warps is not None:
        checks.require_power_of_two("num_warps", num_warps, MAX_WARPS)
    if x.numel() == 0:
        return
    M, N = x.shape
    plan, most = plan_for(x, path, block, num_warps, held), sm_count(x.device)
    if plan.path == "block" and held and not N <= plan.block_n <= MAX_BLOCK:
        wider = f'expected at least {N}, or path="{paths[-1]}"'
        raise ValueError(f"block is {min(plan.block_n, MAX_BLOCK)} for rows of {N} elements; {wider}.")
    if plan.path == "joint" and not x.is_cuda:
        raise ValueError(
            'path is "joint" on the CPU, where programs run one after the other and cannot wait for one another; '
            'expected path="split".'
        )
    if plan.path == "joint" and plan.parts > most:
        raise ValueError(
            f'path is "joint" with rows of {plan.parts} parts on a GPU of {most} multiprocessors, where not all of '
            f'them run at once; expected at most {most} parts: a larger block, or path="split".'
        )
    programs = triton.cdiv(M, plan.block_m) * plan.parts
    if programs > MAX_PROGRAMS:
        raise ValueError(f"x has shape ({M}, {N}), which takes {programs} programs; expected at most {MAX_PROGRAMS}.")
