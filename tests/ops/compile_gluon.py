"""Compile the Gluon product for sm_90a, with no GPU; print registers, spills, shared memory and PTX as JSON.

Run by test_matmul_gluon.py in a process of its own, since a process that interprets cannot compile.
"""

import contextlib
import io
import json
import os
import sys

os.environ["TRITON_DUMP_PTXAS_LOG"] = os.environ["TRITON_ALWAYS_COMPILE"] = "1"

import triton
from triton.backends.compiler import GPUTarget
from triton.experimental.gluon._runtime import GluonASTSource

from kernels.inspect.facts import read_ptxas_log
from kernels.ops import matmul_gluon as ring


def facts(stages: int) -> dict:
    """What the compiler makes of the ring with that many stages."""

    def descriptor(block):
        return f"tensordesc<bf16[{','.join(map(str, block))}],{ring.layout_of(block)!r}>"

    blocks = ring.BLOCKS
    signature = {name: descriptor(block) for name, block in zip(("a_desc", "b_desc", "out_desc"), blocks)}
    signature |= dict.fromkeys(("M", "N", "K"), "i32") | dict.fromkeys(("GROUP_M", "STAGES", "num_warps"), "constexpr")
    constants = {(6,): 8, (7,): stages, (8,): ring.CONSUMER_WARPS}
    attributes = {(index,): [["tt.divisibility", 16]] for index in (3, 4, 5)}
    options = {"num_warps": ring.CONSUMER_WARPS, "maxnreg": ring.REGISTERS}
    printed = io.StringIO()
    with contextlib.redirect_stdout(printed):
        source = GluonASTSource(ring._matmul_ring, signature, constants, attributes)
        done = triton.compile(source, target=GPUTarget("cuda", 90, 32), options=options)
    used = read_ptxas_log(printed.getvalue())[done.metadata.name]
    return {
        "registers": used.registers,
        "spills": used.spill_store_bytes + used.spill_load_bytes,
        "shared_bytes": done.metadata.shared,
        "ptx": done.asm["ptx"],
        "log": printed.getvalue(),
    }


if __name__ == "__main__":
    json.dump(facts(int(sys.argv[1])), sys.stdout)
