"""Where a measurement comes from. Reads, never sets: no clock, limit or mode of the card is touched. No host name, no
path.
"""

import os
import platform
import re
import subprocess
import sys
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from kernels.bench.results import Clocks, Provenance

ROOT = Path(__file__).resolve().parents[2]
_QUERY = "clocks.sm,clocks.mem,power.draw,temperature.gpu,utilization.gpu,power.limit,driver_version"


def gpu_slug(name: str) -> str:
    """A folder name for a GPU: "NVIDIA H200" is h200, "NVIDIA GeForce RTX 4080 SUPER" is rtx-4080-super."""
    words = re.sub(r"[^a-z0-9]+", "-", name.lower()).strip("-")
    words = re.sub(r"^(nvidia|tesla|geforce|quadro)-", "", words)
    return re.sub(r"^(nvidia|tesla|geforce|quadro)-", "", words) or "gpu"


def _smi(index: int = 0) -> list[str]:
    try:
        answer = subprocess.run(
            ["nvidia-smi", f"--id={index}", f"--query-gpu={_QUERY}", "--format=csv,noheader,nounits"],
            capture_output=True,
            text=True,
            timeout=20,
            check=True,
        )
    except (OSError, subprocess.SubprocessError):
        return []
    lines = answer.stdout.strip().splitlines()
    fields = [part.strip() for part in lines[0].split(",")] if lines else []
    return fields if len(fields) == len(_QUERY.split(",")) else []


def driver_version() -> str:
    """The version of NVIDIA's driver, as in "580.65.06"; "unknown" where nvidia-smi is missing or does not say."""
    fields = _smi()
    return fields[6] if fields else "unknown"


def _number(text: str) -> float | None:
    try:
        return float(text)
    except ValueError:
        return None  # "[N/A]"


def clocks() -> Clocks:
    """Clocks, power, temperature and load now; nulls where nvidia-smi is missing or does not say."""
    values = [_number(text) for text in _smi()[:5]] or [None] * 5
    return Clocks(
        sm_mhz=values[0], memory_mhz=values[1], power_w=values[2], temperature_c=values[3], load_percent=values[4]
    )


def commit() -> tuple[str | None, bool | None]:
    """The commit and whether the tree differs from it. KERNELS_COMMIT and KERNELS_DIRTY speak for a copy without a
    .git.
    """
    named = os.environ.get("KERNELS_COMMIT")
    if named:
        dirty = os.environ.get("KERNELS_DIRTY")
        return named, None if dirty is None else dirty not in ("", "0")
    try:
        head = _git("rev-parse", "HEAD")
        return head.strip(), bool(_git("status", "--porcelain", "--untracked-files=no").strip())
    except (OSError, subprocess.SubprocessError):
        return None, None


def _git(*arguments: str) -> str:
    return subprocess.run(
        ["git", "-C", str(ROOT), *arguments], capture_output=True, text=True, timeout=20, check=True
    ).stdout


def command_line(arguments: list[str] | None = None) -> str:
    """The command as a reader would type it: the program's own name, and paths from the project's root."""
    arguments = list(sys.argv if arguments is None else arguments)
    if not arguments:
        return ""
    program = Path(arguments[0]).name
    shown = ["kernel-bench" if program in ("command.py", "__main__.py") else program]
    for word in arguments[1:]:
        flag, equals, value = word.partition("=")
        shown.append(flag + equals + _shorten(value) if equals and flag.startswith("--") else _shorten(word))
    return " ".join(shown)


def _shorten(word: str) -> str:
    path = Path(word)
    if not path.is_absolute():
        return word
    return path.relative_to(ROOT).as_posix() if path.is_relative_to(ROOT) else path.name


def _version(module: str) -> str | None:
    from importlib.metadata import PackageNotFoundError, version

    try:
        return version(module)
    except PackageNotFoundError:
        return None


def provenance(device: Any) -> Provenance:
    """Everything a reader needs to judge a number, taken before the first measurement."""
    import torch

    fields = _smi()
    head, dirty = commit()
    return Provenance(
        gpu=device.name,
        gpu_slug=gpu_slug(device.name),
        sm_count=device.sm_count,
        l2_bytes=device.l2_bytes,
        memory_bytes=device.memory_bytes,
        power_limit_w=_number(fields[5]) if fields else None,
        clocks_before=clocks(),
        driver=fields[6] if fields else None,
        cuda=torch.version.cuda,
        python=platform.python_version(),
        torch=str(torch.__version__),
        triton=_version("triton"),
        commit=head,
        dirty=dirty,
        command=command_line(),
        utc=datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ"),
    )
