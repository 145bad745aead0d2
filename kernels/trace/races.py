"""Verdicts on accesses that nothing orders: of different blocks, or of a block's threads between two barriers."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING

import numpy as np

from kernels.trace.faults import VERBS, Fault, capital, mask_of, place_of, shown_place, spans
from kernels.trace.keys import differs, group_numbers, has
from kernels.trace.model import ATOMIC, KINDS, READ, WARP_SIZE, WRITE

if TYPE_CHECKING:
    from kernels.trace.model import Trace
    from kernels.trace.order import Ordered


def races(good: Trace, order: Ordered | None = None) -> list[Fault]:
    """Double writes, reads of what another block writes, and races within a block.

    `good` holds accesses inside their buffers, one row an element; `order` knows what fences and atomics order.
    """
    fences = order if order is not None and order.has_fences else None
    good = _disputed(good)
    return [
        *_double_writes(good, fences),
        *_overlaps(good, fences),
        *_atomics_and_plain(good, order),
        *_within(good, "global", order),
        *_within(good, "shared", order),
    ]


def _disputed(trace: Trace) -> Trace:
    """Only the rows of elements that several touch and somebody changes: of most kernels, a small part."""
    column = trace.columns
    number, total = group_numbers([column[name] for name in ("launch", "buffer", "element")])
    several = differs(number, total, column["block"]) | differs(number, total, column["thread"])
    return trace.rows((several & has(number, total, column["what"] != READ))[number])


def _name(trace: Trace, row: int) -> tuple[str, int, str]:
    buffer = trace.buffers[trace.columns["buffer"][row]]
    element = int(trace.columns["element"][row])
    return buffer.name, element, buffer.text(element)


@dataclass(frozen=True)
class _Groups:
    """Rows of a trace in groups: `rows` group by group and ascending in each, `starts` where each group begins."""

    rows: np.ndarray
    starts: np.ndarray

    def __len__(self) -> int:
        return len(self.starts)

    def __getitem__(self, group: int) -> np.ndarray:
        return self.rows[self.starts[group] : np.append(self.starts, len(self.rows))[group + 1]]

    def any(self, mask: np.ndarray) -> np.ndarray:
        """For each group whether the mask, one value a row of the trace, holds for one of its rows."""
        return np.logical_or.reduceat(mask[self.rows], self.starts) if len(self) else np.zeros(0, bool)

    def several(self, mask: np.ndarray, person: np.ndarray) -> np.ndarray:
        """For each group whether the rows under the mask are of more than one person."""
        number = np.repeat(np.arange(len(self)), np.diff(self.starts, append=len(self.rows)))
        chosen = mask[self.rows]
        return differs(number[chosen], len(self), person[self.rows][chosen])


def _mixed(trace: Trace, keys: Sequence[str], person: str) -> _Groups:
    """Groups of rows with equal keys in which `person` takes more than one value; found without a loop over groups."""
    number, total = group_numbers([trace.columns[name] for name in keys])
    mixed = differs(number, total, trace.columns[person])
    rows = np.flatnonzero(mixed[number])
    number = number[rows]
    order = np.argsort(number, kind="stable")
    return _Groups(rows[order], np.flatnonzero(np.diff(number[order], prepend=-1)))


def _contended(trace: Trace, keys: Sequence[str]) -> Trace:
    """Only the rows whose keys some plain write has too, or both an atomic and a read."""
    what = trace.columns["what"]
    return _where(trace, keys, [[what == WRITE], [what == ATOMIC, what == READ]])


def _where_written(trace: Trace, keys: Sequence[str]) -> Trace:
    """Only the rows whose keys some plain write has too: most elements of a kernel are read and never written."""
    return _where(trace, keys, [[trace.columns["what"] == WRITE]])


def _where(trace: Trace, keys: Sequence[str], choices: list[list[np.ndarray]]) -> Trace:
    """Only the rows whose keys are found in every mask of one of the choices."""
    number, total = group_numbers([trace.columns[name] for name in keys])
    kept = np.zeros(total, bool)
    for masks in choices:
        kept |= np.logical_and.reduce([has(number, total, mask) for mask in masks])
    return trace.rows(kept[number])


_UNKNOWN = -1


def _known(guilty: np.ndarray, unknown: np.ndarray | bool) -> np.ndarray:
    """For each group 1 where it is at fault, 0 where it is not, _UNKNOWN where its rows must be looked at."""
    return np.where(unknown, _UNKNOWN, guilty).astype(np.int8)


def _first_per_buffer(
    trace: Trace, groups: _Groups, known: np.ndarray, decide: Callable[[np.ndarray], Sequence[int] | None]
) -> list[tuple[Sequence[int], np.ndarray]]:
    """Of the groups at fault, two rows of the first of each launch and buffer, with the elements of all of them.

    `decide` finds the two rows, or None where a group is not at fault; it is slow, and asked no more than needed.
    """
    verdict, pairs = known.copy(), {}
    for group in np.flatnonzero(known == _UNKNOWN).tolist():
        pairs[group] = decide(groups[group])
        verdict[group] = pairs[group] is not None
    guilty = np.flatnonzero(verdict)
    rows = groups.rows[groups.starts[guilty]]
    number, _ = group_numbers([trace.columns[name][rows] for name in ("launch", "buffer")])
    found = []
    for one in np.unique(number).tolist():  # groups ascend in launch and buffer
        here = np.flatnonzero(number == one)
        first = int(guilty[here[0]])
        pair = pairs[first] if first in pairs else decide(groups[first])
        found.append((pair, trace.columns["element"][rows[here]]))
    return found


def _compares(trace: Trace, order: Ordered | None) -> np.ndarray:
    """Which rows are compare-and-swaps, whose threads may have read before what the swap then checked."""
    compares = np.zeros(len(trace), bool)
    if order is not None:
        rows = np.flatnonzero(trace.columns["what"] == ATOMIC)
        compares[rows] = order.is_compare(trace.columns["sequence"][rows])
    return compares


def _two(trace: Trace, rows: np.ndarray, person: str) -> tuple[int, int]:
    """The first row of a group, and the first by somebody else."""
    people = trace.columns[person][rows]
    return int(rows[0]), int(rows[np.flatnonzero(people != people[0])[0]])


def _more(elements: np.ndarray) -> str:
    count = len(np.unique(elements))
    return f" The same happens to {count} elements in all ({spans(elements)})." if count > 1 else ""


def _pair(trace: Trace, rows: np.ndarray, person: str, order: Ordered | None) -> tuple[int, int] | None:
    """Of plain writes to one element two by different blocks or threads, or None where fences order them all."""
    if order is None:
        return _two(trace, rows, person)
    people = trace.columns[person]
    return next((pair for pair in order.unordered(trace, rows) if people[pair[0]] != people[pair[1]]), None)


def _double_writes(good: Trace, order: Ordered | None) -> list[Fault]:
    """Plain writes to one global element by different blocks, or by different threads between two barriers."""
    found = []
    writes = good.select(what="write", space="global")
    across = _mixed(writes, ("launch", "buffer", "element"), "block")
    within = _mixed(writes, ("launch", "buffer", "element", "block", "interval"), "thread")
    for person, groups in (("block", across), ("thread", within)):
        known = _known(np.ones(len(groups), bool), order is not None)
        decide = partial(_pair, writes, person=person, order=order)
        for (first, second), elements in _first_per_buffer(writes, groups, known, decide):
            buffer, element, text = _name(writes, second)
            (who, *_), (other, file, line) = place_of(writes, first), place_of(writes, second)
            cause = (
                "their ranges overlap: the step between owners is smaller than what each one writes, "
                "or an owner is missing from the index"
            )
            sentence = (
                f"{text} is written by {who} and again by {other}, and nothing orders them. "
                f"Line: {shown_place(file, line)}.{_more(elements)} Likely cause: {cause}."
            )
            found.append(
                Fault(
                    "double-write",
                    sentence,
                    buffer,
                    element,
                    other,
                    file,
                    line,
                    len(np.unique(elements)),
                    cause,
                    **mask_of(writes, second),
                )
            )
    return found


def _overlaps(good: Trace, order: Ordered | None) -> list[Fault]:
    """Global elements that one block reads and another block of the same launch writes."""
    found = []
    plain = good.select(space="global")
    plain = _where_written(plain.rows(plain.columns["what"] != ATOMIC), ("launch", "buffer", "element"))
    groups = _mixed(plain, ("launch", "buffer", "element"), "block")
    # Several blocks, and one of them writes: if anybody reads, some reader is not the writer.
    known = _known(groups.any(plain.columns["what"] == READ), order is not None)
    decide = partial(_reader_and_writer, plain, order=order)
    for (read, write), elements in _first_per_buffer(plain, groups, known, decide):
        buffer, element, text = _name(plain, read)
        (who, file, line), (other, file_2, line_2) = place_of(plain, read), place_of(plain, write)
        cause = (
            "the output shares memory with an input that others still read, "
            "or a result passes from one block to another without a second launch"
        )
        sentence = (
            f"{text} is read by {who} ({shown_place(file, line)}) and written by {other} "
            f"({shown_place(file_2, line_2)}) in the same launch, "
            f"so the value read depends on which runs first.{_more(elements)} Likely cause: {cause}."
        )
        count, mask = len(np.unique(elements)), mask_of(plain, read)
        found.append(Fault("read-write-overlap", sentence, buffer, element, who, file, line, count, cause, **mask))
    return found


def _atomics_and_plain(good: Trace, order: Ordered | None) -> list[Fault]:
    """Global elements that one block updates by atomics while another reads or writes them plainly."""
    found = []
    keys = ("launch", "buffer", "element")
    rows = good.select(space="global")
    kinds = [rows.columns["what"] == kind for kind in (ATOMIC, READ, WRITE)]
    rows = _where(rows, keys, [[kinds[0], kinds[1]], [kinds[0], kinds[2]]])
    groups = _mixed(rows, keys, "block")
    fenced = order is not None and order.has_fences
    known = _known(np.ones(len(groups), bool), fenced | groups.any(_compares(rows, order)))
    decide = partial(_atomic_and_plain, rows, order=order)
    for (plain, atomic), elements in _first_per_buffer(rows, groups, known, decide):
        buffer, element, text = _name(rows, plain)
        (who, file, line), (other, file_2, line_2) = place_of(rows, plain), place_of(rows, atomic)
        does = KINDS[rows.columns["what"][plain]]
        cause = (
            "the element is set to its first value in the launch that updates it: set it before the launch"
            if does == "write"
            else "other blocks may still update the element when it is read: read it in a second launch; a flag or a "
            "counter is itself read by an atomic, and whoever finds it full may read what stands behind it"
        )
        sentence = (
            f"{capital(who)} {VERBS[does]} {text} by a plain access ({shown_place(file, line)}) while {other} updates "
            f"it by an atomic ({shown_place(file_2, line_2)}) in the same launch, and nothing orders the two."
            f"{_more(elements)} Likely cause: {cause}."
        )
        count, mask = len(np.unique(elements)), mask_of(rows, plain)
        found.append(Fault("global-race", sentence, buffer, element, who, file, line, count, cause, **mask))
    return found


def _atomic_and_plain(trace: Trace, rows: np.ndarray, order: Ordered | None) -> tuple[int, int] | None:
    """A plain access and an atomic by different blocks among the rows of one element, or None where all are ordered."""
    what, block = trace.columns["what"], trace.columns["block"]
    guesses = _guesses(trace, rows, order)
    if order is not None and order.has_fences:
        for pair in order.unordered(trace, rows):
            plain, atomic = sorted(pair, key=lambda row: what[row] == ATOMIC)
            if block[plain] != block[atomic] and what[plain] != ATOMIC == what[atomic] and plain not in guesses:
                return plain, atomic
        return None
    atomics = rows[what[rows] == ATOMIC]
    for plain in rows[what[rows] != ATOMIC].tolist():
        others = atomics[block[atomics] != block[plain]]
        if len(others) and plain not in guesses:
            return plain, int(others[0])
    return None


def _reader_and_writer(trace: Trace, rows: np.ndarray, order: Ordered | None) -> tuple[int, int] | None:
    """A read and a write by different blocks among the rows of one element, or None."""
    what, block = trace.columns["what"], trace.columns["block"]
    if order is not None:
        for pair in order.unordered(trace, rows):
            first, second = sorted(pair, key=lambda row: what[row])
            if block[first] != block[second] and what[first] == READ:
                return int(first), int(second)
        return None
    writes = rows[what[rows] == WRITE]
    for read in rows[what[rows] == READ]:
        others = writes[block[writes] != block[read]]
        if len(others):
            return int(read), int(others[0])
    return None


_WITHIN = ("launch", "buffer", "element", "block", "interval")


def _within(good: Trace, space: str, order: Ordered | None) -> list[Fault]:
    """Elements that two threads of a block touch between the same two barriers, one of them by a plain write, or one by
    an atomic while the other reads. Two writes to global memory are a double write, and not named again."""
    found = []
    rows = _contended(good.select(space=space), _WITHIN)
    groups = _mixed(rows, _WITHIN, "thread")
    writes = rows.columns["what"] == WRITE
    written = groups.any(writes)
    guilty = np.ones(len(groups), bool)  # several threads, and a write, or an atomic and a read
    if space == "global":
        guilty = ~groups.several(writes, rows.columns["thread"])
    fenced = order is not None and order.has_fences
    known = _known(guilty, fenced | (~written & groups.any(_compares(rows, order))))
    decide = partial(_clash, rows, space=space, order=order)
    for (first, other), elements in _first_per_buffer(rows, groups, known, decide):
        buffer, element, text = _name(rows, first)
        (who, file, line), (whom, file_2, line_2) = place_of(rows, first), place_of(rows, other)
        does, verb = (VERBS[KINDS[rows.columns["what"][row]]] for row in (first, other))
        cause = "a `__syncthreads()` is missing between the two lines"
        if (file, line) == (file_2, line_2):
            cause = "a `__syncthreads()` is missing within the line: after the read, before the write"
        elif rows.columns["what"][first] == ATOMIC:
            cause = "an atomic does not wait for those of other threads: a `__syncthreads()` is missing before the read"
        sentence = (
            f"{capital(who)} {does} {text} ({shown_place(file, line)}) while {whom} {verb} it "
            f"({shown_place(file_2, line_2)}), with no barrier between them.{_more(elements)} Likely cause: {cause}."
        )
        count = len(np.unique(elements))
        found.append(Fault(f"{space}-race", sentence, buffer, element, who, file, line, count, cause))
    return found


def _clash(trace: Trace, rows: np.ndarray, space: str, order: Ordered | None) -> tuple[int, int] | None:
    """The write (or atomic) and the other access of a race among the rows of one element, or None."""
    what, thread = trace.columns["what"], trace.columns["thread"]
    pairs = list(_clashes(trace, rows, order))
    if space == "global" and any(what[first] == what[other] == WRITE for first, other in pairs):
        return None
    if not pairs:
        return None
    pairs.sort(key=lambda pair: (what[pair[0]] != WRITE, pair[0]))
    # Lanes of one warp usually run together, so a thread of another warp makes the better example.
    of_first = [pair for pair in pairs if pair[0] == pairs[0][0]]
    apart = [pair for pair in of_first if thread[pair[0]] // WARP_SIZE != thread[pair[1]] // WARP_SIZE]
    return (apart or of_first)[0]


def _clashes(trace: Trace, rows: np.ndarray, order: Ordered | None) -> Iterator[tuple[int, int]]:
    """Pairs of different threads: first a write, or an atomic where the other reads. Enough of them to choose from."""
    what, thread = trace.columns["what"], trace.columns["thread"]
    guesses = _guesses(trace, rows, order)
    if order is not None and order.has_fences:
        for pair in order.unordered(trace, rows):
            first, other = sorted(pair, key=lambda row: (WRITE, ATOMIC, READ).index(what[row]))
            if what[first] == WRITE or other not in guesses:
                yield first, other
        return
    reads = np.array([row for row in rows[what[rows] == READ] if row not in guesses], np.int64)
    for kind, against in ((rows[what[rows] == WRITE], rows), (rows[what[rows] == ATOMIC], reads)):
        for first in kind:
            others = against[thread[against] != thread[first]]
            if len(others):
                yield from ((int(first), int(other)) for other in others)
                break


def _guesses(trace: Trace, rows: np.ndarray, order: Ordered | None) -> set[int]:
    """Reads whose thread checks the value by a compare-and-swap later: it may be out of date."""
    if order is None:
        return set()
    what, thread, block = (trace.columns[name] for name in ("what", "thread", "block"))
    atomics = rows[what[rows] == ATOMIC]
    checks = atomics[order.is_compare(trace.columns["sequence"][atomics])]
    last = {(int(block[row]), int(thread[row])): int(row) for row in checks}
    reads = rows[what[rows] == READ].tolist()
    return {row for row in reads if last.get((int(block[row]), int(thread[row])), -1) > row}
