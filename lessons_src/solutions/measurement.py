"""Exercise of Lesson 7: from raw samples to a sentence that holds.

    lessons check measurement

Times are microseconds, and a sample is one of them. Nothing here may change a list of samples: it is the evidence.

Edit only what lies between the marks.
"""

import statistics
from dataclasses import dataclass


@dataclass(frozen=True)
class Run:
    """One thing that was timed: on which card, whether its data was "cold" or "warm" in the L2 cache, how it was
    started ("graph" or "dispatch"), and every sample in the order in which it was taken.
    """

    gpu: str
    cache: str
    timing: str
    samples_us: list


def bytes_moved(elements_read, elements_written, bytes_per_element):
    """The bytes that must pass between the GPU and its memory."""
    # --- fill in ---
    return (elements_read + elements_written) * bytes_per_element
    # --- end ---


def gb_per_s(moved_bytes, time_us):
    """The rate in GB/s, where a GB is 10**9 bytes."""
    # --- fill in ---
    return moved_bytes / (time_us * 1e-6) / 1e9
    # --- end ---


def intensity(flops, moved_bytes):
    """The arithmetic intensity: operations for each byte that is moved."""
    # --- fill in ---
    return flops / moved_bytes
    # --- end ---


def median(samples):
    """The middle sample; of an even number, halfway between the two in the middle."""
    # --- fill in ---
    ordered = sorted(samples)
    middle = len(ordered) // 2
    return ordered[middle] if len(ordered) % 2 else (ordered[middle - 1] + ordered[middle]) / 2
    # --- end ---


def spread(samples):
    """The distance between the quartiles.

    With n samples in order, numbered from 0, the lower quartile lies at place (n - 1) / 4 and the upper one at
    3 * (n - 1) / 4, on the straight line between neighbours where that is no whole number. A single sample has no
    spread: ValueError, with a sentence.
    """
    # --- fill in ---
    if len(samples) < 2:
        raise ValueError(f"{len(samples)} sample has no spread; take at least two")
    lower, _, upper = statistics.quantiles(samples, n=4, method="inclusive")
    return upper - lower
    # --- end ---


def amdahl(share, speedup):
    """How many times faster the whole becomes, when `share` of its time (0 to 1) becomes `speedup` times faster.

    `speedup` may be math.inf: that part then takes no time at all.
    """
    # --- fill in ---
    return 1 / ((1 - share) + share / speedup)
    # --- end ---


def differ(first, second):
    """Whether two lists of samples differ: their medians lie further apart than both spreads together."""
    # --- fill in ---
    return abs(median(first) - median(second)) > spread(first) + spread(second)
    # --- end ---


def compare(first, second):
    """ "first", "second" or "neither": which of two `Run`s is the faster, as far as their samples can tell.

    Runs of different GPUs, cold with warm, or graph with dispatch do not compare: ValueError, with a sentence.
    """
    # --- fill in ---
    for what in ("gpu", "cache", "timing"):
        one, other = getattr(first, what), getattr(second, what)
        if one != other:
            raise ValueError(f"{one} and {other} do not compare: both runs need the same {what}")
    if not differ(first.samples_us, second.samples_us):
        return "neither"
    return "first" if median(first.samples_us) < median(second.samples_us) else "second"
    # --- end ---
