"""What is looked at in the exercise of Lesson 2."""

from kernels.exercises import Exercise, Memory, equal, fail
from kernels.exercises.model import Strip

EXERCISE = Exercise(
    lesson="lessons/2-strides.md#exercise",
    task="Find an element's cell by strides; crop and transpose without moving anything; copy a view row by row.",
    needs="cpu",
    hints=(
        "Draw a storage of 12 cells and the matrix 3 × 4 in it. Put your finger on element (1, 2), and count the cells "
        "that you pass on the way from cell 0.",
        "A cell is start + row * strides[0] + column * strides[1]. A crop keeps the strides of the view that it is cut "
        "from; only its start and its shape are new. A transpose swaps both pairs.",
        "crop returns View(cell(view, top, left), (rows, columns), view.strides). The program loops over "
        "range(x_view.shape[1]) and asks cell() twice, once with each view.",
    ),
    explain=(
        "Strides are the only thing that says how far two rows are apart. The shape says how many elements there are, "
        "and the cells between the end of one row and the beginning of the next are no part of it. So a crop is a new "
        "start and a new shape with the old strides, a transpose is the two pairs swapped, and neither moves an "
        "element. A copy needs a start and strides for *each* side, because the two storages may be laid out "
        "differently."
    ),
)

PADDING = -1.0  # in the cells of out that no element may lie in


def elements_of(answer, view):
    """The cells of a view of the learner's, by the rule of strides, row by row."""
    start, (rows, columns), (down, right) = view
    return [[start + row * down + column * right for column in range(columns)] for row in range(rows)]


def look_at(answer, view, expected, given):
    """Compare the parts of a view: it must be one, and each part must be right."""
    if not isinstance(view, answer.View):
        fail(f"The result is a {type(view).__name__}; it must be a View.", given=given, got=view, expected="a View")
    for part in ("start", "shape", "strides"):
        equal(getattr(view, part), expected[part], given=f"{part} of {given}")


def stays_inside(answer, memory, verb, accesses, view, given):
    """End the check at the first access to a cell that holds no element of the program's row, and draw those around."""
    rows = elements_of(answer, view)
    elements = {index: f"{row},{column}" for row, cells in enumerate(rows) for column, index in enumerate(cells)}
    for owner, index in accesses:
        if index not in elements:
            around = range(max(0, index - 3), min(len(memory), index + 4))
            names, found = tuple(map(str, around)), tuple(elements.get(each, "-") for each in around)
            fail(
                f"{owner} {verb} {memory.name}[{index}], and no element of the view lies in that cell.",
                given=given,
                at=f"{memory.name}[{index}]",
                owner=owner,
                cause="The loop goes on into the cells between two rows, or the row begins at the wrong cell.",
                drawing=Strip((("cell", names), ("element", found)), index - around[0]),
            )
        row = int(elements[index].partition(",")[0])
        if owner != f"program {row}":
            fail(
                f"{owner} {verb} {memory.name}[{index}]; that is element ({elements[index]}), of program {row}.",
                given=given,
                at=f"{memory.name}[{index}]",
                owner=owner,
                cause="A program does the work of another: it has the row that has its number, and no other.",
            )


def copied(answer, x, x_view, out, out_view, given):
    """Run the program of every row, and compare what stands in out, the cells around the view among it."""
    wanted = list(out.values)
    owners = {}
    for row, (sources, targets) in enumerate(
        zip(elements_of(answer, x_view), elements_of(answer, out_view), strict=True)
    ):
        for source, target in zip(sources, targets, strict=True):
            wanted[target], owners[target] = x.values[source], row
    for row in range(x_view.shape[0]):
        with x.program(row), out.program(row):
            answer.copy_row_program(row, x, x_view, out, out_view)
    stays_inside(answer, out, "writes", out.writes, out_view, given)
    stays_inside(answer, x, "reads", x.reads, x_view, given)
    equal(out.values, wanted, given=given, owner=lambda index: owners.get(index, "nobody"))


@EXERCISE.check(
    "in a storage that is full, row by row, every element is found",
    cause="The cell is not start + row * strides[0] + column * strides[1].",
    anchor="#the-rule",
)
def cells_of_a_full_storage(answer):
    view = answer.View(0, (3, 4), (4, 1))
    for row in range(3):
        for column in range(4):
            equal(answer.cell(view, row, column), 4 * row + column, given=f"{view}, element ({row}, {column})")


@EXERCISE.check(
    "rows with padding behind them are found",
    cause="The number of columns was taken for the step from row to row. The shape does not know the padding.",
    anchor="#padding",
)
def cells_with_padding(answer):
    view = answer.View(0, (3, 4), (6, 1))
    for row in range(3):
        for column in (0, 3):
            equal(answer.cell(view, row, column), 6 * row + column, given=f"{view}, element ({row}, {column})")


@EXERCISE.check(
    "any start and any strides are followed",
    cause="The start or the second stride was left out: it is only sometimes 0, or 1.",
    anchor="#the-rule",
)
def cells_of_any_view(answer):
    for view in (answer.View(7, (2, 3), (8, 1)), answer.View(2, (4, 2), (1, 5)), answer.View(1, (2, 3), (12, 2))):
        for row in range(view.shape[0]):
            for column in range(view.shape[1]):
                expected = view.start + row * view.strides[0] + column * view.strides[1]
                equal(answer.cell(view, row, column), expected, given=f"{view}, element ({row}, {column})")


@EXERCISE.check(
    "a crop of a whole matrix begins at its own corner, with the old strides",
    cause="A crop begins at another cell and has another shape. The way from row to row stays as long as it was.",
    anchor="#a-crop",
)
def crop_of_a_matrix(answer):
    view = answer.View(0, (4, 8), (8, 1))
    found = answer.crop(view, 1, 2, 2, 3)
    look_at(
        answer, found, {"start": 10, "shape": (2, 3), "strides": (8, 1)}, "crop(View(0, (4, 8), (8, 1)), 1, 2, 2, 3)"
    )


@EXERCISE.check(
    "a crop of a crop, and of a transpose, begins where the first one says",
    cause="The start of the view that is cropped was left out, or its strides were taken for (columns, 1).",
    anchor="#a-crop",
)
def crop_of_a_view(answer):
    for view, start in ((answer.View(10, (3, 5), (8, 1)), 19), (answer.View(0, (8, 4), (1, 8)), 9)):
        found = answer.crop(view, 1, 1, 2, 2)
        expected = {"start": start, "shape": (2, 2), "strides": view.strides}
        look_at(answer, found, expected, f"crop({view}, 1, 1, 2, 2)")


@EXERCISE.check(
    "a transpose swaps shape and strides, and stays where it is",
    cause="Only one of the two pairs was swapped, or the strides were worked out from the new shape.",
    anchor="#a-transpose",
)
def transposed(answer):
    for view in (answer.View(0, (2, 3), (3, 1)), answer.View(10, (2, 3), (8, 1)), answer.View(1, (2, 4), (9, 2))):
        expected = {"start": view.start, "shape": view.shape[::-1], "strides": view.strides[::-1]}
        look_at(answer, answer.transpose(view), expected, f"transpose({view})")


@EXERCISE.check(
    "a full matrix is copied row by row",
    cause="A program owns the row that has its number: it reads that row of x and writes that row of out.",
    anchor="#exercise",
)
def copy_full(answer):
    given = "x and out full, 3 × 4"
    x, out = Memory([float(i) for i in range(12)], "x", given), Memory.empty(12, "out", given)
    view = answer.View(0, (3, 4), (4, 1))
    copied(answer, x, view, out, view, given)
    out.check_written_once()


@EXERCISE.check(
    "a crop is copied into padded rows, and the padding is left alone",
    cause="One side was copied with the strides or the start of the other, or the loop runs over the padding.",
    anchor="#what-goes-wrong",
)
def copy_crop(answer):
    x, out = Memory([float(i) for i in range(40)], "x"), Memory([PADDING] * 40, "out")
    copied(
        answer, x, answer.View(10, (3, 4), (8, 1)), out, answer.View(2, (3, 4), (6, 1)), "x a crop, out with padding"
    )


@EXERCISE.check(
    "a transpose is copied",
    cause="The elements of a row are not neighbours in x: one step to the right is strides[1] cells.",
    anchor="#a-transpose",
)
def copy_transpose(answer):
    given = "x a transpose, out full"
    x, out = Memory([float(i) for i in range(12)], "x", given), Memory.empty(12, "out", given)
    copied(answer, x, answer.View(0, (4, 3), (1, 4)), out, answer.View(0, (4, 3), (3, 1)), given)
    out.check_written_once()


@EXERCISE.check(
    "out may be a transpose as well",
    cause="The elements of a row are not neighbours in out: one step to the right is strides[1] cells there, too.",
    anchor="#a-transpose",
)
def copy_to_transpose(answer):
    given = "x full, out a transpose with padding"
    x, out = Memory([float(i) for i in range(12)], "x", given), Memory([PADDING] * 21, "out", given)
    copied(answer, x, answer.View(0, (4, 3), (3, 1)), out, answer.View(1, (4, 3), (1, 6)), given)


def timed(answer, device):
    """What `lessons scratch` times: a matrix of 60 × 50 copied into its transpose."""
    view = answer.View(0, (60, 50), (50, 1))
    x, out = Memory([float(i) for i in range(3000)], "x"), Memory.empty(3000, "out")
    return lambda: answer.copy(x, view, out, answer.View(0, (60, 50), (1, 60))) or out.values
