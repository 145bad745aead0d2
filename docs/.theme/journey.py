"""A hook of mkdocs.yml: where a page stands on its path, how long it takes to read, and what comes after it.

The template (`main.html`) gets `journey`: the path's name, the page's place among its pages, minutes of reading, the
next page with its description, and the pages that the front matter names under `prerequisites`.
"""

from __future__ import annotations

import re

WORDS_A_MINUTE = 200  # of prose that is thought about; code is read in the exercise's time
_FENCE = re.compile(r"^[ \t]*(`{3,}|~{3,}).*?^[ \t]*\1[ \t]*$", re.MULTILINE | re.DOTALL)
_WORD = re.compile(r"\w[\w'’-]*")


def reading_minutes(markdown: str) -> int:
    """Minutes that the prose of a page takes; at least one."""
    return max(1, round(len(_WORD.findall(_FENCE.sub("", markdown))) / WORDS_A_MINUTE))


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
    section = page.ancestors[-1] if page.ancestors else None
    beside = [each for each in section.children if each.is_page] if section else []
    after = page.next_page
    context["journey"] = {
        "path": section,
        "first": beside[0] if beside else None,
        "place": beside.index(page) + 1 if page in beside else 0,
        "of": len(beside),
        "minutes": reading_minutes(page.markdown or ""),
        "needed": needed,
        "after": after,
        "same_path": bool(after and section and after.parent is section),
    }
    return context
