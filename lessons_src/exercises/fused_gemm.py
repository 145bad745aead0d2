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
        # Load a tile of A and a tile of B, each masked in both directions, and
        # add their product to total. tl.dot takes input_precision="ieee", so
        # that float32 stays float32.
        raise NotImplementedError("a step: load a tile of a and a tile of b, and add their product to total")
        # --- end ---
    # --- fill in ---
    # The sums are complete. Which bias belongs to which column? What comes
    # first, the bias or the activation, and where is the one rounding?
    # "none" leaves the sum as it is. "relu": what is below 0 becomes 0. "gelu":
    # x * sigmoid(2u) with u = sqrt(2 / pi) * (x + 0.044715 x^3).
    raise NotImplementedError("the epilogue: bias, activation, one masked store")
    # --- end ---


def fused_gemm(a: torch.Tensor, b: torch.Tensor, bias: torch.Tensor, out: torch.Tensor, activation: str) -> None:
    """Writes act(a @ b + bias) to out.

    a: (M, K), b: (K, N), any strides; bias: (N,), any stride; out: (M, N), its rows may lie further apart than they
    are long. All of one dtype, float32, float16 or bfloat16; M, N, K from 0 up. activation: "none", "relu" or "gelu".
    """
    (M, K), N = a.shape, b.shape[1]
    block_m, block_n, block_k = 16, 32, 16
    # --- fill in ---
    # How many programs do the tiles of out take? Where there is no tile,
    # nothing is launched.
    raise NotImplementedError("the launch: one program of _fused_tile for each tile")
    # --- end ---
