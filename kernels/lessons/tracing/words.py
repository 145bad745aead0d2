"""A trace in words: what one thread of a CUDA kernel or one Triton program did, and the verdicts on all of them."""

from __future__ import annotations

from itertools import groupby
from typing import TYPE_CHECKING

import numpy as np

from kernels.lessons.explained import with_explanation
from kernels.lessons.tracing.run import Traced

if TYPE_CHECKING:
    from kernels.trace import Buffer, Trace


def in_words(traced: Traced, block: int, thread: int) -> list[str]:
    """The launch, and what one thread (or program) did from its first line to its last.

    Raises:
        ValueError: the launch has no such block, program or thread.
    """
    trace, launch, who = traced.trace, traced.trace.launches[0], traced.who
    size = f" of {launch.threads} threads" if launch.threads else ""
    if not 0 <= block < launch.blocks:
        more = " A smaller --block-size makes more of them, where the operator takes one." if who == "program" else ""
        raise ValueError(
            f"The launch has {_count(launch.blocks, who)}{size}, so there is no {who} {block}; they count from 0.{more}"
        )
    if launch.threads and not 0 <= thread < launch.threads:
        raise ValueError(
            f"The launch has {_count(launch.blocks, who)}{size}, so there is no thread {thread} of {who} {block}; "
            "both count from 0."
        )
    lines = [f"{traced.kernel}: {_count(launch.blocks, who)}{size}"]
    if len(trace.launches) > 1:
        lines[0] += f", the first of {len(trace.launches)} launches"
    if who == "block":
        return lines + trace.story(thread, block)
    return lines + program_story(trace, block, thread if launch.threads else None)


def judged(traced: Traced) -> list[str]:
    """What is wrong with any of the accesses, and what is right and slow; `no verdict` where nothing is."""
    lines = [f"verdict: {with_explanation(fault)}" for fault in traced.trace.faults()]
    lines = lines or ["no verdict: nothing is wrong"]
    return lines + [f"advice: {with_explanation(item)}" for item in traced.trace.advice()]


def program_story(trace: Trace, program: int, thread: int | None = None) -> list[str]:
    """One line for each load, store and atomic of a Triton program, or of one of its threads, in its order."""
    from kernels.figures.steps import block_steps

    verbs = {"read": "reads", "write": "writes", "atomic": "updates"}
    name = trace.launches[0].who(program, -1 if thread is None else thread)
    lines = [name]
    steps = block_steps(trace, program)
    for (line, kind, number), group in groupby(steps, key=lambda step: (step.line, step.kind, step.buffer)):
        buffer, on, off = trace.buffers[number], [], 0
        for step in group:  # several instructions where the compiler gave a thread several elements
            mine = np.ones(len(step.threads), bool) if thread is None else step.threads == thread
            width = max(1, step.size // buffer.itemsize)
            on += (step.elements[mine & step.active][:, None] + np.arange(width)).reshape(-1).tolist()
            off += int((mine & ~step.active).sum()) * width
        if on or off:
            words = f"{verbs[kind]} {_elements(buffer, on)}" if on else f"{verbs[kind]} nothing"
            masked = f"; {_count(off, 'element')} masked off" if off else ""
            lines.append(f"line {line}: {words}{masked}")
    return lines if len(lines) > 1 else [*lines, "touches no memory"]


def _elements(buffer: Buffer, elements: list[int]) -> str:
    """`x[0]–x[255]`, `x[268]–x[271] and x[780]–x[783]`; elements in more than three runs are counted."""
    found = np.unique(elements)
    runs = np.split(found, np.flatnonzero(np.diff(found) != 1) + 1)
    texts = [buffer.text(int(run[0])) + (f"–{buffer.text(int(run[-1]))}" if len(run) > 1 else "") for run in runs]
    if len(texts) > 3:
        return f"{len(found)} elements from {buffer.text(int(found[0]))} to {buffer.text(int(found[-1]))}"
    return " and ".join(filter(None, [", ".join(texts[:-1]), texts[-1]]))


def _count(number: int, word: str) -> str:
    return f"{number} {word}{'s' * (number != 1)}"
