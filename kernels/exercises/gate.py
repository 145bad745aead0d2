"""The mutant gate: proves that an exercise's checks tell wrong answers from right ones.

The starter must be TODO, the solution pass, each wrong answer fail first at the check that it names and for the reason
that it names, and each right answer in another style pass. A wrong answer passes at least one check, so the gate is
never fed only rubbish.
"""

from __future__ import annotations

import ast
import os
import queue
import subprocess
from collections.abc import Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path

from kernels.exercises import library, marks
from kernels.exercises.library import Answer, Files
from kernels.exercises.model import FAIL, PASS, TODO, UNAVAILABLE, CheckResult, Verdict
from kernels.exercises.run import BrokenChecks, Checker

LEAST_WRONG, LEAST_RIGHT = 6, 2


@dataclass(frozen=True)
class GateFault:
    """Something that makes an exercise untrue: a file from the project's folder, a line, a sentence."""

    file: str
    line: int
    message: str

    def __str__(self) -> str:
        return f"{self.file}:{self.line}: {self.message}"


@dataclass(frozen=True)
class Judged:
    """What became of one answer of the list: its verdict, and of the first check that failed what it said.

    `passed` is how many checks it passed before the gate had seen enough of a wrong one.
    """

    name: str
    wrong: bool
    thought: str
    verdict: str
    check: str = ""
    sentence: str = ""
    kind: str = ""
    given: str = ""
    passed: int = 0

    @staticmethod
    def of(answer: Answer, verdict: Verdict) -> Judged:
        """From an answer and its verdict."""
        first = verdict.first_failure
        failure = first.failure if first else None
        passed = sum(result.status == PASS for result in verdict.results)
        said = (failure.sentence, failure.kind, failure.given) if failure else (verdict.sentence, "", "")
        title = first.title if first else ""
        return Judged(answer.name, answer.wrong, answer.thought, verdict.kind, title, *said, passed)


@dataclass
class Gated:
    """One exercise through the gate. `answers` holds what became of each answer of the list, in its order."""

    name: str
    lesson: str = ""
    checks: int = 0
    faults: list[GateFault] = field(default_factory=list)
    answers: list[Judged] = field(default_factory=list)
    skipped: str = ""
    """Why this machine cannot judge it; nothing was proved then."""


def gate(names: Iterable[str] | None = None, root: Path | None = None, jobs: int | None = None) -> list[Gated]:
    """All exercises, or those named, through the gate, in the order of their names; `jobs` at a time."""
    chosen = list(names) if names is not None else library.exercises(root)
    jobs = max(1, min(jobs or os.cpu_count() or 1, len(chosen)))
    checkers = [Checker() for _ in range(jobs)]
    free: queue.SimpleQueue[Checker] = queue.SimpleQueue()
    for checker in checkers:
        free.put(checker)

    def one(name: str) -> Gated:
        checker = free.get()
        try:
            return through(library.find(name, root), checker)
        finally:
            free.put(checker)

    try:
        with ThreadPoolExecutor(jobs) as pool:
            return list(pool.map(one, chosen))
    finally:
        for checker in checkers:
            checker.close()


def through(files: Files, checker: Checker) -> Gated:
    """One exercise through the gate."""
    gated = Gated(files.name)
    checks, answers = files.shown(files.checks), files.shown(files.answers)
    missing = [path for path in (files.starter, files.solution) if not path.is_file()]
    if missing:
        gated.faults.append(GateFault(checks, 1, f"there is no {files.shown(missing[0])}"))
        return gated
    try:
        exercise = library.described(files)
        listed = library.answers(files)
        gated.lesson = exercise.lesson
        text = starter_text(files)
        gated.faults += [*_lesson(files, exercise.lesson), *_counts(answers, listed), *_outside(files, text)]
        starter = checker.judge(files, text)
        if starter.kind == UNAVAILABLE:
            gated.skipped = starter.sentence
            return gated
        if starter.kind != TODO:
            gated.faults.append(_starter(files, text, starter))
        gated.faults += _timed(files)
        solution = checker.judge(files, files.solution.read_text(encoding="utf-8"), files.solution)
        if solution.kind != PASS:
            message = f"the solution is {solution.kind}, not PASS: {_why(solution)}"
            gated.faults.append(GateFault(files.shown(files.solution), 1, message))
        titles = [result.title for result in solution.results]
        gated.checks = len(titles)
        for answer in listed:
            verdict = checker.judge(files, library.text_of(files, answer), brief=answer.wrong)
            gated.answers.append(Judged.of(answer, verdict))
            gated.faults += [GateFault(answers, answer.line, each) for each in _judged(answer, verdict, titles)]
    except BrokenChecks as error:
        gated.faults.append(GateFault(checks, 1, str(error)))
    except SyntaxError as error:
        gated.faults.append(GateFault(checks, error.lineno or 1, f"this is no Python: {error.msg}"))
    except ValueError as error:
        file, line, message = (*str(error).split(":", 2), "", "")[:3]
        placed = line.isdigit()
        where = (file, int(line), message.strip()) if placed else (checks, 1, str(error))
        gated.faults.append(GateFault(*where))
    return gated


def _judged(answer: Answer, verdict: Verdict, titles: list[str]) -> Iterator[str]:
    name = repr(answer.name)
    if not answer.wrong:
        if verdict.kind != PASS:
            yield f"the right answer {name} is {verdict.kind}, not PASS: {_why(verdict)}"
        return
    if answer.fails not in titles:
        yield f"{name} should fail at {answer.fails!r}, and no check is called so; there are: {', '.join(titles)}"
        return
    first = verdict.first_failure
    if verdict.kind != FAIL or first is None:
        yield f"the wrong answer {name} is {verdict.kind}, not FAIL: no check sees the mistake"
        return
    if first.title != answer.fails:
        yield f"{name} fails first at {first.title!r}, not at {answer.fails!r}: {first.failure.text}"
    elif answer.says not in first.failure.text:
        yield f"{name} fails where it should, without {answer.says!r}; what it says is: {first.failure.text}"
    if not any(result.status == PASS for result in verdict.results):
        yield f"{name} passes no check, so it shows only that rubbish fails; order the checks from easy to hard"


def _why(verdict: Verdict) -> str:
    failed: CheckResult | None = verdict.first_failure
    if failed is not None and failed.failure is not None:
        return f"{failed.title}: {failed.failure.text}" if failed.title else failed.failure.text
    return verdict.sentence


def starter_text(files: Files) -> str:
    """The starter as it is shipped: where somebody has filled it in, what the last commit holds.

    Filled in is a region that neither asks any more nor stands as shipped. Without git, the file as it is.
    """
    text = files.starter.read_text(encoding="utf-8")
    known = library.shipped(files)
    try:
        regions = marks.marked(text, files.shown(files.starter)).regions
    except marks.MarksDamaged:
        return text
    if all(region.asks or region.digest in known for region in regions):
        return text
    where = f"HEAD:./{files.starter.relative_to(files.root).as_posix()}"
    try:
        committed = subprocess.run(
            ["git", "show", where], cwd=files.root, capture_output=True, encoding="utf-8", timeout=20, check=False
        )
    except (OSError, subprocess.TimeoutExpired):
        return text
    return committed.stdout if committed.returncode == 0 else text


def _starter(files: Files, text: str, verdict: Verdict) -> GateFault:
    shown = files.shown(files.starter)
    regions = marks.marked(text, shown).regions
    naive = [region.digest for region in regions if not region.asks]
    why = _why(verdict)
    message = f"the starter is {verdict.kind}, not TODO{f': {why}' if why else '.'}"
    message += (
        f" An answer in {shown} belongs on a branch of its own (lessons scratch {files.name}), not in the last commit."
    )
    if naive and list(library.shipped(files)) != naive:
        listed = ", ".join(f'"{each}"' for each in naive)
        message += f" If this is how it is shipped, write: shipped = [{listed}]"
    return GateFault(files.shown(files.answers), 1, message)


def _timed(files: Files) -> Iterator[GateFault]:
    tree = ast.parse(files.checks.read_text(encoding="utf-8"))
    if not any(isinstance(node, ast.FunctionDef) and node.name == "timed" for node in tree.body):
        message = "there is no timed(answer, device), whose work lessons scratch runs and times"
        yield GateFault(files.shown(files.checks), 1, message)


def _counts(where: str, listed: list[Answer]) -> Iterator[GateFault]:
    wrong = sum(answer.wrong for answer in listed)
    right = len(listed) - wrong
    if wrong < LEAST_WRONG:
        yield GateFault(where, 1, f"it lists {wrong} wrong answers; at least {LEAST_WRONG} are asked for")
    if right < LEAST_RIGHT:
        yield GateFault(where, 1, f"it lists {right} right answers; at least {LEAST_RIGHT} are asked for")


def _lesson(files: Files, lesson: str) -> Iterator[GateFault]:
    page = files.root / "docs" / lesson.partition("#")[0]
    if not page.is_file():
        yield GateFault(files.shown(files.checks), 1, f"its lesson docs/{lesson} is not there")


def _outside(files: Files, starter_text: str) -> Iterator[GateFault]:
    """Starter and solution have the same marks, differ between them, and nowhere else."""
    texts = [starter_text, files.solution.read_text(encoding="utf-8")]
    shown = [files.shown(path) for path in (files.starter, files.solution)]
    try:
        starter, solution = (marks.marked(text, name) for text, name in zip(texts, shown, strict=True))
    except marks.MarksDamaged as error:
        yield GateFault(shown[0], 1, str(error))
        return
    if not starter.regions or len(starter.regions) != len(solution.regions):
        counts = f"{len(starter.regions)} regions and {len(solution.regions)}"
        yield GateFault(shown[0], 1, f"starter and solution have {counts} between marks; they need the same, and one")
        return
    for (number, mine), (_, theirs) in zip(starter.outside, solution.outside, strict=False):
        if mine != theirs:
            yield GateFault(shown[0], number, f"outside the marks it differs from the solution: {mine!r}, {theirs!r}")
            return
    if len(starter.outside) != len(solution.outside):
        yield GateFault(shown[0], 1, "outside the marks, starter and solution have different numbers of lines")
    for mine, theirs in zip(starter.regions, solution.regions, strict=True):
        if theirs.asks:
            yield GateFault(shown[1], theirs.first, "the solution's region raises NotImplementedError")
        elif mine.digest == theirs.digest:
            yield GateFault(shown[0], mine.first, "between the marks, the starter holds the solution")
