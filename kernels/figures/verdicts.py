"""What a trace found wrong, as a list that reads well on a narrow screen."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from kernels.figures.html import escape, number

if TYPE_CHECKING:
    from kernels.trace import Fault


NONE = "no verdict: nothing is wrong with the recorded accesses"


def verdict_list(faults: Iterable[Fault], title: str = "", most: int = 4, none: str = NONE) -> str:
    """One item a verdict or advice: its kind, then its sentence. Without any, `none` is the sentence that says so.

    An item whose explanation is not named like its kind carries the key as `data-explained`. `title` says what was
    traced. After `most` verdicts the list says how many follow.
    """
    faults = list(faults)
    items = [_item(fault) for fault in faults[:most]]
    if len(faults) > most:
        items.append(f"<li>and {number(len(faults) - most)} more</li>")
    if not items:
        items = [f'<li class="kl-verdict--none">{escape(none)}</li>']
    head = f'<p class="kl-verdicts__title">{escape(title)}</p>' if title else ""
    return f'<div class="kl-fig kl-verdicts">{head}<ul>{"".join(items)}</ul></div>'


def verdict_text(fault: Fault) -> str:
    """The verdict's sentence for output that is plain text: code stands in it without the marks that a page sets."""
    return fault.sentence.replace("`", "")


def _item(fault: Fault) -> str:
    key = f' data-explained="{escape(fault.explanation)}"' if fault.explanation != fault.kind else ""
    calm = ' class="kl-advice"' if hasattr(fault, "remedy") else ""  # advice: right, but slow
    return (
        f'<li{calm}{key}><strong class="kl-verdict__kind">{escape(fault.kind)}</strong> {escape(fault.sentence)}</li>'
    )
