"""cuobjdump: which one, and what it shows."""

from __future__ import annotations

import importlib.util
import re
import shutil
from functools import lru_cache
from pathlib import Path

from kernels.inspect.facts import clean_sass
from kernels.sources.processes import answered


@lru_cache(maxsize=1)
def cuobjdump() -> Path | None:
    """The disassembler: the one in Triton's wheel, for one text on all machines; else a toolkit's; or None."""
    spec = importlib.util.find_spec("triton")
    for root in (spec.submodule_search_locations or []) if spec else []:
        candidate = Path(root) / "backends" / "nvidia" / "bin" / "cuobjdump"
        if candidate.exists():
            return candidate
    found = shutil.which("cuobjdump") or shutil.which("/usr/local/cuda/bin/cuobjdump")
    return Path(found) if found else None


@lru_cache(maxsize=1)
def version() -> str:
    """Its version, or "none"."""
    tool = cuobjdump()
    if tool is None:
        return "none"
    done = answered([tool, "--version"], 60)
    match = re.search(r"V([\d.]+)", done.stdout)
    return match[1] if match else "unknown"


def disassemble(cubin: Path) -> dict[str, str]:
    """The machine instructions of each kernel in a cubin, by its (mangled) name; empty without a disassembler."""
    tool = cuobjdump()
    if tool is None:
        return {}
    done = answered([tool, "-sass", cubin], 120)
    if done.returncode != 0:
        raise RuntimeError(f"{tool} could not disassemble the kernel: {done.stderr.strip()}")
    pieces = re.split(r"^\s*Function : (\S+)\s*$", done.stdout, flags=re.M)
    return {name: clean_sass(text) for name, text in zip(pieces[1::2], pieces[2::2], strict=True)}
