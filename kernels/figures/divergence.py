"""A warp's divergence: its lanes across, its passes through the code downwards, and who takes part in each."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kernels.figures.html import escape, figure, number, place, scroll, svg, text
from kernels.figures.steps import Step, block_steps, has_threads, thread_count
from kernels.figures.warps import lane_words

if TYPE_CHECKING:
    from kernels.trace.model import Trace

LANES, MOST_PASSES = 32, 48
LEFT, TOP, ROW, PITCH = 190, 30, 20, 16
DOES = {"read": "reads", "write": "writes", "atomic": "updates", "barrier": "barrier", "exchange": "exchanges"}


def divergence_figure(
    trace: Trace, block: int = 0, warp: int = 0, *, launch: int = 0, line: int | None = None, caption: str = ""
) -> str:
    """Which lanes of one warp take part in each of its passes, in order; a pass is one step that any of them takes.

    `line` keeps the passes of one source line. Lanes of a pass that are off wait for the others, so the caption says
    how much of the passes is used. The first 48 passes are drawn. ValueError for a trace without threads, and where the
    block has no such warp.
    """
    if not has_threads(trace, launch):
        raise ValueError("this trace does not show threads, so it has no lanes to draw")
    threads = thread_count(trace, launch)
    if not 0 <= warp < -(-threads // LANES):
        raise ValueError(f"warp={warp}, but a block of {threads} threads has {-(-threads // LANES)}; they count from 0")
    whole = min(LANES, threads - warp * LANES)
    found = [
        (step, lanes)
        for step in block_steps(trace, block, launch)
        if (line is None or step.line == line) and (lanes := _lanes(step, warp))
    ]
    if not found:
        return figure('<p class="kl-empty">No access to show.</p>', caption, "divergence")
    shown = found[:MOST_PASSES]
    boxes: dict[str, list[str]] = {}
    names, facts = [], []
    for row, (step, lanes) in enumerate(shown):
        y = TOP + row * ROW
        what = _what(trace, step)
        names.append(f'<text x="{LEFT - 8}" y="{y + 14}">{escape(what)}</text>')
        facts.append(f"{what}: {lane_words(lanes)}")
        for lane in range(whole):
            name = "kl-lane" if lane in lanes else "kl-idle"
            x = place(LEFT + lane * PITCH + 1)
            boxes.setdefault(name, []).append(f"M{x} {y + 2}h{PITCH - 2}v{ROW - 4}h-{PITCH - 2}z")
    numbers = [
        f'<text x="{place(LEFT + (lane + 0.5) * PITCH)}" y="{TOP - 5}">{lane}</text>'
        for lane in range(whole)
        if lane % 4 == 0 or lane == whole - 1
    ]
    body = [
        text(LEFT, 11, "lane →", "kl-t--soft"),
        *(f'<path class="{name}" d="{"".join(shapes)}"/>' for name, shapes in sorted(boxes.items())),
        f'<g class="kl-t kl-t--soft kl-t--m">{"".join(numbers)}</g>',
        f'<g class="kl-t kl-t--small kl-t--e">{"".join(names)}</g>',
    ]
    passes = sum(step.times for step, _ in found)
    used, room = sum(step.times * len(lanes) for step, lanes in found), whole * passes
    words = (
        f"Block {block}, warp {warp}: {number(passes)} pass{'es' * (passes != 1)}, {number(used)} of "
        f"{number(room)} lane slots used ({number(100 * used / room)}%)."
    )
    if len(shown) < len(found):
        words += f" The first {MOST_PASSES} lines are drawn."
    picture = svg("divergence", words, "; ".join(facts), LEFT + whole * PITCH + 8, TOP + len(shown) * ROW + 4, body)
    return figure(scroll(words, picture), f"{caption} {words}".strip(), "divergence")


def _lanes(step: Step, warp: int) -> list[int]:
    here = step.threads[step.active & (step.threads // LANES == warp)]
    return sorted({int(thread) % LANES for thread in here})


def _what(trace: Trace, step: Step) -> str:
    buffer = f" {trace.buffers[step.buffer].name}" if step.buffer >= 0 else ""
    times = f" {step.times} times" if step.times > 1 else ""
    return f"line {step.line} {DOES[step.kind]}{buffer}{times}"
