"""Compiles Triton kernels in a process of its own: requests come as JSON on stdin, facts leave as JSON on stdout.

Started by `kernels.inspect.triton`, without TRITON_INTERPRET.
"""

from __future__ import annotations

import contextlib
import importlib
import importlib.util
import io
import json
import os
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

from kernels.inspect import disassembler
from kernels.inspect.facts import CompileFacts, InspectionFailed, ptx_of, read_ptxas_log
from kernels.sources import project_root


def main() -> int:
    return answer_requests(lambda request: _compile(request).to_json())


def answer_requests(compile_one: Callable[[dict[str, Any]], dict[str, Any]]) -> int:
    """Reads requests from stdin and writes what `compile_one` makes of each, or the first failure, to stdout."""
    # Whatever a kernel's module or Triton prints goes to standard error; only the answer is written to the real output.
    answer_file = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)
    try:
        answer: dict[str, Any] = {"facts": [compile_one(request) for request in json.load(sys.stdin)]}
    except InspectionFailed as failure:
        answer = {"error": str(failure)}
    with answer_file:
        json.dump(answer, answer_file)
    return 0


def find_kernel(reference: str) -> Any:
    """The JITFunction that a reference names, out of any autotuner or heuristics around it."""
    place, _, name = reference.rpartition(":")
    if place.endswith(".py"):
        spec = importlib.util.spec_from_file_location(f"_inspected_{Path(place).stem}", project_root() / place)
        module = importlib.util.module_from_spec(spec)
        sys.modules[spec.name] = module
        try:
            spec.loader.exec_module(module)
        except (Exception, SystemExit) as stopped:
            # A script traces its kernel where it stands: here, where kernels are compiled, it stops there.
            if not hasattr(module, name):
                raise InspectionFailed(
                    f"{place} is run to find {name}, and stopped before: {type(stopped).__name__}: {stopped}"
                ) from stopped
    else:
        module = importlib.import_module(place)
    kernel = getattr(module, name, None)
    while kernel is not None and not hasattr(kernel, "arg_names"):
        kernel = getattr(kernel, "fn", None)
    while hasattr(kernel, "fn") and hasattr(kernel.fn, "arg_names"):
        kernel = kernel.fn
    if type(kernel).__name__ == "InterpretedFunction":
        raise InspectionFailed(
            f"{reference} was made for Triton's interpreter, because its file sets TRITON_INTERPRET itself; set it "
            "outside the file, so that the kernel can be compiled here."
        )
    if kernel is None or not hasattr(kernel, "params"):
        raise InspectionFailed(f"{reference} is not a function under @triton.jit.")
    return kernel


def specialize(reference: str, kernel: Any, given: dict[str, Any]) -> tuple[dict, dict, dict]:
    """The signature, constants and attributes that a launch with these arguments would compile for.

    Raises:
        InspectionFailed: an argument is missing, unknown, or described by neither a type nor a value.
    """
    names = [parameter.name for parameter in kernel.params]
    if unknown := sorted(set(given) - set(names)):
        raise InspectionFailed(
            f"{reference} has no argument {', '.join(unknown)}; its arguments are {', '.join(names)}."
        )
    signature: dict[str, str] = {}
    constants: dict[tuple[int], Any] = {}
    attributes: dict[tuple[int], list] = {}
    for index, parameter in enumerate(kernel.params):
        name = parameter.name
        if name not in given and not parameter.has_default:
            raise InspectionFailed(f"The signature for {reference} says nothing about its argument {name}.")
        value = given.get(name, parameter.default if parameter.has_default else None)
        aligned = False
        if parameter.is_constexpr or value is None or isinstance(value, bool):
            # A flag or None that is not marked constexpr is one all the same: a launch compiles it in.
            signature[name] = "constexpr" if parameter.is_constexpr or value is None else "i1"
            if signature[name] == "constexpr":
                constants[(index,)] = value
        elif isinstance(value, int):
            if value == 1 and not parameter.do_not_specialize:
                signature[name], constants[(index,)] = "constexpr", 1
            else:
                signature[name] = "i32" if -(2**31) <= value < 2**31 else "i64" if value < 2**63 else "u64"
                aligned = value % 16 == 0
        elif isinstance(value, float):
            signature[name] = "fp32"
        elif isinstance(value, str):
            signature[name], aligned = _type_of(reference, name, value)
        else:
            raise InspectionFailed(f"{reference}: {name} is {value!r}, which is neither a type nor a value.")
        if aligned and not (parameter.do_not_specialize or parameter.do_not_specialize_on_alignment):
            attributes[(index,)] = [["tt.divisibility", 16]]
    return signature, constants, attributes


def _type_of(reference: str, name: str, text: str) -> tuple[str, bool]:
    kind, _, multiple = text.partition(":")
    if multiple not in ("", "1", "16"):
        raise InspectionFailed(f"{reference}: {name} is {text!r}; after the colon stands 1 or 16.")
    return kind, multiple == "16" or (kind.startswith("*") and multiple == "")


def compile_request(request: dict[str, Any]) -> Any:
    """Triton's compiled kernel, with the text of every stage in its `asm`.

    Raises:
        InspectionFailed: there is no such kernel, its arguments do not fit, or it does not compile.
    """
    import triton
    from triton.backends.compiler import GPUTarget
    from triton.compiler import ASTSource
    from triton.experimental.gluon._runtime import GluonASTSource

    reference, arch = request["kernel"], request["arch"]
    kernel = find_kernel(reference)
    signature, constants, attributes = specialize(reference, kernel, request["signature"])
    kind = GluonASTSource if kernel.is_gluon() else ASTSource
    source = kind(fn=kernel, signature=signature, constexprs=constants, attrs=attributes)
    options = {"num_warps": request["num_warps"], "num_stages": request["num_stages"]}
    if request.get("maxnreg") is not None:
        options["maxnreg"] = request["maxnreg"]
    try:
        return triton.compile(source, target=GPUTarget("cuda", arch, 32), options=options)
    except Exception as failure:
        raise InspectionFailed(
            f"Triton {triton.__version__} could not compile {reference} for sm_{arch}: "
            f"{type(failure).__name__}: {failure}"
        ) from failure


def _compile(request: dict[str, Any]) -> CompileFacts:
    import triton

    reference, arch = request["kernel"], request["arch"]
    printed = io.StringIO()
    with contextlib.redirect_stdout(printed):
        compiled = compile_request(request)
    resources = read_ptxas_log(printed.getvalue())
    if compiled.metadata.name not in resources:
        raise InspectionFailed(f"Triton {triton.__version__} printed no ptxas log for {reference}.")
    used = resources[compiled.metadata.name]
    with tempfile.TemporaryDirectory(prefix="inspect_") as folder:
        cubin = Path(folder) / "out.cubin"
        cubin.write_bytes(compiled.asm["cubin"])
        sass = disassembler.disassemble(cubin)
    return CompileFacts(
        kernel=reference.rpartition(":")[2],
        language="triton",
        arch=arch,
        registers=used.registers,
        spill_store_bytes=used.spill_store_bytes,
        spill_load_bytes=used.spill_load_bytes,
        shared_bytes=compiled.metadata.shared,  # asked for at launch, so ptxas does not know it
        stack_bytes=used.stack_bytes,
        ptx=ptx_of(compiled.asm["ptx"], compiled.metadata.name),
        sass=sass.get(compiled.metadata.name, ""),
        toolchain=f"Triton {triton.__version__}",
    )


if __name__ == "__main__":
    sys.exit(main())
