# %% [markdown]
# # Workshop I2 as a notebook: the backward pass
#
# The bench beside [Workshop I2](../../docs/workshops/i2-backward.md), whose exercise is checked with `lessons
# check row_gradients`. A gradient is a formula like any other. Derive it, write it, and check it against
# differences that know nothing of calculus.

# %% id="setup" needs="triton"
import os

os.environ["TRITON_INTERPRET"] = "1"  # before Triton is imported

import torch
import triton
import triton.language as tl

from kernels.lessons.show import show
from kernels.ops.interpreter import behave_like_a_gpu

behave_like_a_gpu()  # it rounds as a GPU does, and keeps numpy's warnings to itself
print(f"Triton {triton.__version__}, interpreted")

# %% [markdown]
# ## The formula
#
# With y = softmax(x) and an upstream gradient dy, each row's gradient is dx = y * (dy - sum(y * dy)). One sum a
# row, and no x: the output is enough.


# %% id="kernel" needs="triton"
@triton.jit
def my_backward(y_ptr, dy_ptr, dx_ptr, n, dy_row, dy_column, BLOCK: tl.constexpr):
    row = tl.program_id(0).to(tl.int64)
    columns = tl.arange(0, BLOCK)
    mask = columns < n
    y = tl.load(y_ptr + row * n + columns, mask=mask, other=0.0)
    dy = tl.load(dy_ptr + row * dy_row + columns * dy_column, mask=mask, other=0.0)
    total = tl.sum(y * dy, axis=0)
    tl.store(dx_ptr + row * n + columns, y * (dy - total), mask=mask)


def backward(y, dy):
    dx = torch.full_like(y, float("nan"))
    block = triton.next_power_of_2(y.shape[1])
    my_backward[(y.shape[0],)](y, dy, dx, y.shape[1], *dy.stride(), BLOCK=block)
    return dx


torch.manual_seed(0)
x = torch.randn(5, 40, dtype=torch.float64)
y, dy = torch.softmax(x, 1), torch.randn(5, 40, dtype=torch.float64)
dx = backward(y, dy)
print("each row of the gradient sums to zero:", torch.allclose(dx.sum(1), torch.zeros(5, dtype=torch.float64)))

# %% [markdown]
# ## Differences as a judge
#
# Nudge one element of x, and see how the weighted sum of the outputs changes. It is slow, and it cannot share a
# mistake with the formula.

# %% id="differences" needs="triton"
step, worst = 1e-6, 0.0
for row, column in ((0, 0), (2, 17), (4, 39)):
    nudge = torch.zeros_like(x)
    nudge[row, column] = step
    slope = ((torch.softmax(x + nudge, 1) - torch.softmax(x - nudge, 1)) * dy).sum() / (2 * step)
    worst = max(worst, abs(slope - dx[row, column]).item())
print("agrees with the differences:", worst < 1e-7)

# %% [markdown]
# ## Predict: a gradient that is one number
#
# The gradient of a sum is a single one, seen everywhere: its strides are zero. What does a kernel read that takes
# the upstream gradient for contiguous?

# %% id="expanded" needs="triton" evidence="trace"
from kernels.trace.triton import trace_triton

ones = torch.ones((), dtype=torch.float64).expand(5, 40)
print("strides:", ones.stride(), "  right:", torch.allclose(backward(y, ones), torch.zeros_like(y), atol=1e-12))


def launched(row_stride, column_stride):
    dx = torch.full_like(y, float("nan"))
    launch = lambda: my_backward[(5,)](y, ones, dx, 40, row_stride, column_stride, BLOCK=64)
    return trace_triton(launch, {"y": y, "dy": ones, "dx": dx}).faults()


print("with its strides:  ", launched(0, 0))
print("as if contiguous:  ", sorted({f"{fault.kind} in {fault.buffer}" for fault in launched(40, 1)}))

# %% [markdown]
# The element behind the first one belongs to somebody else. On a GPU it may even hold a plausible number.
#
# ## Break the formula
#
# Leave the sum out, or take the sum of dy alone. Does the check of the rows' sums catch both?

# %% id="broken" needs="triton"
wrong = {
    "no sum": y * dy,
    "sum of dy": y * (dy - dy.sum(1, keepdim=True)),
    "right": y * (dy - (y * dy).sum(1, keepdim=True)),
}
for name, candidate in wrong.items():
    zero = torch.allclose(candidate.sum(1), torch.zeros(5, dtype=torch.float64), atol=1e-9)
    print(f"{name:<10} rows sum to zero: {zero!s:<6} equals the gradient: {torch.allclose(candidate, dx)}")

# %% [markdown]
# ## What it costs

# %% id="cost" needs="triton" html="1" evidence="measure"
from kernels.bench.results import records
from kernels.figures import result_table

kept = [r for r in records("softmax_backward") if r.shape == [16384, 4096] and not r.config]
show(result_table(kept))

# %% [markdown]
# ## Your turn
#
# Write the gradient of RMSNorm in the same way. Its weight has a gradient that is a sum over *rows*, which
# different programs own. In which order do they add?
