"""Memory requests: the lanes of a warp that run one load or store together, and what that costs.

Global memory moves in sectors of 32 bytes. Shared memory has 32 banks of 4 bytes; lanes that need different words of
one bank wait for each other. Source: the sections on coalesced access and on shared memory in NVIDIA's CUDA C++ Best
Practices Guide, and the metrics "sectors" and "wavefronts" as the Nsight Compute documentation defines them.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from kernels.trace.keys import group_numbers
from kernels.trace.model import KINDS, WARP_SIZE

if TYPE_CHECKING:
    from collections.abc import Sequence

    from kernels.trace.model import Trace

SECTOR_BYTES = 32
BANKS, BANK_BYTES = 32, 4


@dataclass(frozen=True)
class Request:
    """One warp's request: `addresses[i]` is the byte address that `lanes[i]` asked for, `size` bytes each.

    In a Triton trace without threads `warp` is -1, and a request is one whole load or store of a program: its sectors
    are exact as a set, but how the compiler splits them over warps is not known. `lanes` then counts its elements.
    """

    launch: int
    block: int
    warp: int
    what: str
    buffer: str
    space: str
    file: str
    line: int
    interval: int
    size: int
    lanes: tuple[int, ...]
    elements: tuple[int, ...]
    addresses: tuple[int, ...]

    @property
    def sectors(self) -> tuple[int, ...]:
        """The numbers of the 32-byte sectors touched, ascending."""
        touched: set[int] = set()
        for address in self.addresses:
            touched.update(range(address // SECTOR_BYTES, (address + self.size - 1) // SECTOR_BYTES + 1))
        return tuple(sorted(touched))

    @property
    def useful_bytes(self) -> int:
        """Distinct bytes asked for; lanes that ask for the same byte count once."""
        return len({byte for address in set(self.addresses) for byte in range(address, address + self.size)})

    @property
    def sector_bytes(self) -> int:
        return SECTOR_BYTES * len(self.sectors)

    @property
    def efficiency(self) -> float:
        """Useful bytes over bytes moved, in (0, 1]."""
        return self.useful_bytes / self.sector_bytes if self.addresses else 1.0

    @property
    def lanes_at_once(self) -> int:
        """How many lanes a phase serves: 32, or 16 of 8 bytes, or 8 of 16 bytes; twice that for reads `in_pairs`."""
        words = max(1, self.size // BANK_BYTES)
        twice = self.what == "read" and words > 1 and in_pairs(self.lanes, self.addresses)
        return max(1, WARP_SIZE // words) * (2 if twice else 1)

    def _phases(self) -> list[list[int]]:
        """The words that each phase needs.

        Lanes that read or write the same word share it. Atomics on one word take turns, so each lane's word counts.
        """
        width = self.lanes_at_once
        phases: dict[int, set[tuple[int, int]]] = {}
        for lane, address in zip(self.lanes, self.addresses, strict=True):
            words = range(address // BANK_BYTES, (address + self.size - 1) // BANK_BYTES + 1)
            turn = lane if self.what == "atomic" else 0
            phases.setdefault(lane // width, set()).update((word, turn) for word in words)
        return [sorted(word for word, _ in words) for _, words in sorted(phases.items())]

    @property
    def conflict_degree(self) -> int:
        """The most different words that one bank must deliver in one phase: 1 is free of conflicts."""
        return max((max(np.bincount(np.array(words) % BANKS)) for words in self._phases()), default=1)

    @property
    def wavefronts(self) -> int:
        """Passes over the banks that the request needs."""
        return sum(int(max(np.bincount(np.array(words) % BANKS))) for words in self._phases())

    @property
    def ideal_wavefronts(self) -> int:
        return len(self._phases())


def pair_of(lane, distance: int):
    """A number that lanes `lane` and `lane ^ distance` share, and no others; distance is 1 or 2."""
    return lane // (2 * distance) * distance + lane % distance


def in_pairs(lanes: Sequence[int], addresses: Sequence[int]) -> bool:
    """Whether all lanes ask for what lane ^ 1 asks for, or all for what lane ^ 2 does. Idle lanes do not matter.

    A wide load of shared memory then needs half as many phases, since one word goes to two lanes. Source: an answer of
    NVIDIA at forums.developer.nvidia.com/t/unexpected-shared-memory-bank-conflict/77228; that one 8-byte word goes to
    all 32 lanes in one pass is also what the committed counters of an H200 say.
    """
    for distance in (1, 2):
        asked = {(pair_of(lane, distance), address) for lane, address in zip(lanes, addresses, strict=True)}
        if len(asked) == len({pair for pair, _ in asked}):
            return True
    return False


def requests(trace: Trace) -> list[Request]:
    """Groups active accesses into requests, in the order in which they began.

    Lanes of a warp belong together when they run the same source line for the same time, on the same buffer, with the
    same kind and size of access. A thread's first pass through a line meets the other lanes' first pass; in Triton a
    request is one instruction of a warp.
    """
    trace = trace.select(active=True)
    if not len(trace):
        return []
    column, threads, group = trace.columns, trace.columns["thread"] >= 0, groups(trace)
    order = np.lexsort((column["thread"], column["element"] * ~threads, group))
    edges = np.flatnonzero(np.diff(group[order])) + 1
    found = [(int(column["sequence"][rows].min()), rows) for rows in np.split(order, edges)]
    found.sort(key=lambda item: item[0])
    return [_request(trace, rows) for _, rows in found]


def groups(trace: Trace) -> np.ndarray:
    """For each row of a trace with active rows alone, the number of the request that it is part of, from 0."""
    column = trace.columns
    shape = [column[name] for name in ("launch", "block", "site", "buffer", "what", "size")]
    # The lanes of one Triton instruction share its sequence number. Threads of CUDA take turns of their own.
    one_by_one = np.array([launch.language != "triton" for launch in trace.launches])[column["launch"]]
    one_by_one &= column["thread"] >= 0
    turn = np.where(one_by_one, _rank([*shape, column["thread"]], column["sequence"]), column["sequence"])
    number, count = group_numbers([*shape, trace.warps, turn])
    taken = np.zeros(count, bool)
    taken[number] = True
    return (np.cumsum(taken) - 1)[number]


def _request(trace: Trace, rows: np.ndarray) -> Request:
    column, first = trace.columns, rows[0]
    buffer = trace.buffers[column["buffer"][first]]
    elements = column["element"][rows]
    threads = column["thread"][rows]
    lanes = threads % WARP_SIZE if threads[0] >= 0 else np.arange(len(rows))
    file, line = trace.sites[column["site"][first]]
    return Request(
        launch=int(column["launch"][first]),
        block=int(column["block"][first]),
        warp=int(threads[0] // WARP_SIZE) if threads[0] >= 0 else -1,
        what=KINDS[column["what"][first]],
        buffer=buffer.name,
        space=buffer.space,
        file=file,
        line=line,
        interval=int(column["interval"][first]),
        size=int(column["size"][first]),
        lanes=tuple(lanes.tolist()),
        elements=tuple(elements.tolist()),
        addresses=tuple((buffer.address + elements * buffer.itemsize).tolist()),
    )


def _rank(keys: list[np.ndarray], sequence: np.ndarray) -> np.ndarray:
    """Position of each row among the rows with equal keys, by sequence."""
    number, count = group_numbers(keys)
    in_order = len(sequence) < 2 or (np.diff(sequence) >= 0).all()
    order = np.argsort(number, kind="stable") if in_order else np.lexsort((sequence, number))
    sizes = np.bincount(number, minlength=count)
    rank = np.empty(len(order), np.int64)
    rank[order] = np.arange(len(order)) - np.repeat(np.cumsum(sizes) - sizes, sizes)
    return rank
