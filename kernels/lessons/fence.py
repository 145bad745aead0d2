"""Where Markdown meets the engine: the fences and inline values that superfences and inlinehilite hand over.

This is the one file that imports `markdown_exec`. The same functions serve two passes over a page. In the *scan* they
collect what the page asks to be run; in the *rendering* they put in what the run produced. Which pass it is, a context
variable says, so that `mkdocs.yml` names these functions and nothing else.
"""

from __future__ import annotations

import html as html_module
import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Protocol

import markdown_exec
from pymdownx.inlinehilite import InlineHiliteException
from pymdownx.superfences import SuperFencesException

from kernels.lessons.model import Block, Fault, Inline
from kernels.lessons.options import LINE_OPTION, OptionError, parse_own_options, take_own_options

if TYPE_CHECKING:
    from kernels.sources import Snippet

FENCED = ("python", "py", "bash", "sh", "cuda")
"""Languages whose fences come here: those that run, and those whose source a page includes."""

_PLACE = re.compile(r"^@(\d+):(\d+)@\s*")
# What the scan writes beside things that look like fences and inline values, which code may hold in its strings.
_MARKS = re.compile(rf'(?<=#!value\s)@\d+:\d+@ | {LINE_OPTION}="\d+"')
UNSEEN = "data-lesson-unseen"
"""Attribute of what is rendered for a fence that the scan did not find. The page must not contain it."""


class Renderer(Protocol):
    """What a pass over a page must answer."""

    def snippet(self, reference: str) -> Snippet:
        """What the page includes. Raises KeyError, OSError or SyntaxError where there is no such thing."""

    def kept(self, name: str, key: str, make: Callable[[], str]) -> str:
        """HTML that `make` gave earlier under this name and key, or what it gives now."""

    def block(self, line: int, html: str, block_id: str) -> str:
        """HTML for the block whose fence opens at `line` of the body."""

    def output(self, line: int) -> str | None:
        """The text to show as the block's output; None where the block is unknown."""

    def inline(self, line: int, column: int, expression: str) -> str:
        """HTML for an inline value."""

    def cached(self, line: int) -> str | None:
        """HTML rendered earlier from the same source and output, or None."""

    def fault(self, line: int, kind: str, message: str) -> str:
        """Note a fault and return the HTML that stands for it."""


_current: ContextVar[Renderer | Collector | None] = ContextVar("lesson_pass", default=None)


@dataclass
class Collector:
    """The scan: everything that the converter offers, whether or not it will be visible."""

    blocks: dict[int, Block | Fault] = field(default_factory=dict)
    inlines: dict[str, Inline] = field(default_factory=dict)
    includes: list[tuple[int, str]] = field(default_factory=list)
    unplaced: list[str] = field(default_factory=list)


@contextmanager
def passing(over: Renderer | Collector) -> Iterator[None]:
    """Make `over` the pass that the fences serve."""
    token = _current.set(over)
    try:
        yield
    finally:
        _current.reset(token)


def validator(language: str, inputs: dict[str, str], options: dict[str, Any], attrs: dict[str, Any], md: Any) -> bool:
    """Superfences validator: take the engine's options, leave the rest to markdown-exec."""
    try:
        own = take_own_options(inputs)
        if "include" in inputs:
            options["include"] = inputs.pop("include")
            options["line"] = own.get(LINE_OPTION, "")
            options["extra"] = dict(inputs)
            return True
        accepted = markdown_exec.validator(language, inputs, options, attrs, md)
        options["own"] = own
        return accepted
    except Exception as error:  # superfences would show the fence as text
        raise SuperFencesException(f"The fence validator failed on a {language} block: {error!r}") from error


def formatter(
    source: str,
    language: str,
    css_class: str,
    options: dict[str, Any],
    md: Any,
    classes: list[str] | None = None,
    id_value: str = "",
    attrs: dict[str, Any] | None = None,
    **kwargs: Any,
) -> str:
    """Superfences formatter: collect the block, or render it with its output."""
    try:
        current = _current.get()
        if current is None:
            raise RuntimeError("a lesson block was rendered outside the lesson engine; build the page with its plugin")
        if "include" in options:
            return _include(current, options, md)
        if isinstance(current, Collector):
            return _collect(current, source, language, options, id_value)
        return _render(current, source, language, options, md, id_value)
    except Exception as error:  # superfences would show the fence as text
        raise SuperFencesException(f"The fence formatter failed on a {language} block: {error!r}") from error


def inline_formatter(src: str, language: str, class_name: str, md: Any) -> Any:
    """Inlinehilite formatter of ``#!value expression``."""
    try:
        current = _current.get()
        if current is None:
            raise RuntimeError("an inline value was rendered outside the lesson engine")
        match = _PLACE.match(src)
        if match is None:
            if isinstance(current, Collector):
                current.unplaced.append(src)
            return f"<span {UNSEEN}></span>"
        line, column, expression = int(match[1]), int(match[2]), src[match.end() :].strip()
        if isinstance(current, Collector):
            inline = Inline(line, column, expression)
            current.inlines[inline.place] = inline
            return f'<span data-lesson-inline="{inline.place}"></span>'
        return current.inline(line, column, expression)
    except Exception as error:
        raise InlineHiliteException(f"The inline value {src!r} failed: {error!r}") from error


def _line_of(options: dict[str, Any]) -> int:
    text = options.get("own", {}).get(LINE_OPTION, "")
    return int(text) if text.isdigit() else 0


def _collect(collector: Collector, source: str, language: str, options: dict[str, Any], id_value: str) -> str:
    line = _line_of(options)
    if not line:
        collector.unplaced.append(source.split("\n", 1)[0])
        return f"<div {UNSEEN}></div>"
    block_id = options.get("id") or id_value
    try:
        fields = parse_own_options(
            options["own"], block_id=block_id, html=options["html"], language=language, extra=options["extra"]
        )
        collector.blocks[line] = Block(
            id=block_id,
            line=line,
            language={"py": "python", "sh": "bash"}.get(language, language),
            code=_MARKS.sub("", source),
            session=options.get("session") or "",
            html=options["html"],
            shown=bool(options["source"]),
            returncode=options.get("returncode", 0),
            **fields,
        )
    except OptionError as error:
        collector.blocks[line] = Fault("", line, "option", str(error), block=block_id)
    return f'<div data-lesson-block="{line}"></div>'


def _render(renderer: Renderer, source: str, language: str, options: dict[str, Any], md: Any, id_value: str) -> str:
    line = _line_of(options)
    output = renderer.output(line) if line else None
    if output is None:
        return f"<div {UNSEEN}></div>"
    block_id = options.get("id") or id_value
    cached = renderer.cached(line)
    if cached is not None:
        return renderer.block(line, cached, block_id)
    options = dict(options)
    del options["own"]
    if not options["html"] and not options["result"]:
        options["result"] = "text"  # what a block prints is text: never Markdown, never HTML
    if output == "" and options["source"] in ("above", "below", "block"):
        options["result"] = ""
    options |= {"id": "", "id_prefix": f"{block_id}-", "update_toc": False, "session": None}
    tick = _free_character(source + output)
    if not options["html"]:
        output = _hide_fence(output, tick)
    source = _hide_fence(source, tick)
    rendered = markdown_exec.base_format(language=language, run=lambda *_, **__: output, code=source, md=md, **options)
    return renderer.block(line, str(rendered).replace(tick, "`"), block_id)


def _free_character(text: str) -> str:
    return next(each for each in map(chr, range(0xE000, 0xF8FF)) if each not in text)


def _hide_fence(text: str, tick: str) -> str:
    """A line of eight backticks would close the fence that markdown-exec puts around text: carry it as others."""
    return re.sub("`{8,}", lambda match: tick * len(match.group()), text)


def _include(current: Renderer | Collector, options: dict[str, Any], md: Any) -> str:
    line = int(options["line"] or 0)
    reference = options["include"]
    if isinstance(current, Collector):
        current.includes.append((line, reference))
        return f'<div data-lesson-include="{line}"></div>'
    try:
        snippet = current.snippet(reference)
    except (KeyError, OSError, SyntaxError) as error:
        return current.fault(line, "include", f"include={reference!r}: {error.args[0] if error.args else error}")
    extra = {name: value for name, value in options["extra"].items() if name in ("hl_lines", "title")}
    key = f"{snippet.path}\n{snippet.parts}\n{extra}"
    rendered = current.kept(f"include:{reference}:{extra}", key, lambda: _highlighted(snippet, extra, md))
    caption = f"{snippet.path}, {reference.rpartition(':')[2].replace(',', ', ')}" if ":" in reference else reference
    kind = "Excerpt of" if ":" in reference else "The file"
    return (
        f'<figure class="kl-excerpt no-copy" data-lesson-include="{html_module.escape(reference)}" '
        f'data-source="{html_module.escape(snippet.path)}" data-lines="{snippet.first_line}-{snippet.last_line}">'
        f"{rendered}<figcaption>{kind} <code>{html_module.escape(caption)}</code></figcaption></figure>"
    )


def _highlighted(snippet: Snippet, extra: dict[str, Any], md: Any) -> str:
    tick = _free_character(snippet.text)
    block = "\n\n".join(
        markdown_exec.code_block(snippet.language, _hide_fence(text, tick), linenums=str(first), **extra)
        for text, first in snippet.parts
    )
    prefix = f"include-{snippet.path}-{snippet.first_line}-"
    rendered = markdown_exec.MarkdownConverter(md, update_toc=False).convert(block, id_prefix=prefix)
    return str(rendered).replace(tick, "`")


def register(mdx_configs: dict[str, Any], extensions: list[Any]) -> None:
    """Name these functions in the settings of superfences and inlinehilite, and tell markdown-exec the settings.

    Raises:
        ValueError: one of the two Markdown extensions is not switched on.
    """
    for name in ("pymdownx.superfences", "pymdownx.inlinehilite"):
        if name not in extensions:
            raise ValueError(f"the lesson engine needs the Markdown extension {name}; add it to mkdocs.yml")
    fences = mdx_configs.setdefault("pymdownx.superfences", {}).setdefault("custom_fences", [])
    known = {fence["name"] for fence in fences}
    for language in FENCED:
        if language not in known:
            fences.append({"name": language, "class": language, "validator": validator, "format": formatter})
    inlines = mdx_configs.setdefault("pymdownx.inlinehilite", {}).setdefault("custom_inline", [])
    if "value" not in {inline["name"] for inline in inlines}:
        inlines.append({"name": "value", "class": "kl-value", "format": inline_formatter})
    markdown_exec.markdown_config.save(extensions, mdx_configs)
