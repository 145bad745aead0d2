#!/usr/bin/env python3
"""Whether the values of its inputs change a product's time: `input_values.py [--iters N] [--output FILE.json]`."""

import sys
from pathlib import Path
from typing import Annotated

import typer

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from kernels.bench import values
from kernels.bench.device import gpu_missing
from kernels.bench.results import ResultsError, Writer

app = typer.Typer(add_completion=False, pretty_exceptions_enable=False)


@app.command()
def input_values(
    size: Annotated[int, typer.Option(min=16, help="Rows, columns and inner dimension.")] = values.SIZE,
    iters: Annotated[int, typer.Option(min=1, help="Samples of each product.")] = 30,
    output: Annotated[
        Path | None, typer.Option(help="Results file to write. Default: results/local/input-values.json.")
    ] = None,
) -> None:
    """Time one product of zeros, of ones and of random numbers, in turns.

    Exit status: 0 measured, 2 wrong usage, 3 no GPU here.
    """
    missing = gpu_missing()
    if missing:
        typer.echo(f"{missing} input_values measures products on one.", err=True)
        raise typer.Exit(3)
    from kernels.bench import provenance
    from kernels.bench.device import CudaDevice

    device = CudaDevice()
    try:
        writer = Writer(output or Path("results/local/input-values.json"), provenance.provenance(device))
    except ResultsError as error:
        typer.echo(str(error), err=True)
        raise typer.Exit(2) from None
    device.warm_clocks()
    records = values.run(device, None, iters, size)
    for record in records:
        writer.add(record)
    path = writer.finish(provenance.clocks())
    typer.echo(values.table(records))
    typer.echo(f"Written: {path}", err=True)


if __name__ == "__main__":
    app(prog_name="input_values.py")
