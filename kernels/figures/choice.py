"""Which way to write an operation, as figures: every case with its times, a summary by operator, and how often a way is
fast enough.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from kernels.figures.charts import line_chart
from kernels.figures.html import MISSING, Markup, data_table, escape, number, shape_text
from kernels.figures.results import origin_words

if TYPE_CHECKING:
    from kernels.bench.choice import Case, Score


def case_table(cases: Sequence[Case], caption: str = "") -> str:
    """Every case: each way's median and spread in µs, and its time over the best, grouped by operator.

    The fastest is in bold, and so is who differs from it by no more than both spreads. `—` where a way was not measured
    or gave a wrong result. The caption says so, and names GPU, day and commit unless one is given.
    """
    from kernels.bench.choice import WAYS

    rows, groups = [], []
    for case in cases:
        name = f"{case.op}, {case.dtype}"
        if groups and groups[-1][0] == name:
            groups[-1] = (name, groups[-1][1] + 1)
        else:
            groups.append((name, 1))
        rows.append((shape_text(case.shape), *(_timed(case, way) for way in WAYS)))
    headers = ("shape", *(f"{way}, µs" for way in WAYS))
    caption = f"{caption or _of(cases)}; in bold: the fastest, and what is within both spreads of it"
    return data_table(headers, rows, caption, groups, numeric=range(1, 1 + len(WAYS)))


def choice_table(cases: Sequence[Case], caption: str = "") -> str:
    """A row for each operator: its cases, and for each way the mean of its time over the best and the cases it wins.

    The mean is geometric, over the cases that the way was measured in. A case that several ways share counts for each.
    """
    from kernels.bench.choice import WAYS, mean_ratio

    rows = []
    for op in dict.fromkeys(case.op for case in cases):
        mine = [case for case in cases if case.op == op]
        cells: list[object] = []
        for way in WAYS:
            mean, won = mean_ratio(mine, way), sum(way in case.winners for case in mine)
            words = MISSING if mean is None else f"{_times(mean)}<br><small>won {won}</small>"
            cells.append(Markup(words))
        rows.append((Markup(f"<code>{escape(op)}</code>"), len(mine), *cells))
    return data_table(("operator", "cases", *WAYS), rows, caption or _of(cases), numeric=range(1, 2 + len(WAYS)))


def enough_chart(cases: Sequence[Case], tolerated: Sequence[float], caption: str = "") -> str:
    """For each way, the share of cases in which it is at most so many percent slower than the best."""
    from kernels.bench.choice import WAYS, enough

    series = {}
    for way in WAYS:
        shares = [(100 * each, enough(cases, way, each)) for each in tolerated]
        series[way] = [(x, None if share is None else 100 * share) for x, share in shares]
    return line_chart(
        series,
        "% slower than the fastest that is tolerated",
        "% of the cases",
        caption or "How often a way is fast enough",
        log_x=all(each > 0 for each in tolerated),
    )


def score_table(scores: Sequence[Score], caption: str = "") -> str:
    """Rules side by side: cases, how many get a kernel, mean and worst time over the best, and where the worst is."""
    rows = [
        (each.name, each.cases, each.kernels, _times(each.mean), _times(each.worst), _case(each.worst_case))
        for each in scores
    ]
    headers = ("rule", "cases", "kernels", "mean", "worst", "worst case")
    return data_table(headers, rows, caption or "Rules on the same cases", numeric=(1, 2, 3, 4))


def _timed(case: Case, way: str) -> object:
    if way not in case.ways:
        return MISSING
    record, ratio = case.ways[way], case.ratio(way) or 1.0
    times = "fastest" if ratio == 1.0 else _times(ratio)
    shown = f"{number(record.median_us)} ± {number(record.spread_us, 2)}"
    return Markup(f"{f'<b>{shown}</b>' if way in case.winners else shown}<br><small>{times}</small>")


def _times(ratio: float) -> str:
    return f"{ratio:.2f}\u00a0×" if ratio < 100 else f"{number(ratio)}\u00a0×"  # no break within


def _case(case: Case) -> str:
    return f"{case.op}, {shape_text(case.shape)}, {case.dtype}"


def _of(cases: Sequence[Case]) -> str:
    return origin_words([next(iter(case.ways.values())) for case in cases])
