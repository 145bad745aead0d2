"""Columns from the recorder's memory: 16 bytes an event, and what one thread's events share only once, as a turn."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property

import numpy as np

from kernels.trace.cuda_library import BARRIER, COMPARE_AND_SWAP, COPY_END, SIZE_BITS
from kernels.trace.model import ATOMIC

_CHUNK = 1 << 15  # events turned into columns at a time: what lies between stays in the cache
_SIZE = (1 << SIZE_BITS) - 1


class Recorded:
    """All events of a trace and the turns that say who made them; see `EVENT` and `TURN` of `cuda_library`.

    `hidden` are regions whose accesses are the compiler's own and not the kernel's.
    """

    def __init__(self, events: np.ndarray, turns: np.ndarray, hidden: Sequence[int] = ()) -> None:
        self.events = events
        self.turns = turns
        self._hidden = hidden

    @property
    def accesses(self) -> Rows:
        kinds = self.events["kind"]
        which = (kinds < BARRIER) | (kinds == COMPARE_AND_SWAP) | (kinds == COPY_END)
        if len(self._hidden):
            which &= ~np.isin(self.events["region"], self._hidden)
        return Rows(self, which)

    def kinds(self, *kinds: int) -> Rows:
        """The events of these kinds."""
        return Rows(self, np.isin(self.events["kind"], kinds))


class Rows:
    """Some events, in the order in which they were made; `sequence` holds their numbers. Columns own their memory."""

    def __init__(self, recorded: Recorded, which: np.ndarray) -> None:
        self._recorded = recorded
        self._which = which
        self._all = bool(which.all())
        self.sequence = np.arange(len(which)) if self._all else np.flatnonzero(which)

    def __len__(self) -> int:
        return len(self.sequence)

    def _part(self, start: int = 0, end: int | None = None) -> np.ndarray:
        events = self._recorded.events
        return events[start:end] if self._all else events[self.sequence[start:end]]

    def regions(self, count: int) -> np.ndarray:
        """Which of the first `count` regions are touched."""
        touched = np.zeros(1 << 16, bool)
        touched[self._part()["region"]] = True
        return touched[:count]

    def common_divisor(self, region: int, *numbers: int) -> int:
        """The largest number of bytes that divides all offsets and sizes of a region's accesses, and `numbers`."""
        part = self._part()
        place = part["place"][part["region"] == region]
        return int(np.gcd.reduce(np.concatenate([numbers, place >> SIZE_BITS, place & _SIZE])))

    @cached_property
    def _finest(self) -> int:
        """The largest power of two that divides every offset and size; 0 where there is no access."""
        bits = int(np.bitwise_or.reduce(self._part()["place"], initial=0))
        bits = bits >> SIZE_BITS | bits & _SIZE
        return bits & -bits

    def finest(self, region: int, itemsize: int) -> int:
        """The largest number of bytes that divides `itemsize` and every access to a region: less than an item where
        accesses are to parts of one."""
        if itemsize < 2 or self._finest % itemsize == 0:
            return itemsize
        return self.common_divisor(region, itemsize)

    def within(self) -> np.ndarray:
        """How many bytes in front of each access the region begins, int64."""
        return self._part()["place"] >> SIZE_BITS

    def columns(
        self, site_of: np.ndarray, buffer_of: np.ndarray, itemsize: np.ndarray
    ) -> tuple[dict[str, np.ndarray], np.ndarray]:
        """What each access is and where, and which are compare-and-swaps.

        `site_of` gives the source line for a return address, `buffer_of` and `itemsize` the buffer's number and bytes
        an item for a region. The columns: `what`, `buffer`, `element`, `size`, `site`.
        """
        count = len(self)
        kinds = {"what": np.int8, "buffer": np.int16, "element": np.int64, "size": np.int32, "site": np.int32}
        out = {name: np.empty(count, kind) for name, kind in kinds.items()}
        compares = np.empty(count, bool)
        shift = SIZE_BITS + np.log2(itemsize).astype(np.int64) if not (itemsize & (itemsize - 1)).any() else None
        for start in range(0, count, _CHUNK):
            here = slice(start, min(count, start + _CHUNK))
            part = self._part(here.start, here.stop)
            place, region = part["place"], part["region"].astype(np.intp)
            out["size"][here] = place & _SIZE
            # A shift rounds down, as a distance in front of the buffer must be: -4 bytes are element -1.
            out["element"][here] = (place >> SIZE_BITS) // itemsize[region] if shift is None else place >> shift[region]
            out["buffer"][here] = buffer_of[region]
            out["site"][here] = site_of[part["pc"]]
            out["what"][here] = part["kind"]
            np.equal(part["kind"], COMPARE_AND_SWAP, out=compares[here])
        if compares.any():
            out["what"][compares] = ATOMIC
        return out, compares

    def steps(self, site_of: np.ndarray) -> dict[str, np.ndarray]:
        """Events that are no access, as columns of int32 and smaller; `sequence` is int64."""
        columns = {name: self.turns(name) for name in ("launch", "block", "thread", "interval", "warp_interval")}
        part = self._part()
        columns |= {"what": part["kind"].astype(np.int8), "size": (part["place"] & _SIZE).astype(np.int32)}
        return columns | {"site": site_of[part["pc"]], "sequence": self.sequence}

    @cached_property
    def _counts(self) -> np.ndarray:
        """How many of the rows each turn has."""
        first = self._recorded.turns["first"].astype(np.int64)
        if not self._all:
            which = self._which
            until = np.cumsum(which, dtype=np.int32 if len(which) < 2**31 else np.int64)
            first = (until[first] - which[first]).astype(np.int64)  # rows in front of the turn
        counts = np.empty(len(first), np.int64)
        np.subtract(first[1:], first[:-1], out=counts[:-1])
        counts[-1:] = len(self) - first[-1:]
        return counts

    def turns(self, name: str) -> np.ndarray:
        """What the turns say about the rows, int32: `launch`, `block`, `thread`, `interval` or `warp_interval`."""
        values = self._recorded.turns[name]
        if not len(self) or not values.any():
            return np.zeros(len(self), np.int32)
        return np.repeat(values.astype(np.int32), self._counts)
