"""The three histograms of cuda/histogram.cu as functions on PyTorch tensors."""

from __future__ import annotations

import ctypes
from typing import TYPE_CHECKING

from kernels.cuda.call import library

if TYPE_CHECKING:
    from torch import Tensor

MAX_BINS = 1 << 24
MAX_SHARED_BINS = 12288  # 48 KiB of counters, which every GPU gives a block
BLOCKS_A_MULTIPROCESSOR = 4  # as many as fit beside each other with 32 copies of 256 counters


def histogram_plain(x: Tensor, bins: int = 256) -> Tensor:
    """How often each number from 0 to bins - 1 occurs, one atomic in global memory for each number.

    Args:
        x: int32 on a CUDA device, contiguous, any shape; may be empty.
        bins: from 1 to 2**24; the others take at most 12288.

    Returns:
        int64 (bins,), written on the device's current stream. Numbers outside the bins are counted nowhere.

    Raises:
        TypeError, ValueError: an argument is not as described; nothing was launched.
        RuntimeError: CUDA refused the launch.
    """
    return _histogram("histogram_plain", x, bins, MAX_BINS)


def histogram_shared(x: Tensor, bins: int = 256) -> Tensor:
    """The same, counted in shared memory by each block first. See `histogram_plain`."""
    return _histogram("histogram_shared", x, bins, MAX_SHARED_BINS)


def histogram_replicated(x: Tensor, bins: int = 256) -> Tensor:
    """The same with copies of the counters, so that equal numbers do not wait. See `histogram_plain`."""
    return _histogram("histogram_replicated", x, bins, MAX_SHARED_BINS)


def _histogram(kernel: str, x: Tensor, bins: int, most: int) -> Tensor:
    import torch

    _check(kernel, x, bins, most)
    out = x.new_empty((bins,), dtype=torch.int64)
    _launch(f"launch_{kernel}", x, out)
    return out


def _check(kernel: str, x: Tensor, bins: int, most: int) -> None:
    import torch

    if not isinstance(x, torch.Tensor):
        raise TypeError(f"{kernel} needs a tensor, and x is of type {type(x).__name__}.")
    if x.device.type != "cuda":
        raise ValueError(f"{kernel} runs on a CUDA GPU, and x is on {x.device}. Pass x.cuda().")
    if x.dtype != torch.int32:
        raise TypeError(f"{kernel} counts int32, and x is {x.dtype}. Pass x.int(), or call kernels.ops.histogram.")
    if not isinstance(bins, int) or isinstance(bins, bool) or not 1 <= bins <= most:
        raise ValueError(f"{kernel} counts in 1 to {most} bins, and bins is {bins!r}.")
    if not x.is_contiguous():
        raise ValueError(f"{kernel} walks memory in order, and x has strides {x.stride()}. Pass x.contiguous().")


def _launch(launcher: str, x: Tensor, out: Tensor) -> None:
    import torch

    # On the tensor's GPU, which need not be the current one. The types are spelled out: ctypes would pass a plain int
    # as 32 bits.
    with torch.cuda.device(x.device):
        blocks = BLOCKS_A_MULTIPROCESSOR * torch.cuda.get_device_properties(x.device).multi_processor_count
        extents = [ctypes.c_int64(value) for value in (x.numel(), out.numel(), blocks)]
        stream = ctypes.c_void_p(torch.cuda.current_stream().cuda_stream)
        pointers = (ctypes.c_void_p(x.data_ptr()), ctypes.c_void_p(out.data_ptr()))
        status = getattr(library(), launcher)(*pointers, *extents, stream)
    if status != 0:
        message = library().kernels_error_string(status).decode()
        raise RuntimeError(f"{launcher} was refused by CUDA: {message} (error {status}).")
