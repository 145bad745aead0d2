"""What is looked at in the exercise of Lesson 7. The last check is over real samples, from the committed records."""

import json
from math import inf
from pathlib import Path

from kernels.exercises import Exercise, close, equal

RECORDS = Path(__file__).parents[2] / "results" / "h200"

EXERCISE = Exercise(
    lesson="lessons/7-measure.md#exercise",
    task="Write what turns raw samples into a claim: bytes, rates, median and spread, Amdahl's bound, and a comparison "
    "that refuses what does not compare.",
    hints=(
        "Work with units in your head: microseconds are 1e-6 s, a GB is 1e9 bytes. sorted() makes a new list, "
        "list.sort() changes the one you were given.",
        "Amdahl: the time after is (1 - share), which nobody touched, plus share / speedup. differ: a distance between "
        "two medians on one side, the sum of two spreads on the other.",
        'spread: statistics.quantiles(samples, n=4, method="inclusive") returns three numbers; the first and the last '
        "are the quartiles. compare: raise ValueError where gpu, cache or timing differ, before you look at any time.",
    ),
    explain="A rate is a count that you made divided by a time that was measured, so it is as true as your count. The "
    "median does not move when one sample is ten times too long; the mean does. The quartiles say how "
    "far apart two ordinary samples are, so a smaller difference of medians is none that you have seen. And two "
    "numbers compare only if one thing alone was changed between them.",
)


@EXERCISE.check(
    "bytes are what is read and what is written",
    cause="Every element that is read or written passes between the GPU and its memory once.",
    anchor="#count-before-you-time",
)
def moved(answer):
    n = 1000
    equal(answer.bytes_moved(2 * n, n, 4), 12 * n, given="an addition of 1000 float32: two vectors read, one written")
    equal(answer.bytes_moved(n, 1, 2), 2002, given="a sum of 1000 bfloat16: one vector read, one element written")
    equal(answer.bytes_moved(0, 0, 4), 0, given="nothing read, nothing written")


@EXERCISE.check(
    "a rate is in units of 10**9 bytes",
    cause="A unit is off: a GB is 10**9 bytes (a GiB is 2**30), a microsecond 1e-6 seconds.",
    anchor="#count-before-you-time",
)
def rate(answer):
    close(answer.gb_per_s(10**9, 1e6), 1.0, 1e-9, given="10**9 bytes in one second")
    close(answer.gb_per_s(12_000_000, 4.0), 3000.0, 1e-6, given="12,000,000 bytes in 4 µs")


@EXERCISE.check("intensity is operations for each byte", anchor="#count-before-you-time")
def flops_a_byte(answer):
    close(answer.intensity(1000, 12_000), 1 / 12, 1e-12, given="1000 additions, 12,000 bytes")
    close(
        answer.intensity(2 * 64**3, 3 * 64**2 * 4),
        2 * 64 / 12,
        1e-9,
        given="a product of 64 × 64 matrices, each moved once",
    )


@EXERCISE.check(
    "the median does not mind an outlier",
    cause="A mean moves with every sample; the median is the middle one of the samples in order.",
    anchor="#the-median-and-the-spread",
)
def middle(answer):
    for samples, expected in (
        ([5.0], 5.0),
        ([1.0, 2.0, 4.0], 2.0),
        ([9.0, 1.0, 2.0], 2.0),
        ([9.0, 9.1, 9.2, 9.1, 250.0], 9.1),
        ([4.0, 1.0, 3.0, 2.0], 2.5),
    ):
        close(answer.median(list(samples)), expected, 1e-9, given=f"samples = {samples}")


@EXERCISE.check(
    "the spread is the distance between the quartiles",
    cause="The distance between the smallest and the largest sample grows with every sample that you take.",
    anchor="#the-median-and-the-spread",
)
def quartiles(answer):
    for samples, expected in (
        ([1.0, 2.0, 3.0, 4.0, 5.0], 2.0),
        ([5.0, 1.0, 4.0, 2.0, 3.0], 2.0),
        ([9.0, 9.1, 9.2, 9.1, 250.0], 0.1),
        ([1.0, 2.0], 0.5),
        ([7.0, 7.0, 7.0], 0.0),
    ):
        close(answer.spread(list(samples)), expected, 1e-9, given=f"samples = {samples}")
    equal(outcome(answer.spread, [5.0]), "ValueError", given="samples = [5.0], which have no spread")


@EXERCISE.check(
    "the raw samples stay as they were",
    cause="list.sort() changes the list that it was given, and the order of samples is evidence: it shows a drift.",
    hint="sorted() makes a new list.",
)
def untouched(answer):
    first, second = [9.2, 9.0, 9.1, 30.0], [8.0, 8.3, 8.1]
    kept = [list(first), list(second)]
    answer.median(first), answer.spread(first), answer.differ(first, second)
    equal([first, second], kept, given=f"samples = {kept[0]} and {kept[1]}, after median, spread and differ")


@EXERCISE.check(
    "Amdahl's bound",
    cause="The part that nobody touched takes as long as before, and is now a larger share of less.",
    anchor="#what-a-faster-kernel-buys",
)
def bound(answer):
    for share, speedup, expected in (
        (1.0, 4.0, 4.0),
        (0.0, 4.0, 1.0),
        (0.5, 2.0, 4 / 3),
        (0.4, inf, 1 / 0.6),
        (0.9, 10.0, 1 / 0.19),
        (0.5, 0.5, 1 / 1.5),
    ):
        close(answer.amdahl(share, speedup), expected, 1e-9, given=f"share = {share}, speedup = {speedup}")


@EXERCISE.check(
    "a difference inside the spread is none",
    cause="Two runs of the very same code never give the same number.",
    anchor="#is-it-really-faster",
)
def beyond(answer):
    for first, second, expected in (
        ([10.0, 10.1, 10.2], [20.0, 20.1, 20.2], True),
        ([20.0, 20.1, 20.2], [10.0, 10.1, 10.2], True),
        ([10.0, 10.1, 10.2], [10.1, 10.2, 10.3], False),
        ([10.0, 14.0, 18.0], [13.0, 13.1, 13.2], False),
        ([10.0, 10.0, 10.0], [10.0, 10.0, 10.0], False),
        ([10.0, 10.1, 99.0, 10.1, 10.2], [11.0, 11.1, 11.2], True),
        ([10.0, 11.0, 12.0], [11.5, 12.5, 13.5], False),  # beyond either spread, and not beyond both together
        ([10.0, 10.1, 99.0, 10.1, 10.2], [10.0, 10.1, 10.2], False),
    ):
        equal(answer.differ(list(first), list(second)), expected, given=f"{first} against {second}")


FAST, SLOW = [9.0, 9.1, 9.2], [12.0, 12.1, 12.2]


@EXERCISE.check("the faster run is named", cause="Less time is faster, and a tie is a tie.")
def faster(answer):
    def run(samples):
        return answer.Run("NVIDIA H200", "cold", "graph", list(samples))

    equal(answer.compare(run(FAST), run(SLOW)), "first", given=f"{FAST} against {SLOW}")
    equal(answer.compare(run(SLOW), run(FAST)), "second", given=f"{SLOW} against {FAST}")
    equal(answer.compare(run(FAST), run([9.1, 9.2, 9.3])), "neither", given=f"{FAST} against [9.1, 9.2, 9.3]")
    lucky = [12.2, 8.0, 12.1, 12.3, 12.0]  # one sample below all the others
    first, second = run(FAST), run(lucky)
    equal(answer.compare(first, second), "first", given=f"{FAST} against {lucky}")
    kept = "the samples stay as they were"
    equal([first.samples_us, second.samples_us], [FAST, lucky], given=f"{FAST} against {lucky}", cause=kept)


@EXERCISE.check(
    "what does not compare is refused",
    cause="Two things were changed at once, so the ratio says nothing about either.",
    anchor="#two-numbers-that-do-not-compare",
)
def refusing(answer):
    base = ("NVIDIA H200", "cold", "graph")
    for other in (
        ("NVIDIA A100", "cold", "graph"),
        ("NVIDIA H200", "warm", "graph"),
        ("NVIDIA H200", "cold", "dispatch"),
    ):
        for first, second in ((base, other), (other, base)):
            for times, same in ((SLOW, ""), (FAST, ", with the same samples")):
                got = outcome(answer.compare, answer.Run(*first, list(FAST)), answer.Run(*second, list(times)))
                equal(got, "ValueError", given=f"{', '.join(first)} against {', '.join(second)}{same}")


@EXERCISE.check("the samples of an H200", cause="Right on small lists, and not on real ones.")
def real(answer):
    cases = json.loads((RECORDS / "add.json").read_text(encoding="utf-8"))["cases"]
    for case in cases:
        if case["status"] != "ok":
            continue
        given = f"add.json, {case['implementation']}, {case['shape'][0]} elements of {case['dtype']}"
        samples = case["samples_us"]
        close(answer.median(list(samples)), case["median_us"], 1e-6 * case["median_us"], given=given)
        close(answer.spread(list(samples)), case["spread_us"], 1e-6 * case["median_us"], given=given)
        itemsize = {"float32": 4, "bfloat16": 2}[case["dtype"]]
        n = case["shape"][0]
        rate = answer.gb_per_s(answer.bytes_moved(2 * n, n, itemsize), answer.median(list(samples)))
        close(rate, case["gb_per_s"], 1e-6 * case["gb_per_s"], given=given)


def outcome(function, *arguments):
    """The name of the refusal, or the answer in words."""
    try:
        return f"the answer {function(*arguments)!r}"
    except ValueError:
        return "ValueError"


def timed(answer, device):
    """What `lessons scratch` times: median and spread of 5000 samples."""
    samples = [100.0 + (37 * i) % 101 / 10 for i in range(5000)]
    return lambda: (answer.median(samples), answer.spread(samples))
