#!/usr/bin/env python3
"""Every operator on a GPU that is not the current one: `two_devices.py [--output FILE.json]`. Needs two GPUs."""

import json
import os
import sys
import time
from pathlib import Path
from typing import Annotated

import msgspec
import typer

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from kernels.bench import two_devices as runs
from kernels.bench.device import gpu_missing
from kernels.sources.files import write_whole

app = typer.Typer(add_completion=False, pretty_exceptions_enable=False)


@app.command()
def two_devices(
    op: Annotated[list[str] | None, typer.Option(help="Only this operator; may be given again.")] = None,
    seconds: Annotated[float, typer.Option(min=1, help="Time for all calls.")] = 50.0,
    output: Annotated[Path | None, typer.Option(help="Where to write the JSON.")] = None,
    jobs: Annotated[int | None, typer.Option(min=1, help="Processes side by side. Default: half of the cores.")] = None,
    part: Annotated[str, typer.Option(hidden=True)] = "",
) -> None:
    """Forward, backward, compiled and CUDA calls on each of two GPUs while the other one is current.

    Exit status: 0 all went well, 1 a call failed or was not reached, 2 wrong usage, 3 no GPU here, 4 one GPU only.
    """
    missing = gpu_missing()
    if missing:
        typer.echo(f"{missing} two_devices calls operators on two of them.", err=True)
        raise typer.Exit(3)
    import torch

    if torch.cuda.device_count() < 2:
        typer.echo("This machine has one GPU, and two_devices needs two: nothing was run.", err=True)
        raise typer.Exit(4)
    from kernels.bench.device import CudaDevice
    from kernels.bench.provenance import provenance

    began, wanted = time.monotonic(), [case for case in runs.cases() if not op or case.op in op]
    if not wanted:
        raise typer.BadParameter(f"There is no operator named {', '.join(op)}.")
    jobs = jobs or max(1, (os.cpu_count() or 1) // 2)
    if part:  # one of the processes that the lines below start
        index, count = map(int, part.split("/"))
        print(json.dumps([msgspec.to_builtins(case) for case in runs.run(wanted[index::count], seconds)]))
        raise typer.Exit(0)
    origin = provenance(CudaDevice())
    found = runs.side_by_side(wanted, seconds, jobs, [sys.executable, __file__, *(f"--op={name}" for name in op or ())])
    document = runs.TwoDevices(
        provenance=origin,
        gpus=[torch.cuda.get_device_name(device) for device in range(2)],
        seconds=round(time.monotonic() - began, 1),
        cases=found,
    )
    if output:
        output.parent.mkdir(parents=True, exist_ok=True)
        write_whole(output, runs.encode(document))
    typer.echo(runs.report(document))
    raise typer.Exit(int(any(case.status != "ok" for case in found)))


if __name__ == "__main__":
    app()
