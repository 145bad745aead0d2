"""Compares the host's trace of a CUDA kernel with what a GPU did: thread by thread, as multisets of accesses.

The host runs the source as it is written. A GPU runs what the compiler made of it, which may be wider (two neighbouring
floats in one access) and fewer (a value read again is kept in a register), and nothing else. Every such difference
stands in `DIFFERENCES` with its reason; one that does not, fails, and so does a listed one that never occurs.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from kernels.trace.model import KINDS

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from kernels.trace.counters import Apart
    from kernels.trace.cuda_result import CudaTrace
    from kernels.trace.gpu_record import Case, Origin
    from kernels.trace.model import Trace

Key = tuple[str, str, str]  # space, buffer, what
SHARED = "shared"


@dataclass(frozen=True)
class Difference:
    """One way in which the compiled kernel may differ. `kind` is "wider", "narrower" or "fewer"; `reason` says why."""

    kernel: str
    space: str
    buffer: str
    what: str
    kind: str
    reason: str

    @property
    def place(self) -> tuple[str, str, str, str, str]:
        return (self.kernel, self.space, self.buffer, self.what, self.kind)


DIFFERENCES: tuple[Difference, ...] = ()


@dataclass(frozen=True)
class Mismatch:
    """Where host and GPU disagree. `kind` is "wider", "narrower", "fewer" or "other"; "other" cannot be listed."""

    kernel: str
    shape: str
    space: str
    buffer: str
    what: str
    kind: str
    sentence: str

    @property
    def place(self) -> tuple[str, str, str, str, str]:
        return (self.kernel, self.space, self.buffer, self.what, self.kind)

    def __str__(self) -> str:
        return f"{self.kernel}, {self.shape}: {self.sentence}"


def host_trace(source: str, kernel: str, shape: Mapping[str, int]) -> CudaTrace:
    """The traced launch of `launch_<kernel>` on one of the recorded shapes.

    source: such as "cuda/kernels.cu". shape: {"n"} for vector_add, else {"rows", "columns", "x_stride", "out_stride"}.
    """
    from kernels.trace.cuda import trace_cuda_launcher

    if "n" in shape:
        n = shape["n"]
        x = np.full(n, 1.5, np.float32)
        arguments = [x, x.copy(), np.full(n, np.nan, np.float32), n]
    else:
        sizes = [shape[name] for name in ("rows", "columns", "x_stride", "out_stride")]
        rows, columns, x_stride, out_stride = sizes
        height = columns if kernel.startswith("transpose") else rows
        x = np.random.default_rng(0).standard_normal(rows * x_stride, dtype=np.float32)
        arguments = [x, np.full(height * out_stride, np.nan, np.float32), *sizes]
    return trace_cuda_launcher(f"launch_{kernel}", arguments, source=source)


@dataclass(frozen=True)
class Compared:
    """One recorded launch beside the host's trace of it.

    counts: accesses for each ("global" or "shared", "read" or "write"). mismatches: where the accesses differ. traced,
    counted: the numbers of `kernels.trace.counters.METRICS` from the trace and from the hardware. apart: where those
    differ. accesses_from, counters_from: which GPU, when, with what.
    """

    kernel: str
    shape: dict[str, int]
    counts: dict[tuple[str, str], int]
    mismatches: list[Mismatch]
    traced: dict[str, int]
    counted: dict[str, int | None]
    apart: list[Apart]
    accesses_from: Origin
    counters_from: Origin


def compare_all() -> list[Compared]:
    """Every recorded launch, traced on the host and held against the record and the counters; in name order.

    RecordError where nothing is recorded, or a kernel changed since; the message names the command that records.
    """
    from kernels.trace import gpu_record
    from kernels.trace.counters import apart, derive

    records, counters, found = list(gpu_record.records()), gpu_record.counters(), []
    if not records or counters is None:
        raise gpu_record.RecordError(
            f"there are no records in {gpu_record.FOLDER}; on a machine with a GPU, run: python {gpu_record.COMMAND}, "
            "and then: python scripts/gpu_counters.py"
        )
    for record in records:
        old = gpu_record.stale(record.kernel, record.source, record.source_hash)
        if old is not None:
            raise gpu_record.RecordError(old)
        for case in record.cases:
            counted = gpu_record.find_counters(counters, record.kernel, case.shape)
            trace = host_trace(record.source.partition(":")[0], record.kernel, case.shape)
            counts: dict[tuple[str, str], int] = {}
            for group in case.groups:
                key = group.space, group.what
                counts[key] = counts.get(key, 0) + group.accesses
            traced = derive(trace)
            found.append(
                Compared(
                    kernel=record.kernel,
                    shape=case.shape,
                    counts=counts,
                    mismatches=compare(record.kernel, case.shape, accesses(trace), recorded(case)),
                    traced=traced,
                    counted=counted.values,
                    apart=apart(record.kernel, case.shape, traced, counted.values),
                    accesses_from=record.origin,
                    counters_from=counters.origin,
                )
            )
    return found


def accesses(trace: Trace) -> dict[Key, np.ndarray]:
    """int64 (accesses, 4) for each buffer and kind: block, thread, byte offset, size. Shared arrays are one buffer.

    ValueError where a trace has more than one shared array: their order in memory is the compiler's.
    """
    shared = [number for number, buffer in enumerate(trace.buffers) if buffer.space == SHARED]
    if len(shared) > 1:
        names = ", ".join(trace.buffers[number].name for number in shared)
        raise ValueError(f"the kernel has the shared arrays {names}; their order in a GPU's memory is not known")
    column = trace.columns
    found: dict[Key, np.ndarray] = {}
    for number, buffer in enumerate(trace.buffers):
        name = SHARED if buffer.space == SHARED else buffer.name
        for what, word in enumerate(KINDS):
            rows = (column["buffer"] == number) & (column["what"] == what) & column["active"]
            if rows.any():
                offset = column["element"][rows] * buffer.itemsize
                parts = column["block"][rows], column["thread"][rows], offset, column["size"][rows]
                found[(buffer.space, name, word)] = np.stack([np.asarray(p, np.int64) for p in parts], axis=1)
    return found


def recorded(case: Case) -> dict[Key, np.ndarray]:
    """What a record says, in the form of `accesses`."""
    parts: dict[Key, list[np.ndarray]] = {}
    for group in case.groups:
        rows = group.rows()
        rows = np.repeat(rows, rows[:, 3], axis=0)
        rows[:, 3] = group.size
        parts.setdefault((group.space, group.buffer, group.what), []).append(rows)
    return {key: np.concatenate(found) for key, found in parts.items()}


def compare(kernel: str, shape: Mapping[str, int], host: Mapping[Key, np.ndarray], gpu: Mapping[Key, np.ndarray]):
    """Every buffer and kind in which the two multisets differ, as a list of Mismatch."""
    words = ", ".join(f"{name} {value}" for name, value in shape.items())
    empty = np.empty((0, 4), np.int64)
    found: list[Mismatch] = []
    for key in sorted({*host, *gpu}):
        ours, theirs = host.get(key, empty), gpu.get(key, empty)
        if np.array_equal(_sorted(ours), _sorted(theirs)):
            continue
        (rows, count), (rows_gpu, count_gpu) = _counted(_words(ours)), _counted(_words(theirs))
        same, (size, size_gpu) = np.array_equal(rows, rows_gpu), (_mean_size(ours), _mean_size(theirs))
        kinds = []
        if not same or (count_gpu > count).any():
            kinds.append(("other", _first(key, rows, count, rows_gpu, count_gpu)))
        else:
            if (count_gpu < count).any():
                words_of = int(count_gpu.sum()), int(count.sum())
                kinds.append(
                    ("fewer", f"the GPU {_verb(key)} {words_of[0]} words, the source {words_of[1]}, none left out")
                )
            if size != size_gpu:
                kind = "wider" if size_gpu > size else "narrower"
                kinds.append((kind, f"the GPU {_verb(key)} {size_gpu:g} bytes at once, the source {size:g}"))
        found += [Mismatch(kernel, words, *key, kind, f"{_place(key)}: {sentence}") for kind, sentence in kinds]
    return found


def unlisted(mismatches: Sequence[Mismatch], listed: Sequence[Difference] = DIFFERENCES) -> list[str]:
    """What is wrong after the table is taken into account: mismatches without a line, and lines without a mismatch."""
    known = {difference.place for difference in listed}
    seen = {mismatch.place for mismatch in mismatches}
    wrong = [str(mismatch) for mismatch in mismatches if mismatch.kind == "other" or mismatch.place not in known]
    unused = [difference for difference in listed if difference.place not in seen]
    return wrong + [f"the listed difference {', '.join(u.place)} does not occur; remove it" for u in unused]


def _sorted(rows: np.ndarray) -> np.ndarray:
    return rows[np.lexsort(rows.T[::-1])]


def _words(rows: np.ndarray) -> np.ndarray:
    """(block, thread, offset) of every 4-byte word touched; an access narrower than a word counts as itself."""
    pieces = np.maximum(rows[:, 3] // 4, 1)
    wide = np.repeat(rows[:, :3], pieces, axis=0)
    step = np.arange(len(wide)) - np.repeat(np.cumsum(pieces) - pieces, pieces)
    wide[:, 2] += 4 * step
    return wide


def _counted(rows: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    rows = _sorted(rows)
    if not len(rows):
        return rows, np.empty(0, np.int64)
    first = np.flatnonzero(np.append(True, (np.diff(rows, axis=0) != 0).any(axis=1)))
    return rows[first], np.diff(np.append(first, len(rows)))


def _mean_size(rows: np.ndarray) -> float:
    return float(rows[:, 3].mean()) if len(rows) else 0.0


def _verb(key: Key) -> str:
    return {"read": "reads", "write": "writes", "atomic": "updates"}[key[2]]


def _place(key: Key) -> str:
    return f"{'shared memory' if key[0] == SHARED else key[1]}, {key[2]}s"


def _first(key: Key, rows, count, rows_gpu, count_gpu) -> str:
    """A sentence about the first thread and word, in order, on which the two disagree."""
    together = np.concatenate([rows, rows_gpu])
    signed = np.concatenate([count, -count_gpu])
    order = np.lexsort(together.T[::-1])
    together, signed = together[order], signed[order]
    first = np.flatnonzero(np.append(True, (np.diff(together, axis=0) != 0).any(axis=1)))
    at = first[np.flatnonzero(np.add.reduceat(signed, first))[0]]
    block, thread, offset = together[at].tolist()

    def times(where: np.ndarray, counts: np.ndarray) -> str:
        hit = np.flatnonzero((where == together[at]).all(axis=1))
        number = int(counts[hit[0]]) if len(hit) else 0
        return {0: "not at all", 1: "once"}.get(number, f"{number} times")

    return (
        f"thread {thread} of block {block} {_verb(key)} the word at byte {offset} {times(rows, count)} in the "
        f"host's trace and {times(rows_gpu, count_gpu)} on the GPU"
    )
