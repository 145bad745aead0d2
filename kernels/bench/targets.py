"""What the operators are asked to reach on an H200, and whether a record does.

A demand is a time, a share of the copy limit that was measured in the same run, or a peer's time. Each was set from
what the best kernel that one could install reached on the same card. A row that misses its demand is shown as a miss.
"""

from collections.abc import Iterable
from dataclasses import dataclass

from kernels.bench.compare import Row, slower

GPU = "NVIDIA H200"
LARGE_BYTES = 300_000_000  # where a demand is for "large" rows: what moves at least this much


@dataclass(frozen=True)
class Target:
    """One demand. `shape` None: every shape that moves at least `least_bytes`. Exactly one of the last three is set.

    at_most_us: the median in µs. at_least_of_limit: the share of the copy limit. not_slower_than: the name of a peer,
    whose median may be passed by no more than both spreads.
    """

    op: str
    dtype: str | None
    shape: tuple[int, ...] | None = None
    at_most_us: float | None = None
    at_least_of_limit: float | None = None
    not_slower_than: str | None = None
    least_bytes: int = 0

    @property
    def words(self) -> str:
        """The demand as a table shows it."""
        if self.at_most_us is not None:
            return f"≤ {self.at_most_us:g} µs"
        if self.at_least_of_limit is not None:
            return f"≥ {100 * self.at_least_of_limit:g} % of limit"
        return f"≤ {self.not_slower_than}"


@dataclass(frozen=True)
class Judgement:
    """A demand and what came of it; `met` is None where there is no measurement to judge."""

    target: Target
    met: bool | None


def _softmax() -> tuple[Target, ...]:
    shares = {
        "float32": {
            (16384, 4096): 0.95,
            (8192, 16384): 0.95,
            (512, 131072): 0.87,
            (32, 1 << 20): 0.60,
            (131072, 128): 0.90,
        },
        "bfloat16": {
            (16384, 4096): 0.94,
            (8192, 16384): 0.94,
            (512, 131072): 0.88,
            (32, 1 << 20): 0.55,
            (131072, 128): 0.85,
        },
    }
    return (
        Target("softmax", "float32", (4096, 1024), at_most_us=9.5),
        Target("softmax", "bfloat16", (4096, 1024), at_most_us=5.8),
        *(
            Target("softmax", dtype, shape, at_least_of_limit=share)
            for dtype, by_shape in shares.items()
            for shape, share in by_shape.items()
        ),
    )


TARGETS: tuple[Target, ...] = (
    *_softmax(),
    Target("softmax_backward", None, at_least_of_limit=0.93, least_bytes=LARGE_BYTES),
    Target("add", "float32", (1 << 28,), at_least_of_limit=1.0),
    Target("row_sum", None, at_least_of_limit=1.0, least_bytes=LARGE_BYTES),
    Target("rmsnorm", "bfloat16", (4096, 1024), at_most_us=8.0),
    Target("rmsnorm", "bfloat16", (64, 131072), at_most_us=18.0),
    Target("rmsnorm", "bfloat16", not_slower_than="torch.compile", least_bytes=LARGE_BYTES),
    Target("rmsnorm_backward", None, at_least_of_limit=0.85, least_bytes=LARGE_BYTES),
    Target("histogram", "int32", at_least_of_limit=0.85, least_bytes=LARGE_BYTES),
)


def targets_of(row: Row, targets: Iterable[Target] = TARGETS) -> list[Target]:
    """The demands on this row."""
    return [
        target
        for target in targets
        if target.op == row.op
        and target.dtype in (None, row.dtype)
        and target.shape in (None, row.shape)
        and row.ours.bytes_moved >= target.least_bytes
    ]


def judge(row: Row, targets: Iterable[Target] = TARGETS) -> list[Judgement]:
    """What came of each demand on this row. Demands are for one card: on another there are none."""
    gpu = row.ours.provenance.gpu if row.ours.provenance else GPU
    if gpu != GPU:
        return []
    return [Judgement(target, _met(row, target)) for target in targets_of(row, targets)]


def _met(row: Row, target: Target) -> bool | None:
    ours = row.ours
    if ours.median_us is None:
        return None if ours.status == "unavailable" else False
    if target.at_most_us is not None:
        return ours.median_us <= target.at_most_us
    if target.at_least_of_limit is not None:
        return None if ours.fraction_of_limit is None else ours.fraction_of_limit >= target.at_least_of_limit
    peer = next((r for r in row.others if r.implementation == target.not_slower_than and r.median_us), None)
    return None if peer is None else not slower(ours, peer)


def against(rows: Iterable[Row], others: Iterable[Row], at_most: float) -> list[tuple[Row, float, bool]]:
    """Each row with a time beside the row of `others` with its shape and dtype: the ratio, and whether it is allowed.

    For an operator on awkward inputs against the same one on usual inputs: all numbers of a histogram equal, say.
    """
    usual = {(other.shape, other.dtype): other.ours.median_us for other in others}
    found = []
    for row in rows:
        base, ours = usual.get((row.shape, row.dtype)), row.ours.median_us
        if base and ours:
            found.append((row, ours / base, ours / base <= at_most))
    return found
