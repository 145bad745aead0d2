# %% [markdown]
# # Lab 2 as a notebook: row sum
#
# The bench beside [Lab 2](../../docs/labs/2-row-sum.md). A sum looks harmless. Here you change the order of its
# additions, and watch the result and the memory.

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
# ## A row in steps
#
# One program walks a row in steps of a fixed block, with one partial sum for each place of the block. At the end
# the places are added up.


# %% id="kernel" needs="triton"
@triton.jit
def my_row_sum(x_ptr, out_ptr, n_columns, stride, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    places = tl.zeros((BLOCK,), dtype=tl.float32)
    for start in range(0, n_columns, BLOCK):
        columns = start + tl.arange(0, BLOCK)
        places += tl.load(x_ptr + row * stride + columns, mask=columns < n_columns, other=0.0)
    tl.store(out_ptr + row, tl.sum(places, axis=0))


def row_sum(x, block=256):
    out = torch.full((x.shape[0],), float("nan"))
    my_row_sum[(x.shape[0],)](x, out, x.shape[1], x.stride(0), BLOCK=block)
    return out


x = torch.arange(3 * 1000.0).reshape(3, 1000)
print("ours:   ", row_sum(x).tolist())
print("PyTorch:", x.sum(dim=1).tolist())

# %% [markdown]
# ## Predict: three numbers
#
# The exact sum of these three is one. What does each order of addition give in float32? Write down three answers.

# %% id="order" needs="triton"
a, b, c = (torch.tensor(value) for value in (1e8, 1.0, -1e8))
print("(a + b) + c =", ((a + b) + c).item())
print("a + (b + c) =", (a + (b + c)).item())
print("(a + c) + b =", ((a + c) + b).item())

# %% [markdown]
# The kernel has an order, too: the block decides which elements meet first. Change the row or the blocks.

# %% id="blocks" needs="triton"
torch.manual_seed(0)
hard = torch.cat([torch.randn(1, 512) * 1e6, torch.randn(1, 512)], dim=1)
exact = hard.double().sum().item()
for block in (16, 64, 256, 1024):
    print(f"block {block:>5,}: error {abs(row_sum(hard, block).item() - exact):.4f}")

# %% [markdown]
# No block is the right one. They differ, and none of them was promised a better order.
#
# ## Who reads what
#
# Each program reads its row, and nothing else. Make the tensor a crop of a larger one, and look again: the stride
# is not the width.

# %% id="owners" needs="triton" html="1" evidence="trace"
from kernels.figures import ownership_strip
from kernels.trace.triton import trace_triton

big = torch.rand(6, 400)
crop, out = big[:, :300], torch.full((6,), float("nan"))
trace = trace_triton(
    lambda: my_row_sum[(6,)](crop, out, crop.shape[1], crop.stride(0), BLOCK=128), {"x": crop, "out": out}
)
show(ownership_strip(trace.owners("out"), label="out", who="program"))

# %% [markdown]
# ## Break it
#
# Pass the width where the stride belongs. On a contiguous tensor nothing happens. On the crop?

# %% id="wrong-stride" needs="triton"
for name, tensor in (("contiguous", crop.contiguous()), ("crop", crop)):
    wrong = torch.full((6,), float("nan"))
    my_row_sum[(6,)](tensor, wrong, tensor.shape[1], tensor.shape[1], BLOCK=128)
    rows = [index for index in range(6) if not torch.allclose(wrong[index], tensor[index].sum(), rtol=1e-5)]
    print(f"{name:<11} wrong rows: {rows}")

# %% [markdown]
# The first row is right even then. A test with a single row would have passed.
#
# ## What it costs

# %% id="cost" needs="triton" html="1" evidence="measure"
from kernels.bench.results import records
from kernels.figures import result_table

kept = [r for r in records("row_sum") if r.dtype == "float32" and not r.config]
show(result_table(kept))

# %% [markdown]
# ## Your turn
#
# Give my_row_sum two accumulators instead of one, and add them at the end. Is the error on the hard row smaller,
# larger, or merely another?
