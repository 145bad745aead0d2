"""Rows with equal keys, found by counting instead of sorting: elements and owners are small whole numbers."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np


def group_numbers(columns: Sequence[np.ndarray]) -> tuple[np.ndarray, int]:
    """A number for each row, equal where all columns are, and one more than the highest of them.

    The numbers ascend as the combinations do, compared from the first column on; not every number is taken. Where the
    range of combinations is much larger than the number of rows, columns are ranked first, which sorts them.
    """
    count = len(columns[0])
    if not count:
        return np.empty(0, np.int64), 0
    limit = max(1 << 16, 8 * count)
    number, total = np.zeros(count, np.int64), 1
    for column in columns:
        low, high = int(column.min()), int(column.max())
        span = high - low + 1
        if total * span > limit and total > count:  # gaps in what was combined so far
            distinct, number = np.unique(number, return_inverse=True)
            total = len(distinct)
        if total * span > limit:
            distinct, column = np.unique(column, return_inverse=True)
            low, span = 0, len(distinct)
        if span > 1:
            number *= span
            number += column
            number -= low
            total *= span
    if total > limit:
        distinct, number = np.unique(number, return_inverse=True)
        total = len(distinct)
    return number, total


def differs(number: np.ndarray, total: int, person: np.ndarray) -> np.ndarray:
    """For each group whether `person` takes more than one value in it."""
    last = np.zeros(total, person.dtype)
    last[number] = person  # whoever comes last
    mixed = np.zeros(total, bool)
    mixed[number[last[number] != person]] = True
    return mixed


def has(number: np.ndarray, total: int, mask: np.ndarray) -> np.ndarray:
    """For each group whether `mask` holds for one of its rows."""
    found = np.zeros(total, bool)
    found[number[mask]] = True
    return found
