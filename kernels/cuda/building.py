"""Compiles cuda/*.cu into build/: the library that Python loads, and the test program."""

from __future__ import annotations

import contextlib
import hashlib
import os
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from kernels.cuda.toolchain import Compiler, compiler
from kernels.sources import project_root

# Built when no GPU says what it needs: A100, H100 and H200, B200, and the GeForce cards of 2025. Code for sm_80 also
# runs on the other sm_8x GPUs, and the PTX of the last entry on those that are newer still.
DEFAULT_ARCHS = (80, 90, 100, 120)
FLAGS = ("-std=c++17", "-O3", "-lineinfo", "-Werror", "all-warnings")

_INCLUDE = re.compile(r'^\s*#\s*include\s+"([^"]+)"', re.M)


class BuildFailed(RuntimeError):
    """nvcc refused the sources. The message ends with what nvcc printed."""


def sources_of(root_file: Path) -> dict[str, str]:
    """The file and all that it includes with quotes from its own folder: name to text, in reading order.

    Raises:
        FileNotFoundError: a file is missing; the message says where it was expected.
    """
    found: dict[str, str] = {}
    pending = [root_file.name]
    while pending:
        name = pending.pop(0)
        if name in found:
            continue
        path = root_file.parent / name
        if not path.exists():
            raise FileNotFoundError(f"{path} does not exist. The CUDA sources come with a checkout, not with a wheel.")
        found[name] = path.read_text(encoding="utf-8")
        pending += _INCLUDE.findall(found[name])
    return found


def substitute(sources: Mapping[str, str], replace: Mapping[str, str] | None) -> dict[str, str]:
    """The sources with each text of `replace` exchanged, wherever it occurs.

    Raises:
        ValueError: a text does not occur, so the variant would silently be the original.
    """
    changed = dict(sources)
    for old, new in (replace or {}).items():
        if not old or not any(old in text for text in changed.values()):
            raise ValueError(f"{old!r} does not occur in {', '.join(changed)}, so there is nothing to replace.")
        changed = {name: text.replace(old, new) for name, text in changed.items()}
    return changed


def gpu_architectures() -> tuple[int, ...]:
    """The compute capabilities of this machine's GPUs, such as (90,), as the driver tells; empty without one."""
    tool = shutil.which("nvidia-smi")
    if tool is None:
        return ()
    command = [tool, "--query-gpu=compute_cap", "--format=csv,noheader"]
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=30, check=False)
    except (OSError, subprocess.TimeoutExpired):
        return ()
    if done.returncode != 0:
        return ()
    return tuple(
        sorted({10 * int(major) + int(minor) for major, minor in re.findall(r"^(\d+)\.(\d)\s*$", done.stdout, re.M)})
    )


def build(archs: Sequence[int] | None = None, replace: Mapping[str, str] | None = None) -> Path:
    """Builds the library of launchers and returns its path, `build/libkernels_<hash>.so`.

    The hash covers sources, flags and compiler versions: an unchanged library is returned at once, and two versions
    never share a file. Of two processes that build at the same time, one compiles and the other waits.

    Args:
        archs: compute capabilities, such as (80, 90). Default: those of this machine's GPUs, else `DEFAULT_ARCHS`.
        replace: texts to exchange in the sources, for a variant such as a smaller block.

    Raises:
        CompilerMissing: see `compiler`.
        ValueError: nvcc does not know an architecture, or a text to replace does not occur.
        BuildFailed: the sources do not compile.
    """
    suffix = {"win32": ".dll"}.get(sys.platform, ".so")
    flags = ["-shared"] if sys.platform == "win32" else ["-shared", "-Xcompiler", "-fPIC,-Wall,-Wextra"]
    nvcc, command, sources, key = _prepare("library.cu", flags, archs, replace)
    target = project_root() / "build" / f"libkernels_{key}{suffix}"
    with _lock(target):
        if not target.exists():
            _compile(nvcc, command, "library.cu", sources, target)
    return target


def build_portfolio(archs: Sequence[int] | None = None, replace: Mapping[str, str] | None = None) -> Path:
    """Builds the test program and returns its path, `build/cuda_portfolio` (a variant: `build/cuda_portfolio_<hash>`).

    Arguments and errors are those of `build`. The program is compiled again when sources, flags or compiler changed.
    """
    suffix = ".exe" if sys.platform == "win32" else ""
    flags = [] if sys.platform == "win32" else ["-Xcompiler", "-Wall,-Wextra"]
    nvcc, command, sources, key = _prepare("portfolio.cu", flags, archs, replace)
    folder = project_root() / "build"
    target = folder / (f"cuda_portfolio_{key}{suffix}" if replace else f"cuda_portfolio{suffix}")
    stamp = folder / f".{target.name}.key"
    with _lock(target):
        built = stamp.read_text(encoding="utf-8") if stamp.exists() and target.exists() else ""
        # The program's own hash is part of the stamp, so a program that CMake put there is not taken for this one.
        if built != f"{key} {_digest_of(target)}":
            _compile(nvcc, command, "portfolio.cu", sources, target)
            stamp.write_text(f"{key} {_digest_of(target)}", encoding="utf-8")
    return target


def _digest_of(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()[:16] if path.exists() else ""


def _prepare(
    root_file: str, flags: list[str], archs: Sequence[int] | None, replace: Mapping[str, str] | None
) -> tuple[Compiler, list[str], dict[str, str], str]:
    nvcc = compiler()
    chosen = tuple(archs) if archs is not None else (_known(nvcc, gpu_architectures()) or _known(nvcc, DEFAULT_ARCHS))
    if not chosen:
        raise ValueError("There is no architecture to compile for: archs is empty.")
    for arch in chosen:
        nvcc.check_architecture(arch)
    sources = substitute(sources_of(project_root() / "cuda" / root_file), replace)
    options = [*FLAGS, *flags, *(f"-gencode=arch=compute_{arch},code=sm_{arch}" for arch in chosen)]
    options.append(f"-gencode=arch=compute_{chosen[-1]},code=compute_{chosen[-1]}")
    digest = hashlib.sha256(repr((nvcc.identity, options, sorted(sources.items()))).encode()).hexdigest()[:16]
    return nvcc, [str(nvcc.nvcc), *nvcc.flags, *options], sources, digest


def _known(nvcc: Compiler, archs: Sequence[int]) -> tuple[int, ...]:
    known = nvcc.architectures()
    return tuple(arch for arch in archs if arch in known)


def _compile(nvcc: Compiler, command: list[str], root_file: str, sources: Mapping[str, str], target: Path) -> None:
    home = project_root() / "cuda"
    with tempfile.TemporaryDirectory(dir=target.parent, prefix=".compile_") as folder:
        # The sources are compiled where they lie, so that a sanitizer's report names a file that exists; only a variant
        # is compiled from copies.
        original = sources == sources_of(home / root_file)
        for name, text in {} if original else sources.items():
            (Path(folder) / name).write_text(text, encoding="utf-8")
        product = Path(folder) / target.name
        place = home if original else folder
        done = subprocess.run(
            [*command, "-o", str(product), root_file], cwd=place, capture_output=True, text=True, check=False
        )
        if done.returncode != 0:
            raise BuildFailed(f"nvcc {nvcc.version} could not compile cuda/{root_file}:\n{done.stdout}{done.stderr}")
        if original and sources != sources_of(home / root_file):
            raise BuildFailed(f"cuda/{root_file} or a file it includes was changed while it was compiled; build again.")
        product.replace(target)


@contextlib.contextmanager
def _lock(target: Path) -> Iterator[None]:
    """Holds a lock of this target among all processes. The operating system frees it when a process dies."""
    target.parent.mkdir(parents=True, exist_ok=True)
    with (target.parent / f".{target.name}.lock").open("a+b") as file:
        if os.name == "nt":
            import msvcrt

            file.seek(0)
            msvcrt.locking(file.fileno(), msvcrt.LK_LOCK, 1)
        else:
            import fcntl

            fcntl.flock(file, fcntl.LOCK_EX)
        yield
