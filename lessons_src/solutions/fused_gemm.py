"""Exercise of Workshop I3: a matrix product that finishes what it made, before it stores it.

    out = act(A @ B + bias)        act: nothing, ReLU, or GELU in its tanh approximation

    lessons check fused_gemm

The tile and its walk along K are those of Lesson 6, and stand here. You write what one step of the walk does, and what
becomes of the sums: the *epilogue*. All of it is float32, and is rounded once, where it is stored. Edit only what lies
between the marks. The check runs your kernel in Triton's interpreter, so it needs no GPU; it looks at the result, and
at every element that the kernel touched.
"""

import torch
import triton
import triton.language as tl

from kernels.ops.interpreter_dot import dot_like_a_gpu

if triton.knobs.runtime.interpret:
    dot_like_a_gpu()  # Triton's interpreter multiplies the bits of bfloat16 otherwise


@triton.jit
def _fused_tile(
    a_ptr, b_ptr, bias_ptr, out_ptr, M, N, K,
    a_stride_m, a_stride_k, b_stride_k, b_stride_n, bias_stride, out_stride_m,
    ACTIVATION: tl.constexpr, BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, BLOCK_K: tl.constexpr,
):  # fmt: skip
    program = tl.program_id(0)
    tiles_n = tl.cdiv(N, BLOCK_N)
    m = program // tiles_n * BLOCK_M + tl.arange(0, BLOCK_M)[:, None]  # a column of row numbers
    n = program % tiles_n * BLOCK_N + tl.arange(0, BLOCK_N)[None, :]  # a row of column numbers
    total = tl.zeros((BLOCK_M, BLOCK_N), tl.float32)
    for step in range(tl.cdiv(K, BLOCK_K)):
        first_k = step * BLOCK_K
        # --- fill in ---
        k = first_k + tl.arange(0, BLOCK_K)
        a_mask = (m < M) & (k[None, :] < K)
        b_mask = (k[:, None] < K) & (n < N)
        a = tl.load(a_ptr + m * a_stride_m + k[None, :] * a_stride_k, mask=a_mask, other=0.0)
        b = tl.load(b_ptr + k[:, None] * b_stride_k + n * b_stride_n, mask=b_mask, other=0.0)
        total = tl.dot(a, b, total, input_precision="ieee")
        # --- end ---
    # --- fill in ---
    bias = tl.load(bias_ptr + n * bias_stride, mask=n < N, other=0.0).to(tl.float32)
    total = total + bias
    if ACTIVATION == "relu":
        total = tl.maximum(total, 0.0)
    if ACTIVATION == "gelu":
        doubled = 1.5957691216057308 * (total + 0.044715 * total * total * total)
        total = total * tl.sigmoid(doubled)
    tl.store(out_ptr + m * out_stride_m + n, total, mask=(m < M) & (n < N))
    # --- end ---


def fused_gemm(a: torch.Tensor, b: torch.Tensor, bias: torch.Tensor, out: torch.Tensor, activation: str) -> None:
    """Writes act(a @ b + bias) to out.

    a: (M, K), b: (K, N), any strides; bias: (N,), any stride; out: (M, N), its rows may lie further apart than they
    are long. All of one dtype, float32, float16 or bfloat16; M, N, K from 0 up. activation: "none", "relu" or "gelu".
    """
    (M, K), N = a.shape, b.shape[1]
    block_m, block_n, block_k = 16, 32, 16
    # --- fill in ---
    programs = triton.cdiv(M, block_m) * triton.cdiv(N, block_n)
    if programs:
        _fused_tile[(programs,)](
            a, b, bias, out, M, N, K, *a.stride(), *b.stride(), bias.stride(0), out.stride(0),
            ACTIVATION=activation, BLOCK_M=block_m, BLOCK_N=block_n, BLOCK_K=block_k,
        )  # fmt: skip
    # --- end ---
