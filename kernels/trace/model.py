"""One model for what a kernel touched, whether it is written in Triton or in CUDA C++.

A trace is a table with one row an access to one element (or to one vector of neighbouring elements, as a `float4` load
is): who made it, what it was, where, when, and from which source line. The rows are numpy columns, so that a hundred
thousand accesses stay small; `trace[i]` gives one row as an `Event`.

Who: a Triton *program* and a CUDA *block* are the same column, `block`, numbered x fastest. `thread` is the thread's
number in its block, x fastest, or -1 where the language does not show threads (Triton under the interpreter).
Where: a buffer and an element, counted in the buffer's items from its first item. An access outside the buffer keeps
its signed element, so -1 and `len` are seen as such.
When: `interval` counts the barriers the block has passed; `sequence` orders all rows. Every element of one Triton load,
store or atomic has the same sequence number.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Literal

import numpy as np

from kernels.trace.places import WARP_SIZE, Buffer, Launch

if TYPE_CHECKING:
    from kernels.trace.advice import Advice
    from kernels.trace.faults import Fault
    from kernels.trace.requests import Request
    from kernels.trace.views import Divergence, RequestTable, Unit

READ, WRITE, ATOMIC = 0, 1, 2
KINDS = ("read", "write", "atomic")
Who = Literal["block", "warp", "thread"]


@dataclass(frozen=True)
class Event:
    """One row of a trace. `active` is False for an element that a mask switched off: it was not touched."""

    launch: int
    block: int
    block_id: tuple[int, int, int]
    thread: int
    warp: int
    lane: int
    what: str
    active: bool
    buffer: str
    element: int
    size: int
    interval: int
    sequence: int
    file: str
    line: int


COLUMNS = {
    "launch": np.int32,
    "block": np.int32,
    "thread": np.int32,
    "what": np.int8,
    "active": np.bool_,
    "buffer": np.int16,
    "element": np.int64,
    "size": np.int32,
    "interval": np.int32,
    "sequence": np.int64,
    "site": np.int32,
}


@dataclass(frozen=True)
class Trace:
    """The accesses of one or several launches, with the views that pages and verdicts are made of.

    `columns` maps each name of who/what/where/when to an array of equal length; `buffer` and `site` index `buffers`
    and `sites` (file, line). `masks` says for a (site, kind of access), as numbers, whether the accesses have a mask;
    what it lacks cannot be told. Build one with `Recorder`.
    """

    launches: tuple[Launch, ...]
    buffers: tuple[Buffer, ...]
    sites: tuple[tuple[str, int], ...]
    columns: dict[str, np.ndarray] = field(repr=False)
    masks: dict[tuple[int, int], bool] = field(default_factory=dict, repr=False, kw_only=True)

    def __len__(self) -> int:
        return len(self.columns["block"])

    def __getitem__(self, row: int) -> Event:
        get = {name: column[row].item() for name, column in self.columns.items()}
        thread, (file, line) = get["thread"], self.sites[get.pop("site")]
        return Event(
            **get
            | {
                "what": KINDS[get["what"]],
                "buffer": self.buffers[get["buffer"]].name,
                "block_id": self.launches[get["launch"]].block_id(get["block"]),
                "warp": thread // WARP_SIZE if thread >= 0 else -1,
                "lane": thread % WARP_SIZE if thread >= 0 else -1,
                "file": file,
                "line": line,
            }
        )

    def __iter__(self) -> Iterator[Event]:
        return (self[row] for row in range(len(self)))

    @property
    def warps(self) -> np.ndarray:
        """The warp of every row, -1 where threads are not shown."""
        thread = self.columns["thread"]
        return np.where(thread >= 0, thread // WARP_SIZE, -1)

    def buffer(self, name: str) -> Buffer:
        """The buffer of that name; KeyError naming those there are."""
        return self.buffers[self.buffer_number(name)]

    def buffer_number(self, name: str) -> int:
        for number, buffer in enumerate(self.buffers):
            if buffer.name == name:
                return number
        known = ", ".join(buffer.name for buffer in self.buffers) or "none"
        raise KeyError(f"the trace has no buffer {name!r}; it has: {known}")

    def select(
        self,
        *,
        buffer: str | None = None,
        what: str | None = None,
        launch: int | None = None,
        block: int | None = None,
        thread: int | None = None,
        warp: int | None = None,
        line: int | None = None,
        space: str | None = None,
        active: bool | None = None,
    ) -> Trace:
        """The rows that match all that is given: `what` one of `KINDS`, `space` "global" or "shared"."""
        keep = np.ones(len(self), bool)
        if buffer is not None:
            keep &= self.columns["buffer"] == self.buffer_number(buffer)
        if what is not None:
            keep &= self.columns["what"] == KINDS.index(what)
        if warp is not None:
            keep &= self.warps == warp
        if line is not None:
            keep &= np.array([at == line for _, at in self.sites] or [False])[self.columns["site"]]
        if space is not None:
            keep &= np.array([b.space == space for b in self.buffers] or [False])[self.columns["buffer"]]
        for name, value in (("launch", launch), ("block", block), ("thread", thread), ("active", active)):
            if value is not None:
                keep &= self.columns[name] == value
        return self.rows(keep)

    def rows(self, keep: np.ndarray) -> Trace:
        """The rows that a boolean mask or an index array picks, in that order."""
        if keep.dtype == bool:
            keep = np.flatnonzero(keep)  # found once, not for every column
            if len(keep) == len(self):
                return Trace(self.launches, self.buffers, self.sites, dict(self.columns), masks=self.masks)
        columns = {name: column[keep] for name, column in self.columns.items()}
        return Trace(self.launches, self.buffers, self.sites, columns, masks=self.masks)

    def expanded(self) -> Trace:
        """The same accesses with one row an element: a `float4` read of 16 bytes becomes four rows of 4."""
        itemsize = np.array([b.itemsize for b in self.buffers] or [1])[self.columns["buffer"]]
        width = np.maximum(1, -(-self.columns["size"] // itemsize))
        if not len(self) or width.max() == 1:
            return self
        wide = self.rows(np.repeat(np.arange(len(self)), width))
        start = np.repeat(np.cumsum(width) - width, width)
        wide.columns["element"] = wide.columns["element"] + np.arange(len(wide)) - start
        wide.columns["size"] = np.minimum(wide.columns["size"], np.repeat(itemsize, width)).astype(np.int32)
        return wide

    def _who(self, by: Who) -> np.ndarray:
        if by == "warp":
            return self.warps
        if by not in ("block", "thread"):
            raise ValueError(f'by={by!r} names no owner; use "block", "warp" or "thread"')
        return self.columns[by]

    def _touched(self, buffer: str, kinds: tuple[int, ...], launch: int | None) -> Trace:
        rows = self.select(buffer=buffer, launch=launch, active=True).expanded()
        return rows.rows(np.isin(rows.columns["what"], kinds) & self.buffer(buffer).holds(rows.columns["element"]))

    def owners(
        self, buffer: str, by: Who = "block", launch: int | None = None, what: Literal["write", "read"] = "write"
    ) -> np.ndarray:
        """Who wrote (or read) each element last: int32, of the buffer's shape, -1 where nobody did. Atomics count."""
        view = self.buffer(buffer)
        rows = self._touched(buffer, (READ if what == "read" else WRITE, ATOMIC), launch)
        owner = np.full(view.extent, -1, np.int32)
        order = np.argsort(rows.columns["sequence"], kind="stable")
        owner[rows.columns["element"][order]] = rows._who(by)[order]
        return owner[view.offsets]

    def writers(self, buffer: str, by: Who = "block", launch: int | None = None) -> list[tuple[int, ...]]:
        """Everyone who wrote each element, sorted; one tuple an element in the order of the view (C order)."""
        return self._everyone(buffer, (WRITE, ATOMIC), by, launch)

    def readers(self, buffer: str, by: Who = "block", launch: int | None = None) -> list[tuple[int, ...]]:
        """Everyone who read each element, sorted; one tuple an element in the order of the view (C order)."""
        return self._everyone(buffer, (READ, ATOMIC), by, launch)

    def _everyone(self, buffer: str, kinds: tuple[int, ...], by: Who, launch: int | None) -> list[tuple[int, ...]]:
        view = self.buffer(buffer)
        rows = self._touched(buffer, kinds, launch)
        people: list[list[int]] = [[] for _ in range(view.extent)]
        pairs = np.unique(np.stack([rows.columns["element"], rows._who(by)], axis=1), axis=0)
        for element, who in pairs.tolist():
            people[element].append(who)
        return [tuple(people[element]) for element in view.offsets.reshape(-1).tolist()]

    def counts(self, buffer: str, what: str = "write", launch: int | None = None) -> np.ndarray:
        """How many times each element was read, written or updated: an int64 array of the buffer's shape."""
        view = self.buffer(buffer)
        rows = self._touched(buffer, (KINDS.index(what),), launch)
        return np.bincount(rows.columns["element"], minlength=view.extent)[view.offsets]

    def masked(self, buffer: str, what: str | None = None, launch: int | None = None) -> dict[int, int]:
        """Elements that a mask switched off, also outside the buffer, and who held them: {element: block}."""
        return self.select(buffer=buffer, what=what, launch=launch, active=False)._holders()

    def outside(self, buffer: str, what: str | None = None, launch: int | None = None) -> dict[int, int]:
        """Elements that were touched although the buffer has none such, and who touched them: {element: block}."""
        rows = self.select(buffer=buffer, what=what, launch=launch, active=True).expanded()
        rows = rows.rows(~self.buffer(buffer).holds(rows.columns["element"]))
        return rows._holders()

    def _holders(self) -> dict[int, int]:
        order = np.lexsort((self.columns["sequence"], self.columns["element"]))
        return dict(zip(self.columns["element"][order].tolist(), self.columns["block"][order].tolist(), strict=True))

    def programs(self, launch: int = 0) -> list[dict[str, int | tuple[int, int, int]]]:
        """Per block of a launch: its number, its id and how many elements it read, wrote, updated and masked off."""
        rows = self.select(launch=launch).expanded()
        run = self.launches[launch]
        tally = np.zeros((run.blocks, 4), np.int64)
        kind = np.where(rows.columns["active"], rows.columns["what"], 3)
        np.add.at(tally, (rows.columns["block"], kind), 1)
        names = ("reads", "writes", "atomics", "masked")
        return [
            {"block": block, "block_id": run.block_id(block)} | dict(zip(names, line, strict=True))
            for block, line in enumerate(tally.tolist())
        ]

    def timeline(self, launch: int = 0, block: int = 0, space: str = "shared") -> list[dict[str, int]]:
        """Per warp and barrier interval of one block: how many threads' reads and writes fell there, in that order."""
        rows = self.select(launch=launch, block=block, space=space, active=True)
        cells: dict[tuple[int, int], list[int]] = {}
        for warp, interval, what in zip(
            rows.warps.tolist(), rows.columns["interval"].tolist(), rows.columns["what"].tolist()
        ):
            cells.setdefault((warp, interval), [0, 0, 0])[what] += 1
        return [
            {"warp": warp, "interval": interval, "reads": tally[0], "writes": tally[1], "atomics": tally[2]}
            for (warp, interval), tally in sorted(cells.items())
        ]

    def requests(self, **which: object) -> list[Request]:
        """The memory requests of warps (of programs, where threads are not shown); takes what `select` takes."""
        from kernels.trace.requests import requests

        return requests(self.select(**which))

    def request_table(self, **which: object) -> RequestTable:
        """`requests()` as arrays, for large traces, with sums by source line; takes what `select` takes."""
        from kernels.trace.views import request_table

        return request_table(self.select(**which))

    def divergence(self, **which: object) -> Divergence:
        """Which lanes of each warp ran each source line, and how often; takes what `select` takes."""
        from kernels.trace.views import divergence

        return divergence(self.select(**which))

    def thread_counts(
        self, what: str, buffer: str | None = None, launch: int = 0, unit: Unit = "accesses"
    ) -> np.ndarray:
        """How often each thread of a launch read, wrote or updated: int64, shape (blocks, threads a block).

        `what` is one of `KINDS`, `unit` "accesses", "elements" or "bytes". ValueError where no threads are shown.
        """
        from kernels.trace.views import thread_counts

        return thread_counts(self, what, buffer, launch, unit)

    def bank_conflicts(self, **which: object) -> list[Request]:
        """The shared-memory requests that need more wavefronts than a conflict-free one would."""
        shared = self.requests(space="shared", **which)
        return [request for request in shared if request.wavefronts > request.ideal_wavefronts]

    def faults(self, outputs: Sequence[str] | None = None) -> list[Fault]:
        """What is wrong with these accesses, worst first: see `kernels.trace.faults`."""
        from kernels.trace.faults import faults

        return faults(self, outputs)

    def advice(self) -> list[Advice]:
        """What is right and slow: uncoalesced accesses and bank conflicts, worst first; see `kernels.trace.advice`."""
        from kernels.trace.advice import advice

        return advice(self)


class Recorder:
    """Collects rows for a `Trace`. Rows arrive as arrays or as scalars that stand for all rows of one call."""

    def __init__(self) -> None:
        self.launches: list[Launch] = []
        self.buffers: list[Buffer] = []
        self._sites: dict[tuple[str, int], int] = {}
        self._parts: list[dict[str, np.ndarray]] = []
        self._sequence = 0

    def launch(self, launch: Launch) -> int:
        """Adds a launch and returns its number."""
        self.launches.append(launch)
        return len(self.launches) - 1

    def buffer(self, buffer: Buffer) -> int:
        """Adds a buffer and returns its number; names must differ."""
        if any(buffer.name == other.name for other in self.buffers):
            raise ValueError(f"two buffers are called {buffer.name!r}; give each its own name")
        self.buffers.append(buffer)
        return len(self.buffers) - 1

    def site(self, file: str, line: int) -> int:
        """The number of a source line."""
        return self._sites.setdefault((file, line), len(self._sites))

    def add(
        self, *, launch, block, what, buffer, element, size, site, thread=-1, active=True, interval=0, sequence=None
    ) -> None:
        """Adds rows; each value is an array of one length or a scalar. Without `sequence` the call is one operation."""
        if sequence is None:
            sequence = self._sequence
        given = locals()
        arrays = np.broadcast_arrays(*(np.asarray(given[name]) for name in COLUMNS))
        self._parts.append({n: np.ravel(a).astype(t) for (n, t), a in zip(COLUMNS.items(), arrays, strict=True)})
        if np.size(sequence):
            self._sequence = max(self._sequence, int(np.max(sequence)) + 1)

    @property
    def next_sequence(self) -> int:
        """The sequence number that the next operation gets."""
        return self._sequence

    def trace(self) -> Trace:
        """The trace of everything added so far."""
        columns = {
            name: np.concatenate([part[name] for part in self._parts] or [np.empty(0, kind)])
            for name, kind in COLUMNS.items()
        }
        return Trace(tuple(self.launches), tuple(self.buffers), tuple(self._sites), columns)


def shown_path(file: str) -> str:
    """A source file as readers know it: relative to the project or to the working directory, else its name alone."""
    path = Path(file)
    for root in (Path(__file__).resolve().parents[2], Path.cwd()):
        if path.is_absolute() and path.is_relative_to(root):
            return path.relative_to(root).as_posix()
    return path.name if path.is_absolute() else path.as_posix()
