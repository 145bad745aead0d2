"""What is looked at in the exercise of Lesson 5."""

import math

from kernels.exercises import Exercise, Memory, close, equal, fail
from kernels.exercises.rounding import f16, f32

EXERCISE = Exercise(
    lesson="lessons/5-residual-rmsnorm.md#exercise",
    task="Residual RMSNorm of one row of float16: float32 in between, one rounding at the end.",
    hints=(
        "Say the type of every intermediate aloud: x, residual, z, the squares, their mean, the factor, the result.",
        "The mean divides by n, the number of columns, and not by the number of lanes. eps is added before the root.",
        "x and the residual begin at row * stride, the weight at 0, and the row of out at row * n.",
    ),
    explain="""\
Every value on the way is a float32: the sum with the residual, because rounding it to float16 would throw away a small
residual beside a large x; the squares, because the square of 300 is more than float16 can hold; mean, factor and
product. The one rounding to float16 is the last thing that happens. Zeros beyond the row are neutral in the sum of
squares, and not in its mean: that divides by n. No mean of z is taken off anywhere, which is the difference from
LayerNorm.""",
)
EPS = 1e-6
GAP = math.nan


def normalised(x, residual, weight, eps=EPS):
    """The row in float64, not rounded."""
    z = [a + b for a, b in zip(x, residual, strict=True)]
    root = math.sqrt(math.fsum(value * value for value in z) / len(z) + eps)
    return [value / root * w for value, w in zip(z, weight, strict=True)]


def flat(rows, stride):
    """The rows rounded to float16, `stride` apart, with NaN between them."""
    values = [GAP] * ((len(rows) - 1) * stride + len(rows[0]))
    for number, row in enumerate(rows):
        values[number * stride : number * stride + len(row)] = [f16(value) for value in row]
    return values


def run(answer, x, residual, weight, block, stride=0, eps=EPS):
    """The launch, one program a row, on rows of x and residual; returns the memories x, residual, weight and out."""
    n = len(x[0])
    stride = stride or n
    memories = [Memory(flat(x, stride), "x"), Memory(flat(residual, stride), "residual"), Memory(weight, "weight")]
    memories.append(Memory.empty(n * len(x), "out"))
    for number in range(len(x)):
        for memory in memories:
            memory.owner = f"program {number}"
        answer.rmsnorm_row(*memories, number, stride, n, block, eps)
    return memories


def compare(answer, x, residual, weight, block, given, stride=0, cause="", eps=EPS):
    """The result against float64: half a unit in the last place of float16, and a little for float32 before it."""
    out = run(answer, x, residual, weight, block, stride, eps)[-1]
    n = len(x[0])
    out.check_written_once(given=given)
    expected = [value for row in zip(x, residual, strict=True) for value in normalised(*row, weight, eps)]
    allowed = max(map(abs, expected)) * (2.0**-11 + (n + 8) * 2.0**-24)
    close(out.values, expected, allowed, given=given, owner=lambda index: index // n, cause=cause)


@EXERCISE.check("a row whose mean square is 1 stays as it is", anchor="#the-formula")
def unit(answer):
    compare(answer, [[1.0, -1.0, 1.0, -1.0]], [[0.0] * 4], [1.0] * 4, 4, "[1, -1, 1, -1]")


@EXERCISE.check("the root is taken", cause="Divided by the mean square itself.", anchor="#the-formula")
def rooted(answer):
    compare(answer, [[3.0, -4.0, 4.0, -3.0]], [[0.0] * 4], [1.0] * 4, 4, "[3, -4, 4, -3]")


@EXERCISE.check(
    "no mean is taken off",
    cause="This is LayerNorm: it subtracts the mean of the row first.",
    anchor="#not-layernorm",
)
def constant(answer):
    compare(answer, [[5.0] * 4], [[0.0] * 4], [1.0] * 4, 4, "four times 5")


@EXERCISE.check("the residual is added before anything else", anchor="#the-formula")
def residual(answer):
    compare(answer, [[1.0, 2.0, -1.0, 0.5]], [[0.5, -3.0, 0.25, 2.0]], [1.0] * 4, 4, "x and a residual")


@EXERCISE.check(
    "the mean is over the columns and not over the lanes",
    cause="The sum of squares was divided by the number of lanes; three of the eight are padding.",
    anchor="#what-goes-wrong",
)
def lanes(answer):
    compare(answer, [[1.0, 2.0, 3.0, 4.0, 5.0]], [[0.0] * 5], [1.0] * 5, 8, "n = 5, block = 8")


@EXERCISE.check(
    "every row finds its own x and residual, and all share one weight",
    anchor="#who-owns-what",
)
def rows(answer):
    x = [[(-1.0) ** i * (i + 1 + 3 * row) for i in range(5)] for row in range(3)]
    added = [[0.25 * (i - row) for i in range(5)] for row in range(3)]
    cause = "x and the residual begin at row * stride, the weight at 0 for every row, a row of out at row * n."
    compare(answer, x, added, [0.5, 1.0, 1.5, 2.0, -1.0], 8, "stride = 9, n = 5", stride=9, cause=cause)


@EXERCISE.check(
    "squares beyond float16 are no trouble",
    cause="A square was rounded to float16; above 65504 that is infinity.",
    anchor="#one-rounding-too-many",
)
def squares(answer):
    compare(answer, [[300.0, -600.0, 900.0, 30.0]], [[0.0] * 4], [1.0] * 4, 4, "[300, -600, 900, 30]")


@EXERCISE.check("a row of zeros stays zero", anchor="#zeros-and-epsilon")
def zeros(answer):
    compare(
        answer, [[0.0] * 4], [[0.0] * 4], [1.0] * 4, 4, "zeros, eps = 1e-6", cause="Without eps it is 0 times infinity."
    )


@EXERCISE.check(
    "eps stands under the root",
    cause="eps was added to the root and not to the mean square, a number of another kind.",
    anchor="#zeros-and-epsilon",
)
def epsilon(answer):
    compare(answer, [[0.001, -0.001] * 2], [[0.0] * 4], [1.0] * 4, 4, "±0.001, eps = 1e-6")
    compare(answer, [[0.5, -0.25, 0.125, 1.0]], [[0.0] * 4], [1.0] * 4, 4, "small numbers, eps = 0.5", eps=0.5)


@EXERCISE.check(
    "the sum with the residual is a float32",
    cause="z was not rounded to float32; or it was to float16, where numbers above 2048 lie 2 apart.",
    anchor="#one-rounding-too-many",
)
def wide(answer):
    x, added = [2048.0, 2048.0, -1024.0, 1.0, 2048.0], [0.5, 1.0, 0.25, 2.0**-12, 2.0**-20]
    equal(list(answer.add(x, added)), [f32(a + b) for a, b in zip(x, added, strict=True)], given="z, lane by lane")


@EXERCISE.check("the result is a float16", cause="The last rounding is missing.", anchor="#one-rounding-too-many")
def rounded(answer):
    out = run(answer, [[1.0, 2.0, -3.0, 0.5]], [[0.25] * 4], [0.75, 1.25, 1.0, 0.875], 4)[-1]
    equal(out, [f16(value) for value in out.values], given="each element, and the nearest float16")
    x, weight = [1.0 + i / 16 for i in range(16)], [1.0 + i * i / 512 for i in range(16)]
    found = run(answer, [x], [[0.0] * 16], weight, 16)[-1].values
    for i, (got, exact) in enumerate(zip(found, normalised(x, [0.0] * 16, weight), strict=True)):
        half = 2.0 ** (math.frexp(exact)[1] - 12)  # of a unit in the last place
        cause = "The result was rounded to float16 more than once on the way."
        close(
            got, exact, half * 1.01, given=f"element {i} of a row of 16, and half a unit in its last place", cause=cause
        )


@EXERCISE.check("no lane reads what is not its own", cause="A lane loads before it asks.", anchor="#what-goes-wrong")
def reads(answer):
    x = [[1.0, 2.0, 3.0, 4.0, 5.0]] * 2
    *inputs, _ = run(answer, x, x, [1.0] * 5, 8, stride=9)
    for memory in inputs:
        for owner, index in memory.reads:
            row = int(owner.removeprefix("program "))
            first = 0 if memory.name == "weight" else 9 * row
            if not first <= index < first + 5:
                name = memory.name
                said = f"{owner} reads {name}[{index}]; what it may read is {name}[{first}] to {name}[{first + 4}]."
                fail(said, at=f"{name}[{index}]", owner=owner, mask=False, given="stride = 9, n = 5, block = 8")
        equal(len(memory.reads), 10, given=f"reads of {memory.name} by two rows of 5")


def timed(answer, device):
    """What `lessons scratch` times: 8 rows of 500, normalised."""
    rows = [[(row + 7 * i) % 11 - 5.0 for i in range(500)] for row in range(8)]
    x, residual = Memory(flat(rows, 512), "x"), Memory(flat(rows[::-1], 512), "residual")
    weight, out = Memory(flat([rows[0]], 500), "weight"), Memory.empty(8 * 500, "out")

    def all_rows():
        for row in range(8):
            with x.program(row), residual.program(row), weight.program(row), out.program(row):
                answer.rmsnorm_row(x, residual, weight, out, row, 512, 500, 512, EPS)
        return out.values

    return all_rows
