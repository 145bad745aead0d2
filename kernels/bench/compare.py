"""Ours against the peers that a reader would pick instead, and whether two times differ by more than they scatter."""

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from kernels.bench.rates import ratio
from kernels.bench.results import Record

OURS = "triton"
# What comes with PyTorch. The kernel of another package is shown, and is no part of a mean.
PEERS = ("torch", "torch.compile", "eager", "cudnn", "flash")

Key = tuple[str, str, str, tuple[int, ...], str, str, str]


def key(record: Record) -> Key:
    """What two records must share to be compared: operator, implementation, its choices, shape, dtype, method."""
    config = ",".join(f"{name}={value}" for name, value in sorted(record.config.items()))
    return (
        record.op,
        record.implementation,
        config,
        tuple(record.shape),
        record.dtype,
        record.timing,
        record.cache,
    )


def allowance_us(old: Record, new: Record, run_to_run: float = 0.0) -> float:
    """How far the medians of two records may lie apart: both spreads, and `run_to_run` of the old median.

    A spread is the distance between the quartiles of the samples of one run; one sample has none, and counts as 0.
    """
    return (old.spread_us or 0.0) + (new.spread_us or 0.0) + run_to_run * (old.median_us or 0.0)


def slower(new: Record, old: Record, run_to_run: float = 0.0) -> bool:
    """Whether `new` takes longer than `old` by more than `allowance_us`. False where either has no time."""
    if new.median_us is None or old.median_us is None:
        return False
    return new.median_us - old.median_us > allowance_us(old, new, run_to_run)


@dataclass(frozen=True)
class Row:
    """One shape and dtype: our kernel with its own plan, and all that was measured beside it."""

    op: str
    shape: tuple[int, ...]
    dtype: str
    ours: Record
    others: tuple[Record, ...]

    @property
    def best_peer(self) -> Record | None:
        """The fastest of PEERS that gave a right result; None where none did."""
        timed = [r for r in self.others if r.implementation in PEERS and r.median_us]
        return min(timed, key=lambda r: r.median_us or 0.0, default=None)

    @property
    def speedup(self) -> float | None:
        """How many times as long the best peer takes."""
        peer = self.best_peer
        return ratio(peer.median_us, self.ours.median_us) if peer else None

    @property
    def loses(self) -> bool:
        """Whether ours is slower than the best peer by more than both spreads."""
        peer = self.best_peer
        return peer is not None and slower(self.ours, peer)


def rows(records: Iterable[Record], ours: str = OURS) -> list[Row]:
    """A row for each operator, dtype, shape and way of timing with a record of `ours`, in the records' order.

    Where a case was measured more than once, in several files, the first counts. Variants of our launcher (with a
    `config`) are no peers and are left out.
    """
    groups: dict[tuple, dict[str, Record]] = {}
    for record in records:
        if record.config:
            continue
        group = groups.setdefault((record.op, record.dtype, tuple(record.shape), record.timing, record.cache), {})
        group.setdefault(record.implementation, record)
    return [
        Row(op, shape, dtype, found[ours], tuple(r for name, r in found.items() if name != ours))
        for (op, dtype, shape, _timing, _cache), found in groups.items()
        if ours in found
    ]


def geometric_mean(values: Iterable[float | None]) -> float | None:
    """The geometric mean of those that are numbers; None where none is."""
    logs = [math.log(value) for value in values if value is not None and value > 0.0]
    return math.exp(sum(logs) / len(logs)) if logs else None


def losses(found: Sequence[Row]) -> list[Row]:
    """The rows where a peer is faster by more than the spreads."""
    return [row for row in found if row.loses]
