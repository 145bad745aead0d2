"""A hook of mkdocs.yml: how words that programs wrote are set.

A cell of a table that holds a sentence wraps, and one that holds a figure or a name does not: only what still does not
fit is scrolled. An output that only says what was not measured yet is a paragraph. What a sentence quotes between
backticks is set as code, and a stressed word of a contract is stressed. An option such as `--output`, a short name such
as `nvidia-ml-py` and a day such as 2026-11-30 are not broken at a hyphen. In a table that a narrow screen shows cell
below cell, cells say their column.
"""

from __future__ import annotations

import html
import re

from kernels.lessons.mends import Mends

SENTENCE = 16  # characters up to which a cell holds a figure or a name, and stays in one line
PROSE = 60  # characters from which on a narrow column would be a ladder of words
NAME = 26  # characters up to which a name or an option with a hyphen stays in one line

_TABLE = re.compile(r'<table class="kl-table">.*?</table>', re.DOTALL)
_CELL = re.compile(r'<(td|th scope="row")>((?:(?!</t[dh]>).)*)</(t[dh])>', re.DOTALL)
_TAG = re.compile(r"<[^>]*>")
_LINE = re.compile(r"<(?:small|br)\b[^>]*>")
_UNMEASURED = re.compile(
    r'<div class="(?:language-text )?highlight"><pre><span></span><code>'
    r"((?:Not measured yet|No ratio|No factor)[^\n<]*)\n?</code></pre></div>"
)
_QUOTING = re.compile(r"(?<=>)([^<>]*`[^`<>]+`[^<>]*)(?=</(?:li|p)>|<(?:br|span class=\"kl-verdict__explained\"))")
_CONTRACT = re.compile(r'<table class="kl-contract">.*?</table>', re.DOTALL)
_STRESSED = re.compile(r"(?<![\w*])\*(\w+)\*(?![\w*])")
_QUOTED = re.compile(r"`([^`]+)`")
_CODE = re.compile(r"(?<!<span></span>)<code>([^<>]*-[^<>]*)</code>")
_WORD = re.compile(r"(?<![^\s])[^\s]*-[^\s]*")
_CAPTION = re.compile(r"(?<=<caption>)<span>.*?</span>(?=</caption>)|(?<=<figcaption>)[^<]*", re.DOTALL)
_STACK = re.compile(r'<div class="kl-stack">.*?</table>', re.DOTALL)
_DAY = re.compile(r"\b\d{4}-\d\d-\d\d\b")


def _cell(match: re.Match) -> str:
    # What stands in small letters under a figure is a line of its own.
    shown = max((html.unescape(_TAG.sub("", line)) for line in _LINE.split(match[2])), key=len)
    if "kl-words" in match[2] or len(shown) <= SENTENCE or " " not in shown.strip():
        return match[0]
    name = "kl-long kl-prose" if len(shown) > PROSE else "kl-long"
    return f'<{match[1]} class="{name}">{match[2]}</{match[3]}>'


def _code(match: re.Match) -> str:
    def whole(word: re.Match) -> str:
        return f'<span class="kl-whole">{word[0]}</span>' if len(html.unescape(word[0])) <= NAME else word[0]

    return f"<code>{_WORD.sub(whole, match[1])}</code>"


def _stack(match: re.Match) -> str:
    heads = [_TAG.sub("", head).strip() for head in re.findall(r"<th[^>]*>(.*?)</th>", match[0], re.DOTALL)]

    def row(cells: re.Match) -> str:
        columns = iter(range(len(heads)))

        def named(cell: re.Match) -> str:
            column = next(columns)
            # The first says what the row is, and the second what it is about: both speak for themselves, save a number.
            name = heads[column].capitalize() + ":" * (column > 0)
            plain = (column == 0 and not cell[1].strip().isdigit()) or (column == 1 and len(heads) > 3)
            return cell[0] if plain else f'<td data-column="{html.escape(name)}">{cell[1]}</td>'

        return re.sub(r"<td>(.*?)</td>", named, cells[0], flags=re.DOTALL)

    return re.sub(r"<tr>.*?</tr>", row, match[0], flags=re.DOTALL)


_mends = Mends(
    "docs/.theme/typesetting.py",
    {
        "a table of a figure": _TABLE,
        "a contract": _CONTRACT,
        "words in backticks": _QUOTING,
        "a caption": _CAPTION,
        "code with a hyphen": _CODE,
        "a table that is shown cell below cell": _STACK,
    },
)
_command = "build"


def on_startup(*, command: str, dirty: bool) -> None:
    """Remember whether this is a live preview."""
    global _command
    _command = command


def on_page_content(content: str, **named) -> str:
    """The page with its sentences set as sentences, wherever a program wrote them."""
    _mends.page()
    content = _mends.sub("a table of a figure", lambda table: _CELL.sub(_cell, table[0]), content)
    content = _UNMEASURED.sub(r"<p>\1</p>", content)  # none where all is measured
    content = _mends.sub("a contract", lambda table: _STRESSED.sub(r"<em>\1</em>", table[0]), content)
    content = _mends.sub("words in backticks", lambda quoting: _QUOTED.sub(r"<code>\1</code>", quoting[1]), content)
    content = _mends.sub(
        "a caption", lambda caption: _DAY.sub(r'<span class="kl-whole">\g<0></span>', caption[0]), content
    )
    content = _mends.sub("code with a hyphen", _code, content)
    return _mends.sub("a table that is shown cell below cell", _stack, content)


def on_post_build(**named) -> None:
    """Warn where the figures no longer have what is set here."""
    if _command != "serve":  # there a build may be of one page
        _mends.tell()
