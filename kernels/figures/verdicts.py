"""What a trace found wrong, as a list that reads well on a narrow screen."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from kernels.figures.html import escape, number

if TYPE_CHECKING:
    from kernels.trace import Fault


def verdict_list(faults: Iterable[Fault], title: str = "", most: int = 4) -> str:
    """One item a verdict: its kind, then its sentence. Without any, a sentence says so.

    `title` says what was traced. After `most` verdicts the list says how many follow.
    """
    faults = list(faults)
    items = [
        f'<li><strong class="kl-verdict__kind">{escape(fault.kind)}</strong> {escape(fault.sentence)}</li>'
        for fault in faults[:most]
    ]
    if len(faults) > most:
        items.append(f"<li>and {number(len(faults) - most)} more</li>")
    if not items:
        items = ['<li class="kl-verdict--none">no verdict: nothing is wrong with the recorded accesses</li>']
    head = f'<p class="kl-verdicts__title">{escape(title)}</p>' if title else ""
    return f'<div class="kl-fig kl-verdicts">{head}<ul>{"".join(items)}</ul></div>'
