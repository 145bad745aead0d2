"""Runs Nsight Compute, and Nsight Systems where it is, on one launch of an operator after warm-up."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

import msgspec

from kernels.bench import documents
from kernels.bench.profile_metrics import KernelProfile, Profile, ProfileError, parse, requested

ROOT = Path(__file__).resolve().parents[2]
NCU_LIMIT_S = 240
NSYS_LIMIT_S = 120


def tool(name: str) -> Path | None:
    """A profiler, on PATH or beside the CUDA toolkit; None where there is none."""
    found = shutil.which(name)
    places = [Path(found)] if found else []
    places += [
        Path("/usr/local/cuda/bin") / name,
        *sorted(Path("/opt/nvidia").glob(f"nsight-*/*/{name}"), reverse=True),
    ]
    return next((path for path in places if path.is_file()), None)


def version(program: Path) -> str:
    """What the tool says its version is."""
    done = subprocess.run([str(program), "--version"], capture_output=True, text=True, timeout=60, check=False)
    found = re.search(r"[Vv]ersion:?\s+(\S+)", done.stdout)
    return found[1] if found else "unknown"


def _environment() -> dict[str, str]:
    paths = [str(ROOT), *filter(None, os.environ.get("PYTHONPATH", "").split(os.pathsep))]
    kept = {name: value for name, value in os.environ.items() if name != "TRITON_INTERPRET"}
    return {**kept, "PYTHONPATH": os.pathsep.join(paths)}


def target(op: str, implementation: str, dtype: str, shape: tuple[int, ...]) -> list[str]:
    """The command that a profiler starts."""
    size = "x".join(map(str, shape))
    return [sys.executable, "-m", "kernels.bench.profile_target", op, implementation, dtype, size]


def ncu_command(ncu: Path, log: Path, command: list[str]) -> list[str]:
    """Nsight Compute over what the command launches between profiler start and stop, with the clocks left alone."""
    return [
        str(ncu),
        *("--clock-control", "none", "--target-processes", "all", "--profile-from-start", "off"),
        *("--csv", "--page", "raw", "--print-units", "base", "--log-file", str(log)),
        *("--metrics", ",".join(requested())),
        *command,
    ]


def run_ncu(ncu: Path, command: list[str]) -> list[KernelProfile]:
    """The launches between profiler start and stop, as ncu counted them.

    Raises:
        ProfileError: ncu failed, or showed no launch; the message ends with its own words.
    """
    with tempfile.TemporaryDirectory(prefix="profile_") as folder:
        log = Path(folder) / "ncu.csv"
        try:
            done = subprocess.run(
                ncu_command(ncu, log, command),
                capture_output=True,
                text=True,
                timeout=NCU_LIMIT_S,
                cwd=ROOT,
                env=_environment(),
                check=False,
            )
        except subprocess.TimeoutExpired:
            raise ProfileError(f"ncu did not end within {NCU_LIMIT_S} s.") from None
        said = log.read_text(encoding="utf-8", errors="replace") if log.exists() else ""
    if done.returncode != 0:
        words = "\n".join(line for line in said.splitlines() if line.startswith("=="))
        raise ProfileError(
            f"ncu ended with exit status {done.returncode}:\n{words}\n{(done.stdout + done.stderr)[-2000:]}".rstrip()
        )
    return parse(said)


def run_nsys(nsys: Path, command: list[str]) -> str:
    """Nsight Systems' table of kernels between profiler start and stop, or a sentence that says why there is none."""
    with tempfile.TemporaryDirectory(prefix="profile_") as folder:
        report = Path(folder) / "report"
        steps = (
            [
                str(nsys),
                *("profile", "--trace=cuda", "--sample=none", "--capture-range=cudaProfilerApi"),
                *("--capture-range-end=stop", "--output", str(report), *command),
            ],
            [str(nsys), "stats", "--report", "cuda_gpu_kern_sum", "--format", "table", f"{report}.nsys-rep"],
        )
        for step in steps:
            try:
                done = subprocess.run(
                    step,
                    capture_output=True,
                    text=True,
                    timeout=NSYS_LIMIT_S,
                    cwd=ROOT,
                    env=_environment(),
                    check=False,
                )
            except (OSError, subprocess.TimeoutExpired) as error:
                return f"nsys {step[1]} did not end well: {type(error).__name__}."
            if done.returncode != 0:
                return f"nsys {step[1]} ended with exit status {done.returncode}: {done.stderr.strip()[-500:]}"
        return done.stdout.strip()


def encode(profile: Profile) -> bytes:
    """Strict JSON. Raises ResultsError where a value is no finite number."""
    return documents.encoded(profile)


def decode(data: bytes) -> Profile:
    """Reads what `encode` wrote; msgspec.ValidationError names what does not fit."""
    return msgspec.json.decode(data, type=Profile)
