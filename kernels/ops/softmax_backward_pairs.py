"""The gradient of softmax for wide bfloat16 rows, two elements in a register: for `kernels.ops.softmax_backward`.

A program holds one part of y and of dy while it waits for the sums of the row's other parts. Held as they were read,
two elements take one register, half of what their float32 values take, so that more programs share a multiprocessor
and more memory is on its way at any time. They are unpacked again behind the wait.

Programs take their parts by their number, and the words in which they meet are zeroed by the launch in front, which
overlaps with this one: see `kernels.ops.joint`, which also says why this relies on the order in which programs start.
"""

import torch
import triton
import triton.language as tl
from triton.language.extra.cuda import gdc_wait

from kernels.ops.joint import leave, sum_of_words
from kernels.ops.softmax_ahead import _as_read, _high, _low, _rounded


@triton.jit
def _softmax_backward_pairs(
    y_ptr, dy_ptr, dx_ptr, words_ptr, N, y_stride_m, dy_stride_m, dx_stride_m, parts, ALL_PARTS: tl.constexpr,
    BLOCK_N: tl.constexpr,
):  # fmt: skip
    """One part of BLOCK_N columns of one row: y, dy and dx are bfloat16 (M, N), columns side by side, N even and every
    row beginning at an even element; words holds M * parts zeros once the launch in front has ended.

    The sum travels in the part's word, and dx is y * (dy - sum) in float32, rounded once.
    """
    m = (tl.program_id(0) // parts).to(tl.int64)
    part = tl.program_id(0) % parts
    first = part * BLOCK_N
    pairs = tl.arange(0, BLOCK_N // 2)
    mask = pairs < (N - first) // 2
    y_part = (y_ptr + m * y_stride_m + first).to(tl.pointer_type(tl.int32))
    dy_part = (dy_ptr + m * dy_stride_m + first).to(tl.pointer_type(tl.int32))
    y = tl.load(y_part + pairs, mask=mask, other=0)
    dy = tl.load(dy_part + pairs, mask=mask, other=0)
    total = tl.sum(_low(y) * _low(dy) + _high(y) * _high(dy), axis=0)
    gdc_wait()  # the words are zero from here on
    row_words = words_ptr + m * parts
    leave(row_words, part, total)
    total = sum_of_words(row_words, parts, ALL_PARTS)
    y, dy = _as_read(y), _as_read(dy)
    dx = _rounded(_low(y) * (_low(dy) - total), _high(y) * (_high(dy) - total))
    dx_part = (dx_ptr + m * dx_stride_m + first).to(tl.pointer_type(tl.int32))
    tl.store(dx_part + pairs, dx, mask=mask, cache_modifier=".cs")


def in_pairs(*tensors: torch.Tensor) -> bool:
    """Whether the rows of these tensors (M, N) can be read and written two elements at a time.

    All are bfloat16 with columns side by side, rows of an even number of elements, below 2**30, that begin at even
    elements.
    """
    return all(
        tensor.dtype == torch.bfloat16
        and tensor.stride(1) == 1
        and tensor.shape[1] % 2 == 0
        and tensor.shape[1] < 1 << 30
        and tensor.stride(0) % 2 == 0
        and tensor.data_ptr() % 4 == 0
        for tensor in tensors
    )
