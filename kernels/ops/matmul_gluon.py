"""A product in Gluon, for compute capability 9.0: one warp fetches, eight multiply, and the result leaves by itself.

    out[m, n] = sum_k a[m, k] * b[k, n]        a (M, K), b (K, N), out (M, N) of a two-byte dtype, all row by row

What `kernels.ops.matmul_kernels._matmul_persistent` leaves to Triton's compiler is written out here. A ring of STAGES
pairs of tiles lies in shared memory. The producer waits until a pair is free, asks the copy engine for the next one,
and goes on; that of the next output tile follows without a gap, and is on its way while the consumers still write.
The consumers, two warp groups with 64 rows of the tile each, wait until a pair is there, start its product and, once
the product before it has finished, hand that one's pair back. The result goes through shared memory in two halves of
columns, and the copy engine takes it from there while the next tile begins.

A draft: it compiles for sm_90a, and no GPU has run it. It is no implementation of `matmul` and no plan chooses it.
It cannot be interpreted; its readable twin `_matmul_tiles` is what is traced and tested for it.
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

BLOCK_M, BLOCK_N, BLOCK_K, STAGES = 128, 256, 64, 4
BLOCKS = ([BLOCK_M, BLOCK_K], [BLOCK_K, BLOCK_N], [BLOCK_M, BLOCK_N // 2])  # of a, b and out, as they are moved
CONSUMER_WARPS = 8
REGISTERS = 168  # a thread at the start, of all twelve warps; then the consumers get 240 and the producer 40


@gluon.jit
def _place(tile, tiles_m, tiles_n, GROUP_M: gl.constexpr):
    # As _tile_of: down GROUP_M rows of tiles, then one to the right.
    group = GROUP_M * tiles_n
    first = tile // group * GROUP_M
    rows = gl.minimum(tiles_m - first, GROUP_M)
    return first + tile % group % rows, tile % group // rows


@gluon.jit
def _produce(a_desc, b_desc, a_ring, b_ring, free, there, M, N, K, GROUP_M: gl.constexpr):
    BLOCK_M: gl.constexpr = a_desc.block_type.shape[0]
    BLOCK_K: gl.constexpr = a_desc.block_type.shape[1]
    BLOCK_N: gl.constexpr = b_desc.block_type.shape[1]
    STAGES: gl.constexpr = a_ring.type.shape[0]
    tiles_m, tiles_n = gl.cdiv(M, BLOCK_M), gl.cdiv(N, BLOCK_N)
    step = 0
    for tile in range(gl.program_id(0), tiles_m * tiles_n, gl.num_programs(0)):
        tile_m, tile_n = _place(tile, tiles_m, tiles_n, GROUP_M)
        for k in range(0, K, BLOCK_K):
            slot = step % STAGES
            # A barrier begins as if its phase 1 were over: the first round finds every slot free.
            mbarrier.wait(free.index(slot), step // STAGES & 1 ^ 1)
            mbarrier.expect(there.index(slot), a_desc.block_type.nbytes + b_desc.block_type.nbytes)
            tma.async_copy_global_to_shared(a_desc, [tile_m * BLOCK_M, k], there.index(slot), a_ring.index(slot))
            tma.async_copy_global_to_shared(b_desc, [k, tile_n * BLOCK_N], there.index(slot), b_ring.index(slot))
            step += 1


@gluon.jit
def _consume(out_desc, a_ring, b_ring, out_buffer, free, there, M, N, K, GROUP_M: gl.constexpr, WARPS: gl.constexpr):
    BLOCK_M: gl.constexpr = a_ring.type.shape[1]
    BLOCK_K: gl.constexpr = a_ring.type.shape[2]
    BLOCK_N: gl.constexpr = b_ring.type.shape[2]
    HALF: gl.constexpr = BLOCK_N // 2
    STAGES: gl.constexpr = a_ring.type.shape[0]
    layout: gl.constexpr = gl.NVMMADistributedLayout(
        version=[3, 0], warps_per_cta=[WARPS, 1], instr_shape=[16, BLOCK_N, 16]
    )
    tiles_m, tiles_n = gl.cdiv(M, BLOCK_M), gl.cdiv(N, BLOCK_N)
    step = 0
    for tile in range(gl.program_id(0), tiles_m * tiles_n, gl.num_programs(0)):
        tile_m, tile_n = _place(tile, tiles_m, tiles_n, GROUP_M)
        total = gl.zeros((BLOCK_M, BLOCK_N), gl.float32, layout)
        for k in range(0, K, BLOCK_K):
            slot = step % STAGES
            mbarrier.wait(there.index(slot), step // STAGES & 1)
            total = warpgroup_mma(a_ring.index(slot), b_ring.index(slot), total, is_async=True)
            total = warpgroup_mma_wait(num_outstanding=1, deps=(total,))
            # The product before this one has finished, so its pair of tiles is free.
            mbarrier.arrive(free.index((step + STAGES - 1) % STAGES), count=1, pred=k > 0)
            step += 1
        done = warpgroup_mma_wait(num_outstanding=0, deps=(total,))
        mbarrier.arrive(free.index((step + STAGES - 1) % STAGES), count=1)
        left, right = gl.split(done.to(out_desc.dtype).reshape((BLOCK_M, 2, HALF)).permute((0, 2, 1)))
        for half in gl.static_range(2):
            tma.store_wait(0)  # until the half before this one has left the buffer
            out_buffer.store(left if half == 0 else right)
            fence_async_shared()
            tma.async_copy_shared_to_global(out_desc, [tile_m * BLOCK_M, tile_n * BLOCK_N + half * HALF], out_buffer)
    tma.store_wait(0)


@gluon.jit
def _matmul_ring(
    a_desc, b_desc, out_desc, M, N, K, GROUP_M: gl.constexpr, STAGES: gl.constexpr, num_warps: gl.constexpr
):
    a_ring = gl.allocate_shared_memory(a_desc.dtype, [STAGES] + a_desc.block_type.shape, a_desc.layout)  # noqa: RUF005
    b_ring = gl.allocate_shared_memory(b_desc.dtype, [STAGES] + b_desc.block_type.shape, b_desc.layout)  # noqa: RUF005
    out_buffer = gl.allocate_shared_memory(out_desc.dtype, out_desc.block_type.shape, out_desc.layout)
    free = gl.allocate_shared_memory(gl.int64, [STAGES, 1], mbarrier.MBarrierLayout())
    there = gl.allocate_shared_memory(gl.int64, [STAGES, 1], mbarrier.MBarrierLayout())
    for slot in gl.static_range(STAGES):
        mbarrier.init(free.index(slot), count=1)
        mbarrier.init(there.index(slot), count=1)
    gl.warp_specialize(
        [
            (_consume, (out_desc, a_ring, b_ring, out_buffer, free, there, M, N, K, GROUP_M, num_warps)),
            (_produce, (a_desc, b_desc, a_ring, b_ring, free, there, M, N, K, GROUP_M)),
        ],
        [1],
        [40],
    )


def layout_of(block: list[int]) -> gl.NVMMASharedLayout:
    """How a tile of two-byte elements lies in shared memory for the copy engine and the tensor cores."""
    return gl.NVMMASharedLayout.get_default_for(block, gl.bfloat16)


def launch_ring(a: torch.Tensor, b: torch.Tensor, out: torch.Tensor, group_m: int = 8, stages: int = STAGES) -> None:
    """Write a @ b to `out`: (M, K), (K, N), (M, N), contiguous, of one two-byte dtype, rows multiples of 16 bytes long.

    Raises ValueError where a tensor is not so; nothing has been launched.
    """
    (M, K), N = a.shape, b.shape[1]
    if a.element_size() != 2 or not a.dtype == b.dtype == out.dtype:
        raise ValueError(f"a, b and out have dtypes {a.dtype}, {b.dtype} and {out.dtype}; expected one of two bytes.")
    for name, x, shape in (("a", a, (M, K)), ("b", b, (K, N)), ("out", out, (M, N))):
        if x.shape != shape or not x.is_contiguous() or x.data_ptr() % 16 or x.shape[1] * 2 % 16 or x.numel() == 0:
            raise ValueError(
                f"{name} has shape {tuple(x.shape)} and strides {x.stride()}; expected {shape}, contiguous, at a "
                f"multiple of 16 bytes, in rows of multiples of 16 bytes."
            )
    descriptors = [TensorDescriptor.from_tensor(x, block, layout_of(block)) for x, block in zip((a, b, out), BLOCKS)]
    tiles = triton.cdiv(M, BLOCK_M) * triton.cdiv(N, BLOCK_N)
    programs = min(tiles, torch.cuda.get_device_properties(a.device).multi_processor_count)
    with torch.cuda.device(a.device):
        _matmul_ring[(programs,)](
            *descriptors, M, N, K, GROUP_M=group_m, STAGES=stages, num_warps=CONSUMER_WARPS, maxnreg=REGISTERS
        )
