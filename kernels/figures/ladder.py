"""The CUDA ladder as a table and as a plot."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import TYPE_CHECKING, Any

from kernels.figures.charts import bar_chart, line_chart
from kernels.figures.html import data_table

if TYPE_CHECKING:
    from kernels.bench.ladder import Rung

COUNTERS = (
    ("registers", "launch__registers_per_thread", 1.0),
    ("shared KiB", "", 1.0),
    ("GB from L2", "lts__t_sectors_op_read.sum", 32e-9),
    ("GB from DRAM", "dram__bytes_read.sum", 1e-9),
    ("shared passes, M", "l1tex__data_pipe_lsu_wavefronts_mem_shared.sum", 1e-6),
)


def ladder_table(rows: Sequence[Rung], document: dict[str, Any], caption: str = "", stale: Collection[str] = ()) -> str:
    """A row a rung: time, TFLOP/s, of cuBLAS; registers, shared memory and counters where the record has them.

    `stale` names rungs that were measured with earlier code; their rows say so.
    """
    kernels = document.get("counters", {})
    headers = ("rung", "median µs", "TFLOP/s", "of cuBLAS", *(name for name, _, _ in COUNTERS))
    cells = []
    for rung in rows:
        seen = kernels.get(rung.name, {})
        cells.append(
            (
                f"{rung.name} (earlier code)" if rung.name in stale else rung.name,
                rung.median_us,
                rung.tflop_per_s,
                f"{rung.of_cublas:.2f}",
                *(_counted(seen, key, unit) for _, key, unit in COUNTERS),
            )
        )
    return data_table(headers, cells, caption, numeric=range(1, len(headers)))


def _counted(seen: dict[str, float], key: str, unit: float) -> float | None:
    if not key:
        parts = [seen.get(f"launch__shared_mem_per_block_{kind}") for kind in ("static", "dynamic")]
        return None if None in parts else sum(parts) / 1024
    value = seen.get(key)
    return None if value is None else value * unit


def ladder_chart(rows: Sequence[Rung], caption: str = "") -> str:
    """TFLOP/s over the size of square matrices, a line for each rung; bars where there is one size."""
    if len({rung.size for rung in rows}) < 2:
        bars = [(f"{rung.name.removeprefix('matmul_')}, {rung.dtype}", rung.tflop_per_s) for rung in rows]
        return bar_chart(bars, "TFLOP/s", caption, log=True, heading="rung")
    series: dict[str, list[tuple[float, float]]] = {}
    for rung in rows:
        name = rung.name.removeprefix("matmul_")
        both = len({other.dtype for other in rows if other.name == rung.name}) > 1  # cuBLAS has a line for each dtype
        series.setdefault(f"{name}, {rung.dtype}" if both else name, []).append((rung.size, rung.tflop_per_s))
    return line_chart(series, "M = N = K", "TFLOP/s", caption, log_x=True, log_y=True, log_base_x=2)
