"""Who owns which element: a strip for one dimension, a grid for two."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from kernels.figures import owner_tiles
from kernels.figures.html import (
    PALETTE,
    PHONE,
    escape,
    figure,
    fitting,
    hatching,
    number,
    owner_class,
    place,
    scroll,
    span,
    svg,
    text,
    unique_id,
)

NOBODY, MASKED = -1, -2
MOST_RUNS = (24, 8)  # of a longer strip, the first and the last so many
MOST_ROWS, MOST_COLUMNS = (16, 4), (32, 4)
LEFT, TOP, ROW, GAP = 58, 34, 22, 30  # pixels: where the boxes begin, a row's height, the width of what is left out


@dataclass(frozen=True)
class Run:
    """Neighbouring elements with one owner and one state: "owned", "masked", "nobody", "outside" or "several".

    `owners` are all owners of elements that have several; `owner` is then the highest.
    """

    first: int
    last: int
    owner: int
    state: str
    owners: tuple[int, ...] = ()

    @property
    def count(self) -> int:
        return self.last - self.first + 1

    def words(self, who: str) -> str:
        owner = f"{who} {self.owner}" if self.owner >= 0 else "nobody"
        return {
            "owned": owner,
            "masked": f"{owner}, masked off" if self.owner >= 0 else "masked off",
            "nobody": "nobody",
            "outside": f"{owner}, out of bounds",
            "several": f"{who}s {_listed(self.owners)}",
        }[self.state]


def _listed(owners: Sequence[int]) -> str:
    """`0 and 1`, `0, 1 and 5 more`."""
    if len(owners) < 4:
        return " and ".join(filter(None, [", ".join(map(str, owners[:-1])), *map(str, owners[-1:])]))
    return f"{owners[0]}, {owners[1]} and {len(owners) - 2} more"


def runs(
    owners: Sequence[int] | np.ndarray,
    masked: Mapping[int, int] | None = None,
    outside: Mapping[int, int] | None = None,
    everyone: Sequence[Sequence[int]] | None = None,
) -> list[Run]:
    """Elements in ascending order, neighbours with the same owner and state joined.

    `owners[i]` owns element i, -1 for nobody and -2 for an element that is masked off. `masked` and `outside` map
    further elements to owners: switched off by a mask, or touched out of bounds; they may lie beyond either end.
    `everyone[i]`, what `Trace.writers` returns, lists all owners of element i; an element with two or more says so.
    """
    owners = np.asarray(owners).reshape(-1)
    state = np.where(owners == MASKED, 1, np.where(owners < 0, 2, 0))
    owners = owners.copy()
    together = _together(owners, state, everyone)
    elements = [np.arange(len(owners)), np.where(owners < 0, -1, owners), state]
    parts = [np.stack(elements, axis=1)]
    for more, code in ((masked, 1), (outside, 3)):
        if more:
            keys = np.fromiter(more.keys(), np.int64, len(more))
            parts.append(np.stack([keys, np.fromiter(more.values(), np.int64, len(more)), np.full(len(keys), code)], 1))
    table = np.concatenate(parts).astype(np.int64)
    if len(parts) > 1:  # an owned element that somebody else masks off stays owned
        kind = np.where(table[:, 2] == 2, 9, table[:, 2])
        table = table[np.lexsort((kind, table[:, 0]))]
        table = table[np.unique(table[:, 0], return_index=True)[1]]
    if not len(table):
        return []
    step = np.diff(table, axis=0)
    edges = np.flatnonzero((step[:, 0] != 1) | (step[:, 1] != 0) | (step[:, 2] != 0)) + 1
    names = ("owned", "masked", "nobody", "outside")
    found = []
    for part in np.split(table, edges):
        first, owner, code = part[0].tolist()
        if code < len(names):
            found.append(Run(first, int(part[-1, 0]), owner, names[code]))
        else:
            found.append(Run(first, int(part[-1, 0]), owner, "several", together[code - len(names)]))
    return found


def _together(owners: np.ndarray, state: np.ndarray, everyone: Sequence[Sequence[int]] | None) -> list[tuple[int, ...]]:
    """The distinct lists of several owners; the state of their elements becomes 4 and upwards, in that order."""
    numbers: dict[tuple[int, ...], int] = {}
    if everyone is not None and len(everyone) != len(state):
        raise ValueError(f"there are {len(state)} elements, but the owners of {len(everyone)}")
    for i, people in enumerate(everyone or ()):
        if len(people) > 1:
            owners[i], state[i] = people[-1], 4 + numbers.setdefault(tuple(people), len(numbers))
    return list(numbers)


def ownership_strip(
    owners: Sequence[int] | np.ndarray,
    masked: Mapping[int, int] | None = None,
    label: str = "elements",
    who: str = "program",
    outside: Mapping[int, int] | None = None,
    everyone: Sequence[Sequence[int]] | None = None,
) -> str:
    """One row of elements, coloured by owner; runs of one owner are joined and say their range.

    `owners`, `masked`, `outside` and `everyone` as in `runs` (what `Trace.owners`, `.masked`, `.outside` and `.writers`
    return). `label` names the
    buffer, `who` the owners. Returns HTML: a list, so its text is its own alternative.
    """
    found = runs(owners, masked, outside, everyone)
    shown = _shorten(found, MOST_RUNS)
    even = len(found) > 6  # a list of equal boxes; fewer runs share one line, the longer ones wider
    single = even and all(run.count == 1 for run in found)
    items = []
    for run in shown:
        if isinstance(run, int):
            items.append(f'<li class="kl-run kl-run--gap">{number(run)} more runs</li>')
            continue
        width = min(8, 1 + int(math.log2(run.count)))
        colour = owner_class(run.owner) if run.owner >= 0 else "kl-none"
        many = "" if single else f" <small>{number(run.count)} element{'s' * (run.count != 1)}</small>"
        items.append(
            f'<li class="kl-run kl-run--{run.state} {colour} kl-w{width}"><b>{escape(run.words(who))}</b> '
            f"<span>{escape(label)}[{span(run.first, run.last)}]</span>{many}</li>"
        )
    if not items:
        items = ['<li class="kl-run kl-none">no element</li>']
    body = "\n".join(
        [f'<ol class="kl-strip{" kl-strip--even" * even}" aria-label="Owners of {escape(label)}">', *items, "</ol>"]
    )
    scale = len(found) > 1 and not even and max(r.count for r in found) > 4 * min(r.count for r in found)
    return figure(body, _caption(found, label, who) + (" Widths are not to scale." if scale else ""), "strip")


def _shorten(items: list, most: tuple[int, int]) -> list:
    """The first and last items, with the number left out between them."""
    head, tail = most
    if len(items) <= head + tail + 1:
        return items
    return [*items[:head], len(items) - head - tail, *items[-tail:]]


def _caption(found: Sequence[Run], label: str, who: str) -> str:
    owned = sum(run.count for run in found if run.state == "owned")
    owners = len({run.owner for run in found if run.state == "owned"})
    parts = [
        f"{label}: {number(owned)} element{'s' * (owned != 1)} owned by {number(owners)} {who}{'s' * (owners != 1)}"
    ]
    states = {
        "several": f"owned by several {who}s",
        "masked": "masked off",
        "nobody": "owned by nobody",
        "outside": "out of bounds",
    }
    for state, words in states.items():
        count = sum(run.count for run in found if run.state == state)
        if count:
            parts.append(f"{number(count)} {words}")
    return ", ".join(parts) + "." + (f" Colours repeat after {PALETTE} {who}s." if owners > PALETTE else "")


def ownership_grid(
    owners2d: Sequence[Sequence[int]] | np.ndarray,
    label: str = "elements",
    who: str = "program",
    rows: str = "row",
    columns: str = "column",
    everyone: Sequence[Sequence[int]] | None = None,
) -> str:
    """Rows and columns of elements, coloured by owner; -1 is nobody, -2 masked off.

    `everyone`, what `Trace.writers` returns, sets elements with several owners apart.
    Neighbours in a row with one owner share one box, with the owner's number where it fits. A large grid is drawn as
    tiles where every owner has one, side by side and one below the other; else its first and last rows and columns
    are. ValueError for anything that is not two-dimensional.
    """
    grid = np.asarray(owners2d)
    if grid.ndim != 2:
        raise ValueError(f"a grid of owners has 2 dimensions; this array has {grid.ndim}, shape {grid.shape}")
    height, width = grid.shape
    sheets = _Sheet(width, height), _Sheet(width, height, PHONE, f"{rows} {height}")
    if everyone is not None and len(everyone) != grid.size:
        raise ValueError(f"there are {grid.size} elements, but the owners of {len(everyone)}")
    large = None in sheets[0].across or None in sheets[0].down
    found = owner_tiles.tiles(grid) if large and everyone is None else []
    key = (label, who, grid.shape, grid.tobytes(), *([everyone] if everyone else []))
    pictures = []
    for sheet in sheets[: 1 if found else 2]:
        hatch = unique_id("hatch", *key, *([] if sheet is sheets[0] else ["phone"]))
        if found:
            *size, drawn = owner_tiles.picture(found, rows, columns, hatch)
            described = [tile.words(who, rows, columns) for tile in found]
            left_out = " Thin tiles are drawn larger than to scale." * owner_tiles.widened(found)
        else:
            described = _rows_drawn(sheet, grid, who, rows, everyone)
            size, drawn = sheet.size, [text(sheet.left, 12, f"{columns} →", "kl-t--soft"), *sheet.drawn(hatch)]
            skipped = f" {number(width - sum(MOST_COLUMNS))} {columns}s in the middle are not drawn."
            left_out = skipped * (None in sheet.across)
        words = "; ".join(described) or "no element"
        pictures.append((size[0], svg("grid", f"Owners of {label}", words, *size, [hatching(hatch), *drawn])))
    several = [i for i, people in enumerate(everyone or ()) if len(people) > 1]
    values, counts = np.unique(np.delete(grid.reshape(-1), several), return_counts=True)
    states = {NOBODY: "nobody", MASKED: "masked"}
    tally = [Run(0, n - 1, v, states.get(v, "owned")) for v, n in zip(values.tolist(), counts.tolist(), strict=True)]
    tally += [Run(0, len(several) - 1, 0, "several")] if several else []
    caption = _caption(tally, f"{label}, {number(height)} × {number(width)}", who)
    caption += left_out
    (size, wide), title = pictures[0], f"Owners of {label}"
    shown = scroll(title, wide) if found else fitting(title, wide, size, pictures[1][1])
    return figure(shown, caption, "grid")


def _rows_drawn(sheet: _Sheet, grid: np.ndarray, who: str, rows: str, everyone: Sequence | None) -> list[str]:
    """Puts the boxes of the rows that are shown on the sheet, and returns each row in words."""
    height, width = grid.shape
    described = []
    for row, y in zip(sheet.down, sheet.y, strict=True):
        if row is None:
            words = f"{number(height - sum(MOST_ROWS))} more {rows}s"
            sheet.soft.append((sheet.left, y + 11, f"⋮ {words}"))
            described.append(words)
            continue
        found = runs(grid[row], everyone=None if everyone is None else everyone[row * width : (row + 1) * width])
        for run in found:
            sheet.box(run, y)
        sheet.names.append((sheet.left - 6, y + 15, f"{rows} {row}"))
        words = [f"{span(run.first, run.last)} {run.words(who)}" for run in found]
        short = [w if isinstance(w, str) else f"{w} more runs" for w in _shorten(words, (8, 2))]
        described.append(f"{rows} {row}: {', '.join(short)}")
    return described


class _Sheet:
    """Where rows and columns lie, and what has been drawn; boxes of one class become one path."""

    def __init__(self, width: int, height: int, room: int = 0, longest: str = "") -> None:
        """`room` is how many pixels there are, 0 for as many as it takes, and `longest` a row's name."""
        self.cell: float = 22 if width <= 16 else 18
        self.left = 10 + 6 * len(longest) if room else LEFT
        self.across, self.down = _visible(width, MOST_COLUMNS), _visible(height, MOST_ROWS)
        gap = GAP if None in self.across else 0
        if room:
            cells = max(1, len(self.across) - (gap > 0))
            self.cell = min(self.cell, (room - self.left - gap - 2) / cells)
        self.tight = self.cell < 10  # pixels, so that numbers are small
        self.x, right = _places(self.across, self.cell, self.left)
        self.y, bottom = _places(self.down, ROW, TOP)
        self.size = max(right, self.left + 90) + (2 if room else 8), max(bottom, TOP + 20) + 2
        self.paths: dict[str, list[str]] = {}
        self.inside: list[tuple[float, float, object]] = []
        self.soft: list[tuple[float, float, object]] = []
        self.names: list[tuple[float, float, object]] = []

    def box(self, run: Run, y: float) -> None:
        """One box, or two where columns inside the run are left out."""
        shown = [i for i, c in enumerate(self.across) if c is not None and run.first <= c <= run.last]
        gap = self.across.index(None) if None in self.across else len(self.across)
        colour = owner_class(run.owner) if run.owner >= 0 else "kl-none"
        for part in ([i for i in shown if i < gap], [i for i in shown if i > gap]):
            if not part:
                continue
            x, width = self.x[part[0]], self.cell * len(part)
            wide = place(width - min(2.0, self.cell / 5))
            shape = f"M{place(x + 1)} {place(y + 1)}h{wide}v{ROW - 2}h-{wide}z"
            name = {"masked": "masked", "several": "kl-several"}.get(run.state, colour)
            self.paths.setdefault(name, []).append(shape)
            if (
                run.owner >= 0
                and run.state != "several"
                and width >= (5.8 if self.tight else 7) * len(str(run.owner)) + 4
            ):
                self.inside.append((x + width / 2, y + 15, run.owner))

    def drawn(self, hatch: str) -> list[str]:
        lines = []
        for name, shapes in sorted(self.paths.items()):
            fill = f'class="kl-masked" fill="url(#{hatch})"' if name == "masked" else f'class="kl-own {name}"'
            lines.append(f'<path {fill} d="{"".join(shapes)}"/>')
        most = self.size[0]
        numbers = [
            (min(self.x[i] + self.cell / 2, most - 3.7 * len(str(c))), TOP - 5, c)
            for i, c in enumerate(self.across)
            if self._numbered(i, c)
        ]
        gaps = [(x + GAP / 2, TOP - 5, "…") for x, c in zip(self.x, self.across, strict=True) if c is None]
        for name, words in (
            ("kl-t kl-t--small kl-t--m" if self.tight else "kl-t kl-t--m", self.inside),
            ("kl-t kl-t--soft kl-t--m", numbers + gaps),
            ("kl-t kl-t--soft kl-t--e", self.names),
            ("kl-t kl-t--soft", self.soft),
        ):
            if words:
                texts = [f'<text x="{place(x)}" y="{place(y)}">{escape(word)}</text>' for x, y, word in words]
                lines.append(f'<g class="{name}">' + "".join(texts) + "</g>")
        return lines

    def _numbered(self, i: int, column: int | None) -> bool:
        """Every column where there is room, else every eighth and the last."""
        if column is None:
            return False
        last = i == len(self.across) - 1
        if len(self.across) <= 16:
            return True
        return last or (column % 8 == 0 and (len(self.across) - 1 - i) * self.cell >= 26)


def _visible(size: int, most: tuple[int, int]) -> list[int | None]:
    """Which rows or columns are drawn; None stands for those left out."""
    head, tail = most
    if size <= head + tail + 1:
        return list(range(size))
    return [*range(head), None, *range(size - tail, size)]


def _places(shown: list[int | None], step: float, start: float) -> tuple[list[float], float]:
    """Where each begins, and where the last one ends."""
    places = []
    for item in shown:
        places.append(start)
        start += GAP if item is None else step
    return places, start
