"""Turns a CUDA C++ file into one that a host compiler takes, and finds out what the file defines.

Only three things are rewritten, and never a line number: launches become calls, `const` is blanked in tables marked
`__constant__` or `__device__` (the compiler would read them unseen), and a trailer is added after the last line. All
other words of CUDA are macros and functions of `cuda/host/cuda_runtime.h`.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path, PurePosixPath

SHARED_LIMIT = 227 * 1024
_SKIPPED = re.compile(
    r'//[^\n]*|/\*.*?\*/|R"\((?:.|\n)*?\)"|"(?:\\.|[^"\\\n])*"'
    r"|(?:(?<![0-9a-fA-F])|(?<=u8))\'(?:\\.|[^\'\\\n])+\'",
    re.DOTALL,
)
_TABLE = re.compile(
    r"(?:\b(?:static|const|constexpr|inline)\s+)*(?:__constant__|__device__)\s+"
    r"(?:(?:static|const|constexpr|inline|__constant__|__device__|__align__\(\d+\)|alignas\(\d+\))\s+)*"
    r"(?:unsigned\s+|signed\s+|long\s+)*[\w:]+(?:\s*<(?:[^;{}<>]|<[^;{}<>]*>)*>)?(?:\s*\*+\s*|\s+)(\w+)\s*(?=\[|=|;|\{)"
)
_SHARED = re.compile(
    r"(?P<extern>\bextern\s+)?\b__shared__\s+(?:(?:__align__|alignas)\s*\((?:[^()]|\([^()]*\))*\)\s*|volatile\s+|const\s+)*"
    r"(?P<type>(?:unsigned\s+|signed\s+|long\s+)*[\w:]+(?:\s*<(?:[^;{}<>]|<[^;{}<>]*>)*>)?)\s+(?P<rest>[^;]+);"
)
# nvcc takes `alignas` behind `__shared__`; C++ wants it before everything else.
_SHARED_ALIGNAS = re.compile(
    r"(?:\b(?:extern|static|volatile)\s+)*\b__shared__\s+(?P<it>alignas\s*\((?:[^()]|\([^()]*\))*\))"
)
_HEADERS_HERE = r"cuda_runtime|cuda_runtime_api|cuda_fp16|cuda_bf16|cuda_pipeline|cuda_pipeline_primitives"
_REFUSED_HEADERS = re.compile(
    rf"^[ \t]*#[ \t]*include[ \t]*[<\"]((?!(?:{_HEADERS_HERE})\.h)(?:cuda_?\w*|cudaTypedefs|curand\w*)\.h"
    r"|cooperative_groups/(?!(?:reduce|memcpy_async)\.h)[^>\"]+|cuda/[^>\"]+|cu[bt]\w*/[^>\"]+)",
    re.M,
)
_LOCAL_INCLUDE = re.compile(r'^[ \t]*#[ \t]*include[ \t]*"([^"\n]+)"', re.M)
# What the text shows to need a GPU, and the sentence that says so. The first group is named.
_REFUSED_WORDS = (
    (r"(__cluster_dims__|\bthis_cluster\b|\bcluster_group\b)", "thread block clusters exist on Hopper GPUs only"),
    (r"(\bCUtensorMap\b|\bcuTensorMap\w+)", "tensor maps belong to the copy unit (TMA) of Hopper GPUs"),
    (r"(\bcuda::(?:barrier|pipeline|ptx|device)\b[\w:]*)", "the host build has no libcu++; it has "
     "__pipeline_memcpy_async and cooperative_groups::memcpy_async"),
    (r"(\bthis_grid\s*\(\s*\)\s*\.\s*sync|\bgrid_group\b[^;{}]*?\bsync|\bcudaLaunchCooperativeKernel\b)",
     "the host build runs blocks one after another, so a grid cannot wait for all of its blocks; end the kernel where "
     "they should meet, and launch a second one"),
)  # fmt: skip
_HOPPER_PTX = ("wgmma", "cp.async.bulk", "mbarrier", "fence.proxy", "setmaxnreg", "barrier.cluster", "mapa")


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
    """The text for the host compiler, and what it defines. `functions[i]` is called through symbols numbered i.

    `headers` are the file's own headers, translated as well: (name as included, text).
    """

    text: str
    functions: tuple[Function, ...]
    shared: dict[str, list[SharedArray]]
    tables: dict[str, str]
    constants: dict[str, str]
    headers: tuple[tuple[str, str], ...] = ()

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


def local_headers(text: str, folder: Path) -> tuple[tuple[str, str], ...]:
    """(name, text) of every file that the text includes in quotes and that lies in `folder`, and what these include."""
    found: dict[str, str] = {}
    waiting = [(text, PurePosixPath())]
    while waiting:
        content, where = waiting.pop()
        for name in _LOCAL_INCLUDE.findall(content):
            path = where / name
            if path.is_absolute() or ".." in path.parts or str(path) in found or not (folder / path).is_file():
                continue
            found[str(path)] = (folder / path).read_text(encoding="utf-8").replace("\r\n", "\n")
            waiting.append((found[str(path)], path.parent))
    return tuple(sorted(found.items()))


@lru_cache(maxsize=64)
def translate(text: str, shown: str, requested: str = "", headers: tuple[tuple[str, str], ...] = ()) -> Translation:
    """Translate the text of a `.cu` file; `shown` is the name it has in messages and verdicts.

    `requested` is a kernel or launcher that will be called from outside, such as `transpose<32>`; kernels that are not
    templates and `extern "C"` functions always can be, where the file itself defines them. `headers` are those of
    `local_headers`. NotForHost where the host build cannot run the file.
    """
    text = text.replace("\r\n", "\n")
    code = blanked(text)
    _refuse(text, code, shown)
    codes, translated_headers = [code, *(blanked(content) for _, content in headers)], []
    several = _several(codes)
    for (name, content), part in zip(headers, codes[1:]):
        _refuse(content, part, name)
        edits = [*_launches(content, part, name, "0", several), *_tables(part), *_alignments(part)]
        translated_headers.append((name, _edited(content, edits)))
    functions = _functions(text, code, requested)
    body = _edited(text, [*_launches(text, code, shown, several=several), *_tables(code), *_alignments(code)])
    trailer = _trailer(functions, codes, shown)
    translated = f'{body}\n#line 1 "kh_trailer"\n{trailer}'
    shared: dict[str, list[SharedArray]] = {}
    tables: dict[str, str] = {}
    constants: dict[str, str] = {}
    constant = r"\bconstexpr\s+(?:static\s+)?(?:\w+\s+)+(\w+)\s*=\s*([^;]+);"
    for part in reversed(codes):
        for name, arrays in _shared(part).items():
            shared.setdefault(name, []).extend(arrays)
        tables |= {m[1]: "__constant__" if "__constant__" in m[0] else "__device__" for m in _TABLE.finditer(part)}
        constants |= {m[1]: m[2] for m in re.finditer(constant, part)}
        constants |= {m[1]: m[2] for m in re.finditer(r"^[ \t]*#[ \t]*define[ \t]+(\w+)[ \t]+([^\n\\]+)$", part, re.M)}
    return Translation(translated, functions, shared, tables, constants, tuple(translated_headers))


def _edited(text: str, edits: list[tuple[int, int, str]]) -> str:
    body, at = [], 0
    for start, end, new in sorted(edits):
        body += [text[at:start], new]
        at = end
    return "".join([*body, text[at:]])


def _line(text: str, position: int) -> int:
    return text.count("\n", 0, position) + 1


def _refuse(text: str, code: str, shown: str) -> None:
    found = []
    if match := re.search(r"\b(?:asm|__asm__)\b", code):
        instruction = re.search(r"\b[a-z]\w*(?:\.\w+)+", text[match.start() : _matching(code, match.start(), "(")])
        what = f" `{instruction[0]}`" if instruction else ""
        hopper = any(what.startswith(f" `{word}") for word in _HOPPER_PTX)
        more = ", and a Hopper one (sm_90a) at that" if hopper else ""
        found.append(
            (match.start(), f"inline PTX runs on a GPU only{more}, so this file cannot be traced:{what or ' asm'}")
        )
    if match := _REFUSED_HEADERS.search(text):
        found.append((match.start(), f"the host build has no <{match[1]}> yet"))
    for pattern, sentence in _REFUSED_WORDS:
        if match := re.search(pattern, code):
            found.append((match.start(1), f"`{' '.join(match[1].split())}`: {sentence}"))
    for grid in re.findall(r"\b(\w+)\s*=\s*[\w:\s]*\bthis_grid\s*\(\s*\)", code):
        if match := re.search(rf"\b{grid}\s*\.\s*sync\b|\bsync\s*\(\s*{grid}\s*[,)]", code):
            found.append((match.start(), f"`{match[0]}`: {_REFUSED_WORDS[-1][1]}"))
    if found:
        position, sentence = min(found)
        raise NotForHost(f"{shown}:{_line(code, position)}: {sentence}")


def _matching(code: str, start: int, bracket: str = "") -> int:
    """Position after the bracket that closes the one at `start`, or the first `bracket` from there on."""
    pairs = {"(": ")", "{": "}", "[": "]"}
    if bracket:
        start = code.find(bracket, start)
        if start < 0:
            return len(code)
    opened, depth = code[start], 0
    for position in range(start, len(code)):
        if code[position] == opened:
            depth += 1
        elif code[position] == pairs[opened]:
            depth -= 1
            if depth == 0:
                return position + 1
    return len(code)


def _launches(
    text: str, code: str, shown: str, line: str = "__LINE__", several: frozenset[str] = frozenset()
) -> list[tuple[int, int, str]]:
    """`several` are kernels of which the arguments of a launch choose one: templates and overloads."""
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
        if kernel.rsplit("::", 1)[-1] in several:
            edits.append((start, start, f'kh_launch_any("{kernel}", {line}, [](auto... kh_p) {{ '))
            edits.append((match.start(), match.end(), "(kh_p...); }, "))
        else:
            edits.append((start, start, f'kh_launch("{kernel}", {line}, '))
            edits.append((match.start(), match.end(), ", "))
        edits.append((end, end + 3, ")"))
    return edits


def _several(codes: list[str]) -> frozenset[str]:
    """Names of kernels that are templates, or that a namespace defines more than once."""
    found, seen = set(), set()
    for code in codes:
        scopes = _scopes(code)
        for match in re.finditer(r"\b__global__\b[^;{}()]*(?:\([^()]*\)[^;{}()]*?)?\b(\w+)\s*\(", code):
            if not re.match(r"\s*\{", code[_matching(code, match.end() - 1) :]):
                continue
            before = code[: match.start()]
            before = before[max(before.rfind(mark) for mark in (";", "}", "{", "\n#")) + 1 :]
            place = _scope_at(scopes, match.start()), match[1]
            if "template" in before or place in seen:
                found.add(match[1])
            seen.add(place)
    return frozenset(found)


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
        for word in re.finditer(r"\b(?:const|constexpr)\b", match[0] if "*" not in match[0] else ""):
            edits.append((match.start() + word.start(), match.start() + word.end(), " " * len(word[0])))
        for word in re.finditer(r"\b__device__\b", match[0]):  # marked as used, or a table that nobody writes is unseen
            edits.append((match.start() + word.start(), match.start() + word.end(), "__constant__"))
    return edits


def _alignments(code: str) -> list[tuple[int, int, str]]:
    edits = []
    for match in _SHARED_ALIGNAS.finditer(code):
        edits.append((match.start(), match.start(), " ".join(match["it"].split()) + " "))
        edits.append((*match.span("it"), "\n" * match["it"].count("\n")))
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
    overloaded: dict[str, int] = {}
    scopes = _scopes(code)
    wanted, arguments = (
        re.fullmatch(r"\s*([\w:]*)\s*(<.*>)?\s*", requested, re.DOTALL).groups() if requested else ("", None)
    )
    definition = re.compile(
        r'\b(?:extern\s+" "\s*(?!\s*\{)[^;{}()]*?|__global__\b[^;{}]*?|\w[\w:<>*&\s]*?[\s*&])(\w+)\s*\('
    )
    macros = [match.span() for match in re.finditer(r"^[ \t]*#[ \t]*define\b(?:.*\\\n)*.*$", code, re.M)]
    for match in definition.finditer(code):
        name, head = match[1], match[0]
        if any(start <= match.start(1) < end for start, end in macros):
            continue
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
        overloaded[call] = overloaded.get(call, -1) + (kernel and not template)
        if shown in found and chosen and call.split("<")[0].endswith(wanted) and "::" in wanted:
            del found[shown]
        found.setdefault(shown, Function(shown, call, names, _line(code, match.start(1)), kernel))
    for function in found.values():
        if overloaded[function.call] > 0 and function.name == wanted.rsplit("::", 1)[-1]:
            raise NotForHost(
                f"line {function.line}: there are several kernels {function.name} with other parameters; to trace one "
                "of them by itself, give it a name of its own, or call the function that launches it"
            )
    return tuple(function for function in found.values() if overloaded[function.call] <= 0)


def _trailer(functions: tuple[Function, ...], codes: list[str], shown: str) -> str:
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
    done = set()
    for code in codes:
        scopes = _scopes(code)
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
