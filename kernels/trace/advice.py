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

from dataclasses import dataclass
from math import gcd
from typing import TYPE_CHECKING

import numpy as np

from kernels.trace.faults import VERBS, Fault, capital, mask_of, shown_place
from kernels.trace.model import ATOMIC, KINDS, WARP_SIZE
from kernels.trace.requests import BANK_BYTES, BANKS, SECTOR_BYTES

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
    found = []
    for space, look in (("global", _uncoalesced), ("shared", _conflicts)):
        rows = trace.select(space=space, active=True)
        rows = rows.rows(rows.columns["what"] != ATOMIC)
        if len(rows):
            found += look(_Requests(rows))
    return sorted(found, key=lambda item: item.needed - item.moved)


class _Requests:
    """Accesses of one kind of memory, grouped into requests: `group` numbers them, `line` is the source line of each.

    Rows are sorted by request and lane. Lanes meet as in `kernels.trace.requests`.
    """

    def __init__(self, trace: Trace) -> None:
        column = trace.columns
        same = [column[name] for name in ("launch", "site", "buffer", "what")]
        sized = _number([*same, column["size"]])
        places = _number([sized, column["block"]])
        one_by_one = np.array([launch.language != "triton" for launch in trace.launches])[column["launch"]]
        own = _number([places, column["thread"]])
        turn = np.where(one_by_one & (column["thread"] >= 0), _rank(own), column["sequence"])
        group = _number([places, trace.warps, turn])
        order = np.lexsort((column["thread"], group))
        self.trace = trace.rows(order)
        column = self.trace.columns
        self.group = group[order]
        starts = np.flatnonzero(np.diff(self.group, prepend=-1))
        self.starts, self.ends = starts, np.append(starts[1:], len(order))
        self.line = _number([column[name][starts] for name in ("launch", "site", "buffer", "what")])
        self.size = column["size"][starts].astype(np.int64)
        self.full = self.ends - starts >= FEW_LANES
        address, item = (np.array([getattr(b, name) for b in trace.buffers]) for name in ("address", "itemsize"))
        self.address = address[column["buffer"]] + column["element"] * item[column["buffer"]]
        threads = column["thread"].astype(np.int64)
        self.lane = np.where(threads >= 0, threads % WARP_SIZE, np.arange(len(order)) - starts[self.group])

    def lines(self) -> list[np.ndarray]:
        """The numbers of the full requests of each source line."""
        order = np.argsort(self.line, kind="stable")
        order = order[self.full[order]]
        return np.split(order, np.flatnonzero(np.diff(self.line[order])) + 1) if len(order) else []

    def spread(self, unit: int) -> tuple[np.ndarray, np.ndarray]:
        """Row and number of each unit of so many bytes that a row touches."""
        size = self.trace.columns["size"]
        first, last = self.address // unit, (self.address + size - 1) // unit
        width = last - first + 1
        row = np.repeat(np.arange(len(first)), width)
        return row, first[row] + np.arange(len(row)) - np.repeat(np.cumsum(width) - width, width)


def _number(columns: list[np.ndarray]) -> np.ndarray:
    """Numbers the distinct combinations from 0, in ascending order of the combination."""
    number = np.zeros(len(columns[0]), np.int64)
    for column in columns:
        values = np.asarray(column, np.int64)
        low = values.min()
        # Counting beats sorting; the range of one column is small nearly always.
        span = int(values.max() - low) + 1
        if (int(number.max()) + 1) * span >= 2**62:
            _, values = np.unique(values, return_inverse=True)
            low, span = 0, int(values.max()) + 1
        number = number * span + (values.reshape(-1) - low)
        if number.max() < 4 * len(number) + 1024:
            seen = np.zeros(int(number.max()) + 1, bool)
            seen[number] = True
            number = (np.cumsum(seen) - 1)[number]
        else:
            number = np.unique(number, return_inverse=True)[1].reshape(-1)
    return number


def _rank(key: np.ndarray) -> np.ndarray:
    """Position of each row among those of equal key, in the order of the rows (which are in sequence)."""
    order = np.argsort(key, kind="stable")
    starts = np.flatnonzero(np.diff(key[order], prepend=-1))
    rank = np.empty(len(order), np.int64)
    rank[order] = np.arange(len(order)) - np.repeat(starts, np.diff(np.append(starts, len(order))))
    return rank


def _distinct(first: np.ndarray, second: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The distinct pairs, sorted."""
    low = second.min()
    span = int(second.max() - low) + 1
    if (int(first.max()) + 1) * span < 2**62:
        pairs = np.unique(first.astype(np.int64) * span + (second - low))
        return pairs // span, pairs % span + low
    pairs = np.unique(np.stack([first, second], axis=1), axis=0)
    return pairs[:, 0], pairs[:, 1]


def _uncoalesced(made: _Requests) -> list[Advice]:
    row, sector = made.spread(SECTOR_BYTES)
    group, sector = _distinct(made.group[row], sector)
    sectors = np.bincount(group, minlength=len(made.starts))
    asked, _ = _distinct(made.group, made.address)
    useful = np.bincount(asked, minlength=len(made.starts)) * made.size
    ideal = -(-useful // SECTOR_BYTES)
    full = made.full[group]
    line, _ = _distinct(made.line[group[full]], sector[full]) if full.any() else (group[:0], None)
    touched = np.bincount(line, minlength=int(made.line.max()) + 1)
    found = []
    for requests in made.lines():
        moved = int(sectors[requests].sum())
        needed = max(int(ideal[requests].sum()), int(touched[made.line[requests[0]]]))
        if moved < UNCOALESCED * needed or moved <= needed + len(requests):
            continue
        worst = int(requests[np.argmax(sectors[requests] - ideal[requests])])
        efficiency = float(useful[requests].sum() / (SECTOR_BYTES * moved))
        wide = f"{int(sectors[worst])} sectors of {SECTOR_BYTES} bytes, where {int(ideal[worst])} would do"
        cause, remedy = _why_spread(made, worst)
        numbers = (moved, needed, int(sectors[worst]), efficiency, UNCOALESCED)
        found.append(_advice(made, "uncoalesced", worst, len(requests), numbers, wide, "sectors", cause, remedy))
    return found


def _conflicts(made: _Requests) -> list[Advice]:
    row, word = made.spread(BANK_BYTES)
    size = made.trace.columns["size"].astype(np.int64)
    width = WARP_SIZE // np.maximum(1, size // BANK_BYTES)
    phase = made.group * WARP_SIZE + made.lane // np.maximum(1, width)
    phase, word = _distinct(phase[row], word)
    key, words = np.unique(phase * BANKS + word % BANKS, return_counts=True)
    phases = np.flatnonzero(np.diff(key // BANKS, prepend=-1))
    most, group = np.maximum.reduceat(words, phases), key[phases] // BANKS // WARP_SIZE
    count = len(made.starts)
    passes, ideal = np.bincount(group, most, count).astype(np.int64), np.bincount(group, minlength=count)
    degree = np.zeros(count, np.int64)
    np.maximum.at(degree, group, most)
    found = []
    for requests in made.lines():
        moved, needed = int(passes[requests].sum()), int(ideal[requests].sum())
        if moved < CONFLICTS * needed:
            continue
        worst = int(requests[np.argmax(passes[requests] - ideal[requests])])
        wide = f"{int(passes[worst])} passes over the banks, where {int(ideal[worst])} would do"
        cause, remedy = _why_one_bank(made, worst)
        numbers = (moved, needed, int(degree[worst]), needed / moved, CONFLICTS)
        found.append(_advice(made, "bank-conflict", worst, len(requests), numbers, wide, "passes", cause, remedy))
    return found


def _advice(
    made: _Requests,
    kind: str,
    worst: int,
    requests: int,
    numbers: tuple[int, int, int, float, float],
    wide: str,
    unit: str,
    cause: str,
    remedy: str,
) -> Advice:
    trace, row = made.trace, int(made.starts[worst])
    column = trace.columns
    launch, buffer = trace.launches[column["launch"][row]], trace.buffers[column["buffer"][row]]
    file, line = trace.sites[column["site"][row]]
    thread, lanes = int(column["thread"][row]), int(made.ends[worst] - row)
    who = launch.who(int(column["block"][row])) + (f", warp {thread // WARP_SIZE}" if thread >= 0 else "")
    moved, needed, most, efficiency, threshold = numbers
    verb = VERBS[KINDS[column["what"][row]]]
    people = "lanes" if thread >= 0 else "elements"
    total = f"{requests} requests make" if unit == "passes" else f"{requests} requests move"
    if requests == 1:
        total = total.replace("requests make", "request makes").replace("requests move", "request moves")
    sentence = (
        f"{capital(who)} {verb} {buffer.name} by {lanes} {people} of {int(made.size[worst])} bytes in {wide}. "
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


def _step(made: _Requests, request: int) -> int | None:
    """How many elements neighbouring lanes of a request are apart, None where no one step holds for them all."""
    rows = slice(made.starts[request], made.ends[request])
    lanes, elements = made.lane[rows], made.trace.columns["element"][rows].astype(np.int64)
    apart = np.diff(lanes)
    steps, rest = np.divmod(np.diff(elements), np.maximum(apart, 1))
    if not len(steps) or rest.any() or (steps != steps[0]).any():
        return None
    return abs(int(steps[0]))


def _walks(made: _Requests, request: int) -> bool:
    """Whether the first lane of a request goes on to the neighbouring element at its next pass through the line."""
    column, row = made.trace.columns, int(made.starts[request])
    same = np.ones(len(column["block"]), bool)
    for name in ("launch", "site", "buffer", "what", "size", "block", "thread"):
        same &= column[name] == column[name][row]
    order = np.argsort(column["sequence"][same])
    steps = np.diff(column["element"][same][order])
    itemsize = made.trace.buffers[column["buffer"][row]].itemsize
    return bool(len(steps)) and 2 * int((np.abs(steps) * itemsize == made.size[request]).sum()) > len(steps)


def _why_spread(made: _Requests, request: int) -> tuple[str, str]:
    row = int(made.starts[request])
    column = made.trace.columns
    buffer, step = made.trace.buffers[column["buffer"][row]], _step(made, request)
    if column["thread"][row] < 0:
        apart = f"lie {step} elements apart" if step else "lie apart"
        return (
            f"the elements of one access {apart}",
            "let a program own neighbouring elements, so that its offsets run along the axis of stride 1",
        )
    if step is None:
        return (
            "the lanes' elements follow no fixed step: an index that was read from memory, or a division in it",
            "sort the work, so that neighbouring lanes take neighbouring elements, or gather through shared memory",
        )
    column_wise = len(buffer.shape) > 1 and step in buffer.strides[:-1] and step > 1
    if column_wise and _walks(made, request):
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
    if _walks(made, request):
        return (
            f"each thread walks a piece of its own, {step} elements from its neighbour's",
            "deal the elements out like cards (thread t takes t, then t + blockDim.x), or read a piece by one float4",
        )
    return (
        f"neighbouring lanes are {step} elements apart",
        "let neighbouring lanes take neighbouring elements; for the fields of a structure, one array a field",
    )


def _banks(words: int) -> str:
    reached = BANKS // gcd(words, BANKS)
    return "one bank" if reached == 1 else f"{reached} of the {BANKS} banks"


def _why_one_bank(made: _Requests, request: int) -> tuple[str, str]:
    column, row = made.trace.columns, int(made.starts[request])
    buffer, step = made.trace.buffers[column["buffer"][row]], _step(made, request)
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
