"""What the checks of the exercises say of wrong and of right answers: an overview, and one list an exercise."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from kernels.figures.html import Markup, data_table, escape

if TYPE_CHECKING:
    from kernels.exercises.gate import Gated, Judged

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
    return data_table(heads, rows, "Every exercise and its answers", numeric=range(1, len(heads)))


def exercise_answers(gated: Gated) -> str:
    """A list of one exercise's wrong answers: what is thought, which check fails first, and what it says."""
    items = [_item(answer) for answer in gated.answers if answer.wrong]
    title = f"Wrong answers to {escape(gated.name)}"
    inner = "".join(items or ["<li>none</li>"])
    return f'<div class="kl-fig kl-verdicts"><p class="kl-verdicts__title">{title}</p><ul>{inner}</ul></div>'


def _item(answer: Judged) -> str:
    sentence = escape(answer.sentence.rstrip("."))
    said = f'<em class="kl-verdict__kind">{_prose(answer.check or answer.verdict)}</em>: {sentence}.'
    given = f" Given: {escape(answer.given)}." if answer.given else ""
    parts = [f"<strong>{escape(answer.name)}</strong>", f"Thought: {_prose(answer.thought)}", said + given]
    return f"<li>{'<br>'.join(parts)}</li>"


def exercise_lists(exercises: Iterable[Gated]) -> str:
    """Every exercise's table, folded under its name."""
    folded = []
    for gated in exercises:
        wrong = sum(answer.wrong for answer in gated.answers)
        summary = f"<summary><code>{escape(gated.name)}</code>: {wrong} wrong answers</summary>"
        folded.append(f"<details>{summary}{exercise_answers(gated)}</details>")
    return "\n".join(folded)


def _prose(text: str) -> str:
    """A text with `code` in it."""
    parts = escape(text).split("`")
    return "".join(f"<code>{part}</code>" if number % 2 else part for number, part in enumerate(parts))
