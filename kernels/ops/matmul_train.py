"""matmul_train: the three products of a linear layer's training step.

    out = a @ b        da = dout @ b.T        db = a.T @ dout

Shapes    a (M, K): M tokens of K features; b (K, N): the weight; dout (M, N): the gradient of out. da is like a, and
          db like b. Extents from 0 up.
Dtypes    float32, float16, bfloat16; all tensors have the dtype of a.
Strides   any, in elements. b.T and a.T are b and a with their strides exchanged: no transpose is copied. All results
          are contiguous.
Limits    those of `kernels.ops.matmul`. The number of tokens is a run-time argument: a kernel is compiled again only
          where M becomes or ceases to be a multiple of 16, or 1, or the plan takes another tile for it.
Precision as `kernels.ops.matmul`. db is a sum over all tokens with a small output, so it is cut into slices that are
          added up in a fixed order: the same tensors give the same bits. What that costs beside atomic additions is one
          more launch, and float32 slices that are written and read once.
Special   with no token, db is 0.
Gradient  this is it: `kernels.ops.matmul` records a gradient that makes the last two products.
"""

import torch

from kernels.ops import checks, op
from kernels.ops import matmul as product
from kernels.ops.matmul_launch import launch_product
from kernels.ops.matmul_tf32_launch import launch_tf32


def reference(a: torch.Tensor, b: torch.Tensor, dout: torch.Tensor) -> tuple[torch.Tensor, ...]:
    """The three products in float64."""
    return a.double() @ b.double(), dout.double() @ b.double().t(), a.double().t() @ dout.double()


def _launch(a, b, dout, out, da, db, precision):
    for left, right, result in ((a, b, out), (dout, b.t(), da), (a.t(), dout, db)):
        if result.numel() == 0:
            continue
        if left.shape[1] == 0:
            result.zero_()
        else:
            launch_product(left, right, result, precision)


def matmul_train(
    a: torch.Tensor, b: torch.Tensor, dout: torch.Tensor, precision: str = "ieee"
) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """(a @ b, dout @ b.T, a.T @ dout) as new contiguous tensors; this module's contract has shapes and limits.

    Raises TypeError or ValueError for arguments that do not fit, or that require a gradient; RuntimeError on a CPU
    tensor outside Triton's interpreter; each names the argument, and nothing has been launched.
    """
    for name, value in (("a", a), ("b", b), ("dout", dout)):
        checks.require_tensor(name, value)
        checks.require_memory(name, value)
        if value.dim() != 2:
            raise ValueError(f"{name} has shape {tuple(value.shape)}; expected two dimensions.")
    shape = product.require_operands(a, b, precision)
    checks.require_alike("dout", dout, "a", a)
    if dout.shape != shape:
        raise ValueError(f"dout has shape {tuple(dout.shape)}; expected {shape}, that of a @ b.")
    checks.require_runnable("a", a, product._matmul_tiles)
    out, da, db = (torch.empty(tuple(size), dtype=a.dtype, device=a.device) for size in (shape, a.shape, b.shape))
    if precision == "ieee":
        _launch(a, b, dout, out, da, db, precision)
    else:
        for left, right, result in ((a, b, out), (dout, b.t(), da), (a.t(), dout, db)):
            launch_tf32(left, right, result, precision)
    return out, da, db


def inputs(shape: tuple[int, ...], dtype: str, device: str, seed: int, padding: int = 3) -> tuple[torch.Tensor, ...]:
    """a and b as matmul has them, and an upstream gradient near M**-0.5, so that all three results are near 1."""
    M, N, _ = shape
    dout = product.inputs((M, 1, N), dtype, device, seed + 1, padding=0)[0] * max(M, 1) ** -0.5
    return *product.inputs(shape, dtype, device, seed, padding), op.with_padded_rows(dout, padding)


def _library(a: torch.Tensor, b: torch.Tensor, dout: torch.Tensor) -> tuple[torch.Tensor, ...]:
    return a @ b, dout @ b.t(), a.t() @ dout


def _bytes(shape: tuple[int, ...], dtype: str) -> int:
    M, N, K = shape
    return 3 * (M * K + K * N + M * N) * op.ELEMENT_BYTES[dtype]


OP = op.Op(
    name="matmul_train",
    reference=reference,
    implementations=(
        op.Implementation("triton", matmul_train, "triton", "kernels.ops.matmul_train:_launch", ours=True),
        op.Implementation("torch", _library, "torch", ""),
        op.Implementation("torch.compile", op.compiled(_library), "torch", ""),
    ),
    inputs=inputs,
    outputs=lambda a, b, dout: tuple(
        torch.empty(tuple(size), dtype=a.dtype, device=a.device) for size in (dout.shape, a.shape, b.shape)
    ),
    bytes_moved=_bytes,
    flops=lambda shape: 3 * product.flops(shape),
    checks=(
        op.Case((1, 1, 1), "one product each"),
        op.Case((33, 47, 65), "ragged in all three"),
        op.Case((300, 16, 24), "many tokens, a small weight: the weight's gradient is cut into slices"),
        op.Case((0, 5, 3), "no token: the weight's gradient is 0"),
        op.Case((5, 0, 3), "no output feature: the input's gradient is 0"),
        op.Case((5, 3, 0), "no input feature"),
    ),
    benches=(
        op.Case((2048, 4096, 1024), "a layer that widens"),
        op.Case((4096, 4096, 4096), "square"),
        op.Case((16384, 1024, 1024), "many tokens, a small weight: its gradient is a long sum into a small output"),
    ),
    dtypes=op.DTYPES,
    bench_dtypes=("bfloat16",),
    tolerance=lambda dtype, shape: tuple(2 * each for each in product.sum_tolerance(dtype, max(shape))),
)
