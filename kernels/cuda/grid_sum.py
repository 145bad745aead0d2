"""The sums over a grid of cuda/grid_sum.cu and cuda/grid_sum_cooperative.cu as functions on PyTorch tensors."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kernels.cuda.ladder import LADDER, check_no_gradient, run_launcher

if TYPE_CHECKING:
    from torch import Tensor


def grid_sum_two_launches(x: Tensor, blocks: int) -> Tensor:
    """The sum of x: partial sums by one launch, their sum by a second one.

    Args:
        x: float32 on a CUDA device, contiguous, any shape.
        blocks: how many blocks share the work.

    Returns:
        A new float32 tensor of shape (1,), written on the device's current stream; the same bits in every run.

    Raises:
        TypeError, ValueError: an argument is not as described; nothing was launched.
        RuntimeError: CUDA refused the launch.
    """
    return _sum("grid_sum_two_launches", x, blocks)


def grid_sum_last_block(x: Tensor, blocks: int) -> Tensor:
    """The same in one launch: the block that ends last adds up the partial sums. See `grid_sum_two_launches`."""
    return _sum("grid_sum_last_block", x, blocks)


def grid_sum_cooperative(x: Tensor, blocks: int) -> Tensor:
    """The same with a barrier of the grid. RuntimeError for more blocks than the GPU holds at once."""
    return _sum("grid_sum_cooperative", x, blocks)


def _sum(kernel: str, x: Tensor, blocks: int) -> Tensor:
    import torch

    if not isinstance(x, torch.Tensor) or x.dtype != torch.float32:
        raise TypeError(f"{kernel} sums float32, and x is {getattr(x, 'dtype', type(x).__name__)}.")
    check_no_gradient(kernel, "x", x)
    if x.device.type != "cuda" or not x.is_contiguous():
        raise ValueError(f"{kernel} walks memory of a CUDA GPU in order; x is on {x.device} with strides {x.stride()}.")
    if not 1 <= blocks <= 1 << 20:
        raise ValueError(f"{kernel} launches 1 to {1 << 20} blocks, and blocks is {blocks}.")
    partials, out = x.new_empty(blocks), x.new_empty(1)
    tickets = (torch.empty(1, dtype=torch.int32, device=x.device),) if kernel == "grid_sum_last_block" else ()
    run_launcher(LADDER, f"launch_{kernel}", (x, partials, *tickets, out), (x.numel(), blocks))
    return out
