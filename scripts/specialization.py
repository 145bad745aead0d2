#!/usr/bin/env python3
"""What it is worth that Triton knows a width: `specialization.py [--output FILE.json]`."""

import sys
from pathlib import Path
from typing import Annotated

import typer

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from kernels.bench import specialization as experiment
from kernels.bench.device import gpu_missing
from kernels.bench.results import ResultsError, Writer
from kernels.inspect.facts import InspectionFailed, ToolMissing

app = typer.Typer(add_completion=False, pretty_exceptions_enable=False)


@app.command()
def specialization(
    arch: Annotated[int, typer.Option(help="Compute capability to compile for.")] = 90,
    compile_only: Annotated[bool, typer.Option("--compile-only", help="Instructions alone; needs no GPU.")] = False,
    iters: Annotated[int, typer.Option(min=1, help="Samples of each variant.")] = 30,
    output: Annotated[
        Path | None, typer.Option(help="Results file to write. Default: results/local/scale_rows.json.")
    ] = None,
) -> None:
    """Compile and time five kernels that differ only in what is known of a width.

    Exit status: 0 done, 1 a wrong result or a kernel that does not compile, 2 wrong usage, 3 no tool or no GPU.
    """
    try:
        facts = experiment.compiled(arch)
    except ToolMissing as error:
        typer.echo(str(error), err=True)
        raise typer.Exit(3) from None
    except InspectionFailed as error:
        typer.echo(str(error), err=True)
        raise typer.Exit(1) from None
    if compile_only:
        typer.echo(experiment.table(facts))
        return
    missing = gpu_missing()
    if missing:
        typer.echo(experiment.table(facts))
        typer.echo(f"{missing} The times need one; --compile-only asks for the instructions alone.", err=True)
        raise typer.Exit(3)
    from kernels.bench import provenance
    from kernels.bench.device import CudaDevice
    from kernels.bench.limits import copy_limit

    device = CudaDevice()
    try:
        writer = Writer(output or Path("results/local/scale_rows.json"), provenance.provenance(device))
    except ResultsError as error:
        typer.echo(str(error), err=True)
        raise typer.Exit(2) from None
    device.warm_clocks()
    limit = copy_limit(device)
    writer.add_limit(limit)
    records = experiment.run(device, facts, limit, iters)
    for record in records:
        writer.add(record)
    path = writer.finish(provenance.clocks())
    typer.echo(experiment.table(facts, records))
    typer.echo(f"Written: {path}", err=True)
    raise typer.Exit(1 if any(record.status != "ok" for record in records) else 0)


if __name__ == "__main__":
    app(prog_name="specialization.py")
