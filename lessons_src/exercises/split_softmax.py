"""Exercise of Workshop A2: softmax of a row that several programs share, in two launches.

    split s:  m_s = max x    l_s = sum exp(x - m_s)        row:  m = max m_s    l = sum l_s * exp(m_s - m)
    out = exp(x - m) / l

    lessons check split_softmax

Edit only what lies between the marks: which columns a split owns, the first kernel, which leaves the state of each
split, and the second, which merges the states of its row and writes. The check runs your kernels in Triton's
interpreter, so it needs no GPU; it looks at the states, the weights, and every element that was touched.
"""

import torch
import triton
import triton.language as tl


def columns_of(N: int, splits: int) -> int:
    """How many neighbouring columns a split owns: the fewest with which `splits` of them cover N columns."""
    # --- fill in ---
    # 10 columns in 4 splits: 3 each, and 1 for the last.
    raise NotImplementedError("how many columns a split owns")
    # --- end ---


@triton.jit
def _states(x_ptr, maxima_ptr, sums_ptr, N, x_stride_m, splits, columns, BLOCK_N: tl.constexpr):
    m, s = tl.program_id(0) // splits, tl.program_id(0) % splits
    # --- fill in ---
    # Split s owns `columns` columns from s * columns on, those that exist. Its block has
    # BLOCK_N places, a power of two. Store one maximum and one sum, at m * splits + s.
    # What may a split that holds nothing, or nothing but -inf, not compute?
    raise NotImplementedError("the state of one split")
    # --- end ---


@triton.jit
def _weights(
    x_ptr, out_ptr, maxima_ptr, sums_ptr, N, x_stride_m, out_stride_m, splits, columns,
    ALL_SPLITS: tl.constexpr, BLOCK_N: tl.constexpr,
):  # fmt: skip
    m, s = tl.program_id(0) // splits, tl.program_id(0) % splits
    each = tl.arange(0, ALL_SPLITS)
    # --- fill in ---
    # Load the states of all splits of row m: `each` has at least as many places.
    # Merge them, then write the weights of split s, once each.
    raise NotImplementedError("merge the states of the row, and write this split's weights")
    # --- end ---


def states(x: torch.Tensor, splits: int) -> tuple[torch.Tensor, torch.Tensor]:
    """Maximum and sum of each split of each row of x: two tensors (M, splits) in float32.

    x: (M, N), M and N from 1 up, float32 or float16, with a row stride; the elements of a row are neighbours. A split
    may own fewer columns than the others, or none; where it holds nothing but -inf, its state is (-inf, 0).
    """
    M, N = x.shape
    maxima, sums = (torch.full((M, splits), float("nan"), device=x.device) for _ in range(2))
    columns = columns_of(N, splits)
    block = triton.next_power_of_2(columns)
    _states[(M * splits,)](x, maxima, sums, N, x.stride(0), splits, columns, BLOCK_N=block)
    return maxima, sums


def softmax(x: torch.Tensor, out: torch.Tensor, splits: int) -> None:
    """Writes the softmax of each row of x to out, M * splits programs at a time.

    out: (M, N), of x's dtype, with a row stride of its own. A row of nothing but -inf is NaN, as torch.softmax has it.
    """
    M, N = x.shape
    maxima, sums = states(x, splits)
    columns = columns_of(N, splits)
    constants = {"ALL_SPLITS": triton.next_power_of_2(splits), "BLOCK_N": triton.next_power_of_2(columns)}
    arguments = (x, out, maxima, sums, N, x.stride(0), out.stride(0), splits, columns)
    _weights[(M * splits,)](*arguments, **constants)
