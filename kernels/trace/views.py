"""Tables over a whole trace, as arrays: its requests, the divergence of its warps, the work of each thread.

They say of a million rows what `Trace.requests()` says of a few, in a fraction of a second.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from math import prod
from typing import TYPE_CHECKING, Literal

import numpy as np

from kernels.trace.keys import group_numbers
from kernels.trace.model import ATOMIC, KINDS, READ, WARP_SIZE
from kernels.trace.requests import BANK_BYTES, BANKS, SECTOR_BYTES, groups, pair_of

if TYPE_CHECKING:
    from kernels.trace.model import Trace

Unit = Literal["accesses", "elements", "bytes"]


@dataclass(frozen=True)
class RequestTable:
    """The memory requests of a trace, one entry each, in the order of `Trace.requests()`; every array is int64.

    Who, what, where, when: launch, block, warp (-1 without threads), kind (index into `KINDS`), buffer and site (index
    into the trace's), interval, size (bytes a lane), lanes (how many take part).
    What it costs: sectors, useful_bytes, wavefronts, ideal_wavefronts, conflict_degree, as `Request` defines them.
    """

    trace: Trace = field(repr=False)
    launch: np.ndarray
    block: np.ndarray
    warp: np.ndarray
    kind: np.ndarray
    buffer: np.ndarray
    site: np.ndarray
    interval: np.ndarray
    size: np.ndarray
    lanes: np.ndarray
    sectors: np.ndarray
    useful_bytes: np.ndarray
    wavefronts: np.ndarray
    ideal_wavefronts: np.ndarray
    conflict_degree: np.ndarray

    def __len__(self) -> int:
        return len(self.launch)

    @property
    def sector_bytes(self) -> np.ndarray:
        """Bytes moved: whole sectors."""
        return SECTOR_BYTES * self.sectors

    @property
    def efficiency(self) -> np.ndarray:
        """Useful bytes over bytes moved, in (0, 1]: float64."""
        return self.useful_bytes / np.maximum(1, self.sector_bytes)

    def by_line(self) -> list[dict[str, int | float | str]]:
        """Sums over the requests of each source line, kind and buffer, in the order in which they first occur.

        Keys: file, line, what, buffer, space, requests, lanes, bytes (asked for by lanes, those that share included),
        useful_bytes, sectors, sector_bytes, efficiency, wavefronts, ideal_wavefronts and conflict_degree (the largest).
        The passes over banks say something of shared memory, the sectors of global memory.
        """
        if not len(self):
            return []
        number = group_numbers([self.site, self.kind, self.buffer])[0]
        _, first, number = np.unique(number, return_index=True, return_inverse=True)
        number = number.reshape(-1)

        def total(values: np.ndarray) -> list[int]:
            return np.bincount(number, values, len(first)).astype(np.int64).tolist()

        degree = np.zeros(len(first), np.int64)
        np.maximum.at(degree, number, self.conflict_degree)
        columns = {
            "requests": total(np.ones(len(self))),
            "lanes": total(self.lanes),
            "bytes": total(self.lanes * self.size),
            "useful_bytes": total(self.useful_bytes),
            "sectors": total(self.sectors),
            "sector_bytes": total(self.sector_bytes),
            "wavefronts": total(self.wavefronts),
            "ideal_wavefronts": total(self.ideal_wavefronts),
            "conflict_degree": degree.tolist(),
        }
        lines = []
        for i in np.argsort(first).tolist():
            request = first[i]
            file, line = self.trace.sites[self.site[request]]
            buffer = self.trace.buffers[self.buffer[request]]
            numbers = {name: values[i] for name, values in columns.items()}
            where = {"file": file, "line": line, "what": KINDS[self.kind[request]]}
            efficiency = numbers["useful_bytes"] / numbers["sector_bytes"]
            lines.append(where | {"buffer": buffer.name, "space": buffer.space} | numbers | {"efficiency": efficiency})
        return lines


def request_table(trace: Trace) -> RequestTable:
    """The requests of a trace as arrays; the same ones as `kernels.trace.requests.requests` makes objects of."""
    trace = trace.select(active=True)
    column = trace.columns
    if not len(trace):
        return RequestTable(trace, *(np.empty(0, np.int64) for _ in range(14)))
    group = groups(trace)
    count = int(group.max()) + 1
    began = np.full(count, np.iinfo(np.int64).max)
    np.minimum.at(began, group, column["sequence"])
    place = np.empty(count, np.int64)
    place[np.argsort(began, kind="stable")] = np.arange(count)
    group = place[group]
    threads = column["thread"] >= 0
    order = np.lexsort((np.where(threads, column["thread"], column["element"]), group))
    trace = trace.rows(order)
    column, group, threads = trace.columns, group[order], threads[order]
    first = np.flatnonzero(np.diff(group, prepend=-1))
    lanes = np.diff(np.append(first, len(order)))
    size = column["size"][first].astype(np.int64)
    base, item = (np.array([getattr(buffer, name) for buffer in trace.buffers]) for name in ("address", "itemsize"))
    address = base[column["buffer"]] + column["element"] * item[column["buffer"]]
    lane = np.where(threads, column["thread"] % WARP_SIZE, np.arange(len(order)) - first[group])
    costs = _sectors(group, address, size, count), _useful(group, address, size, count)
    costs += _passes(group, lane, address, size, column["what"][first])
    who = (column[name][first].astype(np.int64) for name in ("launch", "block"))
    what = (column[name][first].astype(np.int64) for name in ("what", "buffer", "site", "interval"))
    return RequestTable(trace, *who, trace.warps[first].astype(np.int64), *what, size, lanes, *costs)


def _sectors(group: np.ndarray, address: np.ndarray, size: np.ndarray, count: int) -> np.ndarray:
    row, sector = _units(address, size[group], SECTOR_BYTES)
    owner = _distinct(group[row], sector)[0]
    return np.bincount(owner, minlength=count)


def _useful(group: np.ndarray, address: np.ndarray, size: np.ndarray, count: int) -> np.ndarray:
    # All accesses of a request have one size, so of neighbours the first contributes what the next does not cover.
    owner, start = _distinct(group, address)
    gap = np.full(len(owner), np.iinfo(np.int64).max)
    gap[:-1] = np.where(owner[1:] == owner[:-1], np.diff(start), gap[:-1])
    return np.bincount(owner, np.minimum(gap, size[owner]), count).astype(np.int64)


def _passes(
    group: np.ndarray, lane: np.ndarray, address: np.ndarray, size: np.ndarray, what: np.ndarray
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Wavefronts, how few there could be, and the conflict degree of each request."""
    count = len(size)
    width = np.maximum(1, WARP_SIZE // np.maximum(1, size // BANK_BYTES))
    width *= 1 + _in_pairs(group, lane, address, (what == READ) & (size // BANK_BYTES > 1))
    row, word = _units(address, size[group], BANK_BYTES)
    owner = group[row]
    phase, phases = group_numbers([owner, lane[row] // width[owner]])
    of_phase = np.zeros(phases, np.int64)
    of_phase[phase] = owner
    # Lanes that read or write one word share it; atomics take turns.
    key, word, _ = _distinct(phase, word, np.where(what[owner] == ATOMIC, lane[row], 0))
    load = np.bincount(key * BANKS + word % BANKS, minlength=phases * BANKS).reshape(phases, BANKS).max(axis=1)
    degree = np.zeros(count, np.int64)
    np.maximum.at(degree, of_phase[load > 0], load[load > 0])
    wavefronts = np.bincount(of_phase, load, count).astype(np.int64)
    return wavefronts, np.bincount(of_phase, load > 0, count).astype(np.int64), degree


def _in_pairs(group: np.ndarray, lane: np.ndarray, address: np.ndarray, wide: np.ndarray) -> np.ndarray:
    """Which of the `wide` requests are `in_pairs`: bool, one a request."""
    found = np.zeros(len(wide), bool)
    rows = wide[group]
    if not rows.any():
        return found
    group, lane, address = group[rows], lane[rows], address[rows]
    for distance in (1, 2):
        owner, pair, _ = _distinct(group, pair_of(lane, distance), address)
        asked = np.bincount(owner, minlength=len(wide))
        found |= asked == np.bincount(_distinct(owner, pair)[0], minlength=len(wide))
    return found & wide


def _units(address: np.ndarray, size: np.ndarray, unit: int) -> tuple[np.ndarray, np.ndarray]:
    """Row and number of each unit of so many bytes that a row touches."""
    first, last = address // unit, (address + size - 1) // unit
    width = last - first + 1
    if (width == 1).all():
        return np.arange(len(first)), first
    row = np.repeat(np.arange(len(first)), width)
    return row, first[row] + np.arange(len(row)) - np.repeat(np.cumsum(width) - width, width)


def _distinct(*columns: np.ndarray) -> tuple[np.ndarray, ...]:
    """The different rows of a table, in ascending order."""
    lows, spans = [int(column.min()) for column in columns], [int(np.ptp(column)) + 1 for column in columns]
    if prod(spans) >= 1 << 62:  # too many combinations for one number
        order = np.lexsort(columns[::-1])
        new = np.append(True, np.any([np.diff(column[order]) != 0 for column in columns], axis=0))
        return tuple(column[order[new]] for column in columns)
    key = np.zeros(len(columns[0]), np.int64)
    for column, low, span in zip(columns, lows, spans, strict=True):
        key = key * span + (column - low)
    key.sort(kind="stable")  # rows come almost in order, which this kind makes use of
    key = key[np.append(True, key[1:] != key[:-1])]
    found = []
    for low, span in zip(lows[::-1], spans[::-1], strict=True):
        found.insert(0, key % span + low if span > 1 else np.full(len(key), low))
        key = key // span if span > 1 else key
    return tuple(found)


@dataclass(frozen=True)
class Divergence:
    """How often each lane ran each source line, one entry a warp and line, in the order of launch, block, warp, line.

    launch, block, warp, site: int64 arrays; site indexes the trace's `sites`. `passes[i, lane]` is how often the lane
    ran the line: its accesses there, of the kind and buffer that it has most of. `lanes[i, lane]` says whether the
    block has such a thread. A trace sees memory accesses: a line without one is not here.
    """

    trace: Trace = field(repr=False)
    launch: np.ndarray
    block: np.ndarray
    warp: np.ndarray
    site: np.ndarray
    passes: np.ndarray
    lanes: np.ndarray

    def __len__(self) -> int:
        return len(self.launch)

    @property
    def idle(self) -> np.ndarray:
        """Which entries have lanes that never ran the line although others of their warp did: another side."""
        return ((self.passes == 0) & self.lanes).any(axis=1)

    @property
    def uneven(self) -> np.ndarray:
        """Which entries have lanes that ran the line a different number of times, all of them at least once."""
        most = self.passes.max(axis=1, initial=0)
        return ((self.passes != most[:, None]) & (self.passes > 0)).any(axis=1)

    @property
    def efficiency(self) -> np.ndarray:
        """Passes that lanes ran over passes that the warp took for all 32 of them, in (0, 1]: float64."""
        return self.passes.sum(axis=1) / (WARP_SIZE * np.maximum(1, self.passes.max(axis=1, initial=0)))

    def select(self, keep: np.ndarray) -> Divergence:
        """The entries that a boolean mask or an index array picks."""
        columns = (getattr(self, name)[keep] for name in ("launch", "block", "warp", "site", "passes", "lanes"))
        return Divergence(self.trace, *columns)

    def by_line(self) -> list[dict[str, int | float | str]]:
        """For each source line: file, line, warps that ran it, how many of them were idle in part and uneven, the
        passes of all lanes, the passes of the warps (that of the busiest lane), and the efficiency of all of them."""
        lines = []
        most = self.passes.max(axis=1, initial=0)
        for site in np.unique(self.site).tolist():
            here = self.site == site
            file, line = self.trace.sites[site]
            ran, taken = int(self.passes[here].sum()), int(most[here].sum())
            counts = {
                "warps": int(here.sum()),
                "idle": int(self.idle[here].sum()),
                "uneven": int(self.uneven[here].sum()),
            }
            lines.append(
                {"file": file, "line": line} | counts
                | {"lane_passes": ran, "warp_passes": taken, "efficiency": ran / (WARP_SIZE * taken)}
            )  # fmt: skip
        return lines


def divergence(trace: Trace) -> Divergence:
    """How often each lane ran each line: see `Divergence`. Rows without a thread are left out."""
    rows = trace.select(active=True)
    rows = rows.rows(rows.columns["thread"] >= 0)
    column = rows.columns
    places = [column["launch"], column["block"], rows.warps, column["site"]]
    if not len(rows):
        empty = np.empty((0, WARP_SIZE), np.int64)
        return Divergence(trace, *(np.empty(0, np.int64) for _ in places), empty, empty.astype(bool))
    entry = group_numbers(places)[0]
    _, first, entry = np.unique(entry, return_index=True, return_inverse=True)
    entry = entry.reshape(-1)
    each, kinds = group_numbers([entry, column["what"], column["buffer"], column["size"]])
    of_kind = np.zeros(kinds, np.int64)
    of_kind[each] = entry
    counts = np.bincount(each * WARP_SIZE + column["thread"] % WARP_SIZE, minlength=kinds * WARP_SIZE)
    passes = np.zeros((len(first), WARP_SIZE), np.int64)
    np.maximum.at(passes, of_kind, counts.reshape(kinds, WARP_SIZE))
    launch, block, warp, site = (values[first].astype(np.int64) for values in places)
    threads = np.array([run.threads for run in trace.launches])[launch]
    lanes = warp[:, None] * WARP_SIZE + np.arange(WARP_SIZE) < threads[:, None]
    return Divergence(trace, launch, block, warp, site, passes, lanes)


def thread_counts(
    trace: Trace, what: str, buffer: str | None = None, launch: int = 0, unit: Unit = "accesses"
) -> np.ndarray:
    """What each thread of a launch did: an int64 array of shape (blocks, threads a block).

    what: one of `KINDS`. buffer: only that one's; None for all. unit: "accesses" (a `float4` is one), "elements" or
    "bytes". ValueError for an unknown unit or kind, or for a launch whose threads the trace does not show.
    """
    run = trace.launches[launch]
    if not run.threads:
        raise ValueError(
            f"the trace does not show the threads of {run.kernel}: it is a Triton kernel; "
            "kernels.trace.lanes.with_lanes(trace) gives it threads"
        )
    if what not in KINDS:
        raise ValueError(f"what={what!r} is no kind of access; use one of {', '.join(map(repr, KINDS))}")
    rows = trace.select(buffer=buffer, what=what, launch=launch, active=True)
    column = rows.columns
    weights = {"accesses": None, "bytes": column["size"]}
    if unit == "elements":
        itemsize = np.array([b.itemsize for b in trace.buffers] or [1])[column["buffer"]]
        weights[unit] = np.maximum(1, -(-column["size"] // itemsize))
    if unit not in weights:
        raise ValueError(f'unit={unit!r} is unknown; use "accesses", "elements" or "bytes"')
    shown = column["thread"] >= 0
    owner = column["block"].astype(np.int64) * run.threads + column["thread"]
    counts = np.bincount(
        owner[shown], None if weights[unit] is None else weights[unit][shown], run.blocks * run.threads
    )
    return counts.astype(np.int64).reshape(run.blocks, run.threads)
