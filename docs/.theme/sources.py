"""A hook of mkdocs.yml: the files that pages show pieces of, each as a page of this very version, its lines numbered.

An excerpt's caption links to its first line there. So a link from a page leads to the source that the page was built
from, in every version, and in the offline bundle. A live preview has no such pages: it would make them all anew after
every save.
"""

from __future__ import annotations

import re
from html import escape
from pathlib import Path

from mkdocs.structure.files import File

from kernels.lessons.mends import Mends

_INCLUDE = re.compile(r'include="([^"]+)"')
_CAPTION = re.compile(
    r'(<figure class="kl-excerpt[^>]*data-source="([^"]+)" data-lines="(\d+)-(\d+)".*?<figcaption>[^<]*)'
    r"(<code>.*?</code>)",
    re.DOTALL,
)
FOLDER, CAPTION = "source", "the caption of an excerpt"
_mends = Mends("docs/.theme/sources.py", {CAPTION: _CAPTION})
_command = "build"


def on_startup(*, command: str, dirty: bool) -> None:
    """Remember whether this is a live preview."""
    global _command
    _command = command


def source_paths(text: str, root: Path) -> set[str]:
    """The files of the project whose symbols a page's text includes."""
    found = set()
    for reference in _INCLUDE.findall(text):
        place = reference.rpartition(":")[0] or reference
        path = place if "/" in place else place.replace(".", "/") + ".py"
        if (root / path).is_file() and path.endswith((".py", ".cu", ".cuh", ".h", ".cpp")):
            found.add(path)
    return found


def page_of(path: str, text: str) -> str:
    """A page with a source file: its lines are numbered, and `#L12` is the twelfth."""
    from pygments import highlight
    from pygments.formatters import HtmlFormatter
    from pygments.lexers import get_lexer_by_name

    lexer = get_lexer_by_name("python" if path.endswith(".py") else "cuda", stripnl=False)
    formatter = HtmlFormatter(linenos="inline", lineanchors="L", wrapcode=True, cssclass="highlight kl-source")
    shown = highlight(text, lexer, formatter).rstrip()
    shown = re.sub(r'<a id="L-(\d+)" name="L-\d+"></a>', r'<a id="L\1"></a>', shown)
    shown = shown.replace("<pre>", f'<pre tabindex="0" role="region" aria-label="{escape(path)}">', 1)
    matter = f"---\ntitle: {path}\nsearch:\n  exclude: true\nhide:\n  - toc\n---\n"
    return f"{matter}# `{path}`\n\nAs it was when these pages were built.\n\n{shown}\n"


def on_files(files, *, config):
    """Make a page for every file that a page includes."""
    if _command == "serve":
        return files
    root = Path(config.config_file_path).parent
    wanted = {path for file in files.documentation_pages() for path in source_paths(file.content_string, root)}
    for path in sorted(wanted):
        text = (root / path).read_text(encoding="utf-8")
        files.append(File.generated(config, f"{FOLDER}/{path}.md", content=page_of(path, text)))
    return files


def on_page_content(content: str, *, page, config, files) -> str:
    """The page, its excerpts linked to their first lines."""

    def link(match: re.Match) -> str:
        target = files.get_file_from_path(f"{FOLDER}/{match[2]}.md")
        if target is None:
            return match[0]
        first, last = match[3], match[4]
        address = f"{target.url_relative_to(page.file)}#L{first}"
        return f'{match[1]}<a href="{address}">{match[5]}</a>, lines {first}–{last}'

    _mends.page()
    return _mends.sub(CAPTION, link, content)


def on_post_build(**named) -> None:
    """Warn where no page has an excerpt's caption."""
    if _command != "serve":  # there a build may be of one page
        _mends.tell()
