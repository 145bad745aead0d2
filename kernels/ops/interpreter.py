"""Makes Triton's interpreter do what a GPU does, where the two would give a learner different answers.

1. Between float32 and bfloat16. The interpreter of Triton 3.6 to 3.9 drops the low 16 bits when it stores a float32 as
   bfloat16, which doubles the rounding error of every bfloat16 kernel and turns some NaN into infinity; a GPU rounds to
   nearest, ties to even. In the other direction it changes subnormal numbers.
2. In silence. A kernel may subtract -inf from -inf and mean it, or loop up to a run-time value; a GPU says nothing, the
   interpreter prints a numpy warning that names a line of Triton.

Both are replaced in processes that interpret and import an operator, and nowhere else; numpy's own settings stay.
"""

import functools
import warnings

import numpy as np
import triton.language as tl


def to_bfloat16_bits(values: np.ndarray) -> np.ndarray:
    """float32 values as the uint16 bits of bfloat16, rounded to nearest, ties to even; NaN stays NaN."""
    bits = np.ascontiguousarray(values, dtype=np.float32).view(np.uint32).astype(np.uint64)
    rounded = (bits + 0x7FFF + ((bits >> 16) & 1)) >> 16
    quiet_nan = (bits >> 16) | 0x0040
    return np.where(np.isnan(values), quiet_nan, rounded).astype(np.uint16).reshape(np.shape(values))


def from_bfloat16_bits(bits: np.ndarray) -> np.ndarray:
    """The uint16 bits of bfloat16 as float32, exactly."""
    return (np.ascontiguousarray(bits).view(np.uint16).astype(np.uint32) << 16).view(np.float32).reshape(np.shape(bits))


def behave_like_a_gpu() -> None:
    """Replace both behaviours in this process's interpreter. Calling it again changes nothing."""
    from triton.runtime.interpreter import GridExecutor, InterpreterBuilder, TensorHandle

    stock_cast, stock_launch = InterpreterBuilder.cast_impl, GridExecutor.__call__
    if getattr(stock_cast, "like_a_gpu", False):
        return

    @functools.wraps(stock_cast)
    def cast_impl(self, src, dst_type):
        kinds = (src.dtype.scalar, dst_type.scalar)
        if kinds == (tl.float32, tl.bfloat16):
            return TensorHandle(to_bfloat16_bits(src.data), tl.bfloat16)
        if kinds == (tl.bfloat16, tl.float32):
            return TensorHandle(from_bfloat16_bits(src.data), tl.float32)
        return stock_cast(self, src, dst_type)

    @functools.wraps(stock_launch)
    def launch(self, *args, **kwargs):
        with np.errstate(all="ignore"), warnings.catch_warnings():
            warnings.filterwarnings("ignore", "All-NaN", RuntimeWarning)
            warnings.filterwarnings("ignore", "Conversion of an array with ndim > 0", DeprecationWarning)
            return stock_launch(self, *args, **kwargs)

    cast_impl.like_a_gpu = True
    InterpreterBuilder.cast_impl = cast_impl
    GridExecutor.__call__ = launch
