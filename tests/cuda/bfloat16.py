"""bfloat16 as numpy's uint16, and matrices with room between the rows."""

import numpy as np

POISON = 0x7FFF  # a NaN


def rounded(values):
    """The nearest bfloat16 of each float32, as bits."""
    bits = np.asarray(values, np.float32).view(np.uint32)
    return ((bits + 0x7FFF + (bits >> 16 & 1)) >> 16).astype(np.uint16)


def widened(bits):
    return (bits.astype(np.uint32) << 16).view(np.float32)


def padded(rng, rows, columns, stride, *, half):
    """A random matrix with 1e30 after each row, and its values in double precision."""
    whole = np.full((rows, stride), 1e30, np.float32)
    whole[:, :columns] = rng.normal(size=(rows, columns))
    kept = rounded(whole) if half else whole
    values = widened(kept) if half else whole
    return kept, values[:, :columns].astype(float)
