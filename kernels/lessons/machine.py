"""What this machine can run, and the environment that a block's output may depend on."""

from __future__ import annotations

import hashlib
import importlib.metadata
import importlib.util
import os
import platform
import shutil
import subprocess
import sys
from dataclasses import dataclass
from functools import cached_property, lru_cache
from pathlib import Path

from kernels.lessons.model import NEEDS


@dataclass(frozen=True)
class Ability:
    """Whether a need can be met here: `label` says by what, `reason` why not."""

    label: str = ""
    reason: str = ""

    def __bool__(self) -> bool:
        return not self.reason


class Machine:
    """This machine, looked at once. `LESSONS_WITHOUT=gpu,nvcc` hides abilities, to see what others would see.

    Raises:
        ValueError: LESSONS_WITHOUT names what is no ability.
    """

    def __init__(self, without: str | None = None) -> None:
        text = os.environ.get("LESSONS_WITHOUT", "") if without is None else without
        self._hidden = {name.strip() for name in text.split(",") if name.strip()}
        if unknown := sorted(self._hidden - {*NEEDS}):
            raise ValueError(f"LESSONS_WITHOUT={text!r}: {unknown[0]!r} is not one of {', '.join(NEEDS)}")

    def ability(self, need: str) -> Ability:
        """The ability behind one need.

        Raises:
            KeyError: `need` is not one of the five.
        """
        if need not in NEEDS:
            raise KeyError(f"{need!r} is none of {', '.join(NEEDS)}")
        if need in self._hidden:
            return Ability(reason=f"{need} is hidden by LESSONS_WITHOUT")
        return getattr(self, need)

    def lacking(self, needs: tuple[str, ...]) -> list[str]:
        """Sentences for the needs that cannot be met here."""
        return [f"{need}: {self.ability(need).reason}" for need in needs if not self.ability(need)]

    def environment(self, needs: tuple[str, ...]) -> dict[str, str]:
        """What an output with these needs may depend on beside the project's code."""
        found = {
            "python": ".".join(platform.python_version_tuple()[:2]),
            "machine": platform.machine(),
            "numpy": _version("numpy"),
        }
        if {"triton", "gpu"} & set(needs) or _version("torch"):
            found |= {"torch": _version("torch"), "triton": _version("triton")}
        for need in ("nvcc", "cxx", "gpu"):
            if need in needs:
                found[need] = self.ability(need).label
        return {name: value for name, value in found.items() if value}

    def label(self, block_needs: tuple[str, ...], evidence: str = "run") -> str:
        """What a reader is told the output was made on."""
        if "gpu" in block_needs:
            return self.gpu.label
        parts = []
        if "triton" in block_needs:
            parts.append(f"Triton {_version('triton')}" + ("" if evidence == "compile" else " interpreted"))
        if "nvcc" in block_needs:
            parts.append(self.nvcc.label)
        if "cxx" in block_needs:
            parts.append("host C++")
        return ", ".join(parts or [f"Python {sys.version_info[0]}.{sys.version_info[1]}"]) + ", CPU"

    @cached_property
    def cpu(self) -> Ability:
        """Python itself."""
        return Ability(label=f"{os.cpu_count()} cores, Python {platform.python_version()}")

    @cached_property
    def triton(self) -> Ability:
        """Triton's interpreter: torch and triton installed."""
        for name in ("torch", "triton"):
            if importlib.util.find_spec(name) is None:
                extra = "" if sys.platform.startswith("linux") else f"; Triton has no wheels for {platform.system()}"
                return Ability(reason=f"{name} is not installed (make install brings it on Linux{extra})")
        return Ability(label=f"Triton {_version('triton')}, torch {_version('torch')}")

    @cached_property
    def nvcc(self) -> Ability:
        """The CUDA compiler, from its wheel or from the system."""
        from kernels import cuda

        try:
            compiler = cuda.compiler()
        except Exception as error:  # the sentence is for the reader, whatever stood in the way
            return Ability(reason=str(error))
        return Ability(label=f"nvcc {compiler.version}")

    @cached_property
    def cxx(self) -> Ability:
        """A C++ compiler that can build the CUDA sources for this machine's CPU, to trace them."""
        from kernels.trace.cuda import why_not

        if reason := why_not():
            return Ability(reason=reason)
        named = os.environ.get("CXX") or ""
        for name in filter(None, (named, "g++", "clang++", "c++")):
            path = shutil.which(name)
            if path:
                done = subprocess.run(
                    [path, "-dumpfullversion", "-dumpversion"], capture_output=True, text=True, check=False
                )
                version = done.stdout.split("\n")[0]
                if done.returncode == 0:
                    return Ability(label=f"{Path(path).name} {version}")
        return Ability(reason="no C++ compiler was found (g++, clang++ or $CXX)")

    @cached_property
    def gpu(self) -> Ability:
        """An NVIDIA GPU that torch can use."""
        if not self.triton:
            return Ability(reason=self.triton.reason)
        if not any(Path(path).exists() for path in ("/dev/nvidia0", "/dev/dxg", "/dev/nvidiactl")) and os.name != "nt":
            return Ability(reason="this machine has no NVIDIA GPU (no /dev/nvidia0)")
        # In a process of its own: the engine's process must not hold a CUDA context.
        code = "import torch; print(torch.cuda.get_device_name() if torch.cuda.is_available() else '')"
        done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
        name = done.stdout.strip()
        if name:
            return Ability(label=name)
        return Ability(reason=f"torch {_version('torch')} cannot use an NVIDIA GPU here")


def digest(environment: dict[str, str]) -> str:
    """Sixteen hex digits of an environment."""
    text = "\n".join(f"{name}={value}" for name, value in sorted(environment.items()))
    return hashlib.sha256(text.encode()).hexdigest()[:16]


def commit(root: Path) -> str:
    """Short hash of the checkout's commit, with a plus sign where files differ from it; empty outside git.

    A copy of the tree without its history is told its commit, `KERNELS_COMMIT`, and that files differ from it:
    `KERNELS_DIRTY=1`.
    """
    if told := os.environ.get("KERNELS_COMMIT"):
        return told[:9] + "+" * (os.environ.get("KERNELS_DIRTY", "0") not in ("", "0"))
    try:
        head = subprocess.run(
            ["git", "rev-parse", "--short=9", "HEAD"], cwd=root, capture_output=True, text=True, check=False
        )
        if head.returncode:
            return ""
        changed = subprocess.run(
            [
                "git",
                "--no-optional-locks",  # the index is not ours to refresh
                "status",
                "--porcelain",
                "--untracked-files=no",
                "--",
                "kernels",
                "cuda",
                "docs",
                "lessons_src",
                ":(exclude)lessons_src/outputs",
            ],
            cwd=root,
            capture_output=True,
            text=True,
            check=False,
        )
    except FileNotFoundError:
        return ""
    return head.stdout.strip() + ("+" if changed.stdout.strip() else "")


@lru_cache
def _version(name: str) -> str:
    try:
        return importlib.metadata.version(name)
    except importlib.metadata.PackageNotFoundError:
        return ""
