"""Error budgets as figures: what each tolerance consists of, the worst error that was measured, and the share used."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING

from kernels.figures.charts import bar_chart
from kernels.figures.html import Markup, data_table, escape

if TYPE_CHECKING:
    from kernels.ops.error_budget import Budget, Measured, Term

SUPERSCRIPT = str.maketrans("-0123456789", "⁻⁰¹²³⁴⁵⁶⁷⁸⁹")


def error_budget_table(measured: Sequence[Measured], caption: str = "") -> str:
    """The terms of each tolerance in words and numbers, then the tolerance, the worst error and the share used.

    One group of rows for each measured result, with its dtype, the length of its longest sum and the unit roundoff in
    the heading. Tolerance and error are those of the element that uses most of its budget. A result outside of its
    budget is marked. ValueError where nothing was measured.
    """
    if not measured:
        raise ValueError("an error budget has no rows: nothing was measured.")
    rows: list[tuple[object, ...]] = []
    groups, marked = [], []
    for each in measured:
        found = each.budget
        before = len(rows)
        rows += [_term_row(term) for term in found.terms]
        if found.smallest:
            rows.append(("allowed even where the result is 0", "", "", _size(found.smallest)))
        if not found.terms:
            rows.append(("no rounding: the result is exact", "", "", "0"))
        rows.append((_tolerance_words(each), "", "", _size(found.allows(_finite(each.expected)))))
        at = f", at [{', '.join(map(str, each.at))}]" if each.at else ""
        worst = f"worst of {each.elements:,} errors" if each.elements > 1 else "error"
        rows.append((f"{worst}{at}", "", "", _size(each.error)))
        marked.append(len(rows))
        rows.append(("share of the budget used", "", "", _used(each)))
        groups.append((_heading(each), len(rows) - before))
    headers = ("what may go wrong", "roundoffs", "each of", "size")
    return data_table(headers, rows, caption or "Error budgets", groups, numeric=(1, 2, 3), marked=marked, beside=True)


def error_budget_chart(measured: Sequence[Measured], caption: str = "") -> str:
    """The share of its budget that each measured result uses, as bars in percent: 100 is the tolerance.

    ValueError where a result has a NaN or an infinity that should not be there: no bar is that long.
    """
    bars = []
    for each in measured:
        if not math.isfinite(each.used):
            raise ValueError(
                f"element {each.at} of {each.name or 'the result'} is {each.got} and should be {each.expected}; "
                f"its share of the budget has no bar. Use error_budget_table."
            )
        bars.append((f"{each.name}, {_case(each.budget)}" if each.name else _case(each.budget), 100 * each.used))
    over = [name for (name, _), each in zip(bars, measured, strict=True) if not each.within]
    return bar_chart(
        bars, "% of the budget", caption or "Share of the error budget used", marked=over, heading="result"
    )


def power_of_two(value: float) -> str:
    """ "2⁻²⁴" for 2.0**-24; other numbers with two digits."""
    mantissa, exponent = math.frexp(value)
    return f"2{str(exponent - 1).translate(SUPERSCRIPT)}" if mantissa == 0.5 else f"{value:.2g}"


def _term_row(term: Term) -> tuple[object, ...]:
    from kernels.ops.error_budget import UNIT_ROUNDOFF

    count = f"{term.roundoffs:.3g}"
    if term.count and term.count != count:
        count = f"{term.count} = {count}"
    unit = power_of_two(UNIT_ROUNDOFF[term.dtype])
    if term.of is not None:
        unit = f"{unit} · {term.of:.3g}"
    return term.words, count, unit, _size(term.size)


def _tolerance_words(each: Measured) -> str:
    if each.budget.rtol and math.isfinite(each.expected):
        return f"tolerance: {_size(each.budget.atol)} + {_size(each.budget.rtol)} · |{each.expected:.3g}|"
    return "tolerance"


def _case(found: Budget) -> str:
    return f"{found.dtype}, " + (f"sums of {found.length:,}" if found.length > 1 else "no sum")


def _heading(each: Measured) -> str:
    from kernels.ops.error_budget import UNIT_ROUNDOFF

    words = f"{each.name}: {_case(each.budget)}" if each.name else _case(each.budget)
    unit = UNIT_ROUNDOFF.get(each.budget.dtype)
    return f"{words}; unit roundoff {power_of_two(unit)} = {_size(unit)}" if unit else words


def _used(each: Measured) -> object:
    if not math.isfinite(each.used):
        return Markup(f'<span class="kl-mark kl-mark--bad">over</span>{escape(f"{each.got:g}")}')
    share = f"{each.used:.0%}" if each.used >= 0.1 or not each.used else f"{each.used:.2%}"
    return share if each.within else Markup(f'<span class="kl-mark kl-mark--bad">over</span>{share}')


def _size(value: float) -> str:
    return "0" if value == 0 else f"{value:.1e}" if math.isfinite(value) else "not a number"


def _finite(value: float) -> float:
    return value if math.isfinite(value) else 0.0
