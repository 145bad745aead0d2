"""Verdicts on asynchronous copies: shared elements that are touched between a copy's begin and its end.

A copy may write its destination at any time after its thread began it, and is known to have done so once that thread
has waited for it. Other threads may count on it from the next barrier on.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from kernels.trace.faults import VERBS, Fault, capital, shown_place, spans
from kernels.trace.model import KINDS, READ, WARP_SIZE

if TYPE_CHECKING:
    from kernels.trace.cuda_result import CudaTrace

_NEVER = np.iinfo(np.int64).max


def early(trace: CudaTrace) -> list[Fault]:
    """Accesses to an element that a copy may be writing at that time; one verdict a buffer."""
    if not len(trace.copies.get("sequence", ())):
        return []
    begins = _per_element(trace)
    end, end_key = _ends(trace, begins)
    rows = _touches(trace, set(np.unique(begins["buffer"]).tolist()))
    access, copy = _pairs(rows, begins)
    same = rows["thread"][access] == begins["thread"][copy]
    warp = rows["thread"][access] // WARP_SIZE == begins["thread"][copy] // WARP_SIZE
    at, first, last = rows["key"][access], begins["key"][copy], end_key[copy]
    last = np.where(end[copy] == _NEVER, _NEVER, last)
    within = (rows["sequence"][access] > begins["sequence"][copy]) & (rows["sequence"][access] < end[copy])
    meets = (at >= first) & (at <= last)
    far = (at >> 16 >= first >> 16) & (at >> 16 <= last >> 16)
    wrong = np.where(same, within, np.where(warp, meets, far))
    found = []
    for number in np.unique(rows["buffer"][access[wrong]]):
        here = np.flatnonzero(wrong & (rows["buffer"][access] == number))
        best = here[np.lexsort((rows["sequence"][access[here]], ~same[here]))[0]]
        elements = rows["element"][access[here]]
        found.append(_sentence(trace, rows, int(access[best]), begins, int(copy[best]), bool(same[best]), elements))
    return found


def _key(columns: dict[str, np.ndarray], synced: np.ndarray) -> np.ndarray:
    return columns["interval"].astype(np.int64) << 16 | synced.astype(np.int64)


def _per_element(trace: CudaTrace) -> dict[str, np.ndarray]:
    copies = trace.copies
    items = np.array([buffer.itemsize for buffer in trace.buffers], np.int64)
    count = np.maximum(copies["size"] // items[copies["buffer"]], 1)
    row = np.repeat(np.arange(len(count)), count)
    step = np.arange(len(row)) - np.repeat(np.cumsum(count) - count, count)
    names = ("launch", "block", "thread", "buffer", "interval", "sequence", "site")
    columns = {name: copies[name][row].astype(np.int64) for name in names}
    columns["element"] = copies["element"][row] + step
    columns["key"] = _key(columns, copies["warp_interval"][row])
    return columns


def _touches(trace: CudaTrace, buffers: set[int]) -> dict[str, np.ndarray]:
    """Every access to these buffers that is no copy's end, one row an element."""
    keep = ~trace.delivered & np.isin(trace.columns["buffer"], list(buffers))
    return _wide(trace, keep)


def _wide(trace: CudaTrace, keep: np.ndarray) -> dict[str, np.ndarray]:
    from kernels.trace.model import Trace

    marked = Trace(trace.launches, trace.buffers, trace.sites, trace.columns | {"synced": trace.warp_intervals})
    columns = {name: column.astype(np.int64) for name, column in marked.rows(keep).expanded().columns.items()}
    return columns | {"key": _key(columns, columns["synced"])}


def _ends(trace: CudaTrace, begins: dict[str, np.ndarray]) -> tuple[np.ndarray, np.ndarray]:
    """When each copied element arrived: the n-th begin of a thread at an element belongs to its n-th end there."""
    ends = _wide(trace, trace.delivered)
    names = ("launch", "block", "thread", "buffer", "element")
    together = np.concatenate([np.stack([c[name] for name in names], axis=1) for c in (begins, ends)])
    _, group = np.unique(together, axis=0, return_inverse=True)
    group = group.reshape(-1)
    size = len(begins["sequence"])
    order_begin = np.lexsort((begins["sequence"], group[:size]))
    order_end = np.lexsort((ends["sequence"], group[size:]))
    keys = [_ranked(group[:size][order_begin]), _ranked(group[size:][order_end])]
    sequence, key = np.full(size, _NEVER), np.full(size, _NEVER)
    _, mine, theirs = np.intersect1d(*keys, assume_unique=True, return_indices=True)
    sequence[order_begin[mine]] = ends["sequence"][order_end[theirs]]
    key[order_begin[mine]] = ends["key"][order_end[theirs]]
    return sequence, key


def _ranked(groups: np.ndarray) -> np.ndarray:
    """A number for each entry of sorted groups that says group and rank within it."""
    start = np.r_[True, np.diff(groups) != 0] if len(groups) else np.zeros(0, bool)
    first = np.maximum.accumulate(np.where(start, np.arange(len(groups)), 0))
    return groups.astype(np.int64) << 32 | (np.arange(len(groups)) - first)


def _pairs(rows: dict[str, np.ndarray], begins: dict[str, np.ndarray]) -> tuple[np.ndarray, np.ndarray]:
    """Indices of every access and every copy that have launch, block and element in common."""
    names = ("launch", "block", "buffer", "element")
    together = np.concatenate([np.stack([c[name] for name in names], axis=1) for c in (rows, begins)])
    _, group = np.unique(together, axis=0, return_inverse=True)
    group = group.reshape(-1)
    ours, theirs = group[: len(rows["element"])], group[len(rows["element"]) :]
    order = np.argsort(theirs, kind="stable")
    low, high = (np.searchsorted(theirs[order], ours, side) for side in ("left", "right"))
    count = high - low
    access = np.repeat(np.arange(len(ours)), count)
    step = np.arange(len(access)) - np.repeat(np.cumsum(count) - count, count)
    return access, order[np.repeat(low, count) + step]


def _sentence(
    trace: CudaTrace,
    rows: dict[str, np.ndarray],
    access: int,
    begins: dict[str, np.ndarray],
    copy: int,
    same: bool,
    elements: np.ndarray,
) -> Fault:
    buffer = trace.buffers[int(rows["buffer"][access])]
    element = int(rows["element"][access])
    launch = trace.launches[int(rows["launch"][access])]
    who = launch.who(int(rows["block"][access]), int(rows["thread"][access]))
    owner = launch.who(int(begins["block"][copy]), int(begins["thread"][copy]))
    file, line = trace.sites[int(rows["site"][access])]
    begun = shown_place(*trace.sites[int(begins["site"][copy])])
    verb = VERBS[KINDS[int(rows["what"][access])]]
    read = int(rows["what"][access]) == READ
    count = len(np.unique(elements))
    more = f" The same happens to {count} elements in all ({spans(elements)})." if count > 1 else ""
    if same:
        cause = (
            "the wait (`__pipeline_wait_prior`, or a group's `wait`) is missing, comes later, or leaves it out; "
            "or the batch was never committed"
        )
        start = (
            f"{capital(who)} {verb} {buffer.text(element)} before it has waited for its asynchronous copy ({begun})."
        )
    else:
        cause = (
            "a barrier is missing: after the wait, before others use what was copied; and before the next copy begins"
        )
        start = f"{capital(who)} {verb} {buffer.text(element)} while {owner} may still be copying into it ({begun})."
    kind = "read-before-written" if same and read else "shared-race"
    text = f"{start} Line: {shown_place(file, line)}.{more} Likely cause: {cause}."
    return Fault(kind, text, buffer.name, element, who, file, line, count, cause)
