"""What hooks of the site look for in pages that others made, the theme or a plugin, and whether it is still there."""

from __future__ import annotations

import logging
import re
from collections import Counter
from collections.abc import Callable

_log = logging.getLogger("mkdocs.hooks")  # its warnings fail a strict build


class Mends:
    """Counts how often each of a hook's mends found its place in a build.

    `file` is the hook's file, `patterns` the patterns by what they look for, in words. A mend that finds nothing where
    it used to find something leaves its fault in the pages, in silence: `tell` breaks it.
    """

    def __init__(self, file: str, patterns: dict[str, re.Pattern]) -> None:
        self._file, self._patterns, self._found, self._pages = file, patterns, Counter(), 0

    def page(self) -> None:
        """One page more is looked at."""
        self._pages += 1

    def sub(self, name: str, replacement: str | Callable[[re.Match], str], text: str) -> str:
        """The text, with what the pattern of that name finds replaced."""
        text, found = self._patterns[name].subn(replacement, text)
        self._found[name] += found
        return text

    def tell(self) -> None:
        """Warn of every mend that found no place on all pages that were looked at, and begin anew."""
        for name in [name for name in self._patterns if self._pages and not self._found[name]]:
            _log.warning(
                f"{self._file} found {name} on none of {self._pages} pages. Has what makes them changed? Change the "
                "pattern with it, or delete the mend if its fault is gone."
            )
        self._found.clear()
        self._pages = 0
