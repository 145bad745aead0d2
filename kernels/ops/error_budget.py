"""Error budgets: where a tolerance comes from, term by term, and how much of it a result uses.

A comparison with a better reference needs a tolerance, and a tolerance needs a reason. Here it is a sum of terms. Each
is a number of roundoffs of one dtype, with the words for what causes them. A *roundoff* (unit roundoff) of a dtype is
the largest relative error of rounding one real number to it: 2**-24 for float32. An element passes if
|got - expected| <= atol + rtol * |expected|; what it uses of its budget is the left side over the right one.

The bounds on sums are those of N. J. Higham, Accuracy and Stability of Numerical Algorithms, chapter 4: n - 1
roundoffs of the sum of the magnitudes for additions in sequence, ceil(log2 n) for a balanced tree, and about sqrt(n) if
the single errors are like the steps of a random walk (a rule of thumb, which inputs that all round in one direction
break).

Nothing here imports torch: numbers and nested lists are enough, and tensors and arrays are taken as well.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

from kernels.ops import op as operators

UNIT_ROUNDOFF = {**operators.ROUNDOFF, "float64": 2.0**-53}
SMALLEST = {**operators.SMALLEST, "float64": 2.0**-1022}
AROUND = 4  # the few operations around a sum: a product, a shift, a division, a root
SUMS = {
    "walk": ("errors of the additions, like a random walk", lambda n: (math.sqrt(n), f"√{n:,}")),
    "sequence": ("additions one after the other, at worst", lambda n: (n - 1, f"{n:,} − 1")),
    "tree": ("additions two and two, at worst", lambda n: (math.ceil(math.log2(n)), f"⌈log₂ {n:,}⌉")),
}


@dataclass(frozen=True)
class Term:
    """`roundoffs` of `dtype`, caused by what `words` says; `count` is the same number as a formula.

    Where `of` is given, it is the size of the number that is rounded, and the term allows an absolute error; left out,
    the error is relative to the result.
    """

    words: str
    roundoffs: float
    dtype: str
    count: str = ""
    of: float | None = None

    @property
    def size(self) -> float:
        return self.roundoffs * UNIT_ROUNDOFF[self.dtype] * (1.0 if self.of is None else self.of)


@dataclass(frozen=True)
class Budget:
    """The tolerance of one computation: `dtype` of the result, `length` of its longest sum, and the terms.

    `smallest` is the error that is allowed even for a result of zero: the smallest number that the dtype tells from it.
    """

    dtype: str
    length: int
    terms: tuple[Term, ...]
    smallest: float = 0.0

    @property
    def rtol(self) -> float:
        return math.fsum(term.size for term in self.terms if term.of is None)

    @property
    def atol(self) -> float:
        return self.smallest + math.fsum(term.size for term in self.terms if term.of is not None)

    def allows(self, expected: float) -> float:
        """The largest absolute error of an element that should be `expected`."""
        return self.atol + self.rtol * abs(expected)


@dataclass(frozen=True)
class Measured:
    """The element that uses most of its budget: where it is, what came out, what should have, and both errors.

    `used` is the share of the budget, 1 at the tolerance; infinite where a number came out as NaN or infinity.
    """

    name: str
    budget: Budget
    elements: int
    at: tuple[int, ...] = ()
    got: float = 0.0
    expected: float = 0.0
    error: float = 0.0
    used: float = 0.0

    @property
    def within(self) -> bool:
        return self.used <= 1.0


def budget(
    dtype: str,
    length: int = 1,
    *,
    accumulate: str = "float32",
    sums: str = "walk",
    around: int = AROUND,
    largest_exponent: float = 0.0,
    magnitude: float | None = None,
) -> Budget:
    """The budget of a computation that accumulates in one dtype and rounds its result once to another.

    dtype, accumulate: names in UNIT_ROUNDOFF. Where both are "float64", as in plain Python, the result is not rounded a
    second time. length: terms of the longest sum; 1 means no sum. sums: how they are added, a name in SUMS.
    around: further operations whose roundings reach the result. largest_exponent: the largest argument of an
    exponential, which turns its absolute error into a relative one. magnitude: the sum of the terms' magnitudes, for
    sums whose terms may cancel: the error is then relative to it and not to the result.

    With the defaults it is the tolerance of `kernels.ops.op.tolerance`. ValueError for a dtype, a length or a way of
    adding that does not exist.
    """
    for name, value in (("dtype", dtype), ("accumulate", accumulate)):
        if value not in UNIT_ROUNDOFF:
            raise ValueError(f"{name} is {value!r}, which has no known roundoff; expected {', '.join(UNIT_ROUNDOFF)}.")
    if sums not in SUMS:
        raise ValueError(f"sums is {sums!r}; expected one of {', '.join(SUMS)}.")
    if length < 1:
        raise ValueError(f"length is {length}; a sum has at least 1 term.")
    terms = []
    if not dtype == accumulate == "float64":
        terms.append(Term(f"rounding the result to {dtype}", 1, dtype))
    terms.append(Term(f"rounding what was computed in {accumulate}", 1, accumulate))
    if length > 1:
        words, count = SUMS[sums]
        roundoffs, formula = count(length)
        terms.append(Term(words, roundoffs, accumulate, formula, magnitude))
        if around:
            terms.append(Term("operations around the sum", around, accumulate))
        if largest_exponent:
            words = f"exponential of up to ±{largest_exponent:g}, or as many operations"
            terms.append(Term(words, largest_exponent, accumulate))
    return Budget(dtype, length, tuple(terms), SMALLEST[dtype])


def operator_budget(operator: operators.Op, dtype: str, shape: Sequence[int]) -> Budget:
    """The terms of the tolerance that an operator's tests use for a dtype and a shape.

    The operator's own `tolerance` is asked, and what it asks of `kernels.ops.op.tolerance` on the way is noted. An
    absolute part of its own becomes one term, with the words of the function's docstring. No terms: it has to be exact.
    ValueError where the terms do
    not add up to the tolerance: the table would explain another number than the one that is used.
    """
    asked: list[tuple[str, int, float]] = []
    original = operators.tolerance

    def noted(dtype: str, terms: int = 1, largest_exponent: float = 0.0) -> tuple[float, float]:
        asked.append((dtype, terms, largest_exponent))
        return original(dtype, terms, largest_exponent)

    operators.tolerance = noted
    try:
        rtol, atol = operator.tolerance(dtype, tuple(shape))
    finally:
        operators.tolerance = original
    if not asked and rtol == atol == 0.0:
        return Budget(dtype, 1, ())
    if len(asked) != 1:
        raise ValueError(
            f"{operator.name} asked {len(asked)} times for a tolerance; its terms are known if it asks once."
        )
    asked_dtype, length, exponent = asked[0]
    found = budget(asked_dtype, length, largest_exponent=exponent)
    if atol != found.smallest:
        words = " ".join(
            (operator.tolerance.__doc__ or "a sum near zero keeps the absolute error of its terms").split()
        )
        own = Term(words.rstrip("."), 1, "float32", of=atol / UNIT_ROUNDOFF["float32"])
        found = Budget(dtype, length, (*found.terms, own))
    if not (math.isclose(found.rtol, rtol, rel_tol=1e-12) and math.isclose(found.atol, atol, rel_tol=1e-12)):
        raise ValueError(
            f"the tolerance of {operator.name} for {dtype} and {tuple(shape)} is {rtol:g} and {atol:g}, but its terms "
            f"add up to {found.rtol:g} and {found.atol:g}."
        )
    return found


def measure(got: Any, expected: Any, found: Budget, name: str = "") -> Measured:
    """The element of `got` that uses most of its budget.

    got, expected: numbers, nested lists, arrays or tensors of one shape; ValueError where the shapes differ. NaN and
    infinities must stand where `expected` has them.
    """
    worst, elements = Measured(name, found, 0), 0
    for (at, value), (place, right) in _pairs(got, expected):
        if at != place:
            raise ValueError(f"the result has an element {at} where {place} was expected: the shapes differ.")
        elements += 1
        if value == right or (math.isnan(value) and math.isnan(right)):
            error = used = 0.0
        elif not (math.isfinite(value) and math.isfinite(right)):
            error = used = math.inf
        else:
            error, allowed = abs(value - right), found.allows(right)
            used = error / allowed if allowed else math.inf
        if elements == 1 or used > worst.used:
            worst = Measured(name, found, 0, at, value, right, error, used)
    return replace(worst, elements=elements)


def measure_function(
    function: Callable[..., Any],
    reference: Callable[..., Any],
    cases: Iterable[tuple],
    found: Budget,
    name: str = "",
) -> Measured:
    """`measure` of `function(*case)` against `reference(*case)`, the worst of all cases.

    `reference` should be better than what is measured by many roundoffs: float64 for float32; for plain Python, whose
    numbers are float64, `math.fsum` or `fractions.Fraction`.
    """
    name = name or getattr(function, "__name__", "")
    return worst_of([measure(function(*case), reference(*case), found, name) for case in cases])


def measure_operator(
    operator: operators.Op,
    dtype: str,
    shape: Sequence[int],
    seeds: Sequence[int] = (0, 1, 2),
    implementation: str = "triton",
    padding: int = 3,
) -> Measured:
    """The worst error of an operator on its own seeded inputs, on the CPU, against its reference in float64."""
    found = operator_budget(operator, dtype, shape)
    call = operator.implementation(implementation).call
    measured = []
    for seed in seeds:
        tensors = operator.inputs(tuple(shape), dtype, "cpu", seed, padding)
        outs, wanted = call(*tensors), operator.reference(*tensors)
        pairs = zip(outs, wanted, strict=True) if isinstance(wanted, tuple) else [(outs, wanted)]
        measured += [measure(out, want, found, operator.name) for out, want in pairs]
    return worst_of(measured)


def worst_of(measured: Sequence[Measured]) -> Measured:
    """The one that uses most of its budget, with the elements of all. ValueError where there is none."""
    if not measured:
        raise ValueError("nothing was measured: there is no case.")
    worst = max(measured, key=lambda each: each.used)
    elements = sum(each.elements for each in measured)
    return replace(worst, elements=elements)


def _pairs(got: Any, expected: Any) -> Iterator[tuple[tuple[tuple[int, ...], float], tuple[tuple[int, ...], float]]]:
    """The elements of both with their indices, in order. ValueError where one has more than the other."""
    try:
        yield from zip(_elements(_plain(got)), _elements(_plain(expected)), strict=True)
    except ValueError:
        raise ValueError("the result and what was expected do not have the same number of elements.") from None


def _plain(values: Any) -> Any:
    """Nested lists of numbers, or a number."""
    if hasattr(values, "detach"):  # a tensor; float64 holds every value of the shorter dtypes
        values = values.detach().double()
    return values.tolist() if hasattr(values, "tolist") else values


def _elements(values: Any, at: tuple[int, ...] = ()) -> Iterator[tuple[tuple[int, ...], float]]:
    if isinstance(values, (list, tuple)):
        for index, value in enumerate(values):
            yield from _elements(value, (*at, index))
    else:
        yield at, float(values)
