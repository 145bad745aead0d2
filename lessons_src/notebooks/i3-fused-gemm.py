# %% [markdown]
# # Workshop I3 as a notebook: a fused product
#
# The bench beside [Workshop I3](../../docs/workshops/i3-fused-gemm.md). A product, a bias, an activation: three
# kernels, or one. The accumulator is in float32 and in registers already. What is done there is free of memory,
# and is rounded once.

# %% id="setup" needs="triton"
import os

os.environ["TRITON_INTERPRET"] = "1"  # before Triton is imported

import torch
import triton
import triton.language as tl

from kernels.ops.interpreter import behave_like_a_gpu

behave_like_a_gpu()  # it rounds as a GPU does, and keeps numpy's warnings to itself
print(f"Triton {triton.__version__}, interpreted")

# %% [markdown]
# ## The kernel


# %% id="kernel" needs="triton"
@triton.jit
def my_linear(a_ptr, b_ptr, bias_ptr, out_ptr, M, N, K, RELU: tl.constexpr, BLOCK: tl.constexpr):
    m = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)[:, None]
    n = tl.program_id(1) * BLOCK + tl.arange(0, BLOCK)[None, :]
    total = tl.zeros((BLOCK, BLOCK), dtype=tl.float32)
    for start in range(0, K, BLOCK):
        k = start + tl.arange(0, BLOCK)
        a = tl.load(a_ptr + m * K + k[None, :], mask=(m < M) & (k[None, :] < K), other=0.0)
        b = tl.load(b_ptr + k[:, None] * N + n, mask=(k[:, None] < K) & (n < N), other=0.0)
        total = tl.dot(a, b, total)
    total += tl.load(bias_ptr + n, mask=n < N, other=0.0).to(tl.float32)
    if RELU:
        total = tl.maximum(total, 0.0)
    tl.store(out_ptr + m * N + n, total.to(out_ptr.dtype.element_ty), mask=(m < M) & (n < N))


def linear(a, b, bias, relu=True, block=16):
    (M, K), N = a.shape, b.shape[1]
    out = torch.full((M, N), float("nan"), dtype=a.dtype)
    my_linear[(triton.cdiv(M, block), triton.cdiv(N, block))](a, b, bias, out, M, N, K, RELU=relu, BLOCK=block)
    return out


torch.manual_seed(0)
a, b, bias = (torch.randn(*shape).half() for shape in ((33, 70), (70, 50), (50,)))
exact = torch.relu(a.double() @ b.double() + bias.double())
fused = (linear(a, b, bias).double() - exact).abs().max().item()
apart = torch.relu((a.float() @ b.float()).half() + bias)
print(f"rounded once:             largest error {fused:.5f}")
print(f"rounded after the product: largest error {(apart.double() - exact).abs().max().item():.5f}")

# %% [markdown]
# ## Predict: bytes
#
# How many bytes does fusing save, for 4,096 rows, columns and steps in float16? Every kernel that is saved reads
# the matrix and writes it.

# %% id="bytes" needs="triton"
M = N = K = 4096
product = 2 * (M * K + K * N + M * N)
epilogue = 2 * (2 * M * N)
for kernels_after in (0, 1, 2):
    moved = product + kernels_after * epilogue
    print(
        f"{kernels_after} kernels after the product: {moved / 1e6:6.0f} MB, "
        f"{2 * M * N * K / moved:5,.0f} operations a byte"
    )

# %% [markdown]
# The product itself does so much arithmetic that its bytes may not matter at all. Those of the epilogue's kernels
# always do.
#
# ## Break it
#
# Add the bias inside of the loop. For which K does nobody notice?

# %% id="broken" needs="triton"
block = 16
for K in (10, 16, 17, 70):
    steps = triton.cdiv(K, block)
    print(f"K = {K:>2}: the bias is added {steps} time{'s' * (steps != 1)}: {'right' if steps == 1 else 'wrong'}")

# %% [markdown]
# A test with one small K would pass. That is why the operator's own shapes have a long K among them.
#
# ## Your turn
#
# Add a residual in the epilogue, in a layout of its own. Then read [how the order of
# tiles](../../docs/guides/case-studies/gemm-order.md) changes what is in the cache.
