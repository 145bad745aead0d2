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
    # A lane past the end must not touch the memory. What may it hold so that a sum of squares does not change?
    raise NotImplementedError("return the lanes")
    # --- end ---


def add(x, residual):
    """z: the lanes of x plus those of the residual."""
    # --- fill in ---
    # Which type is the sum rounded to?
    raise NotImplementedError("return x plus the residual, lane by lane")
    # --- end ---


def factor(z, n, eps):
    """What every lane of z is multiplied by: one over the root of the mean square, eps under the root."""
    # --- fill in ---
    # A mean divides by how many numbers there are, and a lane of padding is none. rsqrt32 is 1 / sqrt in float32.
    raise NotImplementedError("return the one number that scales the row")
    # --- end ---


def finish(z, scale, weight):
    """The lanes of the result, from those of z and of the weight."""
    # --- fill in ---
    # Two products, and the only rounding to float16.
    raise NotImplementedError("return the lanes of the result")
    # --- end ---


def rmsnorm_row(x, residual, weight, out, row, stride, n, block, eps):
    """The kernel: the program with this number owns the row with this number."""
    # --- fill in ---
    # Load x, the residual and the weight; compute; write the row's n results. Where does each of the three begin?
    raise NotImplementedError("load, add, scale and store one row")
    # --- end ---
