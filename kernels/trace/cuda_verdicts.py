"""Sentences about a launch that could not go on, a lane that read from nobody, a configuration that was refused."""

from __future__ import annotations

import signal
from typing import TYPE_CHECKING

import numpy as np

from kernels.trace.cuda_library import (
    AT_BARRIER,
    AT_WARP_OP,
    COMPARE_AND_SWAP,
    COPY_BEGIN,
    COPY_END,
    RETURNED,
    STOPS,
    Library,
)
from kernels.trace.faults import VERBS, Fault, capital, spans
from kernels.trace.keys import group_numbers
from kernels.trace.model import ATOMIC, KINDS, WARP_SIZE, WRITE, Launch, Trace, shown_path

if TYPE_CHECKING:
    from kernels.trace.cuda_result import Region


# Most shared memory of one block, static and dynamic together, after the table of technical specifications per
# compute capability in the CUDA C++ Programming Guide. The host build refuses what the largest of them refuses.
SHARED_MEMORY_KIB = {"sm_80": 163, "sm_86, sm_89 and sm_120": 99, "sm_90 and sm_100": 227}
SHARED_MEMORY = ", ".join(f"{kib} KiB on {arch}" for arch, kib in SHARED_MEMORY_KIB.items())

WITHOUT_ASKING_KIB = 48  # of dynamic shared memory, on every GPU; after the same guide


def verdicts(
    library: Library,
    failure: np.void,
    lanes: tuple[np.ndarray, int],
    launches: tuple[Launch, ...],
    regions: list[Region],
    lines: dict[int, int],
    file: str,
    opts_in: bool = True,
) -> tuple[Fault | None, list[Fault]]:
    """The verdict of what stopped the launch, if anything did, and the others.

    opts_in: whether the source asks for more dynamic shared memory than every launch may have.
    """
    stopped = None
    stop = STOPS[int(failure["stop"])]
    if stop and int(failure["launch"]) < 0:
        stopped = _launcher(stop, failure, lines.get(int(failure["pc"]), 0), file)
    elif stop:
        launch = launches[int(failure["launch"])]
        line = lines.get(int(failure["pc"]), 0) or lines.get(int(failure["last"]), 0)
        who = launch.who(int(failure["block"]), int(failure["thread"]))
        if stop in ("barrier", "warp"):
            states = library.thread_states()
            text = _barrier if stop == "barrier" else _warp
            stopped = text(failure, launch, states, lines, file)
        elif stop == "mask":
            mask = int(failure["size"])
            cause = "the mask was computed before a branch, or written for fewer lanes than call"
            start = f"{capital(who)} calls a warp operation with the mask {mask:#010x}, which leaves it out."
            stopped = _fault("warp-divergence", start, who, file, line, cause)
        elif stop == "shuffle-width":
            width = int(failure["size"].astype(np.int64))
            start = f"{capital(who)} shuffles with the width {width}; what it receives is undefined."
            stopped = _fault(stop, start, who, file, line, "a width must be 1, 2, 4, 8, 16 or 32, the size of a warp")
        elif stop in ("wild", "misaligned"):
            stopped = _address(stop, failure, who, regions, library, file, line)
        elif stop == "assertion":
            text = library.assertion()
            start = f"{capital(who)} finds that `{text}` is false." if text else f"{capital(who)} calls `__trap()`."
            stopped = _fault("assertion", start, who, file, line, "the kernel's own check failed")
        else:
            stopped = _limit(stop, failure, who, file, line)
    others = [fault for fault in (_lanes(lanes, launches, lines, file),) if fault]
    for number, record in enumerate(library.launches()):
        if record["refused"]:
            others.append(_refused(launches[number], int(record["shared_bytes"]), file))
        elif record["shared_bytes"] > WITHOUT_ASKING_KIB * 1024 and not opts_in:
            others.append(_not_asked_for(launches[number], int(record["shared_bytes"]), file))
    return stopped, others


def _fault(
    kind: str,
    start: str,
    who: str,
    file: str,
    line: int,
    cause: str,
    buffer: str = "",
    element: int = 0,
    count: int = 1,
) -> Fault:
    where = f" Line: {shown_path(file)}:{line}." if line else ""
    return Fault(kind, f"{start}{where} Likely cause: {cause}.", buffer, element, who, file, line, count, cause)


def _threads(numbers: np.ndarray) -> str:
    """`thread 67`, `threads 33–255`."""
    return f"thread{'s' if len(numbers) != 1 else ''} {spans(numbers)}"


def _barrier(
    failure: np.void,
    launch: Launch,
    states: tuple[np.ndarray, np.ndarray, np.ndarray],
    lines: dict[int, int],
    file: str,
) -> Fault:
    state, line, _ = states
    block = launch.who(int(failure["block"]))
    waiting = np.flatnonzero(state == AT_BARRIER)
    gone = np.flatnonzero(state == RETURNED)
    at = {number: waiting[line[waiting] == number] for number in sorted(set(line[waiting].tolist()))}
    waits = " and ".join(f"{_threads(members)} at line {number}" for number, members in at.items())
    start = f"In {block} not every thread reaches the same barrier: {waits} wait"
    start += f", while {_threads(gone)} returned and never arrive." if len(gone) else " for each other."
    if len(gone):
        cause = "an early return, or a barrier inside a branch or loop that only some threads run"
    elif len(at) > 1:
        cause = "the two sides of a branch, or of a loop, have barriers of their own"
    else:
        cause = "the threads call different kinds of barrier"
    who = launch.who(int(failure["block"]), int(waiting[0]))
    return _fault("barrier-divergence", start, who, file, int(line[waiting[0]]), cause, count=len(waiting))


def _warp(
    failure: np.void,
    launch: Launch,
    states: tuple[np.ndarray, np.ndarray, np.ndarray],
    lines: dict[int, int],
    file: str,
) -> Fault:
    state, line, _ = states
    first = int(failure["thread"])
    warp, mask, count = first // WARP_SIZE, int(failure["size"]), len(state)
    members = np.arange(warp * WARP_SIZE, warp * WARP_SIZE + WARP_SIZE)
    named = members[[bool(mask >> lane & 1) for lane in range(WARP_SIZE)]]
    absent = named[named >= count]
    here = named[named < count]
    gone = here[state[here] == RETURNED]
    barrier = here[state[here] == AT_BARRIER]
    elsewhere = here[(state[here] == AT_WARP_OP) & (line[here] != line[first])]
    reasons = []
    if len(absent):
        reasons.append(f"{_threads(absent)} do not exist in a block of {count} threads")
    if len(gone):
        reasons.append(f"{_threads(gone)} returned")
    if len(barrier):
        reasons.append(f"{_threads(barrier)} wait at the barrier of line {int(line[barrier[0]])}")
    if len(elsewhere):
        reasons.append(f"{_threads(elsewhere)} call another one at line {int(line[elsewhere[0]])}")
    who = launch.who(int(failure["block"]), first)
    start = (
        f"{capital(who)} waits in a warp operation for the lanes of the mask {mask:#010x}, "
        f"and some never arrive: {'; '.join(reasons) or 'they call it with other arguments'}."
    )
    returned, halted = np.flatnonzero(state == RETURNED), np.flatnonzero(state == AT_BARRIER)
    if len(halted):
        at = f"{_threads(halted)} wait at the barrier of line {int(line[halted[0]])}"
        start += f" In the whole block {at}"
        start += f", and {_threads(returned)} returned and never arrive there." if len(returned) else "."
    cause = (
        "the block is not a whole number of warps"
        if len(absent)
        else "a branch or an early return around the operation"
    )
    return _fault("warp-divergence", start, who, file, int(line[first]), cause)


def _address(
    stop: str, failure: np.void, who: str, regions: list[Region], library: Library, file: str, line: int
) -> Fault:
    kind = int(failure["kind"])
    kind = {COMPARE_AND_SWAP: ATOMIC, COPY_BEGIN: WRITE, COPY_END: WRITE}.get(kind, kind)
    address, size, verb = int(failure["address"]), int(failure["size"]), VERBS[KINDS[kind]]
    best, distance = None, 1 << 62
    home = library.thread_block
    for region in regions:
        base = region.buffer.start if region.buffer else home + region.address if region.space == "shared" else None
        if base is None:
            continue
        gap = max(base - address, address - (base + region.size) + 1, 0)
        if gap < distance:
            best, distance, offset = region, gap, address - base
    if stop == "misaligned":
        item = best.buffer.owner.itemsize if best and best.buffer else 1
        place = f" at {best.name}[{offset // item}]" if best and best.buffer and distance == 0 else ""
        start = (
            f"{capital(who)} {verb} {size} bytes{place} at once, at an address that is not a multiple of {size}; "
            "the GPU refuses that, and the launch stops."
        )
        cause = "a vector type such as float4 is laid over a row that does not begin at such a multiple"
        element = offset // item if place else 0
        return _fault("misaligned", start, who, file, line, cause, best.name if place else "", element)
    if best is None or distance > 1 << 20:
        start = f"{capital(who)} {verb} {size} bytes at an address that lies near no buffer; the launch stops."
        cause = "a pointer that is null or not initialised, or an index far out of range"
        return _fault("out-of-bounds", start, who, file, line, cause)
    side = f"{offset - best.size} bytes after its end" if offset >= best.size else f"{-offset} bytes before its start"
    start = (
        f"{capital(who)} {verb} {size} bytes outside {best.space} {best.name}, which has {best.size} bytes: "
        f"{side}. The launch stops."
    )
    cause = "an index without a bounds test, or an array that is too small for the block"
    item = best.buffer.owner.itemsize if best.buffer else max(1, size)
    return _fault("out-of-bounds", start, who, file, line, cause, best.name, offset // item)


def _limit(stop: str, failure: np.void, who: str, file: str, line: int) -> Fault:
    if later := int(failure["later"]):
        ran_out = "the time for the trace ended" if stop == "too-long" else "the trace had no room for more accesses"
        start = (
            f"{capital(who)} waits for a value that stayed the same until {ran_out}. Blocks run one after another "
            f"here, and {later} of them had not begun, so a block that waits for one of these waits for ever."
        )
        cause = (
            "the block waits for one that runs later here, which on a GPU is right only if both are resident at once; "
            'trace it in the other order ("forward" or "backward")'
        )
    elif stop == "too-long":
        start, cause = f"{capital(who)} was still running when the time for the trace ended.", "a loop that never ends"
    elif stop == "too-many-events":
        start = f"{capital(who)} made one access more than the trace has room for."
        cause = "a loop that never ends, or a case too large to trace; pass max_events for more"
    elif stop == "stack-overflow":
        start = f"{capital(who)} ran out of stack."
        cause = "a function that calls itself without end, or local arrays of more than 64 KB"
    elif stop == "out-of-memory":
        start = (
            f"{capital(who)} asks for {int(failure['size'])} bytes more than the kernels' heap of 8 MB has left; "
            "on a GPU `malloc` gives a null pointer then, and the launch stops here."
        )
        cause = "memory that is allocated in a loop and never freed"
    else:
        name = signal.Signals(int(failure["size"])).name
        start = f"{capital(who)} was stopped by the processor ({name})."
        cause = "an integer division by zero" if name == "SIGFPE" else "an address that the recorder did not see"
    return _fault(stop, start, who, file, line, cause)


def _launcher(stop: str, failure: np.void, line: int, file: str) -> Fault:
    """A host function that was given up; `thread` counts what it did."""
    count = int(failure["thread"])
    if stop == "out-of-memory":
        start = (
            f"The launcher was given up: it holds {count} allocations of {int(failure['size'])} bytes and asks "
            "for more; a trace has room for 128 allocations and 2 GB."
        )
        return _fault(
            stop, start, "", file, line, "a loop that allocates without end, or an allocation that never fits"
        )
    if stop == "assertion":
        start = f"The launcher calls `exit({count})`; a program would have ended here."
        return _fault(stop, start, "", file, line, "a check of the launcher's own failed")
    start = f"The launcher was given up at launch number {count + 1}; a trace holds {count}."
    return _fault(stop, start, "", file, line, "a loop around the launch that never ends")


def _lanes(
    lanes: tuple[np.ndarray, int], launches: tuple[Launch, ...], lines: dict[int, int], file: str
) -> Fault | None:
    found, count = lanes
    if not count:
        return None
    first = found[0]
    who = launches[int(first["launch"])].who(int(first["block"]), int(first["thread"]))
    start = (
        f"{capital(who)} shuffles from lane {int(first['source'])}, which the mask leaves out: its value is undefined."
    )
    cause = "the mask names fewer lanes than the shuffle reads from"
    return _fault("inactive-lane", start, who, file, int(first["line"]), cause, count=count)


def _refused(launch: Launch, shared_bytes: int, file: str) -> Fault:
    threads = launch.threads
    start = (
        f"The launch of {launch.kernel} with grid {launch.grid}, block {launch.block} and {shared_bytes} bytes of "
        "shared memory is refused: nothing runs."
    )
    if threads > 1024:
        cause = f"a block has at most 1024 threads, and this one has {threads}"
    elif launch.blocks == 0 or threads == 0:
        cause = "a grid and a block have at least one element on each axis"
    elif shared_bytes > 227 * 1024:
        cause = f"a block has at most so much shared memory: {SHARED_MEMORY}; this one wants {shared_bytes // 1024} KiB"
    else:
        cause = "x of a grid goes up to 2147483647, y and z up to 65535, z of a block up to 64"
    return _fault("launch-refused", start, "", file, launch.line, cause)


def _not_asked_for(launch: Launch, shared_bytes: int, file: str) -> Fault:
    start = (
        f"The launch of {launch.kernel} asks for {shared_bytes} bytes of dynamic shared memory, which a GPU refuses: "
        f"more than {WITHOUT_ASKING_KIB} KiB must be asked for. It ran here all the same."
    )
    cause = (
        f"`cudaFuncSetAttribute({launch.kernel}, cudaFuncAttributeMaxDynamicSharedMemorySize, bytes)` is missing "
        "before the launch"
    )
    return _fault("launch-refused", start, "", file, launch.line, cause)


def unset_reads(trace: Trace) -> list[Fault]:
    """Reads of shared elements that nobody in the block had written yet; one verdict a buffer."""
    rows = trace.select(space="shared").expanded()
    if not len(rows):
        return []
    column = rows.columns
    group, groups = group_numbers([column[name] for name in ("launch", "block", "buffer", "element")])
    written = np.full(groups, np.iinfo(np.int64).max)
    writes = column["what"] == WRITE
    np.minimum.at(written, group[writes], column["sequence"][writes])
    early = np.flatnonzero(~writes & (column["sequence"] < written[group]))
    found = []
    for number in np.unique(column["buffer"][early]):
        here = early[column["buffer"][early] == number]
        buffer = trace.buffers[number]
        here = here[buffer.holds(column["element"][here])]
        if not len(here):
            continue
        row = here[np.argmin(column["sequence"][here])]
        element = int(column["element"][row])
        who = trace.launches[column["launch"][row]].who(int(column["block"][row]), int(column["thread"][row]))
        file, line = trace.sites[column["site"][row]]
        start = f"{capital(who)} reads {buffer.text(element)} of shared memory, which its block has not written yet."
        cause = "the threads that fill the array leave this element out, or a block counts on what another one left"
        count = len(np.unique(column["element"][here]))
        found.append(_fault("read-before-written", start, who, file, line, cause, buffer.name, element, count))
    return found
