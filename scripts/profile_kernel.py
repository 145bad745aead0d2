#!/usr/bin/env python3
"""The hardware's counters for one launch, a sentence about each: `profile_kernel.py --op OP [--shape 4096x1024]`."""

import sys
from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated

import typer

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from kernels.bench import profiling
from kernels.bench.device import gpu_missing
from kernels.bench.profile_metrics import Profile, ProfileError, explain
from kernels.bench.provenance import command_line, commit
from kernels.bench.results import hash_today
from kernels.bench.run import UsageError, parse_shape
from kernels.sources.files import write_whole

MISSING = 3

app = typer.Typer(add_completion=False, pretty_exceptions_enable=False)


def refuse(sentence: str) -> typer.Exit:
    typer.echo(f"{sentence} profile_kernel needs Nsight Compute (ncu) and an NVIDIA GPU.", err=True)
    return typer.Exit(MISSING)


@app.command()
def profile_kernel(
    op: Annotated[str, typer.Option(help="Operator to profile, such as softmax.")],
    shape: Annotated[
        str | None, typer.Option(help="A shape such as 4096x1024. Default: the operator's second.")
    ] = None,
    dtype: Annotated[str | None, typer.Option(help="Default: the first that the operator takes.")] = None,
    impl: Annotated[str, typer.Option(help="Implementation: triton, torch, or another of the operator's.")] = "triton",
    output: Annotated[
        Path | None, typer.Option(help="Where to write the JSON. Default: results/local/profile-OP.json.")
    ] = None,
) -> None:
    """Profile one call after warm-up, and say what each number means.

    Exit status: 0 profiled, 1 the profiler failed, 2 wrong usage, 3 no ncu or no GPU here.
    """
    ncu = profiling.tool("ncu")
    if ncu is None:
        raise refuse("There is no ncu on PATH, in /usr/local/cuda/bin or in /opt/nvidia.")
    missing = gpu_missing()
    if missing:
        raise refuse(missing)
    try:
        from kernels.ops import registry

        record = registry.get(op)
        chosen = record.implementation(impl)
        size = parse_shape(shape) if shape else record.benches[min(1, len(record.benches) - 1)].shape
    except ImportError as error:
        raise refuse(f"{error.name or 'A package'} is not installed here.") from None
    except (KeyError, UsageError) as error:
        raise typer.BadParameter(str(error.args[0])) from None
    kind = dtype or chosen.dtypes[0]
    if kind not in chosen.dtypes:
        raise typer.BadParameter(f"{op} {impl} does not take {kind!r}; it takes {', '.join(chosen.dtypes)}.")
    command = profiling.target(op, impl, kind, size)
    try:
        kernels = profiling.run_ncu(ncu, command)
    except ProfileError as error:
        typer.echo(str(error), err=True)
        raise typer.Exit(1) from None
    nsys = profiling.tool("nsys")
    timeline = profiling.run_nsys(nsys, command) if nsys else "nsys is not installed here, so there is no timeline."
    import torch

    profile = Profile(
        op=op,
        implementation=impl,
        shape=list(size),
        dtype=kind,
        gpu=torch.cuda.get_device_name(),
        commit=commit()[0],
        utc=datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ"),
        command=command_line(),
        ncu=profiling.version(ncu),
        source=chosen.source,
        source_hash=(hash_today(chosen.source) or "") if chosen.source else "",
        bytes_moved=record.bytes_moved(size, kind),
        kernels=kernels,
        nsys=timeline,
    )
    typer.echo(
        f"{op} {impl}, {kind} {'x'.join(map(str, size))}, {profile.gpu}, ncu {profile.ncu}: one call after warm-up"
    )
    typer.echo(explain(kernels, profile.bytes_moved if len(kernels) == 1 else 0))
    typer.echo(f"\n{timeline}")
    path = output or Path("results/local") / f"profile-{op}.json"
    write_whole(path, profiling.encode(profile))
    typer.echo(f"Written: {path}", err=True)


if __name__ == "__main__":
    app(prog_name="profile_kernel.py")
