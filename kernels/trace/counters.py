"""What a GPU's counters say about memory, computed from a trace, to be held against what the profiler read.

Names and meanings of the counters: Nsight Compute's documentation, "Memory Tables" and "Metrics Decoder".
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from kernels.trace.model import READ, WRITE
from kernels.trace.requests import BANK_BYTES, BANKS, SECTOR_BYTES, groups

if TYPE_CHECKING:
    from kernels.trace.model import Trace

# Our name for each number, and the profiler's. "requests" are instructions of a warp with at least one active lane.
METRICS = {
    "global_load_requests": "l1tex__t_requests_pipe_lsu_mem_global_op_ld.sum",
    "global_load_sectors": "l1tex__t_sectors_pipe_lsu_mem_global_op_ld.sum",
    "global_store_requests": "l1tex__t_requests_pipe_lsu_mem_global_op_st.sum",
    "global_store_sectors": "l1tex__t_sectors_pipe_lsu_mem_global_op_st.sum",
    "shared_load_requests": "smsp__inst_executed_op_shared_ld.sum",
    "shared_load_wavefronts": "l1tex__data_pipe_lsu_wavefronts_mem_shared_op_ld.sum",
    "shared_load_conflicts": "l1tex__data_bank_conflicts_pipe_lsu_mem_shared_op_ld.sum",
    "shared_store_requests": "smsp__inst_executed_op_shared_st.sum",
    "shared_store_wavefronts": "l1tex__data_pipe_lsu_wavefronts_mem_shared_op_st.sum",
    "shared_store_conflicts": "l1tex__data_bank_conflicts_pipe_lsu_mem_shared_op_st.sum",
}


def derive(trace: Trace) -> dict[str, int]:
    """The numbers of `METRICS` for a trace with threads: over all its launches, global and shared memory apart."""
    trace = trace.select(active=True)
    found = dict.fromkeys(METRICS, 0)
    if not len(trace):
        return found
    column = trace.columns
    group = groups(trace)
    shared = np.array([buffer.space == "shared" for buffer in trace.buffers])[column["buffer"]]
    base = np.array([buffer.address for buffer in trace.buffers], np.int64)[column["buffer"]]
    item = np.array([buffer.itemsize for buffer in trace.buffers], np.int64)[column["buffer"]]
    address = base + column["element"] * item
    for name, what in (("load", READ), ("store", WRITE)):
        rows = (column["what"] == what) & ~shared
        found[f"global_{name}_requests"] = len(np.unique(group[rows]))
        found[f"global_{name}_sectors"] = _sectors(group[rows], address[rows], column["size"][rows])
        rows = (column["what"] == what) & shared
        requests = len(np.unique(group[rows]))
        passes, ideal = _passes(group[rows], address[rows], column["size"][rows], column["thread"][rows] % 32)
        found[f"shared_{name}_requests"] = requests
        found[f"shared_{name}_wavefronts"] = passes
        found[f"shared_{name}_conflicts"] = passes - ideal
    return found


def _sectors(group: np.ndarray, address: np.ndarray, size: np.ndarray) -> int:
    """Different sectors within each group, summed. An aligned access of up to 16 bytes lies in one sector."""
    first, last = address // SECTOR_BYTES, (address + size - 1) // SECTOR_BYTES
    pairs = np.concatenate([np.stack([group, first]), np.stack([group, last])], axis=1)
    return _distinct(pairs)[1]


def _passes(group: np.ndarray, address: np.ndarray, size: np.ndarray, lane: np.ndarray) -> tuple[int, int]:
    """Passes over the banks, and how few there could be: 8-byte accesses go by half warps, 16-byte ones by quarters."""
    if not len(group):
        return 0, 0
    words = np.maximum(size // BANK_BYTES, 1)
    phase = lane * words // 32
    repeat = np.repeat(np.arange(len(group)), words)
    step = np.arange(len(repeat)) - np.repeat(np.cumsum(words) - words, words)
    word = (address // BANK_BYTES)[repeat] + step
    unique, _ = _distinct(np.stack([group[repeat], phase[repeat], word]))
    bank = np.stack([unique[0], unique[1], unique[2] % BANKS])
    kept, _ = _distinct(bank)
    order = np.lexsort(bank[::-1])
    edges = np.append(np.flatnonzero(_change(bank[:, order])), bank.shape[1])
    load = np.diff(edges)
    starts = np.flatnonzero(_change(kept[:2]))
    return int(np.maximum.reduceat(load, starts).sum()), len(starts)


def _change(sorted_columns: np.ndarray) -> np.ndarray:
    return np.append(True, (np.diff(sorted_columns, axis=1) != 0).any(axis=0))


def _distinct(columns: np.ndarray) -> tuple[np.ndarray, int]:
    """The different columns of a table, sorted by its first row, then its second…, and how many there are."""
    if columns.shape[1] == 0:
        return columns, 0
    ordered = columns[:, np.lexsort(columns[::-1])]
    ordered = ordered[:, _change(ordered)]
    return ordered, ordered.shape[1]
