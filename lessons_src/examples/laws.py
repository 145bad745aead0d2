"""The laws that make a merge safe, put to any merge with random parts; Workshop A1 asks them of right and wrong ones.

A law takes statistics, merge and identity, and a row in three parts; it says what is broken, or "". Sums may differ by
rounding, and everything else is compared exactly.
"""

import math
import random

LAWS = {}
CLOSE = 2.0**-18  # relative: some tens of float32 roundoffs, for at most four merges
POOL = (-math.inf, -math.inf, 0.0, 0.0, 1.0, -2.0, 5.0, 60.0, -60.0, -3e38)


def law(function):
    LAWS[function.__name__.replace("_", " ")] = function
    return function


def same(one, other):
    """Whether two pairs agree: maxima exactly, sums but for rounding, NaN with NaN."""
    if one[0] != other[0] or math.isnan(one[1]) != math.isnan(other[1]):
        return False
    return math.isnan(one[1]) or abs(one[1] - other[1]) <= CLOSE * max(abs(one[1]), abs(other[1]), 1.0)


@law
def identity_from_both_sides(answer, a, b, c):
    pair, nothing = answer.statistics(a), answer.identity()
    return same(answer.merge(pair, nothing), pair) and same(answer.merge(nothing, pair), pair)


@law
def commutative(answer, a, b, c):
    one, other = answer.statistics(a), answer.statistics(b)
    return same(answer.merge(one, other), answer.merge(other, one))


@law
def associative(answer, a, b, c):
    x, y, z = (answer.statistics(part) for part in (a, b, c))
    return same(answer.merge(answer.merge(x, y), z), answer.merge(x, answer.merge(y, z)))


@law
def the_pair_of_the_whole(answer, a, b, c):
    def exact(scores):
        highest = max(scores, default=-math.inf)
        return highest, sum(math.exp(s - highest) for s in scores) if highest > -math.inf else 0.0

    return same(answer.merge(exact(a), exact(b)), exact(a + b))


def holds(name, answer, parts):
    """Whether a law holds for three parts; an answer that raises breaks it."""
    try:
        return LAWS[name](answer, *parts)
    except (ArithmeticError, ValueError, TypeError):
        return False


def counterexample(name, answer, tries=300, seed=0):
    """The smallest three parts found for which a law does not hold, None where all of `tries` keep it.

    Parts hold up to three scores of `POOL`. What breaks the law is made smaller: one score is taken out, or becomes 0,
    as long as the law stays broken.
    """
    generator = random.Random(seed)
    for _ in range(tries):
        parts = [[generator.choice(POOL) for _ in range(generator.randrange(4))] for _ in range(3)]
        if not holds(name, answer, parts):
            while smaller := next((each for each in _smaller(parts) if not holds(name, answer, each)), None):
                parts = smaller
            return parts
    return None


def _smaller(parts):
    for i, part in enumerate(parts):
        for j, score in enumerate(part):
            without = [*part[:j], *part[j + 1 :]]
            yield [*parts[:i], without, *parts[i + 1 :]]
            if score != 0.0:
                yield [*parts[:i], [*part[:j], 0.0, *part[j + 1 :]], *parts[i + 1 :]]
