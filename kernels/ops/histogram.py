"""histogram: how often each number from 0 to bins - 1 occurs.

    out[b] = number of i with x[i] == b

Shapes    x of any shape, any size; out (bins,), bins from 1 up to 2**24.
Dtypes    x int8, uint8, int16, int32 or int64; out int64.
Strides   x contiguous, or one-dimensional with any stride, in elements, is read in place; any other layout is copied
          first.
Limits    offsets and counts are 64 bits wide.
Special   a number below 0 or from `bins` up belongs to no bin and is counted nowhere; it is compared in its own dtype,
          so 2**32 + 1 is not taken for 1. An empty x gives zeros.
Gradient  none: counts have no slope.

Integers add up to the same total in any order, so the result is the same in every run although atomics are used.
"""

import functools
from dataclasses import dataclass

import torch
import triton
import triton.language as tl

from kernels.ops import checks, op

DTYPES = ("int32", "int64", "int16", "int8", "uint8")
MAX_BINS = 1 << 24
MAX_STAGED_BINS = 1024  # counters that a program keeps for itself
BLOCK = 2048


def reference(x: torch.Tensor, bins: int = 256) -> torch.Tensor:
    """torch.bincount of the numbers that lie in a bin."""
    flat = x.reshape(-1).long()
    return torch.bincount(flat[(flat >= 0) & (flat < bins)], minlength=bins)


@triton.jit
def _inside(x_ptr, offsets, n, stride, bins):
    """The numbers at these offsets, and which of them lie in a bin."""
    value = tl.load(x_ptr + offsets * stride, mask=offsets < n, other=0)
    # Compared before it is narrowed: the low 32 bits of 2**32 + 1 would be a bin.
    inside = (offsets < n) & (value >= 0) & (value < bins)
    return tl.where(inside, value, 0).to(tl.int32), inside


@triton.jit
def _histogram_plain(x_ptr, out_ptr, n, stride, bins, BLOCK_N: tl.constexpr):
    # Every number adds 1 to its bin in global memory. Equal numbers wait for each other there.
    offsets = tl.program_id(0).to(tl.int64) * BLOCK_N + tl.arange(0, BLOCK_N)
    value, inside = _inside(x_ptr, offsets, n, stride, bins)
    tl.atomic_add(out_ptr + value, tl.full([BLOCK_N], 1, tl.int64), mask=inside, sem="relaxed")


@triton.jit
def _histogram_staged(x_ptr, out_ptr, n, stride, bins, BINS: tl.constexpr, BLOCK_N: tl.constexpr):
    # A program counts all of its numbers for itself, and adds each bin to global memory once.
    counts = tl.zeros([BINS], tl.int32)
    lanes = tl.arange(0, BLOCK_N)
    last = tl.cast(n, tl.int64)
    step = tl.num_programs(0).to(tl.int64) * BLOCK_N
    for start in range(tl.program_id(0).to(tl.int64) * BLOCK_N, last, step):
        value, inside = _inside(x_ptr, start + lanes, n, stride, bins)
        # The mask, and not an index beyond the last bin, keeps a number out: what tl.histogram
        # does with such an index differs between the interpreter and a GPU.
        counts += tl.histogram(value, BINS, mask=inside)
    b = tl.arange(0, BINS)
    tl.atomic_add(out_ptr + b, counts.to(tl.int64), mask=b < bins, sem="relaxed")


@dataclass(frozen=True)
class HistogramPlan:
    """How numbers are counted: "plain" or "staged"; numbers a step of one program; programs; warps."""

    path: str
    block: int
    programs: int
    num_warps: int


@functools.cache
def plan_histogram(
    n: int,
    bins: int,
    multiprocessors: int,
    path: str | None = None,
    block: int | None = None,
    programs: int | None = None,
    num_warps: int | None = None,
) -> HistogramPlan:
    """The plan for n numbers; a choice that is given is kept. Bins beyond MAX_STAGED_BINS fit no program's registers."""
    path = path or ("staged" if bins <= MAX_STAGED_BINS else "plain")
    block = block or BLOCK
    steps = triton.cdiv(n, block)
    if path == "plain":
        return HistogramPlan(path, block, steps, num_warps or 8)
    return HistogramPlan(path, block, min(programs or 8 * multiprocessors, steps), num_warps or 8)


def _launch(x, out, path=None, block=None, programs=None, num_warps=None):
    """Count the one-dimensional x into out (bins,), which holds zeros."""
    n, bins = x.numel(), out.numel()
    sms = torch.cuda.get_device_properties(x.device).multi_processor_count if x.device.type == "cuda" else 4
    plan = plan_histogram(n, bins, sms, path, block, programs, num_warps)
    with torch.cuda.device_of(x):  # the tensor's GPU, which need not be the current one
        if plan.path == "plain":
            _histogram_plain[(plan.programs,)](
                x, out, n, x.stride(0), bins, BLOCK_N=plan.block, num_warps=plan.num_warps
            )
        else:
            _histogram_staged[(plan.programs,)](
                x, out, n, x.stride(0), bins, BINS=max(2, triton.next_power_of_2(bins)), BLOCK_N=plan.block,
                num_warps=plan.num_warps
            )  # fmt: skip
