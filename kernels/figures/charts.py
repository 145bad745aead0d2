"""Plots of a few numbers: bars for values side by side, lines for a value over a size."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

from kernels.figures.html import PHONE, data_table, escape, figure, fitting, number, owner_class, place, scroll, svg

SHAPES = 4  # circle, square, triangle, diamond


class Room(NamedTuple):
    """Pixels of a plot, and around what is inside of its axes; `named`, whether lines have names at their ends."""

    width: int = 640
    height: int = 320
    left: int = 62
    right: int = 150
    top: int = 16
    bottom: int = 48
    named: bool = True

    @property
    def base(self) -> int:
        return self.height - self.bottom

    @property
    def inner(self) -> int:
        return self.width - self.left - self.right

    def x(self, axis: Axis, value: float) -> float:
        return self.left + self.inner * axis.at(value)

    def y(self, axis: Axis, value: float) -> float:
        return self.base - (self.base - self.top) * axis.at(value)


NEAR = Room(PHONE, 264, 44, 14, 28, 46, False)  # on a phone, where a legend below names the lines


class Axis:
    """Maps values to 0…1, linear from zero or logarithmic over whole decades."""

    def __init__(self, values: Sequence[float], log: bool, base: int = 10) -> None:
        values = [float(value) for value in values]
        for value in values:
            if not math.isfinite(value) or (log and value <= 0):
                kind = "a logarithmic axis shows finite values above 0" if log else "an axis shows finite values"
                raise ValueError(f"{kind}; one is {value}")
        self.log, self.base = log, base
        low, high = min(values, default=1.0), max(values, default=1.0)
        if log:
            self.low = math.floor(math.log(low, base) + 1e-9)
            self.high = max(self.low + 1, math.ceil(math.log(high, base) - 1e-9))
            step = max(1, math.ceil((self.high - self.low) / 6))
            self.high = self.low + step * math.ceil((self.high - self.low) / step)
            self.ticks = [float(base) ** power for power in range(self.low, self.high + 1, step)]
        else:
            low, high = min(low, 0.0), max(high, 0.0)
            step = _round_step((high - low) or 1.0)
            self.low, self.high = math.floor(low / step + 1e-9) * step, math.ceil(high / step - 1e-9) * step
            self.high = self.high if self.high > self.low else self.low + step
            self.ticks = [self.low + i * step for i in range(round((self.high - self.low) / step) + 1)]

    def at(self, value: float) -> float:
        if self.log:
            value = math.log(value, self.base)
        return (value - self.low) / (self.high - self.low)


def _round_step(extent: float) -> float:
    """A step of 1, 2, 2.5 or 5 times a power of ten that cuts the extent into at most five."""
    power = 10.0 ** math.floor(math.log10(extent / 5))
    return next(power * f for f in (1, 2, 2.5, 5, 10) if power * f * 5 >= extent * (1 - 1e-9))


def bar_chart(
    bars: Sequence[tuple[str, float | None]],
    unit: str,
    caption: str = "",
    log: bool = False,
    marked: Sequence[str] = (),
    heading: str = "implementation",
) -> str:
    """Horizontal bars, one a row, each with its name and value beside it.

    A value of None shows as `—`, without a bar. `log` draws over whole decades, so a bar's length says nothing about a
    ratio; the axis says that it is logarithmic. `marked` names bars that are set apart. It is a table: its text is its
    own alternative. ValueError for values an axis cannot show.
    """
    axis = Axis([value for _, value in bars if value is not None], log)
    grid = "".join(f"M{place(1000 * axis.at(tick))} 0v20" for tick in axis.ticks)
    ticks = "".join(f"<span>{words}</span>" for words in _ticks(axis))
    scale = f"{escape(unit)}, logarithmic" if log else escape(unit)
    lines = ['<table class="kl-bars">']
    if caption:
        lines.append(f"<caption><span>{escape(caption)}</span></caption>")
    lines += [
        f'<thead><tr><th scope="col">{escape(heading)}</th><th scope="col" class="kl-num">{scale}</th>'
        f'<td class="kl-axis" aria-hidden="true"><div>{ticks}</div></td></tr></thead>',
        "<tbody>",
    ]
    for name, value in bars:
        bar = ""
        if value is not None:
            start, end = sorted((axis.at(axis.ticks[0] if log else 0.0), axis.at(value)))
            x, width = place(1000 * start), place(1000 * (end - start))
            bar = f'<rect class="kl-bar" x="{x}" y="4" width="{width}" height="12"/>'
        chosen = ' class="kl-marked"' if name in marked else ""
        lines.append(
            f'<tr{chosen}><th scope="row">{escape(name)}</th><td class="kl-num">{number(value)}</td>'
            f'<td class="kl-bar-cell" aria-hidden="true"><svg viewBox="0 0 1000 20" preserveAspectRatio="none">'
            f'<path class="kl-gridline" d="{grid}"/>{bar}</svg></td></tr>'
        )
    if not bars:
        lines.append('<tr><td colspan="3">nothing to show</td></tr>')
    lines += ["</tbody>", "</table>"]
    return scroll(caption or f"{heading}, {unit}", "\n".join(lines))


_IMPLEMENTATIONS = {"ours": 0, "triton": 0, "torch": 1, "pytorch": 1, "torch.compile": 2, "cuda": 3, "eager": 4}


def _ticks(axis: Axis) -> list[str]:
    """The words of an axis's ticks: where one is below 1e-4, all below 1 have an exponent."""
    small = any(0 < abs(tick) < 1e-4 for tick in axis.ticks)
    return [f"{tick:.0e}" if small and 0 < abs(tick) < 1 else tick_text(tick, axis.base) for tick in axis.ticks]


def tick_text(value: float, base: int = 10) -> str:
    """Short: 1, 20, 0.5, 10k, 4M; powers of two in binary units, 4K, 1M."""
    if base == 2 and value >= 1024:
        power = min(3, int(math.log(value, 1024) + 1e-9))
        return f"{value / 1024**power:g}{'KMG'[power - 1]}"
    for limit, letter in ((1e9, "G"), (1e6, "M"), (1e4, "k")):
        if abs(value) >= limit:
            return f"{value / (1e3 if letter == 'k' else limit):g}{letter}"
    return f"{value:.6g}"


def line_chart(
    series: Mapping[str, Sequence[tuple[float, float | None]]],
    x_label: str,
    y_label: str,
    caption: str = "",
    log_x: bool = False,
    log_y: bool = False,
    log_base_x: int = 10,
) -> str:
    """Lines over a common x axis, each named at its end, or below where the page is narrow; the numbers follow as a
    table that opens.

    `series` maps a name to (x, y) points; a y of None leaves a gap. `log_base_x` is 2 for sizes that double.
    Lines differ in mark and dash as well as in colour; ours, PyTorch's, a compiled one and so on look alike in every
    plot (`numbered`). ValueError for values an axis cannot show, and for two points of a series at one x.
    """
    for name, points in series.items():
        xs = [x for x, _ in points]
        if twice := next((x for x in xs if xs.count(x) > 1), None):
            raise ValueError(f"{name!r} has two points at {number(twice)}; a line has one: make it two series")
    lines = {name: sorted((x, y) for x, y in points if y is not None) for name, points in series.items()}
    if not any(lines.values()):
        return figure('<p class="kl-empty">No point to show.</p>', caption, "lines")
    x_axis = Axis([x for points in lines.values() for x, _ in points], log_x, log_base_x)
    y_axis = Axis([y for points in lines.values() for _, y in points], log_y)
    words = tuple(f"{label}{' (logarithmic)' if log else ''}" for label, log in ((x_label, log_x), (y_label, log_y)))
    described = []
    for name, points in filter(lambda item: item[1], lines.items()):
        (x, y), (last_x, last_y) = points[0], points[-1]
        described.append(f"{name}: {number(y)} at {number(x)} to {number(last_y)} at {number(last_x)}")
    title = caption or f"{y_label} over {x_label}"
    wide, phone = (
        svg(
            "lines",
            title,
            "; ".join(described),
            room.width,
            room.height,
            _lines_drawn(lines, x_axis, y_axis, words, room),
        )
        for room in (Room(), NEAR)
    )
    key = legend([(name, _style(i), i) for name, i in numbered(lines).items() if lines[name]])
    shown = fitting(title, wide, Room().width, f"{phone}\n{key}")
    return figure(shown, caption, "lines", _numbers(series, x_label, y_label))


def numbered(names: Iterable[str]) -> dict[str, int]:
    """A number for each name of a plot, which chooses its colour, mark and dashes.

    An implementation has the same one in every plot: ours in Triton, PyTorch's call, `torch.compile`, ours in CUDA,
    eager mode. Beside these, other names begin after them; among themselves they are counted from 0.
    """
    names = list(names)
    known = [_IMPLEMENTATIONS.get(name.partition(",")[0].casefold()) for name in names]
    free = itertools.count(0 if known.count(None) == len(known) else 1 + max(_IMPLEMENTATIONS.values()))
    numbers: dict[str, int] = {}
    for name, own in zip(names, known, strict=True):
        numbers[name] = next(free) if own is None or own in numbers.values() else own
    return numbers


def _style(i: int) -> str:
    """Colour and dashes of a line. With its mark no two of sixteen are alike, even without colour."""
    return f"{owner_class(i)} kl-dash{(i + i // SHAPES) % SHAPES}"


def _lines_drawn(lines: Mapping[str, list], x_axis: Axis, y_axis: Axis, words: Sequence[str], room: Room) -> list[str]:
    body = frame(x_axis, y_axis, words, room)
    ends = {}
    numbers = numbered(lines)
    for name, points in lines.items():
        if not points:
            continue
        i = numbers[name]
        where = [(room.x(x_axis, x), room.y(y_axis, y)) for x, y in points]
        path = "M" + "L".join(f"{place(x)} {place(y)}" for x, y in where)
        marks = "".join(mark_path(i % SHAPES, x, y) for x, y in where)
        body += [
            f'<path class="kl-line {_style(i)}" d="{path}"/>',
            f'<path class="kl-point {owner_class(i)}" d="{marks}"/>',
        ]
        ends[name] = (where[-1][0], where[-1][1], i)
    return body + (end_names(ends, room) if room.named else [])


def frame(x_axis: Axis, y_axis: Axis, words: Sequence[str], room: Room) -> list[str]:
    """Axes, their ticks and grid, and the words of both; those of y stand above where there is no room to the left."""
    inner, base = room.inner, room.base
    rules = "".join(f"M{room.left} {place(room.y(y_axis, tick))}h{inner}" for tick in y_axis.ticks)
    body = [f'<path class="kl-gridline" d="{rules}"/>', f'<path class="kl-axisline" d="M{room.left} {base}h{inner}"/>']
    named = zip(x_axis.ticks, _ticks(x_axis), strict=True)
    ticks = [f'<text x="{place(room.x(x_axis, t))}" y="{base + 17}">{said}</text>' for t, said in named]
    body.append(f'<g class="kl-t kl-t--soft kl-t--m">{"".join(ticks)}</g>')
    named = zip(y_axis.ticks, _ticks(y_axis), strict=True)
    ticks = [f'<text x="{room.left - 8}" y="{place(room.y(y_axis, t) + 4)}">{said}</text>' for t, said in named]
    body.append(f'<g class="kl-t kl-t--soft kl-t--e">{"".join(ticks)}</g>')
    middle = f"{room.left + inner / 2:g}" if room.named else place(room.width / 2)
    body.append(f'<text class="kl-t kl-t--m" x="{middle}" y="{base + 38}">{escape(words[0])}</text>')
    where = f'x="4" y="{room.top - 15}"'
    if room.named:
        where = f'transform="translate(14 {room.top + (base - room.top) / 2:g}) rotate(-90)"'
    body.append(f'<text class="kl-t{" kl-t--m" * room.named}" {where}>{escape(words[1])}</text>')
    return body


def end_names(ends: Mapping[str, tuple[float, float, int]], room: Room) -> list[str]:
    """Names right of the plot, each with a thin line to its (x, y); the last number chooses the colour."""
    body = []
    for name, y in apart({name: end[1] for name, end in ends.items()}, 15, room.top + 4, room.base).items():
        (x, end_y, i), right = ends[name], room.left + room.inner
        body.append(f'<path class="kl-leader" d="M{place(x + 5)} {place(end_y)}L{right + 8} {place(y)}"/>')
        body.append(
            f'<text class="kl-t kl-end {owner_class(i)}" x="{right + 12}" y="{place(y + 4)}">{escape(name)}</text>'
        )
    return body


def legend(entries: Sequence[tuple[str, str, int]]) -> str:
    """A list of (name, classes of its line or "" for none, its number), each with its mark."""
    items = []
    for name, style, i in entries:
        line = f'<path class="kl-line {style}" d="M0 6h34"/>' * bool(style)
        width, mark = (34, mark_path(i % SHAPES, 17, 6)) if style else (14, mark_path(i % SHAPES, 7, 6))
        items.append(
            f'<li><svg class="kl-svg" width="{width}" height="12" viewBox="0 0 {width} 12" aria-hidden="true">{line}'
            f'<path class="kl-point {owner_class(i)}" d="{mark}"/></svg> {escape(name)}</li>'
        )
    return '<ul class="kl-legend">\n' + "\n".join(items) + "\n</ul>"


def _numbers(series: Mapping[str, Sequence[tuple[float, float | None]]], x_label: str, y_label: str) -> str:
    """The same points as a table."""
    xs = sorted({x for points in series.values() for x, _ in points})
    columns = [dict(points) for points in series.values()]
    rows = [(x, *(column.get(x) for column in columns)) for x in xs]
    table = data_table((x_label, *series), rows, f"{y_label} over {x_label}", numeric=range(len(series) + 1))
    return f'<details class="kl-data"><summary>The numbers</summary>\n{table}\n</details>'


def mark_path(shape: int, x: float, y: float) -> str:
    at = f"{place(x)} {place(y)}"
    return (
        f"M{place(x - 3.5)} {place(y)}a3.5 3.5 0 1 0 7 0a3.5 3.5 0 1 0-7 0z",
        f"M{place(x - 3)} {place(y - 3)}h6v6h-6z",
        f"M{place(x)} {place(y - 4)}l4 7h-8z",
        f"M{at}m0-4.5l4.5 4.5l-4.5 4.5l-4.5-4.5z",
    )[shape]


def apart(wanted: Mapping[str, float], distance: float, low: float, high: float) -> dict[str, float]:
    """Label positions near the wanted ones, at least `distance` apart, in the same order."""
    order = sorted(wanted, key=lambda name: (wanted[name], name))
    placed: dict[str, float] = {}
    at = low - distance
    for name in order:
        at = max(wanted[name], at + distance)
        placed[name] = at
    limit = high
    for name in reversed(order):
        placed[name] = min(placed[name], limit)
        limit = placed[name] - distance
    return placed
