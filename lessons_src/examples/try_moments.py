#!/usr/bin/env python3
"""Puts a merge of (count, mean, sum of squared distances) to the test: `try_moments.py [FILE.py]`.

FILE.py defines merge_moments(one, other); without it, the one below is tried. Needs Python alone.
"""

import argparse
import random
import runpy
import sys
from numbers import Real
from pathlib import Path
from statistics import fmean, pvariance


def merge_moments(one, other):
    """Count, mean and sum of squared distances from the mean, of two parts together.

    The method: Chan, Golub and LeVeque, "Updating formulae and a pairwise algorithm for computing sample variances",
    1979.
    """
    count = one[0] + other[0]
    if count == 0:
        return 0, 0.0, 0.0
    step = other[1] - one[1]
    mean = one[1] + step * other[0] / count
    return count, mean, one[2] + other[2] + step * step * one[0] * other[0] / count


def moments(values):
    """The three numbers of a list, from the definition; (0, 0, 0) of none."""
    mean = fmean(values) if values else 0.0
    return len(values), mean, sum((value - mean) ** 2 for value in values)


def is_triple(result):
    """Whether it is three numbers in a row."""
    return isinstance(result, (tuple, list)) and len(result) == 3 and all(isinstance(each, Real) for each in result)


def complaint(merge, seed=0):
    """What is wrong with a merge, as a sentence, and "" if nothing was found."""
    generator = random.Random(seed)
    for centre in (0.0, 1000.0, -1e6):
        allowed = (
            256 * 2.0**-53 * max(1.0, abs(centre))
        )  # up to 20 numbers, a few roundings each, of numbers this large
        for _ in range(40):
            parts = [[generator.gauss(centre, 1.0) for _ in range(generator.randrange(6))] for _ in range(4)]
            values = [value for part in parts for value in part]
            given = f"parts of {', '.join(str(len(part)) for part in parts)} numbers"
            result = (0, 0.0, 0.0)
            try:
                for part in parts:
                    result = merge(result, moments(part))
                    if not is_triple(result):
                        return f"{given}: it returned {result!r}, and should return three numbers" + (
                            "; is there no return?" if result is None else ""
                        )
            except ZeroDivisionError:
                return f"{given}: division by zero"
            count, mean, squares = result
            if count != len(values):
                return f"{given}: a count of {count}"
            if not values:
                continue
            if abs(mean - fmean(values)) > allowed:
                return f"{count} numbers near {centre:g}: a mean of {mean:.6f}, and it is {fmean(values):.6f}"
            right = pvariance(values)
            if abs(squares / count - right) > allowed * max(right, 1.0):
                return f"{count} numbers near {centre:g}: a variance of {squares / count:.6f}, and it is {right:.6f}"
    return ""


def main(arguments=None):
    parser = argparse.ArgumentParser(description="Try a merge of mean and variance.")
    parser.add_argument("file", nargs="?", metavar="FILE.py", help="defines merge_moments; left out: ours")
    chosen = parser.parse_args(arguments)
    merge = merge_moments
    if chosen.file:
        if not Path(chosen.file).is_file():
            parser.error(f"there is no file {chosen.file} in {Path.cwd()}; write it there, or name the folder as well.")
        merge = runpy.run_path(chosen.file).get("merge_moments")
        if merge is None:
            parser.error(f"{chosen.file} defines no merge_moments; it takes two triples and returns one.")
    said = complaint(merge)
    print(said or "right: count, mean and variance of parts of every size, empty ones too")
    return 1 if said else 0


if __name__ == "__main__":
    sys.exit(main())
