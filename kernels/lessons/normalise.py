"""What is taken out of a block's output before it is shown, stored and compared.

`plain` and `bounded` apply to every block. The named ones apply where a fence asks: ``normalise="durations"``.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Callable

LIMIT_CHARS = 20_000
"""Longest output that a page shows and a store keeps."""

_ERASE = re.compile(r"\x1b\[[02]?K")
_ERASED = "\x05"
_ESCAPE = re.compile(r"\x1b\[[0-?]*[ -/]*[@-~]|\x1b\][^\x07\x1b]*(?:\x07|\x1b\\)|\x1b[@-Z\\-_]")
_CONTROL = re.compile(r"[\x00-\x08\x0b\x0c\x0e-\x1f\x7f]")


def plain(text: str, root: str) -> str:
    """Output as a terminal without colours would leave it: no escape codes, carriage returns obeyed, root removed."""
    text = _ERASE.sub(_ERASED, text.replace("\r\n", "\n").replace(_ERASED, "\N{REPLACEMENT CHARACTER}"))
    text = _ESCAPE.sub("", text)
    if any(character in text for character in ("\r", "\b", _ERASED)):
        text = "\n".join(_overtype(line) if _MOVES.search(line) else line for line in text.split("\n"))
    text = _without_root(text, root)
    text = _CONTROL.sub("\N{REPLACEMENT CHARACTER}", text)
    return "\n".join(line.rstrip() for line in text.split("\n")).rstrip("\n")


def _without_root(text: str, root: str) -> str:
    """Paths below the project's folder as seen from there; a folder beside it whose name only begins alike stays."""
    bare = root.rstrip("/\\")
    if "\\" in bare:  # Windows: what is below the root is told as on other systems
        text = re.sub(re.escape(bare) + r"[/\\]([\w./\\-]*)", lambda match: match[1].replace("\\", "/"), text)
    return re.sub(re.escape(bare) + r"(?![\w.-])", ".", text.replace(bare + "/", ""))


def _overtype(line: str) -> str:
    """Apply carriage returns and backspaces: what a progress bar leaves on the screen."""
    cells: list[str] = []
    column = 0
    for character in line:
        if character == "\r":
            column = 0
        elif character == "\b":
            column = max(0, column - 1)
        elif character == _ERASED:
            del cells[column:]
        else:
            cells[column : column + 1] = [character]
            column += 1
    return "".join(cells)


_MOVES = re.compile(f"[\r\b{_ERASED}]")


def bounded(text: str, limit: int = LIMIT_CHARS) -> str:
    """The beginning of a long text, with a note of its length and digest, so that a change past it shows too."""
    if len(text) <= limit:
        return text
    head = text[:limit].rpartition("\n")[0] or text[:limit]
    digest = hashlib.sha256(text.encode()).hexdigest()[:16]
    lines = text.count("\n") + 1
    return f"{head}\n[… {len(text):,} characters in {lines:,} lines; the rest is not shown; sha256 {digest}]"


NORMALISERS: dict[str, Callable[[str], str]] = {
    "addresses": lambda text: re.sub(r"0x[0-9a-fA-F]{4,16}\b", "0x…", text),
    "durations": lambda text: re.sub(r"\b\d+(?:\.\d+)?[ \u00a0]?(?:ns|µs|us|ms|s|min)\b", "… s", text),
    "processes": lambda text: re.sub(r"\b(pid|PID)([ =:]+)\d+", r"\1\2…", text),
    "temporary": lambda text: re.sub(r"(?:/tmp|/var/folders/[^\s/]+/[^\s/]+/T)/[^\s'\":,)]+", "/tmp/…", text),
    "sorted": lambda text: "\n".join(sorted(text.split("\n"))),
}
"""Named normalisers. Each is idempotent."""


def normalise(text: str, names: tuple[str, ...], root: str, *, html: bool) -> str:
    """Everything that happens to an output before it is stored.

    HTML is written by the project's own figures: it is kept as it is, but for the root's path and characters that
    HTML cannot hold, and is not cut.
    """
    if html:
        text = _CONTROL.sub("\N{REPLACEMENT CHARACTER}", text.replace("\r\n", "\n").replace("\r", "\n"))
        return text.replace(root.rstrip("/\\") + "/", "").strip("\n")
    text = plain(text, root)
    for name in names:
        text = NORMALISERS[name](text)
    return bounded(text)
