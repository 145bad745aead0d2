# %% [markdown]
# # Workshop A3 as a notebook: attention that never stores its scores
#
# The bench beside [Workshop A3](../../docs/workshops/a3-streaming-attention.md), whose exercise is checked with
# `lessons check streaming_attention`. The scores of all queries against all keys are a matrix that nobody wants.
# A program that walks over the keys needs only a maximum, a sum, and a row of the output.

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
# ## The kernel
#
# One program has a block of queries. For each block of keys it corrects what it has so far, with the rule of [Lab
# 3](../../docs/labs/3-softmax.md#wider-than-a-block).


# %% id="kernel" needs="triton"
@triton.jit
def my_attention(
    q_ptr, k_ptr, v_ptr, out_ptr, queries, keys, scale,
    CAUSAL: tl.constexpr, CORRECT: tl.constexpr, D: tl.constexpr, BLOCK: tl.constexpr,
):  # fmt: skip
    m = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    d = tl.arange(0, D)
    q = tl.load(q_ptr + m[:, None] * D + d[None, :], mask=m[:, None] < queries, other=0.0)
    maximum = tl.full((BLOCK,), float("-inf"), dtype=tl.float32)
    total = tl.zeros((BLOCK,), dtype=tl.float32)
    result = tl.zeros((BLOCK, D), dtype=tl.float32)
    for start in range(0, keys, BLOCK):
        n = start + tl.arange(0, BLOCK)
        k = tl.load(k_ptr + n[:, None] * D + d[None, :], mask=n[:, None] < keys, other=0.0)
        v = tl.load(v_ptr + n[:, None] * D + d[None, :], mask=n[:, None] < keys, other=0.0)
        visible = n[None, :] < keys
        if CAUSAL:
            visible = visible & (n[None, :] <= m[:, None])
        scores = tl.where(visible, tl.dot(q, tl.trans(k)) * scale, float("-inf"))
        larger = tl.maximum(maximum, tl.max(scores, axis=1))
        safe = tl.where(larger == float("-inf"), 0.0, larger)  # a row that has seen nothing yet
        weights = tl.exp(scores - safe[:, None])
        if CORRECT:
            kept = tl.exp(maximum - safe)
            total, result = total * kept, result * kept[:, None]
        total += tl.sum(weights, axis=1)
        result += tl.dot(weights, v)
        maximum = larger
    result = result / tl.where(total == 0.0, 1.0, total)[:, None]
    tl.store(out_ptr + m[:, None] * D + d[None, :], result, mask=m[:, None] < queries)


def attention(q, k, v, causal=False, correct=True, block=16):
    out = torch.full_like(q, float("nan"))
    grid = (triton.cdiv(q.shape[0], block),)
    my_attention[grid](
        q,
        k,
        v,
        out,
        q.shape[0],
        k.shape[0],
        q.shape[1] ** -0.5,
        CAUSAL=causal,
        CORRECT=correct,
        D=q.shape[1],
        BLOCK=block,
    )
    return out


def reference(q, k, v, causal=False):
    scores = (q.double() @ k.double().T) * q.shape[1] ** -0.5
    if causal:
        scores = scores.masked_fill(torch.ones_like(scores).triu(1).bool(), float("-inf"))
    return (torch.softmax(scores, 1) @ v.double()).float()


torch.manual_seed(0)
q, k, v = torch.randn(37, 32), torch.randn(50, 32), torch.randn(50, 32)
for causal in (False, True):
    error = (attention(q, k, v, causal) - reference(q, k, v, causal)).abs().max().item()
    print(f"causal {causal!s:<5} largest error below 1e-5: {error < 1e-5}")

# %% [markdown]
# ## Predict: without the correction
#
# Leave out the factor that brings the old sum down to the new maximum. Which queries stay right? Think of where
# the largest score of a row lies.

# %% id="broken" needs="triton"
wrong = attention(q, k, v, correct=False)
right_rows = [row for row in range(37) if torch.allclose(wrong[row], reference(q, k, v)[row], atol=1e-4)]
first_block = ((q @ k.T).argmax(1) < 16).nonzero().flatten().tolist()
print("rows that are right:", right_rows)
print("rows whose maximum lies in the first block:", first_block)

# %% [markdown]
# Those are the rows whose maximum never changed after the first block. If the largest score always comes first, a
# test sees nothing.
#
# ## What is never written

# %% id="bytes" needs="triton"
for length in (1024, 8192, 65536):
    scores, tensors = 2 * length * length, 4 * 2 * length * 128
    print(
        f"{length:>6,} positions of 128 in float16: scores {scores / 2**20:>6,.0f} MiB, "
        f"q, k, v and out {tensors / 2**20:>5.1f} MiB"
    )

# %% [markdown]
# ## Who owns what

# %% id="owners" needs="triton" html="1" evidence="trace"
from kernels.figures import ownership_grid
from kernels.trace.triton import trace_triton

out = torch.full_like(q, float("nan"))
launch = lambda: my_attention[(3,)](q, k, v, out, 37, 50, 32**-0.5, CAUSAL=True, CORRECT=True, D=32, BLOCK=16)
trace = trace_triton(launch, {"q": q, "k": k, "v": v, "out": out})
show(ownership_grid(trace.owners("out"), label="out"))

# %% [markdown]
# ## Your turn
#
# With causal masking half of the keys are never visible, and the loop walks over them all the same. End it
# earlier. Which program then has the most to do?
