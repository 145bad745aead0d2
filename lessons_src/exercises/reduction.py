"""Exercise of Lesson 3: one program turns one row into one number, by a tree.

    lessons check reduction

A matrix lies in x, one row after the other. Row r begins at x[r * stride] and holds n values; what stands between two
rows, or behind the last one, is not yours to read. A program loads its row into lanes, a power of two of them, and
folds the lanes together. Edit only what lies between the marks.
"""

import math

from kernels.exercises.rounding import f32

COMBINE = {
    "sum": lambda a, b: f32(a + b),
    "product": lambda a, b: f32(a * b),
    "maximum": max,
    "minimum": min,
}


def block_size(n):
    """How many lanes a row of n values takes, for n of at least 1."""
    # --- fill in ---
    # Every step of the tree halves the number of lanes, down to one. Which numbers allow that?
    # Take the smallest that fits.
    raise NotImplementedError("return the number of lanes for a row of n values")
    # --- end ---


def neutral(operation):
    """What a lane without a value holds when `operation` reduces the row: one of the names in COMBINE."""
    # --- fill in ---
    # Combined with a neutral value, every number stays what it was. `math` has infinities.
    raise NotImplementedError("return the neutral value of the operation")
    # --- end ---


def load(x, row, stride, n, block, padding):
    """A list of `block` lanes: lane i holds value i of the row, or `padding` where the row has ended."""
    # --- fill in ---
    # Where does row `row` begin? And a lane past the end of the row must not touch x at all.
    raise NotImplementedError("return the lanes of this row")
    # --- end ---


def fold(lanes, combine):
    """One value made of all lanes; combine(a, b) makes one partial result of two."""
    # --- fill in ---
    # Every lane counts exactly once, and 8 lanes take 3 steps, not 7.
    raise NotImplementedError("fold the lanes together, level by level, and return what is left")
    # --- end ---


def reduce_row(x, out, row, stride, n, operation):
    """The kernel: the program with this number reduces the row with this number. It is complete."""
    lanes = load(x, row, stride, n, block_size(n), neutral(operation))
    out[row] = fold(lanes, COMBINE[operation])
