"""What `lessons check mergeable` looks at. The standard library is all that it needs."""

import itertools
import math
import random

from kernels.exercises import Exercise, close, equal, fail
from kernels.exercises.rounding import f32

INF = math.inf
EXERCISE = Exercise(
    lesson="workshops/a1-mergeable-statistics.md#exercise",
    task="Merge the (maximum, sum) pairs of parts of a row: the identity, one merge, a chain and a tree.",
    hints=(
        "Write the pair of [1, 2] and the pair of [5] on paper, and then that of [1, 2, 5]. By which factor did the "
        "sum of [1, 2] change when 5 became the maximum?",
        "merge: highest = max of the two maxima; total = sum1 * exp(max1 - highest) + sum2 * exp(max2 - highest). The "
        "larger one is multiplied by exp(0). If highest is -inf nothing counts: -inf - -inf would be NaN.",
        "identity is (-inf, 0.0). One score s is the pair (s, 1.0), and -inf is the identity itself. statistics merges "
        "those; tree merges neighbours, [0] with [1], [2] with [3], level by level, until one is left. A pair without "
        "a neighbour goes on to the next level as it is.",
    ),
    explain=(
        "A sum of exp(score - m) for one m becomes the sum for another by a factor, exp(m - new m), and so no score "
        "is needed again. With the larger maximum as the new one, no factor is above 1 and nothing overflows. On paper "
        "the merge is associative and commutative, so every order gives the same pair; in float32 the maximum is exact "
        "in every order and the sum differs in its last bits. (-inf, 0) merges with everything and changes nothing; "
        "the one case that needs a guard is two parts without a score that counts, where -inf - -inf is NaN. "
        "A tree of many parts rounds each score's share a few times, a chain up to once for each part."
    ),
)


def exact(scores):
    """The pair in float64, with a sum that rounds once."""
    highest = max(scores, default=-INF)
    return highest, 0.0 if highest == -INF else math.fsum(math.exp(score - highest) for score in scores)


def compare(got, scores, merges, given, cause=""):
    """The maximum must be exact; each merge may round the sum four times: exponential, product, product's pair, sum."""
    if not isinstance(got, (tuple, list)) or len(got) != 2:
        fail("The result is no pair (maximum, sum).", given=given, got=got)
    highest, total = exact(scores)
    equal(got[0], highest, given=f"the maximum, {given}", cause=cause)
    # A difference of scores below 256 is exact to 2**-17, and exp makes a relative error of it.
    close(got[1], total, (4 * merges + 4) * 2.0**-24 * max(total, 1.0), given=f"the sum, {given}", cause=cause)


def pairs_of(parts):
    return [tuple(f32(value) for value in exact(part)) for part in parts]


@EXERCISE.check("two parts, the second has the maximum", anchor="#derive-the-merge")
def second(answer):
    for parts in (([1.0, 2.0], [5.0]), ([0.0], [0.0, 1.0, 2.0])):
        compare(answer.merge(*pairs_of(parts)), [*parts[0], *parts[1]], 1, f"parts {parts[0]} and {parts[1]}")


@EXERCISE.check(
    "two parts, the first has the maximum",
    cause="Whichever part has the smaller maximum is scaled down, and the other is not.",
    anchor="#derive-the-merge",
)
def first(answer):
    for parts in (([5.0], [1.0, 2.0]), ([3.0, 3.0], [3.0]), ([-2.0, -4.0], [-3.0])):
        compare(answer.merge(*pairs_of(parts)), [*parts[0], *parts[1]], 1, f"parts {parts[0]} and {parts[1]}")


@EXERCISE.check(
    "parts far apart",
    cause="Only a difference of at most 0 may be exponentiated: exp of anything above 88.7 is infinite in float32.",
    anchor="#derive-the-merge",
)
def far(answer):
    for parts in (([1000.0], [1001.0, 999.0]), ([-1000.0], [-1001.0]), ([100.0], [-100.0]), ([-100.0], [100.0])):
        compare(answer.merge(*pairs_of(parts)), [*parts[0], *parts[1]], 1, f"parts {parts[0]} and {parts[1]}")


@EXERCISE.check(
    "the identity changes nothing",
    cause="Which pair belongs to no scores at all?",
    anchor="#nothing-and-masked-parts",
)
def neutral(answer):
    nothing = answer.identity()
    for pair in ((3.0, 2.5), (-1e9, 1.0), (-3.0e38, 1.5), (1000.0, 7.0)):
        equal(list(answer.merge(pair, nothing)), list(pair), given=f"{pair} merged with the identity {nothing}")
        equal(list(answer.merge(nothing, pair)), list(pair), given=f"the identity {nothing} merged with {pair}")


@EXERCISE.check(
    "parts in which nothing counts",
    cause="-inf - -inf is NaN. Two parts without a score that counts make a part without one.",
    anchor="#nothing-and-masked-parts",
)
def masked(answer):
    nothing = [-INF, 0.0]
    equal(list(answer.merge((-INF, 0.0), (-INF, 0.0))), nothing, given="two fully masked parts")
    equal(list(answer.statistics([-INF] * 4)), nothing, given="the statistics of four scores of -inf")
    equal(list(answer.statistics([])), nothing, given="the statistics of no scores")


@EXERCISE.check("the pair of a row", anchor="#derive-the-merge")
def row(answer):
    generator = random.Random(1)
    for centre in (0.0, 100.0, -100.0):
        scores = [f32(centre + generator.uniform(-3, 3)) for _ in range(50)]
        compare(answer.statistics(scores), scores, 50, f"50 scores near {centre:g}")
    for scores in ([4.0], [1.0, -INF, 2.0], [-INF, -INF, 0.5], [0.5, -INF], [7.0] * 9):
        compare(answer.statistics(scores), scores, len(scores), f"scores {scores}")


LEFT_OVER = "With an odd number of pairs the last one has no neighbour: it goes on to the next level as it is."


@EXERCISE.check(
    "a chain and a tree take every pair once, in order",
    cause="Every pair counts exactly once. The mathematics would allow another order; this contract keeps it.",
    anchor="#chain-or-tree",
)
def once(answer):
    for count in (1, 2, 3, 5, 8, 13):
        named = [((i,), 1.0) for i in range(count)]

        def joined(one, other):
            mine = () if one[0] == -INF else one[0]
            theirs = () if other[0] == -INF else other[0]
            return (*mine, *theirs), one[1] + other[1]

        for name, run in (("chain", answer.chain), ("tree", answer.tree)):
            first, given = run(named, joined)[0], f"which pairs the {name} of {count} takes"
            taken = [] if first == -INF else list(first)
            missing = [number for number in range(count) if number not in taken]
            if missing and not set(taken) - set(range(count)):
                left = (
                    " and ".join(map(str, missing)) if len(missing) < 3 else f"{missing[0]} and {len(missing) - 1} more"
                )
                fail(
                    f"The {name} of {count} pairs leaves out pair {left}.",
                    given=given,
                    expected=list(range(count)),
                    got=taken,
                    cause=LEFT_OVER if name == "tree" and count % 2 and missing[-1] == count - 1 else "",
                )
            equal(taken, list(range(count)), given=given)
    for name, run in (("chain", answer.chain), ("tree", answer.tree)):
        equal(list(run([], answer.merge)), [-INF, 0.0], given=f"the {name} of no pairs")


@EXERCISE.check(
    "every order and every grouping",
    cause="On paper the merge is associative and commutative; in float32 the sum may differ in its last bits only.",
    anchor="#every-order",
)
def orders(answer):
    parts = [[1.0, 2.0, -INF], [30.0, 29.5], [-INF, -INF], [-40.0], [28.0]]
    scores = [score for part in parts for score in part]
    for order in itertools.permutations(range(len(parts))):
        shuffled = pairs_of([parts[i] for i in order])
        left = answer.chain(shuffled, answer.merge)
        compare(left, scores, len(parts), f"parts in the order {order}, as a chain")
        paired = answer.tree(shuffled, answer.merge)
        compare(paired, scores, len(parts), f"parts in the order {order}, as a tree")


@EXERCISE.check(
    "a chain is long and a tree is shallow",
    cause="In a chain each merge waits for the one before; in a tree neighbours are merged at the same time.",
    anchor="#chain-or-tree",
)
def depth(answer):
    def waited(one, other):
        # The identity has waited for nothing; the second number counts the merges on the longest way.
        return 0.0, max(one[1], other[1]) + 1

    for count in (1, 2, 5, 8, 13, 64):
        pairs = [(0.0, 0)] * count
        equal(int(answer.chain(pairs, waited)[1]), count, given=f"merges on the longest way, a chain of {count}")
        levels = math.ceil(math.log2(count)) if count > 1 else 0
        equal(int(answer.tree(pairs, waited)[1]), levels, given=f"merges on the longest way, a tree of {count}")


@EXERCISE.check("weights from parts of any size", anchor="#exercise")
def weights(answer):
    generator = random.Random(2)
    scores = [f32(generator.uniform(-60, 60)) for _ in range(37)] + [-INF] * 11
    highest, total = exact(scores)
    expected = [math.exp(score - highest) / total for score in scores]
    for part in (1, 5, 8, 48, 100):
        got = answer.softmax_in_parts(scores, part)
        close(got, expected, 2.0**-24 * 400, given=f"48 scores, the last 11 at -inf, in parts of {part}")
    equal(answer.softmax_in_parts([-INF] * 6, 2), [math.nan] * 6, given="six scores of -inf, in parts of 2")


def timed(answer, device):
    """What `lessons scratch` times: the weights of a row of 2000 in parts of 64."""
    generator = random.Random(3)
    scores = [f32(generator.uniform(-3, 3)) for _ in range(2000)]
    return lambda: answer.softmax_in_parts(scores, 64)
