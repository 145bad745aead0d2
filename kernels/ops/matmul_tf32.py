"""A float32 product on the tensor cores of compute capability 9.0, in Gluon: in tf32, or in three products of parts.

    out[m, n] = sum_k a[m, k] * b[k, n]

The instruction of these tensor cores (`wgmma`) reads a two-byte operand as it lies, row by row or column by column. Of
four-byte elements it takes only tiles whose rows run along k. Row-major b has rows of n, so a compiler that leaves b in
place has to turn each tile on its way, element by element, and does so again for every row of tiles. Here an operand
that lies the other way is turned once, by `_rows_of`, and then the copy engine brings whole tiles.

Three products: x is high + low, where high has x's first 11 significant bits, which is what tf32 keeps, and low the
next 11. Then a * b is high * high + high * low + low * high, up to 2**-21. The parts are made once, by the same pass,
and not by every program for every tile. An infinity or NaN has no such parts: it stands in low, and 1 with its sign in
high, so that it is multiplied by b's high part, which has b's sign, and never by the low one, which may have the other.

The kernel is `kernels.ops.matmul_gluon`'s, whose docstring says how a ring, its producer and two consumers in turns
work; here a stage is two tiles, or four, and a step one product or three.
"""

import torch
import triton
import triton.language as tl
from triton.experimental import gluon
from triton.experimental.gluon import language as gl
from triton.experimental.gluon.language.nvidia.hopper import (
    fence_async_shared,
    mbarrier,
    tma,
    warpgroup_mma,
    warpgroup_mma_wait,
)
from triton.experimental.gluon.nvidia.hopper import TensorDescriptor

from kernels.ops.matmul_gluon import LEAD, REGISTERS, _columns, _place


@triton.jit
def _rows_of(
    x_ptr, out_ptr, low_ptr, rows, columns, x_stride_r, x_stride_c, out_stride, BLOCK_R: tl.constexpr,
    BLOCK_C: tl.constexpr,
):  # fmt: skip
    # x (rows, columns), in any strides, as rows that the copy engine can read; with low_ptr, high parts and low ones.
    tiles = tl.cdiv(columns, BLOCK_C)
    r = (tl.program_id(0) // tiles).to(tl.int64) * BLOCK_R + tl.arange(0, BLOCK_R)[:, None]
    c = (tl.program_id(0) % tiles).to(tl.int64) * BLOCK_C + tl.arange(0, BLOCK_C)[None, :]
    mask = (r < rows) & (c < columns)
    x = tl.load(x_ptr + r * x_stride_r + c * x_stride_c, mask=mask, other=0.0)
    if low_ptr is not None:
        CUT: tl.constexpr = 13  # bits that a float32 has and tf32 has not
        bits = x.to(tl.int32, bitcast=True)
        high = (bits >> CUT << CUT).to(tl.float32, bitcast=True)
        # What is left has up to 13 bits: to the nearest of 11, so that cutting it changes nothing.
        low = (x - high).to(tl.int32, bitcast=True) + (1 << (CUT - 1))
        low = (low >> CUT << CUT).to(tl.float32, bitcast=True)
        special = (bits & 0x7F800000) == 0x7F800000  # infinity's bits; NaN has these and more
        one = (bits >> 31 << 31 | 0x3F800000).to(tl.float32, bitcast=True)
        tl.store(low_ptr + r * out_stride + c, tl.where(special, x, low), mask=mask)
        x = tl.where(special, one, high)
    tl.store(out_ptr + r * out_stride + c, x, mask=mask)


@gluon.jit
def _produce(
    a_desc, b_desc, a_low, b_low, a_ring, b_ring, a_lows, b_lows, free, there, M, N, K, BLOCK_M: gl.constexpr,
    BLOCK_N: gl.constexpr, BLOCK_K: gl.constexpr, GROUP_M: gl.constexpr, HALVES: gl.constexpr,
):  # fmt: skip
    # A stage of a is HALVES tiles, of BLOCK_M // HALVES rows each; with low parts, there are as many again of those.
    STAGES: gl.constexpr = b_ring.type.shape[0]
    ROWS: gl.constexpr = BLOCK_M // HALVES
    SORTS: gl.constexpr = 1 if a_low is None else 2
    BYTES: gl.constexpr = SORTS * (HALVES * a_desc.block_type.nbytes + b_desc.block_type.nbytes)
    tiles_m, tiles_n = gl.cdiv(M, BLOCK_M), gl.cdiv(N, BLOCK_N)
    step = 0
    for tile in range(gl.program_id(0), tiles_m * tiles_n, gl.num_programs(0)):
        tile_m, tile_n = _place(tile, tiles_m, tiles_n, GROUP_M)
        first_m, first_n = tile_m * BLOCK_M, tile_n * BLOCK_N
        for k in range(0, K, BLOCK_K):
            slot = step % STAGES
            mbarrier.wait(free.index(slot), step // STAGES & 1 ^ 1)  # the first round finds every slot free
            mbarrier.expect(there.index(slot), BYTES)
            for half in gl.static_range(HALVES):
                at = [first_m + half * ROWS, k]
                tma.async_copy_global_to_shared(a_desc, at, there.index(slot), a_ring.index(slot * HALVES + half))
                if SORTS == 2:
                    tma.async_copy_global_to_shared(a_low, at, there.index(slot), a_lows.index(slot * HALVES + half))
            tma.async_copy_global_to_shared(b_desc, [first_n, k], there.index(slot), b_ring.index(slot))
            if SORTS == 2:
                tma.async_copy_global_to_shared(b_low, [first_n, k], there.index(slot), b_lows.index(slot))
            step += 1


@gluon.jit
def _consume(
    out_desc, out_ptr, a_ring, b_ring, a_lows, b_lows, out_ring, free, there, turns, M, N, K, SORTS: gl.constexpr,
    PARTS: gl.constexpr, BLOCK_M: gl.constexpr, BLOCK_N: gl.constexpr, BLOCK_K: gl.constexpr, GROUP_M: gl.constexpr,
    WARPS: gl.constexpr, ME: gl.constexpr, TURNS: gl.constexpr, HALVES: gl.constexpr,
):  # fmt: skip
    # Consumer ME takes every TURNS-th tile of its program, all rows of it or, of two HALVES, its own.
    WIDTH: gl.constexpr = BLOCK_N // PARTS
    ROWS: gl.constexpr = BLOCK_M // HALVES
    STAGES: gl.constexpr = b_ring.type.shape[0]
    PRODUCTS: gl.constexpr = 1 if SORTS == 1 else 3
    layout: gl.constexpr = gl.NVMMADistributedLayout(
        version=[3, 0], warps_per_cta=[WARPS, 1], instr_shape=[16, BLOCK_N, 8]
    )
    tiles_m, tiles_n = gl.cdiv(M, BLOCK_M), gl.cdiv(N, BLOCK_N)
    steps = gl.cdiv(K, BLOCK_K)
    step = 0
    turn = 0
    first = gl.program_id(0)
    if TURNS == 2:
        step = ME * steps
        first += ME * gl.num_programs(0)
    if HALVES == 2:  # noqa: SIM102 (both are known to the compiler)
        if ME == 1:
            mbarrier.wait(turns.index(0), 0)  # once: from then on it stays behind
    total = gl.zeros((ROWS, BLOCK_N), gl.float32, layout)
    for tile in range(first, tiles_m * tiles_n, TURNS * gl.num_programs(0)):
        tile_m, tile_n = _place(tile, tiles_m, tiles_n, GROUP_M)
        if TURNS == 2:
            mbarrier.wait(turns.index(ME), turn & 1 ^ 1 ^ ME)  # the first one's first turn comes by itself
            turn += 1
        for k in range(0, K, BLOCK_K):
            slot = step % STAGES
            mine = slot * HALVES + (ME if HALVES == 2 else 0)
            mbarrier.wait(there.index(slot), step // STAGES & 1)
            a, b = a_ring.index(mine), b_ring.index(slot).permute((1, 0))
            total = warpgroup_mma(a, b, total, use_acc=k > 0, is_async=True)
            if SORTS == 2:
                total = warpgroup_mma(a, b_lows.index(slot).permute((1, 0)), total, is_async=True)
                total = warpgroup_mma(a_lows.index(mine), b, total, is_async=True)
            total = warpgroup_mma_wait(num_outstanding=PRODUCTS, deps=(total,))
            # The products of the step before have finished, so its slot is free.
            mbarrier.arrive(free.index((step + STAGES - 1) % STAGES), count=1, pred=k > 0)
            step += 1
            if HALVES == 2:  # noqa: SIM102
                if ME == 0:
                    mbarrier.arrive(turns.index(0), count=1, pred=step == gl.minimum(steps, LEAD))
        if TURNS == 2:
            mbarrier.arrive(turns.index(1 - ME), count=1)
        total = warpgroup_mma_wait(num_outstanding=0, deps=(total,))
        mbarrier.arrive(free.index((step + STAGES - 1) % STAGES), count=1)
        step += (TURNS - 1) * steps
        parts = _columns(total, PARTS)
        first_m = tile_m * BLOCK_M + (ME * ROWS if HALVES == 2 else 0)
        for part in gl.static_range(PARTS):
            first_n = tile_n * BLOCK_N + part * WIDTH
            if out_desc is None:
                # Rows that do not begin at multiples of 16 bytes: the copy engine cannot write them.
                done = parts[part]
                m = gl.expand_dims(first_m + gl.arange(0, ROWS, gl.SliceLayout(1, done.type.layout)), 1)
                n = gl.expand_dims(first_n + gl.arange(0, WIDTH, gl.SliceLayout(0, done.type.layout)), 0)
                gl.store(out_ptr + (m.to(gl.int64) * N + n), done, mask=(m < M) & (n < N))
            else:
                buffer = out_ring.index(ME if TURNS * HALVES == 2 else 0)
                tma.store_wait(0)  # until what was in this buffer has left it
                buffer.store(parts[part])
                fence_async_shared()
                tma.async_copy_shared_to_global(out_desc, [first_m, first_n], buffer)
    if out_desc is not None:
        tma.store_wait(0)


@gluon.jit
def _matmul_tf32(
    a_desc, b_desc, a_low, b_low, out_desc, out_ptr, M, N, K, PARTS: gl.constexpr, BLOCK_M: gl.constexpr,
    BLOCK_N: gl.constexpr, BLOCK_K: gl.constexpr, GROUP_M: gl.constexpr, STAGES: gl.constexpr, TURNS: gl.constexpr,
    HALVES: gl.constexpr, num_warps: gl.constexpr,
):  # fmt: skip
    # a (M, K) and b's transpose (N, K), both in rows of k; a_low and b_low: what tf32 cuts off, or None. out_desc:
    # None where the copy engine cannot write out_ptr.
    SORTS: gl.constexpr = 1 if a_low is None else 2
    a_ring = gl.allocate_shared_memory(gl.float32, [STAGES * HALVES] + a_desc.block_type.shape, a_desc.layout)  # noqa: RUF005
    b_ring = gl.allocate_shared_memory(gl.float32, [STAGES] + b_desc.block_type.shape, b_desc.layout)  # noqa: RUF005
    a_lows, b_lows, out_ring = a_ring, b_ring, a_ring  # not used, where there is nothing to put into them
    if SORTS == 2:
        a_lows = gl.allocate_shared_memory(gl.float32, [STAGES * HALVES] + a_desc.block_type.shape, a_desc.layout)  # noqa: RUF005
        b_lows = gl.allocate_shared_memory(gl.float32, [STAGES] + b_desc.block_type.shape, b_desc.layout)  # noqa: RUF005
    if out_desc is not None:
        out_ring = gl.allocate_shared_memory(
            gl.float32,
            [TURNS * HALVES] + out_desc.block_type.shape,  # noqa: RUF005
            out_desc.layout,
        )
    free = gl.allocate_shared_memory(gl.int64, [STAGES, 1], mbarrier.MBarrierLayout())
    there = gl.allocate_shared_memory(gl.int64, [STAGES, 1], mbarrier.MBarrierLayout())
    turns = gl.allocate_shared_memory(gl.int64, [2, 1], mbarrier.MBarrierLayout())
    for who in gl.static_range(2):
        mbarrier.init(turns.index(who), count=1)
    for slot in gl.static_range(STAGES):
        mbarrier.init(free.index(slot), count=HALVES)
        mbarrier.init(there.index(slot), count=1)
    if TURNS * HALVES == 1:
        gl.warp_specialize(
            [
                (
                    _consume,
                    (
                        out_desc, out_ptr, a_ring, b_ring, a_lows, b_lows, out_ring, free, there, turns, M, N, K,
                        SORTS, PARTS, BLOCK_M, BLOCK_N, BLOCK_K, GROUP_M, num_warps, 0, TURNS, HALVES,
                    ),
                ),
                (
                    _produce,
                    (
                        a_desc, b_desc, a_low, b_low, a_ring, b_ring, a_lows, b_lows, free, there, M, N, K, BLOCK_M,
                        BLOCK_N, BLOCK_K, GROUP_M, HALVES,
                    ),
                ),
            ],
            [1],
            [40],
        )  # fmt: skip
    else:
        gl.warp_specialize(
            [
                (
                    _consume,
                    (
                        out_desc, out_ptr, a_ring, b_ring, a_lows, b_lows, out_ring, free, there, turns, M, N, K,
                        SORTS, PARTS, BLOCK_M, BLOCK_N, BLOCK_K, GROUP_M, num_warps, 0, TURNS, HALVES,
                    ),
                ),
                (
                    _consume,
                    (
                        out_desc, out_ptr, a_ring, b_ring, a_lows, b_lows, out_ring, free, there, turns, M, N, K,
                        SORTS, PARTS, BLOCK_M, BLOCK_N, BLOCK_K, GROUP_M, num_warps, 1, TURNS, HALVES,
                    ),
                ),
                (
                    _produce,
                    (
                        a_desc, b_desc, a_low, b_low, a_ring, b_ring, a_lows, b_lows, free, there, M, N, K, BLOCK_M,
                        BLOCK_N, BLOCK_K, GROUP_M, HALVES,
                    ),
                ),
            ],
            [4, 1],
            [240, 40],
        )  # fmt: skip


def describe(x: torch.Tensor, block: list[int]) -> TensorDescriptor:
    """A descriptor of a float32 matrix whose rows lie one behind the other, at multiples of 16 bytes."""
    layout = gl.NVMMASharedLayout.get_default_for(block, gl.float32)
    return TensorDescriptor(x, list(x.shape), [x.stride(0), 1], block, layout)


def ring_launch(
    a: torch.Tensor,
    b: torch.Tensor,
    lows: tuple[torch.Tensor, torch.Tensor] | None,
    out: torch.Tensor,
    tile: tuple[int, int, int],
    programs: int,
    stages: int,
    consumers: str,
    parts: int,
    group_m: int,
) -> tuple[tuple[int], tuple, dict]:
    """Grid, arguments and constants of a launch that writes a @ b.T to `out` (M, N), contiguous.

    a (M, K) and b (N, K): as `describe` takes them; lows: the same of what tf32 cuts off, for three products. tile:
    rows, columns and k. programs: at most so many. consumers: "alone", "turns" or "halves". parts: 1, 2 or 4, in which
    a tile leaves.
    """
    (M, K), N = a.shape, b.shape[0]
    block_m, block_n, block_k = tile
    halves = 2 if consumers == "halves" else 1
    boxes = [block_m // halves, block_k], [block_n, block_k]
    low = (None, None) if lows is None else tuple(map(describe, lows, boxes))
    writable = out.data_ptr() % 16 == 0 and N % 4 == 0  # by the copy engine, which writes 16 bytes at a time
    out_desc = describe(out, [block_m // halves, block_n // parts]) if writable else None
    tiles = triton.cdiv(M, block_m) * triton.cdiv(N, block_n)
    constants = {
        "PARTS": parts, "BLOCK_M": block_m, "BLOCK_N": block_n, "BLOCK_K": block_k, "GROUP_M": group_m,
        "STAGES": stages, "TURNS": 2 if consumers == "turns" else 1, "HALVES": halves,
        "num_warps": min(block_m // 16, 8) if consumers == "alone" else 4, "maxnreg": REGISTERS,
    }  # fmt: skip
    arguments = (describe(a, boxes[0]), describe(b, boxes[1]), *low, out_desc, out, M, N, K)
    return (min(tiles, programs),), arguments, constants
