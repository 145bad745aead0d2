"""Compile what the matmul launcher launches, for a GPU that need not be here; print what the compiler said as JSON.

The launcher itself is asked, on tensors without memory. Run by test_matmul_compiled.py in a process of its own, since a
process that interprets cannot compile; `python tests/ops/compile_matmul.py table` prints a table instead.
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
from triton.compiler import ASTSource
from triton.tools.tensor_descriptor import TensorDescriptor

from kernels.inspect.facts import read_ptxas_log
from kernels.inspect.limits import shared_limit_bytes
from kernels.ops import matmul, matmul_launch, matmul_tuning

POINTERS = {torch.float32: "fp32", torch.float16: "fp16", torch.bfloat16: "bf16"}


def described(arguments, constants, names):
    """Signature, constants and attributes of a launch, as Triton derives them from its arguments."""
    signature, known, attributes = {}, {}, {}
    for index, (name, value) in enumerate(zip(names, (*arguments, *(constants[n] for n in names[len(arguments) :])))):
        if index >= len(arguments) or value is None or (type(value) is int and value == 1):
            signature[name], known[name] = "constexpr", value
        elif isinstance(value, TensorDescriptor):
            block = ",".join(map(str, value.block_shape))
            signature[name] = f"tensordesc<{POINTERS[value.base.dtype]}[{block}]>"
        elif isinstance(value, torch.Tensor):
            signature[name] = f"*{POINTERS[value.dtype]}"
            if value.storage_offset() * value.element_size() % 16 == 0:
                attributes[(index,)] = [["tt.divisibility", 16]]
        elif isinstance(value, float):
            signature[name] = "fp32"
        else:
            signature[name] = "i32" if -(2**31) <= value < 2**31 else "i64"
            if value % 16 == 0:
                attributes[(index,)] = [["tt.divisibility", 16]]
    return signature, known, attributes


def compiled(kernel, arguments, constants, arch):
    """Registers, spills, shared memory and PTX of one launch."""
    signature, known, attributes = described(arguments, constants, kernel.arg_names)
    source = ASTSource(fn=kernel, signature=signature, constexprs=known, attrs=attributes)
    options = {name: constants[name] for name in ("num_warps", "num_stages") if name in constants}
    printed = io.StringIO()
    with contextlib.redirect_stdout(printed):
        done = triton.compile(source, target=GPUTarget("cuda", arch, 32), options=options)
    used = read_ptxas_log(printed.getvalue())[done.metadata.name]
    return {
        "kernel": kernel.fn.__name__,
        "registers": used.registers,
        "spills": used.spill_store_bytes + used.spill_load_bytes,
        "shared_bytes": done.metadata.shared,
        "warps": done.metadata.num_warps,
        "ptx": done.asm["ptx"],
        "ttir": done.asm["ttir"],
    }


def launches(
    shape, dtype, precision="ieee", arch=90, transposed=(False, False), offset=0, tuned=None, epilogue=False, **choices
):
    """What the launcher launches for a product of this shape: kernels, arguments and constants, in their order."""
    found = []
    matmul_launch._may_describe, matmul_launch._may_ring = (lambda _: arch >= 90), (lambda _: False)
    matmul_launch.launch = lambda kernel, _grid, arguments, **constants: found.append((kernel, arguments, constants))
    matmul_launch._launch_described = lambda kernel, _grid, arguments, _device, **constants: found.append(
        (kernel, arguments, constants)
    )
    M, N, K = shape

    def empty(rows, columns, is_turned):
        stored = (columns, rows) if is_turned else (rows, columns)
        flat = torch.empty(rows * columns + offset, dtype=getattr(torch, dtype), device="meta")[offset:]
        return flat.view(stored).t() if is_turned else flat.view(stored)

    a, b, out = empty(M, K, transposed[0]), empty(K, N, transposed[1]), empty(M, N, False)
    rest = {"bias": out[0], "residual": out, "activation": "gelu"} if epilogue else {}
    choices = {**({"path": "tiles", "splits": 1, **tuned} if tuned else {}), **choices}
    matmul_launch.launch_product(a, b, out, precision, **rest, choices=choices)
    return found


def cases(arch):
    """Name, and what is asked of `launches`."""
    found = {}
    for case in matmul.BENCHES:
        name = "x".join(map(str, case.shape))
        found[f"plan {name} bfloat16"] = ((case.shape, "bfloat16"), {})
        found[f"plan {name} float32"] = ((case.shape, "float32"), {})
    square = (4096, 4096, 4096)
    for precision in ("tf32", "tf32x3"):
        found[f"plan {precision}"] = ((square, "float32", precision), {})
    for index, tile in enumerate(matmul_tuning.CONFIGURATIONS):
        for dtype, precision in (("bfloat16", "ieee"), ("float32", "ieee"), ("float32", "tf32")):
            fitting = matmul_tuning.fitting(2 if dtype == "bfloat16" else 4, precision, shared_limit_bytes(arch))
            if tile in fitting:
                found[f"tuned {index} {dtype} {precision}"] = ((square, dtype, precision), {"tuned": tile})
    if arch < 90:
        return found
    for ways in ((True, False), (False, True), (True, True)):
        found[f"transposed {ways[0]:d}{ways[1]:d}"] = ((square, "bfloat16"), {"transposed": ways})
    found["epilogue"] = ((square, "bfloat16"), {"epilogue": True})
    found["slices"] = (((1024, 1024, 16384), "bfloat16"), {"splits": 4, "epilogue": True})
    return found


def facts(arch):
    """The launches of each case, compiled; one error where one does not compile."""
    found, kept = {}, {}
    for name, (arguments, keywords) in cases(arch).items():
        made = []
        for kernel, given, constants in launches(*arguments, arch=arch, **keywords):
            key = (id(kernel), str(described(given, constants, kernel.arg_names)), str(constants))
            if key not in kept:
                try:
                    kept[key] = compiled(kernel, given, constants, arch)
                except Exception as error:
                    kept[key] = {"kernel": kernel.fn.__name__, "error": f"{type(error).__name__}: {error}"[:300]}
            tile = {
                k: v for k, v in constants.items() if k.startswith("BLOCK") or k in ("num_stages", "SPLITS", "SUBTILES")
            }
            made.append({**kept[key], "tile": tile})
        found[name] = made
    return found


def table(arch):
    """One line a launch, for a terminal."""
    lines = []
    for name, made in facts(arch).items():
        for fact in made:
            if "error" in fact:
                lines.append(f"{name:34} {fact['kernel']:20} {fact['tile']} {fact['error']}")
                continue
            lines.append(
                f"{name:34} {fact['kernel']:20} {'x'.join(map(str, fact['tile'].values())):18} warps {fact['warps']:2} "
                f"registers {fact['registers']:3} spills {fact['spills']:4} shared {fact['shared_bytes']:6} "
                f"wgmma {fact['ptx'].count('wgmma.mma_async'):3} mma {fact['ptx'].count('mma.sync'):3} "
                f"tma {fact['ptx'].count('cp.async.bulk.tensor'):2}"
            )
    return "\n".join(lines)


if __name__ == "__main__":
    if sys.argv[1] == "table":
        print(table(int(sys.argv[2]) if len(sys.argv) > 2 else 90))
    else:
        json.dump(facts(int(sys.argv[1])), sys.stdout)
