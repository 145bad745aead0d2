"""Find what a page runs by converting it: exactly the fences that Markdown renders as executed, each with its line.

Every line that may open an executed fence gets its own number as an option, every inline value its place. Then the
page is converted with collecting fences. A fence quoted in a longer one, one in an HTML comment and one that an
indented code block takes back leave no mark in the result, so they are not blocks.
"""

from __future__ import annotations

import html as html_module
import re
from collections.abc import Callable, Iterable
from typing import Any

from kernels.lessons.fence import FENCED, UNSEEN, Collector, passing
from kernels.lessons.model import Fault, PageScan, PageSource
from kernels.lessons.options import LINE_OPTION

_FENCE = re.compile(rf"[>\s]*(?:`{{3,}}|~{{3,}})[ \t]*(?:\.?(?:{'|'.join(FENCED)})[ \t]|\{{).*\b(?:exec|include)\b")
_INLINE = re.compile(r"(?<!`)(`+)#!value\s(?!@)")
_COMMENT = re.compile(r"<!--.*?-->", re.DOTALL)
# Whole tags: the same words printed by a block or quoted in prose have their angle brackets escaped.
_BLOCK_MARK = re.compile(r'<div data-lesson-block="(\d+)">')
_INLINE_MARK = re.compile(r'<span data-lesson-inline="([\d:]+)">')
_PRE = re.compile(r"<pre.*?</pre>", re.DOTALL)
_OPENS = re.compile(r"[\s>]*(?:`{3,}|~{3,})")
_LITERAL = re.compile(
    r"(?:<(?:p|li|td|code)[^>]*>|`{3,}|~{3,})\s*\{?\s*\.?"
    r"((?:python\d?|py|bash|sh|shell|console|pycon)\b[^<\n]*\b(?:exec|id|needs|source|html|session)=(?:\"|&quot;)[^<\n]*)",
    re.IGNORECASE,
)
"""The head of a fence that no converter took up: a paragraph or inline code that begins with a language and options."""
_INCLUDE_MARK = re.compile(r'<div data-lesson-include="(\d+)">')
_UNSEEN_MARK = re.compile(rf"<(?:div|span) {UNSEEN}>")


def annotate(body: str, fences: Iterable[int] | None = None, inlines: Iterable[str] | None = None) -> str:
    """Write line numbers into fence headers and inline values: all that might be, or only the given ones."""
    wanted = None if fences is None else set(fences)
    places = None if inlines is None else set(inlines)
    lines = body.split("\n")
    for number, text in enumerate(lines, 1):
        bare = text.rstrip("\r")
        if _FENCE.match(bare) and (wanted is None or number in wanted):
            bare = bare.rstrip()
            option = f' {LINE_OPTION}="{number}"'
            bare = f"{bare[:-1].rstrip()}{option} }}" if bare.endswith("}") else bare + option
        if "#!value" in bare and not _FENCE.match(bare):

            def place(match: re.Match[str], number: int = number) -> str:
                where = f"{number}:{match.start() + 1}"
                return match.group() if places is not None and where not in places else f"{match.group()}@{where}@ "

            bare = _INLINE.sub(place, bare)
        lines[number - 1] = bare
    return "\n".join(lines)


def scan_page(source: PageSource, new_markdown: Callable[[], Any]) -> PageScan:
    """What `source` asks to be run. `new_markdown` gives a converter with the site's extensions."""
    result = PageScan(source)
    if not any(word in source.body for word in ("exec", "include", "#!value", ' id="')):
        return result
    collector = Collector()
    body = source.body.replace("\r\n", "\n")
    try:
        with passing(collector):
            html = new_markdown().convert(annotate(body))
    except Exception as error:
        result.faults.append(
            Fault(source.name, 1 + source.line_offset, "markdown", f"the page cannot be read: {error}")
        )
        return result
    html = _COMMENT.sub("", html)
    if _UNSEEN_MARK.search(html):
        texts = "; ".join(repr(text) for text in collector.unplaced)
        message = f"an executed block comes from another file or an unknown fence form ({texts}): write it on the page"
        result.faults.append(Fault(source.name, 1 + source.line_offset, "unplaced", message))
    seen: dict[str, int] = {}
    offset = source.line_offset
    for mark in dict.fromkeys(_BLOCK_MARK.findall(html)):
        found = collector.blocks[int(mark)]
        line = int(mark) + offset
        if isinstance(found, Fault):
            result.faults.append(Fault(source.name, line, found.kind, found.message, block=found.block))
        elif found.id in seen:
            message = f"the id {found.id!r} is used on line {seen[found.id]} already; ids are unique on a page"
            result.faults.append(Fault(source.name, line, "option", message, block=found.id))
        else:
            seen[found.id] = line
            result.blocks.append(found)
    result.blocks.sort(key=lambda block: block.line)
    result.inlines = [collector.inlines[mark] for mark in dict.fromkeys(_INLINE_MARK.findall(html))]
    result.inlines.sort(key=lambda inline: (inline.line, inline.column))
    result.faults += _left_open(source, body, html)
    visible = set(map(int, _INCLUDE_MARK.findall(html)))
    result.includes = [f"{line}={reference}" for line, reference in collector.includes if line in visible]
    return result


def _left_open(source: PageSource, body: str, html: str) -> list[Fault]:
    """Faults for lines that look like the head of an executed fence and are shown as text."""
    faults = []
    lines = body.split("\n")
    for match in _LITERAL.finditer(_PRE.sub("", html)):
        words = html_module.unescape(match[1]).split()[:2]
        for number, text in enumerate(lines, 1):
            if _OPENS.match(text) and all(word in text for word in words):
                message = (
                    f"{' '.join(words)} … opens no executed block and is shown as text. The language is python or "
                    'bash, options are written name="value", exec="1" is among them, and the fence is closed'
                )
                faults.append(Fault(source.name, number + source.line_offset, "unrendered", message))
                break
    return faults


def rendered_unseen(html: str) -> bool:
    """Whether a rendered page shows a block or value that the scan did not find."""
    return bool(_UNSEEN_MARK.search(_COMMENT.sub("", html)))


def annotate_known(scan: PageScan) -> str:
    """The body for rendering: only what the scan found carries a number, so quoted fences read as written."""
    fences = [block.line for block in scan.blocks]
    fences += [fault.line - scan.source.line_offset for fault in scan.faults if fault.kind == "option"]
    fences += [int(text.partition("=")[0]) for text in scan.includes]
    body = scan.source.body.replace("\r\n", "\n")
    return annotate(body, fences, [inline.place for inline in scan.inlines])
