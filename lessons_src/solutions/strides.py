"""Exercise of Lesson 2: find elements in a storage by strides, crop and transpose without moving any, copy by rows.

    lessons check strides

A `View` says where the elements of a matrix lie in a storage, as PyTorch does: the cell of the first element, the
shape, and how many cells one step down and one step to the right are. Edit only what lies between the marks.
Everything is plain Python.
"""

from typing import NamedTuple


class View(NamedTuple):
    """A matrix in a storage. `shape` is (rows, columns); `strides` are cells a step (down, to the right)."""

    start: int
    shape: tuple[int, int]
    strides: tuple[int, int]


def cell(view, row, column):
    """The number of the storage cell in which element (row, column) of the view lies."""
    # --- fill in ---
    # Begin at the first element's cell. Then so many steps down, and so many to the right.
    return view.start + row * view.strides[0] + column * view.strides[1]
    # --- end ---


def crop(view, top, left, rows, columns):
    """The view of `rows` rows from row `top` on, and `columns` columns from column `left` on. Nothing is copied."""
    # --- fill in ---
    # Which of start, shape and strides change? Where does element (0, 0) of the crop lie?
    return View(cell(view, top, left), (rows, columns), view.strides)
    # --- end ---


def transpose(view):
    """The view in which element (i, j) is element (j, i) of `view`. Nothing is copied."""
    # --- fill in ---
    # One step down in the new view is one step to the right in the old one.
    return View(view.start, (view.shape[1], view.shape[0]), (view.strides[1], view.strides[0]))
    # --- end ---


def copy_row_program(program, x, x_view, out, out_view):
    """One program: it copies row number `program` of `x_view`, in storage x, to that row of `out_view`, in storage out.

    The two views have one shape; their starts and strides may differ.
    """
    # --- fill in ---
    # For each column: read one cell of x, write one cell of out. Touch no cell that holds no element of the row.
    for column in range(x_view.shape[1]):
        out[cell(out_view, program, column)] = x[cell(x_view, program, column)]
    # --- end ---


def copy(x, x_view, out, out_view):
    """The launch: a program for every row."""
    for program in range(x_view.shape[0]):
        copy_row_program(program, x, x_view, out, out_view)
