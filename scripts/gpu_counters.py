#!/usr/bin/env python3
"""Reads the hardware's memory counters for every CUDA kernel and shape: `gpu_counters.py [--output FOLDER] [--wide]`.

It runs the program of cuda/gpu_trace/ under Nsight Compute's `ncu`, with the clocks left alone, and writes
results/<gpu>/gpu_trace/counters.json. `--wide` also reads every counter with a related name, into
build/gpu_trace/counters.csv, for looking at. vector_add on 257 elements must give 18 load requests and 66 load sectors.

Exit status: 0 recorded, 1 ncu failed or its numbers are wrong, 3 the compiler or ncu is missing.
"""

import argparse
import csv
import json
import re
import subprocess
import sys
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent))
sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from gpu_trace import WORK, origin

from kernels.bench.provenance import gpu_slug
from kernels.cuda import BuildFailed, CompilerMissing
from kernels.cuda.recorder import build_driver, profiler
from kernels.sources import fingerprint, project_root
from kernels.trace.counters import METRICS
from kernels.trace.gpu_record import CounterCase, Counters, RecordError, write

RELATED = re.compile(
    r"^(l1tex__(t_requests|t_sectors|t_set_conflicts)_pipe_lsu_mem_(global|shared)_op_(ld|st)"
    r"|l1tex__data_(pipe_lsu_wavefronts|bank_conflicts_pipe_lsu)(_mem_shared)?(_op_(ld|st))?"
    r"|l1tex__data_bank_(reads|writes)|l1tex__data_pipe_lsu_wavefronts_mem_shared_cmd_(read|write)"
    r"|smsp__(sass_)?inst_executed_op_(global|shared|ld|st)(_ld|_st)?"
    r"|smsp__sass_l1tex_data_bank_conflicts_pipe_lsu_mem_shared_op_(ld|st)"
    r"|smsp__sass_l1tex_data_pipe_lsu_wavefronts_mem_shared_op_(ld|st)"
    r"|smsp__sass_l1tex_t_(requests|sectors)_pipe_lsu_mem_global_op_(ld|st))$"
)


def known_metrics(ncu: Path) -> set[str]:
    """The names of this GPU's counters, without ".sum"; empty where ncu does not tell."""
    done = subprocess.run([str(ncu), "--query-metrics"], capture_output=True, text=True, timeout=60, check=False)
    (WORK / "metrics.txt").write_text(done.stdout + done.stderr, encoding="utf-8")
    return {line.split()[0] for line in done.stdout.splitlines() if re.match(r"\w+__\w+\s", line)}


def profile(ncu: Path, driver: Path, metrics: list[str], name: str) -> tuple[list[dict], list[dict]]:
    """Runs the program under ncu; returns the program's lines and, for each launch, ncu's row."""
    log = WORK / f"{name}.csv"
    log.unlink(missing_ok=True)
    command = [str(ncu), "--clock-control", "none", "--target-processes", "all", "--csv", "--page", "raw"]
    command += ["--print-units", "base", "--metrics", ",".join(metrics), "--log-file", str(log), str(driver)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=150, check=False)
    said = log.read_text(encoding="utf-8") if log.exists() else ""
    if done.returncode != 0:
        raise RecordError(f"ncu ended with exit status {done.returncode}:\n{said[-3000:]}{done.stdout}{done.stderr}")
    rows = list(csv.DictReader(line for line in said.splitlines() if line.startswith('"')))
    rows = [row for row in rows if (row.get("ID") or "").strip().isdigit()]  # the second line holds the units
    lines = [json.loads(line) for line in done.stdout.splitlines() if line.startswith("{")]
    if len(rows) != len(lines):
        raise RecordError(f"the program made {len(lines)} launches and ncu shows {len(rows)}:\n{said[:2000]}")
    return lines, rows


def value(row: dict, metric: str) -> int | None:
    """A counter as a number; None where ncu has none."""
    text = (row.get(metric) or "").replace(",", "").strip()
    try:
        return round(float(text))
    except ValueError:
        return None


def record(ncu: Path, driver: Path, output: Path | None) -> None:
    """Writes the counters, after the ones whose values are known were compared."""
    known = known_metrics(ncu)
    missing = [m for m in METRICS.values() if known and m.removesuffix(".sum") not in known]
    if missing:
        print("ncu does not list", ", ".join(missing))
    asked = [m for m in METRICS.values() if m not in missing]
    lines, rows = profile(ncu, driver, asked, "counters")
    version = subprocess.run([str(ncu), "--version"], capture_output=True, text=True, timeout=60, check=False).stdout
    found = re.search(r"Version (\S+)", version)
    where = origin(f"ncu {found[1] if found else 'of unknown version'}", "scripts/gpu_counters.py")
    cases = []
    for line, row in zip(lines, rows, strict=True):
        if line["kernel"] not in row["Kernel Name"]:
            raise RecordError(f"the program launched {line['kernel']} and ncu shows {row['Kernel Name']}")
        source = f"{line['source']}:launch_{line['kernel']}"
        values = {name: value(row, metric) for name, metric in METRICS.items()}
        cases.append(
            CounterCase(
                kernel=line["kernel"],
                source=source,
                source_hash=fingerprint(source),
                shape=line["shape"],
                values=values,
            )
        )
        print(line["kernel"], line["shape"], values)
    folder = output or project_root() / "results" / gpu_slug(where.gpu) / "gpu_trace"
    write(Counters(origin=where, metrics=METRICS, cases=cases), folder / "counters.json")
    first = next(case.values for case in cases if case.shape == {"n": 257})
    seen = first["global_load_requests"], first["global_load_sectors"]
    if seen != (18, 66):
        raise RecordError(f"vector_add on 257 elements: {seen[0]} load requests and {seen[1]} sectors, not 18 and 66")


def wide(ncu: Path, driver: Path) -> None:
    """Every related counter, for a person to read."""
    metrics = sorted(f"{name}.sum" for name in known_metrics(ncu) if RELATED.match(name))
    print(f"{len(metrics)} related counters")
    if metrics:
        profile(ncu, driver, metrics, "counters-wide")


def main() -> int:
    parser = argparse.ArgumentParser(description="Read the memory counters of the CUDA kernels with ncu.")
    parser.add_argument("--output", type=Path, metavar="FOLDER", help="default: results/<gpu>/gpu_trace")
    parser.add_argument("--wide", action="store_true", help="also read related counters, into build/gpu_trace/")
    chosen = parser.parse_args()
    ncu = profiler()
    if ncu is None:
        print("There is no ncu on PATH or in /usr/local/cuda/bin; it comes with Nsight Compute.", file=sys.stderr)
        return 3
    try:
        began = time.monotonic()
        driver = build_driver(WORK)
        record(ncu, driver, chosen.output)
        print(f"counters read in {time.monotonic() - began:.1f} s")
        if chosen.wide:
            wide(ncu, driver)
            print(f"and related ones: {time.monotonic() - began:.1f} s in all")
    except CompilerMissing as missing:
        print(missing, file=sys.stderr)
        return 3
    except (BuildFailed, RecordError, subprocess.SubprocessError) as failure:
        print(failure, file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
