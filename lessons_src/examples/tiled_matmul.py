"""A small matrix multiplication in Triton: every program owns one tile of C and walks along K.

    python lessons_src/examples/tiled_matmul.py [--m 127] [--n 255] [--k 65]

With an NVIDIA GPU the kernel is compiled and runs there. Without one, or with TRITON_INTERPRET=1, Triton's interpreter
runs it on the CPU: slowly, and with the same result. It is written to be read, not to be fast.
"""

import argparse
import importlib.util
import os

if importlib.util.find_spec("torch") is None or importlib.util.find_spec("triton") is None:
    raise SystemExit("This program needs torch and triton: run `make install` in the project's folder first.")

import torch

if __name__ == "__main__" and not torch.cuda.is_available():  # who imports this file chooses for itself
    os.environ.setdefault("TRITON_INTERPRET", "1")  # Triton reads it when it is imported, so this comes first

import triton
import triton.language as tl

from kernels.ops.interpreter import behave_like_a_gpu
from kernels.ops.interpreter_dot import dot_like_a_gpu

if triton.knobs.runtime.interpret:
    behave_like_a_gpu()  # bfloat16 rounds as on a GPU, and no warnings about lines of Triton
    dot_like_a_gpu()  # tl.dot multiplies bfloat16 as numbers; the interpreter takes their bits


@triton.jit
def _matmul_tile(
    a_ptr, b_ptr, c_ptr, M, N, K,
    a_stride_m, a_stride_k, b_stride_k, b_stride_n, c_stride_m, c_stride_n,
    BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, BLOCK_K: tl.constexpr,
):  # fmt: skip
    # Programs are numbered as one reads: along a row of tiles first.
    program = tl.program_id(0).to(tl.int64)  # m * a_stride_m can pass 2**31
    tiles_n = tl.cdiv(N, BLOCK_N)
    m = program // tiles_n * BLOCK_M + tl.arange(0, BLOCK_M)[:, None]  # a column of row numbers
    n = program % tiles_n * BLOCK_N + tl.arange(0, BLOCK_N)[None, :]  # a row of column numbers

    total = tl.zeros((BLOCK_M, BLOCK_N), tl.float32)
    for first_k in range(0, K, BLOCK_K):
        k = first_k + tl.arange(0, BLOCK_K)
        k_row, k_column = k[None, :], k[:, None]
        a = tl.load(a_ptr + m * a_stride_m + k_row * a_stride_k, mask=(m < M) & (k_row < K), other=0.0)
        b = tl.load(b_ptr + k_column * b_stride_k + n * b_stride_n, mask=(k_column < K) & (n < N), other=0.0)
        total = tl.dot(a, b, total, input_precision="ieee")  # float32 stays float32; nothing else is changed by it

    c = total.to(c_ptr.dtype.element_ty)  # the only rounding
    tl.store(c_ptr + m * c_stride_m + n * c_stride_n, c, mask=(m < M) & (n < N))


def matmul_tiles(a: torch.Tensor, b: torch.Tensor, tile: tuple[int, int, int] = (32, 32, 32)) -> torch.Tensor:
    """a @ b, summed in float32 and rounded once to the dtype of a.

    Args:
        a: M × K, any strides, float32, float16 or bfloat16.
        b: K × N, any strides, dtype and device of a.
        tile: BLOCK_M, BLOCK_N, BLOCK_K; powers of two, at least 16.

    Raises:
        ValueError: the shapes do not fit together, or the dtypes differ.
    """
    if a.ndim != 2 or b.ndim != 2 or a.shape[1] != b.shape[0] or a.dtype != b.dtype:
        raise ValueError(
            f"a is {tuple(a.shape)} of {a.dtype} and b is {tuple(b.shape)} of {b.dtype}; "
            "M × K and K × N of one dtype are multiplied here."
        )
    (M, K), N = a.shape, b.shape[1]
    c = torch.full((M, N), float("nan"), dtype=a.dtype, device=a.device)  # what nobody writes stays NaN
    block_m, block_n, block_k = tile
    programs = triton.cdiv(M, block_m) * triton.cdiv(N, block_n)
    if programs:
        strides = (*a.stride(), *b.stride(), *c.stride())
        _matmul_tile[(programs,)](a, b, c, M, N, K, *strides, BLOCK_M=block_m, BLOCK_N=block_n, BLOCK_K=block_k)
    return c


def main(m: int = 127, n: int = 255, k: int = 65) -> None:
    """Multiply two random matrices in both orders of memory and compare with float64."""
    interpreted = triton.knobs.runtime.interpret
    device = "cpu" if interpreted else "cuda"
    print("runs on", "the CPU, in Triton's interpreter" if interpreted else torch.cuda.get_device_name())

    generator = torch.Generator(device).manual_seed(6)
    a = torch.randn(m, k, generator=generator, device=device)
    b = torch.randn(k, n, generator=generator, device=device)
    turned = b.t().contiguous().t()  # the same matrix, stored column after column
    exact = a.double() @ b.double()
    allowed = 2.0**-24 * (k + 2) * (a.double().abs() @ b.double().abs())  # k products and k - 1 sums, each rounded
    for words, right in (("B stored by rows", b), ("B stored by columns", turned)):
        error = (matmul_tiles(a, right).double() - exact).abs()
        print(f"{words}, strides {right.stride()}: within the error bound:", bool((error <= allowed).all()))


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description="Multiply two matrices with Triton, tile by tile.")
    for name, size, words in (("m", 127, "rows of A"), ("n", 255, "columns of B"), ("k", 65, "columns of A")):
        parser.add_argument(f"--{name}", type=int, default=size, help=f"{words}, at least 1 (default {size})")
    options = parser.parse_args()
    sizes = (options.m, options.n, options.k)
    if min(sizes) < 1:
        parser.error(f"sizes must be at least 1; these are {sizes}")
    main(*sizes)
