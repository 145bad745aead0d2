"""The kernel paths of cuda/*.cu: one for each kernel, on several shapes: whole, ragged, a single element, a long sum.

Where a fault is planted in a tensor, it is the first one of a launch, and its last element must be read: the shapes
here are made so that it is.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

from kernels.bench.sanitizer.paths import KernelPath

MATRICES = ((96, 80, 64), (67, 45, 33), (1, 1, 1), (3, 5, 1000))  # M, N, K
HOPPER_MATRICES = ((128, 256, 64), (264, 520, 200), (1, 8, 8), (72, 8, 1000))  # a row is a multiple of 16 bytes
LENGTHS = (1000, 256, 33, 1)


def _path(op: str, kernel: str, dtype: str, source: str, make: Callable, call: Callable) -> KernelPath:
    return KernelPath(op, kernel, dtype, make, call, source, cuda=kernel)


def _functions() -> Iterator[KernelPath]:
    """The twins in the operators' records, and the four access patterns."""
    import kernels.cuda
    from kernels.cuda import histogram, patterns
    from kernels.ops import add, softmax
    from kernels.ops import histogram as counted

    def path(module: Any, name: str, file: str, make: Callable) -> KernelPath:
        dtype = "int32" if module is histogram else "float32"
        return _path("CUDA", name, dtype, f"cuda/{file}:{name}", make, lambda *t: getattr(module, name)(*t))

    yield path(kernels.cuda, "vector_add", "kernels.cu", lambda: add.inputs((1025,), "float32", "cpu", 0, padding=0))
    for name in ("softmax_serial", "softmax_parallel", "softmax_online", "softmax_online_scalar"):
        yield path(kernels.cuda, name, "kernels.cu", lambda: softmax.inputs((5, 1028), "float32", "cpu", 0, padding=0))
    for name in ("histogram_plain", "histogram_shared", "histogram_replicated"):
        yield path(histogram, name, "histogram.cu", lambda: counted.inputs((5001,), "int32", "cpu", 0, padding=0))
    for name in ("copy_rows", "copy_columns", "transpose_tile_32", "transpose_tile_33"):
        yield path(patterns, name, "patterns.cu", lambda: add.inputs((45, 67), "float32", "cpu", 0, padding=0)[:1])


def _pairs(function: Callable, size: int = 2) -> Callable:
    """The function on each `size` tensors of a row of them."""
    return lambda *tensors: [function(*tensors[i : i + size]) for i in range(0, len(tensors), size)]


def _randn(*shape: int, dtype: str = "float32") -> Any:
    import torch

    return torch.randn(shape, generator=torch.Generator().manual_seed(sum(shape))).to(getattr(torch, dtype))


def _ladder() -> Iterator[KernelPath]:
    """The rungs of the matrix product, and the patterns that are measured beside them."""
    from kernels.bench.ladder import launchers
    from kernels.cuda import dequantize, fused, grid_sum, matmul

    at = launchers()
    for name in matmul.RUNGS:
        dtype = "float32" if name in matmul.FLOAT32_RUNGS else "bfloat16"
        shapes = HOPPER_MATRICES if name in matmul.HOPPER_RUNGS else MATRICES

        def matrices(shapes=shapes, dtype=dtype):
            return tuple(_randn(*s, dtype=dtype) for M, N, K in shapes for s in ((M, K), (K, N)))

        yield _path("CUDA ladder", name, dtype, at[name], matrices, _pairs(getattr(matmul, name)))

    for form, ragged in (("", ((7, 67), (1, 1))), ("_float4", ((7, 68), (1, 4)))):

        def rows(ragged=ragged):
            return tuple(_randn(*s) for r, c in ((33, 64), *ragged) for s in ((r, c), (c,)))

        scaled, gelu = f"fused_bias_relu_scale{form}", f"fused_bias_gelu{form}"
        call = _pairs(lambda x, bias, name=scaled: getattr(fused, name)(x, bias, 0.5))
        yield _path("CUDA ladder", scaled, "float32", at[scaled], rows, call)
        yield _path("CUDA ladder", gelu, "float32", at[gelu], rows, _pairs(getattr(fused, gelu)))

    def numbers():
        import torch

        return tuple(
            t for n, k in ((40, 64), (3, 1040)) for t in (torch.ones((n, k), dtype=torch.int8), _randn(n))
        )  # fmt: skip

    def product():
        quantized = numbers()
        both = ((5, quantized[:2]), (1, quantized[2:]))
        return tuple(t for m, (q, scale) in both for t in (_randn(m, q.shape[1], dtype="bfloat16"), q, scale))

    yield _path("CUDA ladder", "dequantize", "bfloat16", at["dequantize"], numbers, _pairs(dequantize.dequantize))
    call = _pairs(dequantize.dequantize_matmul, 3)
    yield _path("CUDA ladder", "dequantize_matmul", "bfloat16", at["dequantize_matmul"], product, call)
    for way, kernel in (
        ("grid_sum_two_launches", "sum_partials"),
        ("grid_sum_last_block", "grid_sum_last_block"),
        ("grid_sum_cooperative", "grid_sum_cooperative"),
    ):
        call = _pairs(lambda x, way=way: getattr(grid_sum, way)(x, 3), 1)
        yield _path("CUDA ladder", kernel, "float32", at[way], _lengths, call)


def _lengths() -> tuple[Any, ...]:
    return tuple(_randn(n) for n in LENGTHS)


def _essentials() -> Iterator[KernelPath]:
    """The demonstrations and probes of the Essentials."""
    from kernels.cuda import essentials

    def path(kernel: str, file: str, make: Callable, call: Callable, launcher: str = "", size: int = 1) -> KernelPath:
        source = f"cuda/{file}.cu:launch_{launcher or kernel}"
        return _path("CUDA essentials", kernel, "float32", source, make, _pairs(call, size))

    def strided(x):
        return [essentials.copy_strided(x, -(-x.numel() // step), step, (x.numel() - 1) % step) for step in (1, 7)]

    yield path("copy_strided", "strided", _lengths, strided)
    yield path("copy_float4", "strided", _lengths, essentials.copy_float4)
    for kernel in ("transpose_direct", "transpose_swizzled"):
        shapes = ((64, 96), (33, 65), (1, 1))
        yield path(
            kernel, "transposes", lambda s=shapes: tuple(_randn(*x) for x in s), getattr(essentials, kernel)
        )  # fmt: skip
    words = essentials.WALK_WORDS
    yield path("shared_walk", "transposes", lambda: (_randn(words),), lambda x: essentials.shared_walk(x, 2, 32, 5))
    for way in ("shuffle", "shared", "atomic"):
        call = lambda x, way=way: essentials.block_sums(x, way, 2)  # noqa: E731
        yield path(f"block_sums_{way}", "reductions", _lengths, call)
    yield path("warp_exchanges", "reductions", _lengths, lambda x: essentials.warp_exchanges(x, 16))

    def kinds():
        import torch

        return tuple(t for x in _lengths() for t in (x, torch.arange(x.numel(), dtype=torch.int32) % 2))

    yield path("two_paths", "divergence", kinds, lambda x, kind: essentials.two_paths(x, kind, 3), size=2)
    for kernel, loads in (("copy_resident", 1), ("copy_resident_4", 4)):
        call = lambda x, loads=loads: essentials.copy_resident(x, 2, 64, 60_000, loads)  # noqa: E731
        yield path(kernel, "residency", _lengths, call)
    for blocks in (1, 3, 4, 6):
        call = lambda x, blocks=blocks: essentials.strip_products(x, blocks)  # noqa: E731
        make = lambda: tuple(_randn(essentials.STRIP, n) for n in LENGTHS)  # noqa: E731
        yield path(f"strip_products_{blocks}", "residency", make, call)

    def circle():
        import torch

        return ((torch.arange(1000, dtype=torch.int32) + 1) % 1000,)

    for where in ("global", "l2", "shared"):
        call = lambda x, where=where: essentials.chase(x, x.numel(), where)  # noqa: E731
        yield path(f"chase_{where}", "probes", circle, call)
    for where in ("global", "l2"):
        call = lambda x, where=where: essentials.read(x, 5, 2048, 4, 2, where)  # noqa: E731
        yield path(f"read_{where}", "probes", lambda: (_randn(4 * 2048 * 4),), call)
    held = essentials.SHARED_WORDS
    yield path("read_shared", "probes", lambda: (_randn(held),), lambda x: essentials.read_shared(x, 2, 3))
    for chains in (1, 4):
        call = lambda x, chains=chains: essentials.fma_chain(x, 3, 40, chains, 6)  # noqa: E731
        yield path(f"fma_chain_{chains}", "probes", lambda: (_randn(120),), call, "fma_chain")


def cuda_paths() -> list[KernelPath]:
    """All of them, the oldest first: a path's place is its number everywhere."""
    return [*_functions(), *_ladder(), *_essentials()]
