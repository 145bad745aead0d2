"""Verdicts over a trace: which accesses no right kernel makes, each as a sentence that names element, owner and line.

Blocks of one launch run in any order, so whatever depends on their order is a fault: an element written by two of them,
or read by one and written by another. Threads of a block are ordered by its barriers. See `kernels.trace.races`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from kernels.trace.model import KINDS, READ, shown_path

if TYPE_CHECKING:
    from kernels.trace.model import Trace
    from kernels.trace.order import Ordered
    from kernels.trace.places import Buffer

VERBS = {"read": "reads", "write": "writes", "atomic": "updates"}


# What each kind of verdict says in one line; the kinds of a launch that could not go on stand last.
VERDICTS = {
    "out-of-bounds": "an access goes to an element that the buffer does not have",
    "unwritten": "an element of the output is written by nobody",
    "double-write": "two owners write one element, and nothing orders them",
    "read-write-overlap": "one block reads what another block of the same launch writes",
    "global-race": "two threads touch one element of global memory, and nothing orders them",
    "shared-race": "two threads touch one element of shared memory between the same two barriers",
    "read-before-written": "a thread reads shared memory that its block has not written yet",
    "inactive-lane": "a shuffle reads from a lane that the mask leaves out",
    "shuffle-width": "a shuffle has a width that no GPU has",
    "not-a-number": "a result is NaN where the reference has a number",
    "input-changed": "a launch changed what it should only read",
    "wrong-value": "a result is further from the reference than rounding explains",
    "barrier-divergence": "not every thread of a block reaches the same barrier",
    "warp-divergence": "not every lane that a mask names reaches the warp operation",
    "misaligned": "a wide access begins at an address that is not a multiple of its size",
    "assertion": "the kernel's own check failed",
    "too-long": "the kernel did not end in time",
    "too-many-events": "the kernel made more accesses than a trace has room for",
    "stack-overflow": "a thread ran out of stack",
    "out-of-memory": "a kernel, or the function that launches it, allocates without end",
    "crash": "the processor stopped a thread",
    "launch-refused": "the launch asks for more than a GPU has",
}


@dataclass(frozen=True)
class Fault:
    """One verdict.

    `kind` is one of `VERDICTS`. `element` is the first offending element, `count` how many there are; `who` is its
    owner in words, `file` and `line` where the access is written ("" and 0 where nobody holds the element). `cause` is
    the likely cause; `sentence` says it all.
    `mask` is "on" where a Triton mask let the access happen, "off" where it held the element back (an unwritten one),
    and "" where the language shows no masks or nobody held the element. `masked` says whether the access has a mask at
    all: None where the trace cannot tell.
    `explanation` is the key of what explains the verdict to a learner; left out, it is the kind.
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
    mask: str = ""
    masked: bool | None = None
    explanation: str = ""

    def __post_init__(self) -> None:
        if not self.explanation:
            object.__setattr__(self, "explanation", self.kind)

    def __str__(self) -> str:
        return self.sentence


def faults(
    trace: Trace,
    outputs: Sequence[str] | None = None,
    order: Ordered | None = None,
    filled: Mapping[str, np.ndarray] | None = None,
) -> list[Fault]:
    """All verdicts: out of bounds first, then races, then elements that nobody wrote.

    `outputs` names the buffers that must be written whole; left out, it is every global buffer that anyone writes.
    `order` knows what fences and atomics order, where the language shows them. `filled` says for a buffer which of its
    elements were set without an access, by the host.
    KeyError where a name is not in the trace.
    """
    from kernels.trace.races import races

    wide = trace.expanded()
    active = wide.select(active=True)
    inside = np.zeros(len(active), bool)
    for number, buffer in enumerate(trace.buffers):
        here = active.columns["buffer"] == number
        inside[here] = buffer.holds(active.columns["element"][here])
    good = active.rows(inside)
    return [
        *_out_of_bounds(wide, active.rows(~inside)),
        *races(good, order),
        *_unwritten(trace, good, outputs, filled or {}),
    ]


def place_of(trace: Trace, row: int) -> tuple[str, str, int]:
    """Owner in words, file and line of a row."""
    column = trace.columns
    launch = trace.launches[column["launch"][row]]
    file, line = trace.sites[column["site"][row]]
    return launch.who(int(column["block"][row]), int(column["thread"][row])), file, line


def mask_of(trace: Trace, row: int) -> dict[str, str | bool | None]:
    """The fields `mask` and `masked` of a verdict on a row: the mask's state there, and whether there is a mask."""
    column = trace.columns
    if trace.launches[column["launch"][row]].language != "triton":
        return {"mask": ""}
    masked = trace.masks.get((int(column["site"][row]), int(column["what"][row])))
    return {"mask": "on" if column["active"][row] else "off", "masked": masked}


def shown_place(file: str, line: int) -> str:
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
        who, file, line = place_of(bad, row)
        mask = mask_of(bad, row)
        if mask.get("masked") is None and mask["mask"] and _switches_off(wide, bad, row):
            mask["masked"] = True
        count = len(np.unique(elements))
        where = f"{buffer.name}[{element}]"
        if len(buffer.shape) != 1 or (buffer.strides != (1,) and buffer.count > 1):  # an item's number is no index
            where = f"item {element} of {buffer.name} (shape {buffer.shape}, strides {buffer.strides})"
        if element < 0:
            last = f"the first element is {buffer.text(0)}"
            cause = "an offset is negative: a subtraction without a guard, or 32-bit arithmetic that overflowed"
        elif element >= buffer.extent and buffer.overlaps:
            items = len(np.unique(buffer.offsets))
            last = f"the view's {buffer.count} indices share {items} item{'s' if items > 1 else ''}"
            last += f", and the last one is item {buffer.extent - 1}"
            cause = "the kernel takes neighbouring indices for neighbouring items: pass it a copy, or the strides, too"
        elif element >= buffer.extent:
            last = f"the last element is {buffer.text(buffer.extent - 1)}" if buffer.extent else "it is empty"
            cause = _mask_cause(mask, what, "the tail")
            if not buffer.extent and buffer.space == "shared":
                cause = "the launch asks for no dynamic shared memory, the third value between `<<<` and `>>>`"
        else:
            last = f"it is padding, behind {buffer.text(_before(buffer, element))}"
            cause = f"{_mask_cause(mask, what, 'the end of a row')}, or the row stride is wrong"
        rest = f" In all, {count} elements lie outside there ({spans(elements)})." if count > 1 else ""
        sentence = (
            f"{capital(who)} {VERBS[what]} {where}, which is out of bounds: {last}. "
            f"Line: {shown_place(file, line)}.{rest} Likely cause: {cause}."
        )
        found.append(Fault("out-of-bounds", sentence, buffer.name, element, who, file, line, count, cause, **mask))
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


def _switches_off(wide: Trace, bad: Trace, row: int) -> bool:
    """Whether a mask switched some element off in the same kind of access, on the same line."""
    keep = ~wide.columns["active"]
    for name in ("launch", "site", "buffer", "what"):
        keep = keep & (wide.columns[name] == bad.columns[name][row])
    return bool(keep.any())


def _mask_cause(mask: dict, what: str, where: str) -> str:
    if not mask["mask"]:
        return f"no bounds test, such as `if (i < n)`, guards {where}"
    call = {"read": "load", "write": "store", "atomic": "atomic"}[what]
    if mask["masked"] is None:
        return f"the {call} on this line has no mask, or a mask that is true for {where}"
    if not mask["masked"]:
        return f"the {call} on this line has no mask, so nothing guards {where}"
    return f"the {call} has a mask, and it is true for elements of {where}: it compares with the wrong bound"


def capital(text: str) -> str:
    return text[:1].upper() + text[1:]


def _unwritten(
    trace: Trace, good: Trace, outputs: Sequence[str] | None, filled: Mapping[str, np.ndarray]
) -> list[Fault]:
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
        if name in filled:
            written |= filled[name]
        missing = buffer.offsets.reshape(-1)
        missing = np.sort(missing[~written[missing]])
        if not len(missing):
            continue
        element = int(missing[0])
        off = trace.select(buffer=name, what="write", active=False)
        held = np.flatnonzero(off.columns["element"] == element)
        if len(held):
            who, file, line = place_of(off, held[0])
            mask = {"mask": "off", "masked": True}
            cause = f"the store's mask of {who} switches it off ({shown_place(file, line)})"
        else:
            who, file, line, mask = "", "", 0, {}
            cause = "the grid is too small, or the step between owners is larger than what each one writes"
            if not any(launch.blocks for launch in trace.launches):
                cause = "the grid is empty, so no program ran" if trace.launches else "no kernel was launched"
        which = f"{len(missing)} of {buffer.count} elements ({spans(missing)})" if len(missing) > 1 else "that element"
        sentence = f"{buffer.text(element)} is never written: nobody stores to {which}. Likely cause: {cause}."
        found.append(Fault("unwritten", sentence, name, element, who, file, line, len(missing), cause, **mask))
    return found
