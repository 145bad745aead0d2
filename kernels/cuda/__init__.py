"""The compiled CUDA kernels of cuda/kernels.cu as functions on PyTorch tensors.

The library is compiled by nvcc on first use, into build/. Importing this package needs neither torch nor nvcc.
"""

from kernels.cuda.building import BuildFailed, build, build_portfolio
from kernels.cuda.call import (
    available,
    library,
    softmax_online,
    softmax_online_scalar,
    softmax_parallel,
    softmax_serial,
    vector_add,
    why_not,
)
from kernels.cuda.toolchain import Compiler, CompilerMissing, HostCompiler, compiler

__all__ = [
    "BuildFailed",
    "Compiler",
    "CompilerMissing",
    "HostCompiler",
    "available",
    "build",
    "build_portfolio",
    "compiler",
    "library",
    "softmax_online",
    "softmax_online_scalar",
    "softmax_parallel",
    "softmax_serial",
    "vector_add",
    "why_not",
]
