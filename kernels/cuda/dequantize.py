"""The products with weights of one byte of cuda/dequantize.cu as functions on PyTorch tensors."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kernels.cuda.ladder import LADDER, check_matrix, check_no_gradient, run_launcher

if TYPE_CHECKING:
    from torch import Tensor


def dequantize(q: Tensor, scale: Tensor) -> Tensor:
    """q * scale[:, None] as bfloat16.

    Args:
        q: int8 (N, K), contiguous, on a CUDA device; K is a multiple of 16.
        scale: float32 (N,), contiguous, on the same device.

    Returns:
        A new (N, K) bfloat16 tensor, written on the device's current stream.

    Raises:
        TypeError, ValueError: an argument is not as described; nothing was launched.
        RuntimeError: CUDA refused the launch.
    """
    import torch

    _check("dequantize", q, scale)
    out = torch.empty(q.shape, dtype=torch.bfloat16, device=q.device)
    run_launcher(LADDER, "launch_dequantize", (q, scale, out), tuple(q.shape))
    return out


def dequantize_matmul(x: Tensor, q: Tensor, scale: Tensor) -> Tensor:
    """x @ (q * scale[:, None]).T in one pass over q, summed in float32 and rounded once.

    Args:
        x: bfloat16 (M, K), contiguous, on the device of q. Made for few rows.
        q, scale: as in `dequantize`.

    Returns:
        A new (M, N) bfloat16 tensor, written on the device's current stream. Errors are those of `dequantize`.
    """
    import torch

    _check("dequantize_matmul", q, scale)
    check_matrix("dequantize_matmul", "x", x, torch.bfloat16)
    if x.shape[1] != q.shape[1] or x.device != q.device or not x.is_contiguous() or x.data_ptr() % 16:
        raise ValueError(
            f"dequantize_matmul multiplies a contiguous (M, {q.shape[1]}) matrix on {q.device}, at a multiple of "
            f"16 bytes; x is {tuple(x.shape)} with strides {x.stride()} on {x.device}."
        )
    out = x.new_empty((x.shape[0], q.shape[0]))
    run_launcher(LADDER, "launch_dequantize_matmul", (x, q, scale, out), (x.shape[0], *q.shape))
    return out


def _check(kernel: str, q: Tensor, scale: Tensor) -> None:
    import torch

    check_matrix(kernel, "q", q, torch.int8)
    if not q.is_contiguous() or q.shape[1] % 16 or q.data_ptr() % 16:
        raise ValueError(
            f"{kernel} reads q 16 bytes at a time: it is contiguous, begins at a multiple of 16 "
            f"bytes, and its rows have a multiple of 16 numbers. q is {tuple(q.shape)} with strides {q.stride()}."
        )
    if not isinstance(scale, torch.Tensor) or scale.dtype != torch.float32:
        raise TypeError(f"{kernel} needs a float32 scale; it is {getattr(scale, 'dtype', type(scale).__name__)}.")
    check_no_gradient(kernel, "scale", scale)
    if scale.shape != (q.shape[0],) or scale.device != q.device or not scale.is_contiguous():
        raise ValueError(
            f"{kernel} needs one contiguous scale for each of the {q.shape[0]} rows of q, on {q.device}; it is "
            f"{tuple(scale.shape)} on {scale.device}."
        )
