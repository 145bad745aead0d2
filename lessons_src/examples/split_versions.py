"""Other ways to the states of Workshop A2: in PyTorch, in one launch too few, and by programs that walk."""

import torch
import triton
import triton.language as tl


def states_in_torch(x, splits):
    """Version 0: the maximum and the sum of each split of each row, (M, splits) each, in x's dtype. Right, and slow."""
    width = -(-x.shape[1] // splits)
    maxima, sums = x.new_full((x.shape[0], splits), float("-inf")), x.new_zeros(x.shape[0], splits)
    for s in range(splits):
        part = x[:, s * width : (s + 1) * width]
        if part.shape[1]:
            maxima[:, s] = part.amax(1)
            shift = torch.where(maxima[:, s] == float("-inf"), 0.0, maxima[:, s])
            sums[:, s] = torch.exp(part - shift[:, None]).sum(1)
    return maxima, sums


def merged_in_torch(maxima, sums):
    """The states of each row as one: the largest maximum, and the sum under it."""
    highest = maxima.amax(1, keepdim=True)
    return highest, (sums * torch.exp(maxima - highest)).sum(1, keepdim=True)


@triton.jit
def _in_one_launch(
    x_ptr, out_ptr, maxima_ptr, sums_ptr, N, splits, columns, ALL_SPLITS: tl.constexpr, BLOCK_N: tl.constexpr
):
    # Wrong on purpose: a row in one launch, whose programs read what others may not have written.
    s = tl.program_id(0)
    n = s * columns + tl.arange(0, BLOCK_N)
    mask = (n < N) & (n < (s + 1) * columns)
    x = tl.load(x_ptr + n, mask=mask, other=float("-inf"))
    maximum = tl.max(x, axis=0)
    tl.store(maxima_ptr + s, maximum)
    tl.store(sums_ptr + s, tl.sum(tl.exp(x - maximum), axis=0))
    each = tl.arange(0, ALL_SPLITS)
    maxima = tl.load(maxima_ptr + each, mask=each < splits, other=float("-inf"))
    sums = tl.load(sums_ptr + each, mask=each < splits, other=0.0)
    highest = tl.max(maxima, axis=0)
    total = tl.sum(sums * tl.exp(maxima - highest), axis=0)
    tl.store(out_ptr + n, tl.exp(x - highest) / total, mask=mask)


@triton.jit
def _states_walking(x_ptr, maxima_ptr, sums_ptr, N, x_stride_m, splits, columns, TILE: tl.constexpr):
    # One program walks along its split, a tile at a time, and keeps one state.
    m, s = tl.program_id(0) // splits, tl.program_id(0) % splits
    maximum = tl.full((), float("-inf"), tl.float32)
    total = tl.full((), 0.0, tl.float32)
    for start in range(0, columns, TILE):
        inside = start + tl.arange(0, TILE)
        n = s * columns + inside
        x = tl.load(x_ptr + m * x_stride_m + n, mask=(inside < columns) & (n < N), other=float("-inf")).to(tl.float32)
        new_maximum = tl.maximum(maximum, tl.max(x, axis=0))
        shift = tl.where(new_maximum == float("-inf"), 0.0, new_maximum)
        total = total * tl.exp(maximum - shift) + tl.sum(tl.exp(x - shift), axis=0)
        maximum = new_maximum
    tl.store(maxima_ptr + m * splits + s, maximum)
    tl.store(sums_ptr + m * splits + s, total)


def states_walking(x, splits, tile):
    """Maximum and sum of each split of each row of x, (M, splits) each, `tile` columns at a time (a power of two)."""
    M, N = x.shape
    maxima, sums = (torch.full((M, splits), float("nan"), device=x.device) for _ in range(2))
    _states_walking[(M * splits,)](x, maxima, sums, N, x.stride(0), splits, -(-N // splits), TILE=tile)
    return maxima, sums
