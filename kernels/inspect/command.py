"""inspect_kernel: what an operator launches for a shape, and what the compiler makes of it. Needs no GPU."""

import json
from pathlib import Path
from typing import Annotated

import typer

NO_TOOL = 3

app = typer.Typer(add_completion=False, pretty_exceptions_enable=False, rich_markup_mode="markdown")


def parse_shape(text: str) -> tuple[int, ...]:
    """`4096x1024` as (4096, 1024). Raises typer.BadParameter with a sentence."""
    parts = text.lower().replace("×", "x").split("x")
    if not all(part.isascii() and part.isdigit() for part in parts):
        raise typer.BadParameter(f"{text!r} is not a shape; write sizes with x between them, such as 4096x1024.")
    return tuple(int(part) for part in parts)


def default_shape(op: str) -> tuple[tuple[int, ...], str]:
    """The first shape that the operator is measured on, and its first dtype. Raises typer.BadParameter, ToolMissing."""
    from kernels.inspect.triton import triton_version

    triton_version()
    from kernels.ops import unmeasured

    try:
        record = unmeasured.find(op)
    except KeyError as error:
        raise typer.BadParameter(str(error.args[0]), param_hint="--op") from None
    return record.benches[0].shape, record.dtypes[0]


def _cuda_kernel(op: str, impl: str, arch: int, ptx: bool, sass: bool) -> str:
    """The report of a CUDA twin. Raises typer.BadParameter where the implementation is not one of ours in CUDA."""
    from kernels.cuda import CompilerMissing
    from kernels.inspect.cuda import compile_cuda
    from kernels.inspect.facts import ToolMissing
    from kernels.inspect.operator_report import report_cuda
    from kernels.ops import unmeasured

    try:
        chosen = unmeasured.find(op).implementation(impl)
    except KeyError as error:
        raise typer.BadParameter(str(error.args[0]), param_hint="--impl") from None
    if chosen.needs != "cuda":
        raise typer.BadParameter(
            f"{impl} is a library's; only the kernels of this project can be compiled here.", param_hint="--impl"
        )
    file, _, kernel = chosen.source.partition(":")
    try:
        fact = compile_cuda(kernel, arch, file)
    except CompilerMissing as missing:
        raise ToolMissing(str(missing)) from None
    except ValueError as error:
        raise typer.BadParameter(str(error), param_hint="--impl") from None
    parts = [report_cuda(fact)]
    parts += [f"==== {kernel}, PTX\n{fact.ptx.rstrip()}"] if ptx else []
    parts += [f"==== {kernel}, SASS\n{fact.sass}"] if sass else []
    return "\n\n".join(parts)


@app.command()
def inspect_kernel(
    op: Annotated[str, typer.Option(help="Operator to look at, such as softmax.")],
    shape: Annotated[
        str | None, typer.Option(help="A shape such as 4096x1024. Default: the first it is measured on.")
    ] = None,
    dtype: Annotated[str | None, typer.Option(help="float32, float16, bfloat16 or what the operator takes.")] = None,
    impl: Annotated[str, typer.Option(help="Implementation: triton, or a CUDA kernel's name.")] = "triton",
    arch: Annotated[int, typer.Option(help="Compute capability: 80, 90 or 120.")] = 90,
    sm_count: Annotated[
        int | None, typer.Option(min=1, help="Multiprocessors. Default: those of a usual card.")
    ] = None,
    sass: Annotated[bool, typer.Option("--sass", help="Print the machine code.")] = False,
    ptx: Annotated[bool, typer.Option("--ptx", help="Print the PTX.")] = False,
    ttgir: Annotated[bool, typer.Option("--ttgir", help="Print Triton's intermediate code, with its layouts.")] = False,
    output: Annotated[Path | None, typer.Option(help="Also write the facts as JSON.", dir_okay=False)] = None,
) -> None:
    """Registers, spills, shared memory and instructions of each kernel that an operator launches for a shape.

    Exit status: 0 shown, 1 it does not compile or the operator refuses the shape, 2 wrong usage, 3 a tool is missing.
    """
    from kernels.inspect.facts import InspectionFailed, ToolMissing
    from kernels.inspect.launches import compiled, launches_many, query, stage_text
    from kernels.inspect.limits import shared_limit_bytes
    from kernels.inspect.operator_report import as_json, report

    try:
        shared_limit_bytes(arch)
    except ValueError as error:
        raise typer.BadParameter(str(error), param_hint="--arch") from None
    try:
        first_shape, first_dtype = default_shape(op)
        if impl != "triton":
            typer.echo(_cuda_kernel(op, impl, arch, ptx, sass))
            return
        size = first_shape if shape is None else parse_shape(shape)
        asked = query(op, size, dtype or first_dtype, arch, sm_count)
        found = launches_many([asked])[0]
        facts = compiled(found, arch)
        typer.echo(report(asked, found, facts))
        for launch, fact in zip(found, facts, strict=True):
            for wanted, name, text in (
                (ttgir, "TTGIR", lambda one=launch: stage_text(one, arch, "ttgir")),
                (ptx, "PTX", lambda one=fact: one.ptx),
                (sass, "SASS", lambda one=fact: one.sass),
            ):
                if wanted:
                    typer.echo(f"\n==== {launch.name}, {name}\n{text().rstrip()}")
        if output:
            output.parent.mkdir(parents=True, exist_ok=True)
            output.write_text(json.dumps(as_json(asked, found, facts), indent=1, allow_nan=False) + "\n", "utf-8")
    except ValueError as error:
        raise typer.BadParameter(str(error), param_hint="--arch") from None
    except ToolMissing as error:
        typer.echo(str(error), err=True)
        raise typer.Exit(NO_TOOL) from None
    except InspectionFailed as error:
        typer.echo(str(error), err=True)
        raise typer.Exit(1) from None
