"""The kernels that Lesson 8 takes apart, each beside a Python function for one of its programs.

The Python functions work on lists, with the `load` and `store` of Lesson 1.
"""

import torch
import triton
import triton.language as tl

from lessons_src.examples.programs_in_python import load, store

BLOCK = 256  # offsets a program


def scale_loop(program, x, out, n, factor, BLOCK):
    for lane in range(BLOCK):
        offset = program * BLOCK + lane
        if offset < n:
            out[offset] = factor * x[offset]


def scale_program(program, x, out, n, factor, BLOCK):
    offsets = [program * BLOCK + lane for lane in range(BLOCK)]
    mask = [offset < n for offset in offsets]
    values = load(x, offsets, mask)
    scaled = [factor * value for value in values]
    store(out, offsets, scaled, mask)


@triton.jit
def _scale(x_ptr, out_ptr, n, factor, BLOCK: tl.constexpr):
    offsets = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    mask = offsets < n
    values = tl.load(x_ptr + offsets, mask=mask)
    scaled = factor * values
    tl.store(out_ptr + offsets, scaled, mask=mask)


def scale(x: torch.Tensor, out: torch.Tensor, factor: float, block: int = BLOCK) -> None:
    """Writes factor * x to out: contiguous, of one length."""
    n = out.numel()
    _scale[(triton.cdiv(n, block),)](x, out, n, factor, BLOCK=block)


def row_max_program(row, x, out, N, x_stride_m, BLOCK_N):
    n = list(range(BLOCK_N))
    mask = [column < N for column in n]
    offsets = [row * x_stride_m + column for column in n]
    values = load(x, offsets, mask, other=float("-inf"))
    out[row] = max(values)


@triton.jit
def _row_max(x_ptr, out_ptr, N, x_stride_m, BLOCK_N: tl.constexpr):
    n = tl.arange(0, BLOCK_N)
    mask = n < N
    offsets = tl.program_id(0) * x_stride_m + n
    values = tl.load(x_ptr + offsets, mask=mask, other=float("-inf"))
    tl.store(out_ptr + tl.program_id(0), tl.max(values, axis=0))


def row_max(x: torch.Tensor, out: torch.Tensor) -> None:
    """Writes the largest element of each row. x: (M, N), column stride 1; out: (M,)."""
    M, N = x.shape
    _row_max[(M,)](x, out, N, x.stride(0), BLOCK_N=triton.next_power_of_2(N))


@triton.jit
def _row_shares(x_ptr, out_ptr, N, x_stride_m, out_stride_m, BLOCK_N: tl.constexpr):
    row = tl.program_id(0)
    n = tl.arange(0, BLOCK_N)
    mask = n < N
    values = tl.load(x_ptr + row * x_stride_m + n, mask=mask, other=0.0)
    total = tl.sum(values, axis=0)  # one number, made of all of the row
    tl.store(out_ptr + row * out_stride_m + n, values / total, mask=mask)


def row_shares(x: torch.Tensor, out: torch.Tensor) -> None:
    """Writes each element's share of its row's sum. x, out: (M, N), column stride 1."""
    M, N = x.shape
    places = triton.next_power_of_2(N)
    _row_shares[(M,)](x, out, N, x.stride(0), out.stride(0), BLOCK_N=places)
