"""Launches on a matrix of two rows so far apart that no 32 bits hold the offset from the first to the second.

A kernel that counts an offset in 32 bits, signed or not, comes to element `LEFT` of the matrix instead: behind the
first row, where all is NaN. So it gives NaN, or leaves NaN where its result should be, and touches nothing of others.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import torch

LEFT = 64
FAR = 2**32 + LEFT  # elements from row to row: 17 GB of float32, 9 of bfloat16
LOOKED_AT = 4096  # elements of the gap, at both of its ends, that must stay as they were


@dataclass(frozen=True)
class Work:
    """A kernel, its operands as (rows, columns), the result last, and what is right.

    numbers: the launcher's numbers from the row strides of all matrices. right: the result in float64, from the inputs.
    """

    kernel: str
    source: str
    far: str
    shapes: dict[str, tuple[int, ...]]
    numbers: Callable[..., tuple[int | float, ...]]
    right: Callable[..., torch.Tensor]
    dtype: torch.dtype = torch.float32

    def __str__(self) -> str:
        return f"{self.kernel}, {self.far}"

    @property
    def gigabytes(self) -> float:
        """What the far matrix takes."""
        return FAR * self.dtype.itemsize / 1e9


def rows_apart(values: torch.Tensor, gap: int) -> torch.Tensor:
    """The two rows of `values`, `gap` elements from the beginning of one to that of the other, and NaN between them."""
    rows, columns = values.shape
    assert rows == 2 and columns <= LEFT < gap, "the second row, with its offset cut off, must not lie in the first"
    flat = torch.full((gap + columns,), float("nan"), dtype=values.dtype, device=values.device)
    flat[:columns], flat[gap:] = values[0], values[1]
    return flat


def check(work: Work, launch: Callable[..., None], device: str, gap: int = FAR, told: int | None = None) -> None:
    """Launch the kernel with one of its matrices in rows `gap` elements apart; AssertionError where it is wrong.

    launch: takes the tensors and the numbers. told: the row stride that the launcher is given instead.
    """
    generator = torch.Generator().manual_seed(len(work.kernel))
    *inputs, output = work.shapes
    # Small whole numbers: no sum of products is rounded, not in bfloat16 either.
    given = {
        name: torch.randint(-2, 3, work.shapes[name], generator=generator).to(device, work.dtype) for name in inputs
    }
    given[output] = torch.full(work.shapes[output], float("nan"), dtype=work.dtype, device=device)
    whole = 8 if work.kernel in HOPPER else 1  # elements: the copy unit wants rows of whole 16 bytes
    padded = {name: -(-shape[-1] // whole) * whole for name, shape in work.shapes.items()}
    matrices = [name for name, shape in work.shapes.items() if len(shape) == 2]
    strides = [(told or gap) if name == work.far else padded[name] for name in matrices]
    there = {
        name: rows_apart(values, gap) if name == work.far else _padded(values, padded[name])
        for name, values in given.items()
    }
    launch(list(there.values()), work.numbers(*strides))
    out, columns = there[output], work.shapes[output][-1]
    got = torch.stack([out[:columns], out[gap:]]) if output == work.far else out[..., :columns]
    right = work.right(*(given[name].double() for name in inputs))
    tolerance = 3e-6 if work.dtype == torch.float32 else 0.0
    torch.testing.assert_close(got.double(), right, rtol=tolerance, atol=tolerance)
    if output == work.far:
        between = out[columns:gap]
        assert between[:LOOKED_AT].isnan().all() and between[-LOOKED_AT:].isnan().all(), "written between the rows"


def _padded(values: torch.Tensor, columns: int) -> torch.Tensor:
    wide = torch.full((*values.shape[:-1], columns), float("nan"), dtype=values.dtype, device=values.device)
    wide[..., : values.shape[-1]] = values
    return wide


HOPPER = {
    "matmul_tma": "cuda/matmul_tma.cu",
    "matmul_wgmma": "cuda/matmul_wgmma.cu",
    "matmul_cluster": "cuda/matmul_cluster.cu",
    "matmul_persistent": "cuda/matmul_persistent.cu",
}
RUNGS = {
    **dict.fromkeys(("matmul_naive", "matmul_tiled", "matmul_register_tiled", "matmul_async_copy"), "cuda/matmul.cu"),
    "matmul_wmma": "cuda/matmul_wmma.cu",
    **HOPPER,
}
PRODUCTS = {"a": (2, 24, 40), "b": (5, 40, 2), "c": (2, 40, 24)}  # M, N, K, so that the far matrix has two rows


def product(kernel: str, far: str) -> Work:
    """A rung of the ladder."""
    m, n, k = PRODUCTS[far]
    half = kernel == "matmul_wmma" or kernel in HOPPER
    return Work(
        kernel,
        RUNGS[kernel],
        far,
        {"a": (m, k), "b": (k, n), "c": (m, n)},
        lambda *strides: (m, n, k, *strides),
        lambda a, b: a @ b,
        torch.bfloat16 if half else torch.float32,
    )


def fused(kernel: str, far: str) -> Work:
    """A pass over rows with a bias."""
    scale = (0.5,) if "scale" in kernel else ()
    right = (lambda x, bias: (x + bias).relu() / 2) if scale else _gelu
    shapes = {"x": (2, 40), "bias": (40,), "out": (2, 40)}
    return Work(kernel, "cuda/fused.cu", far, shapes, lambda *strides: (2, 40, *strides, *scale), right)


def _gelu(x: torch.Tensor, bias: torch.Tensor) -> torch.Tensor:
    return torch.nn.functional.gelu(x + bias, approximate="tanh")


def moved(kernel: str, far: str) -> Work:
    """A copy or a transpose."""
    turns = kernel.startswith("transpose")
    rows, columns = (40, 2) if turns and far == "out" else (2, 40)
    shapes = {"x": (rows, columns), "out": (columns, rows) if turns else (rows, columns)}
    source = "cuda/transposes.cu" if kernel in ("transpose_direct", "transpose_swizzled") else "cuda/patterns.cu"
    return Work(
        kernel, source, far, shapes, lambda *strides: (rows, columns, *strides), lambda x: x.T if turns else x
    )  # fmt: skip


FUSED = [name + form for name in ("fused_bias_relu_scale", "fused_bias_gelu") for form in ("", "_float4")]
MOVED = (
    "copy_rows",
    "copy_columns",
    "transpose_direct",
    "transpose_swizzled",
    "transpose_tile_32",
    "transpose_tile_33",
)
ALL = [
    *(product(kernel, far) for kernel in RUNGS for far in PRODUCTS),
    *(fused(kernel, far) for kernel in FUSED for far in ("x", "out")),
    *(moved(kernel, far) for kernel in MOVED for far in ("x", "out")),
]
