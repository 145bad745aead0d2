"""The fill-in marks of a starter: its regions, what of an answer lies outside them, and whether it is as shipped."""

from __future__ import annotations

import ast
import hashlib
import io
import tokenize
from collections.abc import Sequence
from dataclasses import dataclass

START, END = "# --- fill in ---", "# --- end ---"


@dataclass(frozen=True)
class Region:
    """The lines between a pair of marks; `first` is the number of the first of them, counted from one."""

    first: int
    text: str

    @property
    def asks(self) -> bool:
        """Whether it only raises NotImplementedError, as a starter's region does that has no code of its own."""
        return _words(self.text)[:2] == ["raise", "NotImplementedError"]

    @property
    def digest(self) -> str:
        """Twelve hex digits of its code, without comments and white space."""
        return hashlib.sha256("\n".join(_words(self.text)).encode()).hexdigest()[:12]


@dataclass(frozen=True)
class Marked:
    """A file's regions, and its other lines, with the number of each."""

    regions: tuple[Region, ...]
    outside: tuple[tuple[int, str], ...]


class MarksDamaged(ValueError):
    """The marks do not come in pairs; the message names the line."""


def marked(text: str, name: str) -> Marked:
    """The regions of a file. MarksDamaged where the marks do not alternate."""
    regions: list[Region] = []
    outside: list[tuple[int, str]] = []
    begun: int | None = None
    held: list[str] = []
    for number, line in enumerate(text.split("\n"), 1):
        mark = line.strip()
        if mark == START:
            if begun is not None:
                raise MarksDamaged(f"{name}:{number} opens a region with `{START}`; the one from line {begun} is open")
            begun, held = number, []
        elif mark == END:
            if begun is None:
                raise MarksDamaged(f"{name}:{number} closes a region with `{END}`; no `{START}` stands above it")
            regions.append(Region(begun + 1, "\n".join(held)))
            begun = None
        elif begun is not None:
            held.append(line)
            continue
        outside.append((number, line.rstrip()))
    if begun is not None:
        raise MarksDamaged(f"{name}:{begun} opens a region with `{START}`; no `{END}` stands below it")
    return Marked(tuple(regions), tuple(outside))


def as_shipped(answer: Marked, digests: Sequence[str]) -> list[Region]:
    """The regions that hold the starter's code still: those that only ask, and those whose digest is among these."""
    return [region for region in answer.regions if region.asks or region.digest in digests]


def first_change(answer: Marked, other: Marked) -> tuple[int, str, str] | None:
    """The first line outside the marks that differs from the other's: its number, it, and the other's."""
    ours = [(number, line) for number, line in answer.outside if line]
    theirs = [line for _, line in other.outside if line]
    for i, (number, line) in enumerate(ours):
        if i >= len(theirs) or line != theirs[i]:
            return number, line.strip(), theirs[i].strip() if i < len(theirs) else ""
    if len(theirs) > len(ours):
        return (ours[-1][0] if ours else 1), "", theirs[len(ours)].strip()
    return None


def names(text: str) -> dict[str, int]:
    """What a module defines at its top level, with the line of each; SyntaxError where it is no Python."""
    found: dict[str, int] = {}
    for node in ast.parse(text).body:
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)):
            found.setdefault(node.name, node.lineno)
        for target in getattr(node, "targets", [getattr(node, "target", None)]):
            if isinstance(target, ast.Name):
                found.setdefault(target.id, node.lineno)
    return found


def _words(text: str) -> list[str]:
    """The code's tokens without comments, line breaks and indentation; its lines where it cannot be read as Python."""
    quiet = (tokenize.COMMENT, tokenize.NL, tokenize.NEWLINE, tokenize.INDENT, tokenize.DEDENT, tokenize.ENDMARKER)
    lines = [line.strip() for line in text.split("\n") if line.strip()]
    try:
        tokens = list(tokenize.generate_tokens(io.StringIO("\n".join(lines)).readline))
    except (tokenize.TokenError, SyntaxError):
        return lines
    return [token.string for token in tokens if token.type not in quiet]
