"""The forward pass of attention in Gluon, for compute capability 9.0: one warp fetches, two or three groups compute.

A tile is 64 queries of one head for each of GROUPS warp groups, the consumers. Each holds its rows' sum in registers
and walks along the keys in blocks of BLOCK_N, from the last block that any row of the tile sees to the first. Keys and
values of a block lie in two rings of STAGES buffers in shared memory, which the producer, a warp of its own, has the
copy engine fill. Two barriers go with each buffer: `there`, which the copy completes, and `free`, at which every
consumer arrives once its product has read the buffer.

Within a consumer the products of two blocks overlap with one softmax. Block j's scores (queries times keys) are started
first, then block j + 1's weights times its values; when the scores are there, while the second product still runs, the
weights of block j are computed. The weights stay in registers, as the left operand of the second product.

    scores j   ▒▒▒▒▒            ▒▒▒▒▒                tensor cores
    values j+1      ▒▒▒▒▒            ▒▒▒▒▒           tensor cores
    weights j       ░░░░░░░░         ░░░░░░░░        the other units

Between consumers, with PINGPONG, a barrier called `turn` goes round: who holds it starts its two products, so that one
consumer's weights are computed while the products of another run. Only the blocks at the ends of a row of blocks, where
some row does not see some key, are masked; the first one visited always is.

With MIXED, every fourth exponential is a polynomial on the multipliers, which have time left; the unit for exponentials
does the others, as in FlashAttention-4. How an argument is cut into an integer and a rest: Cody and Waite, "Software
manual for the elementary functions", 1980.

A program takes one tile or, with as many programs as multiprocessors, several; the producer then fetches the next
tile's queries, keys and values while the consumers are at this one. Out goes through the queries' buffer.

`kernels.ops.attention_gluon_launch` says what it takes. Triton cannot interpret it; its readable twin,
`kernels.ops.attention._attention_queries`, is traced for it.
"""

from triton.experimental import gluon
from triton.experimental.gluon import language as gl
from triton.experimental.gluon.language.nvidia.hopper import (
    fence_async_shared,
    mbarrier,
    tma,
    warpgroup_mma,
    warpgroup_mma_wait,
)

GROUP_ROWS = gl.constexpr(64)  # of a consumer: what one wgmma multiplies
FAR = gl.constexpr(1 << 30)  # rows of a tensor whose end is moved to each batch element's own length


@gluon.jit
def _mine(order_ptr, tiles, PLANNED: gl.constexpr):
    # The tiles of this program: a stretch of the list at order_ptr, or every so many.
    first, last, step = gl.program_id(0), tiles, gl.num_programs(0)
    if PLANNED:
        first, last, step = gl.load(order_ptr + first), gl.load(order_ptr + first + 1), 1
    return first, last, step


@gluon.jit
def _place(tile, lengths_ptr, heads, H, Sq, Sk, TILE_ROWS: gl.constexpr, SECTION: gl.constexpr, RAGGED: gl.constexpr):
    # SECTION heads at a time, whose keys and values stay in the L2 cache; of them the last queries first, which with
    # CAUSAL see the most keys.
    blocks = gl.cdiv(Sq, TILE_ROWS)
    section = tile // (blocks * SECTION) * SECTION
    width = gl.minimum(heads - section, SECTION)
    inside = tile % (blocks * SECTION)
    head = section + inside % width
    length = Sk
    if RAGGED:
        length = gl.minimum(gl.maximum(gl.load(lengths_ptr + head // H), 0), Sk)
    return (blocks - 1 - inside // width) * TILE_ROWS, head, length


@gluon.jit
def _stretches(m, Sq, length, TILE_ROWS: gl.constexpr, BLOCK_N: gl.constexpr, CAUSAL: gl.constexpr,
               WINDOW: gl.constexpr):  # fmt: skip
    # Of the tile that begins at query m, in blocks of keys: some query sees one of [begin, end), every query sees all
    # keys of [left, right). At least one block, so that a tile of queries without a key is computed like any other.
    shift = length - Sq
    last = gl.minimum(m + TILE_ROWS, Sq) - 1
    begin, left, end, right = 0, 0, length, length
    if CAUSAL:
        end = gl.minimum(gl.maximum(last + shift + 1, 0), length)
        right = gl.minimum(gl.maximum(m + shift + 1, 0), length)
    if WINDOW > 0:
        begin = gl.maximum(m + shift - WINDOW + 1, 0) // BLOCK_N
        left = gl.cdiv(gl.maximum(last + shift - WINDOW + 1, 0), BLOCK_N)
    end = gl.maximum(gl.cdiv(end, BLOCK_N), begin + 1)
    # The last block is visited apart from the rest, masked.
    right = gl.minimum(gl.maximum(right // BLOCK_N, begin), end - 1)
    left = gl.minimum(gl.maximum(left, begin), right)
    return begin, left, right, end


@gluon.jit
def _fetch(desc, head, row, length, buffer, there, RAGGED: gl.constexpr):
    mbarrier.expect(there, desc.block_type.nbytes)
    if RAGGED:
        # Of a descriptor of FAR rows: row `length` is its end, and what lies behind is read as zero. The first two
        # coordinates take the address back: FAR * (2**34 - s) + length * s + (FAR - length + row) * s is row * s.
        BLOCK_N: gl.constexpr = buffer.shape[1]
        D: gl.constexpr = buffer.shape[2]
        place = buffer.reshape((1, 1, 1, BLOCK_N, D))
        tma.async_copy_global_to_shared(desc, [FAR, length, head, FAR - length + row, 0], there, place)
    else:
        tma.async_copy_global_to_shared(desc, [head, row, 0], there, buffer)


@gluon.jit
def _produce(
    sizes, buffers, sources, GROUPS: gl.constexpr, SECTION: gl.constexpr, PLANNED: gl.constexpr,
    CAUSAL: gl.constexpr, WINDOW: gl.constexpr, RAGGED: gl.constexpr,
):  # fmt: skip
    order_ptr, lengths_ptr, heads, H, Sq, Sk = sizes
    q_ring, kv_ring, q_free, q_there, k_free, k_there, v_free, v_there, _turn = buffers
    q_desc, k_desc, v_desc, group, q_step_b, q_step_h, k_step_b, k_step_h, v_step_b, v_step_h = sources
    STAGES: gl.constexpr = kv_ring.shape[0] // 2
    BLOCK_N: gl.constexpr = kv_ring.shape[2]
    TILE_ROWS: gl.constexpr = GROUPS * GROUP_ROWS
    SLOTS: gl.constexpr = q_ring.shape[0] // GROUPS
    step, tiles_done = 0, 0
    begin_i, end_i, step_i = _mine(order_ptr, heads * gl.cdiv(Sq, TILE_ROWS), PLANNED)
    upcoming = begin_i
    if PLANNED:
        upcoming = gl.load(order_ptr + begin_i)
    for i in range(begin_i, end_i, step_i):
        tile = i
        if PLANNED:
            tile, upcoming = upcoming, gl.load(order_ptr + i + 1)  # the next one, long before it is needed
        m, head, length = _place(tile, lengths_ptr, heads, H, Sq, Sk, TILE_ROWS, SECTION, RAGGED)
        begin, _, _, end = _stretches(m, Sq, length, TILE_ROWS, BLOCK_N, CAUSAL, WINDOW)
        b, h = head // H, head % H
        k_head = b * k_step_b + h // group * k_step_h
        v_head = b * v_step_b + h // group * v_step_h
        # Keys are fetched a block ahead of values, as they are used.
        for j in range(end - begin + 1):
            # A barrier begins as if its phase 1 were over: the first round finds every buffer free.
            if j < end - begin:
                slot, phase = (step + j) % STAGES, (step + j) // STAGES & 1 ^ 1
                row = (end - 1 - j) * BLOCK_N
                mbarrier.wait(k_free.index(slot), phase)
                _fetch(k_desc, k_head, row, length, kv_ring.index(slot), k_there.index(slot), False)
            if j == 0:
                for g in gl.static_range(GROUPS):
                    at = tiles_done % SLOTS * GROUPS + g
                    mbarrier.wait(q_free.index(at), tiles_done // SLOTS & 1 ^ 1)
                    _fetch(q_desc, b * q_step_b + h * q_step_h, m + g * GROUP_ROWS, length, q_ring.index(at),
                           q_there.index(at), False)  # fmt: skip
            else:
                slot, phase = (step + j - 1) % STAGES, (step + j - 1) // STAGES & 1 ^ 1
                mbarrier.wait(v_free.index(slot), phase)
                _fetch(v_desc, v_head, (end - j) * BLOCK_N, length, kv_ring.index(STAGES + slot),
                       v_there.index(slot), RAGGED)  # fmt: skip
        step += end - begin
        tiles_done += 1  # noqa: SIM113


@gluon.jit
def _matrix(buffer):
    # A buffer has the rank of what the copy engine brings: all but the last two sizes are 1.
    M: gl.constexpr = buffer.shape[-2]
    N: gl.constexpr = buffer.shape[-1]
    return buffer.reshape((M, N))


@gluon.jit
def _scaled(acc, factor):
    rows: gl.constexpr = gl.SliceLayout(1, acc.type.layout)
    return acc * gl.convert_layout(factor, rows)[:, None]


@gluon.jit
def _start_scores(q, k, layout: gl.constexpr):
    BLOCK_N: gl.constexpr = k.shape[0]
    zeros = gl.zeros((GROUP_ROWS, BLOCK_N), gl.float32, layout)
    return warpgroup_mma(q, k.permute((1, 0)), zeros, use_acc=False, is_async=True)


@gluon.jit
def _masked(score, upper, lower, start, WINDOW: gl.constexpr):
    n = gl.arange(0, score.shape[1], gl.SliceLayout(0, score.type.layout))[None, :]
    visible = n < (upper - start)[:, None]
    if WINDOW > 0:
        visible = visible & (n >= (lower - start)[:, None])
    return gl.where(visible, score, float("-inf"))


@gluon.jit
def _per_lane(x, SUM: gl.constexpr):
    # Of each row, the maximum or the sum of what each of the four lanes that share the row holds. In pairs, and pairs
    # of pairs, since a thread that takes one number after the other waits for every result.
    ROWS: gl.constexpr = x.shape[0]
    PAIRS: gl.constexpr = x.shape[1] // 8
    x = x.reshape((ROWS, PAIRS, 4, 2))
    x = gl.sum(x, axis=3) if SUM else gl.max(x, axis=3)
    LEVELS: gl.constexpr = PAIRS.bit_length() - 1
    for level in gl.static_range(LEVELS):
        x = x.reshape((ROWS, PAIRS >> level + 1, 2, 4))
        x = gl.sum(x, axis=2) if SUM else gl.max(x, axis=2)
    return x.reshape((ROWS, 4))


@gluon.jit
def _exp2_mixed(x):
    # Of each four neighbours three by the unit for exponentials and one by a polynomial: 2**x is 2**n * 2**f, where
    # n = round(x) comes from adding 1.5 * 2**23, and goes into the exponent's bits, and f is in [-1/2, 1/2]. Relative
    # error below 1e-4, which the rounding of weights to two bytes hides. Below 2**-126 it is 0, as the unit's is; NaN
    # stays NaN, which is why 2**n is a factor and not added to the bits. For x up to 127.
    return gl.inline_asm_elementwise(
        """
        {
            .reg .f32 r, f, p, s;
            .reg .b32 i;
            ex2.approx.ftz.f32 $0, $4;
            ex2.approx.ftz.f32 $1, $5;
            ex2.approx.ftz.f32 $2, $6;
            max.ftz.NaN.f32 f, $7, 0fC2FE0000;
            add.rn.ftz.f32 r, f, 0f4B400000;
            sub.rn.ftz.f32 p, r, 0f4B400000;
            sub.rn.ftz.f32 f, f, p;
            fma.rn.ftz.f32 p, f, 0f3D61FBAD, 0f3E786F0D;
            fma.rn.ftz.f32 p, p, f, 0f3F31798D;
            fma.rn.ftz.f32 p, p, f, 0f3F7FFB49;
            mov.b32 i, r;
            shl.b32 i, i, 23;
            add.s32 i, i, 0x3F800000;
            mov.b32 s, i;
            mul.rn.ftz.f32 $3, p, s;
        }
        """,
        "=&f,=&f,=&f,=&f,f,f,f,f", [x], dtype=gl.float32, is_pure=True, pack=4,
    )  # fmt: skip


@gluon.jit
def _weigh(score, maximum, total, scale, MIXED: gl.constexpr):
    # Weights of one block of keys, the running maximum of each row, and the running total of each lane's part of it.
    # `keep` is what brings the sums so far to the new maximum. maximum is that of the scores before they are scaled:
    # scale and subtraction are one FMA.
    highest = gl.max(_per_lane(score, False), axis=1)
    new_maximum = gl.maximum(maximum, gl.convert_layout(highest, maximum.type.layout))
    # While a row has seen no key, -inf - -inf would be NaN and stay: subtract 0.
    base = gl.where(new_maximum == float("-inf"), 0.0, new_maximum) * scale
    if MIXED:  # noqa: SIM108 (known to the compiler)
        weight = _exp2_mixed(score * scale - base[:, None])
    else:
        weight = gl.exp2(score * scale - base[:, None])
    keep = gl.exp2(maximum * scale - base)
    more = _per_lane(weight, True)
    return weight, new_maximum, _scaled(gl.convert_layout(total, more.type.layout), keep) + more, keep


@gluon.jit
def _consume(
    sizes, buffers, results, GROUP: gl.constexpr, GROUPS: gl.constexpr, SECTION: gl.constexpr, PLANNED: gl.constexpr,
    CAUSAL: gl.constexpr, WINDOW: gl.constexpr, RAGGED: gl.constexpr, PINGPONG: gl.constexpr,
    MIXED: gl.constexpr,
):  # fmt: skip
    order_ptr, lengths_ptr, heads, H, Sq, Sk = sizes
    q_ring, kv_ring, q_free, q_there, k_free, k_there, v_free, v_there, turn = buffers
    out_desc, lse_ptr, scale = results
    STAGES: gl.constexpr = kv_ring.shape[0] // 2
    BLOCK_N: gl.constexpr = kv_ring.shape[2]
    D: gl.constexpr = kv_ring.shape[3]
    TILE_ROWS: gl.constexpr = GROUPS * GROUP_ROWS
    SLOTS: gl.constexpr = q_ring.shape[0] // GROUPS
    score_layout: gl.constexpr = gl.NVMMADistributedLayout([3, 0], [4, 1], [16, BLOCK_N, 16])
    out_layout: gl.constexpr = gl.NVMMADistributedLayout([3, 0], [4, 1], [16, D, 16])
    operand: gl.constexpr = gl.DotOperandLayout(0, out_layout, 2)
    row_layout: gl.constexpr = gl.SliceLayout(1, score_layout)
    step, tiles_done = 0, 0
    begin_i, end_i, step_i = _mine(order_ptr, heads * gl.cdiv(Sq, TILE_ROWS), PLANNED)
    upcoming = begin_i
    if PLANNED:
        upcoming = gl.load(order_ptr + begin_i)
    for i in range(begin_i, end_i, step_i):
        tile = i
        if PLANNED:
            tile, upcoming = upcoming, gl.load(order_ptr + i + 1)  # the next one, long before it is needed
        first, head, length = _place(tile, lengths_ptr, heads, H, Sq, Sk, TILE_ROWS, SECTION, RAGGED)
        begin, left, right, end = _stretches(first, Sq, length, TILE_ROWS, BLOCK_N, CAUSAL, WINDOW)
        m = first + GROUP * GROUP_ROWS + gl.arange(0, GROUP_ROWS, row_layout)
        # A row sees keys from `lower` up to, without, `upper`.
        lower = m + (length - Sq - WINDOW + 1)
        upper = gl.full((GROUP_ROWS,), length, gl.int32, row_layout)
        if CAUSAL:
            upper = gl.minimum(m + (length - Sq + 1), length)
        at = tiles_done % SLOTS * GROUPS + GROUP
        q = _matrix(q_ring.index(at))
        mbarrier.wait(q_there.index(at), tiles_done // SLOTS & 1)
        slot = step % STAGES
        mbarrier.wait(k_there.index(slot), step // STAGES & 1)
        score = _start_scores(q, _matrix(kv_ring.index(slot)), score_layout)
        score = warpgroup_mma_wait(num_outstanding=0, deps=(score,))
        mbarrier.arrive(k_free.index(slot), count=1)
        maximum = gl.full((GROUP_ROWS,), float("-inf"), gl.float32, row_layout)
        total = _per_lane(gl.zeros((GROUP_ROWS, BLOCK_N), gl.float32, score_layout), True)
        acc = gl.zeros((GROUP_ROWS, D), gl.float32, out_layout)
        score = _masked(score, upper, lower, (end - 1) * BLOCK_N, WINDOW)
        weight, maximum, total, keep = _weigh(score, maximum, total, scale, MIXED)
        step += 1
        if SLOTS > 1:
            # By now the copy engine has long read the result of the tile before, and its buffer is free.
            tma.store_wait(0)
            gone = (tiles_done + SLOTS - 1) % SLOTS * GROUPS + GROUP
            mbarrier.arrive(q_free.index(gone), count=1, pred=tiles_done > 0)
        for block in range(end - 2, begin - 1, -1):
            # weight, of the block before, has not met its values yet, and keep is what acc must be multiplied by
            # before it does.
            slot, before = step % STAGES, (step + STAGES - 1) % STAGES
            mbarrier.wait(k_there.index(slot), step // STAGES & 1)
            if PINGPONG:
                # The other consumers have started theirs as often; the first consumer is one turn ahead.
                mbarrier.wait(turn.index(GROUP), step - tiles_done - 1 & 1 ^ (GROUP == 0))
            score = _start_scores(q, _matrix(kv_ring.index(slot)), score_layout)
            mbarrier.wait(v_there.index(before), (step - 1) // STAGES & 1)
            acc = _scaled(acc, keep)
            p = gl.convert_layout(weight.to(kv_ring.dtype), operand)
            acc = warpgroup_mma(p, _matrix(kv_ring.index(STAGES + before)), acc, is_async=True)
            if PINGPONG:
                mbarrier.arrive(turn.index((GROUP + 1) % GROUPS), count=1)
            score = warpgroup_mma_wait(num_outstanding=1, deps=(score,))
            mbarrier.arrive(k_free.index(slot), count=1)
            if CAUSAL:  # noqa: SIM102 (known to the compiler; the other is not)
                if (block >= right) | (block < left):
                    score = _masked(score, upper, lower, block * BLOCK_N, WINDOW)
            weight, maximum, total, keep = _weigh(score, maximum, total, scale, MIXED)
            # The values are there, as above, and stay until v_free: this wait is over at once. It is a loop, across
            # which ptxas moves nothing; without it, the wait for the second product comes before the weights.
            mbarrier.wait(v_there.index(before), (step - 1) // STAGES & 1)
            acc, p = warpgroup_mma_wait(num_outstanding=0, deps=(acc, p))
            mbarrier.arrive(v_free.index(before), count=1)
            step += 1
        acc = _scaled(acc, keep)
        p = gl.convert_layout(weight.to(kv_ring.dtype), operand)
        before = (step + STAGES - 1) % STAGES
        mbarrier.wait(v_there.index(before), (step - 1) // STAGES & 1)
        acc = warpgroup_mma(p, _matrix(kv_ring.index(STAGES + before)), acc, is_async=True)
        total = gl.convert_layout(gl.sum(total, axis=1), row_layout)
        nothing = total == 0.0
        # The logarithm (base 2) of each row's sum, for the gradient, as the readable kernel keeps it.
        lse = gl.where(nothing, float("inf"), maximum * scale + gl.log2(total))
        gl.store(lse_ptr + head * Sq + m, lse, mask=m < Sq)
        inverse = gl.where(nothing, 0.0, 1.0 / gl.where(nothing, 1.0, total))
        acc, p = warpgroup_mma_wait(num_outstanding=0, deps=(acc, p))
        mbarrier.arrive(v_free.index(before), count=1)
        q.store(_scaled(acc, inverse).to(out_desc.dtype))
        fence_async_shared()
        tma.async_copy_shared_to_global(out_desc, [head, first + GROUP * GROUP_ROWS, 0], q_ring.index(at))
        if SLOTS == 1:
            tma.store_wait(0)
            mbarrier.arrive(q_free.index(at), count=1)
        tiles_done += 1  # noqa: SIM113
    tma.store_wait(0)


@gluon.jit
def _barriers(NUMBER: gl.constexpr, ARRIVALS: gl.constexpr):
    made = gl.allocate_shared_memory(gl.int64, [NUMBER, 1], mbarrier.MBarrierLayout())
    for i in gl.static_range(NUMBER):
        mbarrier.init(made.index(i), count=ARRIVALS)
    return made


# An extent or a step of 1 would become a constant, and the kernel be compiled again for it.
@gluon.jit(do_not_specialize=[
    "heads", "H", "Sq", "Sk", "group", "q_step_b", "q_step_h", "k_step_b", "k_step_h", "v_step_b", "v_step_h",
])  # fmt: skip
def _attention_ring(
    q_desc, k_desc, v_desc, out_desc, lse_ptr, order_ptr, lengths_ptr, heads, H, Sq, Sk, group, scale,
    q_step_b, q_step_h, k_step_b, k_step_h, v_step_b, v_step_h,
    GROUPS: gl.constexpr, STAGES: gl.constexpr, SLOTS: gl.constexpr, SECTION: gl.constexpr, PLANNED: gl.constexpr,
    CAUSAL: gl.constexpr, WINDOW: gl.constexpr, RAGGED: gl.constexpr, PINGPONG: gl.constexpr,
    MIXED: gl.constexpr, REGISTERS: gl.constexpr,
):  # fmt: skip
    BLOCK_N: gl.constexpr = k_desc.block_type.shape[1]
    D: gl.constexpr = k_desc.block_type.shape[2]
    q_ring = gl.allocate_shared_memory(q_desc.dtype, [GROUPS * SLOTS, 1, GROUP_ROWS, D], q_desc.layout)
    kv_ring = gl.allocate_shared_memory(k_desc.dtype, [2 * STAGES, 1, BLOCK_N, D], k_desc.layout)
    q_free, q_there = _barriers(GROUPS * SLOTS, 1), _barriers(GROUPS * SLOTS, 1)
    k_free, k_there = _barriers(STAGES, GROUPS), _barriers(STAGES, 1)
    v_free, v_there = _barriers(STAGES, GROUPS), _barriers(STAGES, 1)
    turn = _barriers(GROUPS, 1)
    sizes = (order_ptr, lengths_ptr, heads, H, Sq, Sk)
    buffers = (q_ring, kv_ring, q_free, q_there, k_free, k_there, v_free, v_there, turn)
    sources = (q_desc, k_desc, v_desc, group, q_step_b, q_step_h, k_step_b, k_step_h, v_step_b, v_step_h)
    results = (out_desc, lse_ptr, scale)
    if GROUPS == 2:
        gl.warp_specialize(
            [
                (_consume, (sizes, buffers, results, 0, 2, SECTION, PLANNED, CAUSAL, WINDOW, RAGGED, PINGPONG, MIXED)),
                (_consume, (sizes, buffers, results, 1, 2, SECTION, PLANNED, CAUSAL, WINDOW, RAGGED, PINGPONG, MIXED)),
                (_produce, (sizes, buffers, sources, 2, SECTION, PLANNED, CAUSAL, WINDOW, RAGGED)),
            ],
            [4, 1],
            [REGISTERS, 24],
        )
    else:
        gl.warp_specialize(
            [
                (_consume, (sizes, buffers, results, 0, 3, SECTION, PLANNED, CAUSAL, WINDOW, RAGGED, PINGPONG, MIXED)),
                (_consume, (sizes, buffers, results, 1, 3, SECTION, PLANNED, CAUSAL, WINDOW, RAGGED, PINGPONG, MIXED)),
                (_consume, (sizes, buffers, results, 2, 3, SECTION, PLANNED, CAUSAL, WINDOW, RAGGED, PINGPONG, MIXED)),
                (_produce, (sizes, buffers, sources, 3, SECTION, PLANNED, CAUSAL, WINDOW, RAGGED)),
            ],
            [4, 4, 1],
            [REGISTERS, REGISTERS, 24],
        )
