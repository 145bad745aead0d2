"""What became of mutants, as tables: by verdict, one by one, and the right kernels beside them."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

from kernels.figures.html import MISSING, Markup, data_table, escape

if TYPE_CHECKING:
    from kernels.mutants.model import Judgement

LANGUAGES = {"cuda": "CUDA", "triton": "Triton"}


def verdict_summary(judgements: Iterable[Judgement], meanings: dict[str, str]) -> str:
    """How many mutants each kind of verdict caught first, by language. `meanings` says a kind in words.

    A mutant counts under the verdict of the first case that shows it.
    """
    tally: dict[str, dict[str, int]] = {}
    for judgement in judgements:
        if judgement.shown:
            counts = tally.setdefault(judgement.shown[1].kind, dict.fromkeys(LANGUAGES, 0))
            counts[judgement.subject.language] += 1
    rows = [
        [kind, meanings.get(kind, MISSING), counts["cuda"], counts["triton"]]
        for kind, counts in sorted(tally.items(), key=lambda item: (-sum(item[1].values()), item[0]))
    ]
    caption = "Mutants by the verdict that shows them first"
    return data_table(["verdict", "what it says", "CUDA", "Triton"], rows, caption)


def mutant_table(judgements: Sequence[Judgement], caption: str) -> str:
    """One row a mutant: what was changed, what a GPU would do, the first verdict, and how many cases show it."""
    rows = []
    for judgement in judgements:
        mutant = judgement.mutant
        cases = sum(not case.trivial for case in judgement.subject.cases)
        seen = f"{len(judgement.failed)} of {max(cases, len(judgement.failed))}"
        rows.append([mutant.name, _prose(mutant.changed, mutant.effect), _verdict(judgement), seen])
    return data_table(["mutant", "what was changed, and what a GPU does", "first verdict", "cases"], rows, caption)


def rewrite_table(judgements: Sequence[Judgement], caption: str) -> str:
    """One row a right kernel in another style, and how many verdicts it got."""
    rows = [
        [
            judgement.mutant.name,
            LANGUAGES[judgement.subject.language],
            _prose(judgement.mutant.changed),
            len(judgement.failed),
        ]
        for judgement in judgements
    ]
    return data_table(["kernel", "language", "what is different", "accused in"], rows, caption)


def _prose(*sentences: str) -> Markup:
    """Sentences with `code` in them."""
    parts = escape(" ".join(sentences)).split("`")
    return Markup("".join(f"<code>{part}</code>" if number % 2 else part for number, part in enumerate(parts)))


def _verdict(judgement: Judgement) -> Markup:
    if judgement.shown is None:
        return Markup(f"none. {_prose(judgement.mutant.unseen)}")
    case, verdict = judgement.shown
    words = [f"<strong>{escape(verdict.kind)}</strong>"]
    words += [f"<code>{escape(verdict.place)}</code>"] if verdict.place else []
    words += [escape(verdict.who)] if verdict.who else []
    words += [f"<code>{escape(verdict.code)}</code>"] if verdict.code else []
    return Markup("<br>".join([*words, f"case: {escape(case)}"]))
