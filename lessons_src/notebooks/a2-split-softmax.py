# %% [markdown]
# # Workshop A2 as a notebook: one row, many programs
#
# The bench beside [Workshop A2](../../docs/workshops/a2-split-softmax.md), whose exercise is checked with
# `lessons check split_softmax`. Few rows and many columns leave most of a GPU idle, if a row belongs to one
# program. So cut it. Then somebody must put the parts together, and nobody may read before all have written.

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
# ## Two launches
#
# The first leaves a maximum and a sum for each part. The second reads all pairs of its row, and writes its part
# of the result. Between two launches everything is visible: that is the barrier.


# %% id="kernels" needs="triton"
@triton.jit
def parts_kernel(x_ptr, maxima_ptr, sums_ptr, n, PARTS: tl.constexpr, BLOCK: tl.constexpr):
    row, part = tl.program_id(0), tl.program_id(1)
    columns = part * BLOCK + tl.arange(0, BLOCK)
    scores = tl.load(x_ptr + row * n + columns, mask=columns < n, other=float("-inf"))
    maximum = tl.max(scores, axis=0)
    safe = tl.where(maximum == float("-inf"), 0.0, maximum)
    tl.store(maxima_ptr + row * PARTS + part, maximum)
    tl.store(sums_ptr + row * PARTS + part, tl.sum(tl.exp(scores - safe), axis=0))


@triton.jit
def finish_kernel(x_ptr, maxima_ptr, sums_ptr, out_ptr, n, PARTS: tl.constexpr, ALL: tl.constexpr, BLOCK: tl.constexpr):
    row, part = tl.program_id(0), tl.program_id(1)
    others = tl.arange(0, ALL)
    here = others < PARTS
    maxima = tl.load(maxima_ptr + row * PARTS + others, mask=here, other=float("-inf"))
    sums = tl.load(sums_ptr + row * PARTS + others, mask=here, other=0.0)
    maximum = tl.max(maxima, axis=0)
    total = tl.sum(sums * tl.exp(maxima - maximum), axis=0)
    columns = part * BLOCK + tl.arange(0, BLOCK)
    scores = tl.load(x_ptr + row * n + columns, mask=columns < n, other=float("-inf"))
    tl.store(out_ptr + row * n + columns, tl.exp(scores - maximum) / total, mask=columns < n)


def buffers(x, block):
    parts = triton.cdiv(x.shape[1], block)
    shape = (x.shape[0], parts)
    return parts, torch.full(shape, float("nan")), torch.full(shape, float("nan")), torch.full_like(x, float("nan"))


def softmax(x, block=64):
    parts, maxima, sums, out = buffers(x, block)
    grid, all_parts = (x.shape[0], parts), triton.next_power_of_2(parts)
    parts_kernel[grid](x, maxima, sums, x.shape[1], PARTS=parts, BLOCK=block)
    finish_kernel[grid](x, maxima, sums, out, x.shape[1], PARTS=parts, ALL=all_parts, BLOCK=block)
    return out


torch.manual_seed(0)
x = torch.randn(2, 300) * 5
print("right:", torch.allclose(softmax(x), torch.softmax(x, 1), atol=1e-6))

# %% [markdown]
# ## Predict: a masked part
#
# Set the first 64 scores of a row to minus infinity: a whole part has nothing. And then the whole row. What
# should come out of each?

# %% id="masked" needs="triton"
masked = x.clone()
masked[0, :64] = float("-inf")
print("a masked part: right:", torch.allclose(softmax(masked), torch.softmax(masked, 1), atol=1e-6))
masked[1] = float("-inf")
ours, theirs = softmax(masked)[1], torch.softmax(masked, 1)[1]
print("a masked row: all NaN:", ours.isnan().all().item(), " in PyTorch:", theirs.isnan().all().item())

# %% [markdown]
# ## Who owns what

# %% id="owners" needs="triton" html="1" evidence="trace"
from kernels.figures import ownership_grid
from kernels.trace.triton import trace_triton

parts, maxima, sums, out = buffers(x, 64)


def launch():
    parts_kernel[(2, parts)](x, maxima, sums, 300, PARTS=parts, BLOCK=64)
    finish_kernel[(2, parts)](x, maxima, sums, out, 300, PARTS=parts, ALL=8, BLOCK=64)


trace = trace_triton(launch, {"x": x, "maxima": maxima, "sums": sums, "out": out})

show(ownership_grid(trace.owners("out"), label="out"))

# %% [markdown]
# ## Is it worth it?
#
# The row is read twice, and that costs. It pays where one program a row would leave the machine idle. This is how
# the operator of the project decides, for an H200:

# %% id="plans" needs="triton"
from kernels.ops.row_plan import plan_rows

SMS = 132
for rows, columns in ((8, 16384), (64, 16384), (512, 16384), (8192, 16384), (8, 1 << 20), (512, 131072)):
    plan = plan_rows(rows, columns, 4, SMS)
    programs = rows * plan.parts
    print(f"{rows:>5,} rows of {columns:<9,} {plan.path:<7} {plan.parts:>4} parts a row, {programs:>6,} programs")

# %% [markdown]
# What it is worth on the clock is in the case study on [wide rows](../../docs/guides/case-studies/wide-rows.md).

# %% [markdown]
# ## Your turn
#
# Both kernels in one launch: each program publishes its pair, waits until all pairs of its row are there, and
# goes on. What must be true of the grid, so that nobody waits for ever?
