"""Puts the wrong answers that are kept for an exercise to two tests: one written in a hurry, and the checks."""

import importlib
from dataclasses import dataclass

from kernels.exercises.expect import CheckFailed, seen
from kernels.exercises.planted import planted


@dataclass(frozen=True)
class Tested:
    """One wrong answer. `hurried` is whether the hurried test found it, `check` which check does, and what it said."""

    name: str
    thought: str
    hurried: bool
    check: str
    kind: str
    sentence: str


def two_tests(exercise: str, hurried) -> list[Tested]:
    """What `hurried(module)`, True where it finds nothing, and the check that is meant for it say of each wrong answer.

    The solution passes the hurried test, and every wrong answer fails its check; RuntimeError where that is not so. One
    check an answer, and no process of its own: a page can afford it, and the gate does the rest.
    """
    checks = {check.title: check for check in importlib.import_module(f"lessons_src.checks.{exercise}").EXERCISE.checks}
    if not hurried(importlib.import_module(f"lessons_src.solutions.{exercise}")):
        raise RuntimeError(f"the hurried test refuses the solution of {exercise}")
    found = []
    for answer, module in planted(exercise):
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
