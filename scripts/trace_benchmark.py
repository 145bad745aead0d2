"""How fast CUDA kernels are traced on the CPU, and what that costs beside the same kernels untraced.

    python scripts/trace_benchmark.py              a table
    python scripts/trace_benchmark.py --page       also: what tracing Lesson 9's softmax adds to a new process

Times are CPU seconds of one core, the smallest of `--repeat` runs.
"""

from __future__ import annotations

import json
import os
import platform
import subprocess
import sys
from dataclasses import asdict
from pathlib import Path
from typing import Annotated

import numpy as np
import typer
from rich.console import Console
from rich.table import Table

from kernels.trace.cuda import why_not
from kernels.trace.cuda_build import host_compiler
from kernels.trace.cuda_speed import Cost, cost, fiber_costs

EXPECTED_PER_S, EXPECTED_PAGE_S = 10e6, 0.3
_PAGE = """\
import resource
import numpy as np
def clock():
    both = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    return sum(used.ru_utime + used.ru_stime for used in both)
row = np.random.default_rng(9).standard_normal((1, 1000), dtype=np.float32)
out = np.empty_like(row)
began = clock()
from kernels.trace.cuda import trace_cuda_launcher
imported = clock()
trace = trace_cuda_launcher("launch_softmax_parallel", [row, out, 1, 1000, 1000, 1000])
traced = clock()
trace.faults()
print(imported - began, traced - imported, clock() - traced)
"""


def cases(scale: float) -> dict[str, tuple[str, list[object]]]:
    """What is measured: a name, the launcher and its arguments. `scale` shrinks the large ones."""
    generator = np.random.default_rng(0)
    n = max(256, int((1 << 20) * scale))
    x, y = generator.standard_normal((2, n), dtype=np.float32)
    found = {f"vector_add, {n} elements": ("launch_vector_add", [x, y, np.empty_like(x), n])}
    many = max(1, int(64 * scale))
    for kernel, rows, columns in (
        ("softmax_parallel", 1, 1000),
        ("softmax_parallel", many, 4096),
        ("softmax_serial", many, 4096),
        ("softmax_online", many, 4096),
        ("softmax_online_scalar", many, 4096),
    ):
        scores = generator.standard_normal((rows, columns), dtype=np.float32)
        arguments = [scores, np.empty_like(scores), rows, columns, columns, columns]
        found[f"{kernel}, {rows} x {columns}"] = (f"launch_{kernel}", arguments)
    return found


def page_seconds(repeat: int) -> dict[str, float]:
    """CPU seconds of a new process and its children, the library being built: imports, first trace, verdicts."""
    runs = []
    for _ in range(repeat + 1):  # the first one may compile
        done = subprocess.run([sys.executable, "-c", _PAGE], capture_output=True, text=True, check=True)
        runs.append([float(word) for word in done.stdout.split()])
    best = min(runs[1:], key=sum)
    return dict(zip(("imports_s", "trace_s", "faults_s"), best, strict=True)) | {"total_s": sum(best)}


def show(costs: list[Cost], out: Console) -> None:
    """Print the costs as a table."""
    table = Table(box=None, pad_edge=False)
    table.add_column("launch")
    for heading in (
        "accesses",
        "recorded",
        "+ trace",
        "+ verdicts",
        "silent / plain",
        "traced / plain",
        "ns an access",
    ):
        table.add_column(heading, justify="right")
    for each in costs:
        rates = [f"{rate / 1e6:.1f} M/s" for rate in (each.recorded_per_s, each.traced_per_s, each.judged_per_s)]
        ratios = [f"{seconds / each.plain_s:.1f}" for seconds in (each.silent_s, each.traced_s)]
        table.add_row(each.case, str(each.accesses), *rates, *ratios, f"{each.ns_per_access:.0f}")
    out.print(table)


def main(
    scale: Annotated[float, typer.Option(min=1e-4, help="Shrinks the large launches: 0.1 for a tenth.")] = 1.0,
    repeat: Annotated[int, typer.Option(min=1, help="Runs of each; the fastest counts.")] = 5,
    page: Annotated[bool, typer.Option("--page", help="Measure also a new process, as a page's worker is.")] = False,
    json_file: Annotated[Path | None, typer.Option("--json", help="Write all figures to this file.")] = None,
) -> None:
    """Measure the tracer; exits with 1 where it is slower than it should be, with 2 where it cannot run."""
    out = Console(highlight=False, width=140)
    if problem := why_not():
        out.print(problem)
        raise typer.Exit(2)
    compiler = host_compiler()
    machine = {
        "architecture": platform.machine(),
        "cores": os.cpu_count(),
        "load_before": os.getloadavg()[0],
        "python": platform.python_version(),
        "numpy": np.__version__,
        "compiler": f"{compiler.family} {compiler.version}",
    }
    out.print(", ".join(f"{name} {value}" for name, value in machine.items()))
    costs = [cost(name, launcher, args, repeat=repeat) for name, (launcher, args) in cases(scale).items()]
    show(costs, out)
    fibers = fiber_costs(repeat)
    out.print(
        f"fibers: {fibers['thread_ns']:.0f} ns a thread that does nothing, {fibers['barrier_ns']:.0f} ns a thread's "
        f"barrier, {fibers['shuffle_ns']:.0f} ns a lane's shuffle; each is two switches and what the scheduler does"
    )
    extra = {}
    kept = _judge(costs, out)
    if page:
        extra["page"] = seconds = page_seconds(repeat)
        good = seconds["total_s"] <= EXPECTED_PAGE_S
        kept &= good
        out.print(
            f"a new process: imports {seconds['imports_s']:.3f} s, softmax trace {seconds['trace_s']:.3f} s, verdicts "
            f"{seconds['faults_s']:.3f} s; {seconds['total_s']:.3f} s in all "
            f"(expected at most {EXPECTED_PAGE_S}){'' if good else '  NOT KEPT'}"
        )
    if json_file:
        rates = ("recorded_per_s", "traced_per_s", "judged_per_s", "ns_per_access")
        rows = [asdict(each) | {name: getattr(each, name) for name in rates} for each in costs]
        document = {"machine": machine, "launches": rows, "fibers": fibers} | extra
        json_file.write_text(json.dumps(document, indent=1) + "\n", encoding="utf-8")
    raise typer.Exit(0 if kept else 1)


def _judge(costs: list[Cost], out: Console) -> bool:
    """Whether the launches with most accesses are traced fast enough; small ones are all fixed costs."""
    large = [each for each in costs if each.accesses >= 500_000]
    if not large:
        return True
    slowest = min(large, key=lambda each: each.traced_per_s)
    good = slowest.traced_per_s >= EXPECTED_PER_S
    out.print(
        f"slowest large launch, recorded and made into a trace: {slowest.traced_per_s / 1e6:.1f} M accesses a second "
        f"({slowest.case}; expected at least {EXPECTED_PER_S / 1e6:.0f}){'' if good else '  NOT KEPT'}"
    )
    return good


if __name__ == "__main__":
    typer.run(main)
