"""The CUDA kernels as functions on PyTorch tensors."""

from __future__ import annotations

import ctypes
from functools import lru_cache
from typing import TYPE_CHECKING

from kernels.cuda.building import build
from kernels.cuda.toolchain import CompilerMissing, compiler

if TYPE_CHECKING:
    from torch import Tensor


def why_not() -> str | None:
    """A sentence that says why the CUDA kernels cannot run here, or None when they can. Builds nothing."""
    try:
        import torch
    except ImportError:
        return "PyTorch is not installed, and the CUDA kernels work on its tensors."
    if not torch.cuda.is_available():
        return "PyTorch sees no CUDA GPU on this machine."
    try:
        compiler()
    except CompilerMissing as missing:
        return str(missing)
    return None


def available() -> bool:
    """Whether the CUDA kernels can run here: PyTorch, a GPU and a compiler are present."""
    return why_not() is None


@lru_cache(maxsize=1)
def library() -> ctypes.CDLL:
    """The compiled launchers, built if need be. Each returns a CUDA status, which `kernels_error_string` explains."""
    loaded = ctypes.CDLL(str(build()))
    loaded.kernels_error_string.argtypes = (ctypes.c_int,)
    loaded.kernels_error_string.restype = ctypes.c_char_p
    return loaded


def vector_add(x: Tensor, y: Tensor) -> Tensor:
    """x + y, one CUDA thread per element.

    Args:
        x, y: float32 on one CUDA device, of one shape, contiguous. Any number of dimensions; may be empty.

    Returns:
        A new contiguous tensor of that shape, written on the device's current stream.

    Raises:
        TypeError, ValueError: an argument is not as described; nothing was launched.
        RuntimeError: CUDA refused the launch.
    """
    _check_tensor("vector_add", "x", x)
    _check_tensor("vector_add", "y", y)
    if x.shape != y.shape:
        raise ValueError(f"vector_add needs tensors of one shape; x is {tuple(x.shape)} and y is {tuple(y.shape)}.")
    if x.device != y.device:
        raise ValueError(f"vector_add needs both tensors on one device; x is on {x.device} and y is on {y.device}.")
    for name, tensor in (("x", x), ("y", y)):
        if not tensor.is_contiguous():
            raise ValueError(
                f"vector_add walks memory in order, and {name} has strides {tensor.stride()}. Pass {name}.contiguous()."
            )
    out = x.new_empty(x.shape)
    _launch("launch_vector_add", (x, y, out), (x.numel(),))
    return out


def softmax_serial(x: Tensor) -> Tensor:
    """Softmax over the last dimension, one thread per row, its sum compensated (Kahan). See `softmax_parallel`."""
    return _softmax("softmax_serial", "launch_softmax_serial", x)


def softmax_parallel(x: Tensor) -> Tensor:
    """Softmax over the last dimension, one block per row.

    Args:
        x: float32 on a CUDA device, at least one dimension. Neighbours in the last dimension must be neighbours in
            memory; the rows may be any one stride apart. May be empty.

    Returns:
        A new contiguous tensor of that shape, written on the device's current stream. A score of -inf has weight 0; a
        row of nothing but -inf is NaN, as in torch.softmax.

    Raises:
        TypeError, ValueError: x is not as described; nothing was launched.
        RuntimeError: CUDA refused the launch.
    """
    return _softmax("softmax_parallel", "launch_softmax_parallel", x)


def softmax_online(x: Tensor) -> Tensor:
    """Softmax over the last dimension, maximum and sum in one pass, 16-byte accesses where a row's address and width
    allow them. See `softmax_parallel`."""
    return _softmax("softmax_online", "launch_softmax_online", x)


def softmax_online_scalar(x: Tensor) -> Tensor:
    """`softmax_online` with 4-byte accesses only. See `softmax_parallel`."""
    return _softmax("softmax_online_scalar", "launch_softmax_online_scalar", x)


def _softmax(kernel: str, launcher: str, x: Tensor) -> Tensor:
    _check_tensor(kernel, "x", x)
    if x.dim() == 0:
        raise ValueError(f"{kernel} works on rows, and x has no dimension. Pass x.reshape(1).")
    out = x.new_empty(x.shape)
    if x.numel() == 0:
        return out
    columns = x.shape[-1]
    if columns > 1 and x.stride(-1) != 1:
        raise ValueError(
            f"{kernel} needs neighbouring columns side by side in memory, and the last stride of x is {x.stride(-1)}. "
            "Pass x.contiguous()."
        )
    try:
        matrix = x.view(-1, columns)
    except RuntimeError:
        raise ValueError(
            f"{kernel} needs rows that are one stride apart, and x of shape {tuple(x.shape)} has strides "
            f"{x.stride()}. Pass x.contiguous()."
        ) from None
    _launch(launcher, (matrix, out), (matrix.shape[0], columns, matrix.stride(0), columns))
    return out


def _check_tensor(kernel: str, name: str, tensor: Tensor) -> None:
    import torch

    if not isinstance(tensor, torch.Tensor):
        raise TypeError(f"{kernel} needs a tensor, and {name} is of type {type(tensor).__name__}.")
    if tensor.device.type != "cuda":
        raise ValueError(f"{kernel} runs on a CUDA GPU, and {name} is on {tensor.device}. Pass {name}.cuda().")
    if tensor.dtype != torch.float32:
        raise TypeError(f"{kernel} computes in float32, and {name} is {tensor.dtype}. Pass {name}.float().")
    if tensor.requires_grad and torch.is_grad_enabled():
        raise ValueError(f"{kernel} has no backward pass, and {name} requires a gradient. Pass {name}.detach().")


def _launch(launcher: str, tensors: tuple[Tensor, ...], extents: tuple[int, ...]) -> None:
    import torch

    # A launcher takes pointers, then extents and strides (64-bit, in elements), then the stream. The types are spelled
    # out: ctypes would pass a plain int as 32 bits and cut off pointers.
    arguments = [ctypes.c_void_p(tensor.data_ptr()) for tensor in tensors]
    arguments += [ctypes.c_int64(extent) for extent in extents]
    # The library launches on the current device; without the guard a tensor of GPU 1 would be handed to GPU 0.
    with torch.cuda.device(tensors[0].device):
        stream = ctypes.c_void_p(torch.cuda.current_stream().cuda_stream)
        status = getattr(library(), launcher)(*arguments, stream)
    if status != 0:
        message = library().kernels_error_string(status).decode()
        raise RuntimeError(f"{launcher} was refused by CUDA: {message} (error {status}).")
