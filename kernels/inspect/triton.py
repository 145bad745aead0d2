"""What Triton makes of a kernel: registers, spills, shared memory, PTX and SASS, for any architecture, with no GPU.

Triton reads TRITON_INTERPRET when it is imported, and an interpreted process cannot compile any more. So the compiler
runs in a helper process without it (`kernels.inspect.triton_worker`), and the caller may itself be interpreted.
"""

from __future__ import annotations

import importlib.metadata
import importlib.util
import json
import os
import sys
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

from kernels.inspect import disassembler, store
from kernels.inspect.facts import CompileFacts, InspectionFailed, ToolMissing
from kernels.sources import Sources, fingerprint, project_root
from kernels.sources.processes import COMPILE_S, TooLong, answered

Argument = str | int | float | bool | None


@dataclass(frozen=True)
class TritonRequest:
    """One kernel, one set of arguments, one architecture.

    Attributes:
        kernel: "kernels.ops.softmax:_softmax_rows", or a file "lessons_src/examples/hello.py:_kernel".
        signature: what each argument is, by name. Three ways to say it:

            * a type: "*fp32" (a pointer, at a multiple of 16 bytes as PyTorch allocates), "*fp32:1" (a pointer with no
              known alignment), "i32" or "i64" (an integer nothing is known about), "i32:16" (a multiple of 16), "fp32";
            * an int for a run-time argument: the type that a launch with this value would give it. Triton compiles
              the value 1 in as a constant and remembers whether a value is a multiple of 16, because a row stride that
              is one permits 16-byte loads. `do_not_specialize` of the kernel is respected;
            * a value for a `tl.constexpr` argument.

            An argument with a default may be left out.
        arch: compute capability, 90 for sm_90.
        num_warps, num_stages, maxnreg: as in a launch.
    """

    kernel: str
    signature: Mapping[str, Argument]
    arch: int = 90
    num_warps: int = 4
    num_stages: int = 3
    maxnreg: int | None = None


def compile_triton(
    kernel: str,
    signature: Mapping[str, Argument],
    arch: int = 90,
    num_warps: int = 4,
    num_stages: int = 3,
) -> CompileFacts:
    """Compiles a Triton kernel as a launch would, with no GPU. `TritonRequest` describes the arguments.

    Raises: as `compile_triton_many`.
    """
    return compile_triton_many([TritonRequest(kernel, signature, arch, num_warps, num_stages)])[0]


def compile_triton_many(requests: Sequence[TritonRequest]) -> list[CompileFacts]:
    """`compile_triton` for several requests, in their order, in one helper process: its start takes seconds.

    Raises:
        KeyError: there is no such kernel.
        ToolMissing: Triton is not installed.
        InspectionFailed: a request does not compile, or names arguments that the kernel does not have.
    """
    toolchain = f"Triton {triton_version()}"
    keys = [key_of(request, toolchain) for request in requests]
    known = {key: store.read(key) for key in keys}
    missing = {key: request for key, request in zip(keys, requests) if known[key] is None}
    if missing:
        for key, facts in zip(missing, _ask_worker(list(missing.values()))):
            store.write(key, [facts])
            known[key] = [facts]
    return [(known[key] or [])[0] for key in keys]


def triton_version() -> str:
    # Found without importing it: an import would fix TRITON_INTERPRET for this process.
    if importlib.util.find_spec("triton") is None:
        where = "has no wheel for macOS or Windows" if sys.platform in ("darwin", "win32") else "is not installed"
        raise ToolMissing(f"Triton {where}, so this kernel cannot be compiled here. The pages show accepted records.")
    return importlib.metadata.version("triton")


def key_of(request: TritonRequest, toolchain: str) -> str:
    place, _, name = request.kernel.rpartition(":")
    if place.endswith(".py"):
        path = project_root() / place
        if not path.exists():
            raise KeyError(f"There is no file {place} for the kernel {name}.")
        text = path.read_text(encoding="utf-8")
        code = repr((text, Sources().explain_code(text)))
    else:
        code = fingerprint(request.kernel)
    described = {**asdict(request), "signature": sorted((k, repr(v)) for k, v in request.signature.items())}
    reader = fingerprint("kernels.inspect.triton_worker:main")  # what other code stored may mean something else
    return store.key_of("triton", code, sorted(described.items()), toolchain, disassembler.version(), reader)


def _ask_worker(requests: list[TritonRequest]) -> list[CompileFacts]:
    flags = {
        "TRITON_DUMP_PTXAS_LOG": "1",  # a cached kernel comes without the log that tells the spills
        "TRITON_DISABLE_LINE_INFO": "1",
    }
    return [CompileFacts.from_json(item) for item in ask("kernels.inspect.triton_worker", requests, flags)]


def ask(worker: str, requests: list[TritonRequest], flags: Mapping[str, str]) -> list[dict]:
    """What a module that compiles answers to requests, one JSON object each, from a process without TRITON_INTERPRET.

    Raises:
        InspectionFailed: the worker says that a request does not compile, or ends without an answer.
    """
    # TRITON_* variables change what is compiled (debug, overrides, another ptxas); only the cache folder does not.
    environment = {k: v for k, v in os.environ.items() if not k.startswith("TRITON_") or k == "TRITON_CACHE_DIR"}
    environment |= {
        "TRITON_ALWAYS_COMPILE": "1",
        "PYTHONPATH": os.pathsep.join([str(Path(__file__).resolve().parents[2]), *filter(None, sys.path)]),
        **flags,
    }
    payload = json.dumps([{**asdict(request), "signature": dict(request.signature)} for request in requests])
    command = [sys.executable, "-m", worker]
    try:
        done = answered(command, COMPILE_S, cwd=project_root(), env=environment, given=payload)
    except TooLong as error:
        raise InspectionFailed(str(error)) from None
    try:
        answer = json.loads(done.stdout)
    except ValueError:
        raise InspectionFailed(
            f"The process that compiles Triton kernels ended with status {done.returncode}:\n{done.stderr[-4000:]}"
        ) from None
    if "error" in answer:
        raise InspectionFailed(answer["error"])
    return answer["facts"]
