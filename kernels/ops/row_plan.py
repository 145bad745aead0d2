"""The row plan: how rows are shared out among programs, chosen in one place for every operator that reduces rows.

Five ways, by where a row's elements are between the first look at them and the last:

block   one program holds whole rows in its registers: read once.
twice   one program reads a whole row for its maximum and reads it again to write, and holds nothing in between, so that
        more programs are under way. The second time the row comes from the cache: 132 multiprocessors with a few rows
        of 64 KiB are some tens of MiB.
looped  one program walks along a row in chunks, twice: the first time for the maximum and the sum, the second time to
        write. Rows may be as wide as they like; the cache helps while the rows that are under way fit into it.
joint   a row is cut into parts, each held by one program's registers; the programs of a row publish what they found,
        wait for one another within the launch, and finish: read once, however wide. All parts of a row must be on the
        GPU at once, so there are at most as many as multiprocessors.
split   a row is cut into parts and two launches walk along them: the first leaves what it found, the second combines
        and writes. Nobody waits, so it works everywhere, Triton's interpreter included; the second read is from memory
        unless the tensor fits into the cache. (A sum needs no second look: the second launch adds the parts up.)

The rules, and what each is for. Their numbers were measured on an H200; `scripts/row_plan_grid.py` measures again.

- Up to NARROW columns: block, in tiles of NARROW elements, of several rows where they are narrower. A thread has HELD
  elements of what it holds, so two warps for softmax and four for its gradient: small programs, of which many are under
  way, and few partial results between warps.
- Wider, and no wider than MAX_BLOCK: softmax reads twice. That beats holding the row: registers that nothing is held in
  let more rows be read at the same time. Elements of two bytes arrive twice as fast, so that arithmetic shows: "twice"
  takes one exponential an element, in 8 warps. Elements of four bytes leave time for a second exponential, and looped
  finds the sum on the first walk already: chunks of CHUNK_BYTES, LOOP_BYTES of the row in each thread. The gradient
  holds two rows, so its second look would be two reads: it stays a block, half as wide.
- Wider still, or with fewer rows than multiprocessors: joint, in parts of PART_BYTES, for the gradient of PART columns,
  with 32 elements in each thread, so that programs which wait leave room for others that read; smaller parts where
  there would be too few of them.
- Where programs cannot wait, or a row has too many parts: split, PROGRAMS programs a multiprocessor in all.
- Rows side by side in memory (a transposed tensor): a program takes several of them, so that what memory delivers
  together is used together, at least a sector of SECTOR_BYTES and if it can be had a line of LINE_BYTES.
- A sum holds nothing, so only the bytes on their way count: LOOP_BYTES in each thread.
"""

import functools
from dataclasses import dataclass

import torch
import triton

from kernels.ops import checks
from kernels.ops.op import MAX_WARPS

MAX_BLOCK = 32768  # columns of a program's tile
NARROW = 1024  # columns that one program holds beside nothing else; also elements of a tile of several rows
CHUNK_BYTES = {2: 32768, 4: 65536}  # that a loop takes of a row at a time, by the size of an element
TWICE = 64  # elements in each thread of a row that is read twice, at most
LOOP_BYTES = 64  # of the row in each thread: four 16-byte loads on the way
HELD = 16  # elements in each thread of a block, over all tensors that it holds
PART = 8192  # columns of a part for the gradient, in 8 warps: 32 elements in each thread
PART_BYTES = 16384  # of a part for softmax
SMALLEST_PART = 2048
SPLIT = 4096  # columns that a program of two launches takes at a time
PROGRAMS = 16  # a multiprocessor is given, where there are not rows enough
SUM_BYTES = 16384  # of a tile of narrow rows whose sum is wanted; a quarter of it where rows are wider
LINE_BYTES = 128  # what memory delivers together, in four sectors of SECTOR_BYTES
SECTOR_BYTES = 32
TURNED_BYTES = 32768  # of a tile of rows that lie side by side: it is turned around in shared memory
TURNED_PARTS = 32
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
    path = path or _path(M, N, element_bytes, sm_count, held, side_by_side, may_wait)
    width = triton.next_power_of_2(N)
    if side_by_side and path not in ("looped", "twice"):
        block_m, block_n, warps = _turned_tile(
            path, M, width if held else min(width, NARROW), element_bytes, sm_count, block
        )
    elif path == "block":
        block_n = block or min(width, MAX_BLOCK)
        if held:
            block_m = max(1, NARROW // block_n)
            warps = block_m * block_n * held // (32 * HELD)
        else:
            tile = SUM_BYTES if block_n < NARROW else SUM_BYTES // 4
            block_m = max(1, tile // (block_n * element_bytes))
            warps = block_m * block_n * element_bytes // (32 * LOOP_BYTES)
    elif path == "twice":
        block_m, block_n = 1, block or min(width, MAX_BLOCK)
        warps = max(block_n // (32 * TWICE), min(block_n // 512, 8))
    elif path == "looped":
        block_m, block_n = 1, block or min(width, CHUNK_BYTES[element_bytes] // element_bytes)
        warps = block_n * element_bytes // (32 * LOOP_BYTES)
    elif path == "joint":
        block_m, block_n = 1, block or min(width, _part(M, N, element_bytes, sm_count, held))
        warps = max(block_n // 1024, 4)
    else:
        block_m, block_n = 1, block or min(width, SPLIT if held else SPLIT // 2)
        warps = block_n * element_bytes // (16 * LOOP_BYTES)
    parts = 1
    if path == "joint":
        parts = triton.cdiv(N, block_n)
    elif path == "split":
        groups = triton.cdiv(M or sm_count, block_m)
        parts = min(triton.cdiv(N, block_n), triton.cdiv(PROGRAMS * sm_count, groups), MAX_PARTS)
    return RowPlan(path, block_m, block_n, num_warps or min(max(warps, 2), MAX_WARPS), parts)


def _path(
    M: int | None, N: int, element_bytes: int, sm_count: int, held: int, side_by_side: bool, may_wait: bool
) -> str:
    few = M is not None and sm_count > M
    if not held:
        groups = triton.cdiv(M, LINE_BYTES // element_bytes if side_by_side else 1) if M is not None else sm_count
        if groups >= sm_count and not side_by_side:
            return "block" if N <= NARROW else "looped"
        return "split" if N > SMALLEST_PART else "block"
    if side_by_side:
        if N <= NARROW:
            return "block"
        *_, block_n = _turned_joint(N, sm_count)
        return "joint" if may_wait and triton.cdiv(N, block_n) <= sm_count else "split"
    if MAX_BLOCK // held < N or (may_wait and few and N > 4 * SMALLEST_PART):
        if may_wait and triton.cdiv(N, _part(M, N, element_bytes, sm_count, held)) <= sm_count:
            return "joint"
        return "looped" if held == 1 and not few else "split"
    if held == 2 or N <= NARROW:
        return "block"
    return "twice" if element_bytes == 2 else "looped"


def _part(M: int | None, N: int, element_bytes: int, sm_count: int, held: int) -> int:
    """Columns of a part: PART_BYTES or PART, less where M rows would leave multiprocessors idle, more where a row
    would otherwise have more parts than there are multiprocessors."""
    most = PART_BYTES // element_bytes if held == 1 else PART
    wanted = triton.cdiv(2 * sm_count, M) if M else 1
    columns = max(SMALLEST_PART, min(most, triton.next_power_of_2(triton.cdiv(N, wanted))))
    fewest = triton.next_power_of_2(triton.cdiv(N, sm_count))
    return max(columns, fewest) if fewest <= 2 * PART else columns


def _turned_joint(N: int, sm_count: int) -> tuple[int, int]:
    """Rows and columns of a part of rows that lie side by side: 32 rows, fewer where a row has too many parts."""
    block_m = 32
    block_n = min(max(triton.next_power_of_2(triton.cdiv(N, TURNED_PARTS)), 256), 512)
    while triton.cdiv(N, block_n) > sm_count and block_m > 8:
        block_m, block_n = block_m // 2, block_n * 2
    return block_m, block_n


def _turned_tile(
    path: str, M: int | None, width: int, element_bytes: int, sm_count: int, block: int | None
) -> tuple[int, int, int]:
    """Rows, columns and warps of a tile of rows that lie side by side."""
    if path == "block":
        block_n = block or min(width, MAX_BLOCK)
        block_m = TURNED_BYTES // (block_n * element_bytes)
        block_m = min(max(block_m, SECTOR_BYTES // element_bytes), LINE_BYTES // element_bytes)
    else:
        block_m, block_n = _turned_joint(width, sm_count)
        block_n = block or block_n
    block_m = min(block_m, triton.next_power_of_2(M)) if M else block_m
    return block_m, block_n, min(max(block_m * block_n // 1024, 4), 8)


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
    if plan.path in ("block", "twice") and held and not N <= plan.block_n <= MAX_BLOCK:
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
