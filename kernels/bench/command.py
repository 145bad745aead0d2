"""kernel-bench: time the operators, ours beside what a reader would use instead."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

if TYPE_CHECKING:
    from kernels.bench.results import Record

NO_GPU = 3
DEVICE_FAILED = 4

app = typer.Typer(add_completion=False, pretty_exceptions_enable=False, rich_markup_mode="markdown")


def _no_gpu(missing: str, op: str) -> int:
    from kernels.bench.results import RESULTS

    wanted = "softmax" if op == "all" else op
    kept = sorted(path for path in RESULTS.glob(f"*/{wanted}.json") if path.parent.name != "local")
    typer.echo(f"{missing} kernel-bench measures on a GPU.", err=True)
    if kept:
        name = kept[0].relative_to(RESULTS.parent).as_posix()
        typer.echo(
            f"Accepted measurements are kept in results/; read them with: python scripts/report_results.py {name}",
            err=True,
        )
    else:
        typer.echo(
            "Accepted measurements are kept in results/, one folder a GPU; "
            "python scripts/report_results.py FILE prints one of them.",
            err=True,
        )
    return NO_GPU


def _operators(name: str) -> list[Any]:
    from kernels.ops import registry, unmeasured

    if name == "all":
        return list(registry.OPS.values())
    try:
        return [unmeasured.find(name)]
    except KeyError as error:
        raise typer.BadParameter(str(error.args[0]), param_hint="--op") from None


def _check_dtypes(ops: list[Any], dtypes: list[str]) -> None:
    for dtype in dtypes:
        if not any(dtype in op.dtypes for op in ops):
            taken = ", ".join(dict.fromkeys(known for op in ops for known in op.dtypes))
            which = (
                f"{ops[0].name} does not take {dtype!r}; it takes"
                if len(ops) == 1
                else f"no operator takes {dtype!r}; they take"
            )
            raise typer.BadParameter(f"{which} {taken}.", param_hint="--dtype")


@app.command()
def kernel_bench(
    op: Annotated[str, typer.Option(help="Operator to measure, or all.")] = "all",
    shape: Annotated[
        list[str] | None, typer.Option(help="A shape such as 4096x1024; repeat for more. Default: the operator's own.")
    ] = None,
    dtype: Annotated[
        list[str] | None,
        typer.Option(help="Such as float32 or bfloat16; repeat for more. Default: the operator's own."),
    ] = None,
    compile: Annotated[bool, typer.Option("--compile", help="Also measure torch.compile.")] = False,
    timing: Annotated[
        Literal["graph", "events"], typer.Option(help="graph: the kernels alone; events: with ordinary dispatch.")
    ] = "graph",
    cache: Annotated[
        Literal["warm", "cold"],
        typer.Option(help="cold: buffers rotate past three times the L2 cache; warm: one buffer."),
    ] = "cold",
    variant: Annotated[
        list[str] | None,
        typer.Option(help="Another arm of our launcher, such as block=128 or block=512,warps=8; repeat for more."),
    ] = None,
    block_size: Annotated[
        list[int] | None, typer.Option(min=1, help="Short for --variant block=N; repeat for more.")
    ] = None,
    num_warps: Annotated[
        list[int] | None, typer.Option(min=1, max=32, help="Short for --variant warps=N; repeat for more.")
    ] = None,
    implementation: Annotated[
        list[str] | None, typer.Option(help="Only this implementation; repeat for more. Default: all.")
    ] = None,
    iters: Annotated[int, typer.Option(min=1, help="Samples of each arm.")] = 50,
    output: Annotated[
        Path | None, typer.Option(help="Results file to write. Default: results/local/OP.json.", dir_okay=False)
    ] = None,
) -> None:
    """Check every implementation against the reference, then time them against each other.

    Exit status: 0 all measured, 1 something was wrong or failed (it is in the file), 2 wrong usage, 3 no GPU here,
    4 the device stopped answering (what was finished is in the .partial.json file).
    """
    from kernels.bench import run as bench
    from kernels.bench.device import gpu_missing

    try:
        shapes = tuple(bench.parse_shape(text) for text in shape or ())
    except bench.UsageError as error:
        raise typer.BadParameter(str(error), param_hint="--shape") from None
    try:
        ops = _operators(op)
    except ImportError as error:
        raise typer.Exit(_no_gpu(f"{error.name or 'A package'} is not installed here.", op)) from None
    variants = [
        *(variant or ()),
        *(f"block={size}" for size in block_size or ()),
        *(f"warps={count}" for count in num_warps or ()),
    ]
    _check_dtypes(ops, dtype or [])
    options = bench.Options(
        timing=timing,
        cache=cache,
        samples=iters,
        dtypes=tuple(dtype or ()),
        shapes=shapes,
        compile=compile,
        variants=tuple(dict.fromkeys(variants)),
        only=tuple(implementation or ()),
    )
    try:
        for chosen in ops:
            bench.contenders(chosen, options)
    except bench.UsageError as error:
        raise typer.BadParameter(str(error)) from None
    missing = gpu_missing()
    if missing:
        raise typer.Exit(_no_gpu(missing, op))
    raise typer.Exit(_measure(ops, options, output or Path("results/local") / f"{op}.json"))


def _measure(ops: list[Any], options: Any, output: Path) -> int:
    from rich.console import Console

    from kernels.bench import provenance
    from kernels.bench import run as bench
    from kernels.bench.device import CudaDevice
    from kernels.bench.limits import copy_limit
    from kernels.bench.report import markdown
    from kernels.bench.results import ResultsError, Writer
    from kernels.bench.timer import DeviceFailure

    device = CudaDevice()
    console = Console(stderr=True)
    try:
        writer = Writer(output, provenance.provenance(device))
    except ResultsError as error:
        typer.echo(str(error), err=True)
        return 2
    total = sum(len(bench.dtypes_of(chosen, options)) * len(options.shapes or chosen.benches) for chosen in ops)
    done = 0
    try:
        with console.status("warming the clocks, measuring the copy limit") as status:

            def tell(text: str) -> None:
                nonlocal done
                done += 1
                line = f"[{done}/{total}] {text}"
                status.update(line) if console.is_terminal else console.print(line, markup=False, highlight=False)

            device.warm_clocks()
            writer.add_limit(copy_limit(device))
            records = bench.run(device, ops, options, writer, tell)
            writer.finish(provenance.clocks())
    except DeviceFailure as error:
        typer.echo(f"{error}\nThe device stopped answering; what was finished is in {writer.partial}.", err=True)
        return DEVICE_FAILED
    typer.echo(markdown([writer.document]))
    typer.echo(f"Written: {output}", err=True)
    return _status(records)


def _status(records: "list[Record]") -> int:
    bad = [record for record in records if record.status not in ("ok", "no_work", "unavailable")]
    for record in bad:
        shape = "x".join(map(str, record.shape))
        typer.echo(
            f"{record.status}: {record.op} {record.implementation} {record.dtype} {shape}: {record.reason}", err=True
        )
    return 1 if bad else 0


if __name__ == "__main__":
    app()
