"""Makes visible what Triton leaves undefined: the value of a masked load in the places that its mask switches off.

`tl.load(pointers, mask=mask)` without `other` promises nothing there. The interpreter yields zeros, so a kernel that
adds them up is right under it by luck.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np


@contextmanager
def undefined_is_nan() -> Iterator[None]:
    """While it lasts, the interpreter's loads without `other` yield NaN where they read nothing; integers stay zero.

    A mask switched the element off, or a trace found it out of bounds. Results that do not depend on such places stay
    as they are. The interpreter is left as it was.
    """
    from triton.runtime import interpreter

    builder = interpreter.InterpreterBuilder
    stock = builder.create_masked_load

    # Named like the one it replaces, and placed in the same file: a trace tells a load without a mask from the names of
    # its callers, and the line of the kernel from the first frame that is not Triton's.
    def create_masked_load(
        self: Any, ptrs: Any, mask: Any, other: Any, cache_modifier: Any, eviction_policy: Any, is_volatile: Any
    ) -> Any:
        kind = ptrs.get_element_ty()
        dtype = interpreter._get_np_dtype(kind)
        if other is None:
            nothing = _nan_bits(kind, dtype)
            other = interpreter.TensorHandle(np.full(ptrs.data.shape, nothing, dtype), kind)
        loaded = interpreter._interpreter.load(ptrs.data, mask.data, other.data, dtype)
        return interpreter.TensorHandle(loaded, kind)

    create_masked_load.__code__ = create_masked_load.__code__.replace(co_filename=stock.__code__.co_filename)
    try:
        builder.create_masked_load = create_masked_load
        yield
    finally:
        builder.create_masked_load = stock


def _nan_bits(kind: Any, dtype: Any) -> float | int:
    if np.dtype(dtype).kind == "f":
        return float("nan")
    return 0x7FC0 if kind.is_bf16() else 0  # the interpreter keeps bfloat16 as its 16 bits
