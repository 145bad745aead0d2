"""Which way to write an operation: the committed records asked case by case, and a rule that they are used to test.

The ways are ordered by the work that they ask for: PyTorch's own calls, the same formula through torch.compile, a
kernel in Triton, a kernel in CUDA C++. A *case* is one operator on one shape and dtype. Nothing is timed here.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from kernels.bench.compare import geometric_mean, rows, slower
from kernels.bench.results import Record

CALLS = ("torch", "cudnn", "flash")  # attention has more than one kernel in PyTorch
PYTORCH, COMPILE, TRITON, CUDA = WAYS = ("PyTorch", "torch.compile", "Triton", "CUDA")


@dataclass(frozen=True)
class Case:
    """One operator on one shape and dtype, with the record of each way that gave a right result and was timed."""

    op: str
    shape: tuple[int, ...]
    dtype: str
    ways: dict[str, Record]

    @property
    def best(self) -> str:
        """The way with the shortest time."""
        return min(self.ways, key=self.time_us)

    def time_us(self, way: str) -> float:
        return self.ways[way].median_us or math.inf

    def ratio(self, way: str) -> float | None:
        """How many times as long as the best way it takes; None where it was not measured."""
        return self.time_us(way) / self.time_us(self.best) if way in self.ways else None

    @property
    def winners(self) -> tuple[str, ...]:
        """The best way, and those that are not slower than it by more than both spreads."""
        best = self.ways[self.best]
        return tuple(way for way in WAYS if way in self.ways and not slower(self.ways[way], best))

    def cheapest(self, tolerated: float) -> str:
        """The way that asks for the least work and takes at most 1 + `tolerated` times the best time."""
        return next(way for way in WAYS if (self.ratio(way) or math.inf) <= 1 + tolerated)


def limited_by_copies(op: Any) -> bool:
    """Whether an operator's bytes take longer than its arithmetic: fewer than 20 operations a byte, all GPUs of today.

    The rules of this module look at the share of the copy rate; of a product of matrices it says nothing.
    """
    shape = op.benches[0].shape
    return op.flops(shape) < 20 * op.bytes_moved(shape, op.dtypes[0])


def cases(records: Iterable[Record], shapes: Iterable[tuple[int, ...]] | None = None) -> list[Case]:
    """A case for each shape and dtype that was measured with our Triton kernel and with at least one other way.

    PyTorch is the fastest of its own calls that gave a right result, otherwise the formula in eager mode. CUDA is the
    fastest of our kernels in CUDA C++. `shapes` keeps only these.
    """
    wanted = None if shapes is None else set(shapes)
    found = []
    for row in rows(records):
        if wanted is not None and row.shape not in wanted:
            continue
        timed = {
            each.implementation: each for each in (row.ours, *row.others) if each.status == "ok" and each.median_us
        }
        twins = [each for each in timed.values() if each.ours and each.source.startswith("cuda/")]
        calls = [timed[name] for name in CALLS if name in timed]
        ways = {
            PYTORCH: min(calls, key=lambda each: each.median_us or math.inf, default=timed.get("eager")),
            COMPILE: timed.get("torch.compile"),
            TRITON: timed.get(row.ours.implementation),
            CUDA: min(twins, key=lambda each: each.median_us or math.inf, default=None),
        }
        present = {way: record for way, record in ways.items() if record is not None}
        if TRITON in present and len(present) > 1:
            found.append(Case(row.op, row.shape, row.dtype, present))
    return found


def enough(found: Sequence[Case], way: str, tolerated: float) -> float | None:
    """In which share of the cases that it was measured in a way takes at most 1 + `tolerated` times the best time."""
    ratios = [case.ratio(way) for case in found if way in case.ways]
    return sum(ratio <= 1 + tolerated for ratio in ratios) / len(ratios) if ratios else None


def mean_ratio(found: Sequence[Case], way: str) -> float | None:
    """The geometric mean of a way's time over the best, over the cases that it was measured in."""
    return geometric_mean(case.ratio(way) for case in found)


def judged(found: Iterable[Case], way: str = COMPILE) -> list[Case]:
    """The cases in which `way` was measured and its data came from memory, so that a share of the copy limit says
    something."""
    return [
        case for case in found if way in case.ways and case.ways[way].fraction_of_limit and not case.ways[way].in_l2
    ]


def stop_at(found: Iterable[Case], tolerated: float, way: str = COMPILE) -> float:
    """The share of the copy limit from which on no case of these was faster by more than `tolerated` in another way.

    The least such share among those measured; infinite where even the highest was not enough.
    """
    threshold = math.inf
    for case in sorted(judged(found, way), key=lambda each: -each.ways[way].fraction_of_limit):
        if (case.ratio(way) or math.inf) > 1 + tolerated:
            break
        threshold = case.ways[way].fraction_of_limit
    return threshold


@dataclass(frozen=True)
class Score:
    """What a rule costs over some cases: geometric mean of chosen time over best, the worst, kernels to be written."""

    name: str
    cases: int
    mean: float
    worst: float
    worst_case: Case
    kernels: int


def score(name: str, found: Sequence[Case], rule: Callable[[Case], str]) -> Score:
    """The rule's choices against the best of each case. ValueError where there is no case."""
    if not found:
        raise ValueError("a rule is scored on cases; there is none.")
    ratios = [(case.ratio(rule(case)) or math.inf, case) for case in found]
    worst, at = max(ratios, key=lambda pair: pair[0])
    kernels = sum(rule(case) in (TRITON, CUDA) for case in found)
    return Score(name, len(found), geometric_mean(ratio for ratio, _ in ratios) or math.nan, worst, at, kernels)


def stop_or_write(threshold: float) -> Callable[[Case], str]:
    """The rule: keep torch.compile where it reaches `threshold` of the copy limit, otherwise write a Triton kernel."""

    def rule(case: Case) -> str:
        return COMPILE if (case.ways[COMPILE].fraction_of_limit or 0.0) >= threshold else TRITON

    return rule


def left_out(found: Sequence[Case], tolerated: float) -> list[tuple[str, float, list[float]]]:
    """For each operator: the threshold of `stop_at` found on all others, and the ratios of the cases that it keeps.

    A rule looks good on the records that it was made from. This is what it does on an operator that it has not seen.
    No ratio means that no case of the operator reaches the threshold: it says nothing about the rule.
    """
    results = []
    for op in dict.fromkeys(case.op for case in found):
        threshold = stop_at([case for case in found if case.op != op], tolerated)
        kept = [case for case in judged(found) if case.op == op and case.ways[COMPILE].fraction_of_limit >= threshold]
        results.append((op, threshold, [case.ratio(COMPILE) or math.inf for case in kept]))
    return results


def calls_until_even(slow: Record, fast: Record) -> float | None:
    """After how many calls the longer first call of `fast` is made up for; None where it is not faster."""
    gain_us = (slow.median_us or 0.0) - (fast.median_us or math.inf)
    if gain_us <= 0.0 or fast.first_call_ms is None or slow.first_call_ms is None:
        return None
    return max(0.0, 1e3 * (fast.first_call_ms - slow.first_call_ms) / gain_us)
