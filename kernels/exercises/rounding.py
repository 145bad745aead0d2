"""Python's own numbers are float64. These round one to a smaller type, as the hardware does after each operation.

Only the standard library: `struct` writes a number as float32 or float16, rounding to nearest, ties to even, and reads
it back. The sum, difference, product, quotient or root of two float32 numbers computed in float64 and rounded once
more is what float32 arithmetic gives: 53 bits are more than twice 24 and two (Figueroa, "When is double rounding
innocuous?", 1995).
"""

import math
import struct


def _through(code: str, value: float) -> float:
    try:
        return struct.unpack(code, struct.pack(code, value))[0]
    except OverflowError:  # struct refuses what IEEE 754 rounds to an infinity
        return math.copysign(math.inf, value)


def f32(value: float) -> float:
    """`value` rounded to float32: 24 significant bits; infinite beyond about 3.4e38."""
    return _through("<f", value)


def f16(value: float) -> float:
    """`value` rounded to float16: 11 significant bits; infinite beyond 65504."""
    return _through("<e", value)


def exp32(value: float) -> float:
    """e to the power of `value`, rounded to float32: infinite above about 88.7, 0 for minus infinity, NaN for NaN."""
    try:
        return f32(math.exp(value))
    except OverflowError:
        return math.inf


def divide32(a: float, b: float) -> float:
    """a / b rounded to float32; by zero it is an infinity, and 0 / 0 is NaN, where Python would raise."""
    if b:
        return f32(a / b)
    return math.nan if a == 0 or math.isnan(a) else math.copysign(math.inf, a) * math.copysign(1.0, b)


def rsqrt32(value: float) -> float:
    """1 / sqrt(value) rounded to float32: infinite for 0, NaN for a negative number."""
    if value < 0 or math.isnan(value):
        return math.nan
    return f32(1 / math.sqrt(value)) if value else math.inf
