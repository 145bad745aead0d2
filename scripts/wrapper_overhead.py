#!/usr/bin/env python3
"""What a call costs the host, for each way to make it: `wrapper_overhead.py [--op softmax] [--output FILE.json]`."""

import sys
from pathlib import Path
from typing import Annotated

import typer

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from kernels.bench import overhead
from kernels.bench.device import gpu_missing
from kernels.bench.run import UsageError, parse_shape
from kernels.sources.files import write_whole

app = typer.Typer(add_completion=False, pretty_exceptions_enable=False)


@app.command()
def wrapper_overhead(
    op: Annotated[str, typer.Option(help="Operator to call.")] = "softmax",
    shape: Annotated[str, typer.Option(help="A small shape: the GPU must wait for the host.")] = "32x127",
    dtype: Annotated[str, typer.Option(help="Dtype of the inputs.")] = "float32",
    iters: Annotated[int, typer.Option(min=1, help="Samples of each way.")] = 30,
    output: Annotated[
        Path | None, typer.Option(help="Where to write the JSON. Default: results/local/overhead-OP.json.")
    ] = None,
) -> None:
    """Host time of the direct call, the custom operator, autograd, PyTorch's eager call and a CUDA graph's replay.

    Exit status: 0 measured, 2 wrong usage, 3 no GPU here.
    """
    missing = gpu_missing()
    if missing:
        typer.echo(f"{missing} wrapper_overhead measures calls of GPU kernels.", err=True)
        raise typer.Exit(3)
    try:
        from kernels.ops import registry

        record, size = registry.get(op), parse_shape(shape)
    except ImportError as error:
        typer.echo(f"{error.name or 'A package'} is not installed here; the operators need it.", err=True)
        raise typer.Exit(3) from None
    except (KeyError, UsageError) as error:
        raise typer.BadParameter(str(error.args[0])) from None
    if dtype not in record.dtypes:
        raise typer.BadParameter(f"{op} does not take {dtype!r}; it takes {', '.join(record.dtypes)}.")
    import torch

    from kernels.bench import provenance
    from kernels.bench.device import CudaDevice

    device = CudaDevice()
    origin = provenance.provenance(device)
    device.warm_clocks()
    inputs = record.inputs(size, dtype, "cuda", seed=0, padding=0)
    document = overhead.Overhead(
        op=op,
        shape=list(size),
        dtype=dtype,
        calls_in_sample=overhead.CALLS,
        provenance=origin,
        ways=overhead.measure(overhead.ways_of(record, inputs), torch.cuda.synchronize, samples=iters),
        clocks_after=provenance.clocks(),
    )
    typer.echo(overhead.table(document))
    path = output or Path("results/local") / f"overhead-{op}.json"
    write_whole(path, overhead.encode(document))
    typer.echo(f"Written: {path}", err=True)


if __name__ == "__main__":
    app(prog_name="wrapper_overhead.py")
