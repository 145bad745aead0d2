# %% [markdown]
# # Lab 5 as a notebook: GEMM
#
# The bench beside [Lab 5](../../docs/labs/5-gemm.md). Tiles of the output, a loop over K, and edges that fit no
# tile. [Lesson 6](../../docs/lessons/6-matrix-tiles.md) derives it in plain Python; here is the kernel.

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
# ## One program, one tile
#
# Three masks: rows of a beyond M, columns of b beyond N, and the last step of K. Each hides another mistake.


# %% id="kernel" needs="triton"
@triton.jit
def my_matmul(
    a_ptr, b_ptr, out_ptr, M, N, K, stride_am, stride_ak, stride_bk, stride_bn,
    MASK_K: tl.constexpr, BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, BLOCK_K: tl.constexpr,
):  # fmt: skip
    m = tl.program_id(0) * BLOCK_M + tl.arange(0, BLOCK_M)[:, None]
    n = tl.program_id(1) * BLOCK_N + tl.arange(0, BLOCK_N)[None, :]
    total = tl.zeros((BLOCK_M, BLOCK_N), dtype=tl.float32)
    for start in range(0, K, BLOCK_K):
        k = start + tl.arange(0, BLOCK_K)
        a_mask, b_mask = m < M, n < N
        if MASK_K:
            a_mask, b_mask = a_mask & (k[None, :] < K), b_mask & (k[:, None] < K)
        a = tl.load(a_ptr + m * stride_am + k[None, :] * stride_ak, mask=a_mask, other=0.0)
        b = tl.load(b_ptr + k[:, None] * stride_bk + n * stride_bn, mask=b_mask, other=0.0)
        total = tl.dot(a, b, total)
    tl.store(out_ptr + m * N + n, total, mask=(m < M) & (n < N))


def matmul(a, b, mask_k=True, block=16):
    (M, K), N = a.shape, b.shape[1]
    out = torch.full((M, N), float("nan"))
    grid = (triton.cdiv(M, block), triton.cdiv(N, block))
    strides = (*a.stride(), *b.stride())
    my_matmul[grid](a, b, out, M, N, K, *strides, MASK_K=mask_k, BLOCK_M=block, BLOCK_N=block, BLOCK_K=block)
    return out


torch.manual_seed(0)
a, b = torch.randn(40, 65), torch.randn(65, 50)
print("largest error below 1e-4:", (matmul(a, b) - a @ b).abs().max().item() < 1e-4)

# %% [markdown]
# ## Strides do the transposing
#
# The gradient with respect to a is a product with the transpose of b. Nothing is copied: a transposed view has
# other strides, and the kernel takes strides.

# %% id="transposed" needs="triton"
upstream = torch.randn(40, 50)
print("dA:", torch.allclose(matmul(upstream, b.T), upstream @ b.T, atol=1e-4), "strides of b.T:", b.T.stride())
print("dB:", torch.allclose(matmul(a.T, upstream), a.T @ upstream, atol=1e-4), "strides of a.T:", a.T.stride())

# %% [markdown]
# ## Predict, then break it
#
# K is 65, and a step takes 16. Without the mask on K the last step reads on. What does it read behind the end of
# a row of a? Behind the last row of b? Which of the outputs can still be right?

# %% id="broken" needs="triton" evidence="trace"
from kernels.trace.triton import trace_triton


def faults(mask_k):
    out = torch.full((40, 50), float("nan"))
    strides = (*a.stride(), *b.stride())
    launch = lambda: my_matmul[(3, 4)](
        a, b, out, 40, 50, 65, *strides, MASK_K=mask_k, BLOCK_M=16, BLOCK_N=16, BLOCK_K=16
    )
    return trace_triton(launch, {"a": a, "b": b, "out": out}).faults()


print("with the mask:   ", faults(True))
print("without the mask:", sorted({f"{fault.kind} in {fault.buffer}" for fault in faults(False)}))

# %% [markdown]
# ## Who owns which tile

# %% id="tiles" needs="triton" html="1" evidence="trace"
from kernels.figures import ownership_grid

out = torch.full((40, 50), float("nan"))
trace = trace_triton(
    lambda: my_matmul[(3, 4)](
        a, b, out, 40, 50, 65, *a.stride(), *b.stride(), MASK_K=True, BLOCK_M=16, BLOCK_N=16, BLOCK_K=16
    ),
    {"a": a, "b": b, "out": out},
)
show(ownership_grid(trace.owners("out"), label="out"))

# %% [markdown]
# ## How much is read twice
#
# Every row of tiles reads all of b again, and every column of tiles all of a. Larger tiles read less often. Count
# it:

# %% id="reuse" needs="triton"
M = N = K = 4096
for tile in (16, 32, 64, 128, 256):
    reads = M * N * K * (1 / tile + 1 / tile)
    print(f"tiles of {tile:>3}: {2 * M * N * K / (4 * (reads + M * N)):6.1f} operations for each byte, in float32")

# %% [markdown]
# ## Your turn
#
# Give the kernel a bias and a ReLU before the store. How many bytes did that save, against a second kernel? The
# [order of the tiles](../../docs/guides/case-studies/gemm-order.md) is a study of its own.
