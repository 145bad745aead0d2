"""What `lessons check triton_softmax` looks at."""

from kernels.exercises import Exercise, close, equal, read_whole, traced

EXERCISE = Exercise(
    lesson="lessons/8-first-triton-kernels.md#exercise-softmax",
    task="The softmax of each row in Triton, one program a row: stable, strided, masked scores included.",
    needs="triton",
    hints=(
        "It is triton_sum with two reductions, and with a whole row to store. Write the steps of Lesson 4 in their "
        "order: maximum, difference, exponential, sum, quotient.",
        "The spare places take part in the maximum as well as in the sum. Pad with float('-inf'): no maximum picks "
        "it, and its exponential is exactly 0. The store needs the mask, and the row stride of out.",
        "x = tl.load(..., mask=n < N, other=float('-inf')).to(tl.float32); p = tl.exp(x - tl.max(x, axis=0)); then "
        "tl.store(out_ptr + row * out_stride_m + n, p / tl.sum(p, axis=0), mask=n < N).",
    ),
    explain=(
        "With the maximum taken off, every exponent is at most 0 and the sum at least 1, so nothing overflows and "
        "nothing is divided by 0. Padding must be neutral for *both* reductions: −∞ is, because `exp(-inf)` is 0; 0 "
        "is not, it wins over a row of negative scores. A masked score comes out as 0 for the same reason. A row of "
        "nothing but −∞ computes −∞ − (−∞), which is NaN, and that is the contract. `tl.exp` takes float32, so "
        "half-precision scores are converted first; the store rounds to the dtype of `out`."
    ),
)


def weighed(answer, rows, width, dtype="float32", centre=0.0, padding=(0, 0), masked=()):
    """Runs the answer on rows near `centre` with padding behind the rows of x and of out, and compares.

    masked: for the first rows, how many scores at their beginning are -inf.
    """
    import torch

    from kernels.trace.undefined import undefined_is_nan

    kind = getattr(torch, dtype)
    generator = torch.Generator().manual_seed(width)
    stored = torch.full((rows, width + padding[0]), float("nan"), dtype=kind)
    stored[:, :width] = centre + torch.randn(rows, width, generator=generator)
    for row, count in enumerate(masked):
        stored[row, :count] = float("-inf")
    x, out = stored[:, :width], torch.full((rows, width + padding[1]), float("nan"), dtype=kind)[:, :width]
    given = f"{rows} row{'s' * (rows != 1)} of {width}, {dtype}, scores near {centre:g}"
    if any(padding):
        given += f", rows {width + padding[0]} elements apart in x and {width + padding[1]} in out"
    if masked:
        given += f", the first {' and '.join(map(str, masked))} scores of rows 0, 1, … at -inf"
    with undefined_is_nan():
        trace = traced(lambda: answer.softmax(x, out), {"x": x, "out": out}, outputs=["out"], given=given)
    expected = torch.softmax(x.double(), dim=1)
    # x - m is rounded once, by as much as the largest difference (below 8 here) is rounded, and exp makes a relative
    # error of it. The sum adds sqrt(width) roundings, the operations around it a few, and the store rounds once.
    relative = 2.0**-24 * (width**0.5 + 8 + 8) + (2.0**-11 if dtype == "float16" else 0.0)
    tolerance = relative * float(expected.nan_to_num().max())
    if width == 1:
        tolerance = 0.0  # a score alone has weight 1, exactly
    owners, cause = trace.owners("out"), _cause(answer, trace, x, out, expected)
    close(out, expected, tolerance, given=given, owner=lambda m, n: f"program {owners[m, n]}", cause=cause)
    read_whole(trace, ("x",), given=given)
    return out, expected, given


def _cause(answer, trace, x, out, expected) -> str:
    """Why a weight is wrong, where that can be told: it is the padding if the answer is free of NaN with padding 0."""
    import numpy as np
    import torch

    unread = np.argwhere(trace.counts("x", "read") == 0)
    if len(unread):
        row, column = unread[0]
        return f"no program reads x[{row}, {column}]: the block is narrower than the row, or a row begins elsewhere"
    if not (out.isnan() & ~expected.isnan()).any():
        return ""
    again = torch.zeros_like(out)
    answer.softmax(x, again)
    if not (again.isnan() & ~expected.isnan()).any():
        return "a masked load without other= has no defined value where its mask is off (NaN, in this check)"
    if x.max() > 88:  # exp(89) is more than float32 can hold
        return "exp of a large score is inf, and inf / inf is NaN: the maximum of the row comes off first"
    return ""


@EXERCISE.check(
    "one row",
    cause="One of the five steps is off.",
    hint="maximum, difference, exponential, sum, quotient: each is one line, for the whole row at once.",
    anchor="#exercise-softmax",
)
def one_row(answer):
    weighed(answer, 1, 32)


@EXERCISE.check(
    "several rows",
    cause="Each program has a row of its own, to read and to write.",
    hint="Row 1 begins at element x_stride_m of x, and at element out_stride_m of out.",
    anchor="#exercise-softmax",
)
def several_rows(answer):
    weighed(answer, 3, 32)


@EXERCISE.check(
    "widths that are no power of two",
    cause="The spare places of the block: masked in the load and in the store, and neutral in between.",
    hint="A block has a power of two of places: 33 columns take 64. Which value of the others changes no maximum and "
    "no sum?",
    anchor="#exercise-softmax",
)
def widths(answer):
    for width in (33, 1000, 1):
        weighed(answer, 3, width)


@EXERCISE.check(
    "scores far from zero",
    cause="The maximum comes off first, and it is the maximum of the row, not of the padding.",
    hint="Follow one row by hand: scores near 100 without a maximum, scores near -100 with a padding of 0.",
    anchor="#exercise-softmax",
)
def far(answer):
    for centre in (100.0, -100.0):
        for width in (32, 33):
            weighed(answer, 3, width, centre=centre)


@EXERCISE.check(
    "rows further apart than they are long",
    cause="x and out have a row stride each; the width is neither.",
    hint="Load from x_ptr + row * x_stride_m + n, store to out_ptr + row * out_stride_m + n.",
    anchor="#pointers-and-strides",
)
def strides(answer):
    weighed(answer, 3, 33, padding=(5, 5))
    weighed(answer, 3, 33, padding=(5, 2))


@EXERCISE.check("half-precision scores", cause="Exponentials are taken in float32.", anchor="#exercise-softmax")
def half(answer):
    weighed(answer, 3, 257, "float16")
    out, expected, given = weighed(answer, 3, 33, "float16")  # no weight so small that float16 has fewer digits for it
    cause = "Before the store, something was rounded to float16: the difference, the exponential, or the sum."
    close(out.double() / expected, [[1.0] * 33] * 3, 1.02 * 2.0**-11, given=f"{given}: got / expected", cause=cause)


@EXERCISE.check(
    "masked scores, and a row of nothing else",
    cause="A score of -inf gets weight 0; a row of nothing but -inf has no weights, and is NaN.",
    anchor="#exercise-softmax",
)
def masked(answer):
    weighed(answer, 3, 33, masked=(5, 32))
    weighed(answer, 3, 33, masked=(33, 4))


@EXERCISE.check("no row", cause="0 rows take 0 programs.", anchor="#exercise-softmax")
def no_row(answer):
    import torch

    from kernels.trace.triton import trace_triton

    x, out = torch.empty(0, 32), torch.empty(0, 32)
    trace = trace_triton(lambda: answer.softmax(x, out), {"x": x, "out": out})
    equal(sum(launch.blocks for launch in trace.launches), 0, given="the number of programs for 0 rows of 32")


def timed(answer, device):
    """What `lessons scratch` times: the softmax of rows of 1000, 65536 of them on a GPU and 16 in the interpreter."""
    import torch

    x = torch.randn(65536 if device == "cuda" else 16, 1000, device=device)
    out = torch.empty_like(x)
    return lambda: answer.softmax(x, out) or out
