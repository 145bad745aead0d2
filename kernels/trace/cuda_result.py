"""From recorded events to a `Trace`, with what only CUDA has: barriers, warp operations, a launch that was stopped."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from kernels.trace.cuda_library import BARRIER, COPY_BEGIN, COPY_END, FENCE, WARP_OP, Library
from kernels.trace.cuda_memory import DeviceBuffer
from kernels.trace.cuda_records import Recorded, Rows
from kernels.trace.cuda_translate import Function, Translation
from kernels.trace.keys import differs, group_numbers
from kernels.trace.model import COLUMNS, WRITE, Buffer, Launch, Trace
from kernels.trace.order import Order
from kernels.trace.requests import Request

TYPES = {
    "char": 1, "signed char": 1, "unsigned char": 1, "uint8_t": 1, "int8_t": 1, "bool": 1, "short": 2,
    "unsigned short": 2, "half": 2, "__half": 2, "__nv_bfloat16": 2, "int": 4, "unsigned": 4, "unsigned int": 4,
    "int32_t": 4, "uint32_t": 4, "float": 4, "double": 8, "int64_t": 8, "uint64_t": 8, "long long": 8,
    "unsigned long long": 8, "float2": 8, "int2": 8, "float4": 16, "int4": 16, "uint4": 16,
}  # fmt: skip


@dataclass
class Region:
    """Memory the recorder knows: an argument, a shared array, a table of the source, or a launcher's allocation."""

    name: str
    space: str
    size: int
    owner: str = ""
    address: int = 0
    dynamic: bool = False
    buffer: DeviceBuffer | None = None


@dataclass(frozen=True)
class Barrier:
    """A block's barrier: it ends `interval`; `line` is where it stands, `threads` how many arrived."""

    interval: int
    line: int
    threads: int


@dataclass(frozen=True)
class CudaTrace(Trace):
    """A trace of CUDA threads; everything of `Trace`, and:

    `outputs` names the arguments that the kernel's parameters may write, all of which `faults()` expects to be written
    whole. `result` is what the launcher returned, or the error of a kernel launched directly (0: none). `steps` holds
    barrier arrivals and warp operations as columns like those of accesses. `stopped` is the verdict of a launch that
    could not go on. `warp_intervals` counts, for each row, the `__syncwarp` calls since the last barrier; `compares`
    says which rows are compare-and-swaps. `fences` holds `__threadfence()` and its kind as columns. `copies` holds
    where asynchronous copies begin; `delivered` says which rows are their ends, writes that come when a thread waits.
    `filled` says for a buffer which elements the launcher itself set, by cudaMemset or cudaMemcpy.
    `parts` gives, for a buffer of which accesses touch less than an item, the bytes that verdicts take for an item;
    then `bytes_before` is each row's distance from its buffer's start.
    """

    outputs: tuple[str, ...] = ()
    result: int = 0
    steps: dict[str, np.ndarray] = field(default_factory=dict, repr=False)
    stopped: object | None = None
    verdicts: tuple = ()
    warp_intervals: np.ndarray = field(default_factory=lambda: np.empty(0, np.int32), repr=False)
    fences: dict[str, np.ndarray] = field(default_factory=dict, repr=False)
    compares: np.ndarray = field(default_factory=lambda: np.empty(0, bool), repr=False)
    copies: dict[str, np.ndarray] = field(default_factory=dict, repr=False)
    delivered: np.ndarray = field(default_factory=lambda: np.empty(0, bool), repr=False)
    filled: dict[str, np.ndarray] = field(default_factory=dict, repr=False)
    parts: dict[int, int] = field(default_factory=dict, repr=False)
    bytes_before: np.ndarray = field(default_factory=lambda: np.empty(0, np.int64), repr=False)

    def owner_pairs(self, buffer: str, launch: int | None = None) -> list[tuple[int, int]]:
        """(block, thread) that wrote each element last, in the order of the view; (-1, -1) where nobody did."""
        blocks = self.owners(buffer, "block", launch).reshape(-1).tolist()
        return list(zip(blocks, self.owners(buffer, "thread", launch).reshape(-1).tolist(), strict=True))

    def elements(self, buffer: str, thread: int, block: int = 0, what: str = "read", launch: int = 0) -> list[int]:
        """The elements of `buffer` that one thread touches, in its order; a `float4` counts as its four elements."""
        rows = self.select(buffer=buffer, thread=thread, block=block, what=what, launch=launch).expanded()
        return rows.columns["element"].tolist()

    def warp_requests(
        self, buffer: str, warp: int, block: int = 0, what: str = "read", launch: int = 0
    ) -> list[Request]:
        """One warp's requests to a buffer, in the order in which they began; `[0].sectors` are those of the first."""
        return self.requests(buffer=buffer, warp=warp, block=block, what=what, launch=launch)

    def barriers(self, block: int = 0, launch: int = 0) -> list[Barrier]:
        """The barriers a block passed, or stopped at, in order."""
        steps = self.steps
        keep = (steps["what"] == BARRIER) & (steps["block"] == block) & (steps["launch"] == launch)
        found: dict[tuple[int, int], int] = {}
        for interval, site in zip(steps["interval"][keep].tolist(), steps["site"][keep].tolist()):
            key = interval, self.sites[site][1]
            found[key] = found.get(key, 0) + 1
        return [Barrier(interval, line, threads) for (interval, line), threads in sorted(found.items())]

    def warp_operations(self, thread: int, block: int = 0, launch: int = 0) -> list[tuple[int, int]]:
        """(interval, line) of each shuffle, vote or `__syncwarp` of a thread, in order."""
        steps = self.steps
        keep = (steps["what"] != BARRIER) & (steps["block"] == block) & (steps["launch"] == launch)
        keep &= steps["thread"] == thread
        return [(i, self.sites[s][1]) for i, s in zip(steps["interval"][keep].tolist(), steps["site"][keep].tolist())]

    def story(self, thread: int, block: int = 0, launch: int = 0) -> list[str]:
        """What one thread does, a line of words for each run of like steps; see `kernels.trace.cuda_story`."""
        from kernels.trace.cuda_story import story

        return story(self, thread, block, launch)

    def faults(self, outputs: Sequence[str] | None = None) -> list:
        """Verdicts, worst first: what stopped the launch, then lanes and launches, then those of every trace.

        A race needs two different threads of a block, the same element, at least one plain write, and no barrier
        between; threads of one warp are also ordered by `__syncwarp`, but not by a shuffle. A fence and then an atomic
        order what came before them for whoever makes an atomic on the same element later. Outputs that a
        stopped launch left unwritten are not held against it. A value of shared memory that is read before its block
        wrote it is a fault of its own, unless a race explains it.
        """
        from kernels.trace.copies import early
        from kernels.trace.cuda_verdicts import unset_reads
        from kernels.trace.faults import faults

        found = [*([self.stopped] if self.stopped else []), *self.verdicts]
        names = self.outputs if outputs is None else outputs
        names = tuple(name for name in names if name in {b.name for b in self.buffers})
        shared = np.array([b.space == "shared" for b in self.buffers], bool)
        order = Order(self.columns, self.warp_intervals, self.fences, self.compares, shared)
        rest = faults(self._ordered_by_warp(), names, order, self.filled)
        found += [fault for fault in rest if not (self.stopped and fault.kind == "unwritten")]
        copied = early(self)
        explained = {fault.buffer for fault in copied}
        found = [*(f for f in found if f.kind != "shared-race" or f.buffer not in explained), *copied]
        raced = {fault.buffer for fault in found if fault.kind == "shared-race"} | explained
        return found + [fault for fault in unset_reads(self) if fault.buffer not in raced]

    def _ordered_by_warp(self) -> Trace:
        """The same trace, in which `__syncwarp` starts a new interval for elements that only one warp touches there."""
        fine = self._in_parts()
        column = fine.columns
        if not (self.warp_intervals > 0).any():
            return fine
        marked = Trace(self.launches, fine.buffers, self.sites, column | {"synced": self.warp_intervals})
        wide = marked.expanded()
        column = dict(wide.columns)
        synced = column.pop("synced")
        group, groups = group_numbers([column[name] for name in ("launch", "buffer", "element", "block", "interval")])
        alone = ~differs(group, groups, wide.warps)[group]
        interval = column["interval"].astype(np.int64) << 16 | np.where(alone, synced, 0)
        return Trace(self.launches, fine.buffers, self.sites, column | {"interval": interval})

    def _in_parts(self) -> Trace:
        """The same trace, in which the items of an array that is also touched in parts are these parts: two threads
        that write different bytes of one integer do not meet."""
        if not self.parts:
            return self
        buffers, element = list(self.buffers), self.columns["element"].copy()
        for number, size in self.parts.items():
            whole = self.buffers[number]
            ratio = whole.itemsize // size
            shape, strides = (*whole.shape, ratio), (*(stride * ratio for stride in whole.strides), 1)
            buffers[number] = replace(whole, itemsize=size, shape=shape, strides=strides)
            here = self.columns["buffer"] == number
            element[here] = self.bytes_before[here] // size
        return Trace(self.launches, tuple(buffers), self.sites, self.columns | {"element": element})


def assemble(
    library: Library,
    translation: Translation,
    function: Function,
    regions: list[Region],
    outputs: list[str],
    file: str,
    result: int,
) -> CudaTrace:
    """Reads everything that the library recorded."""
    from kernels.trace.cuda_verdicts import verdicts

    guards = [number for number, region in enumerate(regions) if region.space == "guard"]
    recorded = Recorded(library.events(), library.turns(), guards)
    for number, size in enumerate(library.allocations()):
        regions.append(Region(f"allocation {number}", "global", size))
    records = library.launches()
    for region in regions:
        if region.dynamic and len(records):
            region.size = int(records["shared_bytes"].max())
    failure, lanes = library.failure(), library.lane_faults()
    launches = tuple(_launch(record, file, translation) for record in records)
    where = [recorded.events["pc"], lanes[0]["pc"], failure[["pc", "last"]].tolist(), library.thread_states()[2]]
    places = _distinct([np.asarray(part, np.uint32) for part in where])
    lines = library.lines(places[places > 0])
    sites = tuple(sorted({(file, line) for line in lines.values()} | {(file, 0)}))
    number_of = {line: i for i, (_, line) in enumerate(sites)}
    site_of = np.zeros(int(places.max(initial=0)) + 1, np.int32)
    site_of[places] = [number_of[lines.get(int(place), 0)] for place in places]
    rows, begins = recorded.accesses, recorded.kinds(COPY_BEGIN)
    touched = rows.regions(len(regions)) | begins.regions(len(regions))
    buffers, number_in, item = _buffers(regions, rows, touched, translation, launches)
    columns, compares = rows.columns(site_of, number_in, item)
    finest = {number_in[n]: rows.finest(n, r.buffer.owner.itemsize) for n, r in enumerate(regions) if r.buffer}
    parts = {int(n): size for n, size in finest.items() if size < buffers[n].itemsize}
    delivered = columns["what"] == COPY_END
    columns["what"][delivered] = WRITE
    columns |= {name: rows.turns(name) for name in ("launch", "block", "thread", "interval")}
    columns |= {"active": np.ones(len(rows), bool), "sequence": rows.sequence}
    columns = {name: columns[name].astype(dtype, copy=False) for name, dtype in COLUMNS.items()}
    steps = recorded.kinds(BARRIER, WARP_OP).steps(site_of)
    fences = recorded.kinds(FENCE).steps(site_of)
    copies = begins.steps(site_of)
    if len(begins):
        copies |= begins.columns(site_of, number_in, item)[0]
    # A kernel that is launched here has no launcher that could opt in; a header of the source's own may do it for it.
    opts_in = function.kernel or any(word in translation.text for word in ("cudaFuncSetAttribute", '#include "'))
    stopped, others = verdicts(library, failure, lanes, launches, regions, lines, file, opts_in)
    return CudaTrace(
        launches,
        tuple(buffers),
        sites,
        columns,
        tuple(outputs),
        result,
        steps,
        stopped,
        tuple(others),
        rows.turns("warp_interval"),
        fences,
        compares,
        copies,
        delivered,
        _filled(library.filled(), regions),
        parts,
        rows.within() if parts else np.empty(0, np.int64),
    )


def _filled(pieces: list[tuple[int, int]], regions: list[Region]) -> dict[str, np.ndarray]:
    """Which elements of each argument lie whole in a piece of memory that the launcher filled."""
    found: dict[str, np.ndarray] = {}
    for region in regions:
        if region.buffer is None:
            continue
        itemsize, start = region.buffer.owner.itemsize, region.buffer.start
        for address, size in pieces:
            first, last = -(-(address - start) // itemsize), (address + size - start) // itemsize
            if first < last and first * itemsize < region.size and last > 0:
                mask = found.setdefault(region.name, np.zeros(region.size // itemsize, bool))
                mask[max(first, 0) : last] = True
    return found


def _distinct(parts: list[np.ndarray]) -> np.ndarray:
    """Sorted distinct values; return addresses lie within one small library, so counting beats sorting millions."""
    highest = max(int(part.max(initial=0)) for part in parts)
    seen = np.zeros(highest + 1, bool)
    for part in parts:
        seen[part] = True
    return np.flatnonzero(seen)


def _launch(record: np.void, file: str, translation: Translation) -> Launch:
    name = record["name"].decode()
    line = int(record["line"]) or next((f.line for f in translation.functions if f.name == name), 0)
    grid, block = (tuple(int(n) for n in record[which]) for which in ("grid", "block"))
    return Launch(name, grid, block, "cuda", file, line)


def _buffers(
    regions: list[Region],
    rows: Rows,
    touched: np.ndarray,
    translation: Translation,
    launches: tuple[Launch, ...],
) -> tuple[list[Buffer], np.ndarray, np.ndarray]:
    """Arguments, and whatever else was touched, as buffers; the buffer's number and item size for each region."""
    buffers: list[Buffer] = []
    number_in, item = np.zeros(len(regions) or 1, np.int64), np.ones(len(regions) or 1, np.int64)
    for number, region in enumerate(regions):
        if region.buffer is None and not touched[number]:
            continue
        name = region.name
        if any(buffer.name == name for buffer in buffers):
            name = f"{name} of {region.owner}" if region.owner else name
        while any(buffer.name == name for buffer in buffers):
            name += "'"
        if region.buffer is not None:
            array = region.buffer.owner
            strides = tuple(stride // array.itemsize for stride in array.strides)
            made = Buffer(name, array.itemsize, array.shape, strides, region.buffer.shift, "global", array.dtype.name)
        else:
            made = _plain_buffer(name, number, region, rows, translation)
        number_in[number], item[number] = len(buffers), made.itemsize
        buffers.append(made)
    return buffers, number_in, item


def _plain_buffer(name: str, number: int, region: Region, rows: Rows, translation: Translation) -> Buffer:
    """A shared array or table: items as declared, or as the accesses show where these are to parts of an item."""
    size = region.size
    for array in translation.shared.get(region.name, []):
        itemsize = TYPES.get(array.type, 0)
        extents = [translation.extent(e) for e in array.extents]
        if itemsize and array.dynamic and rows.finest(number, itemsize) == itemsize:
            return Buffer(name, itemsize, (size // itemsize,), (), region.address, region.space, array.type)
        if itemsize and extents.count(None) == 1:  # a template's parameter: the size says it
            known = itemsize * int(np.prod([e for e in extents if e is not None], dtype=np.int64))
            extents[extents.index(None)] = size // known if known and size % known == 0 else None
        if None not in extents:
            count = int(np.prod(extents, dtype=np.int64))
            fits = count > 0 and size % count == 0 and itemsize in (0, size // count)
            if fits and rows.finest(number, size // count) == size // count:
                return Buffer(name, size // count, tuple(extents), (), region.address, region.space, array.type)
    itemsize = rows.common_divisor(number, size) or 1
    return Buffer(name, itemsize, (size // itemsize,), (), region.address, region.space)
