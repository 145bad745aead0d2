"""Every way to add up a few numbers in float32; Lab 2 runs them all."""

from itertools import combinations

from kernels.exercises.rounding import f32


def every_sum(values):
    """Every way to add up `values` two at a time, each addition rounded to float32: a list of (total, written out).

    Addition is commutative in float32 too, so a + b and b + a count as one way: 3 ways for 3 values, 15 for 4, 105
    for 5, each time the next odd number as many. No padding.
    """
    if len(values) == 1:
        return [(f32(values[0]), f"{values[0]:g}")]
    first, rest = values[0], values[1:]
    found = []
    for size in range(len(rest)):  # how many others are added up together with the first one
        for chosen in combinations(range(len(rest)), size):
            mine = [first, *(rest[i] for i in chosen)]
            others = [value for i, value in enumerate(rest) if i not in chosen]
            for left, written in every_sum(mine):
                for right, other in every_sum(others):
                    found.append((f32(left + right), f"({written} + {other})"))
    return found
