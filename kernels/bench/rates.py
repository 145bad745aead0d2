"""Samples to a median and a spread, bytes and flops to rates: the only place where either is computed.

Units live in the names. GB is 10**9 bytes, TFLOP is 10**12 operations, times are microseconds.
"""

import math
import statistics
from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(frozen=True)
class Rates:
    """What a time means for the work that was done; None where there is no work or no time."""

    gb_per_s: float | None
    tflop_per_s: float | None


def rates(bytes_moved: int, flops: int, time_us: float | None) -> Rates:
    """GB/s and TFLOP/s of `bytes_moved` bytes and `flops` operations done in `time_us` microseconds.

    Bytes and operations are integers, so that no rounding hides in a file. No work, no time or a time that is not a
    positive finite number gives None, never zero and never infinity.
    """
    for name, value in (("bytes_moved", bytes_moved), ("flops", flops)):
        if not isinstance(value, int) or isinstance(value, bool):
            raise TypeError(f"{name} must be an integer count; got {value!r}.")
        if value < 0:
            raise ValueError(f"{name} must not be negative; got {value}.")
    if time_us is None or not math.isfinite(time_us) or time_us <= 0.0:
        return Rates(None, None)
    seconds = time_us * 1e-6
    return Rates(
        gb_per_s=(bytes_moved / seconds) / 1e9 if bytes_moved else None,
        tflop_per_s=(flops / seconds) / 1e12 if flops else None,
    )


def median(samples: Sequence[float]) -> float | None:
    """The median, or None without samples."""
    return statistics.median(samples) if samples else None


def spread(samples: Sequence[float]) -> float | None:
    """The distance between the quartiles. One sample has no spread: None, not zero."""
    if len(samples) < 2:
        return None
    lower, _, upper = statistics.quantiles(samples, n=4, method="inclusive")
    return upper - lower


def ratio(value: float | None, base: float | None) -> float | None:
    """value / base, or None where either is missing or the base is zero (a speed-up over nothing)."""
    if value is None or base is None or base == 0.0 or not (math.isfinite(value) and math.isfinite(base)):
        return None
    return value / base
