"""Exercise of Lesson 4: softmax of a row, with numbers that a float32 can hold.

    lessons check softmax

A matrix of scores lies in x: row r begins at x[r * stride] and holds n scores. The weights go to out, whose rows follow
each other without a gap. A program owns one row and has `block` lanes, a power of two that is at least n. Python
raises an error where a GPU goes on with an infinity or NaN, so exponentials and quotients are those of `exp32` and
`divide32`. Edit only what lies between the marks.
"""

import math

from kernels.exercises.rounding import divide32, exp32, f32


def load(x, row, stride, n, block):
    """A list of `block` lanes: lane i holds score i of the row, and something harmless where the row has ended."""
    # --- fill in ---
    # Which number loses every comparison for the largest score, and has an exponential of 0?
    # A lane past the end of the row must not touch x.
    raise NotImplementedError("return the lanes of this row")
    # --- end ---


def softmax(lanes):
    """The weights of all lanes: positive, summing to one; those of lanes without a score are never stored."""
    # --- fill in ---
    # Five steps: the largest score, each score's distance from it (rounded by f32), exp32, the sum, divide32.
    # A row that is masked altogether, all scores -inf, shall be NaN in every column, as torch.softmax has it.
    raise NotImplementedError("return one weight a lane")
    # --- end ---


def store(out, row, n, lanes):
    """Write the row's n weights."""
    # --- fill in ---
    # out has no gaps between its rows, and a lane past the end of the row has nothing to write.
    raise NotImplementedError("write the weights of this row to out")
    # --- end ---


def softmax_row(x, out, row, stride, n, block):
    """The kernel: the program with this number owns the row with this number. It is complete."""
    store(out, row, n, softmax(load(x, row, stride, n, block)))
