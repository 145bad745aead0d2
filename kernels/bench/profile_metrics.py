"""What Nsight Compute is asked about a launch, what each number means, and how its output is read."""

from __future__ import annotations

import csv
import io
import math
from dataclasses import dataclass, field

import msgspec


class ProfileError(RuntimeError):
    """ncu did not answer as expected. The message says what it wrote."""


@dataclass(frozen=True)
class Metric:
    """One number: its name in ncu, our name with the unit, and a sentence for a reader.

    `scale` turns ncu's base units (nanoseconds, bytes, bytes a second) into the unit of `name`.
    """

    ncu: str
    name: str
    label: str
    unit: str
    meaning: str
    scale: float = 1.0


METRICS = (
    Metric(
        "gpu__time_duration.sum",
        "duration_us",
        "duration",
        "µs",
        "How long the kernel ran. ncu runs it again for each group of counters, from a cold cache: this is no time to "
        "compare with kernel-bench's.",
        1e-3,
    ),
    Metric(
        "dram__bytes.sum.per_second",
        "dram_gb_per_s",
        "DRAM throughput",
        "GB/s",
        "Bytes that the memory chips read and wrote, a second. A kernel that only moves data should come near the "
        "copy rate.",
        1e-9,
    ),
    Metric(
        "dram__throughput.avg.pct_of_peak_sustained_elapsed",
        "dram_percent",
        "DRAM, of peak",
        "%",
        "The same as a share of what the chips' pins could carry. About 90 % is the most that a copy reaches.",
    ),
    Metric(
        "dram__bytes_read.sum",
        "dram_read_bytes",
        "DRAM read",
        "bytes",
        "More than the formula needs means that something is read twice; less, that the L2 cache held it.",
    ),
    Metric(
        "dram__bytes_write.sum",
        "dram_write_bytes",
        "DRAM written",
        "bytes",
        "Less than the output's size means that the end of it was still in the L2 cache when the kernel ended.",
    ),
    Metric(
        "lts__t_sector_hit_rate.pct",
        "l2_hit_percent",
        "L2 hit rate",
        "%",
        "Share of 32-byte sectors that the L2 cache had. Data read once and written once has only the writes' hits.",
    ),
    Metric(
        "sm__throughput.avg.pct_of_peak_sustained_elapsed",
        "sm_percent",
        "multiprocessors, of peak",
        "%",
        "How busy the busiest unit of the multiprocessors was. High here and low at the DRAM: arithmetic is the limit.",
    ),
    Metric(
        "sm__warps_active.avg.pct_of_peak_sustained_active",
        "occupancy_percent",
        "achieved occupancy",
        "%",
        "Warps that were there, of those a multiprocessor can hold. Enough is what keeps memory busy; more is no aim.",
    ),
    Metric(
        "launch__registers_per_thread",
        "registers",
        "registers",
        "a thread",
        "With 65,536 in a multiprocessor, they bound how many threads it can hold.",
    ),
    Metric(
        "launch__waves_per_multiprocessor",
        "waves",
        "waves",
        "",
        "How often the grid fills the GPU. Just above a whole number leaves most of it idle in the last wave.",
    ),
    Metric(
        "launch__shared_mem_per_block",
        "shared_bytes",
        "shared memory",
        "bytes a block",
        "Static, dynamic and the system's own; it bounds the blocks in a multiprocessor as registers do.",
    ),
    Metric(
        "launch__grid_size",
        "blocks",
        "blocks",
        "",
        "Blocks of the grid: Triton calls them programs.",
    ),
    Metric(
        "launch__block_size",
        "threads",
        "threads",
        "a block",
        "32 for each warp.",
    ),
)

# Cycles that a warp spent waiting, for each instruction that it issued, by what it waited for.
_STALL = "smsp__average_warps_issue_stalled_{}_per_issue_active.ratio"
STALLS = {
    "long_scoreboard": "data from global or local memory",
    "short_scoreboard": "data from shared memory, or a special function such as exp",
    "barrier": "the other warps of the block, at a barrier",
    "wait": "a fixed delay of the instruction before",
    "math_pipe_throttle": "an arithmetic unit that is busy",
    "mio_throttle": "the queue of shared memory and special functions, which is full",
    "lg_throttle": "the queue of global memory, which is full",
    "membar": "a memory fence",
    "no_instruction": "its next instruction, which is still on its way",
    "not_selected": "its turn: another warp was ready as well",
    "dispatch_stall": "the dispatcher",
    "drain": "its last stores to leave, at its end",
    "branch_resolving": "a branch's target",
    "sleeping": "a pause that it asked for",
    "gmma": "the asynchronous matrix unit",
}


def requested() -> list[str]:
    """The names to ask ncu for."""
    return [metric.ncu for metric in METRICS] + [_STALL.format(name) for name in STALLS]


class KernelProfile(msgspec.Struct, kw_only=True, forbid_unknown_fields=True):
    """One launch: values in the units of their names (null where ncu had none), and stall cycles an instruction."""

    kernel: str
    grid: str
    block: str
    values: dict[str, float | None]
    stalls: dict[str, float]


class Profile(msgspec.Struct, kw_only=True, forbid_unknown_fields=True):
    """One run of profile_kernel: what was profiled, where, and what came out of each launch."""

    schema_version: int = 1
    op: str
    implementation: str
    shape: list[int]
    dtype: str
    gpu: str
    commit: str | None
    utc: str
    command: str
    ncu: str
    source: str
    source_hash: str
    bytes_moved: int
    kernels: list[KernelProfile]
    nsys: str | None = None  # what Nsight Systems was asked for, or why not


def number(text: str | None) -> float | None:
    """A cell of ncu's table as a number; None for "n/a", an empty cell, nan and inf."""
    try:
        value = float((text or "").replace(",", "").strip())
    except ValueError:
        return None
    return value if math.isfinite(value) else None


def parse(text: str) -> list[KernelProfile]:
    """The launches in what `ncu --csv --page raw --print-units base` wrote, in their order.

    Lines before the table (`==PROF==`, warnings, the program's own output) are skipped; the line of units under the
    headings is no launch.

    Raises:
        ProfileError: there is no table; the message quotes ncu's own words, which say why.
    """
    table = [line for line in text.splitlines() if line.startswith('"')]
    rows = list(csv.DictReader(io.StringIO("\n".join(table))))
    launches = [row for row in rows if (row.get("ID") or "").strip().isdigit()]
    if not launches:
        words = "\n".join(line for line in text.splitlines() if line.startswith("==")) or text.strip() or "nothing"
        raise ProfileError(f"ncu showed no launch. It wrote:\n{words[-2000:]}")
    found = []
    for row in launches:
        values: dict[str, float | None] = {}
        for metric in METRICS:
            value = number(row.get(metric.ncu))
            values[metric.name] = None if value is None else value * metric.scale
        stalls = {name: value for name in STALLS if (value := number(row.get(_STALL.format(name)))) is not None}
        found.append(
            KernelProfile(
                kernel=row.get("Kernel Name", ""),
                grid=row.get("Grid Size", ""),
                block=row.get("Block Size", ""),
                values=values,
                stalls=stalls,
            )
        )
    return found


@dataclass
class Lines:
    """Text for a terminal, built up line by line."""

    lines: list[str] = field(default_factory=list)

    def add(self, text: str = "") -> None:
        self.lines.append(text)


def _shown(value: float) -> str:
    return f"{value:,.0f}" if abs(value) >= 1000 or value == int(value) else f"{value:.4g}"


def explain(kernels: list[KernelProfile], bytes_moved: int = 0) -> str:
    """What was counted for each launch, each number with what it means."""
    out = Lines()
    for kernel in kernels:
        out.add(f"{kernel.kernel}  grid {kernel.grid}, block {kernel.block}")
        for metric in METRICS:
            value = kernel.values.get(metric.name)
            amount = "not counted" if value is None else f"{_shown(value)} {metric.unit}".rstrip()
            out.add(f"  {metric.label:<26}{amount:<22}{metric.meaning}")
        moved = [kernel.values.get(name) for name in ("dram_read_bytes", "dram_write_bytes")]
        if bytes_moved and all(value is not None for value in moved):
            total = sum(value or 0.0 for value in moved)
            out.add(
                f"  {'DRAM against formula':<26}{f'{total / bytes_moved:.3f} x':<22}Bytes that the memory moved over "
                f"those that the formula needs ({bytes_moved:,}), for this launch alone."
            )
        waits = sorted(kernel.stalls.items(), key=lambda item: -item[1])[:4]
        if waits and waits[0][1] > 0:
            out.add("  a warp waited, in cycles for each instruction issued, for:")
            for name, cycles in waits:
                out.add(f"    {cycles:8.2f}  {name:<20}{STALLS[name]}")
        out.add()
    return "\n".join(out.lines).rstrip()
