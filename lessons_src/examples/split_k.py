"""A long sum cut into slices that meet in atomic additions: the usual split-K, and never twice the same.

    python lessons_src/examples/split_k.py [--k 4096] [--slices 8]

Each program computes one tile of one slice, and adds it to the output where it lies. Nobody waits for anybody, so the
slices arrive in whatever order the GPU finishes them, and float32 sums depend on their order. `kernels.ops.matmul` cuts
the same sum, writes the slices side by side, and adds them up in a fixed order.

With an NVIDIA GPU the kernel is compiled and run there twenty times. Without one, or with TRITON_INTERPRET=1, Triton's
interpreter runs the programs one after the other, so the order is always the same; there the programs are numbered from
another start each time, which is one of the orders that a GPU may choose.
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
from kernels.ops.matmul import inputs, launch_matmul

if triton.knobs.runtime.interpret:
    behave_like_a_gpu()
    dot_like_a_gpu()


@triton.jit
def _add_to_output(
    a_ptr, b_ptr, out_ptr, M, N, K, a_stride_m, a_stride_k, b_stride_k, b_stride_n, slice_k, start,
    SLICES: tl.constexpr, BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, BLOCK_K: tl.constexpr,
):  # fmt: skip
    tiles_m, tiles_n = tl.cdiv(M, BLOCK_M), tl.cdiv(N, BLOCK_N)
    program = (tl.program_id(0) + start) % (tiles_m * tiles_n * SLICES)
    tile, part = program // SLICES, program % SLICES
    m = (tile // tiles_n).to(tl.int64) * BLOCK_M + tl.arange(0, BLOCK_M)[:, None]
    n = (tile % tiles_n).to(tl.int64) * BLOCK_N + tl.arange(0, BLOCK_N)[None, :]
    total = tl.zeros((BLOCK_M, BLOCK_N), tl.float32)
    last = tl.minimum((part + 1) * slice_k, K)
    for first_k in range(part * slice_k, last, BLOCK_K):
        k = first_k + tl.arange(0, BLOCK_K)
        k_row, k_column = k[None, :].to(tl.int64), k[:, None].to(tl.int64)
        a = tl.load(a_ptr + m * a_stride_m + k_row * a_stride_k, mask=(m < M) & (k_row < last), other=0.0)
        b = tl.load(b_ptr + k_column * b_stride_k + n * b_stride_n, mask=(k_column < last) & (n < N), other=0.0)
        total = tl.dot(a, b, total, input_precision="ieee")
    # Whoever comes first adds first. "relaxed": the additions of one element are in some order, and no more is asked.
    tl.atomic_add(out_ptr + m * N + n, total, mask=(m < M) & (n < N), sem="relaxed")


def by_atomics(
    a: torch.Tensor, b: torch.Tensor, slices: int, start: int = 0, tile: tuple[int, int, int] | None = None
) -> torch.Tensor:
    """a @ b in the dtype of a, with k in `slices` slices that are added up in the order in which they come.

    Args:
        a, b: M × K and K × N, any strides, one dtype.
        start: the program that begins. It moves nothing else than the order.
        tile: BLOCK_M, BLOCK_N, BLOCK_K; left out, small ones where Triton interprets and large ones on a GPU.
    """
    (M, K), N = a.shape, b.shape[1]
    block_m, block_n, block_k = tile or ((16, 16, 16) if triton.knobs.runtime.interpret else (128, 128, 64))
    out = torch.zeros((M, N), dtype=torch.float32, device=a.device)  # atomic additions need a start
    slice_k = triton.cdiv(triton.cdiv(K, block_k), slices) * block_k
    programs = triton.cdiv(M, block_m) * triton.cdiv(N, block_n) * slices
    _add_to_output[(programs,)](
        a, b, out, M, N, K, *a.stride(), *b.stride(), slice_k, start, SLICES=slices, BLOCK_M=block_m, BLOCK_N=block_n,
        BLOCK_K=block_k, num_warps=4 if block_m < 128 else 8,
    )  # fmt: skip
    return out.to(a.dtype)


def in_order(a: torch.Tensor, b: torch.Tensor, slices: int) -> torch.Tensor:
    """The same slices by `kernels.ops.matmul`: written side by side, then added up in their order."""
    out = torch.empty((a.shape[0], b.shape[1]), dtype=a.dtype, device=a.device)
    return launch_matmul(a, b, out, splits=slices)


def different(results: list[torch.Tensor]) -> int:
    """How many of several results are different, bit for bit."""
    found: list[torch.Tensor] = []
    for each in results:
        if not any(torch.equal(each, other) for other in found):
            found.append(each)
    return len(found)


def main(k: int = 4096, slices: int = 8) -> None:
    interpreted = triton.knobs.runtime.interpret
    device, runs, size = ("cpu", 4, 16) if interpreted else ("cuda", 20, 1024)
    print("runs on", "the CPU, in Triton's interpreter" if interpreted else torch.cuda.get_device_name())
    a, b = inputs((size, size, k), "float32", device, seed=0, padding=0)
    starts = range(runs) if interpreted else [0] * runs
    print(f"{size} × {size}, k = {k:,} in {slices} slices, {runs} runs on the same tensors")
    print("different results by atomic additions:", different([by_atomics(a, b, slices, start) for start in starts]))
    print("different results by slices in order: ", different([in_order(a, b, slices) for _ in starts]))


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description="Cut a long sum into slices, and run it several times.")
    parser.add_argument("--k", type=int, default=4096, help="products a sum, at least 1 (default 4096)")
    parser.add_argument("--slices", type=int, default=8, help="slices, from 1 to 64 (default 8)")
    options = parser.parse_args()
    if options.k < 1 or not 1 <= options.slices <= 64:
        parser.error(f"--k {options.k} --slices {options.slices}: k is at least 1, and slices from 1 to 64.")
    main(options.k, options.slices)
