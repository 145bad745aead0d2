# %% [markdown]
# # Lab 3 as a notebook: softmax
#
# The bench beside [Lab 3](../../docs/labs/3-softmax.md). You derive nothing here; you try what the page claims,
# and break what it warns of. Every cell runs on the CPU.

# %% id="setup" needs="triton"
import os

os.environ["TRITON_INTERPRET"] = "1"  # before Triton is imported

import torch
import triton
import triton.language as tl

from kernels.lessons.show import show

print(f"Triton {triton.__version__}, interpreted")

# %% [markdown]
# ## One program a row
#
# The whole row is held at once. The places beyond it are filled with minus infinity, whose exponential is zero.


# %% id="kernel" needs="triton"
@triton.jit
def my_softmax(x_ptr, out_ptr, n_columns, stride, PADDING: tl.constexpr, SHIFT: tl.constexpr, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    columns = tl.arange(0, BLOCK)
    mask = columns < n_columns
    scores = tl.load(x_ptr + row * stride + columns, mask=mask, other=PADDING)
    if SHIFT:
        scores = scores - tl.max(scores, axis=0)
    weights = tl.exp(scores)
    weights = weights / tl.sum(weights, axis=0)
    tl.store(out_ptr + row * stride + columns, weights, mask=mask)


def softmax(x, padding=float("-inf"), shift=True):
    rows, columns = x.shape
    out = torch.full_like(x, float("nan"))
    block = triton.next_power_of_2(columns)
    my_softmax[(rows,)](x, out, columns, x.stride(0), PADDING=padding, SHIFT=shift, BLOCK=block)
    return out


torch.manual_seed(0)
scores = torch.randn(3, 33) + torch.tensor([[-100.0], [0.0], [100.0]])
exact = torch.softmax(scores.double(), dim=1)
print("sums of the rows:", [round(value, 5) for value in softmax(scores).sum(dim=1).tolist()])
print("largest error is below 1e-5:", (softmax(scores).double() - exact).abs().max().item() < 1e-5)

# %% [markdown]
# ## Predict, then break it
#
# Two mistakes, three rows: near minus a hundred, near zero, near plus a hundred. Which rows does each mistake
# spoil? Write down your six answers.

# %% id="mistakes" needs="triton"
import numpy as np

for name, arguments in {"padding with zero": {"padding": 0.0}, "no maximum taken off": {"shift": False}}.items():
    with np.errstate(all="ignore"):  # the interpreter computes with NumPy, which would warn of what we ask for
        got = softmax(scores, **arguments)
    print(name)
    for near, row, wanted in zip((-100, 0, 100), got.double(), exact):
        right = torch.allclose(row, wanted, rtol=1e-4, atol=0)
        print(f"  row near {near:>4}: {'right' if right else 'wrong'}, sums to {row.sum().item():.4f}")

# %% [markdown]
# Each mistake is invisible on some of the rows. A test with scores near zero alone finds at most one of them.
#
# ## Who touches what
#
# The operator of the project decides between several plans by the shape of the input. This is the record of a
# launch. Change the shape: narrow rows share a program, wide ones are cut.

# %% id="owners" needs="triton" html="1" evidence="trace"
from kernels.figures import ownership_grid
from kernels.ops.softmax import softmax as ours
from kernels.trace.triton import trace_triton

ROWS, COLUMNS = 10, 300
x = torch.randn(ROWS, COLUMNS)
trace = trace_triton(lambda: ours(x), {"x": x})
show(ownership_grid(trace.owners("out"), label="out"))

# %% [markdown]
# ## The plan
#
# What does the operator choose for a shape, on a GPU with as many multiprocessors as an H200? The plan says it, and
# for some rows that it cuts there is a kernel that reads ahead, with parts of its own. Add shapes of your own.

# %% id="plans" needs="triton"
from kernels.ops.row_plan import plan_rows
from kernels.ops.softmax_ahead import tile_ahead

SMS = 132
for rows, columns in ((131072, 128), (16384, 4096), (4096, 32768), (32, 1 << 20)):
    plan, meta = plan_rows(rows, columns, 4, SMS), torch.empty(rows, columns, device="meta")
    ahead = tile_ahead(meta, meta, SMS) if plan.path == "joint" and plan.block_m == 1 else None
    print(f"{rows:,} x {columns:,}")
    if ahead:
        parts, _, options = ahead
        tile, warps = options["BLOCK_N"], options["num_warps"]
        print(f"  reads ahead: {parts} parts of {tile:,}, {warps} warps")
    else:
        tile = f"{plan.block_m} x {plan.block_n:,}"
        print(f"  {plan.path}: tiles of {tile}, {plan.num_warps} warps")

# %% [markdown]
# ## What it costs
#
# From the committed measurements, with the implementations that a reader might use instead.

# %% id="cost" needs="triton" html="1" evidence="measure"
from kernels.bench.results import records
from kernels.figures import result_table

SHAPE = (16384, 4096)
kept = [r for r in records("softmax") if tuple(r.shape) == SHAPE and r.dtype == "float32" and not r.config]
show(result_table(kept))

# %% [markdown]
# ## Your turn
#
# Rewrite `my_softmax` so that it walks a row in steps of a fixed block and keeps a running maximum and sum. The
# rule that joins two such pairs is in [Lab 3](../../docs/labs/3-softmax.md#wider-than-a-block). The exercise of
# the lab is checked in a terminal: `lessons check log_softmax`.
