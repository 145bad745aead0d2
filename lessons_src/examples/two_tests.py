"""Puts the wrong answers that are kept for an exercise to two tests: one written in a hurry, and the checks."""

import importlib
import linecache
import sys
from dataclasses import dataclass
from types import ModuleType

from kernels.exercises import library
from kernels.exercises.expect import CheckFailed, seen


@dataclass(frozen=True)
class Tested:
    """One wrong answer. `hurried` is whether the hurried test found it, `check` which check does, and what it said."""

    name: str
    thought: str
    hurried: bool
    check: str
    kind: str
    sentence: str


def loaded(exercise: str, text: str, name: str = "answer") -> ModuleType:
    """A module from a text; its lines are where Triton looks for the source of a kernel."""
    file = f"<{exercise}: {name}>"
    linecache.cache[file] = (len(text), None, text.splitlines(keepends=True), file)
    module = ModuleType(f"lessons_src.exercises.{exercise}")
    module.__file__ = file
    sys.modules[module.__name__] = module
    exec(compile(text, file, "exec", dont_inherit=True), module.__dict__)
    return module


def two_tests(exercise: str, hurried, names=None) -> list[Tested]:
    """What `hurried(module)`, True where it finds nothing, and the check that is meant for it say of each wrong answer.

    names: of the answers; left out, all. The solution passes the hurried test, and every wrong answer fails its check;
    RuntimeError where that is not so.
    """
    files = library.find(exercise)
    checks = {check.title: check for check in importlib.import_module(f"lessons_src.checks.{exercise}").EXERCISE.checks}
    if not hurried(importlib.import_module(f"lessons_src.solutions.{exercise}")):
        raise RuntimeError(f"the hurried test refuses the solution of {exercise}")
    found = []
    for answer in library.answers(files):
        if not answer.wrong or (names is not None and answer.name not in names):
            continue
        module = loaded(exercise, library.text_of(files, answer), answer.name)
        try:
            noticed = not hurried(module)
        except Exception:  # an error is noticed, too
            noticed = True
        seen.failure, seen.compared = None, 0
        try:
            checks[answer.fails].run(module)
        except CheckFailed as error:
            failure = error.failure
        else:
            raise RuntimeError(f"{answer.fails!r} finds nothing wrong with {answer.name!r}")
        finally:
            seen.failure, seen.compared = None, 0
        found.append(Tested(answer.name, answer.thought, noticed, answer.fails, failure.kind, failure.sentence))
    return found
