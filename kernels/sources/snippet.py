"""The text of one symbol, as a page includes it: by name, never by line number."""

from __future__ import annotations

import ast
from dataclasses import dataclass
from pathlib import Path

from kernels.sources.closure import CUDA_SUFFIXES, Sources
from kernels.sources.cuda import parse_cuda


@dataclass(frozen=True)
class Snippet:
    """Source text with the place it was taken from. `path` is relative to the project's root.

    `parts` are the pieces of neighbouring lines that `text` is made of, each with the number of its first line.
    """

    text: str
    path: str
    first_line: int
    last_line: int
    language: str
    parts: tuple[tuple[str, int], ...] = ()


def source_of(reference: str, root: Path | None = None) -> Snippet:
    """The text of a symbol, with its decorators and the comment lines directly above it.

    A path alone (``cuda/kernels.cu``) is the whole file. Several names may be joined with commas
    (``cuda/kernels.cu:kThreads,kWarps``): they come in file order.

    Raises:
        KeyError: no such file, module or symbol, a module that only passes the symbol on, or a file that is not UTF-8.
    """
    try:
        return _found(reference, Sources(root))
    except UnicodeDecodeError as error:
        raise KeyError(f"{reference!r} cannot be read: a file is not UTF-8 ({error})") from None


def _found(reference: str, sources: Sources) -> Snippet:
    if ":" not in reference:
        return _whole_file(sources, reference)
    place, _, names = reference.rpartition(":")
    wanted = [name.strip() for name in names.split(",") if name.strip()]
    if not wanted:
        raise KeyError(f"{reference!r} names no symbol: write one behind the colon, or the file alone for all of it")
    if place.endswith(CUDA_SUFFIXES):
        for name in wanted:
            sources.check_cuda(place, name)
        path = sources.root / place
        text = path.read_text(encoding="utf-8")
        symbols = parse_cuda(text).symbols
        spans = [span for name in wanted for span in symbols[name].spans]
        language = "cuda"
    else:
        for name in wanted:
            sources.check_python(place, name)
        path = sources.module_file(place)
        text = path.read_text(encoding="utf-8")
        spans = [span for name in wanted for span in _python_spans(place, text, name)]
        language = "python"
    lines = text.splitlines()
    marker = "//" if language == "cuda" else "#"
    spans = sorted({(_with_comment(lines, first, marker), last) for first, last in spans})
    joined = spans[:1]
    for first, last in spans[1:]:
        if all(not line.strip() for line in lines[joined[-1][1] : first - 1]):  # nothing but blank lines between them
            joined[-1] = (joined[-1][0], max(last, joined[-1][1]))
        else:
            joined.append((first, last))
    parts = tuple(("\n".join(lines[first - 1 : last]), first) for first, last in joined)
    where = path.relative_to(sources.root).as_posix()
    text = "\n\n".join(part for part, _ in parts)
    return Snippet(text, where, joined[0][0], joined[-1][1], language, parts)


def _whole_file(sources: Sources, reference: str) -> Snippet:
    path = sources.root / reference
    languages = {".py": "python", ".cu": "cuda", ".cuh": "cuda"}
    if not path.is_file() or path.suffix not in languages:
        raise KeyError(f"{reference!r} is no file of the project that ends in {', '.join(languages)}")
    text = path.read_text(encoding="utf-8").rstrip("\n")
    return Snippet(text, reference, 1, text.count("\n") + 1, languages[path.suffix], ((text, 1),))


def _python_spans(module: str, text: str, name: str) -> list[tuple[int, int]]:
    spans, tree = [], ast.parse(text)
    for node in tree.body:
        targets = getattr(node, "targets", [getattr(node, "target", None)])
        stored = [each for target in targets if target is not None for each in ast.walk(target)]
        bound = {getattr(node, "name", None)} | {
            each.id for each in stored if isinstance(each, ast.Name) and isinstance(each.ctx, ast.Store)
        }
        if name in bound:
            first = min([node.lineno, *(d.lineno for d in getattr(node, "decorator_list", []))])
            spans.append((first, node.end_lineno or first))
    if not spans:
        raise KeyError(_passed_on(module, tree, name))
    return spans


def _passed_on(module: str, tree: ast.Module, name: str) -> str:
    """Why a name that a module has cannot be included from there."""
    for node in ast.walk(tree):
        if isinstance(node, (ast.Import, ast.ImportFrom)):
            alias = next((each for each in node.names if (each.asname or each.name) == name), None)
            if alias:
                node.names = [alias]
                return f"{module} does not define {name!r}: `{ast.unparse(node)}`; name the module that defines it"
    return f"{module} binds {name!r} inside another statement; move it to the top of the module, or include the file"


def _with_comment(lines: list[str], first: int, marker: str) -> int:
    while first >= 2 and lines[first - 2].lstrip().startswith(marker):
        first -= 1
    return first
