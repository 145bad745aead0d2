"""The gradient of softmax for wide rows of two bytes, two elements in a register: for `kernels.ops.softmax_backward`.

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
def _unpacked(pair, HALF: tl.constexpr):
    # The two elements of a register in float32, the lower half first.
    if HALF:
        low = (pair & 65535).to(tl.int16).to(tl.float16, bitcast=True).to(tl.float32)
        high = (pair >> 16).to(tl.int16).to(tl.float16, bitcast=True).to(tl.float32)
    else:
        low, high = _low(pair), _high(pair)
    return low, high


@triton.jit
def _packed(low, high, HALF: tl.constexpr):
    # Rounded once, to the nearest.
    if HALF:
        pair = tl.inline_asm_elementwise(
            "cvt.rn.f16x2.f32 $0, $1, $2;", "=r,f,f", [high, low], dtype=tl.int32, is_pure=True, pack=1
        )
    else:
        pair = _rounded(low, high)
    return pair


@triton.jit
def _softmax_backward_pairs(
    y_ptr, dy_ptr, dx_ptr, words_ptr, N, y_stride_m, dy_stride_m, dx_stride_m, parts, ALL_PARTS: tl.constexpr,
    BLOCK_N: tl.constexpr, HALF: tl.constexpr, WHOLE: tl.constexpr,
):  # fmt: skip
    """One part of BLOCK_N columns of one row: y, dy and dx are (M, N), columns side by side, N even and every row
    beginning at an even element; words holds M * parts zeros once the launch in front has ended.

    HALF: they are float16, and bfloat16 otherwise. WHOLE: every part has BLOCK_N columns, and nothing is masked.
    The sum travels in the part's word, for which one warp looks, and dx is y * (dy - sum) in float32, rounded once.
    """
    m = (tl.program_id(0) // parts).to(tl.int64)
    part = tl.program_id(0) % parts
    first = part * BLOCK_N
    pairs = tl.arange(0, BLOCK_N // 2)
    if WHOLE:
        mask = None
        nothing: tl.constexpr = None
    else:
        mask = pairs < (N - first) // 2
        nothing: tl.constexpr = 0
    y_part = (y_ptr + m * y_stride_m + first).to(tl.pointer_type(tl.int32))
    dy_part = (dy_ptr + m * dy_stride_m + first).to(tl.pointer_type(tl.int32))
    y = tl.load(y_part + pairs, mask=mask, other=nothing)
    dy = tl.load(dy_part + pairs, mask=mask, other=nothing)
    y_low, y_high = _unpacked(y, HALF)
    dy_low, dy_high = _unpacked(dy, HALF)
    total = tl.sum(y_low * dy_low + y_high * dy_high, axis=0)
    gdc_wait()  # the words are zero from here on
    row_words = words_ptr + m * parts
    leave(row_words, part, total)
    total = sum_of_words(row_words, parts, ALL_PARTS, ONE_WARP=True)
    y_low, y_high = _unpacked(_as_read(y), HALF)
    dy_low, dy_high = _unpacked(_as_read(dy), HALF)
    dx = _packed(y_low * (dy_low - total), y_high * (dy_high - total), HALF)
    dx_part = (dx_ptr + m * dx_stride_m + first).to(tl.pointer_type(tl.int32))
    tl.store(dx_part + pairs, dx, mask=mask, cache_modifier=".cs")


def in_pairs(*tensors: torch.Tensor) -> bool:
    """Whether the rows of these tensors (M, N) can be read and written two elements at a time.

    All are of two bytes, with columns side by side, rows of an even number of elements, below 2**30, that begin at even
    elements.
    """
    return all(
        tensor.element_size() == 2
        and tensor.stride(1) == 1
        and tensor.shape[1] % 2 == 0
        and tensor.shape[1] < 1 << 30
        and tensor.stride(0) % 2 == 0
        and tensor.data_ptr() % 4 == 0
        for tensor in tensors
    )
