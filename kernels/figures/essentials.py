"""Tables and plots of the Essentials' record, and the sentence that stands where nothing was recorded."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from typing import TYPE_CHECKING

from kernels.figures.charts import bar_chart, line_chart
from kernels.figures.html import data_table, escape

if TYPE_CHECKING:
    from kernels.bench.essentials import Found, Row

NOTHING = "(not measured yet)"


def words(found: Found | None, say: Callable[[Found], str]) -> str:
    """What `say` makes of a record; words in its place where there is none."""
    return say(found) if found else NOTHING


def spoken(name: str) -> str:
    """A row's name as a reader would say it: one of a thing is singular, and long numbers have separators."""
    name = re.sub(r"\b1 (block|load|pass|row|split)(?:e?s)\b", r"1 \1", name)
    return re.sub(r"(?<![\w.])\d{5,}(?![\w.])", lambda digits: f"{int(digits[0]):,}", name)


def drawn(found: Found | None, topic: str, draw: Callable[[Found], str]) -> str:
    """What `draw` makes of a record, or one plain sentence with the command that measures it."""
    from kernels.bench.essentials import missing

    return draw(found) if found else f"<p>{escape(missing(topic))}</p>"


def measured_table(
    found: Found, rows: Iterable[Row], columns: Mapping[str, str | Callable[[Row], object]], first: str = "what"
) -> str:
    """A line a row: its name, then the columns, each a key of the row's values or settings, or made of the row."""

    def cell(row: Row, column: str | Callable[[Row], object]) -> object:
        if callable(column):
            return column(row)
        return row.values.get(column, row.settings.get(column))

    body = [(spoken(row.name), *(cell(row, column) for column in columns.values())) for row in rows]
    numeric = [i for i in range(1, 1 + len(columns)) if not any(_is_word(row[i]) for row in body)]
    return data_table((first, *columns), body, found.origin, numeric=numeric)


def _is_word(cell: object) -> bool:
    """Whether a cell is set as words: letters without a digit."""
    return isinstance(cell, str) and any(map(str.isalpha, cell)) and not any(map(str.isdigit, cell))


def measured_bars(found: Found, rows: Iterable[Row], key: str, unit: str, heading: str = "kernel") -> str:
    """A bar a row."""
    return bar_chart([(spoken(row.name), row.values.get(key)) for row in rows], unit, found.origin, heading=heading)


def latency_chart(found: Found) -> str:
    """Cycles of a load over the size of what the chain walks through."""
    lines = {
        name: [(row.settings["bytes"], row.values["cycles"]) for row in found.rows(where=where)]
        for name, where in (("L1 may answer", "global"), ("past the L1", "l2"), ("shared memory", "shared"))
    }
    return line_chart(lines, "bytes of the working set", "cycles a load", found.origin, log_x=True, log_base_x=2)


def bandwidth_chart(found: Found) -> str:
    """Bytes a second over the bytes that all blocks read together."""
    lines = {
        name: [(row.settings["bytes"], row.values["gb_per_s"] / 1e3) for row in found.rows(where=where)]
        for name, where in (("L1 may answer", "global"), ("past the L1", "l2"))
    }
    return line_chart(lines, "bytes of the working set", "TB/s", found.origin, log_x=True, log_base_x=2)
