"""Which accesses of a launch are ordered: by the thread or program itself, by barriers, and through atomics.

The rule for CUDA's fences is the release pattern of the PTX memory model (chapter "Memory Consistency Model" of the PTX
manual), as far as one run shows it: a thread writes, fences, and makes an atomic on some element; whoever makes an
atomic on the same element later in that run may count on what was written before the fence. Atomics on one element are
made one after the other, so whoever made the last one may set the element back. Barriers carry both on to the rest of a
block. In Triton the atomics themselves release and acquire: `sem="acq_rel"` unless a call says otherwise.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator
from functools import cached_property, lru_cache

import numpy as np

from kernels.trace.model import ATOMIC, READ, WARP_SIZE, WRITE, Trace

_NEVER = np.iinfo(np.int64).max


class Ordered:
    """What can tell whether of two accesses one is ordered before the other; see `Order` and `ProgramOrder`."""

    has_fences = False

    def is_compare(self, sequences: np.ndarray) -> np.ndarray:
        """Which of these accesses are compare-and-swaps."""
        raise NotImplementedError

    def before(self, first: int, second: int) -> bool:
        """Whether the access with sequence `first` is ordered before the later one with `second`, which clashes."""
        raise NotImplementedError

    def unordered(self, trace: Trace, rows: np.ndarray) -> Iterator[tuple[int, int]]:
        """Pairs of `rows`, which touch one element, that clash and that nothing orders; the earlier row first.

        A write clashes with everything of another thread, an atomic with a read. Each access is held against the ones
        since the last write only: what comes before that is ordered if everything else is.
        """
        write: int | None = None
        since: dict[int, dict[tuple[int, int], int]] = {READ: {}, ATOMIC: {}}
        columns = trace.columns
        for row in rows[np.argsort(columns["sequence"][rows], kind="stable")].tolist():
            what = int(columns["what"][row])
            who = int(columns["block"][row]), int(columns["thread"][row])
            against = {READ: (ATOMIC,), ATOMIC: (READ,), WRITE: (READ, ATOMIC)}[what]
            earlier = [row_ for kind in against for whom, row_ in since[kind].items() if whom != who]
            if write is not None and (columns["block"][write], columns["thread"][write]) != who:
                earlier.append(write)
            for other in earlier:
                if not self.before(int(columns["sequence"][other]), int(columns["sequence"][row])):
                    yield other, row
            if what == WRITE:
                write, since = row, {READ: {}, ATOMIC: {}}
            else:
                since[what][who] = row


class ProgramOrder(Ordered):
    """The order of a trace of Triton programs.

    A program's own accesses are ordered. An atomic that releases makes known what its program did before it; whoever
    makes an acquiring atomic on the same element later in that run may count on it, and may hand it on.
    columns: those of the trace. semantics: for the sequence of each atomic "acquire", "release", "acq_rel" or
    "relaxed". compares: the sequences of compare-and-swaps.
    """

    def __init__(self, columns: dict[str, np.ndarray], semantics: dict[int, str], compares: set[int]) -> None:
        self._sequence, self._launch, self._block = (columns[name] for name in ("sequence", "launch", "block"))
        self._columns, self._semantics = columns, semantics
        self._compares = np.array(sorted(compares), np.int64)
        self.has_fences = any(semantic in ("release", "acq_rel") for semantic in semantics.values())
        self._heard = lru_cache(maxsize=4096)(self._find_heard)

    @cached_property
    def _atomics(self) -> list[tuple[int, int, int, set[tuple[int, int]], str]]:
        """Sequence, launch, program, elements and memory order of each atomic that orders anything."""
        found: list[tuple[int, int, int, set[tuple[int, int]], str]] = []
        columns = self._columns
        rows = np.flatnonzero((columns["what"] == ATOMIC) & columns["active"])
        names = ("sequence", "launch", "block", "buffer", "element")
        for sequence, launch, block, buffer, element in zip(*(columns[name][rows].tolist() for name in names)):
            if found and found[-1][0] == sequence:
                found[-1][3].add((buffer, element))
            elif (semantic := self._semantics.get(sequence, "relaxed")) != "relaxed":
                found.append((sequence, launch, block, {(buffer, element)}, semantic))
        return found

    @cached_property
    def _own(self) -> dict[tuple[int, int], list[int]]:
        """The sequences of each program's releasing atomics."""
        own: dict[tuple[int, int], list[int]] = {}
        for sequence, launch, block, _, semantic in self._atomics:
            if semantic in ("release", "acq_rel"):
                own.setdefault((launch, block), []).append(sequence)
        return own

    def is_compare(self, sequences: np.ndarray) -> np.ndarray:
        """See `Ordered`."""
        return np.isin(sequences, self._compares)

    def before(self, first: int, second: int) -> bool:
        """See `Ordered`."""
        a, b = (int(i) for i in np.searchsorted(self._sequence, (first, second)))
        launch, one, other = int(self._launch[a]), int(self._block[a]), int(self._block[b])
        if one == other:
            return True
        if self._follows_on(first, second, other):
            return True
        own = self._own.get((launch, one), [])
        release = bisect_right(own, first)
        if release == len(own):
            return False
        return self._heard(launch, one, own[release]).get(other, _NEVER) < second

    def _follows_on(self, first: int, second: int, block: int) -> bool:
        """Whether `first` is an atomic after which `block` made one on every element that both accesses touch."""
        places = self._places.get(first)
        if places is None:
            return False
        rows = slice(*np.searchsorted(self._sequence, (second, second + 1)))
        both = places.intersection(zip(*(self._columns[name][rows].tolist() for name in ("buffer", "element"))))
        left = set(both)
        for sequence, _, who, touched, _ in self._atomics:
            if first < sequence < second and who == block:
                left -= touched
        return bool(both) and not left

    @cached_property
    def _places(self) -> dict[int, set[tuple[int, int]]]:
        return {sequence: touched for sequence, _, _, touched, _ in self._atomics}

    def _find_heard(self, launch: int, block: int, release: int) -> dict[int, int]:
        """From when on each program knows what `block` did before its atomic with sequence `release`."""
        heard, told = {block: release}, set()
        for sequence, where, who, places, semantic in self._atomics:
            if sequence < release or where != launch:
                continue
            if who not in heard and semantic in ("acquire", "acq_rel") and not told.isdisjoint(places):
                heard[who] = sequence
            if who in heard and semantic in ("release", "acq_rel"):
                told |= places
        return heard


class Order(Ordered):
    """The order of one CUDA trace's accesses, asked for by their `sequence`.

    columns: those of the trace, one row an access as it was made (not expanded), ascending in sequence.
    warp_intervals: for each row, the `__syncwarp` calls since the last barrier. fences: columns launch, block, thread,
    interval, warp_interval, sequence and size (0: a fence for the block, 1: for the device). compares: which rows are
    compare-and-swaps. shared: for each buffer, whether every block has its own.
    """

    def __init__(
        self,
        columns: dict[str, np.ndarray],
        warp_intervals: np.ndarray,
        fences: dict[str, np.ndarray],
        compares: np.ndarray,
        shared: np.ndarray,
    ) -> None:
        self._sequence = columns["sequence"]
        self._compares = compares
        rows = np.flatnonzero(columns["what"] == ATOMIC)
        self.has_fences = bool(len(rows) and len(fences.get("sequence", ())))
        if not self.has_fences:
            return
        self._events = _Events(columns, warp_intervals, np.arange(len(self._sequence)))
        own = np.where(shared[columns["buffer"][rows]], columns["block"][rows].astype(np.int64), -1)
        places = [columns[name][rows].astype(np.int64) for name in ("launch", "buffer", "element")]
        _, counter = np.unique(np.stack([*places, own], axis=1), axis=0, return_inverse=True)
        self._counter = dict(zip(columns["sequence"][rows].tolist(), counter.reshape(-1).tolist()))
        self._atomics = _by_block(_Events(columns, warp_intervals, rows, counter.reshape(-1)))
        everything = np.arange(len(fences["sequence"]))
        self._fences = _by_block(_Events(fences, fences["warp_interval"], everything, fences["size"]))
        self._released = lru_cache(maxsize=4096)(self._find_released)

    def is_compare(self, sequences: np.ndarray) -> np.ndarray:
        """Which of these accesses are compare-and-swaps."""
        return self._compares[np.searchsorted(self._sequence, sequences)]

    def before(self, first: int, second: int) -> bool:
        """Whether the access with sequence `first` is ordered before the later one with `second`, which clashes."""
        a, b = (int(i) for i in np.searchsorted(self._sequence, (first, second)))
        all_, home = self._events, (int(self._events.launch[b]), int(self._events.block[b]))
        same_block = (int(all_.launch[a]), int(all_.block[a])) == home
        if same_block and all_.precedes(a, all_.at(b)):
            return True
        counters, any_scope, device = self._released(a)
        released = any_scope if same_block else device
        atomics = self._atomics.get(home)
        if atomics is None:
            return False
        heard = atomics.which_precede(all_, b)
        if (counter := self._counter.get(first)) is not None and bool(
            (heard & (atomics.mark == counter) & (atomics.sequence > first)).any()
        ):
            return True
        if not len(counters):
            return False
        place = np.minimum(np.searchsorted(counters, atomics.mark[heard]), len(counters) - 1)
        known = counters[place] == atomics.mark[heard]
        return bool((known & (released[place] < atomics.sequence[heard])).any())

    def _find_released(self, a: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """The counters by whose atomics access `a` is made known, and from when on: to its block, and to the device."""
        home = int(self._events.launch[a]), int(self._events.block[a])
        fences, atomics = self._fences.get(home), self._atomics.get(home)
        nothing = np.empty(0, np.int64)
        if fences is None or atomics is None:
            return nothing, nothing, nothing
        after = fences.which_follow(self._events, a)
        counters, place = np.unique(atomics.mark, return_inverse=True)
        times = []
        for fences_ in (after, after & (fences.mark == 1)):
            told = atomics.which_follow_any(fences, fences_)
            first = np.full(len(counters), _NEVER)
            np.minimum.at(first, place.reshape(-1)[told], atomics.sequence[told])
            times.append(first)
        return counters, times[0], times[1]


class _Events:
    """Some events as arrays. `key` orders the intervals of one warp: barriers first, then `__syncwarp`."""

    def __init__(
        self, columns: dict[str, np.ndarray], synced: np.ndarray, rows: np.ndarray, mark: np.ndarray | None = None
    ) -> None:
        self.launch, self.block, self.thread, self.interval, self.sequence = (
            columns[name][rows].astype(np.int64) for name in ("launch", "block", "thread", "interval", "sequence")
        )
        self.warp = self.thread // WARP_SIZE
        self.key = self.interval << 16 | synced[rows].astype(np.int64)
        self.mark = np.zeros(len(rows), np.int64) if mark is None else mark.astype(np.int64)

    def at(self, i: int) -> tuple[int, int, int, int, int]:
        return tuple(int(a[i]) for a in (self.thread, self.interval, self.warp, self.key, self.sequence))

    def rows(self, keep: np.ndarray) -> _Events:
        some = object.__new__(_Events)
        some.__dict__ = {name: array[keep] for name, array in self.__dict__.items()}
        return some

    def precedes(self, i: int, other: tuple[int, int, int, int, int]) -> bool:
        thread, interval, warp, key, sequence = other
        own, own_interval, own_warp, own_key, own_sequence = self.at(i)
        return (
            (own == thread and own_sequence < sequence)
            or own_interval < interval
            or (own_warp == warp and own_key < key)
        )

    def which_precede(self, others: _Events, i: int) -> np.ndarray:
        """Which of these are ordered before event `i` of the same block."""
        thread, interval, warp, key, sequence = others.at(i)
        same = (self.thread == thread) & (self.sequence < sequence)
        return same | (self.interval < interval) | ((self.warp == warp) & (self.key < key))

    def which_follow(self, others: _Events, i: int) -> np.ndarray:
        """Which of these are ordered after event `i` of the same block."""
        thread, interval, warp, key, sequence = others.at(i)
        same = (self.thread == thread) & (self.sequence > sequence)
        return same | (self.interval > interval) | ((self.warp == warp) & (self.key > key))

    def which_follow_any(self, others: _Events, keep: np.ndarray) -> np.ndarray:
        """Which of these are ordered after at least one of the kept others of the same block."""
        if not keep.any():
            return np.zeros(len(self.thread), bool)
        by_thread, by_warp = np.full(1024, _NEVER), np.full(1024 // WARP_SIZE, _NEVER)
        np.minimum.at(by_thread, others.thread[keep], others.sequence[keep])
        np.minimum.at(by_warp, others.warp[keep], others.key[keep])
        same = by_thread[self.thread] < self.sequence
        return same | (self.interval > others.interval[keep].min()) | (by_warp[self.warp] < self.key)


def _by_block(events: _Events) -> dict[tuple[int, int], _Events]:
    """The events of each (launch, block)."""
    order = np.lexsort((events.sequence, events.block, events.launch))
    launch, block = events.launch[order], events.block[order]
    starts = np.flatnonzero(np.append(True, (np.diff(launch) != 0) | (np.diff(block) != 0)))
    ends = np.append(starts[1:], len(order))
    return {(int(launch[a]), int(block[a])): events.rows(order[a:b]) for a, b in zip(starts, ends)}
