"""Programs of one launch that wait for one another: each holds a part of some rows, and all need the rows' sums.

A program takes a number on arrival and derives from it which part of which group it is, so it waits only for programs
that have started or are next to start: all get on, in whatever order the GPU starts them. Within a group each program
publishes what it found, is counted, and waits until all parts were counted.

This needs a GPU. Triton's interpreter runs programs one after the other, where the first would wait for ever.

The counters have to be zero first, and a kernel of its own for that costs a short launch a tenth of its time. Where
launches may begin early (`kernels.ops.early`), this one overlaps with it: programs start at once, read their part, and
wait for the zeros only before they count. There is no order of arrival yet when
they choose their part, so it is the program's number: a GPU starts programs in the order of their numbers. CUDA does
not promise that, though single-pass scans, which look back at their neighbours, rely on it too.
"""

import torch
import triton
import triton.language as tl
from triton.language.extra.cuda import gdc_launch_dependents

from kernels.ops.library import launch, wrap_triton

CLEARED = 1024  # counters that one program sets to zero


@triton.jit
def _clear(counters_ptr, count, BLOCK: tl.constexpr):
    gdc_launch_dependents()  # what is launched next may start
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(counters_ptr + i, tl.zeros([BLOCK], tl.int32), mask=i < count)


def counters(count: int, device: torch.device, early: bool) -> torch.Tensor:
    """`count` zeros, int32. With `early` the next kernel is launched with launch_pdl, and calls gdc_wait first."""
    if not early:
        return torch.zeros(count, dtype=torch.int32, device=device)
    zeros = torch.empty(count, dtype=torch.int32, device=device)
    launch(wrap_triton(_clear), (triton.cdiv(count, CLEARED),), (zeros, count), BLOCK=CLEARED, num_warps=4)
    return zeros


@triton.jit
def arrive(arrived_ptr):
    """This program's place in the order of arrival; arrived_ptr holds 0 before the launch."""
    return tl.atomic_add(arrived_ptr, 1, sem="relaxed")


@triton.jit
def publish(counter_ptr):
    """Count this program in: whoever sees the count also sees what the program stored before."""
    tl.debug_barrier()
    tl.atomic_add(counter_ptr, 1, sem="release")


@triton.jit
def wait(counter_ptr, parts):
    """Return when `parts` programs were counted in."""
    while tl.atomic_add(counter_ptr, 0, sem="acquire") < parts:
        pass


@triton.jit
def add_up(state_ptr, m, M, parts, ALL_PARTS: tl.constexpr):
    """The sum of each row's parts, in the same order everywhere: the same bits everywhere. m: (rows, 1).

    Past the L1 cache, which may still hold what was there before the parts were published.
    """
    part = tl.arange(0, ALL_PARTS)[None, :]
    sums = tl.load(state_ptr + m * parts + part, mask=(m < M) & (part < parts), other=0.0, cache_modifier=".cg")
    return tl.sum(sums, axis=1, keep_dims=True)
