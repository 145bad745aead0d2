"""What `lessons check strided_softmax` looks at."""

from itertools import product

from kernels.exercises import Exercise, close, equal, fail, read_whole, traced

EXERCISE = Exercise(
    lesson="workshops/i1-strided-softmax.md#exercise",
    task="The softmax of each row in Triton, with any row and any column stride of x and of out.",
    needs="triton",
    hints=(
        "An address is a sum: pointer + row number * row stride + column number * column stride. Begin with the kernel "
        "of Lesson 8 and give each of its offsets a column stride. x and out have two strides each: four numbers.",
        "For the tile: m = program * BLOCK_M + tl.arange(0, BLOCK_M)[:, None] stands upright, n = tl.arange(0, BLOCK_N)"
        "[None, :] lies flat, and m * stride + n * stride is a tile. The mask is (m < M) & (n < N), the reductions go "
        "along axis 1 with keep_dims=True.",
        "Two elements of out meet where a rows further down is as far as b columns further to the right: a * row "
        "stride == b * column stride. The smallest such a and b come from math.lcm; they must fit into the matrix.",
    ),
    explain=(
        "A kernel never sees a shape or a transpose, only a pointer and strides: `x.t()` is the same storage with the "
        "two strides exchanged, `x[:, ::2]` doubles one of them, `x.expand(...)` makes one of them 0. So one kernel "
        "with four strides covers all of them and copies nothing. *Reading* an element many times is harmless. "
        "*Writing* several elements to one address is not: the result would depend on which program comes last, so "
        "PyTorch refuses an expanded output, and so does this launcher. Two elements share an address where some "
        "rows down are as far as some columns to the right; the first such place is their least common multiple."
    ),
)


def scores(rows, width, dtype, centre):
    import torch

    generator = torch.Generator().manual_seed(100 * rows + width)
    return (centre + torch.randn(rows, width, generator=generator)).to(getattr(torch, dtype))


def laid(values, layout):
    """The same numbers in another layout, with NaN in every place of the storage that is not theirs."""
    import torch

    rows, width = values.shape
    sizes = {
        "contiguous": (rows, width),
        "rows apart": (rows, width + 3),
        "every second column": (rows, 2 * width),
        "transposed": (width, rows),
        "transposed, rows apart": (width, rows + 3),
    }
    stored = torch.full(sizes[layout], float("nan"), dtype=values.dtype)
    views = {
        "contiguous": lambda: stored,
        "rows apart": lambda: stored[:, :width],
        "every second column": lambda: stored[:, ::2],
        "transposed": lambda: stored.t(),
        "transposed, rows apart": lambda: stored.t()[:rows],
    }
    view = views[layout]()
    view.copy_(values)
    return view


def weighed(answer, x, layout, words, block_m=1, whole=True, padding=False):
    """Runs the answer into an `out` of that layout, and compares with float64.

    padding: what differs from a run that was right is the lanes behind the row, so a wrong value is theirs.
    """
    import torch

    from kernels.trace.undefined import undefined_is_nan

    out = laid(torch.full(x.shape, float("nan"), dtype=x.dtype), layout)
    given = f"{x.shape[0]} x {x.shape[1]}, {str(x.dtype)[6:]}, {words}, strides {x.stride()}"
    given += f"; out {layout}, strides {out.stride()}" + (f"; {block_m} rows a program" if block_m > 1 else "")
    with undefined_is_nan():
        trace = traced(lambda: answer.softmax(x, out, block_m), {"x": x, "out": out}, outputs=["out"], given=given)
    expected = torch.softmax(x.double(), dim=1)
    width = x.shape[1]
    # x - m rounds as much as the largest difference (below 8), exp makes a relative error of that; the sum adds
    # sqrt(width) roundings, the operations around it a few; the store rounds once.
    relative = 2.0**-24 * (width**0.5 + 8 + 8) + (2.0**-11 if x.dtype == torch.float16 else 0.0)
    tolerance = relative * float(expected.nan_to_num().max())
    owners = trace.owners("out")
    thoughts = masked_lanes(bool(out.isnan().any()), width) if padding else {}
    close(out, expected, tolerance, given=given, owner=lambda m, n: f"program {owners[m, n]}", **thoughts)
    if whole:
        read_whole(trace, ("x",), given=given)
    return trace


def masked_lanes(undefined, width):
    """Cause and hint where rows of a power of two come out right, and wider ones do not."""
    block = 1 << (width - 1).bit_length()
    lanes = f"{width} columns take a block of {block}, and the {block - width} masked lanes count as scores"
    if undefined:
        cause = f"{lanes}: without other=, Triton promises nothing of what a masked lane holds; here it is NaN."
    else:
        cause = (
            f"{lanes}: what they hold takes part in the maximum and in the sum; a 0 has the weight exp(0 - maximum)."
        )
    return {"cause": cause, "hint": 'other=float("-inf") in the load: it is no maximum, and its weight is 0.'}


@EXERCISE.check("contiguous rows", cause="One of the five steps is off, or the tile.", anchor="#exercise")
def contiguous(answer):
    for rows, width in ((1, 32), (3, 32), (3, 33), (2, 1)):
        x = laid(scores(rows, width, "float32", 0.0), "contiguous")
        weighed(answer, x, "contiguous", "contiguous", padding=width == 33)


@EXERCISE.check(
    "rows further apart than they are long",
    cause="A row begins at its number times the row stride, and x and out have one each.",
    anchor="#the-code",
)
def apart(answer):
    x = laid(scores(3, 33, "float32", 0.0), "rows apart")
    weighed(answer, x, "contiguous", "rows apart")
    weighed(answer, laid(scores(3, 33, "float32", 0.0), "contiguous"), "rows apart", "contiguous")


@EXERCISE.check(
    "columns further apart than one element",
    cause="The next element of a row is one column stride on, not one element.",
    hint="n * x_stride_n where n stood.",
    anchor="#the-code",
)
def columns(answer):
    for layout in ("every second column", "transposed", "transposed, rows apart"):
        x = laid(scores(5, 33, "float32", 0.0), layout)
        weighed(answer, x, "contiguous", layout)


@EXERCISE.check(
    "an output with strides of its own",
    cause="out has a row and a column stride of its own; those of x say nothing about it.",
    anchor="#the-code",
)
def output(answer):
    for layout in ("every second column", "transposed", "transposed, rows apart"):
        weighed(answer, laid(scores(5, 33, "float32", 0.0), "contiguous"), layout, "contiguous")
    weighed(answer, laid(scores(4, 20, "float32", 0.0), "transposed"), "every second column", "transposed")


@EXERCISE.check(
    "expanded inputs",
    cause="A stride of 0 is a stride: every row, or every column, has the same address.",
    anchor="#zero",
)
def expanded(answer):
    import torch

    row = scores(1, 33, "float32", 0.0)
    weighed(answer, row.expand(4, 33), "contiguous", "one row for all (row stride 0)", whole=False)
    column = scores(4, 1, "float32", 0.0)
    x = column.expand(4, 33)
    weighed(answer, x, "contiguous", "one score for each row (column stride 0)", whole=False)
    weighed(answer, torch.tensor([[2.5]]).expand(3, 8), "transposed", "one score for all (strides 0)", whole=False)


NO_ROWS_LEFT = (
    "The grid counts rows, and not blocks of them. Programs too many have all their rows masked off: the result is "
    "right, and their work is for nothing."
)


@EXERCISE.check(
    "several rows in one program",
    cause="The last program has rows left over: they are masked as columns are.",
    hint="(m < M) & (n < N), in the load and in the store.",
    anchor="#exercise",
)
def tiles(answer):
    for rows, block_m in ((4, 4), (6, 4), (3, 8)):
        for layout in ("contiguous", "transposed"):
            trace = weighed(answer, laid(scores(rows, 33, "float32", 0.0), layout), "contiguous", layout, block_m)
            got, expected = sum(launch.blocks for launch in trace.launches), -(-rows // block_m)
            if got != expected:
                fail(
                    f"{got} programs are launched for {rows} rows, and each takes {block_m} of them.",
                    given=f"M = {rows}, block_m = {block_m}",
                    expected=expected,
                    got=got,
                    cause=NO_ROWS_LEFT if got > expected else "Each program takes one block of block_m rows.",
                    hint="grid = (triton.cdiv(M, block_m),)",
                )
            equal(got, expected)


@EXERCISE.check(
    "scores far from zero, and masked ones",
    cause="The maximum comes off first, padding is -inf, and a score of -inf has weight 0.",
    anchor="#exercise",
)
def far(answer):
    for centre in (100.0, -100.0):
        x = laid(scores(6, 33, "float32", centre), "transposed")
        weighed(answer, x, "contiguous", f"transposed, scores near {centre:g}", 4)
    x = laid(scores(3, 33, "float32", 0.0), "transposed")
    x[0, :5], x[1, :] = float("-inf"), float("-inf")
    weighed(answer, x, "contiguous", "transposed, 5 scores of row 0 and all of row 1 at -inf")


@EXERCISE.check("half-precision scores", cause="Exponentials are taken in float32.", anchor="#exercise")
def half(answer):
    for layout in ("contiguous", "transposed"):
        weighed(answer, laid(scores(3, 257, "float16", 0.0), layout), "transposed", layout)


def layouts():
    """Small matrices, sizes and strides: those with rows, columns and strides of their own first, empty ones last."""
    each = [(sizes, strides) for sizes in product(range(6), repeat=2) for strides in product(range(8), repeat=2)]

    def plain(sizes, strides):
        kind = 4 if 0 in sizes else 1 + sizes.count(1) if 1 in sizes else 1 if 0 in strides else 0
        return kind, sizes[0] * sizes[1], sum(strides), sizes, strides

    return sorted(each, key=lambda layout: plain(*layout))


def drawn(sizes, strides):
    """The matrix in words: where the elements of each row lie."""
    rows = [" ".join(str(i * strides[0] + j * strides[1]) for j in range(sizes[1])) for i in range(sizes[0])]
    lie = f"the rows lie at {' | '.join(rows)}" if 0 not in sizes else "there is no element"
    return f"sizes = {sizes}, strides = {strides}: {lie}"


def asked(answer, sizes, strides, given):
    return answer.shares_addresses(sizes, strides)


@EXERCISE.check(
    "which outputs share addresses",
    cause="Two elements meet where some rows down are as far as some columns to the right.",
    hint="Does a number stand twice in what is given? Which strides and sizes make it so?",
    anchor="#zero",
)
def sharing(answer):
    for sizes, strides in layouts():
        places = [i * strides[0] + j * strides[1] for i in range(sizes[0]) for j in range(sizes[1])]
        given, cause = drawn(sizes, strides), ""
        if 0 in sizes:
            cause = "A matrix without elements has no two that could meet, whatever its strides."
        elif 1 in sizes:
            cause = "In a direction of size 1 there is no neighbour, so the stride of that direction is never used."
        elif 0 in strides:
            cause = "A stride of 0 puts all the neighbours of its direction at one address."
        equal(asked(answer, sizes, strides, given), len(set(places)) < len(places), given=given, cause=cause)


@EXERCISE.check(
    "an output that cannot be written is refused",
    cause="Several programs, or lanes, would write one address, and the last one wins.",
    hint="if shares_addresses(out.shape, out.stride()): raise ValueError(...)",
    anchor="#zero",
)
def refused(answer):
    import torch

    from kernels.trace.triton import trace_triton

    x = scores(3, 8, "float32", 0.0)
    for words, out in (
        ("one row for all", torch.zeros(1, 8).expand(3, 8)),
        ("one column for all", torch.zeros(3, 1).expand(3, 8)),
        ("overlapping windows", torch.zeros(10).as_strided((3, 8), (1, 1))),
    ):
        given = f"out is {words}, strides {out.stride()}"
        raised = []

        def launch(out=out, raised=raised):
            try:
                answer.softmax(x, out)
            except ValueError as error:
                raised.append(error)

        trace = trace_triton(launch, {"x": x, "out": out})
        if not raised:
            fail("The launcher takes an out whose elements share addresses.", given=given, expected="ValueError")
        equal(len(trace.launches), 0, given=f"launches before the ValueError, {given}")
    weighed(answer, scores(1, 8, "float32", 0.0), "transposed", "contiguous")


@EXERCISE.check("no row", cause="0 rows take 0 programs.", anchor="#exercise")
def no_row(answer):
    import torch

    from kernels.trace.triton import trace_triton

    x, out = torch.empty(0, 32), torch.empty(0, 32)
    trace = trace_triton(lambda: answer.softmax(x, out), {"x": x, "out": out})
    equal(sum(launch.blocks for launch in trace.launches), 0, given="the number of programs for 0 rows of 32")


def timed(answer, device):
    """What `lessons scratch` times: rows of 1000 of a transposed input, 16384 of them on a GPU and 16 interpreted."""
    import torch

    x = torch.randn(1000, 16384 if device == "cuda" else 16, device=device).t()
    out = torch.empty(x.shape, device=device)
    return lambda: answer.softmax(x, out, 8) or out
