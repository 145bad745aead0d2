"""Error budgets: the terms are those of the tolerances in use, and arithmetic in too short a dtype breaks them."""

import math
import struct
import subprocess
import sys
from dataclasses import replace
from fractions import Fraction
from pathlib import Path

import pytest
import torch
import triton
import triton.language as tl

from kernels.ops import add, row_sum, softmax
from kernels.ops.error_budget import (
    SMALLEST,
    UNIT_ROUNDOFF,
    Budget,
    budget,
    measure,
    measure_function,
    measure_operator,
    operator_budget,
)
from kernels.ops.op import DTYPES, Implementation, tolerance
from kernels.ops.registry import OPS

ROOT = Path(__file__).parents[2]
U32, U64 = UNIT_ROUNDOFF["float32"], UNIT_ROUNDOFF["float64"]


def interpreted():
    if not triton.knobs.runtime.interpret:
        pytest.skip("kernels run on the CPU only under Triton's interpreter (TRITON_INTERPRET=1)")


@triton.jit
def _sum_in(x_ptr, out_ptr, x_stride_m, N, BLOCK_N: tl.constexpr, DTYPE: tl.constexpr):
    """A row sum whose running totals are rounded to DTYPE after every step."""
    m, n = tl.program_id(0), tl.arange(0, BLOCK_N)
    totals = tl.zeros((BLOCK_N,), DTYPE)
    for start in range(0, N, BLOCK_N):
        x = tl.load(x_ptr + m * x_stride_m + start + n, mask=start + n < N, other=0.0)
        totals = (totals + x.to(DTYPE)).to(DTYPE)
    tl.store(out_ptr + m, tl.sum(totals.to(tl.float32), axis=0))


def summed_in(dtype):
    def call(x):
        out = torch.empty(x.shape[0], dtype=x.dtype)
        _sum_in[(x.shape[0],)](x, out, x.stride(0), x.shape[1], BLOCK_N=16, DTYPE=dtype)
        return out

    return replace(row_sum.OP, implementations=(Implementation("triton", call, "triton", "", ours=True),))


# Those of a product or of attention are derived in their own files: they do not ask for one tolerance once.
BUDGETED = [name for name, operator in OPS.items() if len(operator.benches[0].shape) <= 2]


@pytest.mark.parametrize("name", BUDGETED)
def test_the_terms_of_every_operator_add_up_to_the_tolerance_that_its_tests_use(name):
    operator = OPS[name]
    for dtype in operator.dtypes:
        for case in (*operator.checks, *operator.benches):
            found = operator_budget(operator, dtype, case.shape)
            rtol, atol = operator.tolerance(dtype, case.shape)
            assert math.isclose(found.rtol, rtol, rel_tol=1e-12) and math.isclose(found.atol, atol, rel_tol=1e-12)
            assert all(term.words for term in found.terms)


def test_an_operator_whose_terms_are_not_those_of_its_tolerance_is_refused():
    twice = replace(add.OP, tolerance=lambda dtype, shape: (2 * add.OP.tolerance(dtype, shape)[0], SMALLEST[dtype]))
    with pytest.raises(ValueError, match="add up to"):
        operator_budget(twice, "float32", (8,))
    typed = replace(add.OP, tolerance=lambda dtype, shape: (1e-5, 1e-8))
    with pytest.raises(ValueError, match="asked 0 times"):
        operator_budget(typed, "float32", (8,))


def test_the_default_budget_is_the_tolerance_of_operators():
    for dtype in DTYPES:
        for length in (1, 2, 4097):
            assert budget(dtype, length).rtol == pytest.approx(tolerance(dtype, length)[0], rel=1e-12)
            assert budget(dtype, length).atol == tolerance(dtype, length)[1]


def test_every_operator_keeps_within_its_budget():
    interpreted()
    for operator in map(OPS.__getitem__, BUDGETED):
        shape = min(
            (case.shape for case in operator.checks if len(case.shape) == len(operator.benches[0].shape)), key=math.prod
        )
        for dtype in operator.dtypes:
            assert measure_operator(operator, dtype, shape).within


def test_a_sum_accumulated_in_too_short_a_dtype_breaks_the_budget():
    interpreted()
    shape = (2, 4097)
    assert measure_operator(summed_in(tl.float32), "float32", shape).within
    for dtype in (tl.float16, tl.bfloat16):
        broken = measure_operator(summed_in(dtype), "float32", shape)
        assert not broken.within and broken.used > 2 and broken.error > 0


def test_softmax_in_the_dtype_of_its_input_breaks_the_budget():
    def short(x):
        numerator = torch.exp(x - x.amax(dim=-1, keepdim=True))
        return numerator / numerator.sum(dim=-1, keepdim=True)

    wrong = replace(softmax.OP, implementations=(Implementation("triton", short, "torch", ""),))
    assert not measure_operator(wrong, "bfloat16", (3, 1000)).within
    assert measure_operator(wrong, "float32", (3, 1000)).within


def as_float32(value):
    return struct.unpack("f", struct.pack("f", value))[0]


def plain_sum(values):
    total = 0.0
    for value in values:
        total += value
    return total


def short_sum(values):
    total = 0.0
    for value in values:
        total = as_float32(total + value)
    return total


def exact_sum(values):
    return float(sum(Fraction(value) for value in values))


def test_plain_python_keeps_the_budget_of_float64_and_float32_totals_break_it():
    cases = [([0.1] * 1000,), ([1.0 / k for k in range(1, 1001)],)]
    sequence = budget("float64", 1000, accumulate="float64", sums="sequence")
    assert 0 < measure_function(plain_sum, exact_sum, cases, sequence).used <= 1
    assert not measure_function(short_sum, exact_sum, cases, sequence).within
    assert measure_function(short_sum, exact_sum, cases, budget("float32", 1000, sums="sequence")).within


def test_terms_that_all_round_in_one_direction_break_a_random_walk_and_not_the_bound():
    case = [([0.1] * 1000,)]
    walk = budget("float64", 1000, accumulate="float64")
    assert not measure_function(plain_sum, exact_sum, case, walk).within


def test_cancelling_terms_need_the_sum_of_their_magnitudes():
    values = [1e8, 1.0, -1e8]
    relative = budget("float32", 3, sums="sequence")
    assert not measure(short_sum(values), 1.0, relative).within
    magnitude = budget("float32", 3, sums="sequence", magnitude=sum(map(abs, values)))
    assert measure(short_sum(values), 1.0, magnitude).within
    assert magnitude.atol == pytest.approx(2 * U32 * 200000001.0)


def test_the_count_of_roundoffs_follows_the_way_of_adding():
    counts = {
        sums: budget("float64", 1000, accumulate="float64", sums=sums, around=0).rtol
        for sums in ("walk", "tree", "sequence")
    }
    assert counts == pytest.approx({"walk": (1 + 1000**0.5) * U64, "tree": 11 * U64, "sequence": 1000 * U64})


def test_the_worst_element_is_named_with_its_errors():
    found = Budget("float32", 1, (), smallest=0.5)
    worst = measure([[1.0, 2.25], [3.0, 5.0]], [[1.0, 2.0], [3.0, 4.0]], found, "rows")
    assert (worst.at, worst.got, worst.expected, worst.error, worst.used) == ((1, 1), 5.0, 4.0, 1.0, 2.0)
    assert worst.elements == 4 and not worst.within


@pytest.mark.parametrize("value", (math.nan, math.inf, -math.inf))
def test_a_value_that_is_no_number_is_over_any_budget_unless_it_belongs_there(value):
    assert measure([1.0, value], [1.0, 2.0], budget("float32")).used == math.inf
    assert measure([1.0, 2.0], [1.0, value], budget("float32")).used == math.inf
    assert measure([1.0, value], [1.0, value], budget("float32")).used == 0.0


def test_what_has_no_budget_is_refused_with_a_sentence():
    with pytest.raises(ValueError, match="dtype is 'int7'"):
        budget("int7")
    with pytest.raises(ValueError, match="sums is 'heap'"):
        budget("float32", 3, sums="heap")
    with pytest.raises(ValueError, match="at least 1 term"):
        budget("float32", 0)
    with pytest.raises(ValueError, match="same number of elements"):
        measure([1.0], [1.0, 2.0], budget("float32"))
    with pytest.raises(ValueError, match="shapes differ"):
        measure([[1.0], [2.0]], [[1.0, 2.0]], budget("float32"))
    with pytest.raises(ValueError, match="no case"):
        measure_function(plain_sum, exact_sum, [], budget("float32"))


def test_plain_python_needs_neither_torch_nor_triton():
    code = (
        "import sys; from kernels.ops.error_budget import budget, measure; measure([1.0], [1.0], budget('float64'));"
        "print(*sorted({'torch', 'triton', 'numpy'} & set(sys.modules)))"
    )
    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=True)
    assert done.stdout.strip() == ""
