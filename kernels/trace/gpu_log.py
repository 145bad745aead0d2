"""Reads the binary file of cuda/gpu_trace/recorder.cpp and turns launches into records."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from kernels.trace.counters import BY_INSTRUCTION, derive
from kernels.trace.gpu_record import Case, Group, RecordError, pack
from kernels.trace.model import KINDS, Buffer, Launch, Recorder, Trace

if TYPE_CHECKING:
    from collections.abc import Mapping

# The structs of cuda/gpu_trace/access.h.
ACCESS = np.dtype([("address", "<u8"), ("pc", "<u8"), ("block_x", "<u4"), ("block", "<u2", 2), ("thread", "<u2", 3),
                   ("size", "u1"), ("what", "u1")])  # fmt: skip
HEADER = np.dtype([("magic", "S8"), ("grid", "<u4", 3), ("block", "<u4", 3), ("asked", "<u8"), ("recorded", "<u8"),
                   ("function_pc", "<u8"), ("name_bytes", "<u4"), ("access_bytes", "<u4")])  # fmt: skip
END = b"KLEND..1"


@dataclass(frozen=True)
class RecordedLaunch:
    """One launch as the GPU ran it: `accesses` in the order in which they were noted, which for each thread is its own.

    Columns: block and thread numbers (x fastest), address, size, what (0 read, 1 write, 2 atomic, 3 prefetch), space
    (0 global, 1 shared, 2 local), pc.
    """

    kernel: str
    grid: tuple[int, int, int]
    block: tuple[int, int, int]
    asked: int
    columns: dict[str, np.ndarray]


def read_log(path: Path, whole: bool = True) -> list[RecordedLaunch]:
    """All launches of a file. RecordError where it is cut off, or (unless `whole` is False) lacks its end mark."""
    data = path.read_bytes()
    place, found = 0, []
    while data[place : place + 8] != END:
        if len(data) - place < HEADER.itemsize:
            if whole:
                raise RecordError(f"{path.name} ends without its mark after {len(found)} launches; the recorder failed")
            break
        header = np.frombuffer(data, HEADER, 1, place)[0]
        if header["magic"] != b"KLAUNCH1" or header["access_bytes"] != ACCESS.itemsize:
            raise RecordError(f"{path.name} holds no launch at byte {place}; it was written by another version")
        place += HEADER.itemsize
        name = data[place : place + int(header["name_bytes"])].decode()
        place += int(header["name_bytes"])
        count = int(header["recorded"])
        if len(data) - place < count * ACCESS.itemsize:
            raise RecordError(f"{path.name} is cut off within the accesses of {name}")
        rows = np.frombuffer(data, ACCESS, count, place)
        place += count * ACCESS.itemsize
        grid, block = (tuple(int(n) for n in header[key]) for key in ("grid", "block"))
        found.append(RecordedLaunch(name, grid, block, int(header["asked"]), _columns(rows, grid, block)))
    return found


def _columns(rows: np.ndarray, grid: tuple[int, ...], block: tuple[int, ...]) -> dict[str, np.ndarray]:
    y, z = (rows["block"][:, axis].astype(np.int64) for axis in (0, 1))
    tx, ty, tz = (rows["thread"][:, axis].astype(np.int64) for axis in range(3))
    return {
        "block": rows["block_x"].astype(np.int64) + grid[0] * (y + grid[1] * z),
        "thread": tx + block[0] * (ty + block[1] * tz),
        "address": rows["address"].astype(np.int64),
        "size": rows["size"].astype(np.int64),
        "what": (rows["what"] % 16).astype(np.int64),
        "space": (rows["what"] // 16).astype(np.int64),
        "pc": rows["pc"].astype(np.int64),
    }


def to_trace(launch: RecordedLaunch, buffers: Mapping[str, Mapping[str, int]], reserved_shared: int = 0) -> Trace:
    """The launch as a `Trace`, whose source "lines" are the numbers of its instructions in order of address.

    buffers: name to {"address", "bytes"}. reserved_shared: bytes at the start of a block's shared memory that are the
    system's. RecordError for an access to none of the buffers, to local memory, or of an unknown kind.
    """
    column = launch.columns
    if (column["space"] > 1).any() or (column["what"] > 2).any():
        raise RecordError(f"{launch.kernel} made accesses to local memory or prefetches, which no record describes")
    if launch.asked != len(column["pc"]):
        raise RecordError(f"{launch.kernel} made {launch.asked} accesses, of which {len(column['pc'])} were kept")
    recorder = Recorder()
    recorder.launch(Launch(launch.kernel, launch.grid, launch.block, "cuda"))
    _, site = np.unique(column["pc"], return_inverse=True)
    for number in range(int(site.max(initial=-1)) + 1):
        recorder.site("SASS", number)
    sequence = np.arange(len(site))
    claimed = np.zeros(len(site), bool)

    def add(buffer: Buffer, rows: np.ndarray, offset: np.ndarray) -> None:
        if not rows.any():
            return
        claimed[rows] = True
        number = recorder.buffer(buffer)
        if (offset[rows] % 4 != 0).any():
            raise RecordError(f"{launch.kernel} accessed {buffer.name} between its 4-byte words")
        recorder.add(
            launch=0, block=column["block"][rows], thread=column["thread"][rows], what=column["what"][rows],
            buffer=number, element=offset[rows] // 4, size=column["size"][rows], site=site[rows],
            sequence=sequence[rows],
        )  # fmt: skip

    shared = column["space"] == 1
    for name, place in buffers.items():
        offset = column["address"] - place["address"]
        inside = (offset >= 0) & (offset + column["size"] <= place["bytes"]) & ~shared
        add(Buffer(name, 4, (place["bytes"] // 4,), dtype="float32"), inside, offset)
    if shared.any():
        # The window that offsets are counted from begins with the reserved bytes, which no kernel touches. Where
        # something below their number was touched, the offsets are counted from the kernel's own first byte.
        counted = int(column["address"][shared].min()) >= reserved_shared
        offset = column["address"] - (reserved_shared if counted else 0)
        extent = int((offset + column["size"])[shared].max())
        add(Buffer("shared", 4, ((extent + 3) // 4,), space="shared"), shared, offset)
    if not claimed.all():
        stray = int(np.flatnonzero(~claimed)[0])
        raise RecordError(
            f"{launch.kernel}: thread {column['thread'][stray]} of block {column['block'][stray]} accessed address "
            f"{column['address'][stray]:#x}, which is in none of {', '.join(buffers)}"
        )
    return recorder.trace()


def to_case(
    launch: RecordedLaunch, trace: Trace, shape: Mapping[str, int], buffers: Mapping[str, Mapping[str, int]]
) -> Case:
    """The launch as it is kept."""
    groups = []
    column = trace.columns
    for number, buffer in enumerate(trace.buffers):
        for what, word in enumerate(KINDS):
            of_kind = (column["buffer"] == number) & (column["what"] == what)
            for size in np.unique(column["size"][of_kind]).tolist():
                rows = of_kind & (column["size"] == size)
                offset = column["element"][rows] * buffer.itemsize
                count, runs, packed = pack(column["block"][rows], column["thread"][rows], offset)
                groups.append(Group(space=buffer.space, buffer=buffer.name, what=word, size=size, accesses=count,
                                    runs=runs, packed=packed))  # fmt: skip
    numbers = derive(trace)
    sizes = {name: place["bytes"] for name, place in buffers.items()}
    return Case(
        shape=dict(shape),
        grid=list(launch.grid),
        block=list(launch.block),
        buffers=sizes,
        by_instruction={name: numbers[name] for name in BY_INSTRUCTION},
        groups=groups,
    )
