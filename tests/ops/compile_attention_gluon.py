"""Compile the Gluon attention kernels for sm_90a, with no GPU; print what the compiler made of one as JSON.

Run by test_attention_gluon.py and test_attention_gluon_backward.py in a process of its own, since a process that
interprets cannot compile.
"""

import contextlib
import io
import json
import os
import re
import subprocess
import sys
import tempfile

os.environ["TRITON_DUMP_PTXAS_LOG"] = os.environ["TRITON_ALWAYS_COMPILE"] = "1"

import torch
import triton
from triton.backends.compiler import GPUTarget
from triton.experimental.gluon._runtime import GluonASTSource

from kernels.inspect.facts import clean_sass, read_ptxas_log
from kernels.ops import attention_gluon_backward_launch as backward
from kernels.ops import attention_gluon_launch as host
from kernels.ops.attention_gluon import _attention_ring
from kernels.ops.attention_gluon_backward import _attention_one_pass

TYPES = {torch.bfloat16: "bf16", torch.float16: "fp16"}


def facts(D: int, dtype: str, causal: bool, window: int, ragged: bool, plan: host.RingPlan) -> dict:
    """What the compiler makes of one plan: registers, spills, shared memory, PTX, and the loop over blocks in SASS."""
    q = torch.empty(2, 2, 512, D, dtype=getattr(torch, dtype))
    lse = torch.empty(2, 2, 512)
    order = lse.int() if plan.schedule == "planned" else None
    lengths = lse.int() if ragged else None
    values, constants = host.arguments(q, q, q, q, lse, lengths, order, causal, window, 0.1, plan)
    return compiled(_attention_ring, values, constants, plan.registers[0], (D + plan.block_n) // 16)


def backward_facts(dtype: str, causal: bool) -> dict:
    """The same of the backward kernel, whose loop holds five products of 64 rows."""
    q = torch.empty(2, 2, 512, 128, dtype=getattr(torch, dtype))
    values, constants = backward.arguments(q, q, q, q, q, q, torch.empty(16), torch.empty(16), causal, 0.1)
    return compiled(
        _attention_one_pass, values, constants, backward.REGISTERS, 2 * 128 // 16 + 2 * 64 // 16 + 128 // 16
    )


def compiled(kernel, values, constants, registers: int, products: int) -> dict:
    signature = {}
    for name, value in zip(kernel.arg_names, values):  # constants follow
        if hasattr(value, "block_shape"):
            block = ",".join(map(str, value.block_shape))
            signature[name] = f"tensordesc<{TYPES[value.base.dtype]}[{block}],{value.layout!r}>"
        elif isinstance(value, torch.Tensor):
            signature[name] = "*i32" if value.dtype == torch.int32 else "*fp32"
        else:
            signature[name] = "fp32" if isinstance(value, float) else "i32"
    signature |= dict.fromkeys(constants, "constexpr")
    place = {name: (index,) for index, name in enumerate(kernel.arg_names)}
    attributes = {place[name]: [["tt.divisibility", 16]] for name in kernel.arg_names if name.endswith("_ptr")}
    options = {"num_warps": host.WARPS, "maxnreg": registers}
    printed = io.StringIO()
    with contextlib.redirect_stdout(printed):
        source = GluonASTSource(kernel, signature, {place[n]: v for n, v in constants.items()}, attributes)
        done = triton.compile(source, target=GPUTarget("cuda", 90, 32), options=options)
    used = read_ptxas_log(printed.getvalue())[done.metadata.name]
    return {
        "registers": used.registers,
        "spills": used.spill_store_bytes + used.spill_load_bytes,
        "shared_bytes": done.metadata.shared,
        "ptx": done.asm["ptx"],
        "log": printed.getvalue(),
        "loops": loops(disassembled(done.asm["cubin"]), products),
    }


def disassembled(cubin: bytes) -> str:
    with tempfile.NamedTemporaryFile(suffix=".cubin") as file:
        file.write(cubin)
        file.flush()
        command = [triton.knobs.nvidia.cuobjdump.path, "-sass", file.name]
        return clean_sass(subprocess.run(command, capture_output=True, text=True, check=True).stdout)


def loops(sass: str, products: int) -> list[list[str]]:
    """The instructions of each loop with that many matrix products and no loop with as many in it: one a consumer."""
    lines = [(int(a, 16), text) for a, text in re.findall(r"^/\*([0-9a-f]+)\*/\s+(.*?);", sass, re.M)]
    found = []
    for at, text in lines:
        target = re.search(r"\bBRA\b.*?0x([0-9a-f]+)", text)
        if target and int(target[1], 16) < at:
            body = [each for address, each in lines if int(target[1], 16) <= address <= at]
            # Where a barrier is not yet passed, a jump from the end of the program leads back: that is no loop.
            if sum("HGMMA" in each for each in body) == products and not any("EXIT" in each for each in body):
                found.append((at, int(target[1], 16), body))
    kept, free = [], 0
    for end, begin, body in sorted(found):  # where a wait is retried, a jump from behind a loop leads into it
        if begin >= free:
            kept.append(body)
            free = end
    return kept


if __name__ == "__main__":
    options = json.loads(sys.argv[1])
    if "plan" in options:
        made = facts(**options | {"plan": host.RingPlan(**options["plan"])})
    else:
        made = backward_facts(**options)
    json.dump(made, sys.stdout)
