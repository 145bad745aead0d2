"""A hook of mkdocs.yml: how words that programs wrote are set.

A cell of a table that holds a sentence wraps, and one that holds a figure or a name does not: only what still does not
fit is scrolled. What a sentence quotes between backticks is set as code. A short option such as `--output` and a day
such as 2026-11-30 are not broken at their hyphens.
"""

from __future__ import annotations

import html
import re

SENTENCE = 16  # characters up to which a cell holds a figure or a name, and stays in one line
PROSE = 60  # characters from which on a narrow column would be a ladder of words
OPTION = 24  # characters up to which an option stays in one line

_TABLE = re.compile(r'<table class="kl-table">.*?</table>', re.DOTALL)
_CELL = re.compile(r'<(td|th scope="row")>((?:(?!</t[dh]>).)*)</(t[dh])>', re.DOTALL)
_TAG = re.compile(r"<[^>]*>")
_QUOTING = re.compile(r"(?<=>)([^<>]*`[^`<>]+`[^<>]*)(?=</(?:li|p)>|<(?:br|span class=\"kl-verdict__explained\"))")
_QUOTED = re.compile(r"`([^`]+)`")
_OPTION = re.compile(rf"<code>(?=--?\w)([^<>]{{2,{OPTION}}})</code>")
_CAPTION = re.compile(r"(?<=<caption>)<span>.*?</span>(?=</caption>)|(?<=<figcaption>)[^<]*", re.DOTALL)
_DAY = re.compile(r"\b\d{4}-\d\d-\d\d\b")


def _cell(match: re.Match) -> str:
    shown = html.unescape(_TAG.sub("", match[2]))
    if "kl-words" in match[2] or len(shown) <= SENTENCE or " " not in shown.strip():
        return match[0]
    name = "kl-long kl-prose" if len(shown) > PROSE else "kl-long"
    return f'<{match[1]} class="{name}">{match[2]}</{match[3]}>'


def on_page_content(content: str, **named) -> str:
    """The page with its sentences set as sentences, wherever a program wrote them."""
    content = _TABLE.sub(lambda table: _CELL.sub(_cell, table[0]), content)
    content = _QUOTING.sub(lambda quoting: _QUOTED.sub(r"<code>\1</code>", quoting[1]), content)
    content = _CAPTION.sub(lambda caption: _DAY.sub(r'<span class="kl-whole">\g<0></span>', caption[0]), content)
    return _OPTION.sub(r'<code class="kl-whole">\1</code>', content)
