"""The tiled matrix multiplication with masks that can be left out, for the page that shows what becomes of it."""

import triton
import triton.language as tl


@triton.jit
def _matmul_without(
    a_ptr, b_ptr, c_ptr, M, N, K,
    a_stride_m, a_stride_k, b_stride_k, b_stride_n, c_stride_m, c_stride_n,
    BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, BLOCK_K: tl.constexpr,
    A_MASKS_K: tl.constexpr, C_MASKS_N: tl.constexpr,
):  # fmt: skip
    program = tl.program_id(0).to(tl.int64)
    tiles_n = tl.cdiv(N, BLOCK_N)
    m = program // tiles_n * BLOCK_M + tl.arange(0, BLOCK_M)[:, None]
    n = program % tiles_n * BLOCK_N + tl.arange(0, BLOCK_N)[None, :]

    total = tl.zeros((BLOCK_M, BLOCK_N), tl.float32)
    for first_k in range(0, K, BLOCK_K):
        k = first_k + tl.arange(0, BLOCK_K)
        k_row, k_column = k[None, :], k[:, None]
        a_mask = (m < M) & (k_row < K) if A_MASKS_K else m < M
        a = tl.load(a_ptr + m * a_stride_m + k_row * a_stride_k, mask=a_mask, other=0.0)
        b = tl.load(b_ptr + k_column * b_stride_k + n * b_stride_n, mask=(k_column < K) & (n < N), other=0.0)
        total = tl.dot(a, b, total, input_precision="ieee")

    c_mask = (m < M) & (n < N) if C_MASKS_N else m < M
    tl.store(c_ptr + m * c_stride_m + n * c_stride_n, total, mask=c_mask)
