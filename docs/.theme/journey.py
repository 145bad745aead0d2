"""A hook of mkdocs.yml: where a page stands on its path, how long it takes to read, and what comes after it.

The template (`main.html`) gets `journey`: the paths that the page lies in, the outermost first, its place among the
pages of the nearest, minutes of reading, the next page with its description, and the pages that the front matter names
under `prerequisites`.
"""

from __future__ import annotations

import posixpath
import re

WORDS_A_MINUTE = 200  # of prose that is thought about; code is read in the exercise's time
_FENCE = re.compile(r"^[ \t]*(`{3,}|~{3,}).*?^[ \t]*\1[ \t]*$", re.MULTILINE | re.DOTALL)
_NEEDED = re.compile(
    r"\*\*Prerequisites?\*\*(.*?)(?=\*\*Read beside|\n\n)|^Before you start\n:(.*?)\n\n", re.DOTALL | re.MULTILINE
)
_PAGE_LINK = re.compile(r"\]\(([^)#\s]+\.md)")
_WORD = re.compile(r"\w[\w'’-]*")


def reading_minutes(markdown: str) -> int:
    """Minutes that the prose of a page takes; at least one."""
    return max(1, round(len(_WORD.findall(_FENCE.sub("", markdown))) / WORDS_A_MINUTE))


def _pages(section) -> list:
    """The pages of a section itself, without those of the sections in it."""
    return [each for each in section.children if each.is_page] if section else []


def prerequisites(name: str, markdown: str) -> list[str] | None:
    """The pages that a page says it builds on, by their paths below the documentation; None where it says nothing."""
    found = _NEEDED.search(markdown)
    if found is None:
        return None
    links = _PAGE_LINK.findall(found[1] or found[2] or "")
    return [posixpath.normpath(posixpath.join(posixpath.dirname(name), link)) for link in links]


def on_page_context(context, *, page, config, nav):
    """Tell the template about the page's path."""
    section = page.ancestors[0] if page.ancestors else None  # the nearest; a path may lie in another
    beside = _pages(section)
    after = page.next_page
    context["journey"] = {
        "above": [(each.title, (_pages(each) or [None])[0]) for each in reversed(page.ancestors)],
        "path": section,
        "place": beside.index(page) + 1 if page in beside else 0,
        "of": len(beside),
        "minutes": reading_minutes(page.markdown or ""),
        "after": after,
        "same_path": bool(after and section and after.ancestors and after.ancestors[-1] is page.ancestors[-1]),
    }
    return context
