"""The figure of an error budget shows its terms, marks what is over, and refuses what it cannot draw."""

import math
import re

import pytest

from kernels.figures import error_budget_chart, error_budget_table
from kernels.figures.error_budget import power_of_two
from kernels.ops.error_budget import Budget, budget, measure


def texts(html):
    return re.sub(r"<[^>]+>", " ", html)


def test_each_term_stands_there_in_words_and_in_numbers():
    found = budget("bfloat16", 1000, largest_exponent=104)
    shown = texts(error_budget_table([measure([1.0], [1.0 + 2.0**-9], found, "softmax")]))
    for words in ("softmax: bfloat16, sums of 1,000", "unit roundoff 2⁻⁸ = 3.9e-03", "√1,000 = 31.6", "2⁻²⁴", "104"):
        assert words in shown
    assert all(term.words in shown for term in found.terms)
    assert "50%" in shown or "49%" in shown


def test_the_place_of_the_worst_error_is_an_index_and_the_count_stands_apart():
    got = [[0.0] * 305, [0.0] * 304 + [1e-9]]
    shown = texts(error_budget_table([measure(got, [[0.0] * 305] * 2, budget("float32"), "softmax")]))
    assert "worst of 610 errors, at [1, 304]" in shown
    two = measure([0.0, 1.0], [0.0, 2.0], budget("float32"))
    assert "worst of 2 errors, at [1]" in texts(error_budget_table([two]))
    assert re.search(r" error +1\.0e\+00", texts(error_budget_table([measure(1.0, 2.0, budget("float32"))])))


def test_a_result_over_its_budget_is_marked_in_table_and_chart():
    inside, outside = (
        measure([1.0], [1.0 + off], budget("float32"), name) for off, name in ((1e-8, "in"), (1e-3, "out"))
    )
    html = error_budget_table([inside, outside])
    assert html.count("kl-mark--bad") == 1 and html.index("out: float32") < html.index("kl-mark--bad")
    chart = error_budget_chart([inside, outside])
    assert re.findall(r'<tr class="kl-marked"><th scope="row">([^<]+)', chart) == ["out, float32, no sum"]


def test_not_a_number_is_over_in_the_table_and_refused_by_the_chart():
    wrong = measure([math.nan], [1.0], budget("float32"), "kernel")
    assert "kl-mark--bad" in error_budget_table([wrong])
    with pytest.raises(ValueError, match="has no bar"):
        error_budget_chart([wrong])


def test_an_exact_result_has_a_budget_of_nothing():
    shown = texts(error_budget_table([measure([3], [3], Budget("int32", 1, ()), "histogram")]))
    assert "the result is exact" in shown and "0%" in shown
    with pytest.raises(ValueError, match="nothing was measured"):
        error_budget_table([])


def test_powers_of_two_are_written_as_such():
    assert power_of_two(2.0**-24) == "2⁻²⁴" and power_of_two(2.0**3) == "2³" and power_of_two(0.3) == "0.3"
