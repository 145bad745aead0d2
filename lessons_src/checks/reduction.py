"""What is looked at in the exercise of Lesson 3."""

import math

from kernels.exercises import Exercise, Memory, close, equal, fail
from kernels.exercises.rounding import f32

EXERCISE = Exercise(
    lesson="lessons/3-reduction-trees.md#exercise",
    task="Load a row into a power of two of lanes, with padding that changes nothing, and fold them in a tree.",
    hints=(
        "Begin with block_size: 5 values take 8 lanes, 8 values take 8, and 9 take 16.",
        "A neutral value is a question to the operation: which number leaves every other as it is, even -3?",
        "In fold, lane i of the lower half takes what lane i + half holds; the upper half is then done. "
        "In load, ask `lane < n` before you touch x.",
    ),
    explain="""\
A tree halves its lanes until one is left, so it begins with a power of two. The lanes beyond the row take part in every
step like the others, so they hold what the operation does not notice: 0 for a sum, 1 for a product, minus infinity for
a maximum, infinity for a minimum. Whether a lane has a value is decided *before* the load. A lane that loads first and
throws the value away afterwards computes the right result, and has read memory that belongs to somebody else.""",
)
ELSEWHERE = "A row begins at row * stride; rows lie further apart than they are wide."
GAP = math.nan  # what lies between two rows


def matrix(rows, n, stride, values):
    """Rows of `values(row, i)` that begin `stride` apart; the last one ends the memory."""
    flat = [GAP] * ((rows - 1) * stride + n)
    for row in range(rows):
        flat[row * stride : row * stride + n] = [f32(values(row, i)) for i in range(n)]
    return Memory(flat, "x")


def loaded(answer, x, row, stride, n, block, padding=0.0):
    with x.program(row):
        return answer.load(x, row, stride, n, block, padding)


@EXERCISE.check("the lanes are the smallest power of two that holds the row", anchor="#five-values-eight-lanes")
def lanes(answer):
    for n in (1, 2, 3, 4, 5, 8, 9, 33, 1024, 1025, 4097):
        power = 1
        while power < n:
            power *= 2
        equal(answer.block_size(n), power, given=f"n = {n}")


@EXERCISE.check("padding changes no value", anchor="#padding-that-changes-nothing")
def padding(answer):
    for operation, combine in answer.COMBINE.items():
        neutral = answer.neutral(operation)
        for value in (2.0, -3.0, 0.0, 0.5, 2.0**100, -(2.0**100), math.inf, -math.inf):
            for lanes, order in (((value, neutral), "on the right"), ((neutral, value), "on the left")):
                equal(
                    combine(*lanes), value, given=f"{operation} of {value:g} and padding, {order}",
                    cause=f"{neutral!r} is not neutral for a {operation}.",
                )  # fmt: skip


@EXERCISE.check("a full row stands in its lanes", anchor="#five-values-eight-lanes")
def full(answer):
    x = matrix(1, 8, 8, lambda row, i: i + 1)
    equal(loaded(answer, x, 0, 8, 8, 8), [float(i + 1) for i in range(8)], given="n = 8, block = 8")


@EXERCISE.check("every row begins one stride after the one before")
def rows(answer):
    x = matrix(3, 8, 11, lambda row, i: 10 * row + i)
    for row in range(3):
        expected = [float(10 * row + i) for i in range(8)]
        given = f"row {row}, stride = 11, n = 8"
        equal(loaded(answer, x, row, 11, 8, 8), expected, given=given, owner=row, cause=ELSEWHERE)


@EXERCISE.check("lanes beyond the row hold padding", anchor="#five-values-eight-lanes")
def beyond(answer):
    x = matrix(2, 5, 9, lambda row, i: 10 * row + i)
    expected = [0.0, 1.0, 2.0, 3.0, 4.0, -7.0, -7.0, -7.0]
    got = loaded(answer, x, 0, 9, 5, 8, padding=-7.0)
    inside = "The lane holds what lies behind the row, and not the padding that it was given."
    equal(
        got, expected, given="n = 5, block = 8, padding = -7", owner=0, mask=lambda lane: lane < 5, cause=inside
    )  # fmt: skip


@EXERCISE.check(
    "no lane reads what is not its row's",
    cause="The lane loads first, and finds out afterwards that it has no value.",
    hint="Ask whether the lane is inside the row before x is touched.",
    anchor="#what-goes-wrong",
)
def reads(answer):
    for n, stride, block in ((5, 9, 8), (8, 8, 8), (1, 4, 4)):
        x = matrix(2, n, stride, lambda row, i: row + i)
        for row in range(2):
            x.reads.clear()
            loaded(answer, x, row, stride, n, block)
            own = range(row * stride, row * stride + n)
            for owner, index in x.reads:
                if index not in own:
                    said = f"{owner} reads x[{index}]; its row is x[{own[0]}] to x[{own[-1]}]."
                    given = f"n = {n}, stride = {stride}, block = {block}"
                    fail(said, at=f"x[{index}]", owner=owner, mask=False, given=given)
            equal(sorted(index for _, index in x.reads), list(own), given=f"the addresses that row {row} reads")


@EXERCISE.check("every lane counts exactly once", anchor="#the-tree")
def once(answer):
    for block in (1, 2, 4, 8, 32):
        counted = answer.fold([(lane,) for lane in range(block)], lambda a, b: a + b)
        equal(sorted(counted), list(range(block)), given=f"the lanes that count, of {block}")


@EXERCISE.check(
    "the tree is as shallow as it can be",
    cause="One partial result waits for all those before it: that is a chain and no tree.",
    anchor="#the-tree",
)
def depth(answer):
    for block, levels in ((2, 1), (8, 3), (64, 6)):
        deepest = answer.fold([0] * block, lambda a, b: max(a, b) + 1)
        equal(deepest, levels, given=f"levels of a tree of {block} lanes")


@EXERCISE.check("rows are reduced to what they come to")
def results(answer):
    n, stride, count = 5, 8, 3
    values = [[-1.5 - row - i / 4 for i in range(n)] for row in range(count)]
    for operation, exact in {"sum": math.fsum, "product": math.prod, "maximum": max, "minimum": min}.items():
        x = matrix(count, n, stride, lambda row, i: values[row][i])
        out = Memory.empty(count, "out")
        for row in range(count):
            with x.program(row), out.program(row):
                answer.reduce_row(x, out, row, stride, n, operation)
        out.check_written_once(given=operation)
        expected = [exact(each) for each in values]
        tolerance = 3 * 2.0**-24 * max(abs(value) for value in expected)  # three levels, a roundoff each
        close(out, expected, tolerance, given=f"{operation} of rows of {n}", owner=lambda row: row)


def timed(answer, device):
    """What `lessons scratch` times: the sums of 8 rows of 500."""
    x, out = matrix(8, 500, 512, lambda row, i: row + i / 500), Memory.empty(8, "out")

    def rows():
        for row in range(8):
            with x.program(row), out.program(row):
                answer.reduce_row(x, out, row, 512, 500, "sum")
        return out.values

    return rows
