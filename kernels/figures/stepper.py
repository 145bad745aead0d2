"""The stepper: a block's accesses one step after the other, for a reader who moves a thread and a step.

What stands in the page is a table of all steps, the source, and the same steps as JSON. `docs/assets/stepper.js` makes
sliders and a picture of them; without it the table stays, and nothing is lost.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING

from kernels.figures.html import Markup, data_table, escape, figure, number, span
from kernels.figures.steps import KINDS, Part, Step, block_steps, has_threads, parts, thread_count

if TYPE_CHECKING:
    from kernels.trace.model import Buffer, Trace

MOST_BYTES = 60_000
MOST_PROGRAMS = 64
CONTEXT = 2  # source lines shown around one that does something
DOES = {"read": "reads", "write": "writes", "atomic": "updates", "barrier": "waits", "exchange": "exchanges"}


def stepper(
    trace: Trace,
    block: int | Sequence[int] | None = None,
    *,
    launch: int = 0,
    thread: int = 0,
    step: int = 0,
    source: str = "",
    buffers: Sequence[str] | None = None,
    caption: str = "",
    plain: bool = False,
) -> str:
    """One launch's accesses, to be walked through by thread, warp and step; HTML of at most 60 KB.

    block: the block (or Triton program), or several; left out, it is block 0, or every program (64 at most) of a trace
        that knows no threads.
    thread, step: where the reader begins; both count from 0.
    source: the text of the file that the kernel stands in; the figure cuts out the lines that do something.
    buffers: the buffers to draw, in this order; left out, all that are touched. Steps on others are still told.

    plain: for readers who have just come: who touches what, and no word of sectors or of kinds of memory. The buttons
        alone go from step to step.

    Steps that do not fit into 60 KB are left out from the end, programs first, and the caption says so.
    ValueError where the launch has no such block, thread or step, or where not even one step fits; KeyError for an
    unknown buffer.
    """
    if not trace.launches:
        return figure('<p class="kl-empty">No access to show.</p>', caption, "stepper")
    run, threads = trace.launches[launch], thread_count(trace, launch) if has_threads(trace, launch) else 0
    who = "program" if run.language == "triton" else "block"
    chosen = _blocks(block, run.blocks, threads, who)
    steps = {number: block_steps(trace, number, launch) for number in chosen}
    if not any(steps.values()):
        return figure('<p class="kl-empty">No access to show.</p>', caption, "stepper")
    longest = max(map(len, steps.values()))
    if not 0 <= thread < max(1, threads):
        raise ValueError(f"thread={thread}, but a block has {threads or 'no'} threads; they count from 0")
    if not 0 <= step < longest:
        raise ValueError(f"step={step}, but there are {longest} steps; they count from 0")
    drawn = [trace.buffer_number(name) for name in buffers] if buffers is not None else None
    packed = {number: [_packed(each) for each in found] for number, found in steps.items()}

    def draw(programs: int, most: int) -> str:
        cut = {number: found[:most] for number, found in list(packed.items())[:programs]}
        more = _left_out(who, run.blocks, list(cut), most, longest, several=len(chosen) > 1)
        start = {"start": {"thread": thread, "step": min(step, most - 1)}} | ({"plain": True} if plain else {})
        return _figure(trace, launch, threads, cut, drawn, start, source, f"{caption} {more}".strip())

    return _fitted(draw, len(packed), longest)


def _blocks(block: int | Sequence[int] | None, count: int, threads: int, who: str) -> list[int]:
    if block is None:
        return [0] if threads else list(range(min(count, MOST_PROGRAMS)))
    chosen = [block] if isinstance(block, int) else list(block)
    for number_ in chosen:
        if not 0 <= number_ < count:
            some = who if count == 1 else f"{who}s"
            raise ValueError(f"the launch has {count} {some}, so there is no {who} {number_}; they count from 0")
    if not chosen:
        raise ValueError(f"no {who} was chosen; give one number or several")
    return chosen


def _fitted(draw: Callable[[int, int], str], programs: int, steps: int) -> str:
    """The most that fits: every program and step, else fewer programs, else one with fewer steps."""

    def size(html: str) -> int:
        return len(html.encode())

    html = draw(programs, steps)
    if size(html) <= MOST_BYTES:
        return html
    low, high = 1, programs  # `low` is not known to fit, `high` is known not to
    best = draw(1, steps)
    if size(best) <= MOST_BYTES:
        while high - low > 1:
            middle = (low + high) // 2
            html = draw(middle, steps)
            low, high, best = (middle, high, html) if size(html) <= MOST_BYTES else (low, middle, best)
        return best
    best, low, high = "", 0, steps
    while high - low > 1:
        middle = (low + high) // 2
        html = draw(1, middle)
        low, high, best = (middle, high, html) if size(html) <= MOST_BYTES else (low, middle, best)
    if not best:
        raise ValueError(
            f"the first step alone needs {number(size(draw(1, 1)))} bytes, and a stepper may have "
            f"{number(MOST_BYTES)}; trace a smaller launch, or give less source"
        )
    return best


def _left_out(who: str, blocks: int, shown: list[int], most: int, longest: int, several: bool) -> str:
    words = []
    if several and len(shown) < blocks:
        in_a_row = shown == list(range(shown[0], shown[-1] + 1))
        which = span(shown[0], shown[-1]) if in_a_row else ", ".join(map(str, shown))
        words.append(f"{who}{'s' * (len(shown) > 1)} {which} of {number(blocks)}")
    if most < longest:
        words.append(f"the first {number(most)} of {number(longest)} steps")
    return f"Shown: {' and '.join(words)}." if words else ""


Packed = tuple[Step, list[Part], list[Part]]


def _packed(step: Step) -> Packed:
    """The step with its touched and its masked-off elements in parts."""
    on = step.active
    return step, parts(step.threads[on], step.elements[on]), parts(step.threads[~on], step.elements[~on])


def _figure(
    trace: Trace,
    launch: int,
    threads: int,
    packed: dict[int, list[Packed]],
    drawn: list[int] | None,
    start: dict[str, object],
    source: str,
    caption: str,
) -> str:
    run = trace.launches[launch]
    steps = [step for found in packed.values() for step, _, _ in found]
    touched = sorted({step.buffer for step in steps if step.buffer >= 0})
    drawn = touched if drawn is None else drawn
    used = list(dict.fromkeys([*drawn, *touched]))
    place = {number_: i for i, number_ in enumerate(used)}
    data = {
        "kernel": run.kernel,
        "who": "program" if run.language == "triton" else "block",
        "threads": threads,
        **start,
        "drawn": len(drawn),
        "buffers": [_described(trace.buffers[i]) for i in used],
        "blocks": [
            {
                "number": number_,
                "name": run.who(number_),
                "steps": [
                    [
                        step.line, KINDS.index(step.kind), place.get(step.buffer, -1), step.size, step.interval,
                        step.times, [p.numbers() for p in on], [p.numbers() for p in off],
                    ]
                    for step, on, off in found
                ],
            }
            for number_, found in packed.items()
        ],
    }  # fmt: skip
    table = _table(trace, run.who, threads, packed, caption or run.kernel)
    inner = "\n".join(
        part
        for part in (
            f'<div class="kl-stepper__table">\n{table}\n</div>',
            _source(source, {step.line for step in steps}, run.kernel),
            f"<div class=\"kl-stepper__data\" hidden data-steps='{_json(data)}'></div>",
        )
        if part
    )
    return figure(inner, caption, "stepper")


def _described(buffer: Buffer) -> dict[str, object]:
    return {
        "name": buffer.name,
        "shape": list(buffer.shape),
        "strides": list(buffer.strides),
        "item": buffer.itemsize,
        "address": buffer.address % 128,  # sectors and banks depend on no more, and compilers place arrays differently
        "space": buffer.space,
        "type": buffer.dtype,
    }


def _json(data: object) -> str:
    """JSON for an attribute in single quotes: no `<`, `>`, `&` or `'` is in it, so no parser of HTML can leave early.

    It is an attribute because the theme's instant navigation runs every script element anew, data or not.
    """
    text = json.dumps(data, separators=(",", ":"), ensure_ascii=True)
    return text.replace("&", "\\u0026").replace("<", "\\u003c").replace(">", "\\u003e").replace("'", "\\u0027")


def _table(
    trace: Trace, name: Callable[[int], str], threads: int, packed: dict[int, list[Packed]], caption: str
) -> str:
    who = "thread" if threads else "element"
    rows, groups = [], []
    for number_, found in packed.items():
        groups.append((name(number_), len(found)))
        for i, (step, on, off) in enumerate(found):
            buffer = trace.buffers[step.buffer] if step.buffer >= 0 else None
            rows.append((str(i + 1), str(step.interval), str(step.line), _does(step), _cells(on, off, buffer, who)))
    headers = ("step", "interval", "line", "does", "threads and elements" if threads else "elements")
    return data_table(headers, rows, f"{caption.rstrip('.')}: every step", groups, numeric=range(3))


def _does(step: Step) -> str:
    if step.kind == "barrier":
        return "waits at the barrier"
    if step.kind == "exchange":
        return f"{step.times} warp operation{'s' * (step.times > 1)}"
    return DOES[step.kind] + (f", {step.size} bytes each" if step.size > 8 else "")


def _cells(on: Iterable[Part], off: Iterable[Part], buffer: Buffer | None, who: str) -> Markup:
    words = [escape(_part_words(part, buffer, who)) for part in on]
    words += [f"masked off: {escape(_part_words(part, buffer, who))}" for part in off]
    return Markup("<br>".join(words))


def _part_words(part: Part, buffer: Buffer | None, who: str) -> str:
    words = part.words(buffer, who)
    return words if who == "thread" else words.partition(" → ")[2]


def _source(source: str, lines: set[int], kernel: str) -> str:
    """The lines that do something with a few around them; what is left out between them is a line of its own."""
    text = source.splitlines()
    near = {n for at in lines for n in range(at - CONTEXT, at + CONTEXT + 1) if 1 <= n <= len(text)}
    for n in [*sorted(near), *sorted(near, reverse=True)]:  # no group of lines begins or ends with an empty one
        if n in near and n not in lines and not text[n - 1].strip() and not {n - 1, n + 1} <= near:
            near.remove(n)
    wanted = sorted(near)
    if not wanted:
        return ""
    shown, last = [], wanted[0] - 1
    for at in wanted:
        if at > last + 1:
            shown.append('<span class="kl-stepper__gap">⋮</span>')
        words = _source_line(text[at - 1])
        shown.append(f'<span data-line="{at}">{words}</span>')
        last = at
    body = "\n".join(shown)
    return (
        f'<pre class="kl-stepper__source" tabindex="0" role="region" aria-label="Source of {escape(kernel)}">'
        f"<code>{body}</code></pre>"
    )


def _source_line(line: str) -> str:
    """A source line as text between tags, its indentation kept."""
    return line.expandtabs(4).rstrip().replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")
