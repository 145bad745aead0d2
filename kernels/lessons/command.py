"""The command `lessons`."""

from __future__ import annotations

import errno
import os
import socket
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console
from rich.table import Table
from typer.core import TyperGroup

from kernels.lessons import check_command, new_command, scratch_command
from kernels.lessons.model import NEEDS, Fault


class _Commands(TyperGroup):
    """All commands, any of which may find the disk full: what they write is whole, or as it was."""

    def invoke(self, ctx):
        try:
            return super().invoke(ctx)
        except OSError as error:
            if error.errno not in (errno.ENOSPC, errno.EDQUOT):
                raise
            where = f": {error.filename}" if error.filename else ""
            _err.print(f"lessons: {error.strerror}{where}; make room, and run it again", markup=False)
            raise typer.Exit(2) from None


app = typer.Typer(
    cls=_Commands,
    no_args_is_help=True,
    pretty_exceptions_show_locals=False,
    help="Build, preview and verify a site whose pages run their code.",
    epilog="A page is named by its path below docs/, as in labs/3-softmax.md; a block by page#id.",
)
Config = Annotated[
    str | None,
    typer.Option("--config-file", "-f", help="Another mkdocs.yml than the one of this folder, or the nearest above."),
]
os.environ.setdefault("NO_MKDOCS_2_WARNING", "1")  # Material's notice about its own end of life
# No emoji: a place such as `page.md:100: failed` holds `:100:`, which would become one.
OUTPUTS = "lessons_src/outputs"
_out = Console(highlight=False, soft_wrap=True, emoji=False)
_err = Console(stderr=True, highlight=False, soft_wrap=True, emoji=False)


@app.command()
def build(
    config_file: Config = None,
    mode: Annotated[
        str, typer.Option(help="run: execute what is not fresh. frozen: execute nothing. verify: all.")
    ] = "run",
    strict: Annotated[bool, typer.Option(help="Make drift and MkDocs' own warnings errors.")] = True,
    site_dir: Annotated[str | None, typer.Option(help="Where to write the site.")] = None,
) -> None:
    """Build the site. When a page is untrue the build fails and the previous site stays."""
    from kernels.lessons.mkdocs_plugin import build_site

    config_file = _in_a_project(config_file)
    if mode not in ("run", "frozen", "verify"):
        _err.print(f"lessons: --mode {mode!r} is not one of run, frozen, verify", markup=False)
        raise typer.Exit(2)
    os.environ["LESSONS_MODE"] = mode
    _mkdocs(lambda: build_site(config_file, strict=strict, site_dir=site_dir))


@app.command()
def serve(
    config_file: Config = None,
    address: Annotated[str | None, typer.Option(help="Where to listen, as in localhost:8000.")] = None,
    open_browser: Annotated[bool, typer.Option("--open", help="Open the site in a browser.")] = False,
    every_page: Annotated[
        bool, typer.Option(help="Render every page after every edit, not only those that changed.")
    ] = False,
) -> None:
    """Preview the site; a saved page is shown again in about a second, and only changed blocks run.

    Pages are there at once, with the outputs that were accepted. Blocks run on a page that you open or save, and
    where you save what they stand on.
    """
    from kernels.lessons.mkdocs_plugin import serve_site

    config_file = _in_a_project(config_file)
    if address is not None and not (":" in address and address.rpartition(":")[2].isdecimal()):
        _err.print(f"lessons: --address {address!r} is not a host and a port, as in localhost:8000", markup=False)
        raise typer.Exit(2)
    try:
        _mkdocs(lambda: serve_site(config_file, address, open_in_browser=open_browser, every_page=every_page))
    except (OSError, OverflowError) as error:
        _err.print(f"lessons: {why_it_ended(error, address)}", markup=False)
        raise typer.Exit(2) from None


@app.command()
def verify(
    pages: Annotated[list[str] | None, typer.Argument(help="Pages to verify; all when none is named.")] = None,
    config_file: Config = None,
    shard: Annotated[str, typer.Option(help="i/n: the i-th of n parts, to share the work among machines.")] = "1/1",
    frozen: Annotated[
        bool, typer.Option("--frozen", help="Execute nothing; check that all is accepted and fresh.")
    ] = False,
) -> None:
    """Execute every block from clean and compare it with its accepted output. Ends with 1 when a page is untrue."""
    from kernels.lessons.checks import repository_faults
    from kernels.lessons.prose import typed_numbers
    from kernels.lessons.report import described, summary

    index, count = _shard(shard)
    engine, sources, docs = _open(config_file)
    try:
        chosen = _choose(sources, pages)[index - 1 :: count]
        report = _bring(engine, chosen, "frozen" if frozen else "verify")
        faults = report.faults() + [fault for source in chosen for fault in typed_numbers(source)]
        if index == 1 and not pages:
            faults += repository_faults(engine.root, sources)
    finally:
        engine.close()
    for text in described(sorted(faults, key=lambda fault: (fault.page, fault.line)), docs):
        _out.print(text, markup=False)
    part = f" (part {index} of {count})" if count > 1 else ""
    _out.print(f"{summary(report)}{part}; {len(faults)} fault{'s' * (len(faults) != 1)}", markup=False)
    raise typer.Exit(1 if faults else 0)


@app.command()
def accept(
    pages: Annotated[
        list[str] | None, typer.Argument(help="Pages (page.md) or blocks (page.md#id); all when none.")
    ] = None,
    config_file: Config = None,
    needs: Annotated[str, typer.Option(help="Only blocks with this need, as in gpu.")] = "",
) -> None:
    """Execute blocks and write what they give as the accepted outputs. A page with a failing block is refused.

    Where blocks are chosen, only these run, and the earlier blocks of their sessions.
    """
    from kernels.lessons.report import described, summary

    if needs and needs not in NEEDS:
        _err.print(f"lessons: --needs {needs!r} is not one of {', '.join(NEEDS)}", markup=False)
        raise typer.Exit(2)
    engine, sources, docs = _open(config_file)
    try:
        wanted = [name.partition("#") for name in pages or []]
        chosen = _choose(sources, [name for name, _, _ in wanted])
        ids = _chosen_ids(engine, sources, wanted)
        only = None
        if needs or any(ids.values()):

            def only(page: str, block) -> bool:
                return (not ids[page] or block.id in ids[page]) and (not needs or needs in block.needs)

            ids |= {source.name: set() for source in chosen if source.name not in ids}
            chosen = [each for each in chosen if any(only(each.name, block) for block in engine.scan(each).blocks)]
            if not chosen:
                _err.print(f"lessons: none of the chosen blocks needs {needs}", markup=False)
                raise typer.Exit(2)
            if needs and (lacking := engine.machine.lacking((needs,))):
                _err.print(f"lessons: the chosen blocks cannot run here; {lacking[0]}", markup=False)
                raise typer.Exit(3)
        report = _bring(engine, chosen, "accept", only=only)
    finally:
        engine.close()
    for path in report.written:
        _out.print(f"wrote {OUTPUTS}/{path}", markup=False)
    faults = report.faults()
    for text in described(faults, docs):
        _out.print(text, markup=False)
    written = f"{len(report.written)} file{'s' * (len(report.written) != 1)}"
    _out.print(f"{summary(report)}; {written} written", markup=False)
    # What was not chosen may still differ, and what cannot run here may be stale: neither is a refusal.
    harmless = {"stale", "missing"} | ({"drift", "new", "edited", "orphan"} if only else set())
    raise typer.Exit(1 if any(fault.kind not in harmless for fault in faults) else 0)


check_command.add_to(app)
new_command.add_to(app, lambda: _in_a_project(None), lambda pages: accept(pages, config_file=None, needs=""))


@app.command("list")
def list_blocks(
    pages: Annotated[list[str] | None, typer.Argument(help="Pages to list; all when none is named.")] = None,
    config_file: Config = None,
) -> None:
    """List the blocks of the pages: where, what they need, and whether this machine runs them."""
    engine, sources, docs = _open(config_file)
    table = Table(box=None, pad_edge=False)
    for title in ("where", "block", "needs", "check", "evidence", "here"):
        table.add_column(title)
    total = 0
    for source in _choose(sources, pages):
        scan = engine.scan(source)
        for block in scan.blocks:
            total += 1
            here = "from its record" if engine.machine.lacking(scan.needs_of(block)) else "runs"
            where = Fault(source.name, block.line + source.line_offset, "", "").where(docs)
            table.add_row(where, block.id, ",".join(block.needs), block.check, block.evidence, here)
        for fault in scan.faults:
            table.add_row(fault.where(docs), fault.block, "", "", "", fault.message)
    engine.close()
    _out.print(table)
    _out.print(f"{total} blocks")


@app.command()
def doctor(config_file: Config = None) -> None:
    """Say what this machine can run, and what its site would show from records instead."""
    engine, sources, _ = _open(config_file)
    meaning = {
        "cpu": "plain Python blocks",
        "triton": "Triton kernels, interpreted",
        "cxx": "CUDA kernels traced on the CPU",
        "nvcc": "CUDA kernels compiled: registers, PTX, SASS",
        "gpu": "kernels run and measured on a GPU",
    }
    lines = []
    for need, what in meaning.items():
        ability = engine.machine.ability(need)
        mark = "yes" if ability else "no"
        lines.append(f"{need:7} {mark:4} {what}: {ability.label if ability else ability.reason}")
    _out.print("\n".join(lines), markup=False)
    here = elsewhere = 0
    missing = []
    for source in sources:
        scan = engine.scan(source)
        for block in scan.blocks:
            if engine.machine.lacking(scan.needs_of(block)):
                elsewhere += 1
                missing.append(f"{source.name}#{block.id}")
            else:
                here += 1
    engine.close()
    _out.print(f"\n{here} blocks would run here; {elsewhere} would be shown from accepted records.", markup=False)
    for name in missing:
        _out.print(f"  from its record: {name}", markup=False)


@app.command(
    epilog="""For example: [bold]lessons trace softmax_parallel --cols 33 --thread 67[/bold], or
[bold]lessons trace transpose_tile_33 --rows 64 --cols 64 --block 2[/bold], or
[bold]lessons trace add --n 257 --block-size 256 --program 1[/bold]."""
)
def trace(
    kernel: Annotated[
        str,
        typer.Argument(help="A kernel that cuda/kernels.cu or cuda/patterns.cu launches, or a Triton operator."),
    ],
    columns: Annotated[
        int, typer.Option("--cols", "--n", "-n", help="Elements of a row; of the whole vector where there is one.")
    ] = 257,
    rows: Annotated[int, typer.Option(help="Rows, for kernels that take a matrix.")] = 1,
    thread: Annotated[
        int | None,
        typer.Option(
            help="The thread to follow, counted in its block, x fastest; 0 when not given. For a Triton operator the "
            "kernel is also compiled for sm_90, which takes some seconds, and its threads are those of the compiler."
        ),
    ] = None,
    block: Annotated[
        int, typer.Option("--block", "--program", help="The block that it is in, or the Triton program to follow.")
    ] = 0,
    block_size: Annotated[
        int | None, typer.Option(help="Elements a Triton program owns, for operators that let one choose.")
    ] = None,
    output: Annotated[
        str, typer.Option(help="Where to write the figures; build/trace/KERNEL-SIZE-PLACE.html when not given.")
    ] = "",
    force: Annotated[bool, typer.Option("--force", help="Write over a file that is no page of this command.")] = False,
) -> None:
    """Run a kernel on the CPU, say what one of its threads does, and draw it. Needs no GPU.

    Prints every access of that thread in words, and what is wrong with any of them. The figures are one HTML page that
    needs no other file: a walk through the steps, owners, sectors, banks, barriers, lanes.

    Ends with 0 when nothing is wrong, 1 when there is a verdict, 2 when it cannot be traced as asked, 3 when this
    machine cannot trace.
    """
    from kernels.lessons import tracing
    from kernels.sources import project_root
    from kernels.sources.files import write_whole

    if reason := tracing.why_not(kernel):
        _err.print(f"lessons: {reason}", markup=False)
        raise typer.Exit(3)
    try:
        traced = tracing.trace_kernel(kernel, rows, columns, block_size, lanes=thread is not None)
        thread = thread or 0
        words = tracing.in_words(traced, block, thread)
        path = Path(output or Path("build/trace") / tracing.page_name(traced, block, thread))
        if not force and (reason := tracing.may_write(path)):
            raise ValueError(reason)
        page = tracing.as_page(traced, block, thread, project_root())
        write_whole(path, page)
    except (KeyError, ValueError, TypeError, RuntimeError) as error:
        _err.print(f"lessons: {error.args[0]}", markup=False)
        raise typer.Exit(2) from None
    except ImportError as error:
        _err.print(f"lessons: {error.name or 'a package'} is installed, and cannot be imported: {error}", markup=False)
        raise typer.Exit(3) from None
    except OSError as error:
        _err.print(f"lessons: the figures cannot be written to {path} ({error.strerror}).", markup=False)
        raise typer.Exit(2) from None
    first = f"{words[0]}; lines are those of {traced.files}"
    _out.print("\n".join([first, *words[1:], *tracing.judged(traced)]), markup=False)
    _out.print(f"figures: {path}", markup=False)
    raise typer.Exit(1 if traced.trace.faults() else 0)


scratch_command.add_to(app)


def why_it_ended(error: OSError | OverflowError, address: str | None) -> str:
    """What a preview says that ended with an error of the system: that it cannot listen at an address, or the error."""
    refused = (errno.EADDRINUSE, errno.EADDRNOTAVAIL, errno.EACCES, errno.EPERM)
    file = getattr(error, "filename", None)
    no_port = isinstance(error, OverflowError | socket.gaierror)  # above 65535; a host without an address
    if no_port or (error.errno in refused and not file):
        where = address or "the address of mkdocs.yml (dev_addr)"
        why = getattr(error, "strerror", None) or str(error).rstrip(".")
        return f"cannot listen at {where}: {why}; choose another address: --address localhost:8001"
    return f"the preview ended: {error.strerror or error}" + (f": {file}" if file else "")


def _in_a_project(config_file: str | None) -> str | None:
    """The mkdocs.yml that a command takes: the one that is named, or of this folder (None), or of the nearest above.

    Ends the command where there is none.
    """
    here = Path.cwd()
    for folder in (here, *here.parents) if config_file is None else ():
        found = next((folder / f"mkdocs.{end}" for end in ("yml", "yaml") if (folder / f"mkdocs.{end}").exists()), None)
        if found:
            return None if folder == here else str(found)
    if config_file is None:
        where = f"no mkdocs.yml lies in {here} or above it"
        _err.print(f"lessons: {where}; go to the project's folder, or name one with --config-file", markup=False)
        raise typer.Exit(2)
    return config_file


def _open(config_file: str | None):
    from kernels.lessons.mkdocs_plugin import ProjectError, open_project

    config_file = _in_a_project(config_file)
    try:
        return open_project(config_file)
    except ProjectError as error:
        _err.print(f"lessons: {error}", markup=False)
        raise typer.Exit(2) from None


def _mkdocs(call: Callable[[], None]) -> None:
    import logging

    import click

    handler = logging.StreamHandler()
    handler.setFormatter(logging.Formatter("%(levelname)-7s - %(message)s"))
    logger = logging.getLogger("mkdocs")
    logger.setLevel(logging.INFO)
    logger.addHandler(handler)
    try:
        call()
    except click.ClickException as error:
        error.show()
        raise typer.Exit(1) from None
    except click.exceptions.Abort:
        raise typer.Exit(1) from None
    finally:
        logger.removeHandler(handler)


def _bring(engine, sources, mode: str, **named):
    from kernels.lessons.progress import showing

    with showing() as progress:
        return engine.bring_up_to_date(sources, mode, progress=progress, **named)


def _chosen_ids(engine, sources, wanted) -> dict[str, set[str]]:
    """The blocks named by page#id, by page; an empty set for a page that was named whole."""
    ids: dict[str, set[str]] = {}
    for name, _, block in wanted:
        source = _choose(sources, [name])[0]
        known = {each.id for each in engine.scan(source).blocks}
        if block and block not in known:
            listed = ", ".join(sorted(known)) or "none"
            _err.print(f"lessons: {source.name} has no block {block!r}; it has {listed}", markup=False)
            raise typer.Exit(2)
        whole = source.name in ids and not ids[source.name]
        ids[source.name] = set() if whole or not block else ids.get(source.name, set()) | {block}
    return ids


def _choose(sources, names: list[str] | None):
    if not names:
        return sources
    known = {source.name: source for source in sources}
    chosen = []
    for name in names:
        short = Path(name).as_posix().removeprefix("docs/").removeprefix("lessons_src/")
        if short not in known:
            near = [each for each in known if Path(short).stem in each]
            _err.print(
                f"lessons: there is no page {name!r}" + (f"; did you mean {', '.join(near)}?" if near else ""),
                markup=False,
            )
            raise typer.Exit(2)
        if known[short] not in chosen:
            chosen.append(known[short])
    return chosen


def _shard(text: str) -> tuple[int, int]:
    index, _, count = text.partition("/")
    if not (index.isdigit() and count.isdigit() and 1 <= int(index) <= int(count)):
        _err.print(f"lessons: --shard {text!r} is not i/n with 1 ≤ i ≤ n, as in 2/4", markup=False)
        raise typer.Exit(2)
    return int(index), int(count)


if __name__ == "__main__":
    sys.exit(app())
