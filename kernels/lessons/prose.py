"""Numbers with a unit that were typed into prose, where a computed value should stand.

A number that comes from a cited source, or that the page itself chose, may stay if its line says so in a comment:
``<!-- typed: NVIDIA H200 datasheet -->``. A comment that stands alone speaks for the next line that is not empty.

What is looked for is what a change of code, compiler or machine changes: times, rates, sizes, shares, factors, and what
the compiler and the counters count. Bytes, threads, rows and elements are not: they say what a page is about (a float
of 4 bytes, a block of 256 threads), and a block of the page shows what comes of them.
"""

from __future__ import annotations

import html
import re
from collections.abc import Iterator

from kernels.lessons.model import Fault, PageSource
from kernels.lessons.notebook import is_notebook, prose_of

_PREFIXED = "(?:[kKMGTP]i?)"
_UNITS = (
    r"(?:[µμun]|m)s(?:ec)?", r"(?:micro|milli|nano)?seconds?", r"(?<=\s)s(?=[\s.,;:)]|$)",
    rf"{_PREFIXED}B(?:/s|ps)?", "B/s", r"(?:kilo|mega|giga|tera)bytes?(?: (?:per|a) second)?", rf"{_PREFIXED}?bits?/s",
    rf"{_PREFIXED}?FLOP[sS]?(?:/s)?", r"FLOPs?(?:/s|/byte| (?:per|a|for each) byte)?",
    rf"{_PREFIXED}?op(?:eration)?s?/(?:s|byte)",
    "[kMG]?Hz", r"[mk]?W(?:atts?)?", "watts?", "°C",
    "%", r"per ?cent", "percentage points?",
    "registers?", r"(?:clock )?cycles?", "sectors?", "SMs?", "multiprocessors?", r"spill(?:s|ed bytes)?",
)  # fmt: skip
_FACTORS = (
    r"×(?!\s*[\d*`N(])",  # 2×, but not the shape 4096 × 1024
    r"x(?:-fold)?(?=[\s.,;:)]|$)(?! *\d)",
    r"-?fold",
    r"times (?:as|the|more|fewer|less|fast|slow|larg|small|wid|long|short|better|worse|quick|high|low)(?:\w*)",
)
_NUMBER = r"\d(?:[\d.,_'\u00a0\u2009\u202f]*\d)?(?:\s?[×x·]\s?10(?:\^?-?\d+|[⁻⁰¹²³⁴-⁹]+)|[eE][+-]?\d+)?"
_UNIT = f"(?:{'|'.join((*_UNITS, *_FACTORS))})"
_TYPED = re.compile(
    rf"(?<![\w.`])(?<![A-Za-z)\]]-){_NUMBER}(?:\s?[-–—]\s?{_NUMBER})?(?:\s|-(?=[µμm]?s\b))?{_UNIT}(?![\w/])"
)
_HEADER_UNIT = re.compile(
    rf"(?<![\w/])(?:{'|'.join(_UNITS)})(?![\w/])|\b(?:speed-?up|ratio|latency|bandwidth|time)\b", re.IGNORECASE
)
_CELL = re.compile(rf"[~≈<>±+−-]?\s*{_NUMBER}\s*")
_FENCE = re.compile(r"^[\s>]*(`{3,}|~{3,})")
_CODE = re.compile(r"(`+).+?\1")
_ALLOWED = re.compile(r"<!--\s*typed:\s*\S.*?-->")
_NOT_READ = re.compile(
    r"<!--.*?-->"  # a comment
    r"|<(script|style|svg)\b.*?</\1>"
    r"|</?[a-zA-Z](?:[^<>\"']|\"[^\"]*\"|'[^']*')*>"  # a tag with its attributes; what stands between tags is read
    r"|(?<=\])\([^)\s]*(?:\s+\"[^\"]*\")?\)"  # where a link leads
    r"|\{[:#.][^}\n]*\}",  # an attribute list
    re.DOTALL,
)
_RULE = re.compile(r"^[\s>]*\|?\s*:?-{3,}:?\s*(?:\|\s*:?-{3,}:?\s*)*\|?\s*$")


def typed_numbers(source: PageSource) -> Iterator[Fault]:
    """One fault for every line of prose with a typed number that carries a unit, also where its column carries it."""
    body = prose_of(source.body) if is_notebook(source) else source.body
    lines = body.replace("\r\n", "\n").split("\n")
    prose, excused = _prose(lines)
    text = "\n".join(prose)
    starts = [0]
    for line in prose:
        starts.append(starts[-1] + len(line) + 1)
    found: dict[int, str] = {}
    for match in _TYPED.finditer(text):
        number = next(index for index in range(len(prose)) if starts[index + 1] > match.start())
        found.setdefault(number, " ".join(match.group().split()))
    for number, words in _columns(prose):
        found.setdefault(number, words)
    for number in sorted(set(found) - excused):
        message = (
            f"the number {found[number]!r} is typed; compute it (`#!value expression`), "
            "or name its source: <!-- typed: source -->"
        )
        yield Fault(source.name, number + 1 + source.line_offset, "typed", message)


def _prose(lines: list[str]) -> tuple[list[str], set[int]]:
    """The page's lines with nothing left but what a reader reads as text; and the lines that name a source."""
    kept, excused, fence = [], set(), ""
    for number, line in enumerate(lines):
        opening = _FENCE.match(line)
        if fence:
            if opening and opening[1].startswith(fence) and not line.strip().strip(fence[0] + "> "):
                fence = ""
            kept.append("")
            continue
        if opening:
            fence = opening[1]
            kept.append("")
            continue
        if _ALLOWED.search(line):
            excused.add(number)
            if not _ALLOWED.sub("", line).strip():
                excused.add(next((n for n in range(number + 1, len(lines)) if lines[n].strip()), number))
        kept.append(_CODE.sub("`", line))
    text = _NOT_READ.sub(lambda match: "\n" * match.group().count("\n"), "\n".join(kept))
    return [html.unescape(re.sub(r"\*+|(?<!\w)_+|_+(?!\w)", "", line)) for line in text.split("\n")], excused


def _columns(prose: list[str]) -> Iterator[tuple[int, str]]:
    """Numbers alone in a cell of a table whose column is headed by a unit."""
    number = 1
    while number < len(prose):
        if not (_RULE.match(prose[number]) and "|" in prose[number]):
            number += 1
            continue
        units = {index: cell for index, cell in enumerate(_cells(prose[number - 1])) if _HEADER_UNIT.search(cell)}
        number += 1
        while number < len(prose) and "|" in prose[number]:
            for index, cell in enumerate(_cells(prose[number])):
                if index in units and _CELL.fullmatch(cell):
                    yield number, f"{cell} in the column {units[index]}"
            number += 1


def _cells(row: str) -> list[str]:
    return [cell.strip() for cell in row.strip(" >").strip("|").split("|")]
