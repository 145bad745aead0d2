"""What became of mutants, by verdict, one by one, and the right kernels beside them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING

from kernels.figures.html import MISSING, data_table, escape

if TYPE_CHECKING:
    from kernels.mutants.model import Judgement

LANGUAGES = {"cuda": "CUDA", "triton": "Triton"}


def verdict_summary(judgements: Iterable[Judgement], meanings: Mapping[str, str]) -> str:
    """How many mutants each kind of verdict caught first, by language. `meanings` says a kind in words.

    A mutant counts under the verdict of the first case that shows it.
    """
    tally: dict[str, dict[str, int]] = {}
    for judgement in judgements:
        if judgement.shown:
            counts = tally.setdefault(judgement.shown[1].kind, dict.fromkeys(LANGUAGES, 0))
            counts[judgement.subject.language] += 1
    rows = [
        [kind, counts["cuda"], counts["triton"], meanings.get(kind, MISSING)]
        for kind, counts in sorted(tally.items(), key=lambda item: (-sum(item[1].values()), item[0]))
    ]
    caption = "Mutants by the verdict that shows them first"
    return data_table(["verdict", "CUDA", "Triton", "what it says"], rows, caption)


def mutant_list(judgements: Iterable[Judgement], title: str) -> str:
    """One item a mutant: what was changed, what a GPU would do, the first verdict, and how many cases show it."""
    items = []
    for judgement in judgements:
        mutant = judgement.mutant
        parts = [
            f"<strong>{escape(mutant.name)}</strong>",
            _prose(mutant.changed, mutant.effect),
            _verdict(judgement),
            f"Shown by {_cases(judgement)}.",
        ]
        items.append(f"<li>{'<br>'.join(parts)}</li>")
    return _list(items, title)


def rewrite_list(judgements: Iterable[Judgement], title: str) -> str:
    """One item a right kernel in another style, and how many cases accuse it."""
    items = []
    for judgement in judgements:
        mutant, language = judgement.mutant, LANGUAGES[judgement.subject.language]
        name = f"<strong>{escape(mutant.name)}</strong> ({language})"
        calm = "" if judgement.caught else ' class="kl-verdict--none"'
        items.append(f"<li{calm}>{name}<br>{_prose(mutant.changed)} Accused in {_cases(judgement)}.</li>")
    return _list(items, title)


def _list(items: list[str], title: str) -> str:
    inner = "".join(items or ["<li>none</li>"])
    return f'<div class="kl-fig kl-verdicts"><p class="kl-verdicts__title">{escape(title)}</p><ul>{inner}</ul></div>'


def _cases(judgement: Judgement) -> str:
    """`3 of 4 cases`; those with nothing to compute count only where they show something."""
    number = sum(not case.trivial or case.name in judgement.failed for case in judgement.subject.cases)
    return f"{len(judgement.failed)} of {number} cases"


def _prose(*sentences: str) -> str:
    """Sentences with `code` in them."""
    parts = escape(" ".join(sentences)).split("`")
    return "".join(f"<code>{part}</code>" if number % 2 else part for number, part in enumerate(parts))


def _verdict(judgement: Judgement) -> str:
    if judgement.shown is None:
        return f"<em>Not caught.</em> {_prose(judgement.mutant.unseen)}"
    case, verdict = judgement.shown
    place = f"<code>{escape(verdict.place)}</code>" if verdict.place else ""
    words = ", ".join(filter(None, [place, escape(verdict.who), f"case {escape(case)}"]))
    code = f"<br><code>{escape(verdict.code)}</code>" if verdict.code else ""
    return f'<em class="kl-verdict__kind">{escape(verdict.kind)}</em>: {words}{code}'
