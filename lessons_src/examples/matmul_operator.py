"""What an operator needs beside its kernel: a fake, a gradient, and a build when it is first used."""

from pathlib import Path

import torch

HERE = Path(__file__).resolve().parent


def build_now() -> None:
    """Compiles the extension and loads it (JIT). The second call in a new process finds it compiled."""
    from torch.utils.cpp_extension import load

    load(
        name="matmul_ext",
        sources=[str(HERE / "matmul_ext" / "matmul_ext.cu")],
        extra_include_paths=[str(HERE.parents[1] / "cuda")],
        extra_cuda_cflags=["-O3", "-lineinfo"],
        is_python_module=False,
    )


def fake(a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
    """Shape, dtype, device and strides of the result, without its numbers."""
    torch._check(
        a.dim() == 2 and b.dim() == 2, lambda: f"matmul multiplies matrices; got {a.dim()} and {b.dim()} dimensions"
    )
    torch._check(a.shape[1] == b.shape[0], lambda: f"matmul: the inner sizes differ, {a.shape[1]} and {b.shape[0]}")
    return a.new_empty((a.shape[0], b.shape[1]))


def save(ctx, inputs, output) -> None:
    ctx.save_for_backward(*inputs)


def backward(ctx, upstream):
    a, b = ctx.saved_tensors
    multiply = torch.ops.matmul_ext.matmul
    needs_a, needs_b = ctx.needs_input_grad
    return multiply(upstream, b.t()) if needs_a else None, multiply(a.t(), upstream) if needs_b else None


def register() -> None:
    """Makes the operator known to torch.compile and to autograd."""
    torch.library.register_fake("matmul_ext::matmul", fake)
    torch.library.register_autograd("matmul_ext::matmul", backward, setup_context=save)


def keeps_to_its_stream(a: torch.Tensor, b: torch.Tensor) -> bool:
    """Whether the product of two float32 tensors on a GPU waits for what its caller's stream did before. Changes a."""
    side = torch.cuda.Stream()
    side.wait_stream(torch.cuda.current_stream())  # a and b are there before it begins
    with torch.cuda.stream(side):
        torch.cuda._sleep(10**9)  # cycles: the side stream is busy for a while
        a.fill_(1.0)  # so this is late
        product = torch.ops.matmul_ext.matmul(a, b)
    side.synchronize()
    # Either sum of K terms is off by at most K roundings of 2**-24 of the sum of their sizes, in whatever order.
    bound = len(b) * 2**-23 * b.abs().sum(dim=0)
    return bool(((product - b.sum(dim=0)).abs() <= bound).all())
