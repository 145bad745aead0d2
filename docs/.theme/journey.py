"""A hook of mkdocs.yml: where a page stands on its path, how long it takes to read, and what comes after it.

The template (`main.html`) gets `journey`: the paths that the page lies in, the outermost first, its place among the
pages of the nearest (none where its title has a number of its own, or it lists them), minutes of reading where the page
states no time, and the next page with its description. That is the next of the navigation, or the page that the front
matter names under `next`; a page of reference, save the list of them, and one with `next: none`, is looked up and left.
"""

from __future__ import annotations

import posixpath
import re

from mkdocs.exceptions import PluginError

WORDS_A_MINUTE = 200  # of prose that is thought about; code is read in the exercise's time
_FENCE = re.compile(r"^[ \t]*(`{3,}|~{3,}).*?^[ \t]*\1[ \t]*$", re.MULTILINE | re.DOTALL)
_NEEDED = re.compile(r"\*\*Prerequisites?\*\*(.*?)(?=\*\*Read\s+beside|\n\n)", re.DOTALL)
_PAGE_LINK = re.compile(r"\]\(([^)#\s]+\.md)")
_TIMED = re.compile(r"\*\*Time\*\*")
_NUMBERED = re.compile(r"\d|(Lab|Workshop) [A-Z]?\d")
_LOOKED_UP = ("reference/", "source/")
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
    links = _PAGE_LINK.findall(found[1])
    return [posixpath.normpath(posixpath.join(posixpath.dirname(name), link)) for link in links]


def _is_looked_up(page) -> bool:
    return page.meta.get("next") == "none" or page.file.src_uri.startswith(_LOOKED_UP)


def _following(page, nav):
    """The page to go on with; None where the reader came to look something up."""
    wanted = page.meta.get("next")
    if _is_looked_up(page) and not page.meta.get("lists"):
        return None
    if not wanted:
        return page.next_page
    found = next((each for each in nav.pages if each.file.src_uri == wanted), None)
    if found is None:
        raise PluginError(f"{page.file.src_uri}: `next: {wanted}` in its front matter is no page of the navigation")
    return found


def on_page_context(context, *, page, config, nav):
    """Tell the template about the page's path."""
    section = page.ancestors[0] if page.ancestors else None  # the nearest; a path may lie in another
    beside = _pages(section)
    after = _following(page, nav)
    if after and page.meta.get("next"):  # the theme's footer leads where the card does
        page.next_page = after
    markdown = page.markdown or ""
    timed = _is_looked_up(page) or _TIMED.search(markdown)
    numbered = _NUMBERED.match(page.title or "")
    context["journey"] = {
        "above": [(each.title, (_pages(each) or [None])[0]) for each in reversed(page.ancestors)],
        "path": section,
        "place": beside.index(page) + 1 if page in beside and not numbered and not page.meta.get("lists") else 0,
        "of": len(beside),
        "minutes": 0 if timed else reading_minutes(markdown),
        "after": after,
        "same_path": bool(after and section and after.ancestors and after.ancestors[-1] is page.ancestors[-1]),
    }
    return context
