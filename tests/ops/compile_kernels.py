"""Compile every operator kernel for a GPU that need not be here; print what the compiler said as JSON.

Run by test_compiled.py in a process of its own, since a process that interprets cannot compile.
"""

import json
import sys

import triton
from triton.backends.compiler import GPUTarget
from triton.compiler import ASTSource

from kernels.ops import rmsnorm_kernels, row_sum, softmax, softmax_backward
from kernels.ops.add import _add
from kernels.ops.histogram import _histogram_shared
from kernels.ops.rmsnorm_backward_wide import rmsnorm_backward_words
from kernels.ops.row_plan import plan_rows
from kernels.ops.softmax_backward_pairs import _softmax_backward_pairs

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


def compile_rows(module, name: str, plan, arguments: dict, arch: int) -> dict:
    """The kernel that `plan` chooses in an operator's module, with the plan's tile."""
    ending = {"block": "rows", "joint": "words" if plan.block_m == 1 and name == "softmax" else "joint"}
    kernel = getattr(module, f"_{name}_{ending.get(plan.path, plan.path)}")
    arguments = {**arguments, "BLOCK_M": plan.block_m, "BLOCK_N": plan.block_n, "parts": "i32", "part_n": "i32"}
    all_parts = triton.next_power_of_2(plan.parts)
    arguments |= {"state_ptr": "*fp32", "arrived_ptr": "*i32", "words_ptr": "*i64", "ALL_PARTS": all_parts}
    return compile_kernel(kernel, arguments, plan.num_warps, arch)


def compile_words(dtype: str, pointer: str, arch: int) -> dict:
    """Kernels whose programs wait for words that the launch in front sets to zero: where launches begin early."""
    tensors = ("x", "residual", "weight", "out", "dout", "dx", "y", "dy")
    common = {f"{name}_ptr": pointer for name in tensors} | {"root_ptr": "*fp32", "partial_ptr": "*fp32"}
    common |= {"words_ptr": "*i64", "arrived_ptr": "*i64", "state_ptr": "*i64", "sum_ptr": pointer, "dsum_ptr": pointer}
    common |= {f"{name}_stride_m": "i32" for name in (*tensors, "dsum")} | {
        f"{t}_stride_n": 1 for t in (*tensors, "dsum")
    }
    common |= dict.fromkeys(("M", "N", "parts", "teams"), "i32") | {"weight_stride": 1, "eps": "fp32", "ALL_PARTS": 16}
    common |= dict.fromkeys(("HAS_RESIDUAL", "HAS_WEIGHT", "HAS_DSUM", "KEEP_SUM", "KEEP_ROOT", "KEEP_WEIGHT"), True)
    common |= {"ONE_WARP": dtype == "bfloat16", "BLOCK_M": 1, "BLOCK_N": 4096}
    kernels = [rmsnorm_kernels._rmsnorm_words, rmsnorm_backward_words]
    made = {f"{kernel.fn.__name__} {dtype} words": compile_kernel(kernel, common, 8, arch) for kernel in kernels}
    if dtype == "bfloat16":
        for name, half, whole in (("bfloat16", False, False), ("float16", True, True)):
            pairs = common | dict.fromkeys(("y_ptr", "dy_ptr", "dx_ptr"), "*fp16" if half else pointer)
            pairs |= {"HALF": half, "WHOLE": whole}
            made[f"_softmax_backward_pairs {name} words"] = compile_kernel(_softmax_backward_pairs, pairs, 8, arch)
    return made


def compile_all(arch: int) -> dict:
    facts = {}
    counted = {"x_ptr": "*i32", "out_ptr": "*i64", "n": "i32", "stride": 1, "bins": "i32", "BINS": 256, "COPIES": 32}
    facts["histogram shared"] = compile_kernel(_histogram_shared, counted | {"BLOCK_N": 4096}, 16, arch)
    for dtype, (pointer, element_bytes) in TYPES.items():
        pointers = {"x_ptr": pointer, "out_ptr": pointer}
        facts[f"add {dtype}"] = compile_kernel(
            _add, {**pointers, "y_ptr": pointer, "n": "i32", "BLOCK_SIZE": 1024}, num_warps=4, arch=arch
        )
        for N in (1, 128, 1024, 4096, 32768, 131072):
            plan = plan_rows(None, N, element_bytes, sm_count=132)
            width = 1 if N == 1 else "i32"  # the launcher makes a 1 a constant
            common = {**pointers, "M": "i32", "N": width, "x_stride_m": "i32", "x_stride_n": 1, "out_stride_m": width}
            facts[f"softmax {dtype} {N}"] = compile_rows(softmax, "softmax", plan, common, arch)
            plan = plan_rows(None, N, element_bytes, sm_count=132, held=2)
            common = {"y_ptr": pointer, "dy_ptr": pointer, "dx_ptr": pointer, "M": "i32", "N": width}
            common |= {
                "y_stride_m": "i32",
                "y_stride_n": 1,
                "dy_stride_m": "i32",
                "dy_stride_n": 1,
                "dx_stride_m": width,
            }
            facts[f"softmax_backward {dtype} {N}"] = compile_rows(
                softmax_backward, "softmax_backward", plan, common, arch
            )
            plan = plan_rows(None, N, element_bytes, sm_count=132, held=0)
            common = {**pointers, "M": "i32", "N": width, "x_stride_m": "i32", "x_stride_n": 1}
            tile = {"BLOCK_M": plan.block_m, "BLOCK_N": plan.block_n, "EARLY": False, "ONE_STEP": N <= 4096}
            common |= {"parts": 1, "part_n": "i32", **tile}
            facts[f"row_sum {dtype} {N}"] = compile_kernel(row_sum._row_sum, common, plan.num_warps, arch)
        strided = {**pointers, "M": "i32", "N": "i32", "x_stride_m": "i32", "x_stride_n": "i32", "out_stride_m": "i32"}
        facts[f"softmax {dtype} strided"] = compile_kernel(
            softmax._softmax_rows, {**strided, "BLOCK_M": 2, "BLOCK_N": 512}, 4, arch
        )
        for N in (300, 5000):
            plan = plan_rows(None, N, element_bytes, sm_count=132, side_by_side=True)
            facts[f"softmax {dtype} side by side {N}"] = compile_rows(
                softmax, "softmax", plan, {**strided, "x_stride_m": 1}, arch
            )
        split = {"parts": "i32", "part_n": "i32", "state_ptr": "*fp32", "ALL_PARTS": 8, "BLOCK_M": 1, "BLOCK_N": 4096}
        for kernel in (softmax._softmax_parts, softmax._softmax_finish):
            facts[f"{kernel.fn.__name__} {dtype}"] = compile_kernel(kernel, {**strided, **split}, 8, arch)
        parts = {"out_ptr": "*fp32", "parts": "i32", "part_n": "i32", "EARLY": arch >= 90}
        common = {**pointers, "M": "i32", "N": "i32", "x_stride_m": "i32", "x_stride_n": 1, **parts}
        common |= {"BLOCK_M": 1, "BLOCK_N": 4096, "ONE_STEP": False}
        facts[f"row_sum {dtype} parts"] = compile_kernel(row_sum._row_sum, common, 8, arch)
        if arch >= 90:
            finish = {"parts_ptr": "*fp32", "out_ptr": pointer, "parts": "i32", "EARLY": True, "ALL_PARTS": 64}
            facts[f"row_sum {dtype} finish"] = compile_kernel(row_sum._row_sum_finish, finish, 1, arch)
            facts |= compile_words(dtype, pointer, arch)
        ones = {"N": 1, "x_stride_m": 1, "x_stride_n": 1, "out_stride_m": 1}
        facts[f"looped column {dtype}"] = compile_kernel(
            softmax._softmax_looped, {**pointers, **ones, "BLOCK_N": 16}, 4, arch
        )
    return facts


if __name__ == "__main__":
    json.dump(compile_all(int(sys.argv[1])), sys.stdout)
