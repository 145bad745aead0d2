"""What nvcc makes of a CUDA kernel: registers, spills, shared memory, PTX and SASS; needs no GPU."""

from __future__ import annotations

import re
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from kernels.inspect import disassembler, store
from kernels.inspect.facts import CompileFacts, InspectionFailed, ptx_of, read_ptxas_log
from kernels.sources import fingerprint, project_root
from kernels.sources.processes import COMPILE_S, TooLong, answered

if TYPE_CHECKING:
    from kernels.cuda.toolchain import Compiler

FLAGS = ("-std=c++17", "-O3")


def compile_cuda(
    kernel: str,
    arch: int = 90,
    source: str = "cuda/kernels.cu",
    replace: Mapping[str, str] | None = None,
) -> CompileFacts:
    """Compiles a CUDA source for one architecture and reports on one of its kernels.

    All kernels of the source are compiled together and remembered, so asking for the next one is quick.

    Args:
        kernel: the name of a `__global__` function, such as "softmax_parallel". Of a template, give the mangled name.
        arch: compute capability, such as 90 for sm_90.
        source: the file, relative to the project.
        replace: texts to exchange first, such as {"constexpr int kThreads = 256;": "constexpr int kThreads = 128;"}.

    Raises:
        ValueError: there is no such kernel or architecture, or a text to replace does not occur.
        kernels.cuda.CompilerMissing: there is no usable nvcc.
        InspectionFailed: the source, or its variant, does not compile.
    """
    # Not above: who inspects Triton kernels alone does not depend on the CUDA ones.
    from kernels.cuda.building import sources_of, substitute
    from kernels.cuda.toolchain import compiler

    nvcc = compiler()
    nvcc.check_architecture(arch)
    sources = substitute(sources_of(project_root() / source), replace)
    # The host compiler is no part of the toolchain here: the device code does not depend on it.
    toolchain = f"nvcc {nvcc.version}"
    reader = fingerprint("kernels.inspect.cuda:_compile")  # what was stored by other code may mean something else
    key = store.key_of("cuda", source, sorted(sources.items()), arch, toolchain, disassembler.version(), reader)
    facts = store.read(key)
    if facts is None:
        facts = _compile(nvcc, sources, Path(source), arch, toolchain)
        store.write(key, facts)
    chosen = [item for item in facts if kernel in (item.kernel, own_name(item.kernel))]
    if len(chosen) != 1:
        names = ", ".join(sorted(own_name(item.kernel) if not chosen else item.kernel for item in chosen or facts))
        raise ValueError(
            f"{source} has more than one {kernel}; choose among {names}."
            if chosen
            else f"{source} has no kernel {kernel}; it has {names or 'none at all'}."
        )
    return CompileFacts(**{**chosen[0].to_json(), "kernel": kernel})


def _compile(nvcc: Compiler, sources: Mapping[str, str], source: Path, arch: int, toolchain: str) -> list[CompileFacts]:
    with tempfile.TemporaryDirectory(prefix="inspect_") as folder:
        for name, text in sources.items():
            (Path(folder) / name).write_text(text, encoding="utf-8")

        def run(*options: str) -> str:
            command = [str(nvcc.nvcc), *nvcc.flags, *FLAGS, f"-arch=sm_{arch}", *options, source.name]
            try:
                done = answered(command, COMPILE_S, cwd=folder)
            except TooLong as error:
                raise InspectionFailed(str(error)) from None
            if done.returncode != 0:
                raise InspectionFailed(f"nvcc {nvcc.version} could not compile {source} for sm_{arch}:\n{done.stderr}")
            return done.stderr

        log = run("-cubin", "-Xptxas", "-v", "-o", "out.cubin", "--keep")
        resources = read_ptxas_log(log)
        ptx = (Path(folder) / source.with_suffix(".ptx").name).read_text(encoding="utf-8")
        sass = disassembler.disassemble(Path(folder) / "out.cubin")
    return [
        CompileFacts(
            kernel=name,
            language="cuda",
            arch=arch,
            registers=used.registers,
            spill_store_bytes=used.spill_store_bytes,
            spill_load_bytes=used.spill_load_bytes,
            shared_bytes=used.shared_bytes,
            stack_bytes=used.stack_bytes,
            ptx=ptx_of(ptx, name),
            sass=sass.get(name, ""),
            toolchain=toolchain,
        )
        for name, used in resources.items()
    ]


def own_name(mangled: str) -> str:
    """The function's own name in a mangled one: _Z16softmax_parallelPKf... holds its length, then the name."""
    match = re.match(r"_Z(\d+)", mangled)
    return mangled[match.end() : match.end() + int(match[1])] if match else mangled
