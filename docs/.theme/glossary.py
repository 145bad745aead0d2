"""A hook of mkdocs.yml: the first use of a glossary's word on a page becomes a link to its entry.

The glossary itself gets a list of all its words by the alphabet, before its first heading.

`extra.glossary` names the page of the glossary, and the folders and pages that are left alone, where its words mean
other things. A single phrase that means something else stands under `everyday` in its page's front matter.
"""

from __future__ import annotations

from pathlib import Path

from mkdocs.exceptions import PluginError

from kernels.lessons.glossary import Terms, alphabet, read_entries

_read: dict[str, tuple[int, Terms]] = {}  # kept between the rebuilds of a live preview


def on_page_content(html: str, *, page, config, files) -> str:
    """The page with its words linked.

    Raises:
        ValueError: two entries of the glossary share a spelling or an anchor; the message names both.
        PluginError: the page lists phrases under `everyday` that it does not have.
    """
    settings = config.extra.get("glossary") or {}
    name = page.file.src_uri
    glossary = files.get_file_from_path(settings.get("page", ""))
    if glossary is None or name.startswith(tuple(settings.get("without", ()))):
        return html
    if name == glossary.src_uri:
        return html.replace("<h2", f"{alphabet(read_entries(page.file.content_string))}\n<h2", 1)
    try:
        return _terms(glossary.abs_src_path).link(
            html, glossary.url_relative_to(page.file), page.meta.get("everyday") or ()
        )
    except ValueError as error:
        raise PluginError(f"{name}: {error}") from error


def _terms(path: str) -> Terms:
    stamp = Path(path).stat().st_mtime_ns
    known = _read.get(path)
    if known is None or known[0] != stamp:
        known = _read[path] = stamp, Terms(read_entries(Path(path).read_text(encoding="utf-8")))
    return known[1]
