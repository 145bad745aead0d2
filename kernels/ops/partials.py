"""Sums down the rows that several programs began: each leaves a row of float32, and one kernel adds the rows up.

No atomic is used, and the rows are added in the same order each time, so the result is the same in every run.
"""

import functools

import torch
import triton
import triton.language as tl

from kernels.ops.library import launch, wrap_triton

TILE = 4096  # elements that a program adds up together
MAX_TALL = 512  # rows of a tile: 8 columns of float32 are still a whole sector
INTERPRETED_PROGRAMS = 4  # a CPU has no multiprocessors: enough of them that partial sums are met in tests


@triton.jit
def _sum_partials(partial_ptr, out_ptr, PARTS, N, BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr):
    # One program adds up BLOCK_N columns, BLOCK_M rows at a time.
    n = tl.program_id(0).to(tl.int64) * BLOCK_N + tl.arange(0, BLOCK_N)[None, :]
    total = tl.zeros([BLOCK_M, BLOCK_N], tl.float32)
    for start in range(0, PARTS, BLOCK_M):
        m = start + tl.arange(0, BLOCK_M)[:, None]
        total += tl.load(partial_ptr + m * tl.cast(N, tl.int64) + n, mask=(m < PARTS) & (n < N), other=0.0)
    tl.store(out_ptr + n, tl.sum(total, axis=0, keep_dims=True).to(out_ptr.dtype.element_ty), mask=n < N)


def partials(parts: int, columns: int, device: torch.device) -> torch.Tensor:
    """An uninitialised float32 tensor (parts, columns): row p is for program p."""
    return torch.empty((parts, columns), dtype=torch.float32, device=device)


def sum_partials(
    partial: torch.Tensor, out: torch.Tensor, block_m: int | None = None, num_warps: int | None = None
) -> None:
    """Write the sum of the rows of `partial` (parts, N), contiguous float32, to `out` (N,), contiguous.

    A program adds up a tile of TILE elements, as tall as there are rows, since it waits for memory once a tile; what
    fits beside them decides how many columns it takes.
    """
    parts, N = partial.shape
    rows = block_m or min(MAX_TALL, triton.next_power_of_2(parts))
    columns = TILE // rows
    grid, sizes = (triton.cdiv(N, columns),), {"BLOCK_M": rows, "BLOCK_N": columns}
    launch(wrap_triton(_sum_partials), grid, (partial, out, parts, N), **sizes, num_warps=num_warps or 8)


@functools.cache
def multiprocessors(device: torch.device) -> int:
    """How many multiprocessors the device has; for a CPU, where kernels are interpreted, a small number."""
    if device.type != "cuda":
        return INTERPRETED_PROGRAMS
    return torch.cuda.get_device_properties(device).multi_processor_count
