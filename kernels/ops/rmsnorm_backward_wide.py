"""The gradients of rmsnorm for rows that are wider than one program holds: kernels that share a row among programs."""

import triton
import triton.language as tl
from triton.language.extra.cuda import gdc_wait

from kernels.ops.joint import add_up, arrive, leave, publish, sum_of_words, wait
from kernels.ops.rmsnorm_shared import read_row, read_weight, write_row


@triton.jit
def rmsnorm_backward_joint(
    x_ptr, residual_ptr, weight_ptr, dout_ptr, dsum_ptr, root_ptr, state_ptr, arrived_ptr, dx_ptr, partial_ptr, M, N,
    x_stride_m, x_stride_n, residual_stride_m, residual_stride_n, weight_stride, dout_stride_m, dout_stride_n,
    dsum_stride_m, dsum_stride_n, parts, teams, HAS_RESIDUAL: tl.constexpr, HAS_WEIGHT: tl.constexpr,
    HAS_DSUM: tl.constexpr, KEEP_WEIGHT: tl.constexpr, ALL_PARTS: tl.constexpr, BLOCK_M: tl.constexpr,
    BLOCK_N: tl.constexpr
):  # fmt: skip
    # Wide rows: `parts` programs form a team, each with columns of its own, and walk every teams-th
    # tile of rows together. A row needs the sums of all parts, so a program is always one tile ahead:
    # it has published the next tile's sums before it waits for those of this one.
    arrival = arrive(arrived_ptr)
    team, part = arrival // parts, arrival % parts
    n = part.to(tl.int64) * BLOCK_N + tl.arange(0, BLOCK_N)[None, :]
    weight = read_weight(weight_ptr, n, N, weight_stride, BLOCK_N, HAS_WEIGHT)
    dweight = tl.zeros([BLOCK_M, BLOCK_N], tl.float32)
    m = team.to(tl.int64) * BLOCK_M + tl.arange(0, BLOCK_M)[:, None]
    normed, dout, root = read_row(
        x_ptr, residual_ptr, dout_ptr, root_ptr, m, n, M, N, x_stride_m, x_stride_n, residual_stride_m,
        residual_stride_n, dout_stride_m, dout_stride_n, HAS_RESIDUAL,
    )  # fmt: skip
    dot = tl.sum(dout.to(tl.float32) * weight * normed, axis=1, keep_dims=True)
    tl.store(state_ptr + m * parts + part, dot, mask=m < M)
    publish(arrived_ptr + 1 + team)
    for tile in range(team, tl.cdiv(M, BLOCK_M), teams):
        # Past the last tile everything is masked off, and the counter is one that nobody waits for.
        next_m = m + teams * BLOCK_M
        next_normed, next_dout, next_root = read_row(
            x_ptr, residual_ptr, dout_ptr, root_ptr, next_m, n, M, N, x_stride_m, x_stride_n, residual_stride_m,
            residual_stride_n, dout_stride_m, dout_stride_n, HAS_RESIDUAL,
        )  # fmt: skip
        dot = tl.sum(next_dout.to(tl.float32) * weight * next_normed, axis=1, keep_dims=True)
        tl.store(state_ptr + next_m * parts + part, dot, mask=next_m < M)
        publish(arrived_ptr + 1 + tile + teams)
        wait(arrived_ptr + 1 + tile, parts)
        mean = add_up(state_ptr, m, M, parts, ALL_PARTS) / N
        upstream = dout.to(tl.float32)
        dx = root * (upstream * weight - normed * mean)
        write_row(dx, dsum_ptr, dx_ptr, m, n, M, N, dsum_stride_m, dsum_stride_n, HAS_DSUM)
        if KEEP_WEIGHT:
            dweight += upstream * normed
        m, normed, dout, root = next_m, next_normed, next_dout, next_root
    if KEEP_WEIGHT:
        partial = tl.sum(dweight, axis=0, keep_dims=True)
        tl.store(partial_ptr + team.to(tl.int64) * N + n, partial, mask=n < N)


@triton.jit
def rmsnorm_backward_words(
    x_ptr, residual_ptr, weight_ptr, dout_ptr, dsum_ptr, root_ptr, words_ptr, dx_ptr, partial_ptr, M, N,
    x_stride_m, x_stride_n, residual_stride_m, residual_stride_n, weight_stride, dout_stride_m, dout_stride_n,
    dsum_stride_m, dsum_stride_n, parts, teams, HAS_RESIDUAL: tl.constexpr, HAS_WEIGHT: tl.constexpr,
    HAS_DSUM: tl.constexpr, KEEP_WEIGHT: tl.constexpr, ALL_PARTS: tl.constexpr, BLOCK_N: tl.constexpr
):  # fmt: skip
    # The same, a row at a time, where the words in which programs meet are zeroed by the launch in
    # front: a program's part is its number, and a sum and its presence travel together.
    team, part = tl.program_id(0) // parts, tl.program_id(0) % parts
    n = part.to(tl.int64) * BLOCK_N + tl.arange(0, BLOCK_N)[None, :]
    weight = read_weight(weight_ptr, n, N, weight_stride, BLOCK_N, HAS_WEIGHT)
    dweight = tl.zeros([1, BLOCK_N], tl.float32)
    m = team.to(tl.int64) + tl.arange(0, 1)[:, None]
    normed, dout, root = read_row(
        x_ptr, residual_ptr, dout_ptr, root_ptr, m, n, M, N, x_stride_m, x_stride_n, residual_stride_m,
        residual_stride_n, dout_stride_m, dout_stride_n, HAS_RESIDUAL,
    )  # fmt: skip
    dot = tl.sum(tl.sum(dout.to(tl.float32) * weight * normed, axis=1), axis=0)
    gdc_wait()  # the words are zero from here on
    leave(words_ptr + team.to(tl.int64) * parts, part, dot)
    for row in range(team, M, teams):
        # Past the last row everything is masked off, and there is no word for it.
        next_m = m + teams
        next_normed, next_dout, next_root = read_row(
            x_ptr, residual_ptr, dout_ptr, root_ptr, next_m, n, M, N, x_stride_m, x_stride_n, residual_stride_m,
            residual_stride_n, dout_stride_m, dout_stride_n, HAS_RESIDUAL,
        )  # fmt: skip
        dot = tl.sum(tl.sum(next_dout.to(tl.float32) * weight * next_normed, axis=1), axis=0)
        row_words = words_ptr + tl.cast(row, tl.int64) * parts
        if row + teams < M:
            leave(row_words + tl.cast(teams, tl.int64) * parts, part, dot)
        mean = sum_of_words(row_words, parts, ALL_PARTS) / N
        upstream = dout.to(tl.float32)
        dx = root * (upstream * weight - normed * mean)
        write_row(dx, dsum_ptr, dx_ptr, m, n, M, N, dsum_stride_m, dsum_stride_n, HAS_DSUM)
        if KEEP_WEIGHT:
            dweight += upstream * normed
        m, normed, dout, root = next_m, next_normed, next_dout, next_root
    if KEEP_WEIGHT:
        tl.store(partial_ptr + team.to(tl.int64) * N + n, dweight, mask=n < N)


@triton.jit
def rmsnorm_backward_dots(
    x_ptr, residual_ptr, weight_ptr, dout_ptr, root_ptr, state_ptr, M, N, x_stride_m, x_stride_n, residual_stride_m,
    residual_stride_n, weight_stride, dout_stride_m, dout_stride_n, parts, HAS_RESIDUAL: tl.constexpr,
    HAS_WEIGHT: tl.constexpr, BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr
):  # fmt: skip
    # First of two launches where nobody can wait: the sum of each part of BLOCK_M rows.
    m = (tl.program_id(0) // parts).to(tl.int64) * BLOCK_M + tl.arange(0, BLOCK_M)[:, None]
    part = tl.program_id(0) % parts
    n = part.to(tl.int64) * BLOCK_N + tl.arange(0, BLOCK_N)[None, :]
    weight = read_weight(weight_ptr, n, N, weight_stride, BLOCK_N, HAS_WEIGHT)
    normed, dout, _ = read_row(
        x_ptr, residual_ptr, dout_ptr, root_ptr, m, n, M, N, x_stride_m, x_stride_n, residual_stride_m,
        residual_stride_n, dout_stride_m, dout_stride_n, HAS_RESIDUAL,
    )  # fmt: skip
    dot = tl.sum(dout.to(tl.float32) * weight * normed, axis=1, keep_dims=True)
    tl.store(state_ptr + m * parts + part, dot, mask=m < M)


@triton.jit
def rmsnorm_backward_columns(
    x_ptr, residual_ptr, weight_ptr, dout_ptr, dsum_ptr, root_ptr, state_ptr, dx_ptr, partial_ptr, M, N, x_stride_m,
    x_stride_n, residual_stride_m, residual_stride_n, weight_stride, dout_stride_m, dout_stride_n, dsum_stride_m,
    dsum_stride_n, parts, teams, HAS_RESIDUAL: tl.constexpr, HAS_WEIGHT: tl.constexpr, HAS_DSUM: tl.constexpr,
    KEEP_WEIGHT: tl.constexpr, ALL_PARTS: tl.constexpr, BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr
):  # fmt: skip
    # Second launch: a program owns BLOCK_N columns and walks every teams-th tile of rows down them.
    team, part = tl.program_id(0) // parts, tl.program_id(0) % parts
    n = part.to(tl.int64) * BLOCK_N + tl.arange(0, BLOCK_N)[None, :]
    weight = read_weight(weight_ptr, n, N, weight_stride, BLOCK_N, HAS_WEIGHT)
    dweight = tl.zeros([BLOCK_M, BLOCK_N], tl.float32)
    for tile in range(team, tl.cdiv(M, BLOCK_M), teams):
        m = tl.cast(tile, tl.int64) * BLOCK_M + tl.arange(0, BLOCK_M)[:, None]
        normed, dout, root = read_row(
            x_ptr, residual_ptr, dout_ptr, root_ptr, m, n, M, N, x_stride_m, x_stride_n, residual_stride_m,
            residual_stride_n, dout_stride_m, dout_stride_n, HAS_RESIDUAL,
        )  # fmt: skip
        mean = add_up(state_ptr, m, M, parts, ALL_PARTS) / N
        dout = dout.to(tl.float32)
        dx = root * (dout * weight - normed * mean)
        write_row(dx, dsum_ptr, dx_ptr, m, n, M, N, dsum_stride_m, dsum_stride_n, HAS_DSUM)
        if KEEP_WEIGHT:
            dweight += dout * normed
    if KEEP_WEIGHT:
        partial = tl.sum(dweight, axis=0, keep_dims=True)
        tl.store(partial_ptr + team.to(tl.int64) * N + n, partial, mask=n < N)
