#!/usr/bin/env python3
"""Run every tool that the guide on profiling names, and keep what it wrote: `tool_reports.py [--output FILE.json]`."""

import sys
from pathlib import Path
from typing import Annotated

import typer

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from kernels.bench import provenance, tool_reports
from kernels.bench.device import gpu_missing
from kernels.sources.files import write_whole

app = typer.Typer(add_completion=False, pretty_exceptions_enable=False)


@app.command(name="tool_reports")
def collect(
    tool: Annotated[list[str] | None, typer.Option(help="Only this report; repeat for more.")] = None,
    output: Annotated[
        Path | None, typer.Option(help="Where to write the JSON. Default: results/local/tool-reports.json.")
    ] = None,
) -> None:
    """Run the commands one after the other; a tool that is missing or fails is recorded as that.

    Exit status: 0 written, 2 wrong usage, 3 no GPU here.
    """
    known = {each.key: each for each in tool_reports.TOOLS}
    unknown = [name for name in tool or [] if name not in known]
    if unknown:
        raise typer.BadParameter(f"There is no report {unknown[0]!r}; there are {', '.join(known)}.")
    missing = gpu_missing()
    if missing:
        typer.echo(f"{missing} The tools look at kernels on a GPU.", err=True)
        raise typer.Exit(3)
    from kernels.bench.device import CudaDevice

    document = tool_reports.ToolReports(provenance=provenance.provenance(CudaDevice()), reports=[])
    path = output or Path("results/local/tool-reports.json")
    for each in [known[name] for name in tool] if tool else tool_reports.TOOLS:
        report = tool_reports.look(each)
        document.reports.append(report)
        typer.echo(f"{report.key}: {report.status}" + (f", {report.seconds:.1f} s" if report.seconds else ""))
        write_whole(path, tool_reports.encode(document))
    typer.echo(f"Written: {path}", err=True)


if __name__ == "__main__":
    app(prog_name="tool_reports.py")
