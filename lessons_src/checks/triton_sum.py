"""What `lessons check triton_sum` looks at."""

from kernels.exercises import Exercise, close, equal, read_whole, traced

EXERCISE = Exercise(
    lesson="lessons/8-first-triton-kernels.md#exercise-sum",
    task="Add up each row of a matrix in Triton, one program a row, in float32.",
    needs="triton",
    hints=(
        "One program owns one row: the row's number is tl.program_id(0). Its elements lie at row * x_stride_m + n, in "
        "elements, for n from 0 to N - 1.",
        "tl.arange wants a power of two, so BLOCK_N = triton.next_power_of_2(N), and the mask is n < N. The places "
        "that are masked off take part in tl.sum: give them the value that changes no sum, with other=.",
        "x = tl.load(x_ptr + row * x_stride_m + n, mask=n < N, other=0.0), then tl.sum(x.to(tl.float32), axis=0), "
        "stored at out_ptr + row. Launch with _sum_rows[(M,)](x, out, N, x.stride(0), BLOCK_N=...).",
    ),
    explain=(
        "A block has a power of two of places, a row rarely has. What the mask switches off is no element, and still "
        "takes part in `tl.sum`, so it must be 0, which changes no sum. Without `other=` its value is not defined. "
        "Rows begin `x.stride(0)` elements apart, which the shape does not tell. Converting to float32 *before* the "
        "sum keeps the partial sums from being rounded, or from overflowing, in float16."
    ),
)


def summed(answer, rows, width, dtype="float32", padding=0, centre=0.0):
    """Runs the answer on rows of which each is followed by `padding` NaN, and compares."""
    import torch

    from kernels.trace.undefined import undefined_is_nan

    generator = torch.Generator().manual_seed(width)
    stored = torch.full((rows, width + padding), float("nan"), dtype=getattr(torch, dtype))
    stored[:, :width] = centre + torch.randn(rows, width, generator=generator)
    x, out = stored[:, :width], torch.full((rows,), float("nan"))
    stride = f", rows {width + padding} elements apart" if padding else ""
    given = f"{rows} row{'s' * (rows != 1)} of {width}, {dtype}{stride}"
    with undefined_is_nan():
        trace = traced(lambda: answer.row_sum(x, out), {"x": x, "out": out}, outputs=["out"], given=given)
    # The errors of a long sum in float32 behave like a random walk: sqrt(width) roundings of partial sums.
    largest = float(x.double().abs().sum(dim=1).max())
    tolerance = 2.0**-24 * (width**0.5 + 4) * largest
    close(out, x.double().sum(dim=1), tolerance, given=given, owner=lambda row: row, cause=_cause(trace, out))
    read_whole(trace, ("x",), given=given)


def _cause(trace, out) -> str:
    """Why a sum is wrong, where that can be told: an access outside of x would have been found before."""
    import numpy as np

    unread = np.argwhere(trace.counts("x", "read") == 0)
    if len(unread):
        row, column = unread[0]
        return f"no program reads x[{row}, {column}]: the block is narrower than the row, or a row begins elsewhere"
    if bool(out.isnan().any()):  # x holds none
        return "a masked load without other= has no defined value where its mask is off (NaN, in this check)"
    return ""


@EXERCISE.check(
    "one row",
    cause="The sum itself is off, or it is not stored where the number of the row says.",
    hint="One row takes one program. Load the row as one block, reduce it with tl.sum(..., axis=0), store the number.",
    anchor="#exercise-sum",
)
def one_row(answer):
    summed(answer, 1, 32)


@EXERCISE.check(
    "several rows",
    cause="Each program has a row of its own, to read and to write.",
    hint="Row 1 begins at element x_stride_m of x: pointers and strides count elements, not bytes.",
    anchor="#exercise-sum",
)
def several_rows(answer):
    summed(answer, 3, 32)


@EXERCISE.check(
    "widths that are no power of two",
    cause="The block is wider than the row: its spare places need a mask, and a value that changes no sum.",
    hint="A block has a power of two of places: 33 columns take 64. What do the other 31 read, and add to the sum?",
    anchor="#padding-that-changes-nothing",
)
def widths(answer):
    for width in (33, 1000, 1):
        summed(answer, 3, width)


@EXERCISE.check(
    "rows further apart than they are long",
    cause="The row stride says where a row begins; the width does not.",
    hint="Row m begins m * x.stride(0) elements after row 0: the launch passes the stride, the kernel multiplies.",
    anchor="#pointers-and-strides",
)
def strides(answer):
    summed(answer, 3, 33, padding=5)
    summed(answer, 2, 1000, padding=24)


@EXERCISE.check(
    "float16 rows, added up in float32",
    cause="float16 has 11 significant bits and ends at 65504: convert before the sum, not after it.",
    hint="x.to(tl.float32) makes a block of float32 out of one of float16.",
    anchor="#exercise-sum",
)
def half(answer):
    summed(answer, 3, 1000, "float16", centre=1.0)  # a sum near 1000, to be right to more than 11 bits
    summed(answer, 2, 1000, "float16", centre=100.0)  # a sum near 100000, beyond float16


@EXERCISE.check("no row", cause="0 rows take 0 programs.", anchor="#exercise-sum")
def no_row(answer):
    import torch

    from kernels.trace.triton import trace_triton

    x, out = torch.empty(0, 32), torch.empty(0)
    trace = trace_triton(lambda: answer.row_sum(x, out), {"x": x, "out": out})
    equal(sum(launch.blocks for launch in trace.launches), 0, given="the number of programs for 0 rows of 32")


def timed(answer, device):
    """What `lessons scratch` times: the sums of rows of 1000, 65536 of them on a GPU and 16 in the interpreter."""
    import torch

    x = torch.randn(65536 if device == "cuda" else 16, 1000, device=device)
    out = torch.empty(x.shape[0], device=device)
    return lambda: answer.row_sum(x, out) or out
