"""fused_gemm: a product of matrices and what follows it, in one pass over the output.

    out[m, n] = act(sum_k a[m, k] * b[k, n] + bias[n]) * scale + residual[m, n]

Shapes    a (..., M, K), b (K, N), bias (N,) or None, residual (..., M, N) or None; out (..., M, N). Nothing is
          broadcast but the bias, along the rows.
Dtypes    float32, float16, bfloat16; all tensors have the dtype of a.
Strides   any strides of a, b, bias and residual, in elements, are read in place, as `kernels.ops.matmul` reads them.
          Leading dimensions of a or residual that do not merge into rows one stride apart are copied first. out is
          contiguous, and never an input.
Limits    those of `kernels.ops.matmul`.
Precision the product as `kernels.ops.matmul` has it; sum, activation, factor and residual in float32, then one
          rounding. The same steps one by one, on tensors of a two-byte dtype, round each time.
Special   "relu" keeps NaN; "gelu" is the tanh approximation. With K = 0 the sum is 0 and the rest is done. An output
          without elements launches nothing.
Gradient  none: a call that wants one is refused. `matmul` and `bias_act` record theirs.
"""

import torch

from kernels.ops import checks, op
from kernels.ops import matmul as product
from kernels.ops.closed import register_closed
from kernels.ops.library import direct
from kernels.ops.matmul_kernels import _matmul_tiles
from kernels.ops.matmul_launch import launch_product

ACTIVATIONS = ("none", "relu", "gelu")


def reference(
    a: torch.Tensor,
    b: torch.Tensor,
    bias: torch.Tensor | None = None,
    residual: torch.Tensor | None = None,
    activation: str = "none",
    scale: float = 1.0,
) -> torch.Tensor:
    """The formula in float64."""
    value = torch.matmul(a.double(), b.double())
    if bias is not None:
        value = value + bias.double()
    if activation == "relu":
        value = torch.relu(value)
    elif activation == "gelu":
        value = torch.nn.functional.gelu(value, approximate="tanh")
    value = value * scale
    return value if residual is None else value + residual.double()


def _require(a, b, bias, residual, activation, precision) -> tuple[int, ...]:
    shape = product.require_operands(a, b, precision)
    if b.dim() != 2:
        raise ValueError(f"b has shape {tuple(b.shape)}; expected two dimensions, (K, N).")
    expected = {"bias": ((shape[-1],), f"({shape[-1]},), one number a column"), "residual": (shape, f"{tuple(shape)}")}
    for name, value in (("bias", bias), ("residual", residual)):
        if value is None:
            continue
        checks.require_tensor(name, value, differentiable=True)
        checks.require_alike(name, value, "a", a)
        if value.shape != expected[name][0]:
            raise ValueError(f"{name} has shape {tuple(value.shape)}; expected {expected[name][1]}.")
    if activation not in ACTIVATIONS:
        raise ValueError(f'activation is {activation!r}; expected "none", "relu" or "gelu".')
    checks.require_runnable("a", a, _matmul_tiles)
    return shape


def _launch(a, b, bias, residual, out, activation, scale, precision, choices=None):
    if out.numel():
        rows = out.view(-1, out.shape[-1])
        a = a.detach().reshape(-1, a.shape[-1]) if a.shape[-1] else a.detach().new_empty((len(rows), 0))
        residual = residual.reshape(rows.shape) if residual is not None else None
        launch_product(a, b.detach(), rows, precision, bias, residual, activation, scale, choices)
    return out


def _forward(
    a: torch.Tensor,
    b: torch.Tensor,
    bias: torch.Tensor | None,
    residual: torch.Tensor | None,
    activation: str,
    scale: float,
    precision: str,
) -> torch.Tensor:
    shape = _require(a, b, bias, residual, activation, precision)
    out = torch.empty(shape, dtype=a.dtype, device=a.device)
    return _launch(a, b, bias, residual, out, activation, scale, precision)


def _fake(a, b, bias, residual, activation, scale, precision):
    return torch.empty((*a.shape[:-1], b.shape[-1]), dtype=a.dtype, device=a.device)


_fused_gemm_operator = register_closed("fused_gemm", _forward, _fake)


def fused_gemm(
    a: torch.Tensor,
    b: torch.Tensor,
    bias: torch.Tensor | None = None,
    residual: torch.Tensor | None = None,
    activation: str = "none",
    scale: float = 1.0,
    precision: str = "ieee",
) -> torch.Tensor:
    """act(a @ b + bias) * scale + residual as a new contiguous tensor; this module's contract has shapes and limits.

    activation: "none", "relu", or "gelu" in the tanh approximation of Hendrycks and Gimpel, "Gaussian Error Linear
    Units", 2016. precision: as of `kernels.ops.matmul.matmul`. Raises TypeError or ValueError for arguments that do not
    fit, RuntimeError on a CPU tensor outside Triton's interpreter; each names the argument, and nothing was launched.
    """
    if torch.compiler.is_compiling():
        return _fused_gemm_operator(a, b, bias, residual, activation, float(scale), precision)
    if direct(a, b, bias, residual):
        return _forward(a, b, bias, residual, activation, float(scale), precision)
    _require(a, b, bias, residual, activation, precision)
    return _fused_gemm_operator(a, b, bias, residual, activation, float(scale), precision)


def launch_fused_gemm(
    a: torch.Tensor,
    b: torch.Tensor,
    bias: torch.Tensor | None,
    out: torch.Tensor,
    *,
    residual: torch.Tensor | None = None,
    activation: str = "none",
    scale: float = 1.0,
    precision: str = "ieee",
    **choices: object,
) -> torch.Tensor:
    """Write act(a @ b + bias) * scale + residual to `out` (..., M, N), contiguous, and return it.

    choices: those of `kernels.ops.matmul.launch_matmul`. Raises as that does.
    """
    shape = _require(a, b, bias, residual, activation, precision)
    for name, value in (("a", a), ("b", b), ("bias", bias), ("residual", residual)):
        if value is not None:
            checks.require_tensor(name, value)  # no gradient is recorded here
    product.require_output(out, shape, a, b, bias, residual)
    product.require_choice(choices)
    return _launch(a, b, bias, residual, out, activation, float(scale), precision, choices)


def inputs(shape: tuple[int, ...], dtype: str, device: str, seed: int, padding: int = 3) -> tuple[torch.Tensor, ...]:
    """a and b as matmul has them, and a bias near 1, so that both sides of an activation are met."""
    a, b = product.inputs(shape, dtype, device, seed, padding)
    b = b[0] if b.dim() > 2 else b
    generator = torch.Generator(device).manual_seed(seed + 1)
    bias = torch.randn(shape[-2], generator=generator, device=device)
    return a, b, bias.to(a.dtype)


def rounded_once(dtype: str, shape: tuple[int, ...]) -> tuple[float, float]:
    """(rtol, atol): a sum, a few operations in float32, one rounding; no slope of an activation is above 1.13."""
    rtol, atol = product.sum_tolerance(dtype, shape[-1])
    return rtol + 16 * op.ROUNDOFF["float32"], 1.2 * atol + 32 * op.ROUNDOFF["float32"]


def _tolerance(dtype: str, shape: tuple[int, ...]) -> tuple[float, float]:
    """As `rounded_once`, with a second rounding to a two-byte dtype, as in the record of `kernels.ops.matmul`."""
    rtol, atol = rounded_once(dtype, shape)
    return (2 * rtol, 2 * atol) if dtype != "float32" else (rtol, atol)


def _record(name: str, activation: str, benches: tuple[op.Case, ...]) -> op.Op:
    """The record for one activation, with a bias."""

    def ours(a, b, bias):
        return fused_gemm(a, b, bias, activation=activation)

    def eager(a, b, bias):
        value = torch.addmm(bias, a, b)
        return torch.relu(value) if activation == "relu" else torch.nn.functional.gelu(value, approximate="tanh")

    def library(a, b, bias):
        return torch._addmm_activation(bias, a, b, use_gelu=activation == "gelu")

    return op.Op(
        name=name,
        reference=lambda a, b, bias: reference(a, b, bias, activation=activation),
        implementations=(
            op.Implementation("triton", ours, "triton", "kernels.ops.fused_gemm:_launch", ours=True),
            # The library's own fused kernel rounds once, as ours does; product, then activation, rounds twice.
            op.Implementation("torch", library, "torch", ""),
            op.Implementation("torch.compile", op.compiled(eager), "torch", "", dtypes=("float32",)),
        ),
        inputs=inputs,
        outputs=lambda a, b, bias: torch.empty((*a.shape[:-1], b.shape[-1]), dtype=a.dtype, device=a.device),
        bytes_moved=lambda shape, dtype: product.bytes_moved(shape, dtype) + shape[-2] * op.ELEMENT_BYTES[dtype],
        flops=product.flops,
        checks=(
            op.Case((1, 1, 1), "one product"),
            op.Case((33, 47, 65), "ragged in all three"),
            op.Case((32, 32, 32), "whole tiles"),
            op.Case((16, 48, 300), "thin and long: the epilogue comes after the slices"),
            op.Case((3, 17, 18, 19), "leading dimensions of a"),
            op.Case((0, 5, 3), "no row"),
            op.Case((5, 0, 3), "no column"),
            op.Case((5, 3, 0), "no product: the bias alone"),
        ),
        benches=benches,
        dtypes=op.DTYPES,
        bench_dtypes=("bfloat16",),
        launch={"activation": activation},
        tolerance=_tolerance,
    )


BENCHES = (
    op.Case((4096, 4096, 4096), "square"),
    op.Case((8192, 8192, 8192), "square and long"),
    op.Case((16384, 1024, 1024), "tokens times a weight"),
    op.Case((8192, 8192, 512), "a short sum: the epilogue shows"),
)
OP = _record("fused_gemm", "gelu", BENCHES)
MORE = (_record("fused_gemm_relu", "relu", BENCHES[:2]),)
