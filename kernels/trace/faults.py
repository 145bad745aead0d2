"""Verdicts over a trace: which accesses no right kernel makes, each as a sentence that names element, owner and line.

Blocks of one launch run in any order, so whatever depends on their order is a fault: an element written by two of them,
or read by one and written by another. Threads of a block are ordered by its barriers only.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from kernels.trace.model import ATOMIC, KINDS, READ, WARP_SIZE, WRITE, shown_path

if TYPE_CHECKING:
    from kernels.trace.model import Trace
    from kernels.trace.places import Buffer

VERBS = {"read": "reads", "write": "writes", "atomic": "updates"}


@dataclass(frozen=True)
class Fault:
    """One verdict.

    `kind` is "out-of-bounds", "double-write", "read-write-overlap", "shared-race" or "unwritten"; a CUDA trace adds its
    own, such as "barrier-divergence" and "misaligned" (see `kernels.trace.cuda_verdicts`). `element` is the
    first offending element, `count` how many there are; `who` is its owner in words, `file` and `line` where the access
    is written ("" and 0 where nobody holds the element). `cause` is the likely cause; `sentence` says it all.
    """

    kind: str
    sentence: str
    buffer: str
    element: int
    who: str
    file: str
    line: int
    count: int
    cause: str

    def __str__(self) -> str:
        return self.sentence


def faults(trace: Trace, outputs: Sequence[str] | None = None) -> list[Fault]:
    """All verdicts: out of bounds first, then races, then elements that nobody wrote.

    `outputs` names the buffers that must be written whole; left out, it is every global buffer that anyone writes.
    KeyError where a name is not in the trace.
    """
    wide = trace.expanded()
    active = wide.select(active=True)
    inside = np.zeros(len(active), bool)
    for number, buffer in enumerate(trace.buffers):
        here = active.columns["buffer"] == number
        inside[here] = buffer.holds(active.columns["element"][here])
    good = active.rows(inside)
    return [
        *_out_of_bounds(wide, active.rows(~inside)),
        *_double_writes(good),
        *_overlaps(good),
        *_shared_races(good),
        *_unwritten(trace, good, outputs),
    ]


def _place(trace: Trace, row: int) -> tuple[str, str, int]:
    """Owner in words, file and line of a row."""
    column = trace.columns
    launch = trace.launches[column["launch"][row]]
    file, line = trace.sites[column["site"][row]]
    return launch.who(int(column["block"][row]), int(column["thread"][row])), file, line


def _at(file: str, line: int) -> str:
    return f"{shown_path(file)}:{line}"


def spans(elements: Sequence[int] | np.ndarray) -> str:
    """`257–511` or `3, 7–9 and 4 more places`: sorted and distinct, runs joined, three runs at most written out."""
    values = np.unique(np.asarray(elements, np.int64))
    runs = np.split(values, np.flatnonzero(np.diff(values) != 1) + 1) if len(values) else []
    texts = [str(run[0]) if len(run) == 1 else f"{run[0]}–{run[-1]}" for run in runs]
    text = ", ".join(texts[:3])
    return text if len(texts) <= 3 else f"{text} and {len(texts) - 3} more places"


def _groups(columns: Sequence[np.ndarray]) -> list[np.ndarray]:
    """Row numbers of each distinct combination, in ascending order of the combination."""
    if not len(columns[0]):
        return []
    order = np.lexsort(columns[::-1])
    change = np.zeros(len(order) - 1, bool)
    for column in columns:
        change |= np.diff(column[order]) != 0
    return np.split(order, np.flatnonzero(change) + 1)


def _out_of_bounds(wide: Trace, bad: Trace) -> list[Fault]:
    """One fault for each launch, line, buffer and kind of access."""
    found = []
    keys = [bad.columns[name] for name in ("launch", "site", "buffer", "what")]
    for rows in _groups(keys):
        elements = bad.columns["element"][rows]
        buffer = bad.buffers[bad.columns["buffer"][rows[0]]]
        row = _nearest(bad, rows, buffer.extent)
        element, what = int(bad.columns["element"][row]), KINDS[bad.columns["what"][row]]
        who, file, line = _place(bad, row)
        all_on = bool(wide.columns["active"][_same_place(wide, bad, row)].all())
        count = len(np.unique(elements))
        where = f"{buffer.name}[{element}]"
        if len(buffer.shape) != 1:
            where = f"item {element} of {buffer.name} (shape {buffer.shape}, strides {buffer.strides})"
        if element < 0:
            last = f"the first element is {buffer.text(0)}"
            cause = "an offset is negative: a subtraction without a guard, or 32-bit arithmetic that overflowed"
        elif element >= buffer.extent:
            last = f"the last element is {buffer.text(buffer.extent - 1)}" if buffer.extent else "it is empty"
            cause = _mask_cause(bad, row, what, all_on, "the tail")
        else:
            last = f"it is padding, behind {buffer.text(_before(buffer, element))}"
            cause = f"{_mask_cause(bad, row, what, all_on, 'the end of a row')}, or the row stride is wrong"
        rest = f" In all, {count} elements lie outside there ({spans(elements)})." if count > 1 else ""
        sentence = (
            f"{capital(who)} {VERBS[what]} {where}, which is out of bounds: {last}. "
            f"Line: {_at(file, line)}.{rest} Likely cause: {cause}."
        )
        found.append(Fault("out-of-bounds", sentence, buffer.name, element, who, file, line, count, cause))
    return found


def _nearest(bad: Trace, rows: np.ndarray, extent: int) -> int:
    """Of these accesses the first to the element nearest to the buffer: behind it, else before it, else in padding."""
    elements = bad.columns["element"][rows]
    side = np.where(elements >= extent, 0, np.where(elements < 0, 1, 2))
    return int(rows[np.lexsort((bad.columns["sequence"][rows], np.abs(elements), side))[0]])


def _before(buffer: Buffer, element: int) -> int:
    """The last element of the view in front of an item of its padding."""
    offsets = buffer.offsets
    return int(offsets[offsets < element].max())


def _same_place(wide: Trace, bad: Trace, row: int) -> np.ndarray:
    keep = np.ones(len(wide), bool)
    for name in ("launch", "site", "buffer", "what"):
        keep &= wide.columns[name] == bad.columns[name][row]
    return keep


def _mask_cause(trace: Trace, row: int, what: str, all_on: bool, where: str) -> str:
    if trace.launches[trace.columns["launch"][row]].language != "triton":
        return f"no bounds test, such as `if (i < n)`, guards {where}"
    call = {"read": "load", "write": "store", "atomic": "atomic"}[what]
    if all_on:
        return f"the {call} on this line has no mask, or a mask that is true for {where}"
    return f"the {call}'s mask on this line switches some elements off, but not all of {where}"


def capital(text: str) -> str:
    return text[:1].upper() + text[1:]


def _name(trace: Trace, row: int) -> tuple[str, int, str]:
    buffer = trace.buffers[trace.columns["buffer"][row]]
    element = int(trace.columns["element"][row])
    return buffer.name, element, buffer.text(element)


def _mixed(trace: Trace, keys: Sequence[str], person: str) -> list[np.ndarray]:
    """Groups of rows with equal keys in which `person` takes more than one value; found without a loop over groups."""
    if not len(trace):
        return []
    columns = [trace.columns[name] for name in keys]
    order = np.lexsort(columns[::-1])
    change = np.ones(len(order), bool)
    change[1:] = False
    for column in columns:
        change[1:] |= np.diff(column[order]) != 0
    starts = np.flatnonzero(change)
    people = trace.columns[person][order]
    differs = np.minimum.reduceat(people, starts) != np.maximum.reduceat(people, starts)
    ends = np.append(starts[1:], len(order))
    return [np.sort(order[a:b]) for a, b in zip(starts[differs], ends[differs], strict=True)]


def _where_written(trace: Trace, keys: Sequence[str]) -> Trace:
    """Only the rows whose keys some plain write has too: most elements of a kernel are read and never written."""
    if not len(trace):
        return trace
    order = np.lexsort([trace.columns[name] for name in reversed(keys)])
    change = np.ones(len(order), bool)
    change[1:] = False
    for name in keys:
        change[1:] |= np.diff(trace.columns[name][order]) != 0
    wrote = np.logical_or.reduceat(trace.columns["what"][order] == WRITE, np.flatnonzero(change))
    return trace.rows(np.sort(order[wrote[np.cumsum(change) - 1]]))


def _first_per_buffer(trace: Trace, groups: list[np.ndarray]) -> list[tuple[np.ndarray, np.ndarray]]:
    """Of many groups, the first of each launch and buffer, with the elements of all of them."""
    kept: dict[tuple[int, int], tuple[np.ndarray, list[int]]] = {}
    for rows in groups:
        key = int(trace.columns["launch"][rows[0]]), int(trace.columns["buffer"][rows[0]])
        kept.setdefault(key, (rows, []))[1].append(int(trace.columns["element"][rows[0]]))
    return [(rows, np.array(elements)) for rows, elements in kept.values()]


def _two(trace: Trace, rows: np.ndarray, person: str) -> tuple[int, int]:
    """The first row of a group, and the first by somebody else."""
    people = trace.columns[person][rows]
    return int(rows[0]), int(rows[np.flatnonzero(people != people[0])[0]])


def _more(elements: np.ndarray) -> str:
    count = len(np.unique(elements))
    return f" The same happens to {count} elements in all ({spans(elements)})." if count > 1 else ""


def _double_writes(good: Trace) -> list[Fault]:
    """Plain writes to one global element by different blocks, or by different threads between two barriers."""
    found = []
    writes = good.select(what="write", space="global")
    across = _mixed(writes, ("launch", "buffer", "element"), "block")
    within = _mixed(writes, ("launch", "buffer", "element", "block", "interval"), "thread")
    for person, groups in (("block", across), ("thread", within)):
        for rows, elements in _first_per_buffer(writes, groups):
            first, second = _two(writes, rows, person)
            buffer, element, text = _name(writes, second)
            (who, *_), (other, file, line) = _place(writes, first), _place(writes, second)
            cause = (
                "their ranges overlap: the step between owners is smaller than what each one writes, "
                "or an owner is missing from the index"
            )
            sentence = (
                f"{text} is written by {who} and again by {other}, and nothing orders them. "
                f"Line: {_at(file, line)}.{_more(elements)} Likely cause: {cause}."
            )
            found.append(
                Fault("double-write", sentence, buffer, element, other, file, line, len(np.unique(elements)), cause)
            )
    return found


def _overlaps(good: Trace) -> list[Fault]:
    """Global elements that one block reads and another block of the same launch writes."""
    found = []
    plain = good.select(space="global")
    plain = _where_written(plain.rows(plain.columns["what"] != ATOMIC), ("launch", "buffer", "element"))
    groups = []
    for rows in _mixed(plain, ("launch", "buffer", "element"), "block"):
        pair = _reader_and_writer(rows, plain.columns["what"][rows], plain.columns["block"][rows])
        if pair is not None:
            groups.append(pair)
    for pair, elements in _first_per_buffer(plain, groups):
        read, write = pair.tolist()
        buffer, element, text = _name(plain, read)
        (who, file, line), (other, file_2, line_2) = _place(plain, read), _place(plain, write)
        cause = (
            "the output shares memory with an input that others still read, "
            "or a result passes from one block to another without a second launch"
        )
        sentence = (
            f"{text} is read by {who} ({_at(file, line)}) and written by {other} ({_at(file_2, line_2)}) in the same "
            f"launch, so the value read depends on which runs first.{_more(elements)} Likely cause: {cause}."
        )
        found.append(
            Fault("read-write-overlap", sentence, buffer, element, who, file, line, len(np.unique(elements)), cause)
        )
    return found


def _reader_and_writer(rows: np.ndarray, what: np.ndarray, block: np.ndarray) -> np.ndarray | None:
    """A read and a write by different blocks among the rows of one element, or None."""
    for read, reader in zip(rows[what == READ], block[what == READ], strict=True):
        others = rows[(what == WRITE) & (block != reader)]
        if len(others):
            return np.array([read, others[0]])
    return None


def _shared_races(good: Trace) -> list[Fault]:
    """Shared elements that two threads touch between the same two barriers, at least one of them by a plain write."""
    found = []
    keys = ("launch", "buffer", "element", "block", "interval")
    shared = _where_written(good.select(space="shared"), keys)
    groups = []
    for rows in _mixed(shared, keys, "thread"):
        what, thread = shared.columns["what"][rows], shared.columns["thread"][rows]
        for write in np.flatnonzero(what == WRITE):
            others = np.flatnonzero(thread != thread[write])
            if len(others):
                # Lanes of one warp usually run together, so a thread of another warp makes the better example.
                apart = others[thread[others] // WARP_SIZE != thread[write] // WARP_SIZE]
                groups.append(np.array([rows[write], rows[(apart if len(apart) else others)[0]]]))
                break
    for pair, elements in _first_per_buffer(shared, groups):
        write, other = pair.tolist()
        buffer, element, text = _name(shared, write)
        (who, file, line), (whom, file_2, line_2) = _place(shared, write), _place(shared, other)
        verb = VERBS[KINDS[shared.columns["what"][other]]]
        cause = "a `__syncthreads()` is missing between the two lines"
        sentence = (
            f"{capital(who)} writes {text} ({_at(file, line)}) while {whom} {verb} it ({_at(file_2, line_2)}), "
            f"with no barrier between them.{_more(elements)} Likely cause: {cause}."
        )
        found.append(Fault("shared-race", sentence, buffer, element, who, file, line, len(np.unique(elements)), cause))
    return found


def _unwritten(trace: Trace, good: Trace, outputs: Sequence[str] | None) -> list[Fault]:
    """Elements of the outputs that no launch of the trace writes."""
    writes = good.rows(good.columns["what"] != READ)
    touched = set(np.unique(writes.columns["buffer"]).tolist())
    if outputs is None:
        outputs = [b.name for number, b in enumerate(trace.buffers) if number in touched and b.space == "global"]
    found = []
    for name in outputs:
        buffer = trace.buffer(name)
        written = np.zeros(buffer.extent, bool)
        written[writes.select(buffer=name).columns["element"]] = True
        missing = buffer.offsets.reshape(-1)
        missing = np.sort(missing[~written[missing]])
        if not len(missing):
            continue
        element = int(missing[0])
        off = trace.select(buffer=name, what="write", active=False)
        held = np.flatnonzero(off.columns["element"] == element)
        if len(held):
            who, file, line = _place(off, held[0])
            cause = f"the store's mask of {who} switches it off ({_at(file, line)})"
        else:
            who, file, line = "", "", 0
            cause = "the grid is too small, or the step between owners is larger than what each one writes"
        which = f"{len(missing)} of {buffer.count} elements ({spans(missing)})" if len(missing) > 1 else "that element"
        sentence = f"{buffer.text(element)} is never written: nobody stores to {which}. Likely cause: {cause}."
        found.append(Fault("unwritten", sentence, name, element, who, file, line, len(missing), cause))
    return found
