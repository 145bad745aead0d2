"""What `lessons check gemm_order` looks at."""

from kernels.exercises import Exercise, equal, fail

EXERCISE = Exercise(
    lesson="labs/5-gemm.md#exercise",
    task="The tile of each program in grouped order, the slices of a sum over K, and the rounds that both take.",
    needs="cpu",
    hints=(
        "Draw 5 × 4 tiles and number them in groups of 2. The first group is numbers 0 to 7: two rows, four columns.",
        "A group has group * tiles_n numbers, except the last one: with 5 rows of tiles in groups of 2, it has one "
        "row. How many rows a group has decides how its numbers run down. For slices, count steps first, not k.",
        "first = program // (group * tiles_n) * group; rows = min(group, tiles_m - first); the rest of the division "
        "runs down rows. A slice has -(-steps // slices) steps; min(…, K) at both ends.",
    ),
    explain=(
        "A group of g rows reads g tiles of A and *all* of B's columns, one after the other, and each column of B "
        "serves g tiles before the next one is fetched. Row by row, it serves one. The last group may be lower, and "
        "then its numbers run down fewer rows: taking g for it would give tiles that do not exist. Slices are cut in "
        "steps, so that only the last step of K is ragged, and no element of the sum is missed or added twice. Rounds "
        "are rounded up: with 64 tiles on 132 multiprocessors one round is taken, less than half full, and two slices "
        "fill it."
    ),
)
SHAPES = ((1, 1, 1), (4, 3, 2), (5, 4, 2), (3, 7, 8), (16, 16, 8), (17, 5, 4), (7, 1, 3))


@EXERCISE.check(
    "groups of 1 are the order of reading",
    cause="With one row in a group, numbers run along the row.",
    hint="program 0 is tile (0, 0), program 1 is tile (0, 1).",
    anchor="#grouped-order",
)
def row_by_row(answer):
    for tiles_m, tiles_n in ((2, 3), (3, 4)):
        for program in range(tiles_m * tiles_n):
            got = answer.tile_of(program, tiles_m, tiles_n, 1)
            given = f"program {program}, {tiles_m} × {tiles_n} tiles, groups of 1"
            equal(got, (program // tiles_n, program % tiles_n), given=given)


@EXERCISE.check(
    "down a group, then one to the right",
    cause="Within a group the row changes first.",
    hint="In groups of 2, programs 0 and 1 have the tiles (0, 0) and (1, 0).",
    anchor="#grouped-order",
)
def down_first(answer):
    order = [(0, 0), (1, 0), (0, 1), (1, 1), (0, 2), (1, 2), (2, 0), (3, 0), (2, 1), (3, 1), (2, 2), (3, 2)]
    for program, tile in enumerate(order):
        equal(answer.tile_of(program, 4, 3, 2), tile, given=f"program {program}, 4 × 3 tiles, groups of 2")


@EXERCISE.check(
    "every tile has one program",
    cause="The last group has fewer rows where group does not divide tiles_m.",
    hint="5 rows of tiles in groups of 2: the last group has one row.",
    anchor="#grouped-order",
)
def every_tile(answer):
    for tiles_m, tiles_n, group in SHAPES:
        owners = {}
        given = f"{tiles_m} × {tiles_n} tiles, groups of {group}"
        for program in range(tiles_m * tiles_n):
            row, column = answer.tile_of(program, tiles_m, tiles_n, group)
            if not (0 <= row < tiles_m and 0 <= column < tiles_n):
                fail(f"Program {program} takes tile ({row}, {column}), which does not exist.", given=given)
            if (row, column) in owners:
                both = f"{owners[row, column]} and {program}"
                fail(f"Tile ({row}, {column}) has two programs, {both}, and another tile has none.", given=given)
            owners[row, column] = program
        equal(len(owners), tiles_m * tiles_n, given=given)


@EXERCISE.check(
    "slices cover K, each k once",
    cause="Division with a rest: the rest belongs to a slice, too.",
    hint="Add up the lengths of all slices. It must be K.",
    anchor="#slices",
)
def cover(answer):
    for K, slices, block_k in ((256, 4, 64), (65, 2, 16), (100, 3, 32), (16384, 7, 64), (1, 1, 16), (0, 2, 16)):
        given, at = f"K = {K} in {slices} slices, steps of {block_k}", 0
        for part in range(slices):
            first, last = answer.slice_of(part, slices, K, block_k)
            if first < last:
                equal(first, at, given=f"{given}: where slice {part} begins")
                at = last
        equal(at, K, given=f"{given}: where the last slice ends")


@EXERCISE.check(
    "slices are whole steps",
    cause="Cut in steps of block_k: a slice that begins within a step makes two ragged steps of one.",
    hint="Share out steps, then multiply by block_k.",
    anchor="#slices",
)
def whole_steps(answer):
    for K, slices, block_k in ((256, 3, 64), (1000, 3, 64), (65, 2, 16)):
        for part in range(slices):
            first, last = answer.slice_of(part, slices, K, block_k)
            given = f"slice {part} of {slices}, K = {K}, steps of {block_k}"
            equal(first % block_k if first < last else 0, 0, given=f"{given}: first modulo block_k")
            steps = (K + block_k - 1) // block_k
            length = (steps + slices - 1) // slices * block_k
            equal(first, min(part * length, K), given=f"{given}: first")


@EXERCISE.check(
    "more slices than steps",
    cause="A slice that gets nothing is (K, K).",
    hint="min(…, K) at both ends.",
    anchor="#slices",
)
def empty(answer):
    for part in range(8):
        expected = (min(16 * part, 40), min(16 * part + 16, 40))
        equal(answer.slice_of(part, 8, 40, 16), expected, given=f"slice {part} of 8, K = 40, steps of 16")


@EXERCISE.check(
    "rounds",
    cause="One program for each tile and slice, and a round that is not full takes as long as a full one.",
    hint="Round up.",
    anchor="#who-lacks-parallelism",
)
def rounds(answer):
    for tiles_m, tiles_n, slices, count in (
        (8, 8, 1, 132),
        (8, 8, 2, 132),
        (32, 16, 1, 132),
        (11, 12, 1, 132),
        (8, 8, 4, 132),
    ):
        given = f"{tiles_m} × {tiles_n} tiles, {slices} slices, {count} multiprocessors"
        equal(answer.rounds(tiles_m, tiles_n, slices, count), -(-tiles_m * tiles_n * slices // count), given=given)


def timed(answer, device):
    """What `lessons scratch` times: the order of 64 × 64 tiles in groups of 8."""

    def work():
        return [answer.tile_of(program, 64, 64, 8) for program in range(64 * 64)]

    return work
