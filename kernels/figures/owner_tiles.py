"""Tiles of a matrix, each with its owner: drawn where a picture of every element would have to leave some out."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise

import numpy as np

from kernels.figures.html import escape, number, owner_class, place, span, text

WIDTH, MOST_HEIGHT = 250, 400  # pixels for all columns, which a phone shows at once, and for all rows
LEAST = 22  # pixels a side of a tile
MOST_BANDS = (16, 12)  # of rows, of columns
LEFT, TOP = 60, 34
MASKED = -2


@dataclass(frozen=True)
class Tile:
    """Rows and columns as (first, last); the owner, or -1 for nobody, -2 for masked off."""

    rows: tuple[int, int]
    columns: tuple[int, int]
    owner: int

    def words(self, who: str, rows: str, columns: str) -> str:
        owner = f"{who} {self.owner}" if self.owner >= 0 else "masked off" if self.owner == MASKED else "nobody"
        sides = (rows, self.rows), (columns, self.columns)
        places = [f"{name}{'s' * (low < high)} {span(low, high)}" for name, (low, high) in sides]
        return f"{owner}: {', '.join(places)}"


def tiles(grid: np.ndarray) -> list[Tile]:
    """The tiles of a matrix of owners, if each owner has one and they lie in rows and columns; else none."""
    down, across = _bands(grid), _bands(grid.T)
    if not (1 < len(down) <= MOST_BANDS[0] and 1 < len(across) <= MOST_BANDS[1]):
        return []
    found = [Tile(rows, columns, int(grid[rows[0], columns[0]])) for rows in down for columns in across]
    owners = [tile.owner for tile in found if tile.owner >= 0]
    return found if owners and len(owners) == len(set(owners)) else []


def _bands(grid: np.ndarray) -> list[tuple[int, int]]:
    """Neighbouring rows that are alike, as (first, last)."""
    starts = [0, *(np.flatnonzero((grid[1:] != grid[:-1]).any(axis=1)) + 1).tolist(), len(grid)]
    return [(first, after - 1) for first, after in pairwise(starts)]


def _scales(found: list[Tile]) -> tuple[float, float]:
    """Pixels an element, across and down."""
    across = WIDTH / (1 + max(tile.columns[1] for tile in found))
    return across, min(across, MOST_HEIGHT / (1 + max(tile.rows[1] for tile in found)))


def widened(found: list[Tile]) -> bool:
    """Whether a tile is drawn larger than the others, for the sake of its number."""
    across, down = _scales(found)
    thin = [min(np.ptp(tile.columns) * across + across, np.ptp(tile.rows) * down + down) for tile in found]
    return bool(min(thin) < LEAST)


def picture(found: list[Tile], rows: str, columns: str, hatch: str) -> tuple[float, float, list[str]]:
    """Width, height and drawing of `tiles`, a thin one wide enough for its number; `hatch` names a pattern."""
    down, across = sorted({tile.rows for tile in found}), sorted({tile.columns for tile in found})
    wide, high = _scales(found)
    (x, right), (y, bottom) = _edges(across, wide, LEFT), _edges(down, high, TOP)
    body = [text(LEFT, 12, f"{columns}s →", "kl-t--soft"), text(LEFT - 8, TOP - 6, f"{rows}s ↓", "kl-t--soft", "e")]
    named = []
    for tile in found:
        (left, width), (top, height) = x[tile.columns], y[tile.rows]
        kind = f'"kl-own {owner_class(tile.owner)}"' if tile.owner >= 0 else '"kl-own kl-none"'
        if tile.owner == MASKED:
            kind = f'"kl-masked" fill="url(#{hatch})"'
        shape = f'x="{place(left + 1)}" y="{place(top + 1)}" width="{place(width - 2)}" height="{place(height - 2)}"'
        body.append(f"<rect class={kind} {shape}/>")
        if tile.owner >= 0:
            named.append((left + width / 2, top + height / 2 + 4, number(tile.owner)))
    spans, free = [], 0.0  # columns that are too thin for their numbers go without
    for band, (left, width) in x.items():
        words, half = span(*band), 3.2 * len(span(*band))
        middle = max(left + width / 2, free + half)
        if middle <= left + width:
            spans.append((middle, TOP - 6, words))
            free = middle + half + 4
    names = [(LEFT - 8, top + height / 2 + 4, span(*band)) for band, (top, height) in y.items()]
    for name, words in (("kl-t--m", named), ("kl-t--soft kl-t--m", spans), ("kl-t--soft kl-t--e", names)):
        texts = [f'<text x="{place(at)}" y="{place(base)}">{escape(word)}</text>' for at, base, word in words]
        body.append(f'<g class="kl-t {name}">{"".join(texts)}</g>')
    return max(right, free) + 2, bottom + 4, body


def _edges(bands: list[tuple[int, int]], scale: float, start: float) -> tuple[dict[tuple[int, int], tuple], float]:
    """Where each band begins and how wide it is, and where the last one ends."""
    places = {}
    for first, last in bands:
        places[first, last] = start, max(LEAST, (last + 1 - first) * scale)
        start += places[first, last][1]
    return places, start
