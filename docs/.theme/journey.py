"""A hook of mkdocs.yml: where a page stands on its path, how long it takes to read, and what comes after it.

The template (`main.html`) gets `journey`: the paths that the page lies in, the outermost first, its place among the
pages of the nearest, minutes of reading, the next page with its description, and the pages that the front matter names
under `prerequisites`.
"""

from __future__ import annotations

import re

WORDS_A_MINUTE = 200  # of prose that is thought about; code is read in the exercise's time
_FENCE = re.compile(r"^[ \t]*(`{3,}|~{3,}).*?^[ \t]*\1[ \t]*$", re.MULTILINE | re.DOTALL)
_WORD = re.compile(r"\w[\w'’-]*")


def reading_minutes(markdown: str) -> int:
    """Minutes that the prose of a page takes; at least one."""
    return max(1, round(len(_WORD.findall(_FENCE.sub("", markdown))) / WORDS_A_MINUTE))


def _pages(section) -> list:
    """The pages of a section itself, without those of the sections in it."""
    return [each for each in section.children if each.is_page] if section else []


def on_page_context(context, *, page, config, nav):
    """Tell the template about the page's path.

    Raises:
        ValueError: the front matter names a prerequisite that is no page of the navigation.
    """
    pages = {each.file.src_uri: each for each in nav.pages}
    needed = []
    for name in page.meta.get("prerequisites", ()):
        if name not in pages:
            where = page.file.src_uri
            raise ValueError(f"{where}: the prerequisite {name!r} is no page of the navigation in mkdocs.yml")
        needed.append(pages[name])
    section = page.ancestors[0] if page.ancestors else None  # the nearest; a path may lie in another
    beside = _pages(section)
    after = page.next_page
    context["journey"] = {
        "above": [(each.title, (_pages(each) or [None])[0]) for each in reversed(page.ancestors)],
        "path": section,
        "place": beside.index(page) + 1 if page in beside else 0,
        "of": len(beside),
        "minutes": reading_minutes(page.markdown or ""),
        "needed": needed,
        "after": after,
        "same_path": bool(after and section and after.ancestors and after.ancestors[-1] is page.ancestors[-1]),
    }
    return context
