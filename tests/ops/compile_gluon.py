"""Compile the Gluon product for sm_90a, with no GPU; print registers, spills, shared memory and PTX as JSON.

The launcher itself is asked what it would launch, on tensors without memory. Run by test_matmul_gluon.py in a process
of its own, since a process that interprets cannot compile.
"""

import contextlib
import io
import json
import os
import sys

os.environ["TRITON_DUMP_PTXAS_LOG"] = os.environ["TRITON_ALWAYS_COMPILE"] = "1"

import torch
import triton
from triton.backends.compiler import GPUTarget
from triton.experimental.gluon._runtime import GluonASTSource

from kernels.inspect.facts import read_ptxas_log
from kernels.ops import matmul_launch

TILE = {"block_m": 128, "block_n": 256, "block_k": 64, "num_stages": 4, "subtiles": 2, "consumers": "alone"}
PLANNED = dict.fromkeys(TILE)  # None: as the plan has it
CASES = {
    "plain": {},
    "a turned": {"transposed": (True, False)},
    "b turned": {"transposed": (False, True)},
    "both turned": {"transposed": (True, True)},
    "bias and gelu": {"bias": True, "activation": "gelu"},
    "relu": {"activation": "relu"},
    "float16": {"dtype": torch.float16},
    "a square tile": {"block_n": 128, "num_stages": 6},
    "a tile that leaves whole": {"num_stages": 3, "subtiles": 1},
    "half the rows": {"block_m": 64, "block_n": 128, "num_stages": 6},
    "two consumers": {"block_n": 128, "num_stages": 5, "subtiles": 1, "consumers": "turns"},
    "two consumers, bias and gelu": {
        "block_n": 128,
        "num_stages": 5,
        "subtiles": 1,
        "consumers": "turns",
        "bias": True,
        "activation": "gelu",
    },
    "two halves": {"subtiles": 4, "consumers": "halves"},
    "two halves, turned": {"subtiles": 4, "consumers": "halves", "transposed": (True, True)},
    "two halves, bias and gelu": {"subtiles": 4, "consumers": "halves", "bias": True, "activation": "gelu"},
    "set up early": {"early": True},
    "planned: turns": {**PLANNED, "path": None},
    "planned: turns, both turned": {**PLANNED, "path": None, "transposed": (True, True)},
    "planned: turns, bias and gelu": {**PLANNED, "path": None, "bias": True, "activation": "gelu"},
    "planned: turns, a short sum, bias and gelu": {
        **PLANNED,
        "path": None,
        "shape": (8192, 8192, 512),
        "bias": True,
        "activation": "gelu",
    },
    "planned: one round, set up early": {**PLANNED, "path": None, "shape": (1024, 1024, 1024)},
}


def launched(
    transposed=(False, False), dtype=torch.bfloat16, bias=False, activation="none", shape=(4096, 4096, 4096), **tile
):
    """Kernel, arguments and constants of the launch for a product of M x N x K."""
    found = []
    matmul_launch._may_describe = matmul_launch._may_ring = lambda _: True
    matmul_launch._launch_described = lambda kernel, _grid, arguments, _device, **constants: found.append(
        (kernel, arguments, constants)
    )
    matmul_launch.sm_count = lambda _: 132
    M, N, K = shape

    def empty(rows, columns, turned):
        stored = (columns, rows) if turned else (rows, columns)
        made = torch.empty(stored, dtype=dtype, device="meta")
        return made.t() if turned else made

    a, b, out = empty(M, K, transposed[0]), empty(K, N, transposed[1]), empty(M, N, False)
    choices = {"path": "ring", **TILE, **tile}
    row = out[0] if bias else None
    matmul_launch.launch_product(a, b, out, "ieee", bias=row, activation=activation, choices=choices)
    return found[0]


def facts(case: dict) -> dict:
    """What the compiler makes of one launch."""
    kernel, arguments, constants = launched(**case)
    names = kernel.arg_names
    types = {torch.bfloat16: "bf16", torch.float16: "fp16"}
    signature, known, attributes = {}, {}, {}
    values = (*arguments, *(constants[name] for name in names[len(arguments) :]))
    for index, (name, value) in enumerate(zip(names, values)):
        if index >= len(arguments) or value is None or (type(value) is int and value == 1):
            signature[name], known[(index,)] = "constexpr", value
        elif hasattr(value, "block_shape"):
            block = ",".join(map(str, value.block_shape))
            signature[name] = f"tensordesc<{types[value.base.dtype]}[{block}],{value.layout!r}>"
        elif isinstance(value, torch.Tensor):
            signature[name] = f"*{types[value.dtype]}"
        else:
            signature[name] = "fp32" if isinstance(value, float) else "i32"
            if isinstance(value, int) and value % 16 == 0:
                attributes[(index,)] = [["tt.divisibility", 16]]
    options = {name: constants[name] for name in ("num_warps", "maxnreg")}
    printed = io.StringIO()
    with contextlib.redirect_stdout(printed):
        source = GluonASTSource(kernel, signature, known, attributes)
        done = triton.compile(source, target=GPUTarget("cuda", 90, 32), options=options)
    used = read_ptxas_log(printed.getvalue())[done.metadata.name]
    return {
        "registers": used.registers,
        "spills": used.spill_store_bytes + used.spill_load_bytes,
        "shared_bytes": done.metadata.shared,
        "launch_pdl": constants.get("launch_pdl", False),
        "ptx": done.asm["ptx"],
        "log": printed.getvalue(),
    }


if __name__ == "__main__":
    json.dump({name: facts(case) for name, case in CASES.items()}, sys.stdout)
