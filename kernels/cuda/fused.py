"""The fused patterns of cuda/fused.cu as functions on PyTorch tensors."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kernels.cuda.ladder import LADDER, check_matrix, check_no_gradient, run_launcher

if TYPE_CHECKING:
    from torch import Tensor


def fused_bias_relu_scale(x: Tensor, bias: Tensor, scale: float) -> Tensor:
    """max(x + bias, 0) * scale in one pass, 4 bytes an access.

    Args:
        x: float32 matrix on a CUDA device, (rows, columns). Neighbouring columns must be neighbours in memory; rows may
            be any one stride apart. May be empty.
        bias: float32 (columns,), contiguous, on the same device.
        scale: a number.

    Returns:
        A new contiguous matrix of that shape, written on the device's current stream. NaN stays NaN.

    Raises:
        TypeError, ValueError: an argument is not as described; nothing was launched.
        RuntimeError: CUDA refused the launch.
    """
    return _fused("fused_bias_relu_scale", x, bias, float(scale))


def fused_bias_relu_scale_float4(x: Tensor, bias: Tensor, scale: float) -> Tensor:
    """The same, 16 bytes an access: x and bias begin at multiples of 16 bytes, and columns and the row stride are
    multiples of 4. See `fused_bias_relu_scale`."""
    return _fused("fused_bias_relu_scale_float4", x, bias, float(scale))


def fused_bias_gelu(x: Tensor, bias: Tensor) -> Tensor:
    """gelu(x + bias) by the approximation with tanh, in one pass. See `fused_bias_relu_scale`."""
    return _fused("fused_bias_gelu", x, bias)


def fused_bias_gelu_float4(x: Tensor, bias: Tensor) -> Tensor:
    """The same, 16 bytes an access. See `fused_bias_relu_scale_float4`."""
    return _fused("fused_bias_gelu_float4", x, bias)


def _fused(kernel: str, x: Tensor, bias: Tensor, *numbers: float) -> Tensor:
    import torch

    check_matrix(kernel, "x", x, torch.float32)
    rows, columns = x.shape
    if not isinstance(bias, torch.Tensor) or bias.dtype != torch.float32:
        raise TypeError(f"{kernel} needs a float32 bias, and bias is {getattr(bias, 'dtype', type(bias).__name__)}.")
    check_no_gradient(kernel, "bias", bias)
    if bias.shape != (columns,) or bias.device != x.device or not bias.is_contiguous():
        raise ValueError(
            f"{kernel} adds a contiguous bias of {columns} elements on {x.device} to each row; bias is "
            f"{tuple(bias.shape)} with strides {bias.stride()} on {bias.device}."
        )
    stride = x.stride(0) if rows > 1 else columns
    if kernel.endswith("_float4") and (columns % 4 or stride % 4 or x.data_ptr() % 16 or bias.data_ptr() % 16):
        raise ValueError(
            f"{kernel} reads 16 bytes at a time: x and bias must begin at multiples of 16 bytes, and columns "
            f"({columns}) and row stride ({stride}) be multiples of 4. {kernel.removesuffix('_float4')} takes any."
        )
    out = x.new_empty((rows, columns))
    run_launcher(LADDER, f"launch_{kernel}", (x, bias, out), (rows, columns, stride, columns, *numbers))
    return out
