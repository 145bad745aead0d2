"""The demonstrations and probes of cuda/essentials.cu as functions on PyTorch tensors.

All take float32 tensors on a CUDA device unless said otherwise, launch on its current stream, and raise TypeError or
ValueError with a sentence for arguments that are not as described, RuntimeError where CUDA refuses the launch.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from kernels.cuda.ladder import check_matrix, check_no_gradient, run_launcher

if TYPE_CHECKING:
    from torch import Tensor

ESSENTIALS = "essentials.cu"
WALK_WORDS = 4096  # elements that `shared_walk` reads
SHARED_WORDS = 8192  # elements that `read_shared` reads, and the most of `chase_shared`
STRIP = 96  # rows of `strip_products`


def copy_strided(x: Tensor, n: int, stride: int = 1, first: int = 0) -> Tensor:
    """x[first], x[first + stride], …: n elements. x is contiguous, with at least first + (n - 1) * stride + 1."""
    _check("copy_strided", x)
    if n < 0 or stride < 0 or first < 0 or (n and first + (n - 1) * stride >= x.numel()):
        raise ValueError(
            f"copy_strided reads x[{first} + i * {stride}] for i below {n}, and x has {x.numel()} elements."
        )
    out = x.new_empty(n)
    run_launcher(ESSENTIALS, "launch_copy_strided", (x, out), (n, stride, first))
    return out


def copy_float4(x: Tensor) -> Tensor:
    """A copy with 16 bytes an access. x is contiguous and begins at a multiple of 16 bytes; any length."""
    _check("copy_float4", x)
    if x.data_ptr() % 16:
        raise ValueError(f"copy_float4 reads 16 bytes at a time, and x begins at {x.data_ptr() % 16} bytes past 16.")
    out = x.new_empty(x.shape)
    run_launcher(ESSENTIALS, "launch_copy_float4", (x, out), (x.numel(),))
    return out


def transpose_direct(x: Tensor) -> Tensor:
    """The transpose (columns, rows) without shared memory: stores down columns. Rows may be any one stride apart."""
    return _transpose("transpose_direct", x)


def transpose_swizzled(x: Tensor) -> Tensor:
    """The transpose (columns, rows) through swizzled tiles of 32 x 32. Rows may be any one stride apart."""
    return _transpose("transpose_swizzled", x)


def _transpose(kernel: str, x: Tensor) -> Tensor:
    import torch

    check_matrix(kernel, "x", x, torch.float32)
    rows, columns = x.shape
    out = x.new_empty((columns, rows))
    run_launcher(ESSENTIALS, f"launch_{kernel}", (x, out), (rows, columns, x.stride(0) if rows > 1 else columns, rows))
    return out


def shared_walk(x: Tensor, blocks: int, stride: int, rounds: int) -> Tensor:
    """Sums of words of shared memory that lanes read `stride` apart; x has `WALK_WORDS` elements. (blocks * 256,)"""
    _check("shared_walk", x, WALK_WORDS)
    out = x.new_empty(blocks * 256)
    run_launcher(ESSENTIALS, "launch_shared_walk", (x, out), (blocks, stride, rounds))
    return out


def block_sums(x: Tensor, way: str = "shuffle", rounds: int = 1) -> Tensor:
    """Sums of each 256 neighbours, (ceil(n / 256),), `rounds` times over. way: "shuffle", "shared" or "atomic"."""
    _check("block_sums", x)
    if way not in ("shuffle", "shared", "atomic"):
        raise ValueError(f"block_sums adds by shuffle, shared or atomic, and way is {way!r}.")
    out = x.new_empty(-(-x.numel() // 256))
    run_launcher(ESSENTIALS, f"launch_block_sums_{way}", (x, out), (x.numel(), rounds))
    return out


def warp_exchanges(x: Tensor, argument: int) -> Tensor:
    """(4, n): x of lane `argument`, of the lane `argument` further on, of lane ^ `argument`, and the warp's sum."""
    _check("warp_exchanges", x)
    out = x.new_empty((4, x.numel()))
    run_launcher(ESSENTIALS, "launch_warp_exchanges", (x, out), (x.numel(), argument))
    return out


def two_paths(x: Tensor, kind: Tensor, steps: int) -> Tensor:
    """One chain of `steps` operations where kind (int32, as long as x) is 0, another where it is not."""
    import torch

    _check("two_paths", x)
    if kind.dtype != torch.int32 or kind.shape != x.shape or kind.device != x.device or not kind.is_contiguous():
        raise ValueError(f"two_paths needs an int32 kind for each element of x; kind is {kind.dtype} {kind.shape}.")
    out = x.new_empty(x.shape)
    run_launcher(ESSENTIALS, "launch_two_paths", (x, kind, out), (x.numel(), steps))
    return out


def copy_resident(
    x: Tensor, blocks: int, threads: int, shared_bytes: int = 0, loads: int = 1, allow: bool = True
) -> Tensor:
    """A copy by `blocks` of `threads` that ask for shared memory they do not use. loads: 1 or 4 under way a thread.

    allow: raise the kernel's limit first where `shared_bytes` is above 48 KiB; without it CUDA refuses the launch.
    """
    _check("copy_resident", x)
    out = x.new_empty(x.shape)
    name = {1: "launch_copy_resident", 4: "launch_copy_resident_4"}[loads]
    run_launcher(ESSENTIALS, name, (x, out), (x.numel(), blocks, threads, shared_bytes, int(allow)))
    return out


def strip_products(x: Tensor, blocks: int = 1) -> Tensor:
    """For each column of x (`STRIP`, n), contiguous: sums of products of its elements, (n,). blocks: 1, 3, 4 or 6, how
    many blocks the kernel was compiled to leave room for."""
    _check("strip_products", x)
    if x.dim() != 2 or x.shape[0] != STRIP or blocks not in (1, 3, 4, 6):
        raise ValueError(f"strip_products takes {STRIP} rows and 1, 3, 4 or 6 blocks; got {tuple(x.shape)}, {blocks}.")
    out = x.new_empty(x.shape[1])
    run_launcher(ESSENTIALS, f"launch_strip_products_{blocks}", (x, out), (x.shape[1],))
    return out


def chase(following: Tensor, steps: int, where: str = "global") -> Tensor:
    """Where `steps` steps of p = following[p] lead from 0: one thread. following: int32, each below its length.

    where: "global" (through the L1 cache), "l2" (past it) or "shared" (at most `SHARED_WORDS` elements). (1,)
    """
    import torch

    if following.dtype != torch.int32 or not following.is_contiguous() or following.device.type != "cuda":
        raise TypeError(f"chase follows contiguous int32 on a CUDA device, and following is {following.dtype}.")
    out = following.new_empty(1)
    run_launcher(ESSENTIALS, f"launch_chase_{where}", (following, out), (following.numel(), steps))
    return out


def read(x: Tensor, blocks: int, quads: int, regions: int, rounds: int, where: str = "global") -> Tensor:
    """All threads of `blocks` of 1024 read 16 bytes a load: block b region b % regions of `quads` times 4 elements.

    where: "global" (through the L1 cache) or "l2" (past it). (blocks * 1024,)
    """
    _check("read", x)
    if x.numel() < 4 * quads * regions:
        raise ValueError(f"read needs {4 * quads * regions} elements, and x has {x.numel()}.")
    out = x.new_empty(blocks * 1024)
    run_launcher(ESSENTIALS, f"launch_read_{where}", (x, out), (blocks, quads, regions, rounds))
    return out


def read_shared(x: Tensor, blocks: int, rounds: int) -> Tensor:
    """Each block of 1024 threads reads shared memory, 16 bytes a load; x has `SHARED_WORDS` elements."""
    _check("read_shared", x, SHARED_WORDS)
    out = x.new_empty(blocks * 1024)
    run_launcher(ESSENTIALS, "launch_read_shared", (x, out), (blocks, rounds))
    return out


def fma_chain(x: Tensor, blocks: int, threads: int, chains: int, steps: int) -> Tensor:
    """Each thread multiplies and adds `steps` times in 1 or 4 chains; x has blocks * threads elements."""
    _check("fma_chain", x, blocks * threads)
    out = x.new_empty(x.shape)
    run_launcher(ESSENTIALS, "launch_fma_chain", (x, out), (blocks, threads, chains, steps))
    return out


def _check(kernel: str, x: Tensor, length: int | None = None) -> None:
    import torch

    if not isinstance(x, torch.Tensor):
        raise TypeError(f"{kernel} needs a tensor, and x is of type {type(x).__name__}.")
    if x.device.type != "cuda":
        raise ValueError(f"{kernel} runs on a CUDA GPU, and x is on {x.device}. Pass x.cuda().")
    if x.dtype != torch.float32:
        raise TypeError(f"{kernel} takes float32, and x is {x.dtype}. Pass x.float().")
    check_no_gradient(kernel, "x", x)
    if not x.is_contiguous():
        raise ValueError(f"{kernel} walks memory in order, and x has strides {x.stride()}. Pass x.contiguous().")
    if length is not None and x.numel() != length:
        raise ValueError(f"{kernel} needs {length} elements, and x has {x.numel()}.")
