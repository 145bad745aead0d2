"""A CUDA C++ file as top-level symbols, each with its tokens: no preprocessor and no compiler needed.

Comments and white space go; `namespace {…}` and `extern "C" {…}` are looked into; a macro is a symbol of its name.
"""

from __future__ import annotations

import hashlib
import re
from dataclasses import dataclass, field

_TOKEN = re.compile(
    r'//[^\n]*|/\*.*?\*/|R"\((?:.|\n)*?\)"|"(?:\\.|[^"\\\n])*"|\'(?:\\.|[^\'\\\n])*\'|\w+|<<<|>>>|::|\s+|.', re.DOTALL
)
_KEYWORDS = {"__launch_bounds__", "__attribute__", "alignas", "decltype", "__declspec__", "__align__", "requires"}


@dataclass
class CudaSymbol:
    """A function, type, constant or macro: the hashes of its token sequences, the names in them, its line span."""

    digests: list[str] = field(default_factory=list)
    names: set[str] = field(default_factory=set)
    spans: list[tuple[int, int]] = field(default_factory=list)
    """First and last line, counted from one, comment lines directly above included."""
    exported: bool = False
    """Declared `extern "C"`: callable from Python by this name."""
    is_function: bool = False


@dataclass
class CudaFile:
    """The symbols of a file, the local files that it includes, and its static assertions."""

    symbols: dict[str, CudaSymbol]
    includes: list[str]
    assertions: list[CudaSymbol]


def parse_cuda(text: str) -> CudaFile:
    """Split the text of a `.cu`, `.cuh` or `.h` file into symbols."""
    parsed = CudaFile({}, [], [])
    text = text.replace("\r\n", "\n")
    kept: list[str] = []
    lines = text.split("\n")
    index = 0
    while index < len(lines):  # preprocessor lines become symbols of their own, the rest keeps its line numbers
        if not lines[index].lstrip().startswith("#"):
            kept.append(lines[index])
            index += 1
            continue
        first = index
        while lines[index].rstrip().endswith("\\") and index + 1 < len(lines):
            index += 1
        directive = " ".join(line.rstrip().rstrip("\\") for line in lines[first : index + 1]).strip()
        kept += [""] * (index - first + 1)
        index += 1
        if match := re.match(r'#\s*include\s*"([^"]+)"', directive):
            parsed.includes.append(match[1])
        elif match := re.match(r"#\s*define\s+(\w+)", directive):
            _add(parsed, match[1], _tokens(directive), (first + 1, index))
    _split(parsed, "\n".join(kept), 1, exported=False)
    return parsed


def _split(parsed: CudaFile, text: str, first_line: int, *, exported: bool) -> None:
    depth = 0
    start = end = 0
    pieces = [(match.group(), match.start(), match.end()) for match in _TOKEN.finditer(text)]
    for token, _begin, end in pieces:
        if not _is_code(token):
            continue
        if token in "([{":
            depth += 1
        elif token in ")]}":
            depth -= 1
        if depth == 0 and (token == ";" or (token == "}" and _closes_definition(text[start:end], text[end:]))):
            _declaration(parsed, text, start, end, first_line, exported=exported)
            start = end
    if _tokens(text[start:end]):
        _declaration(parsed, text, start, len(text), first_line, exported=exported)


def _closes_definition(declaration: str, rest: str) -> bool:
    """A `}` ends a function or a namespace, but not `struct S {…} s;` or `int table[] = {…};`."""
    return not re.match(r"\s*(;|,|\w+\s*[;=\[])", rest) or not re.search(
        r"\b(struct|class|union|enum)\b|=", declaration
    )


def _declaration(parsed: CudaFile, text: str, start: int, end: int, first_line: int, *, exported: bool) -> None:
    declaration = text[start:end]
    tokens = _tokens(declaration)
    if not tokens or tokens == [";"]:
        return
    lead = next(m.start() for m in _TOKEN.finditer(declaration) if _is_code(m.group()))
    line = first_line + text.count("\n", 0, start + lead)
    last = first_line + text.count("\n", 0, end)
    is_block = tokens[:2] == ["extern", '"C"'] and "{" in tokens[:3]
    if is_block or (tokens[0] in ("namespace", "inline") and "{" in tokens[:4] and "(" not in tokens[:4]):
        brace = declaration.index("{")
        inner_line = first_line + text.count("\n", 0, start + brace)
        _split(parsed, declaration[brace + 1 : declaration.rindex("}")], inner_line, exported=exported or is_block)
        return
    if tokens[0] == "static_assert":
        parsed.assertions.append(CudaSymbol([_digest(tokens)], _names(tokens)))
        _add(parsed, "static_assert", tokens, (line, last))  # so that a page can show them; nothing reaches this name
        return
    name, is_function = _name_of(tokens)
    symbol = _add(parsed, name, tokens, (line, last))
    symbol.exported |= exported or tokens[:2] == ["extern", '"C"']
    symbol.is_function |= is_function


def _name_of(tokens: list[str]) -> tuple[str, bool]:
    """The name that a declaration binds, and whether it is a function."""
    index = 0
    if tokens[0] == "template":
        nesting = 0
        for index, token in enumerate(tokens):
            nesting += token == "<"
            nesting -= token == ">"
            if token == ">" and nesting == 0:
                index += 1
                break
    rest = tokens[index:]
    for keyword in ("struct", "class", "union", "enum", "using"):
        if keyword in rest[:3] and "(" not in rest[: rest.index(keyword) + 2]:
            after = [token for token in rest[rest.index(keyword) + 1 :] if re.match(r"[A-Za-z_]", token)]
            return (next((t for t in after if t not in ("class", "struct") and t not in _KEYWORDS), "?"), False)
    previous = "?"
    skip = 0
    for position, token in enumerate(rest):
        if skip:
            skip += (token == "(") - (token == ")")
            if token == ")" and skip == 1:
                skip = 0
            continue
        if token in _KEYWORDS and rest[position + 1 : position + 2] == ["("]:
            skip = 1
            continue
        if token == "(":
            return previous, True
        if token in ("=", "[", ";", "{"):
            return previous, False
        if re.match(r"[A-Za-z_]", token):
            previous = token
    return previous, False


def _add(parsed: CudaFile, name: str, tokens: list[str], span: tuple[int, int]) -> CudaSymbol:
    symbol = parsed.symbols.setdefault(name, CudaSymbol())
    symbol.digests.append(_digest(tokens))
    symbol.names |= _names(tokens)
    symbol.spans.append(span)
    return symbol


def _tokens(text: str) -> list[str]:
    return [token for token in _TOKEN.findall(text) if _is_code(token)]


def _is_code(token: str) -> bool:
    return not token.isspace() and not token.startswith(("//", "/*"))


def _names(tokens: list[str]) -> set[str]:
    return {token for token in tokens if re.match(r"[A-Za-z_]\w*$", token)}


def _digest(tokens: list[str]) -> str:
    return hashlib.sha256("\0".join(tokens).encode()).hexdigest()
