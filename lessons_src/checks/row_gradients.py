"""What `lessons check row_gradients` looks at."""

from kernels.exercises import Exercise, close, equal, fail, read_whole, traced

EXERCISE = Exercise(
    lesson="workshops/i2-backward.md#exercise",
    task="The gradients of softmax and RMSNorm in Triton, with a weight gradient that has the same bits every time.",
    needs="triton",
    hints=(
        "Begin with the softmax: two loads, one sum, one store. Then RMSNorm's dx for a single program and a single "
        "row; the walk over several rows is a loop around it.",
        "share = tl.zeros([BLOCK_N], tl.float32) before the loop, share += dout * normed in it, and one store to row p "
        "of partial behind it. `for row in range(tl.program_id(0), M, tl.num_programs(0))` walks.",
        "The mean divides by N, the width of the row, and not by the width of the block. partial is float32 and has a "
        "row for each program that runs; _sum_rows loops over its rows with `for part in range(0, parts)`.",
    ),
    explain=(
        "Every score of a row moves the total, so the gradient of each has a term with a sum over the whole row: "
        "`sum(y * dy)` for softmax, `mean(dout * weight * normed)` for RMSNorm. Both are one reduction, and the row "
        "stays in registers until it is known. The weight is shared by all rows, so its gradient is a sum *down* the "
        "rows, over what different programs computed. An atomic addition would bring it together in the order in "
        "which programs happen to arrive, and float32 addition depends on the order. One row of partial sums for each "
        "program, added up by a second kernel in a fixed order, has the same bits in every run; the price is the "
        "traffic of those rows and a second launch."
    ),
)
CAUSE = {
    "dx": "one term of the formula, or its sign",
    "dweight": "the rows that a program walks, or how the shares are added up",
}


def numbers(shape, dtype, seed, spread=1.0):
    import torch

    generator = torch.Generator().manual_seed(seed)
    return (spread * torch.randn(shape, generator=generator)).to(getattr(torch, dtype))


def padded(values, padding):
    """The rows with NaN behind each."""
    import torch

    stored = torch.full((values.shape[0], values.shape[1] + padding), float("nan"), dtype=values.dtype)
    view = stored[:, : values.shape[1]]
    view.copy_(values)
    return view


def blank(like):
    import torch

    return torch.full(like.shape, float("nan"), dtype=like.dtype)


def rounding(dtype, terms):
    """The error of a number of size 1 that is a sum of `terms` in float32, then stored in the dtype."""
    return 2.0**-24 * (terms**0.5 + 8) + (2.0**-11 if dtype == "float16" else 2.0**-24)


def softmax_gradient(y, dy):
    """In float64: dx = y * (dy - sum(y * dy))."""
    y, dy = y.double(), dy.double()
    return y * (dy - (y * dy).sum(dim=1, keepdim=True))


def softmax_case(answer, y, dy, words):
    """Runs the answer under the trace and compares with float64."""
    dtype = str(y.dtype)[6:]
    given = f"softmax, {y.shape[0]} x {y.shape[1]}, {dtype}, {words}"
    dx = padded(blank(y), 2)
    from kernels.trace.undefined import undefined_is_nan

    with undefined_is_nan():
        trace = traced(
            lambda: answer.softmax_backward(y, dy, dx), {"y": y, "dy": dy, "dx": dx}, outputs=["dx"], given=given
        )
    expected = softmax_gradient(y, dy)
    largest = float(dy.double().abs().max()) * float(y.double().max()) * 2
    owners = trace.owners("dx")
    close(
        dx, expected, rounding(dtype, y.shape[1]) * largest, given=given, cause=CAUSE["dx"],
        owner=lambda m, n: f"program {owners[m, n]}",
    )  # fmt: skip
    read_whole(trace, ("y",), given=given)


def weights_of(rows, width, dtype="float32", padding=0):
    import torch

    x = numbers((rows, width), "float32", rows + width)
    return padded(torch.softmax(x, dim=1).to(getattr(torch, dtype)), padding)


def norm_inputs(rows, width, dtype="float32", padding=0):
    """x, weight, root and dout; rows of several sizes, so that a root that is left out shows."""
    import torch

    size = torch.tensor([0.25, 1.0, 8.0]).repeat(rows // 3 + 1)[:rows, None]
    x = padded((numbers((rows, width), "float32", rows * width) * size).to(getattr(torch, dtype)), padding)
    weight = (1 + numbers((width,), "float32", 5, 0.5)).to(x.dtype)
    root = torch.rsqrt(x.float().square().mean(dim=1) + 1e-6)
    return x, weight, root, padded(numbers((rows, width), dtype, rows), padding)


def norm_gradients(x, weight, root, dout):
    """In float64: dx and dweight."""
    x, weight, root, dout = (each.double() for each in (x, weight, root, dout))
    normed, scaled = x * root[:, None], dout * weight
    dx = root[:, None] * (scaled - normed * (scaled * normed).mean(dim=1, keepdim=True))
    return dx, (dout * normed).sum(dim=0)


def norm_case(answer, inputs, programs, words="", only=("dx", "dweight")):
    """Runs the answer under the trace, compares both gradients, and returns the trace and both."""
    from kernels.trace.undefined import undefined_is_nan

    x, weight, root, dout = inputs
    dtype, (rows, width) = str(x.dtype)[6:], x.shape
    given = f"RMSNorm, {rows} x {width}, {dtype}, {programs} programs asked for" + (f", {words}" if words else "")
    dx, dweight = padded(blank(x), 2), blank(weight)
    buffers = {"x": x, "weight": weight, "root": root, "dout": dout, "dx": dx, "dweight": dweight}
    with undefined_is_nan():
        trace = traced(
            lambda: answer.rmsnorm_backward(x, weight, root, dout, dx, dweight, programs),
            buffers, outputs=["dx", "dweight"], given=given,
        )  # fmt: skip
    expected = dict(zip(("dx", "dweight"), norm_gradients(x, weight, root, dout)))
    magnitude = (dout.double() * x.double() * root.double()[:, None]).abs().sum(dim=0)
    scale = {"dx": float((root[:, None].double() * 8).max()) * 4, "dweight": float(magnitude.max()) if rows else 1.0}
    terms = {"dx": width, "dweight": rows + 1}
    for name, got in (("dx", dx), ("dweight", dweight)):
        if name in only:
            tolerance = rounding(dtype, terms[name]) * scale[name]
            close(got, expected[name], tolerance, given=f"{name}, {given}", cause=CAUSE[name])
    if rows:
        read_whole(trace, ("x", "weight"), given=given)
    return trace, dx, dweight


@EXERCISE.check("softmax, full blocks", cause=CAUSE["dx"], anchor="#softmax-on-paper")
def softmax_full(answer):
    softmax_case(answer, weights_of(1, 32), numbers((1, 32), "float32", 1), "contiguous")
    softmax_case(answer, weights_of(3, 64), numbers((3, 64), "float32", 2), "contiguous")


@EXERCISE.check(
    "softmax, ragged rows and upstream gradients with any strides",
    cause="dy often arrives expanded, with strides of 0, or transposed.",
    anchor="#softmax-on-paper",
)
def softmax_ragged(answer):
    softmax_case(answer, weights_of(3, 33, padding=4), padded(numbers((3, 33), "float32", 3), 6), "rows apart")
    softmax_case(answer, weights_of(5, 33), numbers((33, 5), "float32", 4).t(), "dy transposed")
    softmax_case(answer, weights_of(3, 33), numbers((3, 1), "float32", 5).expand(3, 33), "dy expanded along a row")
    softmax_case(answer, weights_of(3, 257, "float16"), numbers((3, 257), "float16", 6), "contiguous")


@EXERCISE.check(
    "softmax against finite differences",
    cause="The formula itself: scores are moved a little, and the change of the loss is compared.",
    anchor="#finite-differences",
)
def softmax_differences(answer):
    import torch

    x, dy = numbers((2, 7), "float32", 8).double(), numbers((2, 7), "float32", 9)
    dx = blank(dy)
    answer.softmax_backward(torch.softmax(x, dim=1).float(), dy, dx)
    differences(lambda z: (torch.softmax(z, dim=1) * dy.double()).sum(), x, dx, "softmax, 2 x 7")


def differences(loss, x, dx, given):
    """Central differences of a float64 loss, against the gradient that the answer gave."""
    import torch

    step = 1e-5
    expected = torch.zeros_like(x)
    for index in range(x.numel()):
        moved = torch.zeros(x.numel(), dtype=x.dtype)
        moved[index] = step
        moved = moved.reshape(x.shape)
        expected.view(-1)[index] = (loss(x + moved) - loss(x - moved)) / (2 * step)
    tolerance = 2.0**-18 * max(1.0, float(expected.abs().max()))
    close(dx, expected, tolerance, given=f"the change of the loss by its inputs, {given}")


@EXERCISE.check("RMSNorm, one row", cause=CAUSE["dx"], anchor="#rmsnorm-on-paper")
def norm_row(answer):
    norm_case(answer, norm_inputs(1, 32), 1)
    norm_case(answer, norm_inputs(1, 33), 1)


@EXERCISE.check(
    "RMSNorm, rows for each program and rows left over",
    cause="Program p takes rows p, p + programs, and so on; together they take every row once.",
    anchor="#down-the-rows",
)
def norm_rows(answer):
    for rows, programs in ((4, 4), (7, 3), (9, 2), (5, 1)):
        norm_case(answer, norm_inputs(rows, 33, padding=3), programs)
    norm_case(answer, norm_inputs(6, 100), 2)  # more columns than a program of _sum_rows has


@EXERCISE.check(
    "more programs than rows",
    cause="A program without a row has nothing to leave, and a row of partial that nobody wrote holds anything.",
    anchor="#down-the-rows",
)
def norm_many(answer):
    norm_case(answer, norm_inputs(3, 33), 8)
    norm_case(answer, norm_inputs(1, 5), 4)


@EXERCISE.check(
    "RMSNorm, upstream gradients with any strides, and half precision",
    cause="dout may be expanded or transposed; sums are float32, and each result is rounded once.",
    anchor="#down-the-rows",
)
def norm_strided(answer):
    import torch

    x, weight, root, _ = norm_inputs(5, 33)
    norm_case(answer, (x, weight, root, numbers((33, 5), "float32", 11).t()), 2, "dout transposed")
    norm_case(answer, (x, weight, root, numbers((1, 1), "float32", 12).expand(5, 33)), 2, "dout expanded")
    norm_case(answer, norm_inputs(6, 33, "float16"), 2)
    # 600 rows, each of which adds a third: a sum kept in float16 rounds each of them, and always to the same side.
    x = torch.ones(600, 4, dtype=torch.float16)
    inputs = x, x[0].clone(), torch.ones(600), x / 3
    norm_case(answer, inputs, 2, "x of ones, dout of thirds", only=("dweight",))


@EXERCISE.check(
    "RMSNorm against finite differences",
    cause="The root of the mean depends on every element of the row as well.",
    anchor="#finite-differences",
)
def norm_differences(answer):
    import torch

    x, weight = numbers((2, 6), "float32", 13).double(), 1 + numbers((6,), "float32", 14, 0.5).double()
    dout = numbers((2, 6), "float32", 15)

    def loss(z, w):
        return (z * torch.rsqrt(z.square().mean(dim=1, keepdim=True) + 1e-6) * w * dout.double()).sum()

    root = torch.rsqrt(x.square().mean(dim=1) + 1e-6).float()
    dx, dweight = blank(dout), torch.full((6,), float("nan"))
    answer.rmsnorm_backward(x.float(), weight.float(), root, dout, dx, dweight, 2)
    differences(lambda z: loss(z, weight), x, dx, "RMSNorm, 2 x 6, x")
    differences(lambda w: loss(x, w), weight, dweight, "RMSNorm, 2 x 6, the weight")


@EXERCISE.check(
    "the weight's gradient is deterministic",
    cause="An atomic addition takes whoever arrives first; float32 sums depend on the order.",
    hint="Each program writes one row of partial, and _sum_rows is the only one to write dweight.",
    anchor="#same-bits",
)
def deterministic(answer):
    trace, _, _ = norm_case(answer, norm_inputs(12, 33), 4)
    for buffer in trace.buffers:
        if len(trace.select(buffer=buffer.name, what="atomic")):
            sentence = f"{buffer.name} is added to with atomics: its bits depend on which program comes first."
            fail(sentence, at=buffer.name, given="12 rows of 33, 4 programs", expected="stores", got="atomics")
    equal(len(trace.select(buffer="dweight", what="atomic")), 0, given="atomics on dweight")


@EXERCISE.check("no row", cause="The weight's gradient is then a sum of nothing: zero.", anchor="#down-the-rows")
def no_row(answer):
    import torch

    x, dweight = torch.empty(0, 8), torch.full((8,), float("nan"))
    answer.rmsnorm_backward(x, torch.ones(8), torch.empty(0), x, torch.empty(0, 8), dweight, 4)
    equal(dweight, [0.0] * 8, given="0 rows of 8")


def timed(answer, device):
    """What `lessons scratch` times: both gradients of RMSNorm, 16384 rows of 1000 on a GPU and 16 interpreted."""
    import torch

    rows = 16384 if device == "cuda" else 16
    x, dout = torch.randn(rows, 1000, device=device), torch.randn(rows, 1000, device=device)
    weight, root = torch.ones(1000, device=device), torch.rsqrt(x.square().mean(dim=1))
    dx, dweight = torch.empty_like(x), torch.empty_like(weight)
    programs = 264 if device == "cuda" else 4
    return lambda: answer.rmsnorm_backward(x, weight, root, dout, dx, dweight, programs) or dweight
