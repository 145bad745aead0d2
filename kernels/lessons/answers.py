"""The answers to the exercises, explained: one folded part an exercise, from its check file and its solution."""

from __future__ import annotations

import re
from collections.abc import Callable
from html import escape
from pathlib import Path
from textwrap import dedent

from kernels.exercises import library
from kernels.exercises.marks import marked


def answers_html(href: Callable[[str], str], root: Path | None = None) -> str:
    """Every exercise in the order of the learner's path, as HTML: its task, why the answer is right, and one answer.

    href: gives the address of a page from its path below docs/, with the anchor, as in
    "lessons/1-offsets-and-masks.md#exercise".

    Raises:
        ValueError: an exercise has no explanation, or its solution no region between the marks; the message names it.
    """
    found = [library.find(name, root) for name in library.exercises(root)]
    described = [(library.described(files), files) for files in found]
    described.sort(key=lambda pair: library.place_of(pair[1], pair[0].lesson))
    return "\n".join(_answer(exercise, files, href) for exercise, files in described)


def _answer(exercise, files, href: Callable[[str], str]) -> str:
    if not exercise.explain.strip():
        raise ValueError(f"{files.shown(files.checks)} says no explain=…: why the right answer is right")
    regions = marked(files.solution.read_text(encoding="utf-8"), files.shown(files.solution)).regions
    if not regions:
        raise ValueError(f"{files.shown(files.solution)} has no region between the marks")
    page = exercise.lesson.partition("#")[0]
    found = re.match(r"(lesson|lab|workshop)s/(\w+?)-", page)
    where = f"{found[1].capitalize()} {found[2].upper()}" if found else page
    code = "".join(
        f'<div class="highlight"><pre><code>{_coloured(dedent(each.text))}</code></pre></div>' for each in regions
    )
    return (
        f'<details class="success" id="answer-{escape(files.name)}">\n'
        f"<summary>{escape(files.name)}: {escape(_plain(exercise.task))}</summary>\n"
        f'<p>The exercise of <a href="{escape(href(exercise.lesson))}">{where}</a>. '
        f"What stands between the marks in one right answer:</p>\n{code}\n{_as_html(exercise.explain)}\n</details>"
    )


def _plain(markdown: str) -> str:
    return re.sub(r"[`*]", "", markdown)


def _as_html(markdown: str) -> str:
    from markdown import markdown as convert

    return convert(dedent(markdown), extensions=["pymdownx.superfences"])


def _coloured(code: str) -> str:
    """Python in the site's own colours, without the lines around it that are empty."""
    from pygments import highlight
    from pygments.formatters import HtmlFormatter
    from pygments.lexers import PythonLexer

    return highlight(code.strip("\n"), PythonLexer(), HtmlFormatter(nowrap=True))
