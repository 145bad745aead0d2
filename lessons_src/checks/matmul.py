"""What is looked at in the exercise of Lesson 6."""

from collections import Counter
from itertools import product
from math import nan

from kernels.exercises import Exercise, Memory, equal, fail

EXERCISE = Exercise(
    lesson="lessons/6-matrix-tiles.md#exercise",
    task="Write one program of a tiled matrix multiplication over flat memories with strides: ragged M, N and K, and "
    "every loaded element used for all the products that need it.",
    hints=(
        "Begin with one tile that fits: M, N and K equal to the tile's sizes. Then let K be two steps long. The edges "
        "come last: the first rows and columns of a tile never change, only where it ends.",
        "range(first, min(first + size, end)) is a mask: the numbers past the edge are not in it. You need one for the "
        "rows, one for the columns, and in each step one along K. The tile of A needs the first and the last of these.",
        "Three parts: sums = a zero for each row and column; for each step, two nested lists, loaded through the "
        "strides, then sums[i][j] += the sum over s of a[i][s] * b[s][j]; at the end one store for each sum.",
    ),
    explain="A program owns its tile of C, so nobody else writes there, and programs need no order. Its sums stay with "
    "it while it walks along K. A tile of A is loaded once and multiplied with every column of the tile of B, and that "
    "is all the saving there is: with tiles of T × T, each element that was loaded is used T times. At the edges, the "
    "ranges end early. In Triton they cannot, because a block has a fixed size: there a mask switches the surplus off, "
    "and 0 stands in for what was not loaded.",
)

TILE = (4, 3, 2)


def left(m, k):
    return float((3 * m + 5 * k) % 7 - 3)


def right(k, n):
    return float((2 * k + 7 * n) % 5 - 2)


def stored(rows, columns, strides, value, name):
    """A matrix in flat memory; what lies between its rows is NaN."""
    size = (rows - 1) * strides[0] + (columns - 1) * strides[1] + 1 if rows and columns else 0
    memory = Memory([nan] * size, name)
    for i, j in product(range(rows), range(columns)):
        memory.values[i * strides[0] + j * strides[1]] = value(i, j)
    return memory


def owner(m, n, N, tile):
    return m // tile[0] * -(-N // tile[1]) + n // tile[1]


def run(answer, M, N, K, tile=TILE, a_strides=None, b_strides=None, c_strides=None):
    """Run every program, one after the other, and compare C; returns the three memories and what was given."""
    strides = (a_strides or (K, 1), b_strides or (N, 1), c_strides or (N, 1))
    A, B = stored(M, K, strides[0], left, "A"), stored(K, N, strides[1], right, "B")
    C = Memory.empty((M - 1) * strides[2][0] + (N - 1) * strides[2][1] + 1 if M and N else 0, "C")
    given = f"M = {M}, N = {N}, K = {K}, tiles of {tile[0]} × {tile[1]}, steps of {tile[2]}"
    if (a_strides, b_strides, c_strides) != (None, None, None):
        given += f", strides of A {strides[0]}, of B {strides[1]}, of C {strides[2]}"
    for program in range(-(-M // tile[0]) * -(-N // tile[1])):
        with A.program(program), B.program(program), C.program(program):
            answer.tile_program(program, A, B, C, M, N, K, *strides, tile)
    got = [[C.values[m * strides[2][0] + n * strides[2][1]] for n in range(N)] for m in range(M)]
    expected = [[sum((left(m, k) * right(k, n) for k in range(K)), 0.0) for n in range(N)] for m in range(M)]
    equal(got, expected, given=given, owner=lambda m, n: f"program {owner(m, n, N, tile)}")
    places = {m * strides[2][0] + n * strides[2][1]: (m, n) for m, n in product(range(M), range(N))}
    for who, index in C.writes:
        if index in places and who != f"program {owner(*places[index], N, tile)}":
            (m, n), mine = places[index], owner(*places[index], N, tile)
            fail(
                f"{who} writes C[{m}, {n}], which lies in the tile of program {mine}.",
                given=given, at=(m, n), owner=who, cause="A program does the work of another.",
            )  # fmt: skip
    if strides[2] == (N, 1):
        C.check_written_once(given=given)
    return A, B, C, given


@EXERCISE.check(
    "the tiles cover C",
    cause="Division that rounds down drops the ragged tiles at the edges.",
    anchor="#one-tile-one-program",
)
def cover(answer):
    for M, N, expected in ((4, 3, 1), (8, 9, 6), (5, 7, 6), (1, 1, 1), (9, 3, 3), (0, 7, 0)):
        equal(answer.program_count(M, N, TILE), expected, given=f"M = {M}, N = {N}, tiles of 4 × 3")


@EXERCISE.check(
    "a program knows where its tile begins",
    cause="Numbers run along a row of tiles first: the row is program // tiles in a row, the place in it the rest.",
    anchor="#one-tile-one-program",
)
def begins(answer):
    for N, program, expected in ((9, 0, (0, 0)), (9, 2, (0, 6)), (9, 4, (4, 3)), (7, 5, (4, 6)), (2, 3, (12, 0))):
        equal(answer.tile_of(program, N, TILE), expected, given=f"program = {program}, N = {N}, tiles of 4 × 3")


@EXERCISE.check("one tile in one step", cause="A sum of products: row m of A with column n of B.")
def one_tile(answer):
    run(answer, 4, 3, 2)
    run(answer, 1, 1, 1, tile=(1, 1, 1))


@EXERCISE.check(
    "several steps along K",
    cause="The sums have to live through the whole walk along K, and every step adds to them.",
    anchor="#the-walk-along-k",
)
def steps(answer):
    run(answer, 4, 3, 8)
    run(answer, 4, 3, 0)  # no step at all: C is 0


@EXERCISE.check("several programs", cause="Each program writes its own tile, and nothing else.")
def programs(answer):
    run(answer, 8, 9, 4)


@EXERCISE.check(
    "ragged M and N",
    cause="The last tile of a row or column reaches past C: that part is masked off, in the loads and in the store.",
    anchor="#ragged-edges",
)
def ragged_sides(answer):
    run(answer, 5, 7, 4)
    run(answer, 3, 2, 2)


@EXERCISE.check(
    "ragged K",
    cause="The last step along K reaches past both A and B: each of the two loads needs its own mask.",
    anchor="#ragged-edges",
)
def ragged_steps(answer):
    run(answer, 4, 3, 5)
    run(answer, 5, 7, 3)


@EXERCISE.check(
    "rows and columns lie where the strides say",
    cause="An address was computed from a width and not from the strides.",
    anchor="#the-code",
)
def strides(answer):
    run(answer, 5, 7, 3, b_strides=(1, 4))  # B stored by columns, each with one element of padding
    run(answer, 5, 7, 3, a_strides=(1, 6))
    _, _, C, given = run(answer, 5, 7, 3, a_strides=(5, 1), c_strides=(9, 1))
    equal(
        C.never_written(), [9 * m + n for m in range(4) for n in (7, 8)], given=given, cause="The padding was written."
    )
    run(answer, 5, 7, 3, c_strides=(1, 5))  # C stored by columns


@EXERCISE.check(
    "each program loads an element once",
    cause="Load the tiles of a step first, and take all the products from them: that is what tiles are for.",
    anchor="#how-often-an-element-is-read",
)
def reuse(answer):
    A, B, _, given = run(answer, 5, 7, 3)
    for memory in (A, B):
        for (who, index), times in Counter(memory.reads).items():
            equal(times, 1, given=f"{given}, reads of {memory.name}[{index}]", owner=who)
    tiles_m, tiles_n = -(-5 // TILE[0]), -(-7 // TILE[1])
    for memory, times in ((A, tiles_n), (B, tiles_m)):
        if len(memory.reads) != len(memory) * times:
            fail(
                f"{memory.name} is read {len(memory.reads)} times, and {len(memory) * times} are needed",
                given=given,
                cause=f"each of its {len(memory)} elements is needed by {times} programs",
            )


@EXERCISE.check(
    "the walk along K has steps of tile[2]",
    cause="What is loaded at once is a tile of tile[2] along K; a program has room for no more.",
    hint="range(0, K, tile_k) are the beginnings of the steps; a step ends before the next one loads.",
    anchor="#the-walk-along-k",
)
def step_by_step(answer):
    tile = (2, 2, 3)
    A, B, _, given = run(answer, 3, 3, 7, tile=tile)
    for memory, along in ((A, lambda index: index % 7), (B, lambda index: index // 3)):
        reached = {}
        for who, index in memory.reads:
            step = along(index) // tile[2]
            if step < reached.get(who, 0):
                fail(
                    f"{who} reads {memory.name}[{index}], of step {step}, after it has begun step {reached[who]}.",
                    given=given, at=f"{memory.name}[{index}]", owner=who,
                )  # fmt: skip
            reached[who] = step
        equal(len(reached), 4, given=f"{given}, programs that read {memory.name}")


def timed(answer, device):
    """What `lessons scratch` times: 24 × 20 times 20 × 22, in tiles of 8 × 8 with steps of 4."""
    M, N, K, tile = 24, 22, 20, (8, 8, 4)
    a, b = stored(M, K, (K, 1), left, "A"), stored(K, N, (N, 1), right, "B")
    c = Memory.empty(M * N, "C")

    def programs():
        for program in range(answer.program_count(M, N, tile)):
            with a.program(program), b.program(program), c.program(program):
                answer.tile_program(program, a, b, c, M, N, K, (K, 1), (N, 1), (N, 1), tile)
        return c.values

    return programs
