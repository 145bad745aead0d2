"""matmul: the product of two matrices, or of two batches of them.

    out[m, n] = sum_k a[m, k] * b[k, n]

Shapes    a (..., M, K), b (..., K, N), out (..., M, N); each extent from 0 up. Leading dimensions are broadcast as
          PyTorch does: one that is 1 or missing stands for any number. With K = 0 every sum is 0.
Dtypes    float32, float16, bfloat16; b and out have the dtype of a.
Strides   any, in elements, transposed or expanded operands included, are read in place. An operand of a large product
          whose rows do not begin at multiples of 16 bytes is first copied into rows that do (`kernels.ops.matmul_plan`
          says when), and one of a large product that may be cut into rows along k (`kernels.ops.matmul_tf32_launch`);
          nothing else is copied. out is contiguous, and never an input.
Limits    offsets are 64 bits wide; extents, and rows of all products, of at most 2**31 - 2**20. Which kernel runs, and
          in what tiles, is said in `kernels.ops.matmul_plan`.
Precision named by the caller. "ieee", the default: products and sums in float32 (those of two float16 or bfloat16 are
          exact). "tf32", for float32: operands cut to 11 significant bits, so that the tensor cores take them: an error
          of 2**-10 a product in the middle, and below 2**-9. "tf32x3", for float32: three such products of high and
          low parts, which keep about 21 bits of each operand; the tensor cores' own sums then lose more than that.
          Sums are float32, in an order that depends on shape, strides and GPU and on nothing else, then one rounding.
Special   infinities and NaN as IEEE 754 says. A sum beyond the dtype's range is infinite.
Gradient  recorded for both: da = dout @ b.T and db = a.T @ dout, with the transposes read in place and slices added in
          a fixed order; the gradient of a broadcast dimension is summed. They can be differentiated again.
"""

import math

import torch

from kernels.ops import checks, op
from kernels.ops.closed import register_closed
from kernels.ops.library import direct
from kernels.ops.matmul_kernels import _matmul_tiles
from kernels.ops.matmul_launch import launch_product, require_programs
from kernels.ops.matmul_plan import require_choice
from kernels.ops.matmul_tf32_launch import launch_tf32
from kernels.ops.matmul_tuning import Tuned

PRECISIONS = ("ieee", "tf32", "tf32x3")
MAX_EXTENT = 2**31 - 2**20


def reference(a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
    """The product in float64."""
    return torch.matmul(a.double(), b.double())


def require_operands(a: torch.Tensor, b: torch.Tensor, precision: str) -> tuple[int, ...]:
    """a and b must be operands of one product; returns its shape. Raises with a sentence otherwise."""
    for name, value in (("a", a), ("b", b)):
        checks.require_tensor(name, value, differentiable=True)
        if value.dim() < 2:
            raise ValueError(f"{name} has shape {tuple(value.shape)}; expected at least two dimensions.")
        if max(value.shape) > MAX_EXTENT:
            raise ValueError(f"{name} has shape {tuple(value.shape)}; expected extents of at most {MAX_EXTENT}.")
    checks.require_alike("b", b, "a", a)
    if b.shape[-2] != a.shape[-1]:
        raise ValueError(
            f"b has shape {tuple(b.shape)}; expected {a.shape[-1]} rows, as many as a of shape {tuple(a.shape)} has "
            f"columns."
        )
    if precision not in PRECISIONS:
        known = ", ".join(f'"{name}"' for name in PRECISIONS[:-1])
        raise ValueError(f'precision is {precision!r}; expected {known} or "{PRECISIONS[-1]}".')
    if precision != "ieee" and a.dtype != torch.float32:
        raise ValueError(
            f'precision is "{precision}" for {checks.dtype_name(a)}; expected "ieee": products of two-byte numbers are '
            f"exact in float32, and only float32 has another precision to choose."
        )
    try:
        batch = torch.broadcast_shapes(a.shape[:-2], b.shape[:-2])
    except RuntimeError:
        raise ValueError(
            f"b has shape {tuple(b.shape)}; expected leading dimensions that are those of a, {tuple(a.shape[:-2])}, "
            f"or 1, or missing."
        ) from None
    if math.prod(batch) * a.shape[-2] > MAX_EXTENT:  # where b has no leading dimensions, all of them are rows
        raise ValueError(
            f"a has shape {tuple(a.shape)} and b {tuple(b.shape)}; expected a product of at most {MAX_EXTENT} rows in "
            f"all."
        )
    return (*batch, a.shape[-2], b.shape[-1])


def require_output(out: torch.Tensor, shape: tuple[int, ...], a: torch.Tensor, *others: torch.Tensor | None) -> None:
    """`out` must be able to take the product of a and others, and apart from all of them."""
    checks.require_tensor("out", out)
    checks.require_alike("out", out, "a", a)
    if out.shape != tuple(shape):
        raise ValueError(f"out has shape {tuple(out.shape)}; expected {tuple(shape)}.")
    checks.require_runnable("a", a, _matmul_tiles)
    checks.require_contiguous("out", out)
    for name, other in zip(("a", "b", "bias", "residual"), (a, *others)):
        if other is not None:
            checks.require_apart("out", out, name, other)


def launch_matmul(
    a: torch.Tensor,
    b: torch.Tensor,
    out: torch.Tensor,
    *,
    precision: str = "ieee",
    path: str | None = None,
    block_m: int | None = None,
    block_n: int | None = None,
    block_k: int | None = None,
    group_m: int | None = None,
    splits: int | None = None,
    subtiles: int | None = None,
    residents: int | None = None,
    consumers: str | None = None,
    early: bool | None = None,
    overlap: bool | None = None,
    turned: bool | None = None,
    pack_a: bool | None = None,
    pack_b: bool | None = None,
    num_warps: int | None = None,
    num_stages: int | None = None,
) -> torch.Tensor:
    """Write a @ b to `out` and return it, as the plan says with the choices given.

    a: (..., M, K), b: (..., K, N), any strides. out: (..., M, N), contiguous, apart from both. The choices are fields
    of `kernels.ops.matmul_plan.MatmulPlan`; blocks are powers of two from 16 to 256. Raises TypeError, ValueError or
    RuntimeError with a sentence before any launch; what does not fit into a multiprocessor fails at the launch.
    """
    choices = {
        "path": path, "block_m": block_m, "block_n": block_n, "block_k": block_k, "group_m": group_m, "splits": splits,
        "subtiles": subtiles, "residents": residents, "consumers": consumers, "early": early, "overlap": overlap,
        "turned": turned, "pack_a": pack_a, "pack_b": pack_b, "num_warps": num_warps, "num_stages": num_stages,
    }  # fmt: skip
    shape = require_operands(a, b, precision)
    for name, value in (("a", a), ("b", b)):
        checks.require_tensor(name, value)  # no gradient is recorded here
    require_output(out, shape, a, b)
    require_choice(choices)
    require_programs(a, b, shape, precision, choices)
    if precision != "ieee" and all(value is None for value in choices.values()):
        return launch_tf32(a, b, out, precision)
    return _launch(a, b, out, precision, choices)


def _launch(a, b, out, precision, choices=None):
    if out.numel() == 0:
        return out
    if a.shape[-1] == 0:
        return out.zero_()
    batch = out.shape[:-2]
    a, b = a.expand(*batch, *a.shape[-2:]), b.expand(*batch, *b.shape[-2:])
    launch_product(a.detach(), b.detach(), out, precision, choices=choices)
    return out


def _forward(a: torch.Tensor, b: torch.Tensor, precision: str) -> torch.Tensor:
    shape = require_operands(a, b, precision)
    checks.require_runnable("a", a, _matmul_tiles)
    require_programs(a, b, shape, precision, {})
    out = torch.empty(shape, dtype=a.dtype, device=a.device)
    return _launch(a, b, out, precision) if precision == "ieee" else launch_tf32(a, b, out, precision)


def _save(ctx, inputs, output):
    a, b, ctx.precision = inputs
    ctx.save_for_backward(a, b)


def _backward(ctx, dout):
    a, b = ctx.saved_tensors
    da = db = None
    if ctx.needs_input_grad[0]:
        da = _matmul_operator(dout, b.mT, ctx.precision).sum_to_size(a.shape)
    if ctx.needs_input_grad[1]:
        if b.dim() == 2:  # the leading dimensions are rows: one sum over all of them, not one each
            rows = math.prod(a.shape[:-1])  # said aloud: of no element, -1 could be anything
            a, dout = a.reshape(rows, a.shape[-1]), dout.reshape(rows, dout.shape[-1])
        db = _matmul_operator(a.mT, dout, ctx.precision).sum_to_size(b.shape)
    return da, db, None


def _fake(a, b, precision):
    batch = torch.broadcast_shapes(a.shape[:-2], b.shape[:-2])
    return torch.empty((*batch, a.shape[-2], b.shape[-1]), dtype=a.dtype, device=a.device)


# Closed to torch.compile: nothing could be fused into it, and a descriptor cannot be traced.
_matmul_operator = register_closed("matmul", _forward, _fake, save=_save, backward=_backward)


def matmul(a: torch.Tensor, b: torch.Tensor, precision: str = "ieee") -> torch.Tensor:
    """a @ b as a new contiguous tensor; this module's contract has shapes, strides and limits.

    precision: "ieee", or for float32 also "tf32" and "tf32x3". Raises TypeError or ValueError for arguments that do not
    fit, RuntimeError on a CPU tensor outside Triton's interpreter; each names the argument, and nothing was launched.
    """
    if torch.compiler.is_compiling():
        return _matmul_operator(a, b, precision)
    if direct(a, b):
        return _forward(a, b, precision)
    require_operands(a, b, precision)
    return _matmul_operator(a, b, precision)


def inputs(shape: tuple[int, ...], dtype: str, device: str, seed: int, padding: int = 3) -> tuple[torch.Tensor, ...]:
    """a and b for a shape (M, N, K), or (batch, M, N, K); seeded, with `padding` NaN behind each row.

    Elements of a are near 1, those of b near K**-0.5, so that sums are near 1 and fit into float16 whatever K is.
    """
    *batch, M, N, K = shape
    generator = torch.Generator(device).manual_seed(seed)
    a = torch.randn((*batch, M, K), generator=generator, device=device)
    b = torch.randn((*batch, K, N), generator=generator, device=device) * max(K, 1) ** -0.5
    as_dtype = getattr(torch, dtype)
    return op.with_padded_rows(a.to(as_dtype), padding), op.with_padded_rows(b.to(as_dtype), padding)


def bytes_moved(shape: tuple[int, ...], dtype: str) -> int:
    """a and b read once, out written once."""
    *batch, M, N, K = shape
    return op.elements(tuple(batch)) * (M * K + K * N + M * N) * op.ELEMENT_BYTES[dtype]


def flops(shape: tuple[int, ...]) -> int:
    """A product and a sum for each of M * N * K."""
    return 2 * op.elements(shape)


def sum_tolerance(dtype: str, K: int, precision: str = "ieee") -> tuple[float, float]:
    """(rtol, atol) of one sum of K products of `inputs`, rounded once to `dtype`.

    float32 sums: an error of one roundoff a step is a random walk of sqrt(K) steps, six times its length at most among
    many million sums. The tensor cores add about eight products at a time and cut the sum off instead of rounding it,
    so their errors have one sign: K / 8 steps of two roundoffs, of sums that are up to 4 large. tf32 cuts operands,
    which makes each product too small by 2**-10 in the middle and scatters it by as much.
    """
    unit, rounding = op.ROUNDOFF["float32"], op.ROUNDOFF[dtype]
    walk = 8 * unit * (math.sqrt(K) + 4)
    cut = 8 * unit * (K / 8 + 8)
    if dtype != "float32":
        return rounding + unit, cut + op.SMALLEST[dtype]
    return {
        "ieee": (2 * rounding, walk),
        "tf32": (2.0**-9, 2.0**-8 + cut),
        "tf32x3": (2.0**-20, 2.0**-19 + 3 * cut),
    }[precision]


def _tolerance(precision: str):
    """As `sum_tolerance`, with a second rounding to the dtype, which a library that cuts K into slices may do."""

    def tolerance(dtype: str, shape: tuple[int, ...]) -> tuple[float, float]:
        rtol, atol = sum_tolerance(dtype, shape[-1], precision)
        return (2 * rtol, 2 * atol) if dtype != "float32" else (rtol, atol)

    return tolerance


CHECKS = (
    op.Case((1, 1, 1), "one product"),
    op.Case((127, 255, 65), "ragged in all three: one short of, one short of, one past a power of two"),
    op.Case((64, 64, 64), "whole tiles: no lane is masked"),
    op.Case((1, 33, 7), "one row"),
    op.Case((33, 1, 7), "one column"),
    op.Case((17, 19, 1), "one product a sum"),
    op.Case((16, 48, 300), "thin and long: slices"),
    op.Case((3, 17, 18, 19), "a batch"),
    op.Case((0, 5, 3), "no row"),
    op.Case((5, 0, 3), "no column"),
    op.Case((5, 3, 0), "no product: sums of nothing"),
)
BENCHES = (
    op.Case((1024, 1024, 1024), "small: fewer large tiles than multiprocessors"),
    op.Case((4096, 4096, 4096), "square"),
    op.Case((8192, 8192, 8192), "square, long enough for the clocks to fall"),
    op.Case((16384, 1024, 1024), "tokens times a weight"),
    op.Case((1024, 1024, 16384), "a long sum into a small output: slices"),
    op.Case((8192, 8192, 512), "a short sum into a large output: the writing shows"),
    op.Case((16, 4096, 4096), "a thin batch: as fast as b can be read"),
    op.Case((8191, 4095, 4097), "rows at odd addresses"),
    op.Case((127, 255, 65), "ragged and tiny"),
)
FLOAT32_BENCHES = (*BENCHES[:4], BENCHES[7])


def _in_tf32(call):
    """`call` with PyTorch's products of float32 in TF32, as they were before afterwards."""

    def run(*tensors):
        before = torch.backends.cuda.matmul.allow_tf32
        torch.backends.cuda.matmul.allow_tf32 = True
        try:
            return call(*tensors)
        finally:
            torch.backends.cuda.matmul.allow_tf32 = before

    return run


def _record(name: str, precision: str, dtypes: tuple[str, ...], benches: tuple[op.Case, ...]) -> op.Op:
    """The record for one precision."""

    def ours(a, b):
        return matmul(a, b, precision)

    def cast(call):
        return _in_tf32(call) if precision == "tf32" else call

    source = "kernels.ops.matmul:_launch" if precision == "ieee" else "kernels.ops.matmul_tf32_launch:launch_tf32"
    return op.Op(
        name=name,
        reference=reference,
        implementations=(
            op.Implementation("triton", ours, "triton", source, ours=True, dtypes=dtypes),
            op.Implementation(
                "tiled", Tuned(precision), "triton", "kernels.ops.matmul_tuning:launch_tuned", ours=True, dtypes=dtypes
            ),
            op.Implementation("torch", cast(torch.matmul), "torch", "", dtypes=dtypes),
            op.Implementation("torch.compile", cast(op.compiled(_library)), "torch", "", dtypes=dtypes),
        ),
        inputs=inputs,
        outputs=lambda a, b: torch.empty(require_operands(a, b, precision), dtype=a.dtype, device=a.device),
        bytes_moved=bytes_moved,
        flops=flops,
        checks=CHECKS,
        benches=benches,
        dtypes=dtypes,
        bench_dtypes=("bfloat16",) if "bfloat16" in dtypes else (),
        launch={"precision": precision},
        tolerance=_tolerance(precision),
        gradient_tolerance=_gradient_tolerance(precision),
    )


def _library(a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
    return torch.matmul(a, b)


def _gradient_tolerance(precision: str):
    """Of da, a sum over N, and db, a sum over M, with upstream gradients near 1: as long as the longer of the two."""

    def tolerance(dtype: str, shape: tuple[int, ...]) -> tuple[float, float]:
        longest = max(shape[-3:-1])
        rtol, atol = sum_tolerance(dtype, longest, precision)
        return rtol, atol * math.sqrt(max(longest, 1))

    return tolerance


OP = _record("matmul", "ieee", op.DTYPES, BENCHES)
MORE = (
    _record("matmul_tf32", "tf32", ("float32",), FLOAT32_BENCHES),
    _record("matmul_tf32x3", "tf32x3", ("float32",), FLOAT32_BENCHES),
)
