"""What is looked at in the exercise of Lesson 4."""

import math

from kernels.exercises import Exercise, Memory, close, equal, fail
from kernels.exercises.rounding import f32

EXERCISE = Exercise(
    lesson="lessons/4-stable-softmax.md#exercise",
    task="Softmax of one row: largest score, shift, exponentials, sum, quotient, with padding that takes no weight.",
    hints=(
        "Write down the five steps for the row [1, 2, 3] on paper, then in Python, without any padding.",
        "Padding takes part in the maximum and in the sum. One number does nothing in both: minus infinity.",
        "Take the maximum of all lanes off every lane first. Then each exponent is at most 0, and one of them is 0.",
    ),
    explain="""\
On paper any shift of the scores gives the same weights. In float32 only the largest score will do: every exponential is
then at most 1, and the largest of them *is* 1, so the sum is neither infinite nor zero. Minus infinity is neutral in
the maximum, and its exponential is 0, which is neutral in the sum; so a lane of padding needs no care after the load.
A row that is masked altogether has no largest score to take off: minus infinity minus minus infinity is NaN, and NaN is
what the operator promises there.""",
)
ROUNDOFF = 2.0**-24
GAP = math.nan


def weights_of(row):
    """The weights in float64, of scores that are not all minus infinity."""
    largest = max(row)
    numerators = [math.exp(score - largest) for score in row]
    return [numerator / math.fsum(numerators) for numerator in numerators]


def matrix(rows, stride):
    """The rows, `stride` apart, with a gap of NaN behind each but the last."""
    flat = [GAP] * ((len(rows) - 1) * stride + len(rows[0]))
    for number, row in enumerate(rows):
        flat[number * stride : number * stride + len(row)] = [f32(score) for score in row]
    return Memory(flat, "x")


def computed(answer, row, block):
    """The weights of one row, before anything is stored."""
    return list(answer.softmax(answer.load(matrix([row], len(row)), 0, len(row), len(row), block)))[: len(row)]


def compare(answer, row, block, given, cause=""):
    # a shifted score is rounded once, and an exponential turns that into a relative error; the sum adds n of them
    allowed = ROUNDOFF * (len(row) + 6 + max(abs(score) for score in row if score > -math.inf))
    close(
        computed(answer, row, block), weights_of(row), allowed, given=given, owner="program 0", mask=True, cause=cause
    )


@EXERCISE.check("equal scores get equal weights", anchor="#the-five-steps")
def alike(answer):
    close(computed(answer, [0.0] * 4, 4), [0.25] * 4, 4 * ROUNDOFF, given="four scores of 0, block = 4")


@EXERCISE.check("a full row of small scores", anchor="#the-five-steps")
def small(answer):
    compare(answer, [0.5, -1.25, 2.0, 0.0], 4, given="[0.5, -1.25, 2, 0], block = 4")


@EXERCISE.check(
    "padding takes no weight",
    cause="A lane of padding adds to the sum; exp(0) is 1.",
    hint="What must a lane hold so that its exponential is 0?",
    anchor="#zero-padding-is-wrong",
)
def padded(answer):
    compare(answer, [0.5, -1.25, 2.0, 0.0, 1.0], 8, given="[0.5, -1.25, 2, 0, 1], block = 8")


@EXERCISE.check(
    "large scores do not overflow",
    hint="Which shift makes every exponent at most 0?",
    anchor="#overflow",
)
def large(answer):
    cause = "exp(x) is infinite in float32 above 88.7, and infinity by infinity is NaN."
    compare(answer, [1000.0, 1001.0, 1002.0, 999.0], 4, "[1000, 1001, 1002, 999]", cause)
    compare(answer, [0.0, 3.0, 1000.0, 999.0], 4, "[0, 3, 1000, 999]", cause)


@EXERCISE.check("a row near -100", anchor="#zero-padding-is-wrong")
def low(answer):
    compare(answer, [-100.0, -101.5, -99.0, -100.25, -102.0], 8, given="five scores near -100, block = 8")


@EXERCISE.check(
    "small weights keep their digits, and a score alone has weight 1",
    cause="Something is added to the sum, or a weight is rounded to a number of decimals.",
    anchor="#the-five-steps",
)
def digits(answer):
    for row, block in (([3.0], 1), ([0.0, -10.0, -12.5], 4)):
        for number, (got, expected) in enumerate(zip(computed(answer, row, block), weights_of(row), strict=True)):
            given = f"weight {number} of {row}, block = {block}"
            close(got, expected, ROUNDOFF * (len(row) + 6 + max(map(abs, row))) * expected, given=given)


@EXERCISE.check("a masked score gets weight 0", anchor="#masked-scores")
def masked(answer):
    compare(answer, [1.0, -math.inf, 2.0, -math.inf, 0.0], 8, given="[1, -inf, 2, -inf, 0], block = 8")


@EXERCISE.check(
    "a row that is masked altogether is NaN",
    cause="There is no weight to give, and the contract of the operator says NaN in every column.",
    anchor="#masked-scores",
)
def all_masked(answer):
    for n, block in ((4, 4), (5, 8)):
        equal(computed(answer, [-math.inf] * n, block), [math.nan] * n, given=f"{n} scores of -inf, block = {block}")


@EXERCISE.check("every row begins one stride after the one before")
def strides(answer):
    rows = [[10.0 * number + i / 2 for i in range(5)] for number in range(3)]
    x = matrix(rows, 9)
    for number, row in enumerate(rows):
        lanes = answer.load(x, number, 9, 5, 8)
        cause = "A row of x begins at row * stride; rows lie further apart than they are wide."
        equal(list(lanes)[:5], row, given=f"row {number}, stride = 9, n = 5", owner=number, cause=cause)


@EXERCISE.check(
    "no lane reads what is not its row's",
    cause="The lane loads first, and finds out afterwards that it has no score.",
    anchor="#what-goes-wrong",
)
def reads(answer):
    x = matrix([[1.0, 2.0, 3.0, 4.0, 5.0]] * 2, 9)
    for number in range(2):
        x.reads.clear()
        with x.program(number):
            answer.load(x, number, 9, 5, 8)
        own = range(9 * number, 9 * number + 5)
        for owner, index in x.reads:
            if index not in own:
                said = f"{owner} reads x[{index}]; its row is x[{own[0]}] to x[{own[-1]}]."
                fail(said, at=f"x[{index}]", owner=owner, mask=False, given="stride = 9, n = 5, block = 8")
        equal(sorted(index for _, index in x.reads), list(own), given=f"the addresses that row {number} reads")


@EXERCISE.check(
    "every weight is written once, by its own row",
    cause="A lane without a score stores all the same, and hits the next row.",
    anchor="#what-goes-wrong",
)
def writes(answer):
    rows = [[1.0, 2.0, 3.0, 4.0, 5.0], [0.0, 0.0, 0.0, 0.0, 1.0], [-1.0, 7.0, 7.0, 2.0, 2.0]]
    x, out = matrix(rows, 9), Memory.empty(15, "out")
    for number in range(3):
        with x.program(number), out.program(number):
            answer.softmax_row(x, out, number, 9, 5, 8)
    out.check_written_once(given="three rows of 5 weights, block = 8")
    expected = [weight for row in rows for weight in weights_of(row)]
    for index, (got, weight) in enumerate(zip(out.values, expected, strict=True)):
        given = f"weight {index % 5} of row {index // 5}, three rows of 5 weights"
        close(got, weight, 20 * ROUNDOFF * weight, given=given, owner=index // 5)


def timed(answer, device):
    """What `lessons scratch` times: the softmax of 8 rows of 500."""
    x = matrix([[float((row + 7 * i) % 11) for i in range(500)] for row in range(8)], 512)
    out = Memory.empty(8 * 500, "out")

    def rows():
        for row in range(8):
            with x.program(row), out.program(row):
                answer.softmax_row(x, out, row, 512, 500, 512)
        return out.values

    return rows
