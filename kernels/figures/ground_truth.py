"""What a GPU did beside what the host's trace says: accesses by kernel, and counters launch by launch."""

from __future__ import annotations

from itertools import groupby
from typing import TYPE_CHECKING

from kernels.figures.html import data_table, number

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from kernels.trace.counters import CounterDifference
    from kernels.trace.gpu_record import Origin
    from kernels.trace.ground_truth import Compared, Difference

COUNTS = (("global", "read"), ("global", "write"), ("shared", "read"), ("shared", "write"))
# Heading of a column, and the counter that it shows.
GLOBAL = {
    "load requests": "global_load_requests",
    "load sectors": "global_load_sectors",
    "store requests": "global_store_requests",
    "store sectors": "global_store_sectors",
}
SHARED = {
    "load requests": "shared_load_requests",
    "load passes": "shared_load_wavefronts",
    "load conflicts": "shared_load_conflicts",
    "store requests": "shared_store_requests",
    "store passes": "shared_store_wavefronts",
    "store conflicts": "shared_store_conflicts",
}


def access_table(launches: Sequence[Compared], caption: str = "") -> str:
    """One row a kernel: launches compared, accesses by kind on the GPU, and in how many places the trace differs."""
    rows = []
    for kernel, group in _by_kernel(launches).items():
        counts = [sum(launch.counts.get(key, 0) for launch in group) for key in COUNTS]
        rows.append([kernel, len(group), *counts, sum(len(launch.mismatches) for launch in group)])
    headers = ["kernel", "launches", *(f"{space} {what}s" for space, what in COUNTS), "differences"]
    return data_table(headers, rows, caption or _origins([launch.accesses_from for launch in launches]))


def counter_table(launches: Sequence[Compared], columns: Mapping[str, str], caption: str = "") -> str:
    """One row a launch. A number on which trace and hardware agree stands alone, else "trace/hardware".

    columns: `GLOBAL` or `SHARED`. Rows with a difference are set apart. Kernels of which every number is zero are left
    out.
    """
    rows, marked, groups, used = [], [], [], []
    for kernel, group in _by_kernel(launches).items():
        if not any(launch.traced[name] or launch.counted[name] != 0 for launch in group for name in columns.values()):
            continue
        groups.append((kernel, len(group)))
        used += group
        for launch in group:
            if any(one.counter in columns.values() for one in launch.apart):
                marked.append(len(rows))
            rows.append([_shape(launch.shape), *(_cell(launch, name) for name in columns.values())])
    caption = caption or _origins([launch.counters_from for launch in used])
    return data_table(["shape", *columns], rows, caption, groups, numeric=range(1, len(columns) + 1), marked=marked)


def reason_table(differences: Sequence[Difference], counters: Sequence[CounterDifference]) -> str:
    """The listed differences, of accesses and of counters: for each reason a table, and the reason as its caption."""
    listed = [(d.reason, [d.kernel, f"{d.buffer}, {d.what}s", d.kind]) for d in differences]
    listed += [(d.reason, [d.kernel, f"{d.columns} columns", _words(d.counters)]) for d in counters]
    reasons: dict[str, list[list[str]]] = {}
    for reason, row in listed:
        reasons.setdefault(reason, []).append(row)
    headers = ["kernel", "where", "what differs"]
    return "\n".join(data_table(headers, rows, reason, stack=True) for reason, rows in reasons.items())


def _cell(launch: Compared, name: str) -> str:
    traced, counted = launch.traced[name], launch.counted[name]
    return number(traced) if traced == counted else f"{number(traced)}/{number(counted)}"


def _words(counters: Sequence[str]) -> str:
    kinds = {}
    for name in counters:
        _, access, what = name.split("_")
        kinds.setdefault(what, []).append(access)
    return ", ".join(f"{what} of {'s and '.join(which)}s" for what, which in kinds.items())


def _shape(shape: Mapping[str, int]) -> str:
    """ "257", "7 × 33", or with row strides that are not the width: "7 × 33 (40, 36)"."""
    if "n" in shape:
        return number(shape["n"])
    rows, columns, x_stride, out_stride = (shape[name] for name in ("rows", "columns", "x_stride", "out_stride"))
    plain = x_stride == columns and out_stride in (rows, columns)
    return f"{rows} × {columns}" + ("" if plain else f" ({x_stride}, {out_stride})")


def _by_kernel(launches: Sequence[Compared]) -> dict[str, list[Compared]]:
    return {kernel: list(group) for kernel, group in groupby(launches, key=lambda launch: launch.kernel)}


def _origins(origins: Sequence[Origin]) -> str:
    """Which GPU, with what, when: once for each that is among them."""
    told = {}
    for origin in origins:
        commit = f"commit {origin.commit[:7]}" if origin.commit else "no commit"
        changed = ", with changes" if origin.dirty else ""
        told[f"Recorded on {origin.gpu}, driver {origin.driver}, {origin.compiler}, {origin.tool}, "
             f"{origin.utc[:10]}, {commit}{changed}"] = None  # fmt: skip
    return "; ".join(told)
