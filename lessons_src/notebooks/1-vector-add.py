# %% [markdown]
# # Lab 1 as a notebook: vector addition
#
# This is the bench beside [Lab 1](../../docs/labs/1-vector-add.md): the page explains, here you change things.
# Every cell runs on the CPU, where Triton's interpreter executes the kernel and every access is recorded. Read a
# cell, write down what you expect, run it.
#
# First the switch. It must be set before Triton is imported.

# %% id="setup" needs="triton"
import os

os.environ["TRITON_INTERPRET"] = "1"  # kernels run on the CPU; restart the kernel of the notebook to change it

import torch
import triton
import triton.language as tl

from kernels.lessons.show import show

print(f"Triton {triton.__version__}, interpreted")

# %% [markdown]
# ## A kernel of your own
#
# One program adds one block. Which elements are its own follows from its number, and the mask keeps the last
# program inside the vector.


# %% id="kernel" needs="triton"
@triton.jit
def my_add(x_ptr, y_ptr, out_ptr, n, BLOCK: tl.constexpr):
    offsets = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    mask = offsets < n
    x = tl.load(x_ptr + offsets, mask=mask)
    y = tl.load(y_ptr + offsets, mask=mask)
    tl.store(out_ptr + offsets, x + y, mask=mask)


def add(x, y, block=256):
    out = torch.full_like(x, float("nan"))  # what nobody writes stays visible
    my_add[(triton.cdiv(x.numel(), block),)](x, y, out, x.numel(), BLOCK=block)
    return out


N = 257
x, y = torch.arange(float(N)), torch.full((N,), 1000.0)
out = add(x, y)
print("right:", torch.equal(out, x + y))
print("the last three:", out[-3:].tolist())

# %% [markdown]
# ## Who owns what
#
# Before you run the cell, which records the launch: how many programs does a vector of this length need, and how many
# elements has the last one?

# %% id="owners" needs="triton" html="1" evidence="trace"
from kernels.figures import ownership_strip
from kernels.trace.triton import trace_triton


def record(kernel, n=N, block=256):
    x, y, out = torch.arange(float(n)), torch.ones(n), torch.full((n,), float("nan"))
    launch = lambda: kernel[(triton.cdiv(n, block),)](x, y, out, n, BLOCK=block)
    return trace_triton(launch, {"x": x, "y": y, "out": out})


show(ownership_strip(record(my_add).owners("out"), label="out", who="program"))

# %% [markdown]
# Change `N` and the block in the cell above, and run it again. If the length is a multiple of the block,
# every program is full. If it is below the block, there is one program, and it is ragged.
#
# ## Break it
#
# Take the mask off one of the loads. The result stays right, because what was read too far is never stored. The
# trace sees it all the same.


# %% id="broken" needs="triton" evidence="trace"
@triton.jit
def my_add_no_load_mask(x_ptr, y_ptr, out_ptr, n, BLOCK: tl.constexpr):
    offsets = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    mask = offsets < n
    x = tl.load(x_ptr + offsets)  # the mask is missing
    y = tl.load(y_ptr + offsets, mask=mask)
    tl.store(out_ptr + offsets, x + y, mask=mask)


faults = record(my_add_no_load_mask).faults()
for fault in faults:
    print(fault.kind, "in", fault.buffer)
print("and without a mistake:", record(my_add).faults())

# %% [markdown]
# Now try others: the mask off the store, `offsets <= n`, a grid with one program too few. Say first which verdict
# you expect.
#
# ## What it costs
#
# Nothing here is timed: an interpreter's times say nothing about a GPU. The bytes are counted by the formula, and
# the times come from the committed measurements.

# %% id="cost" needs="triton" html="1" evidence="measure"
from kernels.bench.results import records
from kernels.figures import result_table

largest = max(tuple(record.shape) for record in records("add"))
kept = [r for r in records("add") if tuple(r.shape) == largest and r.dtype == "float32" and not r.config]
show(result_table(kept))

# %% [markdown]
# ## Your turn
#
# On a machine with an NVIDIA GPU, `kernel-bench --op add` in a terminal measures your card in the same way. The
# exercise of the lab is checked there as well: `lessons check grid_stride_add`. Lab 1 has [the
# task](../../docs/labs/1-vector-add.md#exercise).
