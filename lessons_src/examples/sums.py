"""Ways to add the same numbers, each addition rounded to float32 as a GPU rounds it; Lesson 3 runs them.

Every way returns a tree: levels of `Partial`, the lanes first, the total alone in the last one. So a figure draws what
was really added to what.
"""

import math
from typing import NamedTuple

from kernels.exercises.rounding import f32


class Partial(NamedTuple):
    """A partial sum, where in the level above it came from, and what rounding took."""

    value: float
    parents: tuple[int, ...] = ()
    lost: float = 0.0


def add(level, *places):
    """What stands at two places of a level, added and rounded; one place is passed on."""
    exact = sum(level[place].value for place in places)  # in float64
    return Partial(f32(exact), places, exact - f32(exact))


def lanes_of(values, block, neutral=0.0):
    """One lane a value, and lanes of padding up to `block`."""
    padding = [Partial(neutral)] * (block - len(values))
    return [Partial(f32(value)) for value in values] + padding


def halves(values, block):
    """A tree: lane i adds what lane i + half holds, then half as many lanes do so."""
    levels = [lanes_of(values, block)]
    while len(levels[-1]) > 1:
        half = len(levels[-1]) // 2
        levels.append([add(levels[-1], i, i + half) for i in range(half)])
    return levels


def neighbours(values, block):
    """A tree of the same depth: each lane adds its neighbour, then the neighbour of those two, and so on."""
    levels = [lanes_of(values, block)]
    while len(levels[-1]) > 1:
        levels.append([add(levels[-1], i, i + 1) for i in range(0, len(levels[-1]), 2)])
    return levels


def one_by_one(values, block):
    """No tree: the first lane takes one value after the other, and the rest wait."""
    levels = [lanes_of(values, block)]
    while len(levels[-1]) > 1:
        waiting = range(2, len(levels[-1]))
        levels.append([add(levels[-1], 0, 1), *(add(levels[-1], i) for i in waiting)])
    return levels


def largest(values, block):
    """A tree again, of maxima; its padding is what no maximum picks."""
    levels = [lanes_of(values, block, neutral=-math.inf)]
    while len(levels[-1]) > 1:
        above, half = levels[-1], len(levels[-1]) // 2
        levels.append([Partial(max(above[i].value, above[i + half].value), (i, i + half)) for i in range(half)])
    return levels


def total(levels):
    return levels[-1][0].value


# The same sums where nobody looks at the levels, for rows of thousands.


def serial(values):
    so_far = 0.0
    for value in values:
        so_far = f32(so_far + value)
    return so_far


def tree(values):
    """Halves onto halves, with zeros up to a power of two."""
    level = list(values)
    level += [0.0] * ((1 << (len(level) - 1).bit_length()) - len(level))
    while len(level) > 1:
        half = len(level) // 2
        level = [f32(a + b) for a, b in zip(level[:half], level[half:], strict=True)]
    return level[0]


def compensated(values):
    """One after the other, but what an addition rounds away is handed to the next one (Kahan, 1965)."""
    so_far = lost = 0.0
    for value in values:
        term = f32(value - lost)
        following = f32(so_far + term)
        lost = f32(f32(following - so_far) - term)
        so_far = following
    return so_far
