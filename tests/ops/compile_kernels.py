"""Compile every operator kernel for a GPU that need not be here; print what the compiler said as JSON.

Run by test_compiled.py in a process of its own, since a process that interprets cannot compile.
"""

import json
import sys

import triton
from triton.backends.compiler import GPUTarget
from triton.compiler import ASTSource

from kernels.ops.add import _add
from kernels.ops.softmax import _softmax_looped, _softmax_rows, plan_softmax

TYPES = {"float32": ("*fp32", 4), "bfloat16": ("*bf16", 2)}  # float16 differs from bfloat16 in conversions only


def compile_kernel(kernel, arguments: dict, num_warps: int, arch: int) -> dict:
    """Arguments that are ints are compile-time constants, strings are types, as the launcher would pass them."""
    arguments = {name: arguments[name] for name in kernel.arg_names}  # attributes go by position
    constants = {name: value for name, value in arguments.items() if isinstance(value, int)}
    signature = {name: "constexpr" if name in constants else value for name, value in arguments.items()}
    # What a launch with aligned tensors and strides that are multiples of 16 promises the compiler.
    attributes = {(i,): [["tt.divisibility", 16]] for i, kind in enumerate(signature.values()) if kind != "constexpr"}
    source = ASTSource(fn=kernel, signature=signature, constexprs=constants, attrs=attributes)
    done = triton.compile(source, target=GPUTarget("cuda", arch, 32), options={"num_warps": num_warps})
    return {"ttir": done.asm["ttir"], "ptx": done.asm["ptx"], "shared_bytes": done.metadata.shared}


def compile_all(arch: int) -> dict:
    facts = {}
    for dtype, (pointer, element_bytes) in TYPES.items():
        pointers = {"x_ptr": pointer, "out_ptr": pointer}
        facts[f"add {dtype}"] = compile_kernel(
            _add, {**pointers, "y_ptr": pointer, "n": "i32", "BLOCK_SIZE": 1024}, num_warps=4, arch=arch
        )
        for N in (1, 128, 1024, 4096, 32768, 131072):
            plan = plan_softmax(N, element_bytes)
            width = 1 if N == 1 else "i32"  # the launcher makes a 1 a constant
            common = {**pointers, "N": width, "x_stride_m": "i32", "x_stride_n": 1, "out_stride_m": width}
            if plan.path == "block":
                arguments = {**common, "M": "i32", "BLOCK_M": plan.block_m, "BLOCK_N": plan.block_n}
                kernel = _softmax_rows
            else:
                arguments = {**common, "BLOCK_N": plan.block_n}
                kernel = _softmax_looped
            facts[f"softmax {dtype} {N}"] = compile_kernel(kernel, arguments, plan.num_warps, arch)
        strided = {**pointers, "M": "i32", "N": "i32", "x_stride_m": "i32", "x_stride_n": "i32", "out_stride_m": "i32"}
        facts[f"softmax {dtype} strided"] = compile_kernel(
            _softmax_rows, {**strided, "BLOCK_M": 2, "BLOCK_N": 512}, 4, arch
        )
        ones = {"N": 1, "x_stride_m": 1, "x_stride_n": 1, "out_stride_m": 1}
        facts[f"looped column {dtype}"] = compile_kernel(_softmax_looped, {**pointers, **ones, "BLOCK_N": 16}, 4, arch)
    return facts


if __name__ == "__main__":
    json.dump(compile_all(int(sys.argv[1])), sys.stdout)
