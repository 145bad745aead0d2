"""What one CUDA thread does, in words and in its own order."""

from __future__ import annotations

from itertools import groupby
from typing import TYPE_CHECKING

import numpy as np

from kernels.trace.cuda_library import BARRIER
from kernels.trace.faults import VERBS
from kernels.trace.model import KINDS, WARP_SIZE

if TYPE_CHECKING:
    from kernels.trace.cuda_result import CudaTrace

_SHOWN = 6


def story(trace: CudaTrace, thread: int, block: int = 0, launch: int = 0) -> list[str]:
    """One line for the thread's place, then one for each run of like steps: accesses of one source line to one buffer,
    warp operations of one line, a barrier with how many threads reached it.

    ValueError where the launch has no such block or thread.
    """
    run = trace.launches[launch]
    if not (0 <= block < run.blocks and 0 <= thread < run.threads):
        raise ValueError(
            f"{run.kernel} ran {run.blocks} blocks of {run.threads} threads; there is no block {block}, thread {thread}"
        )
    lines = [f"thread {thread} of block {block}: warp {thread // WARP_SIZE}, lane {thread % WARP_SIZE}"]
    arrived = {(barrier.interval, barrier.line): barrier.threads for barrier in trace.barriers(block, launch)}
    for (line, what, buffer, interval), group in groupby(
        _steps(trace, thread, block, launch), key=lambda step: step[:4]
    ):
        elements = [step[4] for step in group]
        if what == BARRIER:
            threads = arrived[interval, line]
            lines.append(
                f"line {line}: waits at barrier {interval + 1}, which {threads} of {run.threads} threads reach"
            )
        elif what > BARRIER:
            plural = "s" if len(elements) > 1 else ""
            lines.append(f"line {line}: takes part in {len(elements)} warp operation{plural}")
        else:
            places = [trace.buffers[buffer].text(element) for element in elements]
            more = f" and {len(places) - _SHOWN} more" if len(places) > _SHOWN else ""
            lines.append(f"line {line}: {VERBS[KINDS[what]]} {', '.join(places[:_SHOWN])}{more}")
    if len(lines) == 1:
        lines.append("touches no memory and meets no barrier")
    return lines


def _steps(trace: CudaTrace, thread: int, block: int, launch: int) -> list[tuple[int, int, int, int, int]]:
    """(line, kind, buffer, interval, element) in the thread's order; barriers count their interval, others do not."""
    accesses = trace.select(thread=thread, block=block, launch=launch).expanded().columns
    steps = trace.steps
    keep = (steps["thread"] == thread) & (steps["block"] == block) & (steps["launch"] == launch)
    columns = (accesses[name].tolist() for name in ("sequence", "site", "what", "buffer", "element"))
    told = [
        (sequence, (trace.sites[site][1], what, buffer, -1, element))
        for sequence, site, what, buffer, element in zip(*columns, strict=True)
    ]
    for i in np.flatnonzero(keep):
        what = int(steps["what"][i])
        interval = int(steps["interval"][i]) if what == BARRIER else -1
        told.append((int(steps["sequence"][i]), (trace.sites[steps["site"][i]][1], what, -1, interval, 0)))
    return [step for _, step in sorted(told, key=lambda item: item[0])]
