"""Whose turn it is in a live preview: which pages the next build looks at, and whether it runs their blocks.

A preview answers at once. So its first build looks at one page, with what is known of it: outputs that were accepted,
or that this machine has made. Then come, each in a build of its own that makes way for what stands before it: a page
that somebody has opened and nobody has seen, a page that was saved (where its blocks wait, its words without them), the
blocks of a page that is open, some more pages that nobody has seen. When none is left, all pages are looked at. Blocks
run on pages that were opened or saved, and where what they stand on was saved; the others rest, as they were accepted.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass

from kernels.lessons.model import PageOutcome, PageSource

_UNSEEN_AT_ONCE = 8
_WAITING_AT_ONCE = 4
_OPENED_KEPT = 8


@dataclass(frozen=True)
class Turn:
    """What one build does."""

    names: frozenset[str] = frozenset()
    """The pages that it looks at; all where there are none."""
    runs: bool = True
    """Whether blocks are run; else pages show what is known of them."""
    waited_for: bool = False
    """Whether somebody waits for these pages: for another page of the site they do not make way."""
    resting: frozenset[str] = frozenset()
    """Pages that nobody has opened or saved: their blocks go on waiting, unless what they stand on has changed."""


class Turns:
    """Gives each build its turn. Names of `opened` pages may come from another thread."""

    def __init__(self) -> None:
        self.stepwise = False
        """Whether another build follows the first, so that it need not do all."""
        self.called = False
        """Whether somebody has opened a page that goes before what is being built."""
        self.now = Turn()
        self._opened: list[str] = []
        self._asked: set[str] = set()
        self._saved: frozenset[str] = frozenset()
        self._texts: dict[str, str] = {}

    def open(self, name: str, unseen: bool, waiting: bool) -> None:
        """Somebody has opened a page, which nobody has seen, or whose blocks wait to be run."""
        self._asked.add(name)
        if not (self.stepwise and (unseen or waiting)):
            return
        self._opened = [name, *(each for each in self._opened if each != name)][:_OPENED_KEPT]
        if name not in self.now.names and (unseen or not self.now.waited_for):
            self.called = True

    def next(
        self, sources: list[PageSource], known: Mapping[str, PageOutcome], unseen: Collection[str], first: str
    ) -> Turn:
        """The turn of the build that begins now.

        `sources` are the pages in the order in which they are to come, `known` is what became of them, `unseen` are the
        names of those that a browser could ask for and that were never shown. `first` is the page that comes first of
        all; where it has no name, all are looked at.
        """
        saved = [each.name for each in sources if self._texts.get(each.name, each.digest) != each.digest]
        self._texts = {each.name: each.digest for each in sources}
        self._asked.update(saved)
        self._opened = [*saved, *(name for name in self._opened if name not in saved)]
        self._saved = frozenset(saved)
        self.called = False
        self.now = self._choose(sources, known, unseen, first) if self.stepwise else Turn()
        return self.now

    def _choose(
        self, sources: list[PageSource], known: Mapping[str, PageOutcome], unseen: Collection[str], first: str
    ) -> Turn:
        if not known:
            return Turn(frozenset([first]), runs=False) if first else Turn()
        names = [each.name for each in sources]
        texts = {name: outcome.scan.source.digest for name, outcome in known.items()}
        edited = frozenset(each.name for each in sources if texts.get(each.name, each.digest) != each.digest)
        new = [name for name in names if name not in known or name in unseen]
        waiting = [name for name in names if name in known and known[name].waiting]
        resting = frozenset(waiting) - self._asked
        waiting = [name for name in waiting if name in self._asked]
        if asked := next((name for name in self._opened if name in new), ""):
            return Turn(frozenset([asked]), runs=False, waited_for=True)
        if late := edited & set(waiting):  # all of its blocks may be to run: its words are shown before that
            return Turn(late, runs=False, waited_for=True)
        if edited:  # what was saved before that, and stopped for it, has a block that may run for long
            return Turn(edited & self._saved or edited, waited_for=True)
        if asked := next((name for name in self._opened if name in waiting), ""):
            return Turn(frozenset([asked]), waited_for=True)
        if new:
            return Turn(frozenset(new[:_UNSEEN_AT_ONCE]), runs=False)
        if waiting:
            return Turn(frozenset(waiting[:_WAITING_AT_ONCE]))
        return Turn(resting=resting)
