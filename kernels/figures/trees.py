"""A reduction, level by level: which partial result was made of which, and what rounding took from it."""

from __future__ import annotations

from collections.abc import Sequence

from kernels.figures.html import figure, place, scroll, svg, text, unique_id

BOX, WIDE, TALL, STEP = 62, 76, 24, 62  # pixels: a box, from lane to lane, a box's height, from level to level
LEFT, TOP = 66, 30
Node = tuple[float, Sequence[int], float]


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
    width, height = LEFT + WIDE * len(lanes), TOP + STEP * (len(levels) - 1) + TALL + 22
    hatch = unique_id("hatch", levels, values, operation)
    edges, boxes, words, described = [], [], [], []
    for k, level in enumerate(levels):
        y = TOP + STEP * k
        words.append(text(0, y + 16, f"level {k}" if k else "lanes", "kl-t--soft"))
        said = []
        for i, (value, parents, lost) in enumerate(level):
            x = LEFT + WIDE * columns[k][i]
            edges += [_edge(LEFT + WIDE * columns[k - 1][parent], x, y, parent in padding[k - 1]) for parent in parents]
            if len(parents) == 1:  # it only waits
                edges.append(f'<path class="{_line(i in padding[k])}" d="M{place(x + BOX / 2)} {y}v{TALL}"/>')
                continue
            last = k == len(levels) - 1
            boxes.append(_box(x, y, i in padding[k], last, hatch))
            words.append(text(x + BOX / 2, y + 16, short(value), "kl-t--strong" if last else "", "m"))
            if lost:
                words.append(text(x + BOX / 2 + 5, y + TALL + 13, change(lost), "kl-t--bad kl-t--small"))
            said.append(_said(i, columns[k], value, parents, columns[k - 1] if k else (), lost, i in padding[k]))
        described.append(f"{f'level {k}' if k else 'lanes'}: {', '.join(said)}")
    marks = [text(LEFT + WIDE * lane + BOX / 2, TOP - 10, lane, "kl-t--soft", "m") for lane in lanes]
    pattern = (
        f'<defs><pattern id="{hatch}" width="6" height="6" patternUnits="userSpaceOnUse" '
        'patternTransform="rotate(45)"><rect class="kl-hatch-back" width="6" height="6"/>'
        '<rect class="kl-hatch-line" width="2" height="6"/></pattern></defs>'
    )
    title = caption or f"A {operation} of {values} values"
    body = [pattern, *edges, *boxes, *marks, *words]
    picture = svg("tree", title, "; ".join(described), width, height, body)
    if any(lost for level in levels for _, _, lost in level):
        caption = f"{caption}. In red: what rounding changed." if caption else "In red: what rounding changed."
    return figure(scroll(title, picture), caption, "tree")


def short(value: float) -> str:
    """At most seven characters: 5, 2.5, 1e+08, −inf, nan."""
    words = f"{value:.4g}"
    return words.replace("e+0", "e").replace("e-0", "e−").replace("e+", "e").replace("-", "−")


def change(lost: float) -> str:
    """What rounding did to a number, with two digits: −1, +7.5e−9."""
    return ("−" if lost > 0 else "+") + short(float(f"{abs(lost):.2g}"))


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


def _edge(start: float, end: float, y: float, empty: bool) -> str:
    above = y - STEP + TALL
    return f'<path class="{_line(empty)}" d="M{place(start + BOX / 2)} {above}L{place(end + BOX / 2)} {y}"/>'


def _line(empty: bool) -> str:
    return "kl-axisline" if empty else "kl-line kl-c0"


def _box(x: float, y: float, empty: bool, last: bool, hatch: str) -> str:
    fill = f'class="kl-masked" fill="url(#{hatch})"' if empty else f'class="kl-own kl-c{int(last)}"'
    return f'<rect {fill} x="{place(x)}" y="{y}" width="{BOX}" height="{TALL}" rx="3"/>'


def _said(i, columns, value, parents, above, lost, empty) -> str:
    name = f"lane {columns[i]} holds {'padding ' if empty else ''}{short(value)}"
    if parents:
        name += f" from lanes {' and '.join(str(above[parent]) for parent in parents)}"
    return name + (f", rounding changed it by {change(lost)}" if lost else "")
