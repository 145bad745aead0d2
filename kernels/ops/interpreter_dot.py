"""Makes a dot product in Triton's interpreter what it is on a GPU; beside `kernels.ops.interpreter`, for products.

The interpreter of Triton 3.6 to 3.9 multiplies the bits of bfloat16 numbers as if they were whole numbers, and float32
numbers exactly where tf32 was asked for: a tolerance chosen on a laptop then fails on the GPU, whose tensor cores do
not look at the low bits of their operands.
"""

import functools

import numpy as np
import triton.language as tl

from kernels.ops.interpreter import from_bfloat16_bits


def to_tf32(values: np.ndarray) -> np.ndarray:
    """float32 values without the 13 low bits of their mantissa; infinities and NaN stay what they are."""
    bits = np.ascontiguousarray(values).view(np.uint32)
    cut = (bits & np.uint32(0xFFFFE000)).view(np.float32)
    return np.where(np.isfinite(values), cut, values)


def dot_like_a_gpu() -> None:
    """Replace the dot product in this process's interpreter. Calling it again changes nothing."""
    from triton._C.libtriton import ir
    from triton.runtime.interpreter import InterpreterBuilder, TensorHandle

    stock = InterpreterBuilder.create_dot
    if getattr(stock, "like_a_gpu", False):
        return

    @functools.wraps(stock)
    def create_dot(self, a, b, d, input_precision, max_num_imprecise_acc):
        def operand(handle):
            kind = handle.dtype.scalar
            if kind == tl.bfloat16:
                return TensorHandle(from_bfloat16_bits(handle.data), tl.float32)
            if kind == tl.float32 and input_precision == ir.INPUT_PRECISION.TF32:
                return TensorHandle(to_tf32(handle.data), tl.float32)
            return handle

        return stock(self, operand(a), operand(b), d, input_precision, max_num_imprecise_acc)

    create_dot.like_a_gpu = True
    InterpreterBuilder.create_dot = create_dot
