"""`lessons new`: a lesson or an operator to begin with, whole and green."""

from __future__ import annotations

import importlib.util
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console

_out = Console(highlight=False, soft_wrap=True, emoji=False)
_err = Console(stderr=True, highlight=False, soft_wrap=True, emoji=False)
_Name = Annotated[str, typer.Argument(help="A word of Python in small letters, as in row_sums.")]


def add_to(app: typer.Typer, in_a_project: Callable[[], str | None], accept: Callable[[list[str]], None]) -> None:
    """Give the command line `new`; `in_a_project` gives a mkdocs.yml above, `accept` accepts outputs of pages."""
    new = typer.Typer(no_args_is_help=True, help="Begin a lesson or an operator with files that pass the gate.")

    @new.command()
    def lesson(name: _Name) -> None:
        """Begin a lesson: page, line of navigation, exercise, solution, checks, wrong answers, accepted outputs."""
        from kernels.lessons.new import new_lesson

        _begin(in_a_project(), new_lesson, name, accept)

    @new.command()
    def operator(name: _Name) -> None:
        """Begin an operator: its file, its test, its line of registry, and a lab with its exercise."""
        from kernels.lessons.new import new_operator

        _begin(in_a_project(), new_operator, name, accept)

    app.add_typer(new, name="new")


def _begin(config_file: str | None, make: Callable, name: str, accept: Callable[[list[str]], None]) -> None:
    from kernels.lessons.new import write

    root = Path(config_file).parent if config_file else Path.cwd()
    try:
        start = make(root, name)
        written = write(root, start)
        _format(root, [path for path in written if path.endswith(".py")])
    except (ValueError, OSError) as error:
        _err.print(f"lessons: {error}", markup=False)
        raise typer.Exit(2) from None
    for path in written:
        _out.print(f"wrote {path}", markup=False)
    _out.print(
        f"Change what is there, and look at it with lessons serve. lessons check {start.exercise} is its exercise, "
        f"pytest tests/exercises -k {start.exercise} its gate. Pages that list all exercises (reference/exercises.md, "
        "lessons/answers.md) have it now: accept them when it is done.",
        markup=False,
    )
    _out.print(f"Now the blocks of docs/{start.page} run and are accepted: some seconds to two minutes.", markup=False)
    accept([start.page])


def _format(root: Path, paths: list[str]) -> None:
    """A long name makes long lines: break them as the project does, where its formatter is installed."""
    if importlib.util.find_spec("ruff"):
        subprocess.run([sys.executable, "-m", "ruff", "format", "--quiet", *paths], cwd=root, check=False)
