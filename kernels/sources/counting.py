"""Lines of code: what is left of a text without blank lines, comments and docstrings."""

from __future__ import annotations

import ast
import io
import re
import textwrap
import tokenize
from collections.abc import Iterator
from pathlib import Path

from kernels.sources.closure import CUDA_SUFFIXES, Sources
from kernels.sources.snippet import source_of

_CUDA_COMMENT = re.compile(r"//[^\n]*|/\*.*?\*/", re.S)
_QUIET = {tokenize.COMMENT, tokenize.NL, tokenize.NEWLINE, tokenize.INDENT, tokenize.DEDENT, tokenize.ENDMARKER}


def code_lines(text: str, language: str = "python") -> int:
    """The number of lines of `text` that hold code; `language` is "python" or "cuda".

    A docstring is no code; any other string is. Python that does not parse raises SyntaxError.
    """
    if language == "cuda":
        return sum(bool(line.strip()) for line in _CUDA_COMMENT.sub(_newlines, text).splitlines())
    text = textwrap.dedent(text)
    described = _docstring_lines(text)
    used: set[int] = set()
    for token in tokenize.generate_tokens(io.StringIO(text).readline):
        if token.type not in _QUIET:
            used.update(range(token.start[0], token.end[0] + 1))
    return len(used - described)


def lines_reached(reference: str, kernels_only: bool | None = None) -> int:
    """Lines of code of a symbol and of everything of the project that it reaches.

    `kernels_only` True counts the functions that Triton compiles, False the others, None both. Code that stands outside
    of functions, classes and constants is not counted.
    """
    return sum(code_lines(*each) for each in _texts(reference, kernels_only))


def _texts(reference: str, kernels_only: bool | None) -> Iterator[tuple[str, str]]:
    """The text of each symbol that is reached, with its language; names that one statement binds come once."""
    sources = Sources()
    places: dict[str, set[str]] = {}
    for symbol in sources.explain([reference]):
        place, _, name = symbol.rpartition(":")
        if name != "<module>":
            places.setdefault(place, set()).add(name)
    for place, names in places.items():
        if place.endswith(CUDA_SUFFIXES):
            if kernels_only is not False:
                yield from ((source_of(f"{place}:{name}").text, "cuda") for name in sorted(names))
            continue
        text = (sources.module_file(place) or Path()).read_text(encoding="utf-8")
        for node in ast.parse(text).body:
            decorators = getattr(node, "decorator_list", [])
            compiled = any("triton.jit" in ast.unparse(each) for each in decorators)
            if names & _bound(node) and kernels_only in (None, compiled):
                first = min([node.lineno, *(each.lineno for each in decorators)])
                yield "\n".join(text.splitlines()[first - 1 : node.end_lineno]), "python"


def _bound(node: ast.stmt) -> set[str]:
    """The names that a statement of a module gives a value to."""
    if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)):
        return {node.name}
    targets = getattr(node, "targets", [getattr(node, "target", None)])
    return {each.id for target in targets if target for each in ast.walk(target) if isinstance(each, ast.Name)}


def _newlines(match: re.Match) -> str:
    return "\n" * match[0].count("\n")


def _docstring_lines(text: str) -> set[int]:
    lines: set[int] = set()
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)) and node.body:
            first = node.body[0]
            if (
                isinstance(first, ast.Expr)
                and isinstance(first.value, ast.Constant)
                and isinstance(first.value.value, str)
            ):
                lines.update(range(first.lineno, (first.end_lineno or first.lineno) + 1))
    return lines
