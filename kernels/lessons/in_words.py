"""Run a program, and show in words the figures and tables that it prints: python -m kernels.lessons.in_words FILE.

A block of a page prints its figure as HTML, which a terminal does not show.
"""

from __future__ import annotations

import re
import runpy
import sys
from typing import TextIO

from kernels.lessons.notebook import plain

_MARKUP = re.compile(r"\s*<(details|div|figure|h[1-6]|ol|p|svg|table|ul)\b")


class InWords:
    """A stream that passes text on as it is, and HTML as its words; `print` hands over one or the other."""

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream

    def write(self, text: str) -> int:
        """Write `text`, or the words of it where it is HTML."""
        self._stream.write(plain(text) if _MARKUP.match(text) else text)
        return len(text)

    def __getattr__(self, name: str) -> object:
        return getattr(self._stream, name)


def main(arguments: list[str]) -> int:
    """Run the program as `python FILE` does; returns 2 where no file is named."""
    if len(arguments) != 1:
        print("python -m kernels.lessons.in_words FILE: name one program", file=sys.stderr)
        return 2
    sys.argv = arguments
    sys.stdout = InWords(sys.stdout)
    runpy.run_path(arguments[0], run_name="__main__")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
