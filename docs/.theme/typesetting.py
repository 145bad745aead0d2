"""A hook of mkdocs.yml: how words that programs wrote are set.

A cell of a table that holds a sentence wraps, and one that holds a figure or a name does not: only what still does not
fit is scrolled. A table of three and more columns that holds a sentence is shown cell below cell on a narrow screen,
where its last column would be out of sight; there cells say their column. A column of numbers that were handed over as
text, 47% or 4.6 s, is set flush right like any other. A line of an output that is a sentence wraps, and what stands in
columns is scrolled, with a mark that says so. An output that only says what was not measured yet is a paragraph. What a
sentence quotes between backticks is set as code, and so is the command that a paragraph ends with; in a contract a
stressed word is stressed, and a power is raised. What a program has wrapped into a column of its own is one line again
on a phone, blanks between columns that no line needs are left out there; what then does not fit is scrolled where it is
a table, and wrapped where it is words. An option such as `--output`, a short name such as `nvidia-ml-py` and a day such
as 2026-11-30 are not broken at a hyphen, and a path is broken behind a stroke. A number stands in one line with its
unit, a shape and a range are not torn, and a name that is longer than a line of a phone is broken between its words. A
computed value that is a sentence is not underlined.
"""

from __future__ import annotations

import html
import itertools
import re

from kernels.lessons.mends import Mends

SENTENCE = 16  # characters up to which a cell holds a figure or a name, and stays in one line
PROSE = 60  # characters from which on a narrow column would be a ladder of words
PHONE = 38  # characters that a line of an output has on a narrow screen
NAME = 26  # characters up to which a name or an option with a hyphen stays in one line
LINE = 24  # characters of code from which on a name may not fit into a line of a phone
VALUE = 60  # characters from which on a computed value is no figure but a sentence

_TABLE = re.compile(r'<table class="kl-table(?: kl-table--stack[^"]*)?">.*?</table>', re.DOTALL)
_CELL = re.compile(r'<(td|th scope="row")((?: data-column="[^"]*")?)>((?:(?!</t[dh]>).)*)</(t[dh])>', re.DOTALL)
_HEAD = re.compile(r"<th[^>]*>(.*?)</th>|<td[^>]*></td>", re.DOTALL)
_COLUMN = re.compile(r'(<th scope="col"[^>]*>)([^<> ]{13,})(?=</th>)')
_WORDY = re.compile(r'(<th scope="col")(?: class="(kl-num)")?(>(?:[^<> ]+ ){2,}[^<> ]+</th>)')
_GROUP = re.compile(r'(<th scope="rowgroup"[^>]*>)(.*?)(?=</th>)', re.DOTALL)
_ROW = re.compile(r"<tr[ >].*?</tr>", re.DOTALL)
_BODY = re.compile(r"<tbody>.*</tbody>", re.DOTALL)
_OPENING = re.compile(r"<td(?=[ >])")
_ROW_CELL = re.compile(r"<(t[dh])([^<>]*)>(.*?)(?=</t[dh]>)", re.DOTALL)
_NUMBER = re.compile(r"[<≤≥+\-−]?\d[\d,]*(\.\d+)?(e[-+]?\d+)?( ?(%|×|[µnm]?s|[KMGT]i?B(/s)?))?|[—–]?")
_PLAIN = re.compile(r'(?<!<div class="kl-stack">\n)<div class="kl-wide"><table>.*?</table></div>', re.DOTALL)
_TAG = re.compile(r"<[^>]*>")
_LINE = re.compile(r"<(?:small|br)\b[^>]*>")
_UNMEASURED = re.compile(
    r'<div class="(?:language-text )?highlight"><pre><span></span><code>'
    r"((?:Not measured yet|No ratio|No factor)[^\n<]*)\n?</code></pre></div>"
)
_QUOTING = re.compile(r"(?<=>)([^<>]*`[^`<>]+`[^<>]*)(?=</(?:li|p)>|<(?:br|span class=\"kl-verdict__explained\"))")
_COMMAND = re.compile(r"(?<=: )(python scripts/[^<`]+)(?=</p>)")
_CONTRACT = re.compile(r'<table class="kl-contract">.*?</table>', re.DOTALL)
_POWER = re.compile(r"(?<![\w*.])(\d+)\*\*(-?\d+)(?![^<]*</code>)")
_RAISED = str.maketrans("0123456789-", "⁰¹²³⁴⁵⁶⁷⁸⁹⁻")
_STRESSED = re.compile(r"(?<![\w*])\*(\w+)\*(?![\w*])")
_QUOTED = re.compile(r"`([^`]+)`")
_CODE = re.compile(r"(?<!<span></span>)<code>([^<>]*-[^<>]*)</code>")
_OPTION = re.compile(r'(?<=<span class="w"> </span>)--\w[\w-]*(?=[<\n])')
_WORD = re.compile(r"(?<![^\s])[^\s]*-[^\s]*")
_CAPTION = re.compile(r"(?<=<caption>)<span>.*?</span>(?=</caption>)|(?<=<figcaption>)[^<]*", re.DOTALL)
_STACK = re.compile(r'<div class="kl-stack">.*?</table>', re.DOTALL)
_OUTPUT = re.compile(
    r'(?<=<pre><span></span>)<code>([^<]*)(?=</code></pre></div>\s*<div class="kl-(?:block__bar|error))', re.DOTALL
)
_GAP = re.compile(r" {2,}")
_LEFT_OUT = re.compile(r'<span class="kl-gap">.*?</span>')
_WRAPS = '<span class="kl-'
_DRAWN = re.compile(  # code, or a drawing
    r"[;{]\s*$|/\*|[|^\u2500-\u259f]"
    r"|^ *(?:def|for|if|import|from|return|while|with|@|%)\b.*[:)]$|^ *[\w.,\[\]]+ = .*[(\[]"
)
_THREE = re.compile(r"[^\W\d_]{3}")  # letters
_UNIT = re.compile(r"&#?\w+;|.")
_HEADING = re.compile(r"(?<=>)[\w.-]+/[\w./-]+(?=(?:</code>)?(?:<a class=\"headerlink\"[^>]*>[^<]*</a>)?</h[1-3]>)")
_VERDICT = re.compile(r'(?<=<strong class="kl-verdict__kind">)[^<]*</strong>[^<]*')
_PATH = re.compile(r"\b[\w./-]+/[\w.-]+\.(?:cu|cuh|py|md):\d+")
_STROKE = re.compile(r"(?<=[/_])(?=\w)")
_LONG = re.compile(rf"(?<!<span></span>)<code>([^<>]*[\w.:/]{{{LINE + 1}}}[^<>]*)</code>")
_HUMP = re.compile(r"(?<=[a-z\d])(?=[A-Z])|(?<=[\w)][_.:/])(?=\w)")
_UNITS = r"(?:[mnµμu]?s|[kKMGTP]i?B(?:/s)?|[MGTP]FLOP(?:s|/s)?|bytes?|bits?|[kMG]?Hz|W|%)(?![\w/])"
_TOGETHER = re.compile(
    rf"(?<![\w.])\d[\d.,]*(?:e[-−]?\d+)? {_UNITS}|(?<![\w.])\d[\d.,]*(?:e[-−]\d+|(?: [×x] \d[\d,]*)+|–\d+)"
    r"|(?<!= )\b[A-Za-z] = \d[\d,]*|(?<![\w-])--\w[\w-]*"
)
_FILE = re.compile(r"(?<![\w/.-])[\w.-]+(?:/[\w.-]+)+\.\w+")  # in a line that wraps
_TEXT = re.compile(
    r"<(pre|code|script|style|svg|math|textarea|select)\b.*?</\1>|<[^>]*>|([^<]*(?:\d|--\w)[^<]*)", re.DOTALL
)
_MEASURE = re.compile(rf'<(span|code) class="kl-value"[^>]*>[^<]{{1,16}}</\1> {_UNITS}')
_SAID = re.compile(rf'(?<=<span class="kl-value)(?="[^>]*>[^<]{{{VALUE},}}</span>)')
_DAY = re.compile(r"\b\d{4}-\d\d-\d\d\b")
_DATED = re.compile(rf"{_DAY.pattern}(?=[^<>]*</t[dh]>)")  # in the words of a cell


def _contract(table: re.Match) -> str:
    stressed = _STRESSED.sub(r"<em>\1</em>", table[0])
    return _POWER.sub(lambda power: power[1] + power[2].translate(_RAISED), stressed)


def _cell(match: re.Match) -> str:
    # What stands in small letters under a figure is a line of its own.
    shown = max((html.unescape(_TAG.sub("", line)) for line in _LINE.split(match[3])), key=len)
    if "kl-words" in match[3] or len(shown) <= SENTENCE or " " not in shown.strip():
        return match[0]
    name = "kl-long kl-prose" if len(shown) > PROSE else "kl-long"
    return f'<{match[1]}{match[2]} class="{name}">{match[3]}</{match[4]}>'


def _heads(table: str) -> list[str]:
    return [_TAG.sub("", head[1] or "").strip() for head in _HEAD.finditer(table.partition("</thead>")[0])]


def _has_sentences(table: str) -> bool:
    """Whether it has three and more columns, and a cell below the headings that holds more than PROSE characters."""
    head, _, body = table.partition("</thead>")
    if len(_heads(head)) < 3:
        return False
    cells = (cell for cell in re.split(r"</t[dh]>", body) if 'scope="rowgroup"' not in cell)
    return any(len(html.unescape(_TAG.sub("", cell)).strip()) > PROSE for cell in cells)


def _wordy(head: re.Match) -> str:
    return f'{head[1]} class="{f"{head[2]} " if head[2] else ""}kl-wordy"{head[3]}'


def _flush(table: str) -> str:
    """The table with each column of numbers flush right, its heading with it; the first says what a row is."""
    rows = [row for row in _ROW.findall(table) if "rowgroup" not in row]
    columns = zip(*([_TAG.sub("", cell[2]).strip() for cell in _ROW_CELL.findall(row)] for row in rows))
    flush = {
        i
        for i, (_, *cells) in enumerate(columns)
        if i and any(any(map(str.isdigit, cell)) for cell in cells) and all(map(_NUMBER.fullmatch, cells))
    }

    def row(match: re.Match) -> str:
        places = itertools.count()

        def cell(found: re.Match) -> str:
            if next(places) not in flush or "kl-num" in found[2]:
                return found[0]
            named = found[2] if "class=" in found[2] else f'{found[2]} class=""'
            named = named.replace('class="', 'class="kl-num ').replace(' "', '"')
            return f"<{found[1]}{named}>{found[3]}"

        return _ROW_CELL.sub(cell, match[0])

    return _ROW.sub(row, table) if flush else table


def _figure(match: re.Match) -> str:
    table = _CELL.sub(_cell, _DATED.sub(r'<span class="kl-whole">\g<0></span>', _flush(match[0])))
    table = _COLUMN.sub(lambda head: head[1] + re.sub(r"(?<=[_.=])(?=\w)", "<wbr>", head[2]), table)
    table = _WORDY.sub(_wordy, table)
    table = _GROUP.sub(r'\1<span class="kl-over">\2</span>', table)
    if "kl-table--stack" in table or not _has_sentences(match[0]):
        return table
    heads = _heads(table)

    def row(cells: re.Match) -> str:
        columns = iter(heads[1:])
        return _OPENING.sub(lambda opening: f'<td data-column="{html.escape(next(columns, ""))}:"', cells[0])

    table = _BODY.sub(lambda body: _ROW.sub(row, body[0]), table)
    return table.replace('class="kl-table"', 'class="kl-table kl-table--stack"', 1)


def _plain(match: re.Match) -> str:
    return f'<div class="kl-stack">{match[0]}</div>' if _has_sentences(match[0]) else match[0]


def _whole(text: str) -> str:
    return f'<span class="kl-whole">{text}</span>'


def _code(match: re.Match) -> str:
    def whole(word: re.Match) -> str:
        return _whole(word[0]) if len(html.unescape(word[0])) <= NAME else word[0]

    return f"<code>{_WORD.sub(whole, match[1])}</code>"


def _long(match: re.Match) -> str:
    """Code with places to break its longest names at."""
    return re.sub(rf"[\w.:/]{{{LINE + 1},}}", lambda name: _HUMP.sub("<wbr>", name[0]), match[0])


def _is_sentence(line: str, around: list[str]) -> bool:
    """Whether a line of an output is a sentence, perhaps behind one label: words, in no columns. What a program has
    wrapped itself, with lines below that begin far to the right, stays as it is."""
    parts = _GAP.split(line.strip())
    words = parts[-1]
    wrapped = any(each.startswith(" " * 8) and not _GAP.search(each.strip()) for each in (line, *around))
    if len(line) <= PHONE or len(parts) > 2 or " | " in line or wrapped:
        return False
    letters = sum(each.isalpha() or each == " " for each in words)
    return len(words) > PHONE // 2 and words.count(" ") >= 5 and letters > 0.5 * len(words)


def _turned(plain: list[str], width: int) -> int:
    """How many lines go on with the first in the column where its text begins, since the program has wrapped it: that
    column is a later one, or the next word would not have fitted into the longest line, of `width`."""
    parts = _GAP.split(plain[0].strip())
    column = len(plain[0].rstrip()) - len(parts[-1])
    if len(parts) > 2 or not plain[0].strip():
        return 0
    count = 0
    for line in plain[1:]:
        text = line.strip()
        if not text or _GAP.search(text) or len(line) - len(line.lstrip()) != column:
            break
        before = plain[count].rstrip()
        full = len(before) + 1 + len(text.split()[0]) > width > 1.5 * PHONE and before[-1:] not in ".:;!?"
        full = full and ": " not in text and text.split()[0] != before.split()[0]  # or it is the next line of a list
        if not ((full and column and not text[0].isupper()) or column >= 8):
            break
        count += 1
    return count if max(map(len, plain[: count + 1])) > PHONE else 0


def _units(line: str) -> list[str]:
    """The characters of a line of HTML."""
    return _UNIT.findall(line)


def _needless(plain: list[str]) -> set[int]:
    """The places of blanks that a phone can do without: where all lines have more than two, two stay."""
    width = max(map(len, plain))
    blank = [all(line[i : i + 1] in ("", " ") for line in plain) for i in range(width)]
    return {i for i in range(2, width) if blank[i] and blank[i - 1] and blank[i - 2]}


def _without(line: str, needless: set[int]) -> str:
    """The line with blanks marked that a phone leaves out."""
    found = ["\0" if i in needless else unit for i, unit in enumerate(_units(line))]
    return re.sub("\0+", lambda gap: f'<span class="kl-gap">{" " * len(gap[0])}</span>', "".join(found))


def _together(line: str) -> str:
    """A text whose numbers stand in one line with their units, as do its options, unless that would be a long one."""
    return _TOGETHER.sub(lambda each: _whole(each[0]) if len(each[0]) <= NAME else each[0], line)


def _set(name: str, line: str, plain: str) -> str:
    """A line that may wrap: what goes on stands behind its beginning, also where that is not at the edge."""
    line = _FILE.sub(lambda file: file[0].replace("/", "/<wbr>"), _together(line))
    return f'<span class="{name}{" kl-in" * plain.startswith("  ")}">{line}</span>'


def _alone(line: str, plain: str) -> str:
    """A label and what it says, each with a line of its own: two blanks are enough between them on a phone."""
    first = len(plain) - len(plain.lstrip())
    return _without(line, {i for i in _needless([plain]) if i > first})


def _strips(rows: list[str]) -> list[int]:
    """Where columns end: the last places of what is blank in all rows, and two wide, between words of most rows."""
    width = max(map(len, rows), default=0)
    blank = [all(row[i : i + 1] in ("", " ") for row in rows) for i in range(width)]

    def parts(i: int) -> bool:
        left, right = (sum(bool(row[end].strip()) for row in rows) for end in (slice(i), slice(i + 1, None)))
        return min(left, right) > max(1, len(rows) // 2)

    return [i for i in range(1, width - 1) if blank[i] and blank[i - 1] and not blank[i + 1] and parts(i)]


def _is_table(rows: list[str]) -> bool:
    """Whether rows are compared downwards: three columns and more, or two where the second is no words."""
    if sum(len(_GAP.split(row.strip())) > 3 for row in rows) > max(1, len(rows) // 2):
        return True
    strips = _strips(rows)
    if len(strips) != 1:
        return len(strips) > 1
    second = "".join(row[strips[0] :] for row in rows)
    return 4 * sum(map(str.isalpha, second)) < len(second.replace(" ", ""))


def _columns(lines: list[str], plain: list[str], labelled: bool) -> list[str]:
    """Lines that stand below each other in columns: narrower on a phone. Where that is not enough a table is scrolled,
    and what only looks like one is wrapped."""
    if labelled:
        shown = [_alone(line, text) for line, text in zip(lines, plain)]
        return [_set("kl-row", s, t) if len(t) > PHONE else s for s, t in zip(shown, plain)]
    if max(map(len, plain), default=0) <= PHONE:
        return lines
    needless = _needless(plain)
    shown = [_without(line, needless) for line in lines]
    parts = max(len(_GAP.split(line.strip())) for line in plain)
    if max(len(line) - sum(i < len(line) for i in needless) for line in plain) <= PHONE or parts > 6:
        return shown
    is_row = [bool(_GAP.search(line.strip())) for line in plain]
    if _is_table([t for t, r in zip(plain, is_row) if r]):
        return [_set("kl-row", s, t) if len(t) > PHONE and not r else s for s, t, r in zip(shown, plain, is_row)]
    return [_set("kl-row", s, t) for s, t in zip(shown, plain)]


def _goes_on(line: str) -> bool:
    """Whether a line, as it is set, is scrolled on a phone."""
    shown = _LEFT_OUT.sub("", line)
    return _WRAPS not in shown and len(html.unescape(shown)) > PHONE


def _output(match: re.Match) -> str:
    lines = match[1].split("\n")
    plain = [html.unescape(line) for line in lines]
    shown: list[str] = []
    together: list[int] = []

    def close() -> None:
        shown.extend(_columns([lines[i] for i in together], [plain[i] for i in together], labelled))
        together.clear()

    at, width = 0, max(map(len, plain))
    parts = [_GAP.split(line.strip()) for line in plain if line.strip() and not _DRAWN.search(line)]
    words = sum(len(each) == 2 and bool(_THREE.search(each[1])) for each in parts)
    more = sum(len(each) > 2 for each in parts)  # a verdict's first line has its name and its file
    labelled = width > PHONE and more < 2 and words > len(parts) // 2
    while at < len(lines):
        if _DRAWN.search(plain[at]):
            close()
            shown.append(lines[at])
            at += 1
            continue
        turned = _turned(plain[at:], width)
        if turned or not plain[at].strip() or _is_sentence(plain[at], plain[at + 1 : at + 2]):
            close()
            text = _alone(lines[at], plain[at])
            for line in lines[at + 1 : at + 1 + turned]:
                text += f'<span class="kl-turn">\n{" " * (len(line) - len(line.lstrip()))}</span>{line.lstrip()}'
            name = "kl-turns" if turned else "kl-says"
            shown.append(_set(name, text, plain[at]) if plain[at].strip() else text)
            at += turned
        else:
            together.append(at)
        at += 1
    close()
    opening = '<code class="kl-columns">' if any(map(_goes_on, shown)) else "<code>"
    return opening + "\n".join(shown)


def _path(match: re.Match) -> str:
    return _STROKE.sub("<wbr>", match[0])


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
        "an option of a command": _OPTION,
        "code with a long name": _LONG,
        "a table of Markdown": _PLAIN,
        "a path as a heading": _HEADING,
        "a verdict": _VERDICT,
        "what a block printed": _OUTPUT,
        "a table that is shown cell below cell": _STACK,
        "a value that is a sentence": _SAID,
        "a number or an option": _TEXT,
        "a value and its unit": _MEASURE,
    },
)
_doing = "build"


def on_startup(*, command: str, dirty: bool) -> None:
    """Remember whether this is a live preview."""
    global _doing
    _doing = command


def on_page_content(content: str, **named) -> str:
    """The page with its sentences set as sentences, wherever a program wrote them."""
    _mends.page()
    content = _mends.sub("a table of a figure", _figure, content)
    content = _UNMEASURED.sub(r"<p>\1</p>", content)  # none where all is measured
    content = _COMMAND.sub(r"<code>\1</code>", content)
    content = _mends.sub("a contract", _contract, content)
    content = _mends.sub("words in backticks", lambda quoting: _QUOTED.sub(r"<code>\1</code>", quoting[1]), content)
    content = _mends.sub(
        "a caption", lambda caption: _DAY.sub(lambda day: _whole(day[0]), caption[0]), content
    )
    content = _mends.sub("code with a long name", _long, content)
    content = _mends.sub("code with a hyphen", _code, content)
    content = _mends.sub("an option of a command", lambda option: _whole(option[0]), content)
    content = _mends.sub("a table of Markdown", _plain, content)
    content = _mends.sub("a path as a heading", _path, content)
    content = _mends.sub("a verdict", lambda said: _PATH.sub(_path, said[0]), content)
    content = _mends.sub("what a block printed", _output, content)
    content = _mends.sub("a table that is shown cell below cell", _stack, content)
    content = _mends.sub("a value that is a sentence", " kl-value--said", content)
    content = _mends.sub("a number or an option", lambda text: _together(text[2]) if text[2] else text[0], content)
    return _mends.sub("a value and its unit", lambda value: _whole(value[0]), content)


def on_post_build(**named) -> None:
    """Warn where the figures no longer have what is set here."""
    if _doing != "serve":  # there a build may be of one page
        _mends.tell()
