"""A block's accesses in steps that its threads take together, and those steps as a few numbers.

A trace lists accesses one thread after the other. Readers think of a block differently: the 256 threads load, then meet
a barrier, then one lane of each warp stores. So the n-th time that a thread comes to a line between two barriers meets
the n-th time of the others: that is one step. Steps stand in an order that every thread agrees with.
"""

from __future__ import annotations

import heapq
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np

from kernels.figures.html import number, span

if TYPE_CHECKING:
    from kernels.trace.model import Buffer, Trace

KINDS = ("read", "write", "atomic", "barrier", "exchange")
BARRIER, EXCHANGE = 3, 4
_FIRST_WARP_OPERATION = 4  # in a CUDA trace's `steps`: what is not a barrier


@dataclass(frozen=True)
class Step:
    """One step of a block: `threads[i]` touches `elements[i]` of buffer number `buffer`, `size` bytes.

    `kind` is one of `KINDS`; a barrier and an exchange (shuffles and votes of a warp, `times` of them) touch nothing,
    and their `buffer` is -1. `active` is False where a mask switched an element off. In a trace without threads,
    `threads` counts the elements of the operation.
    """

    kind: str
    file: str
    line: int
    buffer: int
    size: int
    interval: int
    threads: np.ndarray
    elements: np.ndarray
    active: np.ndarray
    times: int = 1


def block_steps(trace: Trace, block: int = 0, launch: int = 0) -> list[Step]:
    """The steps of one block (or Triton program), in order; [] where it touches nothing."""
    table = _rows(trace, block, launch)
    if not len(table["thread"]):
        return []
    shape = [table[name] for name in ("interval", "site", "what", "buffer", "size")]
    by_operation = trace.launches[launch].language == "triton" or bool((table["thread"] < 0).any())
    turn = table["sequence"] if by_operation else _turn([*shape, table["thread"]], table["sequence"])
    _, group = np.unique(np.stack([*shape, turn], axis=1), axis=0, return_inverse=True)
    group = group.reshape(-1)
    members = np.split(np.argsort(group, kind="stable"), np.cumsum(np.bincount(group))[:-1])
    steps = [_step(trace, table, rows) for rows in (members[g] for g in _order(group, table))]
    return list(_joined(steps))


def has_threads(trace: Trace, launch: int = 0) -> bool:
    """Whether the trace knows which thread made the accesses of a launch."""
    thread = trace.columns["thread"][trace.columns["launch"] == launch]
    return bool(len(thread)) and bool((thread >= 0).all())


def thread_count(trace: Trace, launch: int = 0) -> int:
    """Threads of a block: as launched, else one more than the largest number that the trace shows, in whole warps."""
    if trace.launches[launch].threads:
        return trace.launches[launch].threads
    thread = trace.columns["thread"][trace.columns["launch"] == launch]
    return -(-(int(thread.max(initial=-1)) + 1) // 32) * 32


def _rows(trace: Trace, block: int, launch: int) -> dict[str, np.ndarray]:
    """Accesses, and a CUDA trace's barriers and warp operations, as columns."""
    accesses = trace.select(block=block, launch=launch).columns
    names = ("thread", "what", "buffer", "element", "size", "interval", "sequence", "site", "active")
    table = {name: accesses[name].astype(np.int64) for name in names}
    steps = getattr(trace, "steps", None)
    if steps:
        keep = (steps["block"] == block) & (steps["launch"] == launch)
        more = {name: steps[name][keep] for name in ("thread", "interval", "sequence", "site")}
        count = int(keep.sum())
        more["what"] = np.where(steps["what"][keep] >= _FIRST_WARP_OPERATION, EXCHANGE, BARRIER)
        more |= {"buffer": np.full(count, -1), "element": np.zeros(count, np.int64), "size": np.zeros(count, np.int64)}
        more["active"] = np.ones(count, np.int64)
        table = {name: np.concatenate([table[name], more[name]]) for name in names}
    return table


def _turn(keys: list[np.ndarray], sequence: np.ndarray) -> np.ndarray:
    """How many earlier rows have the same keys."""
    order = np.lexsort((sequence, *keys))
    fresh = np.ones(len(order), bool)
    fresh[1:] = np.any([np.diff(key[order]) != 0 for key in keys], axis=0)
    start = np.maximum.accumulate(np.where(fresh, np.arange(len(order)), 0))
    turn = np.empty(len(order), np.int64)
    turn[order] = np.arange(len(order)) - start
    return turn


def _order(group: np.ndarray, table: dict[str, np.ndarray]) -> list[int]:
    """Groups in an order that keeps every thread's own; the earlier recorded first where threads leave it open."""
    count = int(group.max()) + 1
    first = np.full(count, np.iinfo(np.int64).max)
    np.minimum.at(first, group, table["sequence"])
    interval = np.zeros(count, np.int64)
    interval[group] = table["interval"]
    is_barrier = np.zeros(count, np.int64)
    is_barrier[group] = table["what"] == BARRIER  # it ends its interval
    lines = np.lexsort((table["sequence"], table["thread"]))
    same = table["thread"][lines][1:] == table["thread"][lines][:-1]
    edges = np.stack([group[lines][:-1][same], group[lines][1:][same]], axis=1)
    edges = np.unique(edges[edges[:, 0] != edges[:, 1]], axis=0).tolist()
    after: dict[int, list[int]] = {}
    waiting = np.zeros(count, np.int64)
    for before, then in edges:
        after.setdefault(before, []).append(then)
        waiting[then] += 1
    rank = list(zip(interval.tolist(), is_barrier.tolist(), first.tolist(), range(count)))
    ready = [rank[g] for g in range(count) if not waiting[g]]
    heapq.heapify(ready)
    found = []
    while ready:
        g = heapq.heappop(ready)[-1]
        found.append(g)
        for then in after.get(g, ()):
            waiting[then] -= 1
            if not waiting[then]:
                heapq.heappush(ready, rank[then])
    if len(found) < count:  # threads that come to the same lines in different orders: the record's order decides
        return [item[-1] for item in sorted(rank)]
    return found


def _step(trace: Trace, table: dict[str, np.ndarray], rows: np.ndarray) -> Step:
    if table["thread"][rows[0]] >= 0:
        rows = rows[np.lexsort((table["element"][rows], table["thread"][rows]))]
        threads = table["thread"][rows]
    else:
        threads = np.arange(len(rows))
    one = {name: int(table[name][rows[0]]) for name in ("what", "site", "buffer", "size", "interval")}
    file, line = trace.sites[one["site"]]
    active = table["active"][rows].astype(bool)
    return Step(
        KINDS[one["what"]], file, line, one["buffer"], one["size"], one["interval"], threads, table["element"][rows],
        active,
    )  # fmt: skip


def _joined(steps: list[Step]) -> Iterator[Step]:
    """Exchanges of one line that the same threads make one after the other become one step."""
    last: Step | None = None
    for step in steps:
        alike = last is not None and last.kind == step.kind == "exchange"
        alike = alike and (last.line, last.interval) == (step.line, step.interval)
        if alike and np.array_equal(last.threads, step.threads):
            last = replace(last, times=last.times + step.times)
            continue
        if last is not None:
            yield last
        last = step
    if last is not None:
        yield last


@dataclass(frozen=True)
class Part:
    """Threads and elements in even steps: `count` threads from `thread`, `d_thread` apart, and their elements from
    `element`, `d_element` apart; all that `times` times, each time `shift_thread` and `shift_element` further."""

    thread: int
    d_thread: int
    count: int
    element: int
    d_element: int
    times: int = 1
    shift_thread: int = 0
    shift_element: int = 0

    def numbers(self) -> list[int]:
        """Five numbers, or eight where the pattern repeats."""
        head = [self.thread, self.d_thread, self.count, self.element, self.d_element]
        return head if self.times == 1 else [*head, self.times, self.shift_thread, self.shift_element]

    def words(self, buffer: Buffer | None, who: str) -> str:
        """`threads 0–31 → x[64]–x[95]`; without a buffer the threads alone."""
        last = self.thread + self.d_thread * (self.count - 1)
        text = f"{who}{'s' * (self.count > 1)} {span(self.thread, last)}"
        if self.count > 1 and self.d_thread > 1:
            text += f", every {_ordinal(self.d_thread)}"
        elif self.count > 1 and self.d_thread == 0:
            text = f"{who} {self.thread}"
        if buffer is not None:
            text += f" → {buffer.text(self.element)}"
            if self.count > 1 and self.d_element:
                text += f"–{buffer.text(self.element + self.d_element * (self.count - 1))}"
                text += f", in steps of {self.d_element}" if self.d_element != 1 else ""
        if self.times > 1:
            text += f" ({number(self.times)} times, each {self.shift_thread} {who}s"
            text += f" and {self.shift_element} elements further)" if buffer is not None else " further)"
        return text


def _ordinal(n: int) -> str:
    end = "th" if 10 <= n % 100 <= 20 else {1: "st", 2: "nd", 3: "rd"}.get(n % 10, "th")
    return f"{n}{end}"


def parts(threads: np.ndarray, elements: np.ndarray) -> list[Part]:
    """The pairs (thread, element), in their order, as few parts as even steps and even repeats of them need."""
    found: list[Part] = []
    t, e, at, size = threads.tolist(), elements.tolist(), 0, len(threads)
    while at < size:
        end, dt, de = at + 1, 0, 0
        if end < size:
            dt, de = t[end] - t[at], e[end] - e[at]
            while end < size and t[end] - t[end - 1] == dt and e[end] - e[end - 1] == de:
                end += 1
        if end == at + 2 and end < size and dt == t[end] - t[at + 1]:
            end, dt, de = at + 1, 0, 0  # two that belong to nothing longer: the second may begin a run
        found.append(Part(t[at], dt, end - at, e[at], de))
        at = end
    joined: list[Part] = []
    for part in found:
        last = joined[-1] if joined else None
        if last and (last.d_thread, last.count, last.d_element) == (part.d_thread, part.count, part.d_element):
            step = part.thread - last.thread, part.element - last.element
            if last.times == 1:
                joined[-1] = Part(*last.numbers(), 2, *step)
                continue
            if step == (last.times * last.shift_thread, last.times * last.shift_element):
                joined[-1] = Part(*last.numbers()[:5], last.times + 1, last.shift_thread, last.shift_element)
                continue
        joined.append(part)
    return joined
