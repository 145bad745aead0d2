"""What each profiling and checking tool says of a kernel of ours, kept as text: the reports of the guide on profiling.

A report is a command that a reader can type, and what it wrote. A tool that a machine does not have leaves a report as
well: that it is missing. Nothing here is compared; a report belongs to its GPU, its day and its kernel.
"""

from __future__ import annotations

import contextlib
import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import msgspec

from kernels.bench import documents
from kernels.bench.profiling import ROOT, tool, version
from kernels.bench.results import Provenance, hash_today

SCHEMA_VERSION = 1
KEPT_LINES = 70
"""Of each report: its beginning and its end, where it is longer."""
_SOFTMAX = "kernels.ops.softmax:_launch"


@dataclass(frozen=True)
class Tool:
    """A tool, and the command that shows what it is good for. `program` is looked for; "" where Python has it."""

    key: str
    name: str
    program: str
    shows: str
    command: str
    limit_s: float = 30.0
    source: str = ""


FOUND = re.compile(r"ERROR SUMMARY: [1-9]")

TOOLS = (
    Tool(
        "ncu",
        "Nsight Compute",
        "ncu",
        "one launch: the hardware's counters",
        "python scripts/profile_kernel.py --op softmax --shape 16384x4096 --dtype float32",
        60.0,
        _SOFTMAX,
    ),
    Tool(
        "nsys",
        "Nsight Systems",
        "nsys",
        "a whole program on a time line",
        "nsys profile --trace=cuda --stats=true --output build/softmax --force-overwrite true "
        "python -m kernels.bench.profile_target softmax triton float32 16384x4096",
        60.0,
        _SOFTMAX,
    ),
    Tool(
        "memcheck-pool",
        "compute-sanitizer, memcheck",
        "compute-sanitizer",
        "accesses outside an allocation",
        "compute-sanitizer --tool memcheck python lessons_src/examples/reads_too_far.py",
        60.0,
    ),
    Tool(
        "memcheck",
        "compute-sanitizer, memcheck",
        "compute-sanitizer",
        "accesses outside an allocation, with PyTorch's pool of memory off",
        "PYTORCH_NO_CUDA_MEMORY_CACHING=1 compute-sanitizer --tool memcheck --print-limit 2 "
        "python lessons_src/examples/reads_too_far.py",
        60.0,
    ),
    Tool(
        "racecheck",
        "compute-sanitizer, racecheck",
        "compute-sanitizer",
        "threads of a block that do not wait for each other",
        "nvcc -arch=native -lineinfo -o build/missing_barrier tests/cuda/plants/missing_barrier.cu && "
        "compute-sanitizer --tool racecheck build/missing_barrier",
        40.0,
    ),
    Tool(
        "torch",
        "PyTorch's profiler",
        "",
        "calls of a program: host and GPU time of each",
        "python lessons_src/examples/profile_with_torch.py",
        30.0,
        _SOFTMAX,
    ),
    Tool(
        "proton",
        "Proton, Triton's profiler",
        "",
        "launches, in scopes that the program names",
        "python lessons_src/examples/profile_with_proton.py",
        30.0,
        _SOFTMAX,
    ),
)


class Report(msgspec.Struct, kw_only=True, forbid_unknown_fields=True):
    """What became of one command. `text` is what it wrote, errors among it, without the places of this machine."""

    key: str
    name: str
    shows: str
    command: str
    status: Literal["ok", "missing", "failed", "too_long"]
    version: str | None = None
    exit_status: int | None = None
    seconds: float | None = None
    text: str = ""
    source: str = ""
    source_hash: str = ""

    @property
    def stale(self) -> bool:
        """Whether the kernel that was looked at has changed since."""
        return bool(self.source) and hash_today(self.source) != self.source_hash


class ToolReports(msgspec.Struct, kw_only=True, forbid_unknown_fields=True):
    """All reports of one run on one machine."""

    schema_version: int = SCHEMA_VERSION
    provenance: Provenance
    reports: list[Report]

    def of(self, key: str) -> Report:
        """The report of that key. Raises KeyError with a sentence."""
        for report in self.reports:
            if report.key == key:
                return report
        known = ", ".join(report.key for report in self.reports)
        raise KeyError(f"There is no report {key!r}; there are {known}.")


def cleaned(text: str, root: Path = ROOT, kept: int = KEPT_LINES) -> str:
    """Without colours, the places of this machine's files, and the middle of what is longer than `kept` lines."""
    text = re.sub(r"\x1b\[[0-9;]*m", "", text.replace("\r\n", "\n")).replace(f"{root}/", "")
    text = re.sub(r"(?<![\w.:])/(?:[\w.+@-]+/)+(?=[\w.+@-])", "…/", text)
    text = re.sub(r"\bhost \S+\b", "host", text)
    lines = [line.rstrip() for line in text.strip("\n").split("\n")]
    if len(lines) > kept:
        tail = kept // 4
        left_out = len(lines) - kept
        lines = [*lines[: kept - tail], f"… {left_out} lines left out …", *lines[-tail:]]
    return "\n".join(lines)


def told_version(program: Path) -> str:
    """What the tool says its version is, or that it did not say."""
    try:
        return version(program)
    except (OSError, subprocess.SubprocessError):
        return "unknown"


def look(
    each: Tool,
    find: Callable[[str], Path | None] = tool,
    root: Path = ROOT,
    python: str = sys.executable,
) -> Report:
    """Run one tool's command, or say that the tool is missing. It never raises for what the command does."""
    report = Report(
        key=each.key,
        name=each.name,
        shows=each.shows,
        command=each.command,
        status="missing",
        source=each.source,
        source_hash=(hash_today(each.source) or "") if each.source else "",
    )
    programs = [name for name in (each.program, "nvcc" if "nvcc " in each.command else "") if name]
    found = {name: find(name) for name in programs}
    missing = [name for name, path in found.items() if path is None]
    if missing:
        report.text = f"{' and '.join(missing)}: not on PATH, nor beside the CUDA toolkit of this machine."
        return report
    if each.program:
        report.version = told_version(found[each.program])
    folders = [str(path.parent) for path in found.values() if path]
    kept = {name: value for name, value in os.environ.items() if name != "TRITON_INTERPRET"}
    here = {
        **kept,
        "PATH": os.pathsep.join([*folders, os.environ.get("PATH", "")]),
        "PYTHONPATH": os.pathsep.join([str(root), *filter(None, [os.environ.get("PYTHONPATH", "")])]),
    }
    (root / "build").mkdir(exist_ok=True)
    began = time.monotonic()
    command = re.sub(r"(?<![\w/-])python(?= )", f'"{python}"', each.command)
    process = subprocess.Popen(
        ["bash", "-c", command],
        cwd=root,
        env=here,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        stdin=subprocess.DEVNULL,
        start_new_session=True,  # a tool starts the program that it watches: both end together
    )
    try:
        said, _ = process.communicate(timeout=each.limit_s)
        report.exit_status = process.returncode
        # A program whose fault was found may end with it: CUDA tells it of the access that the tool stopped.
        found_fault = each.program == "compute-sanitizer" and FOUND.search(said.decode("utf-8", errors="replace"))
        report.status = "ok" if process.returncode == 0 or found_fault else "failed"
    except subprocess.TimeoutExpired:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        said, _ = process.communicate()
        report.status = "too_long"
    report.seconds = time.monotonic() - began
    report.text = cleaned(said.decode("utf-8", errors="replace"), root)
    return report


def encode(document: ToolReports) -> bytes:
    """Strict JSON. Raises ResultsError where a value is no finite number."""
    return documents.encoded(document)


def read(path: Path) -> ToolReports | None:
    """The document in a file; None where there is no such file. Raises ResultsError with a sentence."""
    try:
        data = path.read_bytes()
    except FileNotFoundError:
        return None
    return documents.decoded(data, ToolReports, path.name, "document of tool reports")
