"""A warp's divergence: its lanes across, its passes through the code downwards, and who takes part in each."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kernels.figures.html import escape, figure, fitting, number, place, svg, text
from kernels.figures.steps import Step, block_steps, has_threads, thread_count
from kernels.figures.warps import lane_words

if TYPE_CHECKING:
    from kernels.trace.model import Trace

LANES, MOST_PASSES = 32, 48
LEFT, TOP, ROW, PITCH = 190, 30, 20, 16
NEAR_ROW, NEAR_PITCH = 34, 10  # on a phone, where a pass's name stands above its lanes
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
    passes = sum(step.times for step, _ in found)
    used, room = sum(step.times * len(lanes) for step, lanes in found), whole * passes
    words = (
        f"Block {block}, warp {warp}: {number(passes)} pass{'es' * (passes != 1)}, {number(used)} of "
        f"{number(room)} lane slots used ({number(100 * used / room)}%)."
    )
    if len(shown) < len(found):
        words += f" The first {MOST_PASSES} lines are drawn."
    named = [(_what(trace, step), lanes) for step, lanes in shown]
    facts = "; ".join(f"{what}: {lane_words(lanes)}" for what, lanes in named)
    wide = svg("divergence", words, facts, *_picture(named, whole, LEFT, ROW, PITCH))
    phone = svg("divergence", words, facts, *_picture(named, whole, 4, NEAR_ROW, NEAR_PITCH))
    shown = fitting(words, wide, LEFT + whole * PITCH + 8, phone)
    return figure(shown, f"{caption} {words}".strip(), "divergence")


def _picture(named: list, whole: int, left: int, row: int, pitch: int) -> tuple[float, float, list[str]]:
    """Width, height and drawing; the names of passes stand above their lanes where there is no room to the left."""
    boxes: dict[str, list[str]] = {}
    names, above = [], row - ROW
    for i, (what, lanes) in enumerate(named):
        y = TOP + i * row + above
        at = f'x="4" y="{y - 2}"' if above else f'x="{left - 8}" y="{y + 14}"'
        names.append(f"<text {at}>{escape(what)}</text>")
        for lane in range(whole):
            name = "kl-lane" if lane in lanes else "kl-idle"
            x = place(left + lane * pitch + 1)
            boxes.setdefault(name, []).append(f"M{x} {y + 2}h{pitch - 2}v{ROW - 4}h-{pitch - 2}z")
    numbers = [
        f'<text x="{place(left + (lane + 0.5) * pitch)}" y="{TOP - 5}">{lane}</text>'
        for lane in range(whole)
        if lane % 4 == 0 or lane == whole - 1
    ]
    body = [
        text(left, 11, "lane →", "kl-t--soft"),
        *(f'<path class="{name}" d="{"".join(shapes)}"/>' for name, shapes in sorted(boxes.items())),
        f'<g class="kl-t kl-t--soft kl-t--m">{"".join(numbers)}</g>',
        f'<g class="kl-t kl-t--small{"" if above else " kl-t--e"}">{"".join(names)}</g>',
    ]
    return left + whole * pitch + 8, TOP + len(named) * row + 4, body


def _lanes(step: Step, warp: int) -> list[int]:
    here = step.threads[step.active & (step.threads // LANES == warp)]
    return sorted({int(thread) % LANES for thread in here})


def _what(trace: Trace, step: Step) -> str:
    buffer = f" {trace.buffers[step.buffer].name}" if step.buffer >= 0 else ""
    times = f" {step.times} times" if step.times > 1 else ""
    return f"line {step.line} {DOES[step.kind]}{buffer}{times}"
