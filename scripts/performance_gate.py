#!/usr/bin/env python3
"""A fresh kernel-bench run against the committed record: `performance_gate.py FRESH.json... [--records FOLDER]`."""

import sys
from pathlib import Path
from typing import Annotated

import typer

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from kernels.bench.gate import RUN_TO_RUN, committed, gate, markdown, recorded_cases
from kernels.bench.report import write
from kernels.bench.results import ResultsError

app = typer.Typer(add_completion=False, pretty_exceptions_enable=False)


@app.command()
def performance_gate(
    fresh: Annotated[list[Path] | None, typer.Argument(metavar="FRESH.json...", help="Results of this run.")] = None,
    records: Annotated[
        Path | None, typer.Option(help="Folder to compare with. Default: results/<gpu>/ of the fresh runs' GPU.")
    ] = None,
    run_to_run: Annotated[
        float, typer.Option(min=0.0, help="What two runs may differ by, beyond both spreads, as a share of the record.")
    ] = RUN_TO_RUN,
    output: Annotated[Path | None, typer.Option(help="Also write the report, as Markdown.")] = None,
    cases: Annotated[
        str | None, typer.Option(metavar="GPU", help="Only print what has a record: operator and dtypes, a line each.")
    ] = None,
) -> None:
    """Say what got slower, what got faster, and what has no record.

    Exit status: 0 green, 1 red (slower, broken, or nothing compared), 2 wrong usage or files that do not compare.
    """
    try:
        if cases:
            for op, dtypes in recorded_cases(committed(cases)).items():
                typer.echo(" ".join((op, *dtypes)))
            return
        if not fresh:
            raise typer.BadParameter("Name at least one results file of a fresh run.", param_hint="FRESH.json")
        outcome = gate(fresh, records, run_to_run)
        text = markdown(outcome, run_to_run)
        typer.echo(text)
        if output:
            write(text, output)
    except ResultsError as error:
        typer.echo(str(error), err=True)
        raise typer.Exit(2) from None
    raise typer.Exit(1 if outcome.red else 0)


if __name__ == "__main__":
    app(prog_name="performance_gate.py")
