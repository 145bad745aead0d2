"""Builds and loads the libraries of cuda/ladder.cu and cuda/ladder_hopper.cu, and calls their launchers."""

from __future__ import annotations

import ctypes
import sys
from collections.abc import Mapping
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING

from kernels.cuda.building import FLAGS, _compile, _lock, _prepare
from kernels.sources import project_root

if TYPE_CHECKING:
    from torch import Tensor

LADDER = "ladder.cu"
HOPPER = "ladder_hopper.cu"
_SHARED = ["-shared"] if sys.platform == "win32" else ["-shared", "-Xcompiler", "-fPIC,-Wall,-Wextra"]


def build_ladder(root_file: str = LADDER, replace: Mapping[str, str] | None = None) -> Path:
    """Builds one of the two libraries and returns its path in build/.

    Args:
        root_file: `LADDER`, built for this machine's GPUs or else for `DEFAULT_ARCHS`; or `HOPPER`, built for sm_90a,
            whose instructions no other GPU has.
        replace: texts to exchange in the sources, for a variant such as another tile.

    Raises:
        CompilerMissing, ValueError, BuildFailed: as `kernels.cuda.build` does.
    """
    hopper = root_file == HOPPER
    nvcc, command, sources, key = _prepare(root_file, _SHARED, (90,) if hopper else None, replace)
    if hopper:
        code = "-gencode=arch=compute_90a,code=sm_90a"
        command = [str(nvcc.nvcc), *nvcc.flags, *FLAGS, *_SHARED, code]
    target = project_root() / "build" / f"lib{Path(root_file).stem}_{key}{'.dll' if sys.platform == 'win32' else '.so'}"
    with _lock(target):
        if not target.exists():
            _compile(nvcc, command, root_file, sources, target)
    return target


@lru_cache(maxsize=2)
def ladder_library(root_file: str = LADDER) -> ctypes.CDLL:
    """The compiled launchers, built if need be. Each returns a CUDA status."""
    return ctypes.CDLL(str(build_ladder(root_file)))


def check_matrix(kernel: str, name: str, tensor: Tensor, dtype: object) -> None:
    """Raises TypeError or ValueError, in a sentence, unless `tensor` is a matrix that a launcher can take."""
    import torch

    if not isinstance(tensor, torch.Tensor):
        raise TypeError(f"{kernel} needs a tensor, and {name} is of type {type(tensor).__name__}.")
    if tensor.device.type != "cuda":
        raise ValueError(f"{kernel} runs on a CUDA GPU, and {name} is on {tensor.device}. Pass {name}.cuda().")
    if tensor.dtype != dtype:
        raise TypeError(f"{kernel} takes {dtype}, and {name} is {tensor.dtype}. Pass {name}.to({dtype}).")
    check_no_gradient(kernel, name, tensor)
    if tensor.dim() != 2:
        raise ValueError(f"{kernel} works on a matrix, and {name} has {tensor.dim()} dimensions.")
    if tensor.shape[1] > 1 and tensor.stride(1) != 1:
        raise ValueError(
            f"{kernel} needs neighbouring columns side by side in memory, and {name} has strides {tensor.stride()}. "
            f"Pass {name}.contiguous()."
        )


def check_no_gradient(kernel: str, name: str, tensor: Tensor) -> None:
    """Raises ValueError where a gradient is asked for, which would silently get lost."""
    import torch

    if tensor.requires_grad and torch.is_grad_enabled():
        raise ValueError(f"{kernel} has no backward pass, and {name} requires a gradient. Pass {name}.detach().")


def run_launcher(root_file: str, launcher: str, tensors: tuple[Tensor, ...], numbers: tuple[int | float, ...]) -> None:
    """Calls a launcher on the first tensor's device and its current stream.

    Raises:
        RuntimeError: CUDA refused the launch.
    """
    import torch

    # The types are spelled out: ctypes would pass a plain int as 32 bits and cut off pointers.
    arguments = [ctypes.c_void_p(tensor.data_ptr()) for tensor in tensors]
    arguments += [ctypes.c_float(n) if isinstance(n, float) else ctypes.c_int64(n) for n in numbers]
    with torch.cuda.device(tensors[0].device):
        stream = ctypes.c_void_p(torch.cuda.current_stream().cuda_stream)
        status = getattr(ladder_library(root_file), launcher)(*arguments, stream)
    if status != 0:
        said = ladder_library(LADDER).ladder_error_string
        said.restype = ctypes.c_char_p
        raise RuntimeError(f"{launcher} was refused by CUDA: {said(status).decode()} (error {status}).")
