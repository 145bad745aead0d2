"""What `lessons check split_softmax` looks at."""

from kernels.exercises import Exercise, close, equal, read_whole, traced

EXERCISE = Exercise(
    lesson="workshops/a2-split-softmax.md#exercise",
    task="The softmax of each row by several programs a row: states of splits, merged, then weights.",
    needs="triton",
    hints=(
        "Draw a row of 10 columns in 4 splits of 3. Split 1 owns columns 3 to 5, and its block has 4 places: which "
        "place belongs to its neighbour? Both ends need a mask, the row's and the split's.",
        "The sum of a split is relative to the maximum of that split. Before sums are added up, each is multiplied by "
        "exp(its maximum - the row's). A split of nothing but -inf must have the sum 0: subtract 0 there, not -inf.",
        "shift = tl.where(maximum == float('-inf'), 0.0, maximum) in the first kernel; in the second, "
        "highest = tl.max(maxima), total = tl.sum(sums * tl.exp(maxima - highest)), weights = tl.exp(x - highest) / "
        "total, stored where n < N and n < (s + 1) * columns.",
    ),
    explain=(
        "A state (m, l) says all about a set of scores that its softmax needs: their maximum, and the sum of "
        "exponentials under it. Two states merge because exp(x - m_s) * exp(m_s - m) is exp(x - m). The neutral state "
        "is (−∞, 0): it is what an empty split has, and a split of masked scores. It must be *made*, since "
        "−∞ − (−∞) is NaN. The second kernel merges the same states in the same order in each program of the row, "
        "so all of them divide by the same bits."
    ),
)


def scores(rows, width, dtype="float32", centre=0.0, padding=0, masked=()):
    """Rows near `centre`, each with one dominant score, followed by NaN. masked: (row, columns) that are -inf."""
    import torch

    kind = getattr(torch, dtype)
    generator = torch.Generator().manual_seed(width)
    stored = torch.full((rows, width + padding), float("nan"), dtype=kind)
    stored[:, :width] = centre + 2 * torch.randn(rows, width, generator=generator)
    stored[0, width // 2] += 8
    for row, columns in masked:
        stored[row, columns] = float("-inf")
    return stored[:, :width]


def relative(x):
    """What float32 may lose: the roundings of a sum, and those of the scores, which the exponential turns into more."""
    from kernels.ops.op import ROUNDOFF

    finite = x.float()[x.isfinite()]
    return ROUNDOFF["float32"] * (x.shape[1] ** 0.5 + 8 + 2 * (float(finite.abs().max()) + 10))


def columns(x, splits):
    """(first, last + 1) of the columns of each split, by the rule that the task states."""
    each = -(-x.shape[1] // splits)
    return [(min(s * each, x.shape[1]), min((s + 1) * each, x.shape[1])) for s in range(splits)]


def stated(answer, x, splits, what):
    """Compares the states that the answer leaves with those of the formula in float64."""
    import torch

    from kernels.trace.undefined import undefined_is_nan

    given = f"{what}, {splits} split{'s' * (splits > 1)}"
    found = {}

    def launch():
        found["maxima"], found["sums"] = answer.states(x, splits)

    with undefined_is_nan():
        traced(launch, {"x": x}, outputs=[], given=given)
    parts = [x[:, a:b].double() for a, b in columns(x, splits)]
    empty = torch.full((x.shape[0],), float("-inf"), dtype=torch.float64)
    maxima = torch.stack([part.amax(1) if part.shape[1] else empty for part in parts], 1)
    shift = torch.where(maxima == float("-inf"), 0.0, maxima)
    sums = torch.stack([torch.exp(part - shift[:, s : s + 1]).sum(1) for s, part in enumerate(parts)], 1)

    def owner(m, s):
        first, last = columns(x, splits)[s]
        return f"split {s} of row {m}, columns {first} to before {last}"

    equal(found["maxima"], maxima.float(), given=f"the maxima of {given}", owner=owner)
    close(found["sums"], sums, relative(x) * float(sums.nan_to_num().max()), given=f"the sums of {given}", owner=owner)


def weighed(answer, x, splits, what, out_padding=0):
    """Compares the weights, and looks at every element that was read and written."""
    import torch

    from kernels.trace.undefined import undefined_is_nan

    rows, width = x.shape
    out = torch.full((rows, width + out_padding), float("nan"), dtype=x.dtype)[:, :width]
    given = f"{what}, {splits} split{'s' * (splits > 1)}"
    with undefined_is_nan():
        trace = traced(lambda: answer.softmax(x, out, splits), {"x": x, "out": out}, outputs=["out"], given=given)
    expected = torch.softmax(x.double(), dim=1)
    rounding = 2.0**-11 if x.dtype == torch.float16 else 0.0
    tolerance = (relative(x) + rounding) * float(expected.nan_to_num().max())
    owners = trace.owners("out")
    close(out, expected, tolerance, given=given, owner=lambda m, n: f"program {owners[m, n]}")
    read_whole(trace, ("x",), given=given)


@EXERCISE.check(
    "the splits cover every column",
    cause="Rounded down, the last columns belong to no split.",
    anchor="#which-columns",
)
def cover(answer):
    for N, splits in ((12, 4), (10, 4), (1, 1), (3, 8), (4097, 2), (131072, 64)):
        equal(answer.columns_of(N, splits), -(-N // splits), given=f"{N} columns in {splits} splits")


@EXERCISE.check("the state of a row in one split", cause="The maximum first, then the sum of exp(x - maximum).")
def one_state(answer):
    stated(answer, scores(2, 16), 1, "2 rows of 16")


@EXERCISE.check(
    "one split, one row",
    cause="With a single state there is nothing to merge: exp(x - m) / l.",
)
def one_split(answer):
    weighed(answer, scores(1, 16), 1, "1 row of 16")


@EXERCISE.check(
    "the states of splits that fill no block",
    cause="Behind the last column of a split lie the columns of the next one.",
    hint="A split of 5 columns has a block of 8 places. Mask the places that belong to it: both ends.",
    anchor="#which-columns",
)
def ragged_states(answer):
    stated(answer, scores(3, 20), 4, "3 rows of 20")
    stated(answer, scores(2, 19), 4, "2 rows of 19")


@EXERCISE.check("scores far from zero", cause="Padding that is no -inf wins over a split of scores near -100.")
def far(answer):
    for centre in (-100.0, 100.0):
        stated(answer, scores(2, 19, centre=centre), 4, f"2 rows of 19 near {centre:g}")


@EXERCISE.check(
    "each column has one split",
    cause="The spare places of a block belong to the neighbour: they may be neither read nor written.",
    hint="Mask the store at both ends, as you masked the load: n < N and n < (s + 1) * columns.",
    anchor="#which-columns",
)
def apart(answer):
    x = scores(3, 20)
    out = x.new_full((3, 20), float("nan"))
    traced(lambda: answer.softmax(x, out, 4), {"x": x, "out": out}, outputs=["out"], given="3 rows of 20, 4 splits")


@EXERCISE.check(
    "several splits",
    cause="A sum counts under its own split's maximum until it is brought to the row's.",
    hint="sums * exp(maxima - highest), then add up; and exp(x - highest), with the row's maximum.",
    anchor="#merging",
)
def several(answer):
    for width, splits in ((16, 2), (20, 4), (19, 4), (33, 3)):
        weighed(answer, scores(3, width), splits, f"3 rows of {width}")


@EXERCISE.check(
    "more splits than columns",
    cause="A split that owns nothing has the state (-inf, 0), and writes nothing.",
    hint="-inf - -inf is NaN, and NaN stays in every sum that it meets.",
    anchor="#the-neutral-state",
)
def idle(answer):
    stated(answer, scores(2, 3), 8, "2 rows of 3")
    weighed(answer, scores(2, 3), 8, "2 rows of 3")


@EXERCISE.check(
    "masked scores",
    cause="A split of nothing but -inf changes no other; a row of nothing else is NaN, as torch.softmax has it.",
    anchor="#the-neutral-state",
)
def masked(answer):
    some = scores(3, 16, masked=((1, slice(0, 4)), (2, slice(4, 16))))
    stated(answer, some, 4, "3 rows of 16, some splits of which are masked")
    weighed(answer, some, 4, "3 rows of 16, some splits of which are masked")
    weighed(answer, scores(2, 16, masked=((1, slice(0, 16)),)), 4, "2 rows of 16, the second of which is masked")


@EXERCISE.check(
    "rows further apart than they are long", cause="x and out have a row stride each; the width is neither."
)
def strides(answer):
    weighed(answer, scores(3, 20, padding=5), 4, "3 rows of 20, 25 apart in x and 22 in out", out_padding=2)


@EXERCISE.check("half-precision scores", cause="States and weights are computed in float32.")
def half(answer):
    weighed(answer, scores(2, 33, "float16"), 3, "2 rows of 33 in float16")


def timed(answer, device):
    """What `lessons scratch` times: rows of 2**20 columns in 128 splits on a GPU, of 512 in 4 in the interpreter."""
    import torch

    width, splits = (1 << 20, 128) if device == "cuda" else (512, 4)
    x = torch.randn(32 if device == "cuda" else 2, width, device=device)
    out = torch.empty_like(x)
    return lambda: answer.softmax(x, out, splits) or out
