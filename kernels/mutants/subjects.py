"""The right kernels that mutants are made of."""

from __future__ import annotations

from functools import cache

from kernels.mutants import cases, small_cases
from kernels.mutants.model import Subject

KERNELS = "cuda/kernels.cu"
PATTERNS = "cuda/patterns.cu"
SMALL = "kernels/mutants/small.cu"
SMALL_TRITON = "kernels/mutants/small.py"


@cache
def subjects() -> dict[str, Subject]:
    """Every subject by its name."""
    softmax = cases.softmax_cuda()
    cuda = {
        "vector_add": (KERNELS, cases.add_cuda()),
        "softmax_serial": (KERNELS, cases.softmax_cuda(a_thread_a_row=True)),
        "softmax_parallel": (KERNELS, softmax),
        "softmax_online": (KERNELS, softmax),
        "histogram": (SMALL, small_cases.histogram_cuda()),
        "histogram_shared": (SMALL, small_cases.histogram_cuda()),
        "transpose_tile_33": (PATTERNS, small_cases.transpose_cuda()),
        "copy_rows": (PATTERNS, small_cases.copy_cuda()),
        "add_next": (SMALL, small_cases.add_next()),
        "group_sum": (SMALL, small_cases.group_sum()),
        "reverse_in_warps": (SMALL, small_cases.reverse_in_warps()),
        "shift_left": (SMALL, small_cases.shift_left()),
        "sum_in_one_launch": (SMALL, small_cases.sum_in_one_launch()),
        "variance": (SMALL, small_cases.variance()),
    }
    triton = {
        "add.py": ("kernels/ops/add.py", cases.add_triton()),
        "softmax.py, one block": ("kernels/ops/softmax.py", cases.softmax_triton("block")),
        "softmax.py, looped": ("kernels/ops/softmax.py", cases.softmax_triton("looped", block=64)),
        "histogram.py": (SMALL_TRITON, small_cases.histogram_triton()),
        "transpose.py": (SMALL_TRITON, small_cases.transpose_triton()),
        "shift_left.py": (SMALL_TRITON, small_cases.shift_triton()),
    }
    found = {name: Subject(name, "cuda", source, chosen, f"launch_{name}") for name, (source, chosen) in cuda.items()}
    return found | {name: Subject(name, "triton", source, chosen) for name, (source, chosen) in triton.items()}
