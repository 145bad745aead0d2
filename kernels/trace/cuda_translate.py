"""Turns a CUDA C++ file into one that a host compiler takes, and finds out what the file defines.

Only three things are rewritten, and never a line number: launches become calls, `const` is blanked in tables marked
`__constant__` or `__device__` (the compiler would read them unseen), and a trailer is added after the last line. All
other words of CUDA are macros and functions of `cuda/host/cuda_runtime.h`.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import lru_cache

SHARED_LIMIT = 227 * 1024
_SKIPPED = re.compile(r'//[^\n]*|/\*.*?\*/|R"\((?:.|\n)*?\)"|"(?:\\.|[^"\\\n])*"|\'(?:\\.|[^\'\\\n])+\'', re.DOTALL)
_TABLE = re.compile(
    r"(?:\b(?:static|const|constexpr|inline)\s+)*(?:__constant__|__device__)\s+"
    r"(?:(?:static|const|constexpr|inline|__constant__|__device__|__align__\(\d+\)|alignas\(\d+\))\s+)*"
    r"(?:unsigned\s+|signed\s+|long\s+)*[\w:]+(?:\s*<[^;{}<>]*>)?\s+(\w+)\s*(?=\[|=|;|\{)"
)
_SHARED = re.compile(
    r"(?P<extern>\bextern\s+)?\b__shared__\s+(?:(?:__align__|alignas)\s*\(\s*\w+\s*\)\s+|volatile\s+)*"
    r"(?P<type>(?:unsigned\s+|signed\s+|long\s+)*[\w:]+(?:\s*<[^;{}<>]*>)?)\s+(?P<rest>[^;]+);"
)
_REFUSED_HEADERS = re.compile(
    r"^[ \t]*#[ \t]*include[ \t]*[<\"]((?:cuda_(?!runtime|fp16|bf16|pipeline)\w+|mma|cooperative_groups|cuda|curand\w*)"
    r"\.h|cuda/[^>\"]+|cu[bt]\w*/[^>\"]+)",
    re.M,
)


class NotForHost(ValueError):
    """The file uses something that the host build cannot run. The message names it and its line."""


@dataclass(frozen=True)
class Function:
    """A kernel, or a host function that launches kernels. `parameters` are their names, in order."""

    name: str
    call: str
    parameters: tuple[str, ...]
    line: int
    kernel: bool


@dataclass(frozen=True)
class SharedArray:
    """What a `__shared__` declaration says: element type and extents as written; no extents for a scalar."""

    type: str
    extents: tuple[str, ...]
    dynamic: bool


@dataclass(frozen=True)
class Translation:
    """The text for the host compiler, and what it defines. `functions[i]` is called through symbols numbered i."""

    text: str
    functions: tuple[Function, ...]
    shared: dict[str, list[SharedArray]]
    tables: dict[str, str]
    constants: dict[str, str]

    def extent(self, expression: str) -> int | None:
        """The value of an array extent such as `kTile + 1`, from the file's constants; None if it is not so plain."""
        names = self.constants
        for _ in range(8):  # constants may be made of constants
            expression = re.sub(
                r"\b[A-Za-z_]\w*\b", lambda m: f"({names[m[0]]})" if m[0] in names else m[0], expression
            )
        if not re.fullmatch(r"[\d\s()+*/%-]+", expression) or "**" in expression or len(expression) > 200:
            return None
        try:
            return int(eval(expression.replace("/", "//"), {"__builtins__": {}}))
        except (SyntaxError, ArithmeticError, ValueError):
            return None


def blanked(text: str) -> str:
    """The text with comments and the insides of literals turned to spaces; positions and line breaks stay."""

    def blank(match: re.Match[str]) -> str:
        found = match[0]
        body = re.sub(r"[^\n]", " ", found)
        return body if found[0] == "/" else found[0] + body[1:-1] + found[-1]

    return _SKIPPED.sub(blank, text)


@lru_cache(maxsize=64)
def translate(text: str, shown: str, requested: str = "") -> Translation:
    """Translate the text of a `.cu` file; `shown` is the name it has in messages and verdicts.

    `requested` is a kernel or launcher that will be called from outside, such as `transpose<32>`; kernels that are not
    templates and `extern "C"` functions always can be. NotForHost where the host build cannot run the file.
    """
    text = text.replace("\r\n", "\n")
    code = blanked(text)
    _refuse(text, code, shown)
    functions = _functions(text, code, requested)
    edits = [*_launches(text, code, shown), *_tables(code)]
    shared = _shared(code)
    body, at = [], 0
    for start, end, new in sorted(edits):
        body += [text[at:start], new]
        at = end
    body.append(text[at:])
    trailer = _trailer(functions, code, shown)
    translated = f'{"".join(body)}\n#line 1 "kh_trailer"\n{trailer}'
    tables = {m[1]: "__constant__" if "__constant__" in m[0] else "__device__" for m in _TABLE.finditer(code)}
    constant = r"\bconstexpr\s+(?:static\s+)?(?:\w+\s+)+(\w+)\s*=\s*([^;]+);"
    constants = {m[1]: m[2] for m in re.finditer(constant, code)} | {
        m[1]: m[2] for m in re.finditer(r"^[ \t]*#[ \t]*define[ \t]+(\w+)[ \t]+([^\n\\]+)$", code, re.M)
    }
    return Translation(translated, functions, shared, tables, constants)


def _line(text: str, position: int) -> int:
    return text.count("\n", 0, position) + 1


def _refuse(text: str, code: str, shown: str) -> None:
    if match := re.search(r"\b(?:asm|__asm__)\b", code):
        raise NotForHost(
            f"{shown}:{_line(code, match.start())}: inline PTX runs on a GPU only, so this file cannot be traced"
        )
    if match := _REFUSED_HEADERS.search(text):
        raise NotForHost(f"{shown}:{_line(text, match.start())}: the host build has no <{match[1]}> yet")


def _matching(code: str, start: int) -> int:
    """Position after the bracket that closes the one at `start`."""
    pairs = {"(": ")", "{": "}", "[": "]"}
    opened, depth = code[start], 0
    for position in range(start, len(code)):
        if code[position] == opened:
            depth += 1
        elif code[position] == pairs[opened]:
            depth -= 1
            if depth == 0:
                return position + 1
    return len(code)


def _launches(text: str, code: str, shown: str) -> list[tuple[int, int, str]]:
    edits = []
    for match in re.finditer("<<<", code):
        start = _kernel_start(code, match.start())
        depth, end = 0, match.end()
        while end < len(code) and not (depth == 0 and code.startswith(">>>", end)):
            depth += (code[end] in "([{") - (code[end] in ")]}")
            end += 1
        if start == match.start() or end == len(code):
            raise NotForHost(
                f"{shown}:{_line(code, match.start())}: this launch is not of the form kernel<<<grid, block>>>(…)"
            )
        kernel = " ".join(text[start : match.start()].split())
        edits.append((start, start, f'kh_launch("{kernel}", __LINE__, '))
        edits.append((match.start(), match.end(), ", "))
        edits.append((end, end + 3, ")"))
    return edits


def _kernel_start(code: str, end: int) -> int:
    """Where the expression before `<<<` begins: an identifier, perhaps qualified, perhaps with template arguments."""
    position = end
    while position and code[position - 1].isspace():
        position -= 1
    if position and code[position - 1] == ">":
        depth = 0
        while position:
            position -= 1
            depth += (code[position] == ">") - (code[position] == "<")
            if depth == 0:
                break
    while position and code[position - 1].isspace():
        position -= 1
    start = position
    while start and (code[start - 1].isalnum() or code[start - 1] in "_:"):
        start -= 1
    return start if start < position else end


def _tables(code: str) -> list[tuple[int, int, str]]:
    edits = []
    for match in _TABLE.finditer(code):
        for word in re.finditer(r"\b(?:const|constexpr)\b", match[0]):
            edits.append((match.start() + word.start(), match.start() + word.end(), " " * len(word[0])))
        for word in re.finditer(r"\b__device__\b", match[0]):  # marked as used, or a table that nobody writes is unseen
            edits.append((match.start() + word.start(), match.start() + word.end(), "__constant__"))
    return edits


def _shared(code: str) -> dict[str, list[SharedArray]]:
    found: dict[str, list[SharedArray]] = {}
    for match in _SHARED.finditer(code):
        for declarator in re.split(r",(?![^\[(]*[\])])", match["rest"]):
            if name := re.match(r"\s*(\w+)", declarator):
                extents = tuple(e.strip() for e in re.findall(r"\[([^\]]*)\]", declarator))
                array = SharedArray(" ".join(match["type"].split()), extents, bool(match["extern"]))
                found.setdefault(name[1], []).append(array)
    return found


def _scopes(code: str) -> list[tuple[int, str]]:
    """(position, qualification) wherever the enclosing namespace changes."""
    changes, stack = [(0, "")], []
    for match in re.finditer(r"\bnamespace\b\s*([\w:]*)\s*\{|\{|\}", code):
        if match[0] == "}":
            if stack:
                stack.pop()
        else:
            stack.append(match[1] + "::" if match[1] else "")
        changes.append((match.end(), "".join(stack)))
    return changes


def _scope_at(scopes: list[tuple[int, str]], position: int) -> str:
    return next(name for start, name in reversed(scopes) if start <= position)


def _parameters(text: str) -> tuple[str, ...]:
    names, depth, part = [], 0, ""
    for letter in text + ",":
        depth += (letter in "<([{") - (letter in ">)]}")
        if letter == "," and depth == 0:
            words = re.findall(r"\w+", re.sub(r"=.*", "", part, flags=re.DOTALL))
            if words and words != ["void"]:
                names.append(words[-1])
            part = ""
        else:
            part += letter
    return tuple(names)


def _functions(text: str, code: str, requested: str) -> tuple[Function, ...]:
    found: dict[str, Function] = {}
    scopes = _scopes(code)
    wanted, arguments = (
        re.fullmatch(r"\s*([\w:]*)\s*(<.*>)?\s*", requested, re.DOTALL).groups() if requested else ("", None)
    )
    definition = re.compile(
        r'\b(?:extern\s+" "\s*(?!\s*\{)[^;{}()]*?|__global__\b[^;{}]*?|\w[\w:<>*&\s]*?[\s*&])(\w+)\s*\('
    )
    for match in definition.finditer(code):
        name, head = match[1], match[0]
        end = _matching(code, match.end() - 1)
        if not re.match(r"\s*(?:noexcept\s*)?\{", code[end:]):
            continue
        before = code[: match.start()]
        before = before[max(before.rfind(mark) for mark in (";", "}", "{", "\n#")) + 1 :]
        kernel, template = "__global__" in head or "__global__" in before, "template" in before or "template" in head
        exported = "extern" in head or "extern" in before
        chosen = name == wanted.rsplit("::", 1)[-1]
        if not (chosen or (not template and (kernel or exported))):
            continue
        if template and not arguments:
            continue
        call = _scope_at(scopes, match.start()) + name + (arguments if template and arguments else "")
        shown = name + (arguments if template and arguments else "")
        names = _parameters(code[match.end() : end - 1])
        found.setdefault(shown, Function(shown, call, names, _line(code, match.start(1)), kernel))
    return tuple(found.values())


def _trailer(functions: tuple[Function, ...], code: str, shown: str) -> str:
    public = 'extern "C" __attribute__((visibility("default")))'
    lines = ["thread_local char kh_anchor;", f"{public} void* kh_anchor_address() {{ return &kh_anchor; }}"]
    for number, function in enumerate(functions):
        pointer = f"&{function.call}"
        lines.append(f"{public} void kh_signature_{number}(char* letters) {{ kh_signature({pointer}, letters); }}")
        if function.kernel:
            lines.append(
                f"{public} void kh_kernel_{number}(void** values, const unsigned* grid, const unsigned* block, "
                f'std::size_t b) {{ kh_call("{function.name}", {pointer}, values, grid, block, b); }}'
            )
        else:
            lines.append(
                f"{public} long long kh_host_{number}(void** values) {{ return kh_call_host({pointer}, values); }}"
            )
    scopes, done = _scopes(code), set()
    for match in _SHARED.finditer(code):
        name = re.match(r"\s*(\w+)\s*\[\s*\]", match["rest"])
        scope = _scope_at(scopes, match.start())
        if not match["extern"] or not name or (scope, name[1]) in done:
            continue
        done.add((scope, name[1]))
        kind = " ".join(match["type"].split())
        spaces = [part for part in re.split("::", scope) if part]
        if not spaces and _in_unnamed(code, match.start()):
            spaces = [""]
        opened, closed = "".join(f"namespace {space} {{ " for space in spaces), "}" * len(spaces)
        lines.append(f"{opened}__shared__ {kind} {name[1]}[{SHARED_LIMIT} / sizeof({kind})];{closed}")
    return "\n".join(lines) + "\n"


def _in_unnamed(code: str, position: int) -> bool:
    depth = []
    for match in re.finditer(r"\bnamespace\s*\{|\{|\}", code[:position]):
        if match[0] == "}":
            if depth:
                depth.pop()
        else:
            depth.append(match[0].startswith("namespace"))
    return any(depth)
