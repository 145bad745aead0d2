"""The wrong answers of an exercise's list, for a page: as modules that can be run, and what the checks say of them.

A page that sets a weaker test beside the checks runs each wrong answer itself. `lessons_src` is trusted here: nothing
is forked or guarded, as it is where a learner's answer is checked.
"""

from __future__ import annotations

import linecache
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType

from kernels.exercises import library
from kernels.exercises.gate import Judged
from kernels.exercises.kept_gate import kept_gate, stands_on


def planted(name: str, root: Path | None = None) -> Iterator[tuple[library.Answer, ModuleType]]:
    """Each wrong answer of the exercise `name`, in the order of its list, with the module that it is.

    UnknownExercise for a name that there is not, ValueError for a list that is not as it should be.
    """
    files = library.find(name, root)
    for number, answer in enumerate(library.answers(files)):
        if answer.wrong:
            text = library.text_of(files, answer)
            module = ModuleType(f"planted_{name}_{number}")
            module.__file__ = file = f"{files.solution}, wrong answer {number}"
            lines = text.splitlines(keepends=True)
            linecache.cache[file] = (len(text), None, lines, file)  # Triton reads a kernel's source there
            exec(compile(text, file, "exec", dont_inherit=True), module.__dict__)
            yield answer, module


def judged(name: str) -> dict[str, Judged]:
    """What the checks say of each wrong answer of the exercise `name`, by the answer's name: of the first check that
    fails, in its words. The gate's result is kept, so only the first to ask after a change waits for it."""
    stands_on(exercises=[name])
    return {answer.name: answer for answer in kept_gate(names=[name])[0].answers if answer.wrong}
