"""What a GPU's counters say about memory, computed from a trace, to be held against what the profiler read.

Names and meanings of the counters: Nsight Compute's documentation, "Memory Tables" and "Metrics Decoder".
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from kernels.trace.model import READ, WRITE
from kernels.trace.views import request_table

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from kernels.trace.model import Trace

# Our name for each number, and the profiler's. "requests" are instructions of a warp with at least one active lane;
# smsp__inst_executed_op_shared_st, which has a similar name, also counts those whose lanes are all masked off.
METRICS = {
    "global_load_requests": "l1tex__t_requests_pipe_lsu_mem_global_op_ld.sum",
    "global_load_sectors": "l1tex__t_sectors_pipe_lsu_mem_global_op_ld.sum",
    "global_store_requests": "l1tex__t_requests_pipe_lsu_mem_global_op_st.sum",
    "global_store_sectors": "l1tex__t_sectors_pipe_lsu_mem_global_op_st.sum",
    "shared_load_requests": "smsp__sass_inst_executed_op_shared_ld.sum",
    "shared_load_wavefronts": "l1tex__data_pipe_lsu_wavefronts_mem_shared_op_ld.sum",
    "shared_load_conflicts": "l1tex__data_bank_conflicts_pipe_lsu_mem_shared_op_ld.sum",
    "shared_store_requests": "smsp__sass_inst_executed_op_shared_st.sum",
    "shared_store_wavefronts": "l1tex__data_pipe_lsu_wavefronts_mem_shared_op_st.sum",
    "shared_store_conflicts": "l1tex__data_bank_conflicts_pipe_lsu_mem_shared_op_st.sum",
}

# What depends on how the compiled code splits a warp's lanes over its instructions. Kept with a GPU's accesses.
BY_INSTRUCTION = tuple(name for name in METRICS if name.endswith(("requests", "sectors")))


@dataclass(frozen=True)
class CounterDifference:
    """Counters that say something else than the source's trace does, for one kernel on rows of `columns` elements."""

    kernel: str
    columns: int
    counters: tuple[str, ...]
    reason: str


UNROLLED = (
    "The compiler repeats the body of the strided loop. What is left over when a lane's number of passes is divided by "
    "the number of copies runs in a loop of its own. Lanes of a warp with different numbers of passes are then at "
    "different instructions, which make requests of their own."
)
LOADS = ("global_load_requests", "global_load_sectors")
STORES = ("global_store_requests", "global_store_sectors")
SECTORS = ("global_load_sectors", "global_store_sectors")

# With 1023 columns, lane 31 of the last warp has three passes and the others have four. With 1028, lanes 0 to 3 of the
# first warp have five.
COUNTER_DIFFERENCES: tuple[CounterDifference, ...] = (
    CounterDifference("softmax_parallel", 1023, LOADS + STORES, UNROLLED),
    CounterDifference("softmax_parallel", 1028, SECTORS, UNROLLED),
    CounterDifference("softmax_online", 1023, LOADS + STORES, UNROLLED),
    CounterDifference("softmax_online", 1028, LOADS + STORES, UNROLLED),
    CounterDifference("softmax_online_scalar", 1023, LOADS + STORES, UNROLLED),
    CounterDifference("softmax_online_scalar", 1028, SECTORS, UNROLLED),
)


@dataclass(frozen=True)
class Apart:
    """One counter of one launch for which trace and hardware disagree."""

    kernel: str
    shape: dict[str, int]
    counter: str
    traced: int
    counted: int | None

    @property
    def place(self) -> tuple[str, int, str]:
        return (self.kernel, self.shape.get("columns", 0), self.counter)

    def __str__(self) -> str:
        words = ", ".join(f"{name} {value}" for name, value in self.shape.items())
        counted = "was not counted" if self.counted is None else f"is {self.counted} in hardware"
        return f"{self.kernel}, {words}: {self.counter} {counted}, and {self.traced} from the trace"


def apart(kernel: str, shape: Mapping[str, int], traced: Mapping[str, int], counted: Mapping[str, int | None]):
    """Every counter on which the two disagree, as a list of Apart. A counter that either lacks is one of them."""
    names = [name for name in METRICS if counted.get(name) is None or traced.get(name) != counted[name]]
    return [Apart(kernel, dict(shape), name, traced.get(name, 0), counted.get(name)) for name in names]


def unlisted(found: Sequence[Apart], listed: Sequence[CounterDifference] = COUNTER_DIFFERENCES) -> list[str]:
    """What is wrong after the table is taken into account: numbers apart without a line, lines that nothing needs."""
    known = {(line.kernel, line.columns, counter) for line in listed for counter in line.counters}
    wrong = [str(one) for one in found if one.place not in known or one.counted is None]
    unused = sorted(known - {one.place for one in found})
    return wrong + [
        f"the listed difference of {counter} for {kernel} on {columns} columns does not occur; remove it"
        for kernel, columns, counter in unused
    ]


def derive(trace: Trace) -> dict[str, int]:
    """The numbers of `METRICS` for a trace with threads: over all its launches, global and shared memory apart."""
    table = request_table(trace)
    shared = np.array([buffer.space == "shared" for buffer in trace.buffers], bool)[table.buffer]
    found = {}
    for name, what in (("load", READ), ("store", WRITE)):
        far, near = ((table.kind == what) & (shared == wanted) for wanted in (False, True))
        found[f"global_{name}_requests"] = int(far.sum())
        found[f"global_{name}_sectors"] = int(table.sectors[far].sum())
        found[f"shared_{name}_requests"] = int(near.sum())
        found[f"shared_{name}_wavefronts"] = int(table.wavefronts[near].sum())
        found[f"shared_{name}_conflicts"] = int((table.wavefronts - table.ideal_wavefronts)[near].sum())
    return found
