# %% [markdown]
# # Workshop I1 as a notebook: softmax on any strides
#
# The bench beside [Workshop I1](../../docs/workshops/i1-strided-softmax.md), whose exercise is checked with
# `lessons check strided_softmax`. A column of a matrix is a row of its transpose. A kernel that takes the stride
# of a column as well as of a row needs no copy for it.

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
# ## Two strides
#
# Only the address is new. The arithmetic has not changed since [Lab 3](../../docs/labs/3-softmax.md).


# %% id="kernel" needs="triton"
@triton.jit
def my_softmax(x_ptr, out_ptr, n, row_stride, column_stride, out_row, out_column, BLOCK: tl.constexpr):
    row = tl.program_id(0).to(tl.int64)
    columns = tl.arange(0, BLOCK)
    mask = columns < n
    scores = tl.load(x_ptr + row * row_stride + columns * column_stride, mask=mask, other=float("-inf"))
    weights = tl.exp(scores - tl.max(scores, axis=0))
    weights = weights / tl.sum(weights, axis=0)
    tl.store(out_ptr + row * out_row + columns * out_column, weights, mask=mask)


def softmax(x, out=None):
    out = torch.full_like(x, float("nan")) if out is None else out
    block = triton.next_power_of_2(x.shape[1])
    my_softmax[(x.shape[0],)](x, out, x.shape[1], *x.stride(), *out.stride(), BLOCK=block)
    return out


torch.manual_seed(0)
base = torch.randn(64, 96)
views = {
    "as it is": base,
    "transposed": base.T,
    "every third column": base[:, ::3],
    "a crop": base[5:40, 7:50],
    "one row, repeated": base[:1].expand(8, 96),
    "upside down in memory": base.flip(0).T,
}
for name, view in views.items():
    out = softmax(view, torch.full(view.shape, float("nan")))
    print(f"{name:<22}{view.stride()!s:<12} right: {torch.allclose(out, torch.softmax(view, 1), atol=1e-6)}")

# %% [markdown]
# ## Predict: what a warp asks for
#
# Neighbouring threads take neighbouring columns. In the transposed view neighbouring columns are a whole row
# apart. How many 32-byte sectors does a load of 32 elements touch, as it is and transposed? Count on paper, then
# here.


# %% id="sectors" needs="triton" timeout="120"
def sectors(column_stride, lanes=32, itemsize=4):
    return len({lane * column_stride * itemsize // 32 for lane in range(lanes)})


for name, view in views.items():
    print(f"{name:<22}{sectors(view.stride(1)):>3} sectors for 32 elements")

# %% [markdown]
# ## Who owns what, in memory order
#
# This is the base tensor, coloured by the program that read each element of its transposed view.

# %% id="readers" needs="triton" html="1" evidence="trace"
from kernels.figures import ownership_grid
from kernels.trace.triton import trace_triton

small = torch.randn(8, 12)
out = torch.full((12, 8), float("nan"))
trace = trace_triton(
    lambda: my_softmax[(12,)](small.T, out, 8, *small.T.stride(), *out.stride(), BLOCK=8), {"x": small.T, "out": out}
)
show(ownership_grid(trace.owners("out"), label="out"))

# %% [markdown]
# ## Break it
#
# Forget the column stride: take it for one.

# %% id="broken" needs="triton"
for name, view in views.items():
    out = torch.full(view.shape, float("nan"))
    block = triton.next_power_of_2(view.shape[1])
    my_softmax[(view.shape[0],)](view, out, view.shape[1], view.stride(0), 1, *out.stride(), BLOCK=block)
    right = torch.allclose(out, torch.softmax(view, 1), atol=1e-6)
    print(f"{name:<22}{'right' if right else 'wrong'}")

# %% [markdown]
# Three views do not notice. A test of strides needs one whose columns are not neighbours.
#
# ## Your turn
#
# Let one program take several *neighbouring* rows of the transposed view at once. Which loads become wide by
# that?
