"""A product in Gluon, for compute capability 9.0: one warp fetches, the others multiply, the copy engine writes.

    out[m, n] = act(sum_k a[m, k] * b[k, n] + bias[n]) * scale

What `kernels.ops.matmul_kernels._matmul_persistent` leaves to Triton's compiler is written out here. A ring of STAGES
pairs of tiles lies in shared memory. The producer waits until a pair is free, asks the copy engine for the next one,
and goes on; that of the next output tile follows without a gap, and is on its way while the consumers still write.
A consumer waits until a pair is there, starts its product and, once the product before it has finished, hands that
one's pair back. There is one consumer, whose warp groups have 64 rows of the tile each; or there are two of one warp
group, who take tiles in turns: while one finishes its sums and writes them, the other keeps the tensor cores busy. The
result goes through shared memory, whole or in two halves of its columns, and the copy engine takes it from there while
the next tile begins.

Operands are of a two-byte dtype, in rows or in columns that begin at multiples of 16 bytes; out in such rows. The
kernel cannot be interpreted; its readable twin `_matmul_tiles` is what is traced for it, and a model of the machine
runs its text in many orders (tests/ops/gluon_model.py). No GPU has run it yet, and no plan chooses it.
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

from kernels.ops.bias_act_backward import doubled_argument

REGISTERS = 168  # a thread at the start, of all twelve warps; then a consumer's get 240 and the producer's 40

_doubled_argument = gluon.jit(doubled_argument.fn)


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
    BLOCK_M: gl.constexpr, BLOCK_N: gl.constexpr, BLOCK_K: gl.constexpr, GROUP_M: gl.constexpr,
):  # fmt: skip
    STAGES: gl.constexpr = a_ring.type.shape[0]
    tiles_m, tiles_n = gl.cdiv(M, BLOCK_M), gl.cdiv(N, BLOCK_N)
    step = 0
    for tile in range(gl.program_id(0), tiles_m * tiles_n, gl.num_programs(0)):
        tile_m, tile_n = _place(tile, tiles_m, tiles_n, GROUP_M)
        first_m, first_n = tile_m * BLOCK_M, tile_n * BLOCK_N
        for k in range(0, K, BLOCK_K):
            slot = step % STAGES
            # A barrier begins as if its phase 1 were over: the first round finds every slot free.
            mbarrier.wait(free.index(slot), step // STAGES & 1 ^ 1)
            mbarrier.expect(there.index(slot), a_desc.block_type.nbytes + b_desc.block_type.nbytes)
            a_at, b_at = [first_m, k], [k, first_n]
            if A_TURNED:
                a_at = [k, first_m]
            if B_TURNED:
                b_at = [first_n, k]
            tma.async_copy_global_to_shared(a_desc, a_at, there.index(slot), a_ring.index(slot))
            tma.async_copy_global_to_shared(b_desc, b_at, there.index(slot), b_ring.index(slot))
            step += 1


@gluon.jit
def _finish(total, bias_ptr, first_n, N, bias_stride, scale, ACTIVATION: gl.constexpr):
    # As _epilogue, without a residual: in float32, before the one rounding.
    if bias_ptr is not None:
        n = first_n + gl.arange(0, total.type.shape[1], gl.SliceLayout(0, total.type.layout))
        total += gl.expand_dims(gl.load(bias_ptr + n * bias_stride, mask=n < N, other=0.0).to(gl.float32), 0)
    if ACTIVATION == "relu":
        total = gl.where(total <= 0, 0.0, total)  # asked this way round, NaN stays NaN
    elif ACTIVATION == "gelu":
        total = total / (1.0 + gl.exp(-_doubled_argument(total)))
    return total * scale


@gluon.jit
def _consume(
    out_desc, a_ring, b_ring, out_buffer, free, there, turns, bias_ptr, M, N, K, bias_stride, scale,
    ACTIVATION: gl.constexpr, A_TURNED: gl.constexpr, B_TURNED: gl.constexpr, BLOCK_M: gl.constexpr,
    BLOCK_N: gl.constexpr, BLOCK_K: gl.constexpr, GROUP_M: gl.constexpr, WARPS: gl.constexpr, ME: gl.constexpr,
    CONSUMERS: gl.constexpr,
):  # fmt: skip
    # Consumer ME of CONSUMERS takes every CONSUMERS-th tile of its program, and the ring's steps that belong to it.
    # Of two, each begins when the other has waited for all of its steps: whether a pair is there is told by the parity
    # of a round, so nobody may ask while a round before the last one is still to come.
    WIDTH: gl.constexpr = out_desc.block_type.shape[1]
    STAGES: gl.constexpr = a_ring.type.shape[0]
    layout: gl.constexpr = gl.NVMMADistributedLayout(
        version=[3, 0], warps_per_cta=[WARPS, 1], instr_shape=[16, BLOCK_N, 16]
    )
    tiles_m, tiles_n = gl.cdiv(M, BLOCK_M), gl.cdiv(N, BLOCK_N)
    steps = gl.cdiv(K, BLOCK_K)
    step = ME * steps
    turn = 0
    first = gl.program_id(0) + ME * gl.num_programs(0)
    for tile in range(first, tiles_m * tiles_n, CONSUMERS * gl.num_programs(0)):
        tile_m, tile_n = _place(tile, tiles_m, tiles_n, GROUP_M)
        if CONSUMERS == 2:
            mbarrier.wait(turns.index(ME), turn & 1 ^ 1 ^ ME)  # the first one's first turn comes by itself
            turn += 1
        total = gl.zeros((BLOCK_M, BLOCK_N), gl.float32, layout)
        for k in range(0, K, BLOCK_K):
            slot = step % STAGES
            mbarrier.wait(there.index(slot), step // STAGES & 1)
            a, b = a_ring.index(slot), b_ring.index(slot)
            if A_TURNED:
                a = a.permute((1, 0))
            if B_TURNED:
                b = b.permute((1, 0))
            total = warpgroup_mma(a, b, total, is_async=True)
            total = warpgroup_mma_wait(num_outstanding=1, deps=(total,))
            # The product before this one has finished, so its pair of tiles is free.
            mbarrier.arrive(free.index((step + STAGES - 1) % STAGES), count=1, pred=k > 0)
            step += 1
        if CONSUMERS == 2:
            mbarrier.arrive(turns.index(1 - ME), count=1)
        done = warpgroup_mma_wait(num_outstanding=0, deps=(total,))
        mbarrier.arrive(free.index((step + STAGES - 1) % STAGES), count=1)
        step += (CONSUMERS - 1) * steps
        done = _finish(done, bias_ptr, tile_n * BLOCK_N, N, bias_stride, scale, ACTIVATION).to(out_desc.dtype)
        if WIDTH == BLOCK_N:
            tma.store_wait(0)  # until the tile before this one has left the buffer
            out_buffer.store(done)
            fence_async_shared()
            tma.async_copy_shared_to_global(out_desc, [tile_m * BLOCK_M, tile_n * BLOCK_N], out_buffer)
        else:
            left, right = gl.split(done.reshape((BLOCK_M, 2, WIDTH)).permute((0, 2, 1)))
            for half in gl.static_range(2):
                tma.store_wait(0)
                out_buffer.store(left if half == 0 else right)
                fence_async_shared()
                at = [tile_m * BLOCK_M, tile_n * BLOCK_N + half * WIDTH]
                tma.async_copy_shared_to_global(out_desc, at, out_buffer)
    tma.store_wait(0)


@gluon.jit
def _matmul_ring(
    a_desc, b_desc, out_desc, bias_ptr, M, N, K, bias_stride, scale, ACTIVATION: gl.constexpr,
    A_TURNED: gl.constexpr, B_TURNED: gl.constexpr, BLOCK_M: gl.constexpr, BLOCK_N: gl.constexpr,
    BLOCK_K: gl.constexpr, GROUP_M: gl.constexpr, STAGES: gl.constexpr, CONSUMERS: gl.constexpr,
    EARLY: gl.constexpr, num_warps: gl.constexpr,
):  # fmt: skip
    # A_TURNED: a is stored column by column, so what its descriptor describes is a's transpose.
    a_ring = gl.allocate_shared_memory(a_desc.dtype, [STAGES] + a_desc.block_type.shape, a_desc.layout)  # noqa: RUF005
    b_ring = gl.allocate_shared_memory(b_desc.dtype, [STAGES] + b_desc.block_type.shape, b_desc.layout)  # noqa: RUF005
    out_buffers = gl.allocate_shared_memory(
        out_desc.dtype,
        [CONSUMERS] + out_desc.block_type.shape,  # noqa: RUF005
        out_desc.layout,
    )
    free = gl.allocate_shared_memory(gl.int64, [STAGES, 1], mbarrier.MBarrierLayout())
    there = gl.allocate_shared_memory(gl.int64, [STAGES, 1], mbarrier.MBarrierLayout())
    turns = gl.allocate_shared_memory(gl.int64, [2, 1], mbarrier.MBarrierLayout())
    for who in gl.static_range(2):
        mbarrier.init(turns.index(who), count=1)
    for slot in gl.static_range(STAGES):
        mbarrier.init(free.index(slot), count=1)
        mbarrier.init(there.index(slot), count=1)
    if EARLY:
        gdc_launch_dependents()  # what is launched next may be set up from now on
        gdc_wait()  # until what was launched before has finished
    if CONSUMERS == 1:
        gl.warp_specialize(
            [
                (
                    _consume,
                    (
                        out_desc, a_ring, b_ring, out_buffers.index(0), free, there, turns, bias_ptr, M, N, K,
                        bias_stride, scale, ACTIVATION, A_TURNED, B_TURNED, BLOCK_M, BLOCK_N, BLOCK_K, GROUP_M,
                        num_warps, 0, 1,
                    ),
                ),
                (
                    _produce,
                    (
                        a_desc, b_desc, a_ring, b_ring, free, there, M, N, K, A_TURNED, B_TURNED, BLOCK_M, BLOCK_N,
                        BLOCK_K, GROUP_M,
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
                        out_desc, a_ring, b_ring, out_buffers.index(0), free, there, turns, bias_ptr, M, N, K,
                        bias_stride, scale, ACTIVATION, A_TURNED, B_TURNED, BLOCK_M, BLOCK_N, BLOCK_K, GROUP_M,
                        num_warps, 0, 2,
                    ),
                ),
                (
                    _consume,
                    (
                        out_desc, a_ring, b_ring, out_buffers.index(1), free, there, turns, bias_ptr, M, N, K,
                        bias_stride, scale, ACTIVATION, A_TURNED, B_TURNED, BLOCK_M, BLOCK_N, BLOCK_K, GROUP_M,
                        num_warps, 1, 2,
                    ),
                ),
                (
                    _produce,
                    (
                        a_desc, b_desc, a_ring, b_ring, free, there, M, N, K, A_TURNED, B_TURNED, BLOCK_M, BLOCK_N,
                        BLOCK_K, GROUP_M,
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
    consumers: int = 1,
    parts: int = 1,
    early: bool = False,
) -> tuple[tuple[int], tuple, dict]:
    """Grid, arguments and constants of a launch that writes act(a @ b + bias) * scale to `out`.

    ways: of a and b, whether the transpose lies row by row, and how many elements its rows are apart; see
    `kernels.ops.matmul_launch`, which has looked at them and at out. tile: rows, columns and k. consumers: 1 or 2.
    parts: 1 or 2, in which a tile leaves. early: whether the launch may begin before the one before it has ended.
    """
    (M, K), N = a.shape, b.shape[1]
    block_m, block_n, block_k = tile
    descriptors = (
        describe(a, *ways[0], [block_m, block_k]),
        describe(b, *ways[1], [block_k, block_n]),
        describe(out, False, N, [block_m, block_n // parts]),
    )
    tiles = triton.cdiv(M, block_m) * triton.cdiv(N, block_n)
    constants = {
        "ACTIVATION": activation, "A_TURNED": ways[0][0], "B_TURNED": ways[1][0], "BLOCK_M": block_m,
        "BLOCK_N": block_n, "BLOCK_K": block_k, "GROUP_M": group_m, "STAGES": stages, "CONSUMERS": consumers,
        "EARLY": early, "num_warps": 4 if consumers == 2 else min(block_m // 16, 8), "maxnreg": REGISTERS,
    }  # fmt: skip
    if early:
        constants["launch_pdl"] = True
    bias_stride = bias.stride(0) if bias is not None else 0
    return (min(tiles, sm_count),), (*descriptors, bias, M, N, K, bias_stride, scale), constants
