"""What `lessons check fused_gemm` looks at."""

from kernels.exercises import Exercise, close, equal, read_whole, traced

EXERCISE = Exercise(
    lesson="workshops/i3-fused-gemm.md#exercise",
    task="A tiled matrix product with bias and activation in its epilogue: any strides, ragged, rounded once.",
    needs="triton",
    hints=(
        "Begin with the step: addresses of a tile are a column of rows plus a row of columns, and its mask asks two "
        "questions. Then the epilogue in the order of the formula: sum, bias, activation, store.",
        "bias[n] belongs to column n: load it at n, which is one row of numbers, and adding it to total repeats it for "
        "every row. It has a stride and a mask of its own. Nothing is converted before the store, which rounds.",
        "k = first_k + tl.arange(0, BLOCK_K); a at m * a_stride_m + k[None, :] * a_stride_k with (m < M) & (k[None, :] "
        "< K), b at k[:, None] * b_stride_k + n * b_stride_n with (k[:, None] < K) & (n < N); total = tl.dot(a, b, "
        "total, input_precision='ieee'). After the loop total + bias, tl.maximum(total, 0.0) or total * "
        "tl.sigmoid(1.5957691216057308 * (total + 0.044715 * total * total * total)), and a store with (m < M) & "
        "(n < N).",
    ),
    explain=(
        "The sums of a tile lie in registers when the walk along K ends. Whatever is done to them there costs no "
        "memory traffic, where a second kernel would read and write the whole output once more. It has to happen "
        "*after* the walk, since neither a bias nor an activation may be applied to part of a sum; bias first, since "
        "act(x + bias) is not act(x) + bias. And it has to happen in float32: rounding the sum to the dtype of the "
        "output and adding the bias to that rounds twice, which two separate kernels cannot avoid. The bias is loaded "
        "by column, with a mask: nothing in the result would show a read past its end."
    ),
)
SLOPE = 1.13  # of an activation, at most: an error of the sum becomes one of the result times that


def apply(name, x):
    """The activation in float64."""
    import torch

    if name == "relu":
        return torch.relu(x)
    return torch.nn.functional.gelu(x, approximate="tanh") if name == "gelu" else x


def operands(M, N, K, dtype="float32", way="rows", seed=0):
    """a, b, bias and out; way: "rows" side by side, "gaps" between rows and elements of the bias, "columns" first."""
    import torch

    kind, nan = getattr(torch, dtype), float("nan")
    generator = torch.Generator().manual_seed(seed + 1000 * M + 10 * N + K)

    def matrix(rows, columns):
        if way == "columns":
            return torch.randn(columns, rows, generator=generator).to(kind).t()
        gap = 5 if way == "gaps" else 0
        stored = torch.full((rows, columns + gap), nan, dtype=kind)
        stored[:, :columns] = torch.randn(rows, columns, generator=generator)
        return stored[:, :columns]

    a, b = matrix(M, K), matrix(K, N)
    step = 3 if way == "gaps" else 1
    bias = torch.full((N * step,), nan, dtype=kind)[::step]
    bias.copy_(torch.randn(N, generator=generator) * 2)
    out = torch.full((M, N + (7 if way == "gaps" else 0)), nan, dtype=kind)[:, :N]
    return a, b, bias, out


def multiplied(answer, M, N, K, activation="none", dtype="float32", way="rows"):
    """Runs the answer under the trace and compares with float64, to within what float32 sums may be off."""
    from kernels.trace.undefined import undefined_is_nan

    a, b, bias, out = operands(M, N, K, dtype, way)
    stored = {"rows": "", "gaps": ", rows and biases further apart", "columns": ", a and b stored column by column"}
    given = f"{M} × {K} times {K} × {N}, {dtype}, activation {activation!r}{stored[way]}"
    buffers = {"a": a, "b": b, "bias": bias, "out": out}
    with undefined_is_nan():
        trace = traced(lambda: answer.fused_gemm(a, b, bias, out, activation), buffers, outputs=["out"], given=given)
    exact = a.double() @ b.double() + bias.double()
    expected = apply(activation, exact)
    # K products and K sums, the bias, and eight operations of the activation round in float32; the store once more.
    magnitude = float((a.double().abs() @ b.double().abs() + bias.double().abs()).max())
    tolerance = SLOPE * 2.0**-24 * (K + 10) * magnitude
    tolerance += {"float32": 0.0, "float16": 2.0**-11, "bfloat16": 2.0**-8}[dtype] * float(expected.abs().max())
    owners = trace.owners("out")
    close(
        out,
        expected,
        tolerance,
        given=given,
        owner=lambda row, column: f"program {owners[row, column]}",
        cause=_cause(out, a, b, bias, activation, tolerance),
    )
    read_whole(trace, ("a", "b", "bias"), given=given)


def _cause(out, a, b, bias, activation, tolerance) -> str:
    """The mistake that explains all of a wrong result, where there is one."""
    import torch

    if out.isnan().any():
        return "a masked load without other= has no defined value where its mask is off (NaN, in this check)"
    product, column = a.double() @ b.double(), bias.double()
    steps = -(-a.shape[1] // 16)
    mistakes = {
        "the bias is missing": apply(activation, product),
        "the bias is added in every step of the walk": apply(activation, product + steps * column),
        "the activation comes before the bias": apply(activation, product) + column,
        "the activation is missing": product + column,
        "this is the GELU with the error function, and the tanh approximation is asked for": torch.nn.functional.gelu(
            product + column
        )
        if activation == "gelu"
        else None,
    }
    if len(product) <= len(column):
        mistakes["row m got bias[m], and the bias belongs to the columns"] = apply(
            activation, product + column[: len(product), None]
        )
    for sentence, wrong in mistakes.items():
        if wrong is not None and ((out.double() - wrong).abs() <= tolerance).all():
            return sentence
    return ""


@EXERCISE.check(
    "one tile, one step",
    cause="The product of two whole tiles, and a bias for each column.",
    hint="Set the activation aside: load a, load b, tl.dot, add the bias of each column, store.",
    anchor="#exercise",
)
def one_tile(answer):
    multiplied(answer, 16, 32, 16)


@EXERCISE.check(
    "several tiles, several steps",
    cause="total goes on from step to step, and the epilogue comes once, after the last.",
    hint="What stands in the loop happens in every step.",
    anchor="#exercise",
)
def several(answer):
    multiplied(answer, 32, 64, 48)


@EXERCISE.check(
    "ragged in all three directions",
    cause="Three edges: rows, columns, and the end of K. Each load asks about two of them, the bias about one.",
    hint="A mask for each load and for the store; other=0.0 adds nothing to a sum.",
    anchor="#ragged-edges",
)
def ragged(answer):
    for shape in ((17, 33, 19), (5, 40, 16), (16, 7, 33), (1, 1, 1)):
        multiplied(answer, *shape)


@EXERCISE.check(
    "strides",
    cause="Each matrix has two strides, the bias has one, and the rows of out have one.",
    hint="No size stands in an address, only in masks.",
    anchor="#the-code",
)
def strides(answer):
    multiplied(answer, 17, 33, 19, way="columns")
    multiplied(answer, 17, 33, 19, way="gaps")


@EXERCISE.check(
    "the bias comes before ReLU",
    cause="act(x + bias), not act(x) + bias.",
    hint="The formula from the inside out: product, bias, activation.",
    anchor="#what-goes-wrong",
)
def relu(answer):
    multiplied(answer, 17, 33, 19, "relu")


@EXERCISE.check(
    "GELU in its tanh approximation",
    cause="x * sigmoid(2u), with u = sqrt(2 / pi) * (x + 0.044715 x³): 2 sqrt(2 / pi) is 1.5957691216057308.",
    hint="0.5 * (1 + tanh(u)) is sigmoid(2u): mind the factor 2.",
    anchor="#the-code",
)
def gelu(answer):
    multiplied(answer, 17, 33, 19, "gelu")


@EXERCISE.check(
    "two-byte dtypes",
    cause="The sum, the bias and the activation are float32; the store rounds.",
    hint="tl.sigmoid wants float32, and the bias is loaded in its own dtype.",
    anchor="#one-rounding",
)
def short(answer):
    for dtype in ("float16", "bfloat16"):
        multiplied(answer, 17, 33, 40, "gelu", dtype)


@EXERCISE.check(
    "one rounding",
    cause="Something was rounded to the dtype of the output before the bias was added.",
    hint="Convert nothing to the dtype of out; tl.store does it.",
    anchor="#one-rounding",
)
def once(answer):
    import torch

    # Whole numbers, so every order of addition is exact: sums of 2049, which float16 cannot hold, and a bias of 0.75.
    for dtype, sum_of, share in (("float16", 2049, 0.75), ("bfloat16", 257, 0.75)):
        kind = getattr(torch, dtype)
        a, b = torch.ones(2, 2, dtype=kind), torch.full((2, 3), (sum_of - 1) // 2, dtype=kind)
        a[:, 1], b[1] = 1, (sum_of - 1) // 2
        a, b = torch.cat([a, torch.ones(2, 1, dtype=kind)], 1), torch.cat([b, torch.ones(1, 3, dtype=kind)])
        bias, out = torch.full((3,), share, dtype=kind), torch.full((2, 3), float("nan"), dtype=kind)
        given = f"sums of exactly {sum_of} in {dtype}, and a bias of {share}"
        buffers = {"a": a, "b": b, "bias": bias, "out": out}
        traced(lambda held=buffers: answer.fused_gemm(*held.values(), "none"), buffers, ["out"], given=given)
        exact = a.double() @ b.double() + bias.double()
        equal(out.double(), exact.to(kind).double(), given=given)


@EXERCISE.check(
    "nothing to multiply",
    cause="With K = 0 every sum is 0 and the bias is still there; without rows or columns nothing is launched.",
    hint="The loop over no step is no special case.",
    anchor="#exercise",
)
def nothing(answer):
    import torch

    from kernels.trace.triton import trace_triton

    a, b, bias, out = operands(3, 5, 0)
    answer.fused_gemm(a, b, bias, out, "relu")
    equal(out, torch.relu(bias).expand(3, 5), given="3 × 0 times 0 × 5, activation 'relu'")
    for M, N in ((0, 5), (3, 0)):
        buffers = dict(zip(("a", "b", "bias", "out"), operands(M, N, 4)))
        trace = trace_triton(lambda held=buffers: answer.fused_gemm(*held.values(), "none"), buffers)
        equal(sum(launch.blocks for launch in trace.launches), 0, given=f"programs for {M} × 4 times 4 × {N}")


def timed(answer, device):
    """What `lessons scratch` times: a layer of 1024 × 1024 for 2048 tokens on a GPU, a small one in the interpreter."""
    import torch

    M, N, K = (2048, 1024, 1024) if device == "cuda" else (64, 64, 64)
    kind = torch.float16 if device == "cuda" else torch.float32
    a, b = torch.randn(M, K, device=device).to(kind), torch.randn(K, N, device=device).to(kind)
    bias, out = torch.randn(N, device=device).to(kind), torch.empty(M, N, dtype=kind, device=device)
    return lambda: answer.fused_gemm(a, b, bias, out, "gelu") or out
