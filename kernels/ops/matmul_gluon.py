"""A product in Gluon, for compute capability 9.0: one warp fetches, the others multiply, the copy engine writes.

    out[m, n] = act(sum_k a[m, k] * b[k, n] + bias[n]) * scale

What `kernels.ops.matmul_kernels._matmul_persistent` leaves to Triton's compiler is written out here. A ring of STAGES
pairs of tiles lies in shared memory. The producer waits until a pair is free, asks the copy engine for the next one,
and goes on; that of the next output tile follows without a gap, and is on its way while the consumers still write.
A consumer waits until a pair is there, starts its product and, once the product before it has finished, hands that
one's pair back. There are three ways to consume:

alone    one consumer, whose warp groups have 64 rows of the tile each, and go through the ring side by side.
turns    two consumers of one warp group, who take tiles in turns: while one finishes its sums and writes them, the
         other keeps the tensor cores busy.
halves   two consumers of one warp group, who have half of the rows of every tile each. The first is LEAD steps ahead of
         the second: while it finishes and writes, the second still multiplies, and the other way round. A tile may be
         twice as large as in turns, so each element that is fetched is used more often.

The result goes through shared memory in PARTS parts of its columns, into BUFFERS buffers in turn, and the copy engine
takes it from there while the next tile begins.

Operands are of a two-byte dtype, in rows or in columns that begin at multiples of 16 bytes; out in such rows. The
kernel cannot be interpreted; its readable twin `_matmul_tiles` is what is traced for it, and a model of the machine
runs its text in many orders (tests/ops/gluon_model.py). `kernels.ops.matmul_plan` says which products it computes.
"""

import torch
import triton
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
from triton.language.extra.cuda import gdc_launch_dependents, gdc_wait

REGISTERS = 168  # a thread at the start, of all twelve warps; then a consumer's get 240 and the producer's 40
LEAD = gl.constexpr(2)  # steps that the first of two consumers of halves is ahead of the second


@gluon.jit
def _place(tile, tiles_m, tiles_n, GROUP_M: gl.constexpr):
    # As _tile_of: down GROUP_M rows of tiles, then one to the right.
    group = GROUP_M * tiles_n
    first = tile // group * GROUP_M
    rows = gl.minimum(tiles_m - first, GROUP_M)
    return first + tile % group % rows, tile % group // rows


@gluon.jit
def _produce(
    a_desc, b_desc, a_ring, b_ring, free, there, M, N, K, A_TURNED: gl.constexpr, B_TURNED: gl.constexpr,
    BLOCK_M: gl.constexpr, BLOCK_N: gl.constexpr, BLOCK_K: gl.constexpr, GROUP_M: gl.constexpr, HALVES: gl.constexpr,
):  # fmt: skip
    # A stage of a is HALVES tiles, of BLOCK_M // HALVES rows each.
    STAGES: gl.constexpr = b_ring.type.shape[0]
    ROWS: gl.constexpr = BLOCK_M // HALVES
    BYTES: gl.constexpr = HALVES * a_desc.block_type.nbytes + b_desc.block_type.nbytes
    tiles_m, tiles_n = gl.cdiv(M, BLOCK_M), gl.cdiv(N, BLOCK_N)
    step = 0
    for tile in range(gl.program_id(0), tiles_m * tiles_n, gl.num_programs(0)):
        tile_m, tile_n = _place(tile, tiles_m, tiles_n, GROUP_M)
        first_m, first_n = tile_m * BLOCK_M, tile_n * BLOCK_N
        for k in range(0, K, BLOCK_K):
            slot = step % STAGES
            # A barrier begins as if its phase 1 were over: the first round finds every slot free.
            mbarrier.wait(free.index(slot), step // STAGES & 1 ^ 1)
            mbarrier.expect(there.index(slot), BYTES)
            for half in gl.static_range(HALVES):
                a_at = [first_m + half * ROWS, k]
                if A_TURNED:
                    a_at = [k, first_m + half * ROWS]
                tma.async_copy_global_to_shared(a_desc, a_at, there.index(slot), a_ring.index(slot * HALVES + half))
            b_at = [k, first_n]
            if B_TURNED:
                b_at = [first_n, k]
            tma.async_copy_global_to_shared(b_desc, b_at, there.index(slot), b_ring.index(slot))
            step += 1


@gluon.jit
def _finish(total, bias_ptr, first_n, N, bias_stride, scale, ACTIVATION: gl.constexpr):
    # As _epilogue, without a residual: in float32, before the one rounding.
    if bias_ptr is not None:
        n = first_n + gl.arange(0, total.shape[1], gl.SliceLayout(0, total.type.layout))
        total += gl.expand_dims(gl.load(bias_ptr + n * bias_stride, mask=n < N, other=0.0).to(gl.float32), 0)
    if ACTIVATION == "relu":
        total = gl.where(total <= 0, 0.0, total)  # asked this way round, NaN stays NaN
    elif ACTIVATION == "gelu":
        # The sigmoid of the doubled argument of the tanh, with that one's factors and log2(e) in two constants, and
        # the reciprocal as the square of 1 / sqrt: a division asks each number whether it is very large.
        root = gl.rsqrt(1.0 + gl.exp2(total * (total * total * -0.10294324 - 2.3022082)))
        total = total * root * root
    if scale is not None:
        total = total * scale
    return total


@gluon.jit
def _columns(x, PARTS: gl.constexpr):
    # Its columns in 1, 2 or 4 parts, from left to right; what a thread holds stays with it.
    M: gl.constexpr = x.shape[0]
    N: gl.constexpr = x.shape[1]
    if PARTS == 1:  # noqa: SIM108 (one of them does not compile)
        parts = (x,)
    else:
        parts = gl.split(x.reshape((M, 2, N // 2)).permute((0, 2, 1)))
    if PARTS == 4:
        left = gl.split(parts[0].reshape((M, 2, N // 4)).permute((0, 2, 1)))
        right = gl.split(parts[1].reshape((M, 2, N // 4)).permute((0, 2, 1)))
        parts = (left[0], left[1], right[0], right[1])
    return parts


@gluon.jit
def _operands(a_ring, b_ring, slot, A_TURNED: gl.constexpr, B_TURNED: gl.constexpr, HALVES: gl.constexpr,
              ME: gl.constexpr):  # fmt: skip
    a, b = a_ring.index(slot * HALVES + (ME if HALVES == 2 else 0)), b_ring.index(slot)
    if A_TURNED:
        a = a.permute((1, 0))
    if B_TURNED:
        b = b.permute((1, 0))
    return a, b


@gluon.jit
def _consume(
    out_desc, a_ring, b_ring, out_ring, free, there, turns, bias_ptr, M, N, K, bias_stride, scale,
    ACTIVATION: gl.constexpr, A_TURNED: gl.constexpr, B_TURNED: gl.constexpr, BLOCK_M: gl.constexpr,
    BLOCK_N: gl.constexpr, BLOCK_K: gl.constexpr, GROUP_M: gl.constexpr, BUFFERS: gl.constexpr, WARPS: gl.constexpr,
    ME: gl.constexpr, TURNS: gl.constexpr, HALVES: gl.constexpr,
):  # fmt: skip
    # Consumer ME takes every TURNS-th tile of its program, and the ring's steps that belong to it; of each, all rows,
    # or, of two HALVES, its own. In turns, each begins when the other has waited for all of its steps: whether a pair
    # is there is told by the parity of a round, so nobody may ask while a round before the last is still to come.
    WIDTH: gl.constexpr = out_desc.block_type.shape[1]
    PARTS: gl.constexpr = BLOCK_N // WIDTH
    ROWS: gl.constexpr = BLOCK_M // HALVES
    STAGES: gl.constexpr = b_ring.type.shape[0]
    layout: gl.constexpr = gl.NVMMADistributedLayout(
        version=[3, 0], warps_per_cta=[WARPS, 1], instr_shape=[16, BLOCK_N, 16]
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
    total = gl.zeros((ROWS, BLOCK_N), gl.float32, layout)  # once: the first product of a tile adds to nothing
    for tile in range(first, tiles_m * tiles_n, TURNS * gl.num_programs(0)):
        tile_m, tile_n = _place(tile, tiles_m, tiles_n, GROUP_M)
        if TURNS == 2:
            mbarrier.wait(turns.index(ME), turn & 1 ^ 1 ^ ME)  # the first one's first turn comes by itself
            turn += 1
        for k in range(0, K, BLOCK_K):
            slot = step % STAGES
            mbarrier.wait(there.index(slot), step // STAGES & 1)
            a, b = _operands(a_ring, b_ring, slot, A_TURNED, B_TURNED, HALVES, ME)
            total = warpgroup_mma(a, b, total, use_acc=k > 0, is_async=True)
            total = warpgroup_mma_wait(num_outstanding=1, deps=(total,))
            # The product before this one has finished, so its pair of tiles is free.
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
        for part in gl.static_range(PARTS):
            first_n = tile_n * BLOCK_N + part * WIDTH
            part_done = _finish(parts[part], bias_ptr, first_n, N, bias_stride, scale, ACTIVATION)
            buffer = out_ring.index((ME if TURNS * HALVES == 2 else 0) * BUFFERS + part % BUFFERS)
            tma.store_wait(BUFFERS - 1)  # until what was in this buffer has left it
            buffer.store(part_done.to(out_desc.dtype))
            fence_async_shared()
            at = [tile_m * BLOCK_M + (ME * ROWS if HALVES == 2 else 0), first_n]
            tma.async_copy_shared_to_global(out_desc, at, buffer)
    tma.store_wait(0)


@gluon.jit
def _matmul_ring(
    a_desc, b_desc, out_desc, bias_ptr, M, N, K, bias_stride, scale, ACTIVATION: gl.constexpr,
    A_TURNED: gl.constexpr, B_TURNED: gl.constexpr, BLOCK_M: gl.constexpr, BLOCK_N: gl.constexpr,
    BLOCK_K: gl.constexpr, GROUP_M: gl.constexpr, STAGES: gl.constexpr, TURNS: gl.constexpr, HALVES: gl.constexpr,
    BUFFERS: gl.constexpr, EARLY: gl.constexpr, num_warps: gl.constexpr,
):  # fmt: skip
    # A_TURNED: a is stored column by column, so what its descriptor describes is a's transpose.
    a_ring = gl.allocate_shared_memory(a_desc.dtype, [STAGES * HALVES] + a_desc.block_type.shape, a_desc.layout)  # noqa: RUF005
    b_ring = gl.allocate_shared_memory(b_desc.dtype, [STAGES] + b_desc.block_type.shape, b_desc.layout)  # noqa: RUF005
    out_ring = gl.allocate_shared_memory(
        out_desc.dtype,
        [TURNS * HALVES * BUFFERS] + out_desc.block_type.shape,  # noqa: RUF005
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
    if EARLY:
        gdc_launch_dependents()  # what is launched next may be set up from now on
        gdc_wait()  # until what was launched before has finished
    if TURNS * HALVES == 1:
        gl.warp_specialize(
            [
                (
                    _consume,
                    (
                        out_desc, a_ring, b_ring, out_ring, free, there, turns, bias_ptr, M, N, K, bias_stride, scale,
                        ACTIVATION, A_TURNED, B_TURNED, BLOCK_M, BLOCK_N, BLOCK_K, GROUP_M, BUFFERS, num_warps, 0,
                        TURNS, HALVES,
                    ),
                ),
                (
                    _produce,
                    (
                        a_desc, b_desc, a_ring, b_ring, free, there, M, N, K, A_TURNED, B_TURNED, BLOCK_M, BLOCK_N,
                        BLOCK_K, GROUP_M, HALVES,
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
                        out_desc, a_ring, b_ring, out_ring, free, there, turns, bias_ptr, M, N, K, bias_stride, scale,
                        ACTIVATION, A_TURNED, B_TURNED, BLOCK_M, BLOCK_N, BLOCK_K, GROUP_M, BUFFERS, num_warps, 0,
                        TURNS, HALVES,
                    ),
                ),
                (
                    _consume,
                    (
                        out_desc, a_ring, b_ring, out_ring, free, there, turns, bias_ptr, M, N, K, bias_stride, scale,
                        ACTIVATION, A_TURNED, B_TURNED, BLOCK_M, BLOCK_N, BLOCK_K, GROUP_M, BUFFERS, num_warps, 1,
                        TURNS, HALVES,
                    ),
                ),
                (
                    _produce,
                    (
                        a_desc, b_desc, a_ring, b_ring, free, there, M, N, K, A_TURNED, B_TURNED, BLOCK_M, BLOCK_N,
                        BLOCK_K, GROUP_M, HALVES,
                    ),
                ),
            ],
            [4, 1],
            [240, 40],
        )  # fmt: skip


def layout_of(block: list[int]) -> gl.NVMMASharedLayout:
    """How a tile of two-byte elements lies in shared memory for the copy engine and the tensor cores."""
    return gl.NVMMASharedLayout.get_default_for(block, gl.bfloat16)


def describe(x: torch.Tensor, turned: bool, outer: int, block: list[int]) -> TensorDescriptor:
    """A descriptor of a matrix whose rows lie `outer` elements apart, or, `turned`, of its transpose."""
    shape = list(x.shape)
    if turned:
        shape, block = shape[::-1], block[::-1]
    return TensorDescriptor(x, shape, [outer, 1], block, layout_of(block))


def ring_launch(
    a: torch.Tensor,
    b: torch.Tensor,
    out: torch.Tensor,
    ways: tuple[tuple[bool, int], tuple[bool, int]],
    tile: tuple[int, int, int],
    sm_count: int,
    group_m: int,
    stages: int,
    bias: torch.Tensor | None = None,
    activation: str = "none",
    scale: float = 1.0,
    consumers: str = "alone",
    parts: int = 1,
    early: bool = False,
) -> tuple[tuple[int], tuple, dict]:
    """Grid, arguments and constants of a launch that writes act(a @ b + bias) * scale to `out`.

    ways: of a and b, whether the transpose lies row by row, and how many elements its rows are apart; see
    `kernels.ops.matmul_launch`, which has looked at them and at out. tile: rows, columns and k. consumers: "alone",
    "turns" or "halves". parts: 1, 2 or 4, in which a tile leaves; more than two take two buffers in turn. early:
    whether the launch may begin before the one before it has ended.
    """
    (M, K), N = a.shape, b.shape[1]
    block_m, block_n, block_k = tile
    halves = 2 if consumers == "halves" else 1
    descriptors = (
        describe(a, *ways[0], [block_m // halves, block_k]),
        describe(b, *ways[1], [block_k, block_n]),
        describe(out, False, N, [block_m // halves, block_n // parts]),
    )
    tiles = triton.cdiv(M, block_m) * triton.cdiv(N, block_n)
    constants = {
        "ACTIVATION": activation, "A_TURNED": ways[0][0], "B_TURNED": ways[1][0], "BLOCK_M": block_m,
        "BLOCK_N": block_n, "BLOCK_K": block_k, "GROUP_M": group_m, "STAGES": stages,
        "TURNS": 2 if consumers == "turns" else 1, "HALVES": halves, "BUFFERS": max(parts // 2, 1),
        "EARLY": early, "num_warps": min(block_m // 16, 8) if consumers == "alone" else 4, "maxnreg": REGISTERS,
    }  # fmt: skip
    if early:
        constants["launch_pdl"] = True
    finish = (bias.stride(0) if bias is not None else 0, None if scale == 1.0 else scale)
    return (min(tiles, sm_count),), (*descriptors, bias, M, N, K, *finish), constants
