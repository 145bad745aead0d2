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
    # What is read and what is written both pass.
    raise NotImplementedError("bytes_moved: return a number of bytes")
    # --- end ---


def gb_per_s(moved_bytes, time_us):
    """The rate in GB/s, where a GB is 10**9 bytes."""
    # --- fill in ---
    # A microsecond is 1e-6 seconds.
    raise NotImplementedError("gb_per_s: return bytes a second, in units of 10**9")
    # --- end ---


def intensity(flops, moved_bytes):
    """The arithmetic intensity: operations for each byte that is moved."""
    # --- fill in ---
    raise NotImplementedError("intensity: return operations a byte")
    # --- end ---


def median(samples):
    """The middle sample; of an even number, halfway between the two in the middle."""
    # --- fill in ---
    # Put them in order, without touching the list that you were given.
    raise NotImplementedError("median: return the middle sample")
    # --- end ---


def spread(samples):
    """The distance between the quartiles.

    With n samples in order, numbered from 0, the lower quartile lies at place (n - 1) / 4 and the upper one at
    3 * (n - 1) / 4, on the straight line between neighbours where that is no whole number. A single sample has no
    spread: ValueError, with a sentence.
    """
    # --- fill in ---
    # Refuse a single sample. For the rest, statistics.quantiles has a method for these quartiles; by hand is fine, too.
    raise NotImplementedError("spread: return the distance between the quartiles")
    # --- end ---


def amdahl(share, speedup):
    """How many times faster the whole becomes, when `share` of its time (0 to 1) becomes `speedup` times faster.

    `speedup` may be math.inf: that part then takes no time at all.
    """
    # --- fill in ---
    # Before, the whole takes 1. What do the two parts take afterwards?
    raise NotImplementedError("amdahl: return how many times faster the whole becomes")
    # --- end ---


def differ(first, second):
    """Whether two lists of samples differ: their medians lie further apart than both spreads together."""
    # --- fill in ---
    raise NotImplementedError("differ: return True or False")
    # --- end ---


def compare(first, second):
    """ "first", "second" or "neither": which of two `Run`s is the faster, as far as their samples can tell.

    Runs of different GPUs, cold with warm, or graph with dispatch do not compare: ValueError, with a sentence.
    """
    # --- fill in ---
    # Refuse first. Then: do they differ at all? Only then ask which is the faster.
    raise NotImplementedError("compare: return the name of the faster run, or refuse")
    # --- end ---
