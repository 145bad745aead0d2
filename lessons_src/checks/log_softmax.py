"""What is looked at in log_softmax: every access, then the values, on rows that a naive formula does not survive."""

from kernels.exercises import Exercise, close, equal, traced

EXERCISE = Exercise(
    lesson="labs/3-softmax.md#exercise",
    task="Compute the logarithm of a softmax of each row, for scores of any size, without forming the softmax.",
    needs="triton",
    hints=(
        "log(exp(a) / s) is a - log(s). For which scores does exp(x) overflow, and for which is every exp(x) zero?",
        "Take the row's maximum off first, as softmax does: the largest term is then exp(0).",
        "A lane behind the end of the row must not win the maximum, and must add nothing to the sum: which `other`?",
    ),
    explain="""
`log(exp(x - m) / s)` is `(x - m) - log(s)`, and the right side takes no logarithm of a quotient that was rounded to
zero. With m the maximum of the row, the largest term of the sum is exp(0) = 1, so the sum is at least 1 and its
logarithm is finite. Lanes behind the end of the row load -inf: it never wins the maximum, and exp(-inf) adds nothing. A
row begins `x_stride_m` elements after the one before it, which is not the row's width where rows are padded.
""",
)


def scores(centre, width, count, peak=20.0):
    """Rows near `centre` with one dominant score, each followed by NaN that a wrong stride or mask meets."""
    import torch

    generator = torch.Generator().manual_seed(width)
    stored = torch.full((count, width + 5), float("nan"))
    stored[:, :width] = centre + 3 * torch.randn(count, width, generator=generator)
    stored[-1, width // 2] += peak
    return stored[:, :width]


def launched(answer, x, given):
    """Run the answer on x under the trace; the output, and the program that wrote each element."""
    import torch
    import triton

    (count, width), out = x.shape, torch.full(x.shape, float("nan"))

    def launch():
        answer._log_softmax_rows[(count,)](x, out, width, x.stride(0), BLOCK_N=triton.next_power_of_2(width))

    trace = traced(launch, {"x": x, "out": out}, outputs=["out"], given=given)
    return out, trace.owners("out")


def tolerance(x):
    """What float32 may lose: the sum's rounding, and the scores', rounded once more when the maximum is taken off."""
    from kernels.ops.op import ROUNDOFF

    return ROUNDOFF["float32"] * (x.shape[1] ** 0.5 + 8 + 2 * (float(x.abs().max()) + 10))


def rows(answer, centre, width, count=3, peak=20.0):
    """Compare the answer on such rows with the double-precision reference."""
    import torch

    x = scores(centre, width, count, peak)
    given = f"{count} rows of {width} scores near {centre:g}, x_stride_m = {x.stride(0)}"
    out, owners = launched(answer, x, given)
    expected = torch.log_softmax(x.double(), dim=-1)
    close(out, expected, tolerance(x), given=given, owner=lambda m, n: owners[m, n])


@EXERCISE.check("a shift of all scores changes nothing", cause="The result depends on differences of scores alone.")
def shifted(answer):
    x = scores(0.0, 32, 1)
    given = "one row of 32 scores, and the same with 4 added to each"
    before, _ = launched(answer, x, given)
    after, owners = launched(answer, x + 4, given)
    close(after, before, tolerance(x + 4), given=given, owner=lambda m, n: owners[m, n])


@EXERCISE.check("whole blocks, small scores", cause="Is it (x - m) - log(sum(exp(x - m)))?")
def whole(answer):
    rows(answer, 0.0, 32)


@EXERCISE.check("a row of one score", cause="The softmax of a single score is 1, and its logarithm is 0.")
def single(answer):
    rows(answer, 0.0, 1)
    out, owners = launched(answer, scores(0.0, 1, 3), "3 rows of 1")
    cause = "Something is added to the sum, which is exactly 1 here."
    equal(out, [[0.0]] * 3, given="3 rows of 1: exactly 0", owner=lambda m, n: f"program {owners[m, n]}", cause=cause)


@EXERCISE.check("ragged rows with padding", cause="The lanes behind the end of a row are counted in the sum.")
def ragged(answer):
    rows(answer, 0.0, 33)


@EXERCISE.check("scores near 100", cause="exp(100) is more than float32 holds: the maximum is not taken off.")
def high(answer):
    rows(answer, 100.0, 33)


@EXERCISE.check(
    "one score far above the others", cause="exp of the others is 0 in float32, and the logarithm of 0 is -inf."
)
def peaked(answer):
    rows(answer, 0.0, 33, peak=200.0)


@EXERCISE.check(
    "scores near -100", cause="exp(-100) is 0, and so is a sum of such terms; or the padding wins the maximum."
)
def low(answer):
    rows(answer, -100.0, 33)
    rows(answer, -100.0, 1000)


@EXERCISE.check(
    "scores near -20000", cause="The padding wins the maximum: no number is small enough for every row, only -inf is."
)
def very_low(answer):
    rows(answer, -20000.0, 33)


def timed(answer, device):
    """What `lessons scratch` times: rows of 1000, 65536 of them on a GPU and 16 in the interpreter."""
    import torch

    x = torch.randn(65536 if device == "cuda" else 16, 1000, device=device)
    out = torch.empty_like(x)

    def launch():
        answer._log_softmax_rows[(x.shape[0],)](x, out, 1000, x.stride(0), BLOCK_N=1024)
        return out

    return launch
