"""The headings that blocks produce, in a page's list of headings: what MkDocs makes of the Markdown lacks them."""

from __future__ import annotations

import re

from mkdocs.structure.toc import AnchorLink, TableOfContents

_BLOCK = re.compile(r'<div class="kl-block ')
_HEADING = re.compile(r'<h([1-6])(?=[^>]*\sid="?([^">\s]+)"?)[^>]*>(.*?)</h\1>', re.DOTALL)
_TAG = re.compile(r"<[^>]*>")


def complete(toc: TableOfContents, html: str) -> TableOfContents:
    """The list of headings with those of the page's HTML that it lacks, each once, in the order of the page.

    Only what has an address, an `id`, can be listed. A page without blocks keeps the list that it has.
    """
    known = {link.id: link for link in _flat(toc.items)}
    found: dict[str, AnchorLink] = {}
    for level, name, title in _HEADING.findall(html) if _BLOCK.search(html) else ():
        title = known[name].title if name in known else _TAG.sub("", title).strip()
        found.setdefault(name, AnchorLink(title, name, int(level)))
    if not found.keys() - known.keys() or known.keys() - found.keys():
        return toc
    top: list[AnchorLink] = []
    above: list[AnchorLink] = []
    for link in found.values():
        while above and above[-1].level >= link.level:
            above.pop()
        (above[-1].children if above else top).append(link)
        above.append(link)
    return TableOfContents(top)


def _flat(links: list[AnchorLink]):
    for link in links:
        yield link
        yield from _flat(link.children)
