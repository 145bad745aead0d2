"""Advice: accesses that are right, and cost more than they need to. Global memory by sectors, shared memory by banks.

What is counted. A request moves whole sectors of 32 bytes; a line of the source needs at least as many as its requests'
bytes fill, and at least one for each sector that it touches at all: a kernel that reads one column of a matrix cannot
do better, and gets no advice. A shared request takes one pass over the 32 banks for each 128 bytes at best (a half
warp of 8-byte accesses, a quarter warp of 16-byte ones), and one more for each further word of the same bank. Caches
are left out. Atomics are left out: the hardware combines those to one address.

Thresholds. `UNCOALESCED`: twice the sectors, and more than one sector a request too many, because a dense run of bytes
that begins in the middle of a sector costs one more, and no index arithmetic saves that one. `CONFLICTS`: half as many
passes again. `FEW_LANES`: a request of fewer lanes than a sector has 4-byte words is a tail; its lanes could share one
sector, and whatever they waste is less than a full request wastes.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from math import gcd
from typing import TYPE_CHECKING

import numpy as np

from kernels.trace.faults import VERBS, Fault, capital, mask_of, shown_place
from kernels.trace.keys import group_numbers
from kernels.trace.model import ATOMIC, KINDS, WARP_SIZE
from kernels.trace.requests import BANK_BYTES, BANKS, SECTOR_BYTES
from kernels.trace.views import RequestTable, request_table

if TYPE_CHECKING:
    from kernels.trace.model import Trace

# What each kind of advice says in one line.
ADVICE = {
    "uncoalesced": "a warp's lanes spread over more sectors than their bytes fill",
    "bank-conflict": "lanes need different words of one bank of shared memory, and wait for each other",
}
UNCOALESCED, CONFLICTS, FEW_LANES = 2.0, 1.5, SECTOR_BYTES // BANK_BYTES


@dataclass(frozen=True)
class Advice(Fault):
    """Advice on one source line; the fields of a verdict, and:

    `element` and `who` are those of the worst request, `count` how many requests the line makes. `moved` counts the
    sectors (or the passes over the banks) of them all and `needed` how many would do; `degree` is moved over needed,
    `threshold` the degree from which on advice is given. `worst` is what the worst request takes: its sectors, or the
    most words that one bank must give it. `efficiency` is the part of the moved bytes that was asked for, or of the
    passes that were needed, in (0, 1]. `remedy` says what would be right.
    """

    moved: int = 0
    needed: int = 0
    worst: int = 0
    degree: float = 1.0
    efficiency: float = 1.0
    threshold: float = 1.0
    remedy: str = ""


def advice(trace: Trace) -> list[Advice]:
    """Advice on every line that is worth it; first the line that moves most sectors, or makes most passes, for nothing.

    The two are put in one order because they cost alike: the memory of an H200 gives each of its 132 SMs about 20 bytes
    a cycle, most of a sector, and an SM makes one pass a cycle.
    """
    table = request_table(trace.rows(trace.columns["what"] != ATOMIC))
    if not len(table):
        return []
    shared = np.array([buffer.space == "shared" for buffer in trace.buffers])[table.buffer]
    touched = _touched(table)
    found = []
    line = group_numbers([table.launch, table.site, table.buffer, table.kind])[0]
    full = np.flatnonzero(table.lanes >= FEW_LANES)
    full = full[np.argsort(line[full], kind="stable")]
    for requests in np.split(full, np.flatnonzero(np.diff(line[full])) + 1) if len(full) else ():
        found += _conflicts(table, requests) if shared[requests[0]] else _uncoalesced(table, requests, touched)
    return sorted(found, key=lambda item: item.needed - item.moved)


def _rows(table: RequestTable, request: int) -> np.ndarray:
    """The rows of `table.trace` that a request is made of, lane by lane."""
    first = int(table.lanes[:request].sum())
    return np.arange(first, first + int(table.lanes[request]))


def _touched(table: RequestTable) -> Callable[[np.ndarray], int]:
    """Counts the distinct sectors of some requests."""
    column, buffers = table.trace.columns, table.trace.buffers
    base, item = (np.array([getattr(buffer, name) for buffer in buffers]) for name in ("address", "itemsize"))
    owner = np.repeat(np.arange(len(table)), table.lanes)

    def count(requests: np.ndarray) -> int:
        mine = np.zeros(len(table), bool)
        mine[requests] = True
        rows = np.flatnonzero(mine[owner])
        where = column["buffer"][rows]
        first = base[where] + column["element"][rows] * item[where]
        last = first + column["size"][rows] - 1
        sectors = [(first + step) // SECTOR_BYTES for step in range(0, int((last - first).max()) + 1, SECTOR_BYTES)]
        return len(np.unique(np.concatenate([*sectors, last // SECTOR_BYTES])))

    return count


def _uncoalesced(table: RequestTable, requests: np.ndarray, touched: Callable[[np.ndarray], int]) -> list[Advice]:
    """Advice on the requests of one line to global memory, if it is worth it."""
    sectors, useful = table.sectors[requests], table.useful_bytes[requests]
    ideal = -(-useful // SECTOR_BYTES)
    moved, needed = int(sectors.sum()), int(ideal.sum())
    if moved < UNCOALESCED * needed or moved <= needed + len(requests):
        return []
    needed = max(needed, touched(requests))
    if moved < UNCOALESCED * needed or moved <= needed + len(requests):
        return []
    worst = int(np.argmax(sectors - ideal))
    wide = f"{sectors[worst]} sectors of {SECTOR_BYTES} bytes, where {ideal[worst]} would do"
    efficiency = float(useful.sum() / (SECTOR_BYTES * moved))
    numbers = (moved, needed, int(sectors[worst]), efficiency, UNCOALESCED)
    worst = int(requests[worst])
    return [_advice(table, "uncoalesced", worst, len(requests), numbers, wide, "sectors", *_why_spread(table, worst))]


def _conflicts(table: RequestTable, requests: np.ndarray) -> list[Advice]:
    """Advice on the requests of one line to shared memory, if it is worth it."""
    passes, ideal = table.wavefronts[requests], table.ideal_wavefronts[requests]
    moved, needed = int(passes.sum()), int(ideal.sum())
    if moved < CONFLICTS * needed:
        return []
    worst = int(np.argmax(passes - ideal))
    wide = f"{passes[worst]} passes over the banks, where {ideal[worst]} would do"
    worst = int(requests[worst])
    numbers = (moved, needed, int(table.conflict_degree[worst]), needed / moved, CONFLICTS)
    return [
        _advice(table, "bank-conflict", worst, len(requests), numbers, wide, "passes", *_why_one_bank(table, worst))
    ]


def _advice(
    table: RequestTable,
    kind: str,
    worst: int,
    requests: int,
    numbers: tuple[int, int, int, float, float],
    wide: str,
    unit: str,
    cause: str,
    remedy: str,
) -> Advice:
    trace, row = table.trace, int(_rows(table, worst)[0])
    column = trace.columns
    launch, buffer = trace.launches[column["launch"][row]], trace.buffers[column["buffer"][row]]
    file, line = trace.sites[column["site"][row]]
    thread, lanes = int(column["thread"][row]), int(table.lanes[worst])
    who = launch.who(int(column["block"][row])) + (f", warp {thread // WARP_SIZE}" if thread >= 0 else "")
    moved, needed, most, efficiency, threshold = numbers
    verb = VERBS[KINDS[column["what"][row]]]
    people = "lanes" if thread >= 0 else "elements"
    total = f"{requests} requests make" if unit == "passes" else f"{requests} requests move"
    if requests == 1:
        total = total.replace("requests make", "request makes").replace("requests move", "request moves")
    sentence = (
        f"{capital(who)} {verb} {buffer.name} by {lanes} {people} of {int(table.size[worst])} bytes in {wide}. "
        f"Line: {shown_place(file, line)}. There {total} {moved} {unit}, {moved / needed:.1f} times as many as needed "
        f"(efficiency {efficiency:.1%}). Likely cause: {cause}. What would be right: {remedy}."
    )
    return Advice(
        kind,
        sentence,
        buffer.name,
        int(column["element"][row]),
        who,
        file,
        line,
        requests,
        cause,
        **mask_of(trace, row),
        moved=moved,
        needed=needed,
        worst=most,
        degree=moved / needed,
        efficiency=efficiency,
        threshold=threshold,
        remedy=remedy,
    )


def _step(table: RequestTable, request: int) -> int | None:
    """How many elements neighbouring lanes of a request are apart, None where no one step holds for them all."""
    column, rows = table.trace.columns, _rows(table, request)
    threads = column["thread"][rows].astype(np.int64)
    apart = np.diff(threads) if threads[0] >= 0 else np.ones(len(rows) - 1, np.int64)
    steps, rest = np.divmod(np.diff(column["element"][rows].astype(np.int64)), np.maximum(apart, 1))
    if not len(steps) or rest.any() or (steps != steps[0]).any():
        return None
    return abs(int(steps[0]))


def _walks(table: RequestTable, request: int) -> bool:
    """Whether the first lane of a request goes on to the neighbouring element at its next pass through the line."""
    column, row = table.trace.columns, int(_rows(table, request)[0])
    same = np.ones(len(column["block"]), bool)
    for name in ("launch", "site", "buffer", "what", "size", "block", "thread"):
        same &= column[name] == column[name][row]
    order = np.argsort(column["sequence"][same])
    steps = np.diff(column["element"][same][order])
    itemsize = table.trace.buffers[column["buffer"][row]].itemsize
    return bool(len(steps)) and 2 * int((np.abs(steps) * itemsize == table.size[request]).sum()) > len(steps)


def _why_spread(table: RequestTable, request: int) -> tuple[str, str]:
    buffer, step = table.trace.buffers[table.buffer[request]], _step(table, request)
    if table.trace.launches[table.launch[request]].language == "triton":
        return _why_spread_in_triton(table, request, step)
    if step is None:
        return (
            "the lanes' elements follow no fixed step: an index that was read from memory, or a division in it",
            "sort the work, so that neighbouring lanes take neighbouring elements, or gather through shared memory",
        )
    column_wise = len(buffer.shape) > 1 and step in buffer.strides[:-1] and step > 1
    if column_wise and _walks(table, request):
        return (
            f"each lane walks along a row of its own, so at each step the lanes are a row apart ({step} elements)",
            "give a row to a warp or a block, and deal its columns out to the lanes",
        )
    if column_wise:
        return (
            f"neighbouring lanes are a row apart ({step} elements): threadIdx.x runs down a column",
            "swap the roles of x and y, so that threadIdx.x runs along the row; a transpose, which needs both, goes "
            "through a tile in shared memory",
        )
    if _walks(table, request):
        return (
            f"each thread walks a piece of its own, {step} elements from its neighbour's",
            "deal the elements out like cards (thread t takes t, then t + blockDim.x), or read a piece by one float4",
        )
    return (
        f"neighbouring lanes are {step} elements apart",
        "let neighbouring lanes take neighbouring elements; for the fields of a structure, one array a field",
    )


def _why_spread_in_triton(table: RequestTable, request: int, step: int | None) -> tuple[str, str]:
    apart = f"lie {step} elements apart" if step else "lie apart, at no fixed step"
    if table.warp[request] >= 0 and step and _walks(table, request):
        return (
            f"the compiler gave each thread {step} neighbouring elements, and moves them one by one: "
            "it cannot tell that they may be moved at once",
            "sizes and strides that are multiples of 16, which Triton then counts on, or a promise by tl.multiple_of "
            "and tl.max_contiguous; for a ragged size there is none to give, and only the caches help",
        )
    people = "the lanes' elements" if table.warp[request] >= 0 else "the elements of one access"
    return (
        f"{people} {apart}",
        "let a program own neighbouring elements, so that the offsets of its last axis run along the axis of stride 1",
    )


def _banks(words: int) -> str:
    reached = BANKS // gcd(words, BANKS)
    return "one bank" if reached == 1 else f"{reached} of the {BANKS} banks"


def _why_one_bank(table: RequestTable, request: int) -> tuple[str, str]:
    buffer, step = table.trace.buffers[table.buffer[request]], _step(table, request)
    if not step:
        return (
            "the lanes reach different words of one bank, at no fixed step",
            "let neighbouring lanes take neighbouring words",
        )
    words = max(1, step * buffer.itemsize // BANK_BYTES)
    if len(buffer.shape) > 1 and step == buffer.strides[-2]:
        size = buffer.shape[-1]
        return (
            f"the lanes run down a column of {buffer.name}, whose rows are {words} words long, "
            f"and meet in {_banks(words)}",
            f"pad each row by one column: `{buffer.name}[{buffer.shape[-2]}][{size} + 1]`",
        )
    return (
        f"neighbouring lanes are {words} words apart, and meet in {_banks(words)}",
        "let neighbouring lanes take neighbouring words, or make the step odd by padding",
    )
