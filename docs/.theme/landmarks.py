"""A hook of mkdocs.yml: what readers of a screen meet by name has a name, and one of its own on the page.

Figures and tables that scroll are regions, named after what they show. Two of one name on a page are told apart by a
number. The search dialog has a name. A column without a heading has no heading cell. A table of Markdown stands in a
box that scrolls. A figure that is drawn twice has two names. An element without content ends without a slash.
"""

from __future__ import annotations

import re
from collections import Counter

from kernels.lessons.mends import Mends

_REGION = re.compile(r'(<[^<>]*\brole="region"[^<>]*\baria-label=")([^"]*)(")')
_TABLE = re.compile(r"<table>.*?</table>", re.DOTALL)
_DRAWN = re.compile(r'<svg class="kl-svg"[^<>]* aria-labelledby="(?P<name>kl-[\w-]+)-t".*?</svg>', re.DOTALL)
_SLASH = re.compile(r"(<(?:br|hr|img|input)\b[^<>]*?) ?/>")
_EMPTY_HEADING = re.compile(r"<th(?P<rest>(?:\s[^<>]*)?)>\s*</th>")
# The theme names a section's navigation after a label that is empty where the section has a page of its own.
_SECTION = re.compile(
    r'(<nav class="md-nav" data-md-level="\d" )aria-labelledby="(__nav_[\d_]+)_label"'
    r'([^>]*>\s*<label class="md-nav__title" for="\2">\s*<span class="md-nav__icon md-icon"></span>\s*)([^<]+?)(?=\s*<)'
)
_DIALOG = re.compile(r'(data-md-component="search" role="dialog")(?! aria-label)')
SECTION, DIALOG = "a section's navigation without a name", "the search dialog without a name"
_mends = Mends("docs/.theme/landmarks.py", {SECTION: _SECTION, DIALOG: _DIALOG})


def on_post_page(output: str, **named) -> str:
    """The page with its search and the navigation of every section named, and without attributes that say nothing."""
    _mends.page()
    output = _mends.sub(SECTION, r'\1aria-label="\4"\3\4', output)
    return _mends.sub(DIALOG, r'\1 aria-label="Search"', output).replace(' tabindex=""', "")


def on_post_build(**named) -> None:
    """Warn where the theme no longer has what is mended here."""
    _mends.tell()


def on_page_content(content: str, **named) -> str:
    """The page with its regions and its drawings named apart and without empty heading cells."""
    seen: Counter[str] = Counter()

    def apart(match: re.Match) -> str:
        seen[match[2]] += 1
        again = f", {seen[match[2]]}" if seen[match[2]] > 1 else ""
        return f"{match[1]}{match[2]}{again}{match[3]}"

    def renamed(match: re.Match) -> str:
        seen[match["name"]] += 1
        times = seen[match["name"]]
        return match[0] if times == 1 else match[0].replace(match["name"], f"{match['name']}-{times}")

    content = _REGION.sub(apart, content)
    content = _SLASH.sub(r"\1>", _DRAWN.sub(renamed, content))
    content = _TABLE.sub(r'<div class="kl-wide">\g<0></div>', content)
    return _EMPTY_HEADING.sub(lambda match: f"<td{re.sub(r' scope=.[a-z]+.', '', match['rest'])}></td>", content)
