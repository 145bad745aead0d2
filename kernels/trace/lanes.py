"""Gives the accesses of a Triton trace their threads: the warp and lane that the compiled kernel has for each element.

Under the interpreter a program is one whole; which of its threads holds an element is the compiler's choice. So the
kernel is compiled for an architecture (no GPU is needed) with the arguments of the traced launch, and every traced
load, store and atomic is laid over the threads as `kernels.inspect.layouts` reads them: one row for each instruction of
each thread, copies included, as a GPU would make them.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from kernels.sources import project_root
from kernels.trace.keys import group_numbers
from kernels.trace.model import KINDS, WARP_SIZE, Trace, shown_path

if TYPE_CHECKING:
    from kernels.inspect.layouts import KernelLayouts, MemoryAccess
    from kernels.trace.calls import Call
    from kernels.trace.triton import TritonTrace


@dataclass(frozen=True)
class LaneTrace(Trace):
    """A trace whose rows know their threads; everything of `Trace`, and:

    `layouts` holds what the compiler chose, one for each launch. `without_threads` lists the source lines (file, line)
    whose rows have no thread, with the reason: a copy engine moves the tensor, or the compiler left the access out.
    Verdicts are those of the programs: what the compiler does with threads inside a program is its own affair.
    """

    layouts: tuple[KernelLayouts, ...] = ()
    without_threads: tuple[tuple[str, int, str], ...] = ()
    of_programs: TritonTrace | None = field(default=None, repr=False)

    def faults(self, outputs: Sequence[str] | None = None) -> list:
        """Verdicts as of the trace without threads: see `kernels.trace.triton.TritonTrace.faults`."""
        return self.of_programs.faults(outputs)


def with_lanes(trace: TritonTrace, layouts: Sequence[KernelLayouts] | None = None, *, arch: int = 90) -> LaneTrace:
    """The trace with one row for each instruction of each thread.

    `layouts` has one entry for each launch. Without them the kernels are compiled as they were launched, for compute
    capability `arch` (90 for sm_90), in a helper process.

    A load is made by every thread that holds a copy of the element, a store and an atomic by one of them. Neighbours
    that one instruction moves are one row: `element` is the first, `size` the bytes of all. Elements that a mask
    switched off keep their rows, with `active` false. `sequence` counts instructions.

    Raises:
        ValueError: there is not one entry for each launch, or a launch has an argument that cannot be handed to another
            process; or a line has several accesses of one shape that were laid out differently; or a layout contradicts
            the trace, because it was compiled for other arguments.
        KeyError, kernels.inspect.ToolMissing, kernels.inspect.InspectionFailed: as `triton_layouts_many`.
    """
    if layouts is None:
        layouts = layouts_of(trace, arch)
    if len(layouts) != len(trace.launches):
        raise ValueError(f"there are {len(layouts)} layouts for {len(trace.launches)} launches; give one for each")
    column, parts, missing = trace.columns, [], {}
    if len(trace):
        keys = [*(column[name] for name in ("launch", "site", "what", "size")), trace.shapes]
        group = group_numbers(keys)[0]
        order = np.argsort(group, kind="stable")
        for rows in np.split(order, np.flatnonzero(np.diff(group[order])) + 1):
            launch, site, what, size, shape = (int(key[rows[0]]) for key in keys)
            file, line = trace.sites[site]
            found = [access for access in layouts[launch].accesses if _is_at(access, file, line, KINDS[what])]
            access, reason = _choose(found, trace.tensor_shapes[shape], size, file, line)
            if access is None:
                missing[file, line] = reason
                parts.append({n: c[rows] for n, c in column.items()} | {"step": np.zeros(len(rows), np.int64)})
            else:
                parts.append(_laid_out(trace, rows, access))
    columns = {name: np.concatenate([part[name] for part in parts] or [column[name]]) for name in column}
    if len(trace):
        order = np.lexsort((columns["thread"], step := np.concatenate([p["step"] for p in parts]), columns["sequence"]))
        columns, step = {name: values[order] for name, values in columns.items()}, step[order]
        new = np.ones(len(order), bool)
        new[1:] = (np.diff(columns["sequence"]) != 0) | (np.diff(step) != 0)
        columns["sequence"] = np.cumsum(new) - 1
    launches = tuple(
        replace(launch, block=(WARP_SIZE * layout.num_warps, 1, 1))
        for launch, layout in zip(trace.launches, layouts, strict=True)
    )
    reasons = tuple((file, line, reason) for (file, line), reason in missing.items())
    return LaneTrace(launches, trace.buffers, trace.sites, columns, tuple(layouts), reasons, trace, masks=trace.masks)


def layouts_of(trace: TritonTrace, arch: int = 90) -> list[KernelLayouts]:
    """The layouts of the kernels as they were launched, one for each launch.

    Raises: as `kernels.inspect.triton_layouts_many`; ValueError for an argument that has no description.
    """
    from kernels.inspect.layouts import triton_layouts_many
    from kernels.inspect.triton import TritonRequest

    requests = []
    for call in trace.calls:
        if call.unsaid:
            raise ValueError(call.unsaid)
        kernel = f"{_file_of(call)}:{call.kernel}" if call.page else call.kernel
        requests.append(TritonRequest(kernel, call.signature, arch, call.num_warps, call.num_stages))
    layouts = triton_layouts_many(requests)
    for i, call in enumerate(trace.calls):
        if call.page:
            accesses = [replace(a, file=call.page) if a.file == _file_of(call) else a for a in layouts[i].accesses]
            layouts[i] = replace(layouts[i], accesses=tuple(accesses))
    return layouts


def _file_of(call: Call) -> str:
    """The file that holds a page's kernel, relative to the project; it is written where there is none."""
    name = f"build/inspect/{hashlib.sha256(call.text.encode()).hexdigest()[:32]}.py"
    path = project_root() / name
    if not path.exists():
        path.parent.mkdir(parents=True, exist_ok=True)
        partial = path.with_suffix(f".{os.getpid()}")
        partial.write_text(call.text, encoding="utf-8")
        partial.replace(path)
    return name


def _is_at(access: MemoryAccess, file: str, line: int, what: str) -> bool:
    return (access.line, access.what) == (line, what) and _same_file(access.file, file)


def _same_file(written: str, file: str) -> bool:
    return (project_root() / written).resolve() == Path(file).resolve()


def _choose(
    found: Sequence[MemoryAccess], shape: tuple[int, ...], size: int, file: str, line: int
) -> tuple[MemoryAccess | None, str]:
    """The access that a traced operation is, or None with the reason why no thread makes it."""
    fitting = [a for a in found if (a.shape or (1,)) == (shape or (1,)) and a.element_bytes == size and not a.engine]
    different = {(a.register_bases, a.lane_bases, a.warp_bases, a.vector) for a in fitting}
    if len(different) > 1:
        raise ValueError(
            f"{shown_path(file)}:{line} has {len(different)} accesses of shape {shape} that the compiler laid out "
            "differently, and a trace cannot tell which is which. Give each a line of its own."
        )
    if fitting:
        return fitting[0], ""
    if any(access.engine for access in found):
        return None, "a copy engine (TMA) moves the tensor, asked by one thread"
    return None, "the compiled kernel has no such access: the compiler left it out or merged it with another"


def _laid_out(trace: TritonTrace, rows: np.ndarray, access: MemoryAccess) -> dict[str, np.ndarray]:
    """The rows of one access (of all programs and passes), one for each instruction of each thread."""
    column, vector = trace.columns, access.vector
    operations, which = np.unique(column["sequence"][rows], return_inverse=True)
    count = max(1, int(np.prod(access.shape)))
    row_of = np.full((len(operations), count), -1)
    row_of[which.reshape(-1), trace.positions[rows]] = rows
    warp, lane, step = np.nonzero(access.acts[:, :, ::vector])
    moved = access.positions[warp[:, None], lane[:, None], step[:, None] * vector + np.arange(vector)]
    first = row_of[:, moved[:, 0]]
    for i in range(1, vector):
        other = row_of[:, moved[:, i]]
        both = (first >= 0) & (other >= 0)
        a, b = first[both], other[both]
        if (
            (column["element"][a] + i != column["element"][b])
            | (column["buffer"][a] != column["buffer"][b])
            | (column["active"][a] != column["active"][b])
        ).any():
            file, line = trace.sites[column["site"][rows[0]]]
            raise ValueError(
                f"{shown_path(file)}:{line}: the compiled kernel moves {vector} neighbours with one "
                f"{access.instruction}, but in the trace they are not neighbours under one mask. The layouts "
                "were compiled for arguments of another alignment or stride than the traced launch has."
            )
    there = first >= 0
    shape = first.shape
    chosen = {name: values[first[there]] for name, values in column.items()}
    chosen["thread"] = np.broadcast_to(warp * WARP_SIZE + lane, shape)[there].astype(column["thread"].dtype)
    chosen["size"] = (chosen["size"] * vector).astype(column["size"].dtype)
    return chosen | {"step": np.broadcast_to(step, shape)[there]}
