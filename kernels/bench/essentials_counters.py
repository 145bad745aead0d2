"""What ncu and compute-sanitizer say of the Essentials' kernels: one launch of each, and reports of planted faults.

`python -m kernels.bench.essentials_counters` is the program that ncu starts.
"""

from __future__ import annotations

import csv
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

from kernels.bench.essentials import Row, Topic
from kernels.bench.essentials_probes import hashes
from kernels.bench.profile_metrics import METRICS, STALLS, ProfileError, number
from kernels.bench.profiling import tool, version
from kernels.sources import project_root
from kernels.sources.processes import COMPILE_S, answered
from kernels.trace.counters import METRICS as ACCESSES

EXTRA = {
    "warps_eligible": "smsp__warps_eligible.avg.per_cycle_active",
    "issue_percent": "smsp__issue_active.avg.pct_of_peak_sustained_active",
    "threads_an_instruction": "smsp__thread_inst_executed_per_inst_executed.ratio",
    "l1_hit_percent": "l1tex__t_sector_hit_rate.pct",
    "local_load_sectors": "l1tex__t_sectors_pipe_lsu_mem_local_op_ld.sum",
    "memory_percent": "gpu__compute_memory_throughput.avg.pct_of_peak_sustained_elapsed",
}
_STALL = "smsp__average_warps_issue_stalled_{}_per_issue_active.ratio"
PLANTS = {"memcheck": "out_of_bounds", "racecheck": "missing_barrier"}


def targets() -> list[tuple[str, Callable[[], object]]]:
    """What is profiled: a name, and a call that launches one kernel."""
    import torch

    from kernels.cuda import essentials, patterns

    n = 1 << 22
    x = torch.ones(32 * n, device="cuda")
    by_warp, by_lane = lane_kinds(1 << 20)
    square = x[: 4096 * 4096].view(4096, 4096)
    short = x[: 1 << 20].contiguous()
    strip = x[: essentials.STRIP << 18].view(essentials.STRIP, 1 << 18)
    sums = x[: 8 * 132 * 256].contiguous()
    return [
        ("copy_strided, stride 1", lambda: essentials.copy_strided(x, n, 1)),
        ("copy_strided, one element off", lambda: essentials.copy_strided(x, n, 1, 1)),
        ("copy_strided, stride 8", lambda: essentials.copy_strided(x, n, 8)),
        ("copy_strided, stride 32", lambda: essentials.copy_strided(x, n, 32)),
        ("copy_float4", lambda: essentials.copy_float4(x[:n])),
        ("transpose_direct", lambda: essentials.transpose_direct(square)),
        ("transpose_tile_32", lambda: patterns.transpose_tile_32(square)),
        ("transpose_tile_33", lambda: patterns.transpose_tile_33(square)),
        ("transpose_swizzled", lambda: essentials.transpose_swizzled(square)),
        ("block_sums_shuffle", lambda: essentials.block_sums(sums, "shuffle", 100)),
        ("block_sums_shared", lambda: essentials.block_sums(sums, "shared", 100)),
        ("block_sums_atomic", lambda: essentials.block_sums(sums, "atomic", 100)),
        ("two_paths, one kind a warp", lambda: essentials.two_paths(short, by_warp, 256)),
        ("two_paths, every other lane", lambda: essentials.two_paths(short, by_lane, 256)),
        ("copy_resident, 1 block", lambda: essentials.copy_resident(x[:n], 132, 256, 226 << 10, 1)),
        ("copy_resident, 8 blocks", lambda: essentials.copy_resident(x[:n], 8 * 132, 256, 0, 1)),
        ("strip_products_1", lambda: essentials.strip_products(strip, 1)),
        ("strip_products_6", lambda: essentials.strip_products(strip, 6)),
    ]


def lane_kinds(n: int) -> tuple[Any, Any]:
    """For each of n threads, a kind that its whole warp has, and one that its neighbours do not have."""
    import torch

    lane = torch.arange(n, device="cuda", dtype=torch.int32)
    return lane // 32 % 2, lane % 2


def main() -> int:
    """Launches every target once for warming up, and once between profiler start and stop. Prints the names."""
    import torch

    prepared = targets()
    for _, call in prepared:
        call()
    torch.cuda.synchronize()
    for name, call in prepared:
        torch.cuda.cudart().cudaProfilerStart()
        call()
        torch.cuda.synchronize()
        torch.cuda.cudart().cudaProfilerStop()
        print(name, flush=True)
    return 0


def counters(device: Any) -> Topic:
    """A row a launch, with ncu's numbers under our names, and cycles waited for each instruction by reason."""
    ncu = tool("ncu")
    if ncu is None:
        raise ProfileError("Nsight Compute's ncu is not on this machine.")
    wanted = {m.name: (m.ncu, m.scale) for m in METRICS}
    wanted |= {name: (ncu_name, 1.0) for name, ncu_name in {**ACCESSES, **EXTRA}.items()}
    wanted |= {f"stall_{name}": (_STALL.format(name), 1.0) for name in STALLS}
    with tempfile.TemporaryDirectory(prefix="counters_") as folder:
        log = Path(folder) / "ncu.csv"
        command = [str(ncu), "--clock-control", "none", "--target-processes", "all", "--profile-from-start", "off"]
        command += ["--csv", "--page", "raw", "--print-units", "base", "--log-file", str(log)]
        command += ["--metrics", ",".join(dict.fromkeys(name for name, _ in wanted.values()))]
        command += [sys.executable, "-m", "kernels.bench.essentials_counters"]
        done = answered(command, 90, cwd=project_root())
        text = log.read_text(encoding="utf-8") if log.exists() else ""
    if done.returncode != 0:
        raise ProfileError(f"ncu ended with {done.returncode}: {(text + done.stdout + done.stderr)[-600:]}")
    return Topic(
        what=f"one launch of each kernel under ncu {version(ncu)}",
        hashes=hashes("copy_strided", "copy_float4", file="cuda/strided.cu")
        | hashes("transpose_direct", "transpose_swizzled", file="cuda/transposes.cu")
        | hashes("transpose_tile_32", "transpose_tile_33", file="cuda/patterns.cu")
        | hashes("block_sums_shuffle", "block_sums_shared", "block_sums_atomic", file="cuda/reductions.cu")
        | hashes("two_paths", file="cuda/divergence.cu")
        | hashes("copy_resident", "strip_products_1", "strip_products_6", file="cuda/residency.cu"),
        rows=read_rows(text, done.stdout.splitlines(), wanted),
    )


def read_rows(text: str, names: list[str], wanted: dict[str, tuple[str, float]]) -> list[Row]:
    """The launches of ncu's raw CSV page that are ours, in order, with the names that the program printed.

    PyTorch's own launches are left out.

    Raises:
        ProfileError: there are not as many of ours as names.
    """
    table = list(csv.DictReader(line for line in text.splitlines() if line.startswith('"')))
    launches = [row for row in table if (row.get("ID") or "").strip().isdigit() and "at::" not in row["Kernel Name"]]
    names = [line for line in names if line and not line.startswith("==")]
    if len(launches) != len(names):
        raise ProfileError(f"ncu shows {len(launches)} launches of ours, and the program named {len(names)}.")
    rows = []
    for name, launch in zip(names, launches, strict=True):
        values = {key: number(launch.get(ncu_name)) for key, (ncu_name, _) in wanted.items()}
        kept = {key: value * wanted[key][1] for key, value in values.items() if value is not None}
        rows.append(Row(name=name, settings={"kernel": launch["Kernel Name"].split("(")[0]}, values=kept))
    return rows


def reports(device: Any) -> Topic:
    """compute-sanitizer's own words about planted faults: a row a tool."""
    from kernels.cuda.toolchain import compiler

    sanitizer = tool("compute-sanitizer")
    if sanitizer is None:
        raise ProfileError("compute-sanitizer is not on this machine.")
    nvcc, rows = compiler(), []
    with tempfile.TemporaryDirectory(prefix="plants_") as folder:
        for name, plant in PLANTS.items():
            program = Path(folder) / plant
            source = f"tests/cuda/plants/{plant}.cu"
            command = [str(nvcc.nvcc), *nvcc.flags, "-arch=native", "-lineinfo", "-o", str(program), source]
            built = answered(command, COMPILE_S, cwd=project_root())
            if built.returncode != 0:
                raise ProfileError(f"nvcc could not compile {source}:\n{built.stderr}")
            done = answered([sanitizer, "--tool", name, program], 60, cwd=project_root())
            lines = [line for line in done.stdout.splitlines() if line.startswith("=========") and folder not in line]
            rows.append(Row(name=name, settings={"plant": source, "lines": len(lines)}, said="\n".join(lines[:24])))
    return Topic(what="compute-sanitizer on planted faults", hashes={}, rows=rows)


if __name__ == "__main__":
    sys.exit(main())
