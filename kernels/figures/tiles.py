"""A tiled matrix multiplication as one program sees it: its tile of C, and its walk over A and B."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from kernels.figures.html import (
    PHONE,
    data_table,
    escape,
    figure,
    fitting,
    hatching,
    number,
    owner_class,
    place,
    span,
    svg,
    unique_id,
)

if TYPE_CHECKING:
    from kernels.trace.triton import TritonTrace

WIDTH = 560  # pixels for the columns of A and B side by side
LARGEST = 12  # pixels an element
LEFT, TOP, GAP = 14, 30, 34
NEAR_LEFT, NEAR_GAP = 4, 26  # the same on a phone
READ, WRITE = 0, 1  # as in the columns of a trace


@dataclass(frozen=True)
class Visit:
    """One load or store of a tile: where the whole tile lies, and what became of its elements.

    `rows` and `columns` are (first, last) of the whole tile, which may reach past the matrix. `inside` elements were
    touched in the matrix, `masked` ones were switched off, `beyond` ones were touched although the matrix has no such
    row or column, wherever in memory that led.
    """

    buffer: str
    what: int
    rows: tuple[int, int]
    columns: tuple[int, int]
    inside: int
    masked: int
    beyond: int

    def clipped(self, shape: tuple[int, int]) -> tuple[str, str]:
        """The rows and columns of the tile that the matrix has, as text."""
        both = zip((self.rows, self.columns), shape, strict=True)
        rows, columns = (span(first, min(last, size - 1)) for (first, last), size in both)
        return rows, columns

    def words(self, shape: tuple[int, int]) -> str:
        """`rows 32–63, columns 64–64 of a: 32 elements, 992 masked off`."""
        rows, columns = self.clipped(shape)
        text = (
            f"rows {rows}, columns {columns} of {self.buffer}: {number(self.inside)} element{'s' * (self.inside != 1)}"
        )
        if self.masked:
            text += f", {number(self.masked)} masked off"
        if self.beyond:
            text += f", {number(self.beyond)} past the edge of the matrix"
        return text


def walk(trace: TritonTrace, program: int, buffers: Sequence[str] = ("a", "b", "c"), launch: int = 0) -> list[Visit]:
    """What one program loaded and stored of two-dimensional buffers, tile by tile, in the order in which it did.

    A tile that a mask switched off as a whole says nothing about where it lies, and is left out. ValueError for a
    buffer that is not two-dimensional, or a tile of another shape.
    """
    columns = trace.columns
    chosen = (columns["launch"] == launch) & (columns["block"] == program)
    visits = []
    for name in buffers:
        view = trace.buffer(name)
        if len(view.shape) != 2:
            raise ValueError(f"a tile walk is over matrices; {name} has shape {view.shape}")
        index = np.full(view.extent, -1, np.int64)  # from an element of memory to row * columns + column
        index[view.offsets.reshape(-1)] = np.arange(view.count)
        rows = np.flatnonzero(chosen & (columns["buffer"] == trace.buffers.index(view)))
        for sequence in np.unique(columns["sequence"][rows]):
            found = _visit(trace, rows[columns["sequence"][rows] == sequence], view, index)
            visits += [(int(sequence), found)] if found else []
    return [visit for _, visit in sorted(visits, key=lambda item: item[0])]


def _visit(trace: TritonTrace, rows: np.ndarray, view, index: np.ndarray) -> Visit | None:
    shape = trace.tensor_shapes[int(trace.shapes[rows[0]])]
    if len(shape) != 2:
        raise ValueError(f"a tile walk is over tiles with two dimensions; {view.name} was touched in shape {shape}")
    tile_row, tile_column = np.divmod(trace.positions[rows], shape[1])
    element, active = trace.columns["element"][rows], trace.columns["active"][rows]
    known = active & (element >= 0) & (element < view.extent)
    known[known] = index[element[known]] >= 0
    if not known.any():
        return None
    # The tile's first element is in the matrix if any is, so the smallest position gives its place.
    at = int(np.flatnonzero(known)[np.argmin(trace.positions[rows][known])])
    row, column = divmod(int(index[element[at]]), view.shape[1])
    top, left = row - int(tile_row[at]), column - int(tile_column[at])
    within = (top + tile_row < view.shape[0]) & (left + tile_column < view.shape[1])
    tally = (int((active & within).sum()), int((~active).sum()), int((active & ~within).sum()))
    what = int(trace.columns["what"][rows[0]])
    return Visit(view.name, what, (top, top + shape[0] - 1), (left, left + shape[1] - 1), *tally)


def tile_walk(
    trace: TritonTrace, program: int, a: str = "a", b: str = "b", c: str = "c", caption: str = "", launch: int = 0
) -> str:
    """One program of a tiled C = A @ B: A to the left of C, B above it, each to scale.

    The program's tile of C is filled, the tiles of the others are outlined with their numbers. The tiles of A and B
    that it loads carry the number of the step; what a mask switched off is hatched, and what was touched past the
    edge is set apart. `trace` comes from `trace_triton`; `a`, `b` and `c` name its buffers, M × K, K × N and M × N. The
    steps follow as a table. ValueError where the buffers do not fit together or the program touched none of them.
    """
    (M, K), (rows_b, N), shape_c = (trace.buffer(name).shape for name in (a, b, c))
    if rows_b != K or shape_c != (M, N):
        raise ValueError(
            f"A of {M} × {K}, B of {rows_b} × {N} and C of {shape_c[0]} × {shape_c[1]} do not fit together"
        )
    visits = walk(trace, program, (a, b, c), launch)
    if not visits:
        raise ValueError(f"program {program} touched none of {a}, {b} and {c}")
    over = _overhang(visits, {a: (M, K), b: (K, N), c: (M, N)})
    owners = trace.owners(c, launch=launch)
    across = K + over[a][1] + N + over[c][1]
    scale = min(LARGEST, WIDTH / (K + N))
    near = min(scale, (PHONE - 2 * NEAR_LEFT - NEAR_GAP) / across)
    sizes = (M, N, K)
    wide = _picture(visits, (a, b, c), sizes, over, program, owners, scale, (LEFT, GAP))
    phone = _picture(visits, (a, b, c), sizes, over, program, owners, near, (NEAR_LEFT, NEAR_GAP))
    width = 2 * LEFT + GAP + across * scale
    shapes = {a: (M, K), b: (K, N), c: (M, N)}
    title = caption or _caption(program, visits, a, b, c)
    shown = fitting(f"The walk of program {program}", wide, width, phone)
    return figure(shown, title, "tiles", _steps(program, visits, shapes))


def _picture(visits, names, sizes, over, program: int, owners: np.ndarray, scale: float, margins) -> str:
    """The three matrices at `scale` pixels an element."""
    (a, b, c), (M, N, K), (left, gap) = names, sizes, margins
    left_c, top_c = left + (K + over[a][1]) * scale + gap, TOP + (K + over[b][0]) * scale + gap
    places = {a: (left, top_c, M, K), b: (left_c, TOP, K, N), c: (left_c, top_c, M, N)}
    hatch = unique_id("hatch", program, visits, sizes, scale)
    body = [hatching(hatch)]
    others = _others(owners, program, places[c], scale)
    for name, (x, y, rows, columns) in places.items():
        label = f"{name}, {number(rows)} × {number(columns)}"
        body.append(f'<text class="kl-t kl-t--soft" x="{place(x)}" y="{place(y - 8)}">{escape(label)}</text>')
        if name == c:
            body += others
        steps = [visit for visit in visits if visit.buffer == name]
        for step, visit in enumerate(steps, 1):
            words = program if visit.what == WRITE else step
            body += _tile(visit, words, places[name], scale, hatch, owner_class(program))
        shape = f'x="{place(x)}" y="{place(y)}" width="{place(columns * scale)}" height="{place(rows * scale)}"'
        body.append(f'<rect class="kl-axisline" fill="none" {shape}/>')
    size = left_c + (N + over[c][1]) * scale + left, top_c + (M + max(over[a][0], over[c][0])) * scale + 10
    shapes = {name: (rows, columns) for name, (_, _, rows, columns) in places.items()}
    said = [f"{'writes' if v.what == WRITE else 'reads'} {v.words(shapes[v.buffer])}" for v in visits]
    return svg("tiles", f"The walk of program {program}", "; ".join(said), *size, body)


def _overhang(visits: Sequence[Visit], shapes: dict[str, tuple[int, int]]) -> dict[str, tuple[int, int]]:
    """How many rows and columns the tiles reach past each matrix."""
    over = dict.fromkeys(shapes, (0, 0))
    for visit in visits:
        rows, columns = shapes[visit.buffer]
        down, right = over[visit.buffer]
        over[visit.buffer] = max(down, visit.rows[1] - rows + 1), max(right, visit.columns[1] - columns + 1)
    return over


def _others(owners: np.ndarray, program: int, where: tuple, scale: float) -> list[str]:
    """The outlines of the tiles that other programs wrote."""
    left, top, *_ = where
    lines = []
    for owner in np.unique(owners[owners >= 0]).tolist():
        if owner == program:
            continue
        rows, columns = np.nonzero(owners == owner)
        x, y = left + columns.min() * scale, top + rows.min() * scale
        width, height = (np.ptp(columns) + 1) * scale, (np.ptp(rows) + 1) * scale
        lines.append(_box("kl-own kl-none", x, y, width, height))
        lines += _name(owner, x, y, width, height, "kl-t--soft ")
    return lines


def _tile(visit: Visit, words: int, where: tuple, scale: float, hatch: str, colour: str) -> list[str]:
    """The part of a tile in the matrix, then the parts past its edge."""
    left, top, rows, columns = where
    (first, last), (start, end) = visit.rows, visit.columns
    down, right = min(last + 1, rows), min(end + 1, columns)
    x, y = left + start * scale, top + first * scale
    width, height = (right - start) * scale, (down - first) * scale
    lines = [_box(f"kl-own {colour}", x, y, width, height)]
    past = "kl-own kl-several" if visit.beyond else f'kl-masked" fill="url(#{hatch})'
    if end + 1 > right:
        lines.append(_box(past, x + width, y, (end + 1 - right) * scale, (last + 1 - first) * scale))
    if last + 1 > down:
        lines.append(_box(past, x, y + height, width, (last + 1 - down) * scale))
    named = _name(words, x, y, width, height)
    if not named:  # a sliver in the matrix: the number stands in the middle of the whole tile, on a plain ground
        width, height = (end + 1 - start) * scale, (last + 1 - first) * scale
        named = _name(words, x, y, width, height)
        if named:
            half = 4 * len(str(words)) + 2
            ground = f'x="{place(x + width / 2 - half)}" y="{place(y + height / 2 - 8)}" width="{2 * half}" height="16"'
            lines.append(f'<rect class="kl-hatch-back" {ground}/>')
    return lines + named


def _box(classes: str, x: float, y: float, width: float, height: float) -> str:
    return f'<rect class="{classes}" x="{place(x)}" y="{place(y)}" width="{place(width)}" height="{place(height)}"/>'


def _name(words: int, x: float, y: float, width: float, height: float, more: str = "") -> list[str]:
    """A number in the middle of a box, where it fits."""
    if width < 7 * len(str(words)) + 4 or height < 13:
        return []
    middle, base = place(x + width / 2), place(y + height / 2 + 4)
    return [f'<text class="kl-t {more}kl-t--m" x="{middle}" y="{base}">{words}</text>']


def _caption(program: int, visits: Sequence[Visit], a: str, b: str, c: str) -> str:
    read = {name: sum(v.inside for v in visits if v.buffer == name and v.what == READ) for name in (a, b)}
    steps = sum(v.buffer == a and v.what == READ for v in visits)
    written = sum(v.inside for v in visits if v.what == WRITE)
    text = (
        f"Program {program} in {steps} step{'s' * (steps != 1)}: it reads {number(read[a])} elements of {a} and "
        f"{number(read[b])} of {b}, and writes {number(written)} of {c}."
    )
    if any(v.masked for v in visits):
        text += " Hatched: offsets that a mask switched off."
    if any(v.beyond for v in visits):
        text += " With a double edge: touched past the edge of the matrix."
    return text


def _steps(program: int, visits: Sequence[Visit], shapes: dict[str, tuple[int, int]]) -> str:
    rows = []
    for i, visit in enumerate(visits, 1):
        row, column = visit.clipped(shapes[visit.buffer])
        what = "write" if visit.what == WRITE else "read"
        rows.append((i, f"{what} {visit.buffer}", row, column, visit.inside, visit.masked, visit.beyond))
    headers = ("operation", "what", "rows", "columns", "elements", "masked off", "past the edge")
    table = data_table(headers, rows, f"Every load and store of program {program}", numeric=(0, 4, 5, 6))
    return f'<details class="kl-data"><summary>The steps as a table</summary>\n{table}\n</details>'
