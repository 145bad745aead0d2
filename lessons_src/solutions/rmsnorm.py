"""Exercise of Lesson 5: residual RMSNorm of float16 rows, with every intermediate in float32.

    lessons check rmsnorm

    z[i] = x[i] + residual[i]        out[i] = z[i] / sqrt(mean(z[i] * z[i]) + eps) * weight[i]

x and residual hold float16 numbers: row r of each begins at r * stride and has n of them. weight has n numbers, one a
column. The rows of out follow each other without a gap. A program owns one row and has `block` lanes, a power of two
that is at least n. `f32` and `f16` round; a result is rounded to float16 once, at the very end. Edit only what lies
between the marks.
"""

from kernels.exercises.rounding import f16, f32, rsqrt32


def load(memory, first, n, block):
    """A list of `block` lanes: lane i holds memory[first + i], and a harmless number where i is n or more."""
    # --- fill in ---
    return [memory[first + lane] if lane < n else 0.0 for lane in range(block)]
    # --- end ---


def add(x, residual):
    """z: the lanes of x plus those of the residual."""
    # --- fill in ---
    return [f32(a + b) for a, b in zip(x, residual, strict=True)]
    # --- end ---


def factor(z, n, eps):
    """What every lane of z is multiplied by: one over the root of the mean square, eps under the root."""
    # --- fill in ---
    squares = f32(sum(f32(value * value) for value in z))
    return rsqrt32(f32(f32(squares / n) + eps))
    # --- end ---


def finish(z, scale, weight):
    """The lanes of the result, from those of z and of the weight."""
    # --- fill in ---
    return [f16(f32(f32(value * scale) * w)) for value, w in zip(z, weight, strict=True)]
    # --- end ---


def rmsnorm_row(x, residual, weight, out, row, stride, n, block, eps):
    """The kernel: the program with this number owns the row with this number."""
    # --- fill in ---
    z = add(load(x, row * stride, n, block), load(residual, row * stride, n, block))
    lanes = finish(z, factor(z, n, eps), load(weight, 0, n, block))
    for lane in range(n):
        out[row * n + lane] = lanes[lane]
    # --- end ---
