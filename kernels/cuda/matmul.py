"""The rungs of the GEMM ladder (cuda/ladder.cu, cuda/ladder_hopper.cu) as functions on PyTorch tensors."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kernels.cuda.ladder import HOPPER, LADDER, check_matrix, run_launcher

if TYPE_CHECKING:
    from torch import Tensor

FLOAT32_RUNGS = ("matmul_naive", "matmul_tiled", "matmul_register_tiled", "matmul_async_copy")
HOPPER_RUNGS = ("matmul_tma", "matmul_wgmma", "matmul_cluster", "matmul_persistent")
BFLOAT16_RUNGS = ("matmul_wmma", *HOPPER_RUNGS)
RUNGS = FLOAT32_RUNGS + BFLOAT16_RUNGS


def matmul_naive(a: Tensor, b: Tensor) -> Tensor:
    """a @ b, one CUDA thread for an element, every factor from global memory.

    Args:
        a, b: (M, K) and (K, N), float32, on one CUDA device. Neighbours in a row must be neighbours in memory; rows may
            be any one stride apart. Any of M, N, K may be zero.

    Returns:
        A new contiguous (M, N) float32 tensor, written on the device's current stream. With K = 0 it is zero.

    Raises:
        TypeError, ValueError: an argument is not as described; nothing was launched.
        RuntimeError: CUDA refused the launch.
    """
    return _matmul("matmul_naive", a, b)


def matmul_tiled(a: Tensor, b: Tensor) -> Tensor:
    """The same through 32 x 32 tiles in shared memory. See `matmul_naive`."""
    return _matmul("matmul_tiled", a, b)


def matmul_register_tiled(a: Tensor, b: Tensor) -> Tensor:
    """The same with 8 x 8 elements a thread. See `matmul_naive`."""
    return _matmul("matmul_register_tiled", a, b)


def matmul_async_copy(a: Tensor, b: Tensor) -> Tensor:
    """The same with asynchronous copies that run ahead, of 16 bytes where rows allow it. See `matmul_naive`."""
    return _matmul("matmul_async_copy", a, b)


def matmul_wmma(a: Tensor, b: Tensor) -> Tensor:
    """a @ b in bfloat16 on tensor cores, summed in float32 and rounded once; otherwise as `matmul_naive`."""
    return _matmul("matmul_wmma", a, b)


def matmul_tma(a: Tensor, b: Tensor) -> Tensor:
    """a @ b in bfloat16, its tiles fetched by Hopper's copy unit.

    Args:
        a, b: as in `matmul_naive`, but bfloat16 on a GPU of compute capability 9.0. Each begins at a multiple of 16
            bytes, and its row stride is a multiple of 8 elements, since the copy unit reads nothing else; M, N and K
            are free. Rows of one tensor do not overlap.
    """
    return _matmul("matmul_tma", a, b)


def matmul_wgmma(a: Tensor, b: Tensor) -> Tensor:
    """The same with products of a whole warpgroup, straight from shared memory. See `matmul_tma`."""
    return _matmul("matmul_wgmma", a, b)


def matmul_cluster(a: Tensor, b: Tensor) -> Tensor:
    """The same with tiles of b that two blocks fetch for each other. See `matmul_tma`."""
    return _matmul("matmul_cluster", a, b)


def matmul_persistent(a: Tensor, b: Tensor) -> Tensor:
    """The same with warps that only fetch, and blocks that work on many tiles. See `matmul_tma`."""
    return _matmul("matmul_persistent", a, b)


def _matmul(kernel: str, a: Tensor, b: Tensor) -> Tensor:
    import torch

    dtype = torch.float32 if kernel in FLOAT32_RUNGS else torch.bfloat16
    for name, tensor in (("a", a), ("b", b)):
        check_matrix(kernel, name, tensor, dtype)
    if a.device != b.device:
        raise ValueError(f"{kernel} needs both matrices on one device; a is on {a.device} and b is on {b.device}.")
    (m, k), (depth, n) = a.shape, b.shape
    if k != depth:
        raise ValueError(f"{kernel} multiplies (M, K) by (K, N); a is {tuple(a.shape)} and b is {tuple(b.shape)}.")
    strides = [_row_stride(a), _row_stride(b)]
    if kernel in HOPPER_RUNGS:
        strides = [_check_for_copy_unit(kernel, name, tensor) for name, tensor in (("a", a), ("b", b))]
    out = a.new_empty((m, n))
    run_launcher(HOPPER if kernel in HOPPER_RUNGS else LADDER, f"launch_{kernel}", (a, b, out), (m, n, k, *strides, n))
    return out


def _row_stride(matrix: Tensor) -> int:
    return matrix.stride(0) if matrix.shape[0] > 1 else matrix.shape[1]


def _check_for_copy_unit(kernel: str, name: str, matrix: Tensor) -> int:
    """The row stride in elements, one that the copy unit takes."""
    import torch

    capability = torch.cuda.get_device_capability(matrix.device)
    if capability != (9, 0):
        raise ValueError(
            f"{kernel} is made of Hopper's own instructions (compute capability 9.0), and {matrix.device} has "
            f"{capability[0]}.{capability[1]}. matmul_wmma runs there."
        )
    if matrix.data_ptr() % 16:
        raise ValueError(
            f"{kernel} fetches boxes of a matrix that begins at a multiple of 16 bytes, and {name} begins "
            f"{matrix.data_ptr() % 16} bytes after one. Pass {name}.clone()."
        )
    rows, columns = matrix.shape
    if rows <= 1 or columns == 0:
        return -(-columns // 8) * 8
    stride = matrix.stride(0)
    if stride % 8 or stride < columns:
        raise ValueError(
            f"{kernel} fetches rows that are a multiple of 8 elements apart and do not overlap, and those of {name} "
            f"are {stride} apart. Copy it into a matrix of {-(-columns // 8) * 8} columns, and pass the first ones."
        )
    return stride
