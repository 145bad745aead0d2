"""Rounding in plain Python is what numpy's smaller types do, and the sums built on it are numpy's sums."""

import math
import random

import numpy as np
import pytest

from kernels.exercises.rounding import divide32, exp32, f16, f32, rsqrt32
from lessons_src.examples import sums

SPECIAL = [0.0, -0.0, 1.0, 65504.0, 65519.0, 65520.0, -1e5, 3.4028235677973366e38, 3.5e38, -1e39, 1e-45, 6e-8, 1e-50]


def numbers():
    generator = random.Random(3)
    return SPECIAL + [generator.choice((1, -1)) * 10 ** generator.uniform(-48, 42) for _ in range(2000)]


@pytest.mark.parametrize(("rounded", "dtype"), [(f32, np.float32), (f16, np.float16)])
def test_as_numpy_rounds(rounded, dtype):
    with np.errstate(over="ignore", under="ignore"):
        for value in [*numbers(), math.inf, -math.inf]:
            assert rounded(value) == float(dtype(value)) and math.copysign(1, rounded(value)) == math.copysign(1, value)
    assert math.isnan(rounded(math.nan))


@pytest.mark.parametrize("operation", [lambda a, b: a + b, lambda a, b: a * b, lambda a, b: a / b])
def test_one_more_rounding_makes_float32_arithmetic(operation):
    generator = random.Random(4)
    with np.errstate(all="ignore"):
        for _ in range(5000):
            a, b = (f32(generator.uniform(-1, 1) * 2 ** generator.uniform(-20, 20)) for _ in range(2))
            assert f32(operation(a, b)) == float(operation(np.float32(a), np.float32(b)))


def test_exponentials_overflow_to_infinity_and_underflow_to_nothing():
    assert exp32(-math.inf) == 0 == exp32(-1e9)
    assert exp32(1e9) == exp32(89.0) == math.inf
    assert exp32(88.0) < math.inf and math.isnan(exp32(math.nan))


def test_quotients_and_roots_are_those_of_ieee_754():
    special = (0.0, -0.0, 1.0, -3.0, 1e-40, 3e38, math.inf, -math.inf, math.nan)
    with np.errstate(all="ignore"):
        for a in special:
            for b in special:
                np.testing.assert_equal(divide32(a, b), float(np.float32(a) / np.float32(b)), f"{a} / {b}")
            np.testing.assert_equal(rsqrt32(abs(a)), float(np.float32(1 / np.sqrt(np.float64(abs(a))))), f"{a}")
    assert math.isnan(rsqrt32(-1.0))


def test_sums_are_numpys():
    generator = random.Random(5)
    for count in (1, 2, 5, 8, 33, 1000):
        row = [f32(generator.gauss(0, 1)) for _ in range(count)]
        as_numpy = np.array(row, np.float32)
        assert sums.serial(row) == float(np.cumsum(as_numpy)[-1]) == sums.total(sums.one_by_one(row, count))
        padded = np.zeros(1 << (count - 1).bit_length(), np.float32)
        padded[:count] = as_numpy
        block = len(padded)
        while len(padded) > 1:
            padded = padded[: len(padded) // 2] + padded[len(padded) // 2 :]
        assert sums.tree(row) == float(padded[0]) == sums.total(sums.halves(row, block))
        assert abs(sums.compensated(row) - math.fsum(row)) <= 2 * 2.0**-24 * sum(map(abs, row))


def test_compensation_keeps_what_a_plain_sum_drops():
    row = [f32(0.1)] * 8192  # alike, so that every addition rounds in one direction
    off = [
        abs(way(row) - math.fsum(row)) / math.fsum(row) * 2**24 for way in (sums.serial, sums.tree, sums.compensated)
    ]
    assert off[0] > 100 and off[1] == 0 and off[2] < 2


def test_what_a_partial_sum_lost_is_what_it_lacks():
    for way, lost in ((sums.one_by_one, 1.0), (sums.neighbours, 1.0), (sums.halves, 0.0)):
        levels = way((1e8, 1.0, -1e8), 4)
        assert sum(partial.lost for level in levels for partial in level) == lost
        assert sums.total(levels) == 1.0 - lost


def test_a_tree_of_maxima_never_picks_its_padding():
    row = [-3.0, -1.5, -4.0, -2.5, -3.5]
    assert sums.total(sums.largest(row, 8)) == max(row)
    assert sums.largest([-math.inf] * 3, 4)[-1][0].value == -math.inf
