"""Finds nvcc and the host compiler it works with, and says in a sentence what is wrong with them."""

from __future__ import annotations

import importlib.util
import os
import re
import shutil
import subprocess
import sys
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

WHEEL_REQUIREMENT = "cuda-toolkit[cccl,crt,cudart,nvcc,nvvm]==13.0.2"
_EXE = ".exe" if sys.platform == "win32" else ""


class CompilerMissing(RuntimeError):
    """There is no CUDA compiler that works here. The message says how to get one."""


@dataclass(frozen=True)
class HostCompiler:
    """The C++ compiler that nvcc hands the host half of a file to."""

    path: Path
    family: str  # "g++" or "clang++"
    version: str  # "12.2.0"

    def __str__(self) -> str:
        return f"{self.family} {self.version}"


@dataclass(frozen=True)
class Compiler:
    """A CUDA compiler that was found, with the folders of its headers and libraries.

    Attributes:
        nvcc: the program.
        version: its full version, such as "13.0.88".
        origin: where it was found: "CUDACXX", "wheel", "CUDA_HOME", "PATH" or "default folder".
        host: the host compiler, already checked against the limits of this nvcc; None on Windows, where nvcc
            chooses among the installed versions of cl.exe itself.
        include, library: folders to add to the search paths, or None where nvcc knows its own.
    """

    nvcc: Path
    version: str
    origin: str
    host: HostCompiler | None
    include: Path | None
    library: Path | None

    @property
    def flags(self) -> list[str]:
        """What every call needs, whatever is compiled."""
        flags = [] if self.host is None else ["-ccbin", str(self.host.path)]
        if self.include is not None:
            flags.append(f"-I{self.include}")
        if self.library is not None:
            flags.append(f"-L{self.library}")
        return flags

    @property
    def identity(self) -> str:
        """Names everything that the compiled result depends on, and no path: nvcc's version and the host's."""
        return f"nvcc {self.version}, {self.host or 'cl.exe'}"

    def __str__(self) -> str:
        return f"nvcc {self.version} from {self.origin} ({self.nvcc}), host compiler {self.host or 'cl.exe'}"

    def architectures(self) -> tuple[int, ...]:
        """The compute capabilities that this nvcc compiles for, such as (75, 80, ..., 121)."""
        return _architectures(str(self.nvcc))

    def check_architecture(self, arch: int) -> None:
        """Raises ValueError unless this nvcc compiles for `arch` (90 stands for sm_90)."""
        known = self.architectures()
        if arch not in known:
            names = ", ".join(str(number) for number in known)
            raise ValueError(f"nvcc {self.version} does not compile for sm_{arch}; it compiles for {names}.")


def compiler() -> Compiler:
    """The CUDA compiler to use.

    Looks at `CUDACXX`, then for the nvcc wheel that the project pins, then at `CUDA_HOME` and `CUDA_PATH`, at
    `PATH`, and at /usr/local/cuda. The wheel comes before a system toolkit so that every machine compiles the same
    code to the same instructions. The host compiler is `NVCC_CCBIN` or `CUDAHOSTCXX` if set, else g++.

    Raises:
        CompilerMissing: there is no nvcc, it is incomplete, or it does not accept the host compiler.
    """
    nvcc, origin = _find_nvcc()
    version = nvcc_version(str(nvcc))
    home = nvcc.resolve().parent.parent
    # A toolkit's own nvcc.profile names its folders. The wheel's library folder has another name than nvcc expects.
    in_wheel = home.name.startswith("cu") and home.parent.name == "nvidia"
    if in_wheel:
        _check_wheel(nvcc, home)
    headers = home / "include" if (home / "include" / "crt" / "host_config.h").exists() else _headers_of(nvcc)
    return Compiler(
        nvcc=nvcc,
        version=version,
        origin=origin,
        host=_find_host(version, headers),
        include=home / "include" if in_wheel else None,
        library=home / "lib" if in_wheel else None,
    )


def _find_nvcc() -> tuple[Path, str]:
    named = os.environ.get("CUDACXX")
    if named:
        found = shutil.which(named)
        if found is None:
            raise CompilerMissing(f"CUDACXX names {named}, and there is no such program. Correct it or unset it.")
        return Path(found), "CUDACXX"
    for folder in wheel_folders():
        for candidate in (folder / "bin" / f"nvcc{_EXE}", folder / "bin" / "x86_64" / f"nvcc{_EXE}"):
            if candidate.exists():
                return candidate, "wheel"
    for variable in ("CUDA_HOME", "CUDA_PATH"):
        if home := os.environ.get(variable):
            candidate = Path(home) / "bin" / f"nvcc{_EXE}"
            if candidate.exists():
                return candidate, variable
    if found := shutil.which("nvcc"):
        return Path(found), "PATH"
    candidate = Path("/usr/local/cuda/bin/nvcc")
    if candidate.exists():
        return candidate, "default folder"
    if sys.platform == "darwin":
        raise CompilerMissing("NVIDIA has no CUDA compiler for macOS. The pages show accepted records instead.")
    raise CompilerMissing(
        "There is no nvcc: not as a wheel, not under CUDA_HOME, not on PATH. "
        f'Install it with `pip install "{WHEEL_REQUIREMENT}"`, or install the CUDA toolkit and put its bin on PATH.'
    )


def wheel_folders() -> list[Path]:
    """The folders nvidia/cu13 (or another release) that the wheels of this environment share, newest first."""
    spec = importlib.util.find_spec("nvidia")
    if spec is None or spec.submodule_search_locations is None:
        return []
    roots = [Path(root) for root in spec.submodule_search_locations]
    return sorted((folder for root in roots for folder in root.glob("cu[0-9]*")), reverse=True)


def _check_wheel(nvcc: Path, home: Path) -> None:
    # Each of these comes from a wheel of its own, so an nvcc alone is possible.
    for needed in ("include/cuda_runtime.h", "include/crt/host_config.h", f"nvvm/bin/cicc{_EXE}"):
        if not (home / needed).exists():
            raise CompilerMissing(
                f'{nvcc} is not complete: {needed} is missing. Run `pip install "{WHEEL_REQUIREMENT}"`.'
            )


@lru_cache(maxsize=8)
def nvcc_version(nvcc: str) -> str:
    """The full version that `nvcc --version` reports, such as "13.0.88"."""
    text = _output([nvcc, "--version"])
    match = re.search(r"release [\d.]+, V([\d.]+)", text or "")
    if match is None:
        raise CompilerMissing(f"{nvcc} --version does not answer with a version; it is no working nvcc.")
    return match[1]


@lru_cache(maxsize=8)
def _architectures(nvcc: str) -> tuple[int, ...]:
    listed = _output([nvcc, "--list-gpu-arch"]) or ""
    return tuple(sorted(int(number) for number in re.findall(r"compute_(\d+)$", listed, re.M)))


@lru_cache(maxsize=8)
def _headers_of(nvcc: Path) -> Path | None:
    # A launcher script on PATH hides the toolkit; a dry run names the toolkit's folder.
    try:
        done = subprocess.run(
            [str(nvcc), "--dryrun", "-c", "-x", "cu", os.devnull],
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
        )
    except OSError:
        return None
    match = re.search(r"^#\$ TOP=(.+)$", done.stderr, re.M)
    if match is None:
        return None
    for folder in (Path(match[1]) / "include", *Path(match[1]).glob("targets/*/include")):
        if (folder / "crt" / "host_config.h").exists():
            return folder
    return None


def _find_host(nvcc: str, headers: Path | None) -> HostCompiler | None:
    if sys.platform == "win32":
        return None
    variable = next((name for name in ("NVCC_CCBIN", "CUDAHOSTCXX") if os.environ.get(name)), None)
    named = os.environ[variable] if variable else "g++"
    found = shutil.which(named)
    if found is None and variable:
        raise CompilerMissing(f"{variable} names {named}, and there is no such program. Correct it or unset it.")
    if found is None:
        raise CompilerMissing(
            f"nvcc {nvcc} needs a C++ compiler and there is no g++ on PATH. "
            "Install one (`apt-get install g++`), or name one with CUDAHOSTCXX."
        )
    host = _describe_host(found)
    if host is None:
        raise CompilerMissing(f"{found} is neither g++ nor clang++; name one that is with CUDAHOSTCXX.")
    limit = host_limit(headers, host.family)
    if limit is not None and int(host.version.split(".")[0]) > limit:
        raise CompilerMissing(
            f"nvcc {nvcc} accepts {host.family} up to version {limit}, and {found} is version {host.version}. "
            f"{_suggest(host.family, limit)}"
        )
    return host


def _suggest(family: str, limit: int) -> str:
    for number in range(limit, 6, -1):
        if older := shutil.which(f"{family}-{number}"):
            return f"Choose the older one that is installed: CUDAHOSTCXX={older}."
    return f"Install {family}-{limit} and choose it with CUDAHOSTCXX={family}-{limit}."


def host_limit(headers: Path | None, family: str) -> int | None:
    """The newest major version of `family` that the toolkit accepts, read from the check in its own headers."""
    if headers is None:
        return None
    text = (headers / "crt" / "host_config.h").read_text(encoding="utf-8", errors="replace")
    if family == "g++":
        match = re.search(r"^#if __GNUC__ > (\d+)", text, re.M)
        return int(match[1]) if match else None
    start = text.find("#if defined(__clang__)")
    match = re.search(r"__clang_major__ >=\s*(\d+)", text[start:]) if start >= 0 else None
    return int(match[1]) - 1 if match else None


@lru_cache(maxsize=8)
def _describe_host(path: str) -> HostCompiler | None:
    text = _output([path, "-dM", "-E", "-x", "c++", os.devnull])
    macros = dict(re.findall(r"^#define (\w+) (.+)$", text or "", re.M))
    if "__clang_major__" in macros:
        names = ("__clang_major__", "__clang_minor__", "__clang_patchlevel__")
        family = "clang++"
    elif "__GNUC__" in macros:
        names = ("__GNUC__", "__GNUC_MINOR__", "__GNUC_PATCHLEVEL__")
        family = "g++"
    else:
        return None
    return HostCompiler(Path(path), family, ".".join(macros[name] for name in names))


def _output(command: list[str]) -> str | None:
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    except OSError:
        return None
    return done.stdout if done.returncode == 0 else None
