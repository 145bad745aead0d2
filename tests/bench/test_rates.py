"""Rates and statistics: the published mistakes of units, brackets and zeros, with their numbers."""

import math

import pytest

from kernels.bench.rates import median, rates, ratio, spread


def test_fp16_matmul_with_fp32_output() -> None:
    size = 4096
    moved = 2 * size * size * 2 + size * size * 4  # the output counts four bytes, and the factor binds to each term
    found = rates(moved, 2 * size**3, 200.0)
    assert found.gb_per_s == pytest.approx(671.09, abs=0.005)
    assert found.tflop_per_s == pytest.approx(687.19, abs=0.005)


def test_add_in_gb() -> None:
    moved = 3 * 4 * 2**28
    assert moved == 3_221_225_472
    found = rates(moved, 2**28, 800.0).gb_per_s
    assert found == pytest.approx(4026.5, abs=0.05)


def test_a_looped_softmax_moves_half_as_much_again() -> None:
    elements = 512 * 131072
    once, twice = rates(2 * 2 * elements, 0, 100.0), rates(3 * 2 * elements, 0, 100.0)
    assert twice.gb_per_s / once.gb_per_s == pytest.approx(1.5)


@pytest.mark.parametrize("time_us", [None, 0.0, -1.0, math.nan, math.inf])
def test_no_time_gives_no_rate(time_us: float | None) -> None:
    found = rates(1000, 1000, time_us)
    assert (found.gb_per_s, found.tflop_per_s) == (None, None)


def test_no_work_gives_no_rate() -> None:
    found = rates(0, 0, 5.0)
    assert (found.gb_per_s, found.tflop_per_s) == (None, None)


def test_counts_are_integers() -> None:
    with pytest.raises(TypeError, match="bytes_moved must be an integer"):
        rates(1e9, 0, 1.0)
    with pytest.raises(ValueError, match="flops must not be negative"):
        rates(1, -1, 1.0)


def test_one_sample_has_no_spread() -> None:
    assert (median([3.5]), spread([3.5])) == (3.5, None)
    assert (median([]), spread([])) == (None, None)


def test_spread_is_between_the_quartiles() -> None:
    assert spread([1.0, 2.0, 3.0, 4.0, 100.0]) == 2.0


def test_ratio_over_nothing() -> None:
    assert ratio(3.0, 0.0) is None
    assert ratio(None, 2.0) is None
    assert ratio(3.0, 2.0) == 1.5
