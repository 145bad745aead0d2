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

Where a part has one number to tell, the number and its presence travel in one 64-bit word (`leave`, `sum_of_words`):
nothing is counted, and no order of two accesses has to be kept.
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
def await_words(row_words, parts, ALL_PARTS: tl.constexpr, ONE_WARP: tl.constexpr):
    """The 64-bit words of a row's parts once none is zero; past the last part that of the last one again.

    A word holds all that its part has to say, so whoever sees it needs no other order. Each thread looks at its own
    word, and only that: one that has it waits for nobody. ONE_WARP: for up to 32 parts only the first warp looks again
    and again, a lane for each word; the others wait at a barrier, and read the words once.
    """
    words = row_words + tl.minimum(tl.arange(0, ALL_PARTS), parts - 1)
    if ONE_WARP and ALL_PARTS <= 32:
        tl.inline_asm_elementwise(
            """
            {
            .reg .pred mine, missing;
            .reg .u32 thread;
            .reg .b64 word;
            mov.u32 thread, %tid.x;
            setp.lt.u32 mine, thread, 32;
            @!mine bra done;
            again:
            ld.relaxed.gpu.global.b64 word, [$1];
            setp.eq.b64 missing, word, 0;
            @missing bra again;
            done:
            mov.u32 $0, 0;
            }
            """,
            "=r,l", [words.to(tl.int64)], dtype=tl.int32, is_pure=False, pack=1)  # fmt: skip
        tl.debug_barrier()
        found = tl.load(words, volatile=True)
    else:
        found = tl.inline_asm_elementwise(
            """
            {
            .reg .pred missing;
            again:
            ld.relaxed.gpu.global.b64 $0, [$1];
            setp.eq.b64 missing, $0, 0;
            @missing bra again;
            }
            """,
            "=l,l", [words.to(tl.int64)], dtype=tl.int64, is_pure=False, pack=1)  # fmt: skip
    return found


@triton.jit
def leave(row_words, part, number):
    """Leave a float32 number in this part's word: the upper half is the number, the lower one says that it is there."""
    tl.atomic_xchg(row_words + part, (number.to(tl.int32, bitcast=True).to(tl.int64) << 32) | 1, sem="relaxed")


@triton.jit
def sum_of_words(row_words, parts, ALL_PARTS: tl.constexpr, ONE_WARP: tl.constexpr = False):
    """The sum of the numbers that a row's parts leave, in the same order everywhere: the same bits everywhere."""
    numbers = (await_words(row_words, parts, ALL_PARTS, ONE_WARP) >> 32).to(tl.int32).to(tl.float32, bitcast=True)
    return tl.sum(tl.where(tl.arange(0, ALL_PARTS) < parts, numbers, 0.0), axis=0)


@triton.jit
def add_up(state_ptr, m, M, parts, ALL_PARTS: tl.constexpr):
    """The sum of each row's parts, in the same order everywhere: the same bits everywhere. m: (rows, 1).

    Past the L1 cache, which may still hold what was there before the parts were published.
    """
    part = tl.arange(0, ALL_PARTS)[None, :]
    sums = tl.load(state_ptr + m * parts + part, mask=(m < M) & (part < parts), other=0.0, cache_modifier=".cg")
    return tl.sum(sums, axis=1, keep_dims=True)


def zeroed_words(count: int, device: torch.device) -> torch.Tensor:
    """`count` zeros, int64. The next kernel is launched with launch_pdl, and calls gdc_wait first."""
    return counters(2 * count, device, True).view(torch.int64)
