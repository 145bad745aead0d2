"""What is looked at in the exercise of Lesson 1."""

from itertools import pairwise

from kernels.exercises import Exercise, Memory, equal

EXERCISE = Exercise(
    lesson="lessons/1-offsets-and-masks.md#exercise",
    task="Compute the differences between neighbours in blocks: how many programs, whose offsets, which mask.",
    needs="cpu",
    hints=(
        "Do it on paper for n = 5 and block = 4: write down the offsets of program 0 and of program 1, and cross out "
        "what is no element.",
        "Program p begins at p * block. An offset is an element if it is smaller than n. To round a division up, add "
        "block - 1 before you divide with //.",
        "In the program, both loads and the store take the same mask. The second load's offsets are "
        "[offset + 1 for offset in offsets].",
    ),
    explain=(
        "`(n + block - 1) // block` rounds up: one program more as soon as a single result is left over, and none more "
        "where block divides n. Program p owns `p * block` to `p * block + block - 1`, so no two programs share an "
        "offset, and together they own every one. Where the mask is False, the offset is no element. It must be "
        "neither loaded nor stored. One mask serves all three accesses, because result i is computed by whoever owns "
        "i, and the element that is furthest out, x[i + 1], is still inside x for the last result."
    ),
)


@EXERCISE.check(
    "a program owns neighbouring offsets, and begins where the one before it ends",
    cause="The offsets do not begin at program * block, or they do not follow each other.",
    anchor="#offsets",
)
def offsets_of_a_program(answer):
    for program, block in ((0, 4), (1, 4), (2, 4), (1, 256)):
        first = program * block
        found = answer.program_offsets(program, block)
        equal(found, range(first, first + block), given=f"program = {program}, block = {block}")


@EXERCISE.check(
    "the mask is True for the elements, and for nothing else",
    cause="Elements are numbered from 0, so the last one is n - 1, and n is the first offset past the end.",
    anchor="#masks",
)
def mask_of_offsets(answer):
    for offsets, n in (([0, 1, 2, 3], 6), ([4, 5, 6, 7], 6), ([4, 5, 6, 7], 5), ([256, 257, 258, 259], 257)):
        found = answer.in_bounds(offsets, n)
        equal(found, [offset in range(n) for offset in offsets], given=f"offsets = {offsets}, n = {n}")


@EXERCISE.check(
    "a block that is full is computed",
    cause="A value is loaded from the wrong place, the difference is the wrong way round, or a mask ends too early.",
    anchor="#exercise",
)
def full_block(answer):
    given = "n = 8, block = 4, x[i] = i * i"
    x, out = Memory([float(i * i) for i in range(9)], "x", given), Memory.empty(8, "out", given)
    for program in (0, 1):
        with x.program(program), out.program(program):
            answer.difference_program(program, x, out, 8, 4)
        equal(
            out.values[: 4 * program + 4],
            [2.0 * i + 1 for i in range(4 * program + 4)],
            given=f"{given}, after program {program}",
            owner=lambda index: index // 4,
        )


@EXERCISE.check(
    "where the blocks are full, there is no program too many",
    cause="A whole number of blocks is enough, and another program would own nothing.",
    anchor="#ceil-division",
)
def count_whole(answer):
    for n, block in ((256, 256), (1024, 256), (12, 4)):
        equal(answer.program_count(n, block), n // block, given=f"n = {n}, block = {block}")


@EXERCISE.check(
    "the programs cover every result",
    cause="The division was rounded down, so nobody owns the results that are left over.",
    anchor="#ceil-division",
)
def count_ragged(answer):
    for n, block, programs in ((257, 256, 2), (1, 256, 1), (255, 256, 1), (300, 256, 2), (1000, 128, 8)):
        equal(answer.program_count(n, block), programs, given=f"n = {n}, block = {block}")


@EXERCISE.check(
    "an empty vector needs no program",
    cause="Rounding 0 up is still 0; there is nothing to do, and so nobody to do it.",
    anchor="#ceil-division",
)
def count_empty(answer):
    equal(answer.program_count(0, 256), 0, given="n = 0, block = 256")


@EXERCISE.check(
    "the longest vectors are counted exactly",
    cause="A division with / makes a float, and a float has too few digits for so large a number.",
    anchor="#ceil-division",
)
def count_long(answer):
    n = 2**53 + 1  # the first whole number that no float holds
    equal(answer.program_count(n, 1), n, given=f"n = {n}, block = 1")


@EXERCISE.check(
    "the last program touches its elements and nothing past the end",
    cause="A load or a store has no mask, or a mask that lets offset n through.",
    anchor="#what-goes-wrong",
)
def ragged_program(answer):
    for n, block in ((5, 4), (257, 256)):
        given = f"n = {n}, block = {block}, program 1, x[i] = i * i"
        x, out = Memory([float(i * i) for i in range(n + 1)], "x", given), Memory.empty(n, "out", given)
        with x.program(1), out.program(1):
            answer.difference_program(1, x, out, n, block)
        equal(out.values[block:], [2.0 * i + 1 for i in range(block, n)], given=given, owner=1)


@EXERCISE.check(
    "every result is written once, by its owner",
    cause="Two programs own the same offset, or an offset past the end is led back to an element that has an owner.",
    anchor="#who-owns-what",
)
def written_once(answer):
    for n, block in ((257, 256), (10, 4), (3, 4)):
        given = f"n = {n}, block = {block}, x[i] = i * i * i % 7"
        values = [float(i * i * i % 7) for i in range(n + 1)]
        x, out = Memory(values, "x", given), Memory.empty(n, "out", given)
        for program in range(-(-n // block)):
            with x.program(program), out.program(program):
                answer.difference_program(program, x, out, n, block)
        out.check_written_once()
        equal(out.values, [after - here for here, after in pairwise(values)], given=given)


def timed(answer, device):
    """What `lessons scratch` times: the differences of 4000 neighbours."""
    n = 4000
    x, out = Memory([float(i * i % 97) for i in range(n + 1)], "x"), Memory.empty(n, "out")
    return lambda: answer.differences(x, out, n, 256) or out.values
