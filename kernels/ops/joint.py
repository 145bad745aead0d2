"""Programs of one launch that wait for one another: each holds a part of some rows, and all need the rows' sums.

A program takes a number on arrival and derives from it which part of which group it is, so it waits only for programs
that have started or are next to start: all get on, in whatever order the GPU starts them. Within a group each program
publishes what it found, is counted, and waits until all parts were counted.

This needs a GPU. Triton's interpreter runs programs one after the other, where the first would wait for ever.
"""

import triton
import triton.language as tl


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
