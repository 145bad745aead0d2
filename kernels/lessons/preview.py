"""What a live preview has shown, and so what it must render in a build: the page that changed, then the others.

`turns.py` says which pages a build looks at. Of these it renders those whose text or outputs are not what was shown.
What pages have in common (titles in the navigation, front matter, the theme, a page such as a glossary that others are
made from) may have changed as well: a build that looks at all pages renders all that this concerns. It stops as soon as
another file is saved. Nothing here knows a site generator: a page is anything that has the attributes of `FACTS`, an
address `url`, and no `content` until it was read.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from kernels.lessons.model import PageOutcome, PageSource
from kernels.lessons.turns import Turn, Turns

FACTS = ("title", "meta", "toc", "present_anchor_ids")
"""What others may ask a page that is not rendered in this build: it says what it said when it was."""


@dataclass
class _Shown:
    outcome: PageOutcome
    state: str
    common: str
    html: str = ""
    facts: dict[str, Any] = field(default_factory=dict)
    links: dict[str, dict[str, str]] = field(default_factory=dict)
    """Links to anchors of other pages: by the page's name, the anchor and the link as it was written."""


class Preview:
    """Follows the builds of a live preview. One page at a time is rendered; builds come one after another."""

    def __init__(self) -> None:
        self.turns = Turns()
        """Which pages a build looks at, where others follow it."""
        self.saved: Callable[[], bool] = lambda: False
        """Whether a file was saved since the build began for which what is being built makes way."""
        self.can_wait: Callable[[Path], bool] = lambda path: False
        """Whether a file is none that somebody waits to see on a page: what is being built goes on when it is saved."""
        self.addresses: dict[str, str] = {}
        """The pages that a browser can ask for, by the paths of their files below the site."""
        self.common = ""
        """Digest of what all pages have in common; set before pages are written, read when they are."""
        self.rendered: list[str] = []
        """Pages that this build wrote, in order."""
        self.repainted: list[str] = []
        """Those of them that do not look as before."""
        self.unchecked = False
        """Whether pages were left out of this build that may have changed as well."""
        self._shown: dict[str, _Shown] = {}
        self._states: dict[str, tuple[PageOutcome, str]] = {}
        self._due: set[str] = set()
        self._stopped = False

    def forget(self) -> None:
        """All pages must be rendered again."""
        self._shown.clear()
        self._states.clear()

    def interrupted(self) -> bool:
        """Whether something goes before what is being built, which then leaves the rest to the next build."""
        return self.saved() or self.turns.called

    def begin(self, sources: list[PageSource], before: dict[str, PageOutcome], first: str = "") -> Turn:
        """Begin a build: what it does. `before` is what the last one knew of the pages, `first` see `Turns.next`."""
        unseen = {source_of_page(name) for name in set(self.addresses.values()) - self._shown.keys()}
        return self.turns.next(sources, before, unseen, first)

    def open(self, address: str) -> str:
        """A browser asks for a file of the site: the page that it is, if it is one that nobody has seen; else ""."""
        name = self.addresses.get(address, "")
        if not name:
            return ""
        shown = self._shown.get(name)
        self.turns.open(source_of_page(name), shown is None, bool(shown and shown.outcome.waiting))
        return name if shown is None and self.turns.stepwise else ""

    def is_shown(self, name: str) -> bool:
        """Whether a page has been shown."""
        return name in self._shown

    def plan(self, outcomes: dict[str, PageOutcome], common: str, *, complete: bool) -> None:
        """Decide which pages are due. `common` is what pages have in common, as far as is known now.

        `complete` says that every page was looked at, and nothing interrupted that.
        """
        self._states = {name: (outcome, self._state(name, outcome)) for name, outcome in outcomes.items()}
        self.common, self.rendered, self.repainted, self._stopped = common, [], [], False
        self.unchecked = not complete
        self._due = {name for name, (_, state) in self._states.items() if self._of(name, "state") != state}
        if self.turns.now.names:
            self._due = {name for name in self._due if source_of_page(name) in self.turns.now.names}
        else:
            self._due |= {name for name in self._states if self._of(name, "common") != common}

    def is_due(self, name: str) -> bool:
        """Whether a page is to be rendered in this build; asked again before it is written."""
        if self._shown and not self.turns.now.waited_for and not self._stopped:
            self._stopped = self.interrupted()
        return name in self._due and not self._stopped

    def behind(self) -> bool:
        """Whether another build has something to do: pages were left out, or have other things in common now."""
        return self.unchecked or any(self._of(name, "common") != self.common for name in self._states)

    def waiting(self) -> int:
        """How many pages show what is known of them, and have blocks that would run here."""
        return sum(bool(outcome.waiting) for outcome, _ in self._states.values())

    def show(self, name: str, html: str, page: Any, links: dict[str, dict[str, str]]) -> None:
        """A page is written. `page` is asked for its facts, `links` are its links to anchors of other pages."""
        outcome, state = self._states[name]
        digest = hashlib.sha256(html.encode()).hexdigest()
        self.rendered.append(name)
        if self._of(name, "html") != digest:
            self.repainted.append(name)
        self._shown[name] = _Shown(outcome, state, self.common, digest, facts_of(page), links)

    def recall(self, name: str, page: Any) -> dict[str, dict[str, str]]:
        """Tell a page that is not due what it said when it was shown; returns its links to anchors."""
        shown = self._shown.get(name)
        if shown is None or name in self._due:
            return {}
        for fact, value in shown.facts.items():
            setattr(page, fact, value)
        return shown.links

    def in_common(self, pages: dict[str, Any], more: Iterable[Any]) -> str:
        """A digest of what every page may show of the others, address, title and front matter, and of `more`.

        A page that has not been read in this build is taken to say what it said when it was shown.
        """
        told = []
        for name, page in pages.items():
            facts = self._shown[name].facts if page.content is None and name in self._shown else facts_of(page)
            told.append([name, page.url, facts["title"], {**facts["meta"], "lessons": None}])
        return hashlib.sha256(json.dumps([told, list(more)], default=str, sort_keys=True).encode()).hexdigest()

    def forget_gone(self, names: Iterable[str]) -> list[str]:
        """Forget pages that are not among `names` any more; returns them."""
        gone = sorted(self._shown.keys() - set(names))
        for name in gone:
            del self._shown[name]
        return gone

    def _of(self, name: str, what: str) -> str | None:
        shown = self._shown.get(name)
        return getattr(shown, what) if shown else None

    def _state(self, name: str, outcome: PageOutcome) -> str:
        shown = self._shown.get(name)
        if shown is not None and shown.outcome is outcome:
            return shown.state  # the engine says that nothing has happened to it
        outcomes = [(o.status == "failed", o.output.text, o.label, o.faults) for o in outcome.outcomes.values()]
        parts = [
            outcomes,
            outcome.waiting,
            outcome.scan.source.digest,
            outcome.values,
            outcome.faults,
            outcome.snippets,
        ]
        state = hashlib.sha256(repr(parts).encode()).hexdigest()
        if shown is not None and shown.state == state:
            shown.outcome = outcome
        return state


def source_of_page(name: str) -> str:
    """The name of the source of a page: a notebook that is shown as a page has another."""
    return name.removesuffix(".ipynb") + ".py" if name.endswith(".ipynb") else name


def facts_of(page: Any) -> dict[str, Any]:
    """The facts of a page."""
    return {fact: getattr(page, fact) for fact in FACTS}


def stamps(folder: Path) -> list[str]:
    """Changes with every file below a folder."""
    found = []
    for path in sorted(folder.rglob("*")):
        if "__pycache__" not in path.parts and path.is_file():
            with contextlib.suppress(FileNotFoundError):  # gone since
                found.append(f"{path} {path.stat().st_mtime_ns}")
    return found
