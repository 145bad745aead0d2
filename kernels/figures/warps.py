"""What threads do: one thread's steps, a block's barriers, one warp's memory request."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING

from kernels.figures.html import (
    PHONE,
    Markup,
    data_table,
    escape,
    figure,
    fitting,
    number,
    place,
    span,
    svg,
    text,
)

if TYPE_CHECKING:
    from kernels.trace.cuda_result import Barrier
    from kernels.trace.model import Event
    from kernels.trace.requests import Request

MOST_STEPS = 60
LANES, SECTOR_BYTES = 32, 32
WIDE = 660  # pixels for the lanes and sectors of a request
MOST_INTERVALS = 6  # that fit side by side


def thread_table(events: Iterable[Event], caption: str = "") -> str:
    """The accesses of one thread or program in order: step, interval, line, what, element, bytes.

    `events` is a trace or a selection of one, such as `trace.select(block=0, thread=67)`. After sixty steps the table
    stops and says how many follow.
    """
    events = list(events)
    rows = [
        (step, event.interval, event.line, _verb(event), f"{event.buffer}[{event.element}]", event.size)
        for step, event in enumerate(events[:MOST_STEPS])
    ]
    if len(events) > MOST_STEPS:
        caption = f"{caption or 'Accesses'} (the first {MOST_STEPS} of {number(len(events))})"
    return data_table(("step", "interval", "line", "does", "element", "bytes"), rows, caption)


def _verb(event: Event) -> str:
    return event.what if event.active else f"{event.what}, masked off"


def timeline(
    cells: Sequence[Mapping[str, int]],
    caption: str = "",
    marks: Mapping[tuple[int, int], str] | None = None,
    barriers: Sequence[Barrier] = (),
    threads: int = 0,
) -> str:
    """A block's barriers: warps downwards, barrier intervals across, how many threads' reads and writes in each.

    `cells` is what `Trace.timeline` returns. `marks` adds a note to a (warp, interval), a race for instance.
    `barriers`, what `CudaTrace.barriers` returns, names the source line of each barrier; with `threads`, how many a
    block has, a barrier that not all of them reach says so.
    """
    if not cells:
        return figure('<p class="kl-empty">No access to show.</p>', caption, "timeline")
    by_place = {(cell["warp"], cell["interval"]): cell for cell in cells}
    warps = sorted({cell["warp"] for cell in cells})
    last = max(cell["interval"] for cell in cells)
    lines_of: dict[int, list[Barrier]] = {}
    for barrier in barriers:
        lines_of.setdefault(barrier.interval, []).append(barrier)
    heads = ['<th scope="col">warp</th>']
    for interval in range(last + 1):
        if interval:
            heads.append('<td class="kl-barrier" aria-hidden="true"></td>')
        when = "before barrier 1" if interval == 0 and last else f"after barrier {interval}" if interval else "all"
        heads.append(f'<th scope="col">{when}{_ended_by(lines_of.get(interval - 1, ()), threads)}</th>')
    lines = ['<table class="kl-table kl-timeline">']
    if caption:
        lines.append(f"<caption><span>{escape(caption)}</span></caption>")
    lines += [f"<thead><tr>{''.join(heads)}</tr></thead>", "<tbody>"]
    for warp in warps:
        row = [f'<th scope="row">{"threads" if warp < 0 else warp}</th>']
        for interval in range(last + 1):
            if interval:
                row.append('<td class="kl-barrier" aria-hidden="true"></td>')
            note = (marks or {}).get((warp, interval))
            row.append(f"<td>{_marks(by_place.get((warp, interval)), note)}</td>")
        lines.append(f"<tr>{''.join(row)}</tr>")
    lines += ["</tbody>", "</table>"]
    down = _downwards(by_place, warps, last, caption, marks or {}, lines_of, threads)
    if last >= MOST_INTERVALS:
        return down
    return fitting(caption or "barrier timeline", "\n".join(lines), 130 * (last + 1), down)


def _downwards(by_place, warps: Sequence[int], last: int, caption: str, marks, lines_of, threads: int) -> str:
    """A timeline with its intervals below each other; warps that do the same share a row."""
    rows, groups = [], []
    for interval in range(last + 1):
        alike: dict[Markup, list[int]] = {}
        for warp in warps:
            done = _marks(by_place.get((warp, interval)), marks.get((warp, interval)))
            alike.setdefault(done, []).append(warp)
        for done, who in alike.items():
            rows.append(("threads" if who[0] < 0 else _spans(who), done))
        when = "before barrier 1" if interval == 0 and last else f"after barrier {interval}" if interval else "all"
        heading = Markup(f"{when}{_ended_by(lines_of.get(interval - 1, ()), threads)}")
        groups.append((heading, len(alike)))
    table = data_table(("warps", "reads and writes"), rows, caption, groups, numeric=())
    return f'<div class="kl-timeline--down">\n{table}\n</div>'


def _ended_by(barriers: Sequence[Barrier], threads: int) -> str:
    """The lines of the barrier in front of an interval, and who is missing there."""
    words = []
    for barrier in barriers:
        short = threads and barrier.threads < threads
        words.append(f"line {barrier.line}{f', {barrier.threads} of {threads} threads' if short else ''}")
    return f" <small>{'; '.join(words)}</small>" if words else ""


def _marks(cell: Mapping[str, int] | None, note: str | None) -> Markup:
    parts = []
    for kind in ("writes", "reads", "atomics"):
        count = cell[kind] if cell else 0
        if count:
            words = f"{number(count)} {kind.removesuffix('s') if count == 1 else kind}"
            parts.append(f'<span class="kl-mark kl-mark--{kind}">{words}</span>')
    if note:
        parts.append(f'<strong class="kl-mark kl-mark--bad">{escape(note)}</strong>')
    return Markup(" ".join(parts) or '<span class="kl-mark--none">·</span>')


def request_figure(request: Request, caption: str = "") -> str:
    """One warp's request: the 32 lanes above, the 32-byte sectors they touch below, a line from each to each.

    The dark part of a sector is what was asked for. ValueError for a request that does not belong to a warp (a Triton
    trace does not know how the compiler splits a load over warps).
    """
    require_warp(request)
    sectors = request.sectors
    first = sectors[0] if sectors else 0
    active = dict(zip(request.lanes, request.addresses, strict=True))
    groups: dict[tuple[int, ...], list[int]] = {}
    for lane, address in active.items():
        touched = range(address // SECTOR_BYTES, (address + request.size - 1) // SECTOR_BYTES + 1)
        groups.setdefault(tuple(sector - first for sector in touched), []).append(lane)
    described = "; ".join(
        f"{lane_words(lanes)} → sector{'s' * (len(touched) > 1)} {' and '.join(map(str, touched))}"
        for touched, lanes in groups.items()
    )
    moved = f"{number(request.useful_bytes)} of {number(request.sector_bytes)} bytes moved are used"
    words = (
        f"Block {request.block}, warp {request.warp}: {len(active)} lane{'s' * (len(active) != 1)} "
        f"{request.what} {request.size} bytes each of {request.buffer} in {len(sectors)} "
        f"sector{'s' * (len(sectors) != 1)}; {moved} ({number(100 * request.efficiency)}%)."
    )
    wide, phone = (
        svg("request", words, described or "no lane", *_request(request, room)) for room in (WIDE, PHONE - 8)
    )
    return figure(fitting(words, wide, WIDE + 8, phone), caption or words, "request")


def _request(request: Request, room: float) -> tuple[float, float, list[str]]:
    """Width, height and drawing of a request, where lanes and sectors have so many pixels."""
    sectors = request.sectors
    step, pitch = min(20.0, room / LANES), min(room / 8, room / max(1, len(sectors)))
    box, gap, left, lane_y, sector_y = step * 0.8, min(4.0, pitch / 5), 4, 30, 124
    total = max(LANES * step, len(sectors) * pitch)
    lane_left, sector_left = left + (total - LANES * step) / 2, left + (total - len(sectors) * pitch) / 2
    sector_x = {sector: sector_left + i * pitch + gap / 2 for i, sector in enumerate(sectors)}
    sector_width = pitch - gap
    active = dict(zip(request.lanes, request.addresses, strict=True))
    boxes, idle, lines, asked, numbers = [], [], [], [], []
    for lane in range(LANES):
        x = lane_left + lane * step + (step - box) / 2
        shape = f"M{place(x)} {lane_y}h{place(box)}v{place(box)}h-{place(box)}z"
        (boxes if lane in active else idle).append(shape)
        numbers.append(
            f'<text x="{place(x + box / 2)}" y="{lane_y - 6}">{lane}</text>' if lane % 4 == 0 or lane == 31 else ""
        )
    for lane, address in active.items():
        x = lane_left + (lane + 0.5) * step
        for sector in range(address // SECTOR_BYTES, (address + request.size - 1) // SECTOR_BYTES + 1):
            begin = max(address, sector * SECTOR_BYTES) - sector * SECTOR_BYTES
            end = min(address + request.size, (sector + 1) * SECTOR_BYTES) - sector * SECTOR_BYTES
            at = sector_x[sector] + begin / SECTOR_BYTES * sector_width
            wide = (end - begin) / SECTOR_BYTES * sector_width
            asked.append(f"M{place(at)} {sector_y}h{place(wide)}v22h-{place(wide)}z")
            lines.append(f"M{place(x)} {place(lane_y + box)}L{place(at + wide / 2)} {sector_y}")
    frames = [f"M{place(x)} {sector_y}h{place(sector_width)}v22h-{place(sector_width)}z" for x in sector_x.values()]
    every = next(n for n in (1, 4, 8, 16) if n * pitch >= 26 or n == 16)
    labels = [
        f'<text x="{place(x + sector_width / 2)}" y="{sector_y + 38}">{sector - sectors[0]}</text>'
        for i, (sector, x) in enumerate(sector_x.items())
        if i % every == 0
    ]
    body = [
        text(left, 11, "lanes", "kl-t--soft"),
        f'<path class="kl-wire" d="{"".join(lines)}"/>',
        f'<path class="kl-lane" d="{"".join(boxes)}"/>',
        f'<path class="kl-idle" d="{"".join(idle)}"/>' if idle else "",
        f'<g class="kl-t kl-t--soft kl-t--m">{"".join(numbers)}</g>',
        f'<path class="kl-asked" d="{"".join(dict.fromkeys(asked))}"/>',
        f'<path class="kl-sector" d="{"".join(frames)}"/>',
        text(left, sector_y + 58, "sectors of 32 bytes, numbered from the first one touched", "kl-t--soft"),
        f'<g class="kl-t kl-t--soft kl-t--m">{"".join(labels)}</g>',
    ]
    return total + 2 * left, sector_y + 64, [part for part in body if part]


def require_warp(request: Request) -> None:
    """ValueError for a request that is not one warp's: of a trace that does not know its threads."""
    if request.warp < 0 or max(request.lanes, default=0) >= LANES:
        raise ValueError(
            f"this request is {len(request.lanes)} elements of a whole program, not the lanes of a warp; "
            "a lane diagram needs a trace that shows threads"
        )


def lane_words(lanes: Sequence[int]) -> str:
    """`lanes 0–7`, `lane 3`, `lanes 0, 4, 8`."""
    return f"lane{'s' * (len(lanes) > 1)} {_spans(lanes)}"


def _spans(numbers: Sequence[int]) -> str:
    """`0–7`, `0, 4, 8`."""
    numbers = sorted(numbers)
    parts, start = [], numbers[0]
    for i, each in enumerate(numbers):
        if i + 1 == len(numbers) or numbers[i + 1] != each + 1:
            parts.append(span(start, each))
            start = numbers[i + 1] if i + 1 < len(numbers) else each
    return ", ".join(parts)
