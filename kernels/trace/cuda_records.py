"""Columns from the recorder's memory: 16 bytes an event, and what one thread's events share only once, as a turn."""

from __future__ import annotations

from functools import cached_property

import numpy as np

from kernels.trace.cuda_library import SIZE_BITS


class Recorded:
    """All events of a trace and the turns that say who made them; see `EVENT` and `TURN` of `cuda_library`."""

    def __init__(self, events: np.ndarray, turns: np.ndarray) -> None:
        self.events = events
        self.turns = turns

    def rows(self, which: np.ndarray) -> Rows:
        """The events that a mask picks, in the order in which they were made."""
        return Rows(self, None if which.all() else which)


class Rows:
    """Some events, as columns that are made when they are asked for and own their memory."""

    def __init__(self, recorded: Recorded, which: np.ndarray | None) -> None:
        self._recorded = recorded
        self.sequence = np.arange(len(recorded.events)) if which is None else np.flatnonzero(which)
        self._which = None if which is None else self.sequence

    def __len__(self) -> int:
        return len(self.sequence)

    def _column(self, name: str, kind: type) -> np.ndarray:
        column = self._recorded.events[name]
        return (column if self._which is None else column[self._which]).astype(kind)

    @cached_property
    def pc(self) -> np.ndarray:
        return self._column("pc", np.intp)

    @cached_property
    def region(self) -> np.ndarray:
        return self._column("region", np.intp)

    @cached_property
    def kind(self) -> np.ndarray:
        return self._column("kind", np.int8)

    @cached_property
    def _place(self) -> np.ndarray:
        return self._column("place", np.int64)

    @property
    def size(self) -> np.ndarray:
        """Bytes, int32."""
        return self._place.astype(np.int32) & ((1 << SIZE_BITS) - 1)

    @property
    def offset(self) -> np.ndarray:
        """Bytes from the first of the region, int64; negative in front of it."""
        return self._place >> SIZE_BITS

    def elements(self, itemsize: np.ndarray) -> np.ndarray:
        """The element that each access begins in; `itemsize` holds the bytes of an item for each region."""
        if (itemsize & (itemsize - 1)).any():
            return self.offset // itemsize[self.region]
        shift = SIZE_BITS + np.log2(itemsize).astype(np.int64)
        return self._place >> (shift[0] if (shift == shift[0]).all() else shift[self.region])

    @cached_property
    def _counts(self) -> np.ndarray:
        """How many of the rows each turn has."""
        first = self._recorded.turns["first"].astype(np.int64)
        if self._which is None:
            return np.diff(first, append=len(self._recorded.events))
        before = np.zeros(len(self._recorded.events) + 1, np.int64)  # rows in front of each event
        before[self._which + 1] = 1
        np.cumsum(before, out=before)
        return np.diff(before[first], append=len(self))

    def turns(self, name: str) -> np.ndarray:
        """What the turns say about the rows, int32: `launch`, `block`, `thread`, `interval` or `warp_interval`."""
        values = self._recorded.turns[name].astype(np.int32)
        if not len(self) or not values.any():
            return np.zeros(len(self), np.int32)
        return np.repeat(values, self._counts)
