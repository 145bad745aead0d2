# %% [markdown]
# # Lab 4 as a notebook: residual RMSNorm
#
# The bench beside [Lab 4](../../docs/labs/4-residual-rmsnorm.md). Two tensors are added, the sum is normalised
# and scaled. Which intermediate has which dtype decides what comes out.

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
# ## Two contracts
#
# The kernel below can keep the sum of x and residual in float32, or round it to the tensors' dtype first. Both
# are in use. They are not the same function.


# %% id="kernel" needs="triton"
@triton.jit
def my_rmsnorm(x_ptr, residual_ptr, weight_ptr, out_ptr, n, eps, ROUND: tl.constexpr, BLOCK: tl.constexpr):
    row = tl.program_id(0) * n
    columns = tl.arange(0, BLOCK)
    mask = columns < n
    x = tl.load(x_ptr + row + columns, mask=mask, other=0.0)
    residual = tl.load(residual_ptr + row + columns, mask=mask, other=0.0)
    total = x.to(tl.float32) + residual.to(tl.float32)
    if ROUND:
        total = total.to(x_ptr.dtype.element_ty).to(tl.float32)
    root = tl.rsqrt(tl.sum(total * total, axis=0) / n + eps)
    weight = tl.load(weight_ptr + columns, mask=mask, other=0.0).to(tl.float32)
    tl.store(out_ptr + row + columns, (total * root * weight).to(out_ptr.dtype.element_ty), mask=mask)


def rmsnorm(x, residual, weight, eps=1e-6, rounded=False):
    out = torch.full_like(x, float("nan"))
    block = triton.next_power_of_2(x.shape[1])
    my_rmsnorm[(x.shape[0],)](x, residual, weight, out, x.shape[1], eps, ROUND=rounded, BLOCK=block)
    return out


torch.manual_seed(0)
x, residual = torch.randn(4, 200).half(), (torch.randn(4, 200) * 8).half()
weight = torch.ones(200).half()
exact = x.double() + residual.double()
exact = exact / (exact.pow(2).mean(dim=1, keepdim=True) + 1e-6).sqrt()
for rounded in (False, True):
    error = (rmsnorm(x, residual, weight, rounded=rounded).double() - exact).abs().max().item()
    print(f"sum {'rounded to float16' if rounded else 'kept in float32   '}: largest error {error:.5f}")

# %% [markdown]
# ## Predict
#
# A row of zeros: what comes out? And with eps outside of the root, or with eps zero?

# %% id="zeros" needs="triton"
zeros = torch.zeros(1, 200).half()
for eps in (1e-6, 0.0):
    out = rmsnorm(zeros, zeros, weight, eps=eps)
    print(f"eps {eps:g}: {'NaN' if out.isnan().any() else out.abs().max().item()}")

# %% [markdown]
# Zero times the reciprocal of zero is no number. The epsilon is there for this one row.
#
# ## It is not LayerNorm
#
# Add a constant to every element. LayerNorm would not notice. Here?

# %% id="shift" needs="triton"
shifted = rmsnorm(x + 4, residual, weight)
print("largest change:", round((shifted - rmsnorm(x, residual, weight)).abs().max().item(), 2))
normal = torch.nn.functional.layer_norm
same = normal((x + 4).float() + residual.float(), (200,)) - normal(x.float() + residual.float(), (200,))
print("of LayerNorm:  ", round(same.abs().max().item(), 2))

# %% [markdown]
# ## Who owns what

# %% id="owners" needs="triton" html="1" evidence="trace"
from kernels.figures import ownership_grid
from kernels.ops.rmsnorm import add_rmsnorm
from kernels.trace.triton import trace_triton

trace = trace_triton(lambda: add_rmsnorm(x, residual, weight), {"x": x, "residual": residual, "weight": weight})
show(ownership_grid(trace.owners("out"), label="out"))

# %% [markdown]
# ## What it costs

# %% id="cost" needs="triton" html="1" evidence="measure"
from kernels.bench.results import records
from kernels.figures import result_table

kept = [r for r in records("rmsnorm") if r.shape == [16384, 4096] and not r.config]
show(result_table(kept))

# %% [markdown]
# ## Your turn
#
# Write the total to memory as well, as a model needs it for the next layer. How many more bytes move, and which
# of the two contracts must the stored total follow?
