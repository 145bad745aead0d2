"""What the checks of the exercises say of wrong and of right answers: an overview, and one list an exercise."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from kernels.figures.html import Markup, data_table, escape

if TYPE_CHECKING:
    from kernels.exercises.gate import Gated

ACCESSES = frozenset(
    ("out-of-bounds", "double-write", "unwritten", "read-write-overlap", "global-race", "read-before-written")
)
"""The kinds of failure that are about who touched an element, and not about its value."""


def exercise_overview(exercises: Iterable[Gated]) -> str:
    """A table with one row an exercise: its checks, its wrong answers and how many fail, its right ones that pass."""
    rows = []
    for gated in exercises:
        wrong = [answer for answer in gated.answers if answer.wrong]
        right = [answer for answer in gated.answers if not answer.wrong]
        failed = sum(answer.verdict == "FAIL" for answer in wrong)
        passed = sum(answer.verdict == "PASS" for answer in right)
        by_trace = sum(answer.kind in ACCESSES for answer in wrong)
        row = [Markup(f"<code>{escape(gated.name)}</code>"), gated.checks]
        rows.append([*row, f"{failed} of {len(wrong)}", by_trace, f"{passed} of {len(right)}"])
    heads = ["exercise", "checks", "wrong answers that fail", "by their accesses", "right answers that pass"]
    return data_table(heads, rows, "Every exercise and its answers")


def exercise_answers(gated: Gated) -> str:
    """A table of one exercise's wrong answers: what is thought, which check fails first, and what it says."""
    rows = [
        [answer.name, _prose(answer.thought), _prose(answer.check), _said(answer.sentence, answer.given)]
        for answer in gated.answers
        if answer.wrong
    ]
    heads = ["wrong answer", "what one thinks", "first check that fails", "what it says"]
    return data_table(heads, rows, f"Wrong answers to {gated.name}")


def exercise_lists(exercises: Iterable[Gated]) -> str:
    """Every exercise's table, folded under its name."""
    folded = []
    for gated in exercises:
        wrong = sum(answer.wrong for answer in gated.answers)
        summary = f"<summary><code>{escape(gated.name)}</code>: {wrong} wrong answers</summary>"
        folded.append(f"<details>{summary}{exercise_answers(gated)}</details>")
    return "\n".join(folded)


def _said(sentence: str, given: str) -> Markup:
    return Markup(f"{escape(sentence)}<br><small>given {escape(given)}</small>" if given else escape(sentence))


def _prose(text: str) -> Markup:
    """A text with `code` in it."""
    parts = escape(text).split("`")
    return Markup("".join(f"<code>{part}</code>" if number % 2 else part for number, part in enumerate(parts)))
