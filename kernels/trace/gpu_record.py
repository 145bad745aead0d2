"""Files of memory accesses that a GPU really made, one a kernel: who touched which byte of which buffer, and how often.

`scripts/gpu_trace.py` writes them, on a machine with a GPU. A file holds every access of every test shape, exactly. The
rows (block, thread, byte offset, count) of one buffer, one kind and one width are sorted; neighbouring rows are
subtracted; equal differences in a row become one run; the runs are compressed. Regular walks shrink a thousandfold.
"""

from __future__ import annotations

import zlib
from pathlib import Path
from typing import TYPE_CHECKING, Literal

import msgspec
import numpy as np

from kernels.sources.closure import project_root

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

SCHEMA_VERSION = 1
FOLDER = "results/h200/gpu_trace"
COMMAND, COUNTERS_COMMAND = "scripts/gpu_trace.py", "scripts/gpu_counters.py"


class RecordError(ValueError):
    """A file of accesses or counters is not what it should be; the message says which and why."""


class Origin(msgspec.Struct, kw_only=True, forbid_unknown_fields=True):
    """The card, the software and the moment. Never the name of the machine."""

    gpu: str
    driver: str
    compiler: str
    flags: str
    tool: str
    commit: str | None
    dirty: bool | None
    command: str
    utc: str


class Group(msgspec.Struct, kw_only=True, forbid_unknown_fields=True):
    """The accesses of one kind and width to one buffer. `buffer` is "shared" for a block's shared memory."""

    space: Literal["global", "shared"]
    buffer: str
    what: Literal["read", "write", "atomic"]
    size: int
    accesses: int
    runs: int
    packed: bytes

    def rows(self) -> np.ndarray:
        """int64 (rows, 4): block, thread, byte offset from the buffer's start, count. Sorted, no two alike."""
        return unpack(self.packed, self.runs)


class Case(msgspec.Struct, kw_only=True, forbid_unknown_fields=True):
    """One launch: its shape, its configuration, the buffers' sizes in bytes, and what it accessed.

    `by_instruction` holds the numbers of requests and sectors (`kernels.trace.counters.BY_INSTRUCTION`) for lanes
    grouped as the compiled code groups them: lanes at different copies of an unrolled loop's load make different
    requests.
    """

    shape: dict[str, int]
    grid: list[int]
    block: list[int]
    buffers: dict[str, int]
    by_instruction: dict[str, int]
    groups: list[Group]


class Record(msgspec.Struct, kw_only=True, forbid_unknown_fields=True):
    """One kernel. `source` names its launcher, `source_hash` is what that was when it ran."""

    schema_version: int = SCHEMA_VERSION
    kernel: str
    source: str
    source_hash: str
    origin: Origin
    cases: list[Case]


class CounterCase(msgspec.Struct, kw_only=True, forbid_unknown_fields=True):
    """What the hardware counted for one launch; null where the profiler had no such counter."""

    kernel: str
    source: str
    source_hash: str
    shape: dict[str, int]
    values: dict[str, int | None]


class Counters(msgspec.Struct, kw_only=True, forbid_unknown_fields=True):
    """Hardware counters of every kernel and shape. `metrics` says which counter of the profiler each value is."""

    schema_version: int = SCHEMA_VERSION
    origin: Origin
    metrics: dict[str, str]
    cases: list[CounterCase]


def pack(block: np.ndarray, thread: np.ndarray, offset: np.ndarray) -> tuple[int, int, bytes]:
    """Codes accesses in any order; returns how many there are, how many runs they became, and the runs' bytes.

    ValueError where a number does not fit 32 bits.
    """
    order = np.lexsort((offset, thread, block))
    rows = np.stack([np.asarray(column, np.int64)[order] for column in (block, thread, offset)])
    if rows.shape[1] == 0:
        return 0, 0, zlib.compress(b"")
    first = np.flatnonzero(np.append(True, (np.diff(rows, axis=1) != 0).any(axis=0)))
    counts = np.diff(np.append(first, rows.shape[1]))
    table = np.diff(np.vstack([rows[:, first], counts]), axis=1, prepend=0)
    starts = np.flatnonzero(np.append(True, (np.diff(table, axis=1) != 0).any(axis=0)))
    runs = np.vstack([table[:, starts], np.diff(np.append(starts, table.shape[1]))])
    if np.abs(runs).max() >= 2**31:
        raise ValueError(f"a step of {np.abs(runs).max()} does not fit the 32 bits of a record's numbers")
    return rows.shape[1], runs.shape[1], zlib.compress(runs.astype("<i4").tobytes(), 9)


def unpack(packed: bytes, runs: int) -> np.ndarray:
    """The sorted rows (block, thread, offset, count) of `pack`. RecordError where the bytes are not whole."""
    try:
        numbers = np.frombuffer(zlib.decompress(packed), "<i4").astype(np.int64)
        table = numbers.reshape(5, runs)
    except (zlib.error, ValueError) as problem:
        raise RecordError(f"the accesses of a record cannot be unpacked: {problem}") from None
    if (table[4] < 1).any():
        raise RecordError("the accesses of a record cannot be unpacked: a run has no length")
    return np.repeat(table[:4].T, table[4], axis=0).cumsum(axis=0)


def write(value: Record | Counters, path: Path) -> None:
    """Writes a record as JSON, indented, its accesses in base64."""
    path.parent.mkdir(parents=True, exist_ok=True)
    partial = path.with_suffix(".partial")
    partial.write_bytes(msgspec.json.format(msgspec.json.encode(value), indent=1) + b"\n")
    partial.replace(path)


def read(path: Path, kind: type = Record) -> Record | Counters:
    """Reads a record strictly. RecordError for an unknown field, a wrong type, another version, or a missing file."""
    try:
        found = msgspec.json.decode(path.read_bytes(), type=kind)
    except OSError as problem:
        raise RecordError(f"{path.name} cannot be read: {problem.strerror}") from None
    except msgspec.DecodeError as problem:
        raise RecordError(f"{path.name} is not a record of GPU accesses: {problem}") from None
    if found.schema_version != SCHEMA_VERSION:
        raise RecordError(f"{path.name} has schema version {found.schema_version}; this program reads {SCHEMA_VERSION}")
    return found


def records(folder: Path | None = None) -> Iterator[Record]:
    """The committed records, in name order; none where no GPU has been asked yet."""
    for path in sorted((folder or project_root() / FOLDER).glob("*.json")):
        if path.stem != "counters":
            yield read(path)


def find_case(found: Mapping[str, Record], kernel: str, shape: Mapping[str, int]) -> Case:
    """The case of one kernel and shape. RecordError, with the command that records it, where there is none."""
    cases = found[kernel].cases if kernel in found else []
    return _of_shape(cases, kernel, shape, COMMAND)


def find_counters(found: Counters, kernel: str, shape: Mapping[str, int]) -> CounterCase:
    """The counters of one kernel and shape, of today's source. RecordError, with the command, where there are none."""
    case = _of_shape([case for case in found.cases if case.kernel == kernel], kernel, shape, COUNTERS_COMMAND)
    old = stale(kernel, case.source, case.source_hash, COUNTERS_COMMAND)
    if old is not None:
        raise RecordError(old)
    return case


def _of_shape(cases: list, kernel: str, shape: Mapping[str, int], command: str):
    for case in cases:
        if case.shape == shape:
            return case
    words = ", ".join(f"{name} {value}" for name, value in shape.items())
    what = f"for {words}" if cases else "at all"
    raise RecordError(f"there is no record of {kernel} {what}; on a machine with a GPU, run: python {command}")


def counters(folder: Path | None = None) -> Counters | None:
    """The committed hardware counters, or None."""
    path = (folder or project_root() / FOLDER) / "counters.json"
    return read(path, Counters) if path.exists() else None


def stale(kernel: str, source: str, source_hash: str, command: str = COMMAND) -> str | None:
    """None while the kernel is what was recorded, else a sentence that names the command to run."""
    from kernels.sources import fingerprint

    try:
        today = fingerprint(source)
    except (LookupError, ValueError, OSError):
        today = None
    if today == source_hash:
        return None
    change = "is gone" if today is None else "has changed"
    return f"{kernel} ({source}) {change} since a GPU ran it; on a machine with a GPU, run: python {command}"
