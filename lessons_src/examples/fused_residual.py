"""A fused product with a residual: Workshop I3's second exercise, one answer to it.

    out = act(A @ B + bias) + residual        act: nothing or GELU in its tanh approximation

The residual is one more tile, loaded where the tile of out will be stored. It joins after the activation and before
the one rounding. Each element of it is read by the program that writes that place of out, and before it does; so out
may be the residual itself.
"""

import torch
import triton
import triton.language as tl

from kernels.ops.interpreter_dot import dot_like_a_gpu

if triton.knobs.runtime.interpret:
    dot_like_a_gpu()  # Triton's interpreter multiplies the bits of bfloat16 otherwise


@triton.jit
def _fused_tile_and_residual(
    a_ptr, b_ptr, bias_ptr, residual_ptr, out_ptr, M, N, K, a_stride_m, a_stride_k, b_stride_k, b_stride_n,
    bias_stride, residual_stride_m, residual_stride_n, out_stride_m,
    ACTIVATION: tl.constexpr, BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, BLOCK_K: tl.constexpr,
):  # fmt: skip
    program = tl.program_id(0)
    tiles_n = tl.cdiv(N, BLOCK_N)
    m = program // tiles_n * BLOCK_M + tl.arange(0, BLOCK_M)[:, None]
    n = program % tiles_n * BLOCK_N + tl.arange(0, BLOCK_N)[None, :]
    total = tl.zeros((BLOCK_M, BLOCK_N), tl.float32)
    for step in range(tl.cdiv(K, BLOCK_K)):
        k = step * BLOCK_K + tl.arange(0, BLOCK_K)
        a_mask = (m < M) & (k[None, :] < K)
        b_mask = (k[:, None] < K) & (n < N)
        a = tl.load(a_ptr + m * a_stride_m + k[None, :] * a_stride_k, mask=a_mask, other=0.0)
        b = tl.load(b_ptr + k[:, None] * b_stride_k + n * b_stride_n, mask=b_mask, other=0.0)
        total = tl.dot(a, b, total, input_precision="ieee")
    inside = (m < M) & (n < N)
    total += tl.load(bias_ptr + n * bias_stride, mask=n < N, other=0.0).to(tl.float32)
    if ACTIVATION == "gelu":
        total *= tl.sigmoid(1.5957691216057308 * (total + 0.044715 * total * total * total))
    residual_at = residual_ptr + m * residual_stride_m + n * residual_stride_n
    total += tl.load(residual_at, mask=inside, other=0.0).to(tl.float32)
    tl.store(out_ptr + m * out_stride_m + n, total, mask=inside)


def fused_residual(
    a: torch.Tensor,
    b: torch.Tensor,
    bias: torch.Tensor,
    residual: torch.Tensor,
    out: torch.Tensor,
    activation: str = "gelu",
) -> None:
    """Writes act(a @ b + bias) + residual to out.

    a: (M, K), b: (K, N), residual: (M, N), any strides; bias: (N,), any stride; out: (M, N), its rows may lie further
    apart than they are long. All of one dtype, float32, float16 or bfloat16. activation: "none" or "gelu". out may be
    the residual itself, and must overlap no other.
    """
    (M, K), N = a.shape, b.shape[1]
    tile = {"BLOCK_M": 16, "BLOCK_N": 32, "BLOCK_K": 16}
    programs = triton.cdiv(M, tile["BLOCK_M"]) * triton.cdiv(N, tile["BLOCK_N"])
    if programs:
        steps = (*a.stride(), *b.stride(), bias.stride(0), *residual.stride(), out.stride(0))
        _fused_tile_and_residual[(programs,)](a, b, bias, residual, out, M, N, K, *steps, ACTIVATION=activation, **tile)
