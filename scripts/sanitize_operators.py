#!/usr/bin/env python3
"""Every kernel path under compute-sanitizer: `sanitize_operators.py [--output FILE.json] [--op softmax]`."""

import shutil
import sys
from pathlib import Path
from typing import Annotated

import typer

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from kernels.bench.device import gpu_missing
from kernels.bench.sanitizer.command import sanitize

app = typer.Typer(add_completion=False, pretty_exceptions_enable=False)


@app.command()
def sanitize_operators(
    op: Annotated[list[str] | None, typer.Option(help="Only this operator; may be given again.")] = None,
    sanitizer: Annotated[str, typer.Option(help="The tool.")] = "compute-sanitizer",
    seconds: Annotated[float, typer.Option(min=10, help="Time for everything.")] = 120.0,
    jobs: Annotated[int | None, typer.Option(min=1, help="Processes side by side. Default: the cores.")] = None,
    keep: Annotated[Path, typer.Option(help="For a new folder with what the tools print.")] = Path("build/sanitizer"),
    output: Annotated[Path | None, typer.Option(help="Where to write the JSON.")] = None,
    also: Annotated[
        list[Path] | None,
        typer.Option(help="An earlier record, for what this run does not come to; may be given again.", exists=True),
    ] = None,
    unproved: Annotated[
        Path | None,
        typer.Option(
            help="An earlier record: run only its checks that are unproved, not run or of code that has changed since.",
            exists=True,
        ),
    ] = None,
) -> None:
    """memcheck, racecheck, initcheck and synccheck over every kernel path, and over each with a planted fault.

    Exit status: 0 nothing was reported but the plants, and everything ran; 1 otherwise; 2 wrong usage; 3 no GPU or no
    compute-sanitizer here.
    """
    missing = gpu_missing()
    if not missing and not shutil.which(sanitizer):
        missing = f"There is no {sanitizer!r} here."
    if missing:
        typer.echo(f"{missing} sanitize_operators watches kernels on a GPU.", err=True)
        raise typer.Exit(3)
    raise typer.Exit(sanitize(op or [], sanitizer, seconds, jobs, keep, output, typer.echo, also or [], unproved))


if __name__ == "__main__":
    app()
