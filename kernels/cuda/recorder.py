"""Builds cuda/gpu_trace/: the program that launches every kernel, and the library that records what it accesses."""

from __future__ import annotations

import os
import shutil
from dataclasses import dataclass
from pathlib import Path

from kernels.cuda.building import DEFAULT_ARCHS, FLAGS, BuildFailed, gpu_architectures
from kernels.cuda.toolchain import Compiler, compiler
from kernels.sources import project_root
from kernels.sources.processes import COMPILE_S, TooLong, answered

SOURCES = "cuda/gpu_trace"


class SanitizerMissing(RuntimeError):
    """The CUDA toolkit's Sanitizer API is not installed. The message says where it was looked for."""


@dataclass(frozen=True)
class SanitizerApi:
    """Where `sanitizer.h` and `libsanitizer-public.so` lie."""

    include: Path
    library: Path


def sanitizer_api(nvcc: Compiler) -> SanitizerApi:
    """Finds the API: the folder that SANITIZER_HOME names, else compute-sanitizer/ of the toolkit that nvcc is part of.

    Raises:
        SanitizerMissing: neither folder has the header and the library.
    """
    named = os.environ.get("SANITIZER_HOME")
    home = nvcc.nvcc.resolve().parents[1]
    places = [Path(named)] if named else [home / "compute-sanitizer", home, Path("/usr/local/cuda/compute-sanitizer")]
    for place in places:
        for library in (place, place / "lib", place / "lib64"):
            if (place / "include" / "sanitizer.h").exists() and (library / "libsanitizer-public.so").exists():
                return SanitizerApi(place / "include", library)
    looked = ", ".join(str(place) for place in places)
    raise SanitizerMissing(
        f"There is no include/sanitizer.h with a libsanitizer-public.so in {looked}. Install the CUDA toolkit's "
        "compute-sanitizer, or set SANITIZER_HOME to its folder."
    )


def build_driver(folder: Path, arch: int | None = None) -> Path:
    """Compiles cuda/gpu_trace/driver.cu into `folder` with the flags of the kernels' library.

    Args:
        arch: a compute capability such as 90. Default: that of this machine's GPU, else the first default one.

    Raises:
        CompilerMissing, BuildFailed: see `kernels.cuda.build`.
    """
    nvcc = compiler()
    target = folder / "driver"
    _run(nvcc, [*FLAGS, "-Xcompiler", "-Wall,-Wextra", _code(arch), "-o", str(target), f"{SOURCES}/driver.cu"])
    return target


def build_recorder(folder: Path, arch: int | None = None) -> tuple[Path, Path]:
    """Compiles the library to inject and the device code that it patches in; returns (library, patches).

    Raises:
        SanitizerMissing: see `sanitizer_api`.
        CompilerMissing, BuildFailed: see `kernels.cuda.build`.
    """
    nvcc = compiler()
    api = sanitizer_api(nvcc)
    patches, library = folder / "patches.fatbin", folder / "librecorder.so"
    tool = ["-fatbin", "--keep-device-functions", "-Xptxas", "--compile-as-tools-patch", "-Werror", "all-warnings"]
    include = f"-I{api.include}"
    _run(nvcc, [*tool, _code(arch), include, "-o", str(patches), f"{SOURCES}/patches.cu"])
    host = ["-std=c++17", "-O2", "-shared", "-Xcompiler", "-fPIC,-Wall,-Wextra", include, f"-L{api.library}"]
    link = ["-cudart", "none", "-lsanitizer-public", "-Xlinker", f"-rpath={api.library}"]
    _run(nvcc, [*host, "-o", str(library), f"{SOURCES}/recorder.cpp", *link])
    return library, patches


def _code(arch: int | None) -> str:
    chosen = arch or next(iter(gpu_architectures()), DEFAULT_ARCHS[0])
    return f"-gencode=arch=compute_{chosen},code=sm_{chosen}"


def _run(nvcc: Compiler, arguments: list[str]) -> None:
    target = Path(arguments[arguments.index("-o") + 1])
    target.parent.mkdir(parents=True, exist_ok=True)
    command = [str(nvcc.nvcc), *nvcc.flags, *arguments]
    try:
        done = answered(command, COMPILE_S, cwd=project_root())
    except TooLong as error:
        raise BuildFailed(str(error)) from None
    if done.returncode != 0:
        raise BuildFailed(f"nvcc {nvcc.version} could not compile {target.name}:\n{done.stdout}{done.stderr}")


def profiler() -> Path | None:
    """Nsight Compute's command-line program `ncu`, or None where it is not installed."""
    found = shutil.which("ncu")
    if found:
        return Path(found)
    return next(
        (place for place in map(Path, ("/usr/local/cuda/bin/ncu", "/opt/cuda/bin/ncu")) if place.exists()), None
    )
