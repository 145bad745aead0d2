"""`lessons check`: what a learner asks of an exercise, and how the verdict is shown."""

from __future__ import annotations

import os
import re
import textwrap
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console
from rich.progress import Progress, TextColumn, TimeElapsedColumn
from rich.text import Text
from typer.core import TyperCommand

from kernels.exercises import library
from kernels.exercises.model import EXIT_CODES, LOAD_ERROR, PASS, UNAVAILABLE, Exercise, Verdict

USAGE, BROKEN = 2, 70
WHICH = "?"  # the value of --wrong where none is given
PATIENCE_S = 1.0  # after which a check that is still running is worth a line


def check(
    name: Annotated[
        str | None, typer.Argument(help="The exercise, as in triton_add; left out, all are listed.")
    ] = None,
    hint: Annotated[bool, typer.Option("--hint", help="Show a hint, or so many of them: --hint 2.")] = False,
    number: Annotated[int | None, typer.Argument(help="How many hints, after --hint.", hidden=True)] = None,
    explain: Annotated[bool, typer.Option("--explain", help="Say why the right answer is right.")] = False,
    verbose: Annotated[
        bool, typer.Option("--verbose", "-v", help="Show what was compared, what the answer printed, and tracebacks.")
    ] = False,
    solution: Annotated[
        bool, typer.Option("--solution", help="Check the solution instead; with --verbose, show its code.")
    ] = False,
    wrong: Annotated[
        str,
        typer.Option("--wrong", help="Check a wrong answer that is kept for the exercise; without a name, list them."),
    ] = "",
    file: Annotated[str, typer.Option("--file", help="Check this file instead of the exercise's own.")] = "",
    watch: Annotated[bool, typer.Option("--watch", help="Check again each time the file is saved.")] = False,
    every: Annotated[bool, typer.Option("--list", help="List all exercises, and how far you are.")] = False,
) -> None:
    """Check your answer to an exercise. Needs no GPU, and never edits your file.

    Ends with 0 for PASS, 2 for TODO (not filled in yet), 1 for FAIL and LOAD ERROR, 3 for UNAVAILABLE (this machine
    lacks what the checks need).
    """
    screen = Screen()
    if every or not name:
        _list(screen)
        raise typer.Exit(0 if every else USAGE)
    try:
        files = library.find(name)
        exercise = library.described(files)
        if hint:
            _hint(screen, files.name, exercise, 1 if number is None else number)
        elif number is not None:
            raise ValueError(f"{number} is one argument too many; hints are counted after --hint, as in --hint 2")
        elif explain:
            screen.say(
                _paragraphs(exercise.explain) or f"{files.name} has no explanation; read docs/{exercise.lesson}."
            )
        else:
            chosen = [text for text, given in (("--solution", solution), ("--wrong", wrong), ("--file", file)) if given]
            if len(chosen) > 1 or (watch and (solution or wrong)):
                both = " and ".join([*chosen, "--watch"] if watch else chosen)
                raise ValueError(f"{both} exclude each other; each says what is checked")
            if wrong == WHICH:
                screen.lines(_kept(files))
                raise typer.Exit(0)
            path, text, noted = _answer(files, solution, wrong, file)
            if wrong:
                screen.lines(_not_yours(_named(files, wrong), screen.width))
            raise typer.Exit(
                _watch(screen, files, exercise, path, verbose, noted)
                if watch
                else _once(screen, files, exercise, path, text, verbose, noted)
            )
    except (library.UnknownExercise, ValueError) as error:
        screen.fault(str(error))
        raise typer.Exit(USAGE) from None
    except SyntaxError as error:
        screen.fault(f"{error.filename or name}:{error.lineno}: the check file is no Python: {error.msg}")
        raise typer.Exit(BROKEN) from None


def _paragraphs(text: str) -> str:
    """The text with one line a paragraph, however its lines were broken where it was written."""
    return re.sub(r"(?<=\S)\n(?=\S)", " ", text.strip())


class Screen:
    """Standard output and standard error, with colour where they are a terminal and NO_COLOR is not set."""

    def __init__(self) -> None:
        self.out = Console(highlight=False, emoji=False, soft_wrap=True)
        self._err = Console(stderr=True, highlight=False, emoji=False, soft_wrap=True)
        self.ascii = not (self.out.encoding or "").lower().startswith("utf") or bool(os.environ.get("LESSONS_ASCII"))

    @property
    def width(self) -> int:
        return min(120, self.out.width)

    def lines(self, lines) -> None:
        """Lines of (text, style)."""
        from kernels.exercises.show import as_ascii

        for line in lines:
            parts = [(as_ascii(part) if self.ascii else _printable(part), style) for part, style in line]
            self.out.print(Text.assemble(*parts))

    def say(self, text: str) -> None:
        """Text, wrapped at the terminal's width."""
        for part in text.strip().split("\n"):
            wrapped = textwrap.wrap(part, self.width, break_on_hyphens=False, break_long_words=False) or [""]
            self.lines([(line, "")] for line in wrapped)

    @contextmanager
    def waiting(self, words: str) -> Iterator[None]:
        """Meanwhile a terminal shows these words and the seconds that have passed, and nothing of them afterwards."""
        bar = Progress(TextColumn("{task.description}"), TimeElapsedColumn(), console=self._err, transient=True)
        bar.add_task(words, total=None)
        late = threading.Timer(PATIENCE_S, bar.start)
        late.daemon = True
        if self._err.is_terminal:
            late.start()
        try:
            yield
        finally:
            late.cancel()
            if late.ident:
                late.join()  # it may have begun to start the line
            if bar.live.is_started:
                bar.stop()

    def fault(self, sentence: str) -> None:
        """A sentence on standard error."""
        self._err.print(f"lessons: {sentence}", markup=False)


def _printable(text: str) -> str:
    """The text with a question mark for what no terminal should get: half characters, escapes."""
    return "".join(c if c.isprintable() or c in "\n\t" else "?" for c in text)


def _once(
    screen: Screen, files: library.Files, exercise: Exercise, path: Path, text: str | None, verbose: bool, noted: bool
) -> int:
    from kernels.exercises.run import Checker

    if text is None:
        screen.lines(_gone(files, path))
        return EXIT_CODES[LOAD_ERROR]
    with Checker() as checker:
        verdict = _verdict(screen, checker, files, path, text)
    if verdict is None:
        return BROKEN
    _show(screen, files, exercise, verdict, verbose, mine=path != _place_of_kept(files))
    if path == files.solution and verbose:
        screen.out.print()
        screen.out.print(text.rstrip(), markup=False)
    if noted:
        _note(screen, files, verdict)
    return verdict.exit_code


def _watch(screen: Screen, files: library.Files, exercise: Exercise, path: Path, verbose: bool, noted: bool) -> int:
    from kernels.exercises.run import Checker
    from kernels.exercises.watch import saves

    code = EXIT_CODES[LOAD_ERROR]
    with Checker() as checker:
        try:
            for text in saves(path):
                if text is None:
                    screen.lines(_gone(files, path, waits=True))
                    code = EXIT_CODES[LOAD_ERROR]
                    continue
                verdict = _verdict(screen, checker, files, path, text)
                if verdict is None:
                    code = BROKEN
                    continue
                _show(screen, files, exercise, verdict, verbose)
                screen.lines([[], [(f"watching {files.shown(path)}; Ctrl-C ends", "dim")]])
                code = verdict.exit_code
                if noted:
                    _note(screen, files, verdict)
        except KeyboardInterrupt:
            screen.out.print()
    return code


def _verdict(screen: Screen, checker, files: library.Files, path: Path, text: str) -> Verdict | None:
    from kernels.exercises.run import BrokenChecks

    try:
        with screen.waiting("checking; an answer that does not end is stopped"):
            return checker.judge(files, text, path)
    except BrokenChecks as error:
        screen.fault(str(error))
    except OSError as error:
        screen.fault(f"{error.filename}: {error.strerror}; git checkout -- {library.FOLDER} brings it back")
    return None


def _show(
    screen: Screen, files: library.Files, exercise: Exercise, verdict: Verdict, verbose: bool, mine: bool = True
) -> None:
    from kernels.exercises.show import verdict_lines

    def places(anchor: str, explanation: str) -> list[str]:
        return reading(exercise.lesson, anchor, explanation)

    screen.lines(verdict_lines(verdict, exercise, screen.width, verbose=verbose, places=places, mine=mine))


def _note(screen: Screen, files: library.Files, verdict: Verdict) -> None:
    from kernels.exercises.progress import Progress

    if verdict.kind != UNAVAILABLE:
        progress = Progress(files.root)
        progress.note(files.name, verdict.kind)
        if progress.remark:
            screen.fault(progress.remark)


def reading(lesson: str, anchor: str, explanation: str) -> list[str]:
    """Where a failure is explained: the lesson's heading by path and by address, and the verdict's own page."""
    from kernels.lessons.explained import EXPLAINED

    page, _, heading = lesson.partition("#")
    if anchor.startswith("#"):
        heading = anchor[1:]
    elif anchor:
        page, _, heading = anchor.partition("#")
    found = [f"docs/{page}" + (f"#{heading}" if heading else ""), address(page, heading)]
    if explanation in EXPLAINED:
        found.append(EXPLAINED[explanation].place)
    return found


def address(page: str, heading: str = "") -> str:
    """Where the preview shows a page: `make serve` listens on port 8000; SITE_URL names a published site."""
    base = os.environ.get("SITE_URL", "http://localhost:8000/").rstrip("/")
    path = re.sub(r"(^|/)index$", r"\1", page.removesuffix(".md"))
    return f"{base}/{path.rstrip('/')}/" + (f"#{heading}" if heading else "")


def _answer(files: library.Files, solution: bool, wrong: str, file: str) -> tuple[Path, str | None, bool]:
    """What is to be checked: the file its lines belong to, its text (None where it is gone), whether it is noted."""
    from kernels.exercises.watch import read

    if solution:
        return files.solution, read(files.solution), False
    if wrong:
        return _place_of_kept(files), library.text_of(files, _named(files, wrong)), False
    if file:
        path = Path(file).absolute()
        if path.is_dir():
            raise ValueError(f"--file {file} is a folder; name the file that holds your answer")
        return path, read(path), False
    return files.starter, read(files.starter), True


def _place_of_kept(files: library.Files) -> Path:
    """What the lines of a kept answer belong to: no file, so that none of the learner's is taken for it."""
    return files.root / "the kept answer"


def _not_yours(answer: library.Answer, width: int):
    """Above the verdict on a kept answer: whose it is, and the thought behind it."""
    kind = "wrong" if answer.wrong else "right"
    thought = f" Its thought: “{answer.thought}”" if answer.thought else ""
    text = f"This is a {kind} answer kept for the exercise, {answer.name!r}; your own file is not looked at.{thought}"
    return [*([(line, "")] for line in textwrap.wrap(text, width, break_on_hyphens=False)), []]


def _kept(files: library.Files):
    """The wrong answers that --wrong takes, a command a line."""
    wrong = [answer for answer in library.answers(files) if answer.wrong]
    many = "1 wrong answer is" if len(wrong) == 1 else f"{len(wrong)} wrong answers are"
    lines = [[(f"{many} kept for {files.name}; each is a thought that somebody had:", "")], []]
    return lines + [[(f'  lessons check {files.name} --wrong "{answer.name}"', "")] for answer in wrong]


class _Check(TyperCommand):
    """`--wrong` without a name asks which there are."""

    def parse_args(self, ctx, args: list[str]) -> list[str]:
        given: list[str] = []
        for each, following in zip(args, [*args[1:], "-"], strict=False):
            given += [each, WHICH] if each == "--wrong" and following.startswith("-") else [each]
        return super().parse_args(ctx, given)


def _named(files: library.Files, name: str) -> library.Answer:
    import difflib

    known = {answer.name: answer for answer in library.answers(files)}
    if name in known:
        return known[name]
    near = difflib.get_close_matches(name, known, 1, 0.5)
    listed = ", ".join(repr(each) for each, answer in known.items() if answer.wrong)
    meant = f"did you mean {near[0]!r}?" if near else f"there are: {listed}"
    raise ValueError(f"{files.name} has no answer {name!r}; {meant}")


def _gone(files: library.Files, path: Path, waits: bool = False):
    back = f"git checkout -- {files.shown(files.starter)} brings the starter back"
    what = f"{files.shown(path)} is not there; {back if path == files.starter else 'was it moved or renamed?'}"
    more = "; waiting for it" if waits else ""
    return [[(LOAD_ERROR, "bold red"), (f"  {files.name}  {what}{more}", "")]]


def _hint(screen: Screen, name: str, exercise: Exercise, number: int) -> None:
    from kernels.exercises.show import hint_lines

    count = len(exercise.hints)
    if not count:
        screen.say(f"{name} has no hints; read docs/{exercise.lesson}.")
        return
    if number < 1:
        raise ValueError(f"--hint {number}: hints are counted from 1 to {count}")
    screen.lines(hint_lines(exercise, number, screen.width))
    if number < count:
        screen.say(f"a stronger one: lessons check {name} --hint {number + 1}")
    elif number > count:
        screen.say(f"there are no more than {count}; the rest: lessons check {name} --explain")


def _list(screen: Screen) -> None:
    from kernels.exercises.progress import Progress
    from kernels.sources import project_root

    progress = Progress(project_root())
    reached = progress.read()
    names = library.exercises()
    found = []
    for name in names:
        files = library.find(name)
        try:
            exercise = library.described(files)
        except Exception as error:
            found.append(((len(names),), (name, "", "", f"{files.shown(files.checks)}: {error}")))
            continue
        known = reached.get(name)
        now = "not tried" if known is None else known.verdict
        if known is not None and known.passed and known.verdict != PASS:
            now += " (passed before)"
        row = (name, now, exercise.needs, f"docs/{exercise.lesson}")
        found.append((library.place_of(files, exercise.lesson), row))
    rows = [("exercise", "verdict", "needs", "lesson"), *(row for _, row in sorted(found))]
    sizes = [max(map(len, column)) for column in zip(*rows, strict=True)]
    for number, row in enumerate(rows):  # the longest column is the last, so that no terminal breaks into another
        text = "  ".join(f"{cell:{size}}" for cell, size in zip(row, sizes, strict=True)).rstrip()
        screen.lines([[(text, "" if number else "bold")]])
    passed = sum(entry.passed for name, entry in reached.items() if name in names)
    screen.say(f"{passed} of {len(names)} passed. To check one: lessons check NAME")
    if progress.remark:
        screen.fault(progress.remark)


def add_to(app: typer.Typer) -> None:
    """Register the command."""
    command: Callable = app.command(cls=_Check)
    command(check)
