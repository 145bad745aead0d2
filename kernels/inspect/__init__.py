"""Compiles kernels ahead of time and reports what came out. Needs a compiler, and no GPU.

    compile_cuda("softmax_parallel", arch=90).registers
    compile_triton("kernels.ops.add:_add", {"x_ptr": "*fp32", ..., "BLOCK_N": 1024}).instructions("LDG")

Results are kept in build/inspect/ until the sources or the tools change.
"""

from kernels.inspect.cuda import compile_cuda
from kernels.inspect.facts import CompileFacts, InspectionFailed, ToolMissing
from kernels.inspect.layouts import KernelLayouts, MemoryAccess, triton_layouts, triton_layouts_many
from kernels.inspect.limits import shared_limit_bytes
from kernels.inspect.triton import TritonRequest, compile_triton, compile_triton_many

__all__ = [
    "CompileFacts",
    "InspectionFailed",
    "KernelLayouts",
    "MemoryAccess",
    "ToolMissing",
    "TritonRequest",
    "compile_cuda",
    "compile_triton",
    "compile_triton_many",
    "shared_limit_bytes",
    "triton_layouts",
    "triton_layouts_many",
]
