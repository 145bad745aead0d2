"""Where a verdict is explained: the page and the anchor for each key that `kernels.trace` gives a verdict or advice.

Below this room nobody knows that a site exists. A verdict carries a key (`Fault.explanation`), and here the key becomes
a place: in words for a terminal, as a link for a page.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from html import escape
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from kernels.trace import Fault

PAGE = "reference/verdicts.md"


@dataclass(frozen=True)
class Explanation:
    """A heading of a page: `page` by its path below docs/, `anchor` without the #, `title` as it stands there."""

    title: str
    anchor: str
    page: str = PAGE

    @property
    def place(self) -> str:
        """`docs/reference/verdicts.md#out-of-bounds`."""
        return f"docs/{self.page}#{self.anchor}"


EXPLAINED = {
    "out-of-bounds": Explanation("Out of bounds", "out-of-bounds"),
    "unwritten": Explanation("Never written", "unwritten"),
    "double-write": Explanation("Written twice", "double-write"),
    "read-write-overlap": Explanation("Read here, written there", "read-write-overlap"),
    "global-race": Explanation("A race in global memory", "global-race"),
    "shared-race": Explanation("A race in shared memory", "shared-race"),
    "read-before-written": Explanation("Read before written", "read-before-written"),
    "barrier-divergence": Explanation("A barrier that not all threads reach", "barrier-divergence"),
    "warp-divergence": Explanation("A shuffle that not all lanes reach", "warp-divergence"),
    "inactive-lane": Explanation("A shuffle from an inactive lane", "inactive-lane"),
    "shuffle-width": Explanation("A shuffle from an inactive lane", "inactive-lane"),
    "misaligned": Explanation("A wide access at a misaligned address", "misaligned"),
    "not-a-number": Explanation("NaN, and values that are wrong", "not-a-number"),
    "wrong-value": Explanation("NaN, and values that are wrong", "not-a-number"),
    "input-changed": Explanation("NaN, and values that are wrong", "not-a-number"),
    "launch-refused": Explanation("A launch that is refused", "launch-refused"),
    "assertion": Explanation("A kernel that is stopped", "stopped"),
    "too-long": Explanation("A kernel that is stopped", "stopped"),
    "too-many-events": Explanation("A kernel that is stopped", "stopped"),
    "stack-overflow": Explanation("A kernel that is stopped", "stopped"),
    "out-of-memory": Explanation("A kernel that is stopped", "stopped"),
    "crash": Explanation("A kernel that is stopped", "stopped"),
    "uncoalesced": Explanation("Uncoalesced access", "uncoalesced"),
    "bank-conflict": Explanation("Bank conflicts", "bank-conflict"),
}

_ITEM = re.compile(
    r'<li(?P<calm> class="kl-advice")?(?: data-explained="(?P<key>[^"]*)")?>'
    r'(?P<start><strong class="kl-verdict__kind">(?P<kind>[^<]*)</strong>'
    r"(?P<rest>(?:(?!</?li).)*))</li>",
    re.DOTALL,
)


def in_words(fault: Fault) -> str:
    """`Explained in: docs/reference/verdicts.md#unwritten (Never written)`; empty where nothing explains it."""
    explanation = EXPLAINED.get(fault.explanation)
    return f"Explained in: {explanation.place} ({explanation.title})" if explanation else ""


def with_explanation(fault: Fault) -> str:
    """The verdict's sentence, and on a line of its own where it is explained."""
    words = in_words(fault)
    return f"{fault}\n      {words}" if words else str(fault)


def linked(html: str, href: Callable[[str], str | None] | None = None) -> str:
    """The HTML with a link to its explanation in each verdict of a `verdict_list`.

    href: gives the address of a page by its path below docs/, relative to the page that the HTML stands on, or None
    where the site has no such page: that verdict stays as it is. Without `href` the place is named and not linked.
    """

    def one(match: re.Match[str]) -> str:
        explanation = EXPLAINED.get(match["key"] or match["kind"])
        if explanation is None:
            return match[0]
        if href is None:
            more = f"<span>Explained in: {escape(explanation.place)}</span>"
        else:
            address = href(explanation.page)
            if address is None:
                return match[0]
            more = f'<a href="{escape(address)}#{explanation.anchor}">Explained in: {escape(explanation.title)}</a>'
        return f'<li{match["calm"] or ""}>{match["start"]} <span class="kl-verdict__explained">{more}</span></li>'

    return _ITEM.sub(one, html)
