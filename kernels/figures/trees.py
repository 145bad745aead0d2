"""A reduction, level by level: which partial result was made of which, and what rounding took from it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from kernels.figures.html import PHONE, figure, fitting, hatching, place, scroll, svg, text, unique_id

TALL, STEP, TOP = 24, 62, 30  # pixels: a box's height, from level to level, above the first
LEAST = 38  # pixels from lane to lane that a number needs
Node = tuple[float, Sequence[int], float]


class _Room(NamedTuple):
    """Pixels: a box's width, from lane to lane, left of the first lane; and whether levels are numbers alone."""

    box: float
    pitch: float
    left: float
    terse: bool = False


def reduction_tree(levels: Sequence[Sequence[Node]], values: int, caption: str = "", operation: str = "sum") -> str:
    """Lanes in the top row, the result in the last one; an SVG with its text alternative.

    `levels` holds (value, parents, lost) of every partial result. parents are places in the level above: none for a
    lane, one for what waits and is passed on, two for what was combined. lost is what rounding took away, 0 for
    nothing. The first `values` lanes hold values, the others padding. A partial result is drawn under its first parent,
    which is the lane that holds it. `operation` names what was done, for the text.

    Raises ValueError for parents that the level above does not have, and for a partial result that the next level uses
    several times or not at all: in a reduction each counts exactly once.
    """
    if not 0 <= values <= len(levels[0] if levels else ()):
        raise ValueError(
            f"{values} lanes are said to hold values; the tree has {len(levels[0] if levels else ())} lanes"
        )
    _require_once(levels)
    lanes, padding = list(range(len(levels[0]))), [set(range(values, len(levels[0])))]
    columns = [lanes]
    for level in levels[1:]:
        above, empty = columns[-1], padding[-1]
        columns.append([above[parents[0]] for _, parents, _ in level])
        padding.append({i for i, (_, parents, _) in enumerate(level) if empty.issuperset(parents)})
    title = caption or f"A {operation} of {values} values"
    room = _Room(62, 76, 66)
    pictures = [_picture(levels, columns, padding, title, room, operation)]
    if (pitch := (PHONE - 14) / len(lanes)) >= LEAST:
        pictures.append(_picture(levels, columns, padding, title, _Room(pitch - 3, pitch, 14, True), operation))
    if any(lost for level in levels for _, _, lost in level):
        caption = f"{caption}. In red: what rounding changed." if caption else "In red: what rounding changed."
    width = room.left + room.pitch * len(lanes)
    shown = fitting(title, pictures[0], width, pictures[1]) if pictures[1:] else scroll(title, pictures[0])
    return figure(shown, caption, "tree")


def _picture(levels, columns, padding, title: str, room: _Room, operation: str) -> str:
    box, pitch, left, terse = room
    top = TOP + 10 * terse
    hatch = unique_id("hatch", levels, padding[0], operation, room)
    edges, boxes, words, described = [], [], [], []
    for k, level in enumerate(levels):
        y = top + STEP * k
        name = f"level {k}" if k else "lanes"
        words.append(text(0, y + 16, (str(k) if k else "") if terse else name, "kl-t--soft"))
        said = []
        for i, (value, parents, lost) in enumerate(level):
            x = left + pitch * columns[k][i]
            for parent in parents:
                start, empty = left + pitch * columns[k - 1][parent] + box / 2, parent in padding[k - 1]
                bend = f"M{place(start)} {y - STEP + TALL}L{place(x + box / 2)} {y}"
                edges.append(f'<path class="{_line(empty)}" d="{bend}"/>')
            if len(parents) == 1:  # it only waits
                edges.append(f'<path class="{_line(i in padding[k])}" d="M{place(x + box / 2)} {y}v{TALL}"/>')
                continue
            last = k == len(levels) - 1
            fill = f'class="kl-masked" fill="url(#{hatch})"' if i in padding[k] else f'class="kl-own kl-c{int(last)}"'
            boxes.append(f'<rect {fill} x="{place(x)}" y="{y}" width="{place(box)}" height="{TALL}" rx="3"/>')
            said_short = short(value, 5 if terse else 7)
            style = ["kl-t--strong" * last, ("kl-t--small" if len(said_short) > 4 else "kl-t--less") * terse]
            words.append(text(x + box / 2, y + 16, said_short, " ".join(filter(None, style)), "m"))
            if lost:
                words.append(
                    text(x + box / 2 + 5, y + TALL + 13, change(lost, 1 if terse else 2), "kl-t--bad kl-t--small")
                )
            said.append(_said(i, columns[k], value, parents, columns[k - 1] if k else (), lost, i in padding[k]))
        described.append(f"{name}: {', '.join(said)}")
    marks = [text(left + pitch * lane + box / 2, top - 10, lane, "kl-t--soft", "m") for lane in columns[0]]
    if terse:
        marks.append(text(0, 11, "lanes →, levels ↓", "kl-t--soft"))
    size = left + pitch * len(columns[0]), top + STEP * (len(levels) - 1) + TALL + 22
    return svg("tree", title, "; ".join(described), *size, [hatching(hatch), *edges, *boxes, *marks, *words])


def short(value: float, most: int = 7) -> str:
    """At most seven characters: 5, 2.5, 1e8, −inf, nan; one digit less where `most` would not hold it."""
    words = f"{value:.4g}"
    words = words if len(words) <= most else f"{value:.3g}"
    return words.replace("e+0", "e").replace("e-0", "e−").replace("e+", "e").replace("-", "−")


def change(lost: float, digits: int = 2) -> str:
    """What rounding did to a number: −1, +7.5e−9."""
    return ("−" if lost > 0 else "+") + short(float(f"{abs(lost):.{digits}g}"))


def _require_once(levels: Sequence[Sequence[Node]]) -> None:
    for k, level in enumerate(levels[1:], 1):
        used = [parent for _, parents, _ in level for parent in parents]
        for parent in used:
            if not 0 <= parent < len(levels[k - 1]):
                raise ValueError(f"level {k} uses place {parent}; the level above has {len(levels[k - 1])} places")
        for i in range(len(levels[k - 1])):
            if used.count(i) != 1:
                raise ValueError(
                    f"place {i} of level {k - 1} is used {used.count(i)} times by the level below; expected once"
                )


def _line(empty: bool) -> str:
    return "kl-axisline" if empty else "kl-line kl-c0"


def _said(i, columns, value, parents, above, lost, empty) -> str:
    name = f"lane {columns[i]} holds {'padding ' if empty else ''}{short(value)}"
    if parents:
        name += f" from lanes {' and '.join(str(above[parent]) for parent in parents)}"
    return name + (f", rounding changed it by {change(lost)}" if lost else "")
