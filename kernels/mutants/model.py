"""What a mutant is, and what became of it.

A mutant is a real source with one piece of text exchanged, so that one named mistake is in it and nothing else. It runs
on every case of its subject. The first verdict of a case is the trace's own, or `wrong-value` where the trace finds
nothing and the output differs from the reference, or `input-changed` where the kernel wrote to its input.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

from kernels.sources.closure import project_root

if TYPE_CHECKING:
    import numpy as np

Edits = tuple[tuple[str, str], ...]


@dataclass(frozen=True)
class Problem:
    """Fresh inputs of one case, and the right answer.

    `buffers` are the arguments by name, numpy arrays for CUDA and tensors for Triton; outputs are filled with NaN, or
    zeros for counts. `call` is what to run: the launcher's arguments in order for CUDA, a function of the variant's
    module for Triton. `expected` holds each output in float64 (or integers), which must be matched within `rtol` and
    `atol`, NaN with NaN. `whole` says whether each element of the outputs must be written; a histogram skips bins.
    """

    buffers: dict[str, Any]
    call: Any
    expected: dict[str, np.ndarray]
    rtol: float = 0.0
    atol: float = 0.0
    whole: bool = True


@dataclass(frozen=True)
class Case:
    """One input, why it is there, and how to make it anew. `trivial` ones have nothing to compute."""

    name: str
    reason: str
    make: Callable[[], Problem]
    trivial: bool = False


@dataclass(frozen=True)
class Subject:
    """A right kernel to make wrong: its `language`, its `source` from the project's root, its cases.

    `launcher` is the host function that a CUDA trace calls.
    """

    name: str
    language: str
    source: str
    cases: tuple[Case, ...]
    launcher: str = ""

    @cached_property
    def text(self) -> str:
        return (project_root() / self.source).read_text(encoding="utf-8").replace("\r\n", "\n")

    @property
    def file(self) -> Path:
        return project_root() / self.source


@dataclass(frozen=True)
class Mutant:
    """A subject with one mistake, or, where `expect` is empty, a right kernel written in another way.

    `changed` says what was exchanged and `effect` what a GPU would do; one sentence each. `expect` names the kinds of
    the first verdicts, over all cases. `unseen` is the reason why no case shows the mistake; `expect` is empty then.
    `everywhere` marks a mistake that no case forgives. `limits` are passed on to the trace of a CUDA launch.
    """

    name: str
    subject: str
    changed: str
    effect: str
    edits: Edits
    expect: tuple[str, ...] = ()
    unseen: str = ""
    everywhere: bool = False
    limits: Mapping[str, Any] = field(default_factory=dict)

    @property
    def wrong(self) -> bool:
        return bool(self.expect or self.unseen)


@dataclass(frozen=True)
class Verdict:
    """What a case showed: the first verdict's kind, the element and who is to blame, the line, and a sentence.

    `place` is the element as readers know it, `out[2, 5]`, or "" where the verdict names none; `code` is the text of
    the line in the mutant.
    """

    kind: str
    place: str
    who: str
    file: str
    line: int
    code: str
    sentence: str


@dataclass(frozen=True)
class Judgement:
    """A mutant's first verdict in each case, None where a case shows nothing; cases in the order of the subject's."""

    mutant: Mutant
    subject: Subject
    verdicts: dict[str, Verdict | None]

    @property
    def shown(self) -> tuple[str, Verdict] | None:
        """The first case that shows the mistake, and its verdict."""
        return next(((case, verdict) for case, verdict in self.verdicts.items() if verdict), None)

    @property
    def kinds(self) -> tuple[str, ...]:
        """The kinds of the first verdicts, sorted."""
        return tuple(sorted({verdict.kind for verdict in self.verdicts.values() if verdict}))

    @property
    def caught(self) -> bool:
        return self.shown is not None

    @property
    def passed(self) -> tuple[str, ...]:
        """The cases with something to compute in which nothing shows."""
        trivial = {case.name for case in self.subject.cases if case.trivial}
        return tuple(name for name, verdict in self.verdicts.items() if verdict is None and name not in trivial)

    @property
    def failed(self) -> tuple[str, ...]:
        """The cases that show the mistake."""
        return tuple(name for name, verdict in self.verdicts.items() if verdict)


def mutated(subject: Subject, mutant: Mutant) -> str:
    """The subject's text with the mutant's edits; ValueError where a text to exchange is not there exactly once, or the
    edits change nothing. Without any edit it is the subject itself.

    Line breaks are kept where an edit keeps them, so lines in verdicts are those of the source.
    """
    text = subject.text
    for old, new in mutant.edits:
        if (count := text.count(old)) != 1:
            raise ValueError(
                f"mutant {mutant.name!r}: the text to exchange occurs {count} times in {subject.source}, not once; "
                f"make it fit the code of today: {old!r}"
            )
        text = text.replace(old, new)
    if mutant.edits and text == subject.text:
        raise ValueError(f"mutant {mutant.name!r} changes nothing in {subject.source}")
    return text
