"""The backward pass of attention in Gluon, for compute capability 9.0: five products a block instead of seven.

A program owns 128 keys of one head, 64 for each of two warp groups, the consumers, and walks along the queries that see
any of them, 64 at a time. A third group of one warp, the producer, has the copy engine fetch keys and values once, and
queries and the upstream gradient into rings of STAGES buffers. Scores lie keys by queries, as in the readable kernel:

    scoreᵀ = k qᵀ    dweightᵀ = v doutᵀ    dv += weightᵀ dout    dk += dscoreᵀ q    dq += dscore k

Each consumer computes the first four for its own 64 keys, with dk and dv in registers. The last one needs dscore of all
128 keys: both write theirs to shared memory, meet at a barrier, and multiply half of the columns each. Other programs
add to the same queries, so dq goes to a float32 buffer by atomic additions, whose order changes from run to run.

Products overlap with arithmetic: weights are computed while dweight is multiplied, dscore while dv is. Scores begin
together with dweight: begun a tile earlier, while dq was added to memory, all took 8 to 10% longer on an H200.

The buffer for dq lies in the order in which a warp group holds a product: four numbers of a thread side by side, and
one instruction of a warp adds to 512 contiguous bytes. `_attention_dq_cast` puts them back into rows.
`kernels.ops.attention_gluon_backward_launch` says what the kernels take.
"""

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

ROWS = gl.constexpr(64)  # of a tile of queries, and of a consumer's keys: what one wgmma multiplies


@triton.jit
def _attention_rows(out_ptr, dout_ptr, lse_ptr, rows_ptr, sum_ptr, H, Sq, dout_stride_b, dout_stride_h, dout_stride_m,
                    D: tl.constexpr, BLOCK_M: tl.constexpr):  # fmt: skip
    # What the kernel needs of each query: the logarithm of its sum, then delta, BLOCK_M of each for a
    # tile. Behind the last query the logarithm is +inf, so that every weight there is 0. And zeros for
    # dq, where the kernel will add.
    blocks = tl.cdiv(Sq, BLOCK_M)
    head = (tl.program_id(0) // blocks).to(tl.int64)
    m = tl.program_id(0) % blocks * BLOCK_M + tl.arange(0, BLOCK_M)
    d = tl.arange(0, D)[None, :]
    mask = m[:, None] < Sq
    out = tl.load(out_ptr + (head * Sq + m)[:, None] * D + d, mask=mask, other=0.0).to(tl.float32)
    at = head // H * dout_stride_b + head % H * dout_stride_h + m.to(tl.int64) * dout_stride_m
    dout = tl.load(dout_ptr + at[:, None] + d, mask=mask, other=0.0).to(tl.float32)
    place = tl.program_id(0).to(tl.int64) * 2 * BLOCK_M + tl.arange(0, BLOCK_M)
    tl.store(rows_ptr + place, tl.load(lse_ptr + head * Sq + m, mask=m < Sq, other=float("inf")))
    tl.store(rows_ptr + place + BLOCK_M, tl.sum(out * dout, axis=1))
    zeros = tl.zeros([BLOCK_M * D], tl.float32)
    tl.store(sum_ptr + tl.program_id(0).to(tl.int64) * BLOCK_M * D + tl.arange(0, BLOCK_M * D), zeros)


@triton.jit
def _attention_dq_cast(sum_ptr, dq_ptr, Sq, factor, D: tl.constexpr, BLOCK_M: tl.constexpr):
    # From the order of a product in registers to rows: for each half of the columns, eight columns,
    # warp, row and column of the lane, row of eight, column of two.
    blocks = tl.cdiv(Sq, BLOCK_M)
    head = (tl.program_id(0) // blocks).to(tl.int64)
    m = tl.program_id(0) % blocks * BLOCK_M + tl.arange(0, BLOCK_M)
    place = tl.program_id(0).to(tl.int64) * BLOCK_M * D + tl.arange(0, BLOCK_M * D)
    found = tl.reshape(tl.load(sum_ptr + place), [2, D // 16, 4, 8, 4, 2, 2])
    dq = tl.reshape(tl.permute(found, [2, 5, 3, 0, 1, 4, 6]), [BLOCK_M, D]) * factor
    at = (head * Sq + m)[:, None] * D + tl.arange(0, D)[None, :]
    tl.store(dq_ptr + at, dq.to(dq_ptr.dtype.element_ty), mask=m[:, None] < Sq)


@gluon.jit
def _walk(sizes, SECTION: gl.constexpr, CAUSAL: gl.constexpr):
    # Which keys this program owns, and which tiles of queries see any of them, for each of the query heads that share
    # these keys: `tiles` from `begin`, cyclically from `first`, so that programs at the same time add to other queries.
    # SECTION heads at a time, whose dq stays in the L2 cache; of them the first keys first, which with CAUSAL are seen
    # by the most queries.
    key_heads, Sq, Sk, _group = sizes
    blocks = gl.cdiv(Sk, 2 * ROWS)
    section = gl.program_id(0) // (blocks * SECTION) * SECTION
    width = gl.minimum(key_heads - section, SECTION)
    inside = gl.program_id(0) % (blocks * SECTION)
    head, n = section + inside % width, inside // width * 2 * ROWS
    begin = 0
    if CAUSAL:
        begin = gl.minimum(gl.maximum(n - (Sk - Sq), 0), Sq) // ROWS
    tiles = gl.cdiv(Sq, ROWS) - begin
    first = begin
    if not CAUSAL:
        first = n // ROWS % tiles
    return head, n, first, begin, tiles


@gluon.jit
def _next(h, block, first, begin, blocks):
    block += 1
    if block == blocks:
        block = begin
    if block == first:
        h += 1
    return h, block


@gluon.jit
def _matrix(buffer):
    M: gl.constexpr = buffer.shape[-2]
    N: gl.constexpr = buffer.shape[-1]
    return buffer.reshape((M, N))


@gluon.jit
def _copy(desc, head, row, buffer, there):
    mbarrier.expect(there, desc.block_type.nbytes)
    tma.async_copy_global_to_shared(desc, [head, row, 0], there, buffer)


@gluon.jit
def _fetch(sizes, buffers, barriers, sources, SECTION: gl.constexpr, CAUSAL: gl.constexpr):
    _key_heads, Sq, _Sk, group = sizes
    k_tiles, v_tiles, q_ring, o_ring, r_ring, _ds = buffers
    kv_there, q_there, q_free, o_there, o_free, r_there, _ds_there = barriers
    q_desc, k_desc, v_desc, o_desc, rows_ptr, steps = sources
    H, q_step_b, q_step_h, k_step_b, k_step_h, v_step_b, v_step_h, o_step_b, o_step_h = steps
    STAGES: gl.constexpr = q_ring.shape[0]
    head, n, first, begin, tiles = _walk(sizes, SECTION, CAUSAL)
    b, key_head = head // (H // group), head % (H // group)
    for g in gl.static_range(2):
        _copy(k_desc, b * k_step_b + key_head * k_step_h, n + g * ROWS, k_tiles.index(g), kv_there.index(0))
        _copy(v_desc, b * v_step_b + key_head * v_step_h, n + g * ROWS, v_tiles.index(g), kv_there.index(0))
    lanes = gl.arange(0, ROWS, gl.BlockedLayout([2], [32], [1], [0]))
    h, block, blocks = key_head * group, first, gl.cdiv(Sq, ROWS)
    for i in range(tiles * group):
        slot, phase = i % STAGES, i // STAGES & 1 ^ 1
        mbarrier.wait(q_free.index(slot), phase)
        _copy(q_desc, b * q_step_b + h * q_step_h, block * ROWS, q_ring.index(slot), q_there.index(slot))
        mbarrier.wait(o_free.index(slot), phase)
        _copy(o_desc, b * o_step_b + h * o_step_h, block * ROWS, o_ring.index(slot), o_there.index(slot))
        rows = rows_ptr + (gl.cast(b * H + h, gl.int64) * blocks + block) * (2 * ROWS) + lanes
        r_ring.index(2 * slot).store(gl.load(rows))
        r_ring.index(2 * slot + 1).store(gl.load(rows + ROWS))
        mbarrier.arrive(r_there.index(slot), count=1)
        h, block = _next(h, block, first, begin, blocks)


@gluon.jit
def _differentiate(sizes, buffers, barriers, results, GROUP: gl.constexpr, SECTION: gl.constexpr, CAUSAL: gl.constexpr):
    _key_heads, Sq, Sk, group = sizes
    k_tiles, v_tiles, q_ring, o_ring, r_ring, ds = buffers
    kv_there, q_there, q_free, o_there, o_free, r_there, ds_there = barriers
    dk_desc, dv_desc, sum_ptr, H, scale, factor = results
    STAGES: gl.constexpr = q_ring.shape[0]
    D: gl.constexpr = q_ring.shape[3]
    HALF: gl.constexpr = D // 2
    score_layout: gl.constexpr = gl.NVMMADistributedLayout([3, 0], [4, 1], [16, ROWS, 16])
    half_layout: gl.constexpr = gl.NVMMADistributedLayout([3, 0], [4, 1], [16, HALF, 16])
    out_layout: gl.constexpr = gl.NVMMADistributedLayout([3, 0], [4, 1], [16, D, 16])
    operand: gl.constexpr = gl.DotOperandLayout(0, out_layout, 2)
    column: gl.constexpr = gl.SliceLayout(0, score_layout)
    head, n_first, first, begin, tiles = _walk(sizes, SECTION, CAUSAL)
    q_heads = head // (H // group) * H + head % (H // group) * group
    n = n_first + GROUP * ROWS + gl.arange(0, ROWS, gl.SliceLayout(1, score_layout))[:, None]
    lanes = gl.arange(0, ROWS, column)
    zeros = gl.zeros((ROWS, ROWS), gl.float32, score_layout)
    no_sum = gl.zeros((ROWS, HALF), gl.float32, half_layout)
    dk = gl.zeros((ROWS, D), gl.float32, out_layout)
    dv = gl.zeros((ROWS, D), gl.float32, out_layout)
    k, v = _matrix(k_tiles.index(GROUP)), _matrix(v_tiles.index(GROUP))
    mbarrier.wait(kv_there.index(0), 0)
    blocks = gl.cdiv(Sq, ROWS)
    h, block = q_heads, first
    for i in range(tiles * group):
        slot, phase = i % STAGES, i // STAGES & 1
        q, dout = _matrix(q_ring.index(slot)), _matrix(o_ring.index(slot))
        mbarrier.wait(q_there.index(slot), phase)
        score = warpgroup_mma(k, q.permute((1, 0)), zeros, use_acc=False, is_async=True)
        mbarrier.wait(o_there.index(slot), phase)
        dweight = warpgroup_mma(v, dout.permute((1, 0)), zeros, use_acc=False, is_async=True)
        mbarrier.wait(r_there.index(slot), phase)
        lse = r_ring.index(2 * slot).load(column)
        score = warpgroup_mma_wait(num_outstanding=1, deps=(score,))
        weight = gl.exp2(score * scale - lse[None, :])
        # Keys behind the last one are zeros, whose weight could be as large as inf.
        if n_first + 2 * ROWS > Sk:
            weight = gl.where(n < Sk, weight, 0.0)
        if CAUSAL:  # noqa: SIM102 (known to the compiler; the other is not)
            if n_first + 2 * ROWS - 1 > block * ROWS + (Sk - Sq):
                weight = gl.where(n <= (block * ROWS + (Sk - Sq) + lanes)[None, :], weight, 0.0)
        p = gl.convert_layout(weight.to(q_ring.dtype), operand)
        dv = warpgroup_mma(p, dout, dv, is_async=True)
        dweight = warpgroup_mma_wait(num_outstanding=1, deps=(dweight,))
        delta = r_ring.index(2 * slot + 1).load(column)
        dscore = (weight * (dweight - delta[None, :])).to(q_ring.dtype)
        # The other consumer has left this buffer: it wrote the one of the step before after that.
        turn = i % 2
        _matrix(ds.index(turn * 2 + GROUP)).store(dscore)
        fence_async_shared()
        gl.thread_barrier()
        mbarrier.arrive(ds_there.index(turn), count=1)
        s = gl.convert_layout(dscore, operand)
        dk = warpgroup_mma(s, q, dk, is_async=True)
        mbarrier.wait(ds_there.index(turn), i // 2 & 1)
        dq = no_sum
        for g in gl.static_range(2):
            left = _matrix(ds.index(turn * 2 + g)).permute((1, 0))
            right = _matrix(k_tiles.index(g)).slice(GROUP * HALF, HALF, 1)
            dq = warpgroup_mma(left, right, dq, use_acc=g > 0, is_async=True)
        dv, p = warpgroup_mma_wait(num_outstanding=3, deps=(dv, p))
        mbarrier.arrive(o_free.index(slot), count=1)
        dk, dq, s = warpgroup_mma_wait(num_outstanding=0, deps=(dk, dq, s))
        mbarrier.arrive(q_free.index(slot), count=1)
        held = dq.reshape((4, 2, 8, HALF // 8, 4, 2)).permute((3, 0, 2, 4, 1, 5)).reshape((ROWS * HALF,))
        place = gl.arange(0, ROWS * HALF, held.type.layout)
        tile = gl.cast(h, gl.int64) * blocks + block
        gl.atomic_add(sum_ptr + (tile * 2 + GROUP) * (ROWS * HALF) + place, held, sem="relaxed")
        h, block = _next(h, block, first, begin, blocks)
    # Only this consumer has read its values: their buffer is free, for one result after the other.
    v.store(dv.to(dv_desc.dtype))
    fence_async_shared()
    tma.async_copy_shared_to_global(dv_desc, [head, n_first + GROUP * ROWS, 0], v_tiles.index(GROUP))
    tma.store_wait(0)
    v.store((dk * factor).to(dk_desc.dtype))
    fence_async_shared()
    tma.async_copy_shared_to_global(dk_desc, [head, n_first + GROUP * ROWS, 0], v_tiles.index(GROUP))
    tma.store_wait(0)


@gluon.jit
def _barriers(NUMBER: gl.constexpr, ARRIVALS: gl.constexpr):
    made = gl.allocate_shared_memory(gl.int64, [NUMBER, 1], mbarrier.MBarrierLayout())
    for i in gl.static_range(NUMBER):
        mbarrier.init(made.index(i), count=ARRIVALS)
    return made


# An extent or a step of 1 would become a constant, and the kernel be compiled again for it.
@gluon.jit(do_not_specialize=[
    "key_heads", "H", "Sq", "Sk", "group", "q_step_b", "q_step_h", "k_step_b", "k_step_h", "v_step_b", "v_step_h",
    "o_step_b", "o_step_h",
])  # fmt: skip
def _attention_one_pass(
    q_desc, k_desc, v_desc, o_desc, dk_desc, dv_desc, rows_ptr, sum_ptr, key_heads, H, Sq, Sk, group, scale, factor,
    q_step_b, q_step_h, k_step_b, k_step_h, v_step_b, v_step_h, o_step_b, o_step_h,
    STAGES: gl.constexpr, SECTION: gl.constexpr, CAUSAL: gl.constexpr,
):  # fmt: skip
    D: gl.constexpr = q_desc.block_type.shape[2]
    k_tiles = gl.allocate_shared_memory(k_desc.dtype, [2, 1, ROWS, D], k_desc.layout)
    v_tiles = gl.allocate_shared_memory(v_desc.dtype, [2, 1, ROWS, D], v_desc.layout)
    q_ring = gl.allocate_shared_memory(q_desc.dtype, [STAGES, 1, ROWS, D], q_desc.layout)
    o_ring = gl.allocate_shared_memory(o_desc.dtype, [STAGES, 1, ROWS, D], o_desc.layout)
    r_ring = gl.allocate_shared_memory(gl.float32, [STAGES * 2, ROWS], gl.SwizzledSharedLayout(1, 1, 1, [0]))
    ds = gl.allocate_shared_memory(q_desc.dtype, [4, 1, ROWS, ROWS], q_desc.layout)
    kv_there = _barriers(1, 4)
    q_there, q_free = _barriers(STAGES, 1), _barriers(STAGES, 2)
    o_there, o_free = _barriers(STAGES, 1), _barriers(STAGES, 2)
    r_there, ds_there = _barriers(STAGES, 1), _barriers(2, 2)
    sizes = (key_heads, Sq, Sk, group)
    buffers = (k_tiles, v_tiles, q_ring, o_ring, r_ring, ds)
    barriers = (kv_there, q_there, q_free, o_there, o_free, r_there, ds_there)
    steps = (H, q_step_b, q_step_h, k_step_b, k_step_h, v_step_b, v_step_h, o_step_b, o_step_h)
    sources = (q_desc, k_desc, v_desc, o_desc, rows_ptr, steps)
    results = (dk_desc, dv_desc, sum_ptr, H, scale, factor)
    gl.warp_specialize(
        [
            (_differentiate, (sizes, buffers, barriers, results, 0, SECTION, CAUSAL)),
            (_differentiate, (sizes, buffers, barriers, results, 1, SECTION, CAUSAL)),
            (_fetch, (sizes, buffers, barriers, sources, SECTION, CAUSAL)),
        ],
        [4, 1],
        [240, 24],
    )
