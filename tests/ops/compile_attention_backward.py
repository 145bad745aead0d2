"""Compile the kernels of attention's backward pass for sm_90a, with no GPU; print registers and spills as JSON.

Run by test_attention_backward_compiled.py in a process of its own, since a process that interprets cannot compile.
"""

import contextlib
import io
import json
import os
import sys

os.environ["TRITON_DUMP_PTXAS_LOG"] = os.environ["TRITON_ALWAYS_COMPILE"] = "1"

import triton
from triton.backends.compiler import GPUTarget
from triton.compiler import ASTSource

from kernels.inspect.facts import read_ptxas_log
from kernels.ops import attention_backward as module
from kernels.ops.attention_shared import plan_attention

KERNELS = {"keys": module._attention_keys, "queries": module._attention_dq}
FLOATS = ("lse_ptr", "delta_ptr")


def facts(which: str, D: int) -> dict:
    """What the compiler makes of the causal kernel for bfloat16 and this head size, in the tiles its plan gives it."""
    kernel, plan = KERNELS[which], plan_attention(D, 2, which)
    constants = {"D": D, "CAUSAL": True, "WINDOW": 0, "RAGGED": False, "group": 1}
    constants |= {"BLOCK_M": plan.block_m, "BLOCK_N": plan.block_n, "BLOCK_D": plan.block_d}
    signature, attributes = {}, {}
    for index, name in enumerate(kernel.arg_names):
        if name in constants:
            signature[name] = "constexpr"
        elif name in ("scale", "factor"):
            signature[name] = "fp32"
        else:
            pointer = "*fp32" if name in FLOATS else "*i32" if name == "lengths_ptr" else "*bf16"
            signature[name] = pointer if name.endswith("_ptr") else "i32"
            attributes[(index,)] = [["tt.divisibility", 16]]
    placed = {(kernel.arg_names.index(name),): value for name, value in constants.items()}
    options = {"num_warps": plan.num_warps, "num_stages": plan.num_stages}
    printed = io.StringIO()
    with contextlib.redirect_stdout(printed):
        source = ASTSource(kernel, signature, placed, attributes)
        done = triton.compile(source, target=GPUTarget("cuda", 90, 32), options=options)
    used = read_ptxas_log(printed.getvalue())[done.metadata.name]
    return {
        "stack_bytes": used.stack_bytes,
        "shared_bytes": done.metadata.shared,
        "wgmma": done.asm["ptx"].count("wgmma.mma_async"),
        "mma": done.asm["ptx"].count("mma.sync"),
    }


if __name__ == "__main__":
    made = {f"{which} {D}": facts(which, D) for which in KERNELS for D in (64, 128)}
    json.dump(made, sys.stdout)
