"""Softmax of wide rows, one part ahead: the kernel of `kernels.ops.softmax` for many parts on a GPU.

As many programs as run at once take part after part. Each publishes what it found in its next part before it waits for
the rest of the row of its present one, so that the memory is read while it waits. All of them run at once, which a
cooperative launch guarantees, so no order of arrival has to be settled.

Why nobody waits for ever: program p of G takes the parts p, p + G, p + 2G, ... and waits for the row of a part only
after it has published the one behind. The first part that nobody has published belongs to a program that waits for a
row 2G parts earlier. A row has at most G parts, so all of its parts come before, and are published.

Two bfloat16 elements are held as they were read, in one 32-bit register, and their exponentials are computed again
behind the wait: the registers that two parts would need otherwise are what limits the programs under way.
"""

from typing import NamedTuple

import torch
import triton
import triton.language as tl

from kernels.ops.softmax_parts import FIRST_WORD, _all_words, _scaled, _word


class Tile(NamedTuple):
    """Columns of a part, its warps, registers of a thread, and how many programs a multiprocessor holds of it."""

    columns: int
    warps: int
    registers: int
    programs: int


# By the size of an element, and whether there are fewer rows than multiprocessors. Many bfloat16 rows are faster in
# `_softmax_words`, whose programs come and go: measured on an H200.
TILES = {(4, True): Tile(8192, 16, 64, 2), (4, False): Tile(4096, 8, 64, 4), (2, True): Tile(8192, 4, 128, 4)}
LEAST_PARTS = 4  # for each program: fewer, and there is too little to be ahead of
NOTHING = tl.constexpr(-8323200)  # two bfloat16 -inf in one register


@triton.jit
def _low(pair):
    return (pair << 16).to(tl.float32, bitcast=True)


@triton.jit
def _high(pair):
    return (pair & -65536).to(tl.float32, bitcast=True)


@triton.jit
def _as_read(pair):
    # Opaque to the optimiser, which would otherwise keep what it unpacked before the wait.
    return tl.inline_asm_elementwise("mov.b32 $0, $1;", "=r,r", [pair], dtype=tl.int32, is_pure=False, pack=1)


@triton.jit
def _rounded(low, high):
    return tl.inline_asm_elementwise(
        "cvt.rn.bf16x2.f32 $0, $1, $2;", "=r,f,f", [high, low], dtype=tl.int32, is_pure=True, pack=1
    )


@triton.jit
def _publish(x_ptr, words_ptr, at, tiles, N, x_stride_m, parts, BLOCK_N: tl.constexpr, PAIRS: tl.constexpr):
    """Read part number `at`, leave its maximum and sum in its word, and return what is held of it and its shift."""
    first = (at % parts) * BLOCK_N
    x_part = x_ptr + (at // parts).to(tl.int64) * x_stride_m + first
    if PAIRS:
        pairs = tl.arange(0, BLOCK_N // 2)
        mask = (pairs < (N - first) // 2) & (at < tiles)
        held = tl.load(x_part.to(tl.pointer_type(tl.int32)) + pairs, mask=mask, other=NOTHING)
        maximum = tl.max(tl.maximum(_low(held), _high(held)), axis=0)
        shift = tl.where(maximum == float("-inf"), 0.0, maximum)
        held = _as_read(held)
        total = tl.sum(tl.exp(_low(held) - shift) + tl.exp(_high(held) - shift), axis=0)
    else:
        lanes = tl.arange(0, BLOCK_N)
        mask = (lanes < N - first) & (at < tiles)
        x = tl.load(x_part + lanes, mask=mask, other=float("-inf")).to(tl.float32)
        maximum = tl.max(x, axis=0)
        shift = tl.where(maximum == float("-inf"), 0.0, maximum)
        held = tl.exp(x - shift)
        total = tl.sum(held, axis=0)
    if at < tiles:
        tl.atomic_xchg(words_ptr + at, _word(maximum, total), sem="relaxed")
    return held, shift


@triton.jit
def _softmax_ahead(
    x_ptr, out_ptr, words_ptr, M, N, x_stride_m, out_stride_m, parts,
    ALL_PARTS: tl.constexpr, BLOCK_N: tl.constexpr, PAIRS: tl.constexpr,
):  # fmt: skip
    tiles = M * parts
    words_ptr += FIRST
    at = tl.program_id(0)
    held, shift = _publish(x_ptr, words_ptr, at, tiles, N, x_stride_m, parts, BLOCK_N, PAIRS)
    while at < tiles:
        ahead = at + tl.num_programs(0)
        next_held, next_shift = _publish(x_ptr, words_ptr, ahead, tiles, N, x_stride_m, parts, BLOCK_N, PAIRS)
        row = at // parts
        first = (at % parts) * BLOCK_N
        found = _all_words(words_ptr + row.to(tl.int64) * parts, parts, ALL_PARTS)
        each = tl.arange(0, ALL_PARTS)
        maxima = tl.where(each < parts, (found >> 32).to(tl.int32).to(tl.float32, bitcast=True), float("-inf"))
        totals = tl.where(each < parts, found.to(tl.int32).to(tl.float32, bitcast=True), 0.0)
        row_maximum = tl.max(maxima, axis=0)
        row_shift = tl.where(row_maximum == float("-inf"), 0.0, row_maximum)
        scale = 1.0 / tl.sum(_scaled(totals, maxima - row_shift, each < parts), axis=0)
        out_part = out_ptr + row.to(tl.int64) * out_stride_m + first
        if PAIRS:
            pairs = tl.arange(0, BLOCK_N // 2)
            held = _as_read(held)
            weights = _rounded(tl.exp(_low(held) - row_shift) * scale, tl.exp(_high(held) - row_shift) * scale)
            tl.store(out_part.to(tl.pointer_type(tl.int32)) + pairs, weights, mask=pairs < (N - first) // 2)
        else:
            lanes = tl.arange(0, BLOCK_N)
            weights = held * (tl.exp(shift - row_shift) * scale)
            tl.store(out_part + lanes, weights.to(out_ptr.dtype.element_ty), mask=lanes < N - first)
        at = ahead
        held = next_held
        shift = next_shift


FIRST = tl.constexpr(FIRST_WORD)


def tile_ahead(x: torch.Tensor, out: torch.Tensor, sm_count: int) -> tuple[int, int, dict[str, object]] | None:
    """Parts of a row, programs, and the launch's constants, for x and out (M, N); None where it does not pay or fit.

    Columns of x lie side by side, and x is float32, or bfloat16 whose rows begin at even elements, so that pairs can be
    read. N is below 2**30.
    """
    M, N = x.shape
    tile = TILES.get((x.element_size(), sm_count > M))
    if tile is None or x.dtype == torch.float16 or x.stride(1) != 1:
        return None
    parts, programs = triton.cdiv(N, tile.columns), tile.programs * sm_count
    if parts > sm_count or LEAST_PARTS * programs > parts * M:
        return None
    pairs = x.dtype == torch.bfloat16
    starts = (x.data_ptr() // 2, out.data_ptr() // 2, x.stride(0), out.stride(0), N)
    if N >= 1 << 30 or M * parts >= 1 << 30 or (pairs and any(start % 2 for start in starts)):
        return None
    constants = {"ALL_PARTS": triton.next_power_of_2(parts), "BLOCK_N": tile.columns, "PAIRS": pairs}
    options = {"num_warps": tile.warps, "maxnreg": tile.registers, "launch_cooperative_grid": True}
    return parts, programs, constants | options
