"""A hook of mkdocs.yml: search that knows names of code and the words of the glossary.

The theme's search splits what is typed into words. `assets/search-ranking.js` goes before it in the same worker, and
puts what has `kernel-bench` or `tl.load` as it stands before what has the pieces. The entries of the glossary have no
headings, so the index is given a section for each.
"""

from __future__ import annotations

from html import escape
from pathlib import Path

from mkdocs.plugins import event_priority

from kernels.lessons.glossary import read_entries

RANKING, WORKER = "assets/search-ranking.js", "assets/javascripts/workers/search.*.js"


def on_files(files, *, config):
    """Take the script out of the site: it is published as a part of the worker."""
    if (own := files.get_file_from_path(RANKING)) is not None:
        files.remove(own)
    return files


@event_priority(50)  # before the theme's plugin writes the index, after the preview has given it all pages
def on_post_build(*, config) -> None:
    """Give the index the glossary's entries, and the worker our script.

    Raises:
        FileNotFoundError: the theme has no worker where it used to have one.
    """
    index = getattr(config.plugins.get("material/search"), "search_index", None)
    if index is None or not hasattr(index, "entries"):
        return
    page = (config.extra.get("glossary") or {}).get("page", "")
    if page:
        address = page.removesuffix(".md") + ("/" if config.use_directory_urls else ".html")
        entries = read_entries((Path(config.docs_dir) / page).read_text(encoding="utf-8"))
        known = {each["location"] for each in index.entries}
        for each in entries:
            location, text = f"{address}#{each.anchor}", f"<p>{escape(each.definition)}</p>"
            if location not in known:
                index.entries.append({"location": location, "title": escape(each.word), "text": text})
    ours = (Path(config.docs_dir) / RANKING).read_text(encoding="utf-8")
    workers = [path for folder in config.theme.dirs for path in Path(folder).glob(WORKER)]
    if not workers:
        raise FileNotFoundError(f"the theme has no {WORKER} for docs/.theme/search.py to go before")
    place = Path(config.site_dir) / Path(WORKER).with_name(workers[0].name)
    place.parent.mkdir(parents=True, exist_ok=True)
    place.write_text(f"{ours}\n{workers[0].read_text(encoding='utf-8')}", encoding="utf-8")
