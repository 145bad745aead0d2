"""A hook of mkdocs.yml: what readers of a screen meet by name has a name, and one of its own on the page.

Figures and tables that scroll are regions, named after what they show. Two of one name on a page are told apart by a
number. A column without a heading has no heading cell.
"""

from __future__ import annotations

import re
from collections import Counter

_REGION = re.compile(r'(<[^<>]*\brole="region"[^<>]*\baria-label=")([^"]*)(")')
_EMPTY_HEADING = re.compile(r"<th(?P<rest>(?:\s[^<>]*)?)>\s*</th>")


def on_page_content(content: str, **named) -> str:
    """The page with its regions named apart and without empty heading cells."""
    seen: Counter[str] = Counter()

    def apart(match: re.Match) -> str:
        seen[match[2]] += 1
        again = f", {seen[match[2]]}" if seen[match[2]] > 1 else ""
        return f"{match[1]}{match[2]}{again}{match[3]}"

    content = _REGION.sub(apart, content)
    return _EMPTY_HEADING.sub(lambda match: f"<td{re.sub(r' scope=.[a-z]+.', '', match['rest'])}></td>", content)
