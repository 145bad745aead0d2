"""A view of a storage: in which storage cell each element of a shape lies, given strides and a start."""

from __future__ import annotations

from collections.abc import Sequence

from kernels.figures.html import PHONE, figure, fitting, number, owner_class, place, scroll, svg, text

CELL, BOX, LEFT = 30, 24, 60  # pixels: the width of a cell, the height of its box, where the boxes begin
LINE = BOX + 20  # a line of storage: the cells' numbers, and below them the boxes
LEAST = 20  # pixels of a cell that holds a pair
MOST_ROWS, MOST_COLUMNS, MOST_CELLS = 16, 24, 256


def cells_of(shape: Sequence[int], strides: Sequence[int], start: int = 0) -> list[list[int]]:
    """The storage cell of every element, row by row: `start + row * strides[0] + column * strides[1]`.

    `shape` and `strides` have one or two entries, in elements; one dimension is a single row.
    """
    if len(shape) != len(strides) or len(shape) not in (1, 2):
        raise ValueError(
            f"shape {tuple(shape)} and strides {tuple(strides)} must both have one entry, or both two: one a dimension"
        )
    rows, columns = (1, *shape)[-2:]
    down, right = (0, *strides)[-2:]
    return [[start + row * down + column * right for column in range(columns)] for row in range(rows)]


def view_figure(
    shape: Sequence[int],
    strides: Sequence[int],
    start: int = 0,
    size: int | None = None,
    label: str = "x",
    caption: str = "",
    line: int = 12,
) -> str:
    """A view above, the storage below: the number in an element is its cell, the pair in a cell is its element.

    `shape` and `strides` have one or two entries, in elements, and `start` is the cell of the first element, as
    PyTorch's `shape`, `stride()` and `storage_offset()`. `size` counts the storage's cells (as many as the view needs,
    left out), and `line` cells stand in one line of the drawing. A row of the view has one colour in both. A cell in
    which several elements lie (a stride of 0) says how many. Returns HTML.

    ValueError for an element outside of the storage, and for what is too large to draw.
    """
    grid = cells_of(shape, strides, start)
    cells = [cell for row in grid for cell in row]
    size = max(cells, default=-1) + 1 if size is None else size
    if len(grid) > MOST_ROWS or len(grid[0] if grid else ()) > MOST_COLUMNS or not 0 <= size <= MOST_CELLS:
        raise ValueError(
            f"a view of shape {tuple(shape)} on {size} cells is too large to draw; at most {MOST_ROWS} rows, "
            f"{MOST_COLUMNS} columns and {MOST_CELLS} cells are drawn"
        )
    for row, found in enumerate(grid):
        for column, cell in enumerate(found):
            if not 0 <= cell < size:
                name = _element(row, column, len(shape))
                raise ValueError(f"element {name} of {label} would lie in cell {cell}, but there are {size} cells")
    holders: dict[int, list[tuple[int, int]]] = {}
    for row, found in enumerate(grid):
        for column, cell in enumerate(found):
            holders.setdefault(cell, []).append((row, column))

    columns, most = len(grid[0]) if grid else 0, (PHONE - LEFT) // LEAST
    near_line = (
        line if line <= most else line // 2
    )  # of storage; its cells stay in step with a stride of a power of two
    title = f"Where the elements of {label} lie"
    described = "; ".join(f"row {row}: cells {', '.join(map(str, found))}" for row, found in enumerate(grid))
    near = min(CELL, (PHONE - LEFT) // max(1, min(size, near_line), columns))
    sheets = (_Sheet(CELL), line), (_Sheet(near), near_line)
    drawn = [_drawn(sheet, grid, holders, size, label, cells, len(shape)) for sheet, cells in sheets]
    wide, phone = (svg("view", title, described or "no element", *each) for each in drawn)
    shown = fitting(title, wide, drawn[0][0], phone) if near >= LEAST else scroll(title, wide)
    return figure(shown, f"{caption} {_words(shape, strides, start, size, label, holders)}".strip(), "view")


def _drawn(sheet: _Sheet, grid, holders, size: int, label: str, line: int, dimensions: int):
    """Width, height and drawing of the view above, and of its storage below."""
    sheet.say(LEFT, 12, f"{label}: elements, with their cells")
    for column in range(len(grid[0]) if grid else 0):
        sheet.soft.append((LEFT + (column + 0.5) * sheet.cell, 30, column))
    top = 36
    for row, found in enumerate(grid):
        y = top + row * BOX
        sheet.names.append((LEFT - 8, y + 16, f"row {row}" if dimensions == 2 else ""))
        for column, cell in enumerate(found):
            sheet.box(LEFT + column * sheet.cell, y, owner_class(row), cell)
    bottom = top + len(grid) * BOX + 30
    sheet.say(LEFT, bottom, "the storage: cells, with their elements")
    for first in range(0, size, line):
        y = bottom + 8 + first // line * LINE
        sheet.names.append((LEFT - 8, y + 14 + 16, f"cell {first} →"))
        for cell in range(first, min(first + line, size)):
            x = LEFT + (cell - first) * sheet.cell
            sheet.soft.append((x + sheet.cell / 2, y + 10, cell))
            here = holders.get(cell, [])
            words = f"×{len(here)}" if len(here) > 1 else _element(*here[0], dimensions) if here else ""
            sheet.box(x, y + 14, owner_class(here[0][0]) if here else "kl-none", words)
    across = max(min(size, line), len(grid[0]) if grid else 0)
    width = LEFT + max(across * sheet.cell, 6 * len(label) + 150, 220) + (8 if sheet.cell == CELL else 0)
    return width, bottom + 8 + -(-size // line) * LINE, sheet.drawn()


def _element(row: int, column: int, dimensions: int) -> str:
    return f"{row},{column}" if dimensions == 2 else str(column)


def _words(
    shape: Sequence[int], strides: Sequence[int], start: int, size: int, label: str, holders: dict[int, list]
) -> str:
    count = sum(map(len, holders.values()))
    ways = zip(("down", "right")[-len(shape) :], strides, strict=True)
    steps = [f"one step {way} is {step} cell{'s' * (abs(step) != 1)} on" for way, step in ways]
    words = (
        f"{label}: shape {tuple(shape)}, strides {tuple(strides)}, first element in cell {start}. "
        f"{', '.join(steps).capitalize()}. {number(count)} element{'s' * (count != 1)} in {number(len(holders))} of "
        f"{number(size)} cells."
    )
    return words + (" Some cells hold several elements." if count > len(holders) else "")


class _Sheet:
    """What has been drawn; boxes of one class become one path."""

    def __init__(self, cell: int) -> None:
        self.cell = cell
        self.paths: dict[str, list[str]] = {}
        self.inside: list[tuple[float, float, object]] = []
        self.soft: list[tuple[float, float, object]] = []
        self.names: list[tuple[float, float, object]] = []
        self.titles: list[str] = []

    def say(self, x: float, y: float, words: str) -> None:
        self.titles.append(text(x, y, words, "kl-t--soft"))

    def box(self, x: float, y: float, name: str, words: object) -> None:
        shape = f"M{place(x + 1)} {place(y + 1)}h{self.cell - 2}v{BOX - 2}h-{self.cell - 2}z"
        self.paths.setdefault(name, []).append(shape)
        if words != "":
            self.inside.append((x + self.cell / 2, y + 16, words))

    def drawn(self) -> list[str]:
        lines = [f'<path class="kl-own {name}" d="{"".join(d)}"/>' for name, d in sorted(self.paths.items())]
        most = 3 if self.cell == CELL else 2
        for name, words in (
            ("kl-t kl-t--m", [word for word in self.inside if len(str(word[2])) <= most]),
            ("kl-t kl-t--small kl-t--m", [word for word in self.inside if len(str(word[2])) > most]),
            ("kl-t kl-t--soft kl-t--m", self.soft),
            ("kl-t kl-t--soft kl-t--e", self.names),
        ):
            texts = "".join(f'<text x="{place(x)}" y="{place(y)}">{word}</text>' for x, y, word in words)
            lines += [f'<g class="{name}">{texts}</g>'] if texts else []
        return self.titles + lines
