"""`lessons scratch NAME`: what goes into a scratch branch, and what the command says."""

from __future__ import annotations

import contextlib
import os
import re
import shlex
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import typer

from kernels.lessons import registered
from kernels.lessons.scratch import Made, Refused, Repository

FOLDER = "scratch"
_BLOCK = re.compile(r"(?:docs/)?([A-Za-z0-9][\w.-]*(?:/[A-Za-z0-9][\w.-]*)*)#([a-z0-9][a-z0-9-]*)")
_EXERCISE = re.compile(r"[a-z][a-z0-9_]*")
_OPERATOR = re.compile(r"\bkernels\.ops\.(\w+)")


@dataclass(frozen=True)
class Contents:
    """What a scratch holds: `slug` its name in branches and folders, `files` to add, `edit` the file to work on, and
    the commands, in which `python` stands for the interpreter."""

    slug: str
    title: str
    edit: str
    files: dict[str, str]
    run: str
    check: str
    time: str


def scratch(
    name: Annotated[
        str, typer.Argument(help="An exercise, as in triton_add, or a block of a page, as in labs/1-vector-add#lanes.")
    ],
    folder: Annotated[
        Path | None, typer.Option(help="Where to put the worktree; ../PROJECT-scratch/NAME when not given.")
    ] = None,
) -> None:
    """Make a git branch with an exercise or a page's block in a worktree of its own, to try things.

    Your working tree, index and HEAD stay as they are. The branch scratch/NAME begins at the last commit. Its worktree
    runs with the environment that is installed already. Ends with 2 where nothing can be made, and says why.
    """
    try:
        repository = Repository(_project())
        contents = _contents(repository, name)
        lines = _commands(contents)
        files = contents.files | {f"{FOLDER}/README.md": _readme(contents, lines)}
        made = repository.make(contents.slug, files, folder)
    except Refused as refused:
        typer.echo(f"lessons: {refused}", err=True)
        raise typer.Exit(2) from None
    typer.echo(_told(made, contents, lines, _own(repository, contents.edit)))


def _project() -> Path:
    """The folder with mkdocs.yml, here or above.

    Raises:
        Refused: there is none.
    """
    here = Path.cwd()
    for folder in (here, *here.parents):
        if (folder / "mkdocs.yml").is_file():
            return folder
    raise Refused(f"no mkdocs.yml lies in {here} or above it; go to the project's folder")


def _contents(repository: Repository, name: str) -> Contents:
    if "#" in name:
        return _of_block(repository, name)
    short = Path(name).stem if Path(name).as_posix().startswith("lessons_src/") else name
    known = sorted(
        each.removesuffix(".py") for each in repository.names("lessons_src/exercises") if each.endswith(".py")
    )
    if not _EXERCISE.fullmatch(short):
        raise Refused(
            f"{name!r} is no name of an exercise (small letters, digits and _), and no block of a page "
            "(as in labs/1-vector-add#lanes)"
        )
    if short not in known:
        raise Refused(f"the last commit has no exercise {short!r}; it has {', '.join(known) or 'none'}")
    return _of_exercise(repository, short)


def _of_exercise(repository: Repository, name: str) -> Contents:
    starter = f"lessons_src/exercises/{name}.py"
    checks = f"lessons_src/checks/{name}.py"
    text = repository.text(checks)
    check = f"python -m kernels.lessons.command check {name}" if text is not None else f"python {starter}"
    if "def timed(" in (text or ""):
        timing = f"python -m kernels.exercises.timing {name}"
        return Contents(name, f"the exercise {name}", starter, {}, f"{timing} --once", check, timing)
    reached = "\n".join(
        filter(None, (repository.text(starter), text, repository.text(f"lessons_src/solutions/{name}.py")))
    )
    time = (
        _bench(repository, reached, name)
        or f"python -m timeit -n 1 -r 5 -s 'import runpy' 'runpy.run_path(\"{starter}\")'"
    )
    return Contents(name, f"the exercise {name}", starter, {}, f"python {starter}", check, time)


def _of_block(repository: Repository, name: str) -> Contents:
    match = _BLOCK.fullmatch(name)
    if match is None or ".." in name:
        raise Refused(
            f"{name!r} names no block: write the page below docs/, # and the block's id: labs/1-vector-add#lanes"
        )
    slug, block_id = match[1].removesuffix(".md"), match[2]
    page = f"{slug}.md"
    text = repository.text(f"docs/{page}")
    if text is None:
        raise Refused(f"the last commit has no page docs/{page}; pages are named as in labs/1-vector-add#lanes")
    scan = _scanned(repository.project, page, text)
    block = next((each for each in scan.blocks if each.id == block_id), None)
    if block is None:
        ids = ", ".join(each.id for each in scan.blocks) or "none"
        raise Refused(f"docs/{page} has no block {block_id!r} in the last commit; it has {ids}")
    from kernels.lessons.program import before_and, program_of

    ending = "sh" if block.language == "bash" else "py"
    snippet = f"{FOLDER}/snippet.{ending}"
    program = program_of(scan, block, mark=f"# --- the block {block_id} begins here ---")
    files = {
        snippet: program,
        f"{FOLDER}/check.py": _CHECK.format(page=page, block=block_id, snippet=snippet),
    }
    drawn = any(each.html for each in before_and(scan, block))  # a terminal shows no HTML
    run = f"bash {snippet}" if ending == "sh" else f"python {'-m kernels.lessons.in_words ' * drawn}{snippet}"
    program_name = '"bash"' if ending == "sh" else "sys.executable"
    again = f'subprocess.run([{program_name}, "{snippet}"], stdout=subprocess.DEVNULL)'
    time = _bench(repository, program) or f"python -m timeit -n 1 -r 5 -s 'import subprocess, sys' '{again}'"
    title = f"the block {block_id} of docs/{page}, after the code that it builds on"
    return Contents(f"{slug}/{block_id}", title, snippet, files, run, f"python {FOLDER}/check.py", time)


_CHECK = '''\
"""Does {snippet} still print what docs/{page}#{block} shows? Status 0: yes. 1: no. 3: it cannot run here."""

from kernels.lessons.scratch_check import check

raise SystemExit(check("{page}", "{block}", "{snippet}"))
'''


def _scanned(project: Path, page: str, text: str):
    """The page as it is in the last commit, whatever lies in the working tree."""
    try:
        from kernels.lessons.mkdocs_plugin import ProjectError, open_project, scan_text
    except ImportError as error:
        raise Refused(
            f"{error.name} is not installed, and reading a page needs it: make install. Exercises can do without"
        ) from None
    try:
        engine, _, _ = open_project(str(project / "mkdocs.yml"))
    except ProjectError as error:
        raise Refused(f"mkdocs.yml cannot be read: {error}") from None
    try:
        return scan_text(engine, page, text)
    finally:
        engine.close()


def _bench(repository: Repository, code: str, name: str = "") -> str:
    """The line that times the operator which the code is about; empty where it is about none."""
    operators = registered.names(repository.text("kernels/ops/registry.py") or "")
    named = [each for each in _OPERATOR.findall(code) if each in operators]
    tail = re.sub(r"^(triton|grid_stride|log)_", "", name)
    named += [each for each in operators if tail and each in (tail, f"row_{tail}")]
    if not named:
        return ""
    return f"python -m kernels.bench.command --op {named[0]} --output results/local/scratch-{named[0]}.json"


def _commands(contents: Contents) -> dict[str, str]:
    """The three commands as they are typed in the worktree, with the interpreter that runs now and has the packages."""
    python = shlex.quote(sys.executable) if os.name != "nt" else f'& "{sys.executable}"'
    path = "PYTHONPATH=. " if os.name != "nt" else "$env:PYTHONPATH='.'; "

    def typed(command: str) -> str:
        first, _, rest = command.partition(" ")
        return f"{path}{python if first == 'python' else first} {rest}"

    return {what: typed(getattr(contents, what)) for what in ("run", "check", "time")}


def _readme(contents: Contents, lines: dict[str, str]) -> str:
    without = _without_gpu() if "kernels.bench" in contents.time else ""
    return (
        f"Edit `{contents.edit}`, {contents.title}, and run it: `{lines['run']}`\n"
        f"Check it: `{lines['check']}`\n"
        f"Time it: `{lines['time']}`{f' ({without})' if without else ''}\n"
    )


def _without_gpu() -> str:
    from kernels.lessons.machine import Machine

    gpu = Machine().ability("gpu")
    return "" if gpu else f"it measures on a GPU; {gpu.reason}, so it says so and names the stored measurements"


def _own(repository: Repository, path: str) -> Path | None:
    """The caller's file to edit, where it is not as in the last commit."""
    file = repository.project / path
    with contextlib.suppress(OSError, UnicodeDecodeError):
        return file if file.read_text(encoding="utf-8") != repository.text(path) else None
    return None


def _told(made: Made, contents: Contents, lines: dict[str, str], own: Path | None) -> str:
    said = [f"made the branch {made.branch}, one commit on top of {made.base[:9]}, in {_shown(made.folder)}"]
    if made.uncommitted:
        files = "1 file stays" if made.uncommitted == 1 else f"{made.uncommitted} files stay"
        said.append(f"{files} as changed and not committed; the branch begins at the last commit, without the changes")
    if own is not None:
        there = made.folder / contents.edit
        said.append(
            f"your {contents.edit} is among them; to go on with it there:\n"
            f"  cp {shlex.quote(_shown(own))} {shlex.quote(_shown(there))}"
        )
    without = _without_gpu() if "kernels.bench" in contents.time else ""
    said += [
        f"\n  cd {shlex.quote(_shown(made.folder))}",
        f"  edit    {contents.edit}",
        f"  run     {lines['run']}",
        f"  check   {lines['check']}",
        f"  time    {lines['time']}",
        *([f"          {without}"] if without else []),
        "\nto be rid of it: "
        f"git worktree remove --force {shlex.quote(_shown(made.worktree))} && git branch -D {made.branch}",
    ]
    return "\n".join(said)


def _shown(path: Path) -> str:
    """Relative to the folder where the command runs, if that is the shorter one."""
    try:
        near = os.path.relpath(path)
    except ValueError:  # another drive
        return str(path)
    return min(near, str(path), key=len)


def add_to(app: typer.Typer) -> Callable[..., None]:
    """Make `scratch` a command of `app`."""
    return app.command()(scratch)
