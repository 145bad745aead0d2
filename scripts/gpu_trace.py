#!/usr/bin/env python3
"""Records what the CUDA kernels really access on this machine's GPU: `gpu_trace.py [--output FOLDER] [--check]`.

It compiles cuda/gpu_trace/ with nvcc, runs every kernel on every test shape with the recorder injected, and writes one
file a kernel to results/<gpu>/gpu_trace/. Before that, vector_add on 257 elements must give exactly 514 reads and 257
writes. `--check` stops there. Nothing about the card is changed.

Exit status: 0 recorded, 1 the recorder failed or its numbers are wrong, 3 the compiler or the Sanitizer API is missing.
"""

import argparse
import json
import os
import subprocess
import sys
import time
from datetime import UTC, datetime
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

import numpy as np

from kernels.bench.provenance import commit, driver_version, gpu_slug
from kernels.cuda import BuildFailed, CompilerMissing, compiler
from kernels.cuda.building import FLAGS
from kernels.cuda.recorder import SanitizerMissing, build_driver, build_recorder, sanitizer_api
from kernels.sources import fingerprint, project_root
from kernels.trace.gpu_log import read_log, to_case, to_trace
from kernels.trace.gpu_record import Origin, Record, RecordError, write

WORK = project_root() / "build" / "gpu_trace"
WAYS = ("CUDA_INJECTION64_PATH", "LD_PRELOAD")  # how the library gets into the program; the second is a last resort


def gpu_name() -> str:
    """The first GPU's name, as the driver tells."""
    command = ["nvidia-smi", "--id=0", "--query-gpu=name", "--format=csv,noheader"]
    return subprocess.run(command, capture_output=True, text=True, timeout=30, check=True).stdout.strip()


def origin(tool: str, command: str) -> Origin:
    """The card, the software and the moment."""
    head, dirty = commit()
    return Origin(
        gpu=gpu_name(),
        driver=driver_version(),
        compiler=compiler().identity,
        flags=" ".join(FLAGS),
        tool=tool,
        commit=head,
        dirty=dirty,
        command=command,
        utc=datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ"),
    )


def run(way: str, recorder: tuple[Path, Path], driver: Path, log: Path, *options: str) -> list[dict]:
    """Runs the driver with the recorder in it; returns the driver's lines. RecordError with all it said if it fails."""
    log.unlink(missing_ok=True)
    environment = os.environ | {
        way: str(recorder[0]), "GPU_TRACE_PATCHES": str(recorder[1]), "GPU_TRACE_FILE": str(log),
        "GPU_TRACE_VERBOSE": "1", "CUDA_MODULE_LOADING": "EAGER",
    }  # fmt: skip
    done = subprocess.run(
        [str(driver), *options], env=environment, capture_output=True, text=True, timeout=150, check=False
    )
    log.with_suffix(".err").write_text(done.stderr, encoding="utf-8")
    if done.returncode != 0 or not log.exists():
        what = f"exit status {done.returncode}" + ("" if log.exists() else ", and the recorder wrote nothing")
        raise RecordError(f"the recorded program failed through {way}: {what}\n{done.stdout}{done.stderr}")
    return [json.loads(line) for line in done.stdout.splitlines()]


def check(recorder: tuple[Path, Path], driver: Path) -> str:
    """Records vector_add on 257 elements, whose counts are known; returns the way of injection that worked."""
    problems = []
    for way in WAYS:
        try:
            (line,) = run(way, recorder, driver, WORK / "check.bin", "--first")
            (launch,) = read_log(WORK / "check.bin")
            trace = to_trace(launch, line["buffers"], line["reserved_shared"])
            counts = [len(trace.select(what=what)) for what in ("read", "write")]
            if counts == [514, 257]:
                print(f"vector_add, n = 257, through {way}: 514 reads and 257 writes, as they must be")
                return way
            said = (WORK / "check.err").read_text(encoding="utf-8")
            problems.append(f"through {way}: {counts[0]} reads and {counts[1]} writes, not 514 and 257\n{said}")
        except (RecordError, ValueError, subprocess.TimeoutExpired) as problem:
            said = WORK / "check.err"
            problems.append(f"through {way}: {problem}\n{said.read_text(encoding='utf-8') if said.exists() else ''}")
    raise RecordError("the recorder does not work here:\n" + "\n".join(problems))


def record_all(way: str, recorder: tuple[Path, Path], driver: Path, output: Path | None, command: str) -> int:
    """Records everything; returns the number of launches. Prints a line a launch."""
    began = time.monotonic()
    lines = run(way, recorder, driver, WORK / "all.bin")
    launches = read_log(WORK / "all.bin")
    print(f"{len(lines)} launches recorded in {time.monotonic() - began:.1f} s")
    if len(lines) != len(launches):
        raise RecordError(f"the program made {len(lines)} launches and the recorder saw {len(launches)}")
    where = origin("Sanitizer API of compute-sanitizer " + sanitizer_version(), command)
    folder = output or project_root() / "results" / gpu_slug(where.gpu) / "gpu_trace"
    records: dict[str, Record] = {}
    summary, problems = [], []
    for line, launch in zip(lines, launches, strict=True):
        kernel, source = line["kernel"], f"{line['source']}:launch_{line['kernel']}"
        if kernel not in launch.kernel:
            raise RecordError(f"the program launched {kernel} and the recorder saw {launch.kernel}")
        try:
            trace = to_trace(launch, line["buffers"], line["reserved_shared"])
        except RecordError as problem:
            problems.append(str(problem))
            first = {name: column[:2000] for name, column in launch.columns.items()}
            np.savez_compressed(WORK / f"problem-{len(problems)}-{kernel}.npz", **first)
            continue
        case = to_case(launch, trace, line["shape"], line["buffers"])
        record = records.setdefault(
            kernel,
            Record(kernel=kernel, source=source, source_hash=fingerprint(source), origin=where, cases=[]),
        )
        record.cases.append(case)
        groups = [(g.space, g.buffer, g.what, g.size, g.accesses) for g in case.groups]
        instructions = {
            f"{number}": [int((trace.columns["site"] == number).sum()), *_of(trace, number)]
            for number in range(len(trace.sites))
        }
        summary.append({"kernel": kernel, "shape": line["shape"], "groups": groups, "derived": case.by_instruction,
                        "instructions": instructions})  # fmt: skip
        print(kernel, line["shape"], groups)
    for kernel, record in records.items():
        write(record, folder / f"{kernel}.json")
    (WORK / "summary.json").write_text("\n".join(json.dumps(entry) for entry in summary) + "\n", encoding="utf-8")
    if problems:
        raise RecordError("; ".join(dict.fromkeys(problems)))
    return len(launches)


def _of(trace, number: int) -> list:
    """Kind, buffer and width of one instruction."""
    row = trace[int((trace.columns["site"] == number).argmax())]
    return [row.what, row.buffer, row.size]


def sanitizer_version() -> str:
    """The version that sanitizer.h's neighbour states, as "2025.3.1", or "of unknown version"."""
    api = sanitizer_api(compiler())
    for tool in (api.library / "compute-sanitizer", api.library.parent / "bin" / "compute-sanitizer"):
        if tool.exists():
            said = subprocess.run([str(tool), "--version"], capture_output=True, text=True, timeout=60, check=False)
            words = [word for word in said.stdout.split() if word[:1].isdigit() and word.count(".") >= 1]
            return words[0] if words else "of unknown version"
    return "of unknown version"


def main() -> int:
    parser = argparse.ArgumentParser(description="Record the memory accesses of the CUDA kernels on this GPU.")
    parser.add_argument("--output", type=Path, metavar="FOLDER", help="default: results/<gpu>/gpu_trace")
    parser.add_argument("--check", action="store_true", help="only record vector_add on 257 elements and compare")
    chosen = parser.parse_args()
    try:
        began = time.monotonic()
        driver, recorder = build_driver(WORK), build_recorder(WORK)
        print(f"built in {time.monotonic() - began:.1f} s with {compiler()}")
        way = check(recorder, driver)
        if not chosen.check:
            record_all(way, recorder, driver, chosen.output, "scripts/gpu_trace.py")
    except (CompilerMissing, SanitizerMissing) as missing:
        print(missing, file=sys.stderr)
        return 3
    except (BuildFailed, RecordError, subprocess.SubprocessError) as failure:
        print(failure, file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
