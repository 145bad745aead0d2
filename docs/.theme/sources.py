"""A hook of mkdocs.yml: the files that pages show pieces of, each as a page of this very version, its lines numbered.

An excerpt's caption links to its first line there, and a file that a page says to read beside it to its page. So a link
from a page leads to the source that the page was built from, in every version, and in the offline bundle. Where a page
shows a whole file, that page is the one of this file. A page that is made here says which pages show its file. A live
preview has none: it would make them all anew after every save.
"""

from __future__ import annotations

import posixpath
import re
from collections.abc import Iterable
from html import escape
from pathlib import Path

from mkdocs.structure.files import File
from mkdocs.utils import get_markdown_title
from mkdocs.utils import meta as front_matter

from kernels.lessons.mends import Mends

_INCLUDE = re.compile(r'include="([^"]+)"')
_BESIDE = re.compile(r"\*\*Read\s+beside\s+this\s+page\*\*.*?(?=\n\n)", re.DOTALL)
_BESIDE_SHOWN = re.compile(r"<strong>Read\s+beside\s+this\s+page</strong>.*?</p>", re.DOTALL)
_UNLINKED = re.compile(r"(?<!\">)<code>([\w/]+\.\w+)</code>")
_CAPTION = re.compile(
    r'(<figure class="kl-excerpt[^>]*data-source="([^"]+)" data-lines="(\d+)-(\d+)".*?<figcaption>[^<]*)'
    r"<code>((?:[^<,]|<wbr>)*)(.*?</code>)",
    re.DOTALL,
)
_LINE = re.compile(r'<span class="linenos" data-linenos=" *(\d+) "></span>')
_WHOLE = re.compile(r'(<figure class="kl-excerpt[^>]*data-lesson-include="([^":]+)")(.*?)(?=<figcaption>)', re.DOTALL)
FOLDER, CAPTION = "source", "the caption of an excerpt"
_mends = Mends("docs/.theme/sources.py", {CAPTION: _CAPTION})
_command = "build"
_whole: dict[str, str] = {}
"""Files that a page shows whole, and the names of these pages."""


def on_startup(*, command: str, dirty: bool) -> None:
    """Remember whether this is a live preview."""
    global _command
    _command = command


def source_paths(text: str, root: Path) -> set[str]:
    """The files of the project whose symbols a page's text includes, and those that it says to read beside it."""
    places = [reference.rpartition(":")[0] or reference for reference in _INCLUDE.findall(text)]
    paths = {place if "/" in place else place.replace(".", "/") + ".py" for place in places}
    paths |= {path for beside in _BESIDE.findall(text) for path in re.findall(r"`([\w/]+\.\w+)`", beside)}
    return {path for path in paths if path.endswith((".py", ".cu", ".cuh", ".h", ".cpp")) and (root / path).is_file()}


def whole_files(text: str, root: Path) -> set[str]:
    """Those of them that a page shows from their first line to their last."""
    return {path for path in source_paths(text, root) if f'include="{path}"' in text}


def page_of(path: str, text: str, shown_in: Iterable[tuple[str, str]] = ()) -> str:
    """A page with a source file: its lines are numbered, and `#L12` is the twelfth.

    `shown_in`: name below docs/ and title of the pages that show a piece of it.
    """
    from pygments import highlight
    from pygments.formatters import HtmlFormatter
    from pygments.lexers import get_lexer_by_name

    lexer = get_lexer_by_name("python" if path.endswith(".py") else "cuda", stripnl=False)
    formatter = HtmlFormatter(linenos="inline", lineanchors="L", wrapcode=True, cssclass="highlight kl-source")
    shown = highlight(text, lexer, formatter).rstrip()
    shown = re.sub(r'<a id="L-(\d+)" name="L-\d+"></a>', r'<a id="L\1"></a>', shown)
    shown = shown.replace("<pre>", f'<pre tabindex="0" role="region" aria-label="{escape(path)}">', 1)
    matter = f"---\ntitle: {path}\nsearch:\n  exclude: true\nhide:\n  - toc\n---\n"
    here = posixpath.dirname(f"{FOLDER}/{path}.md")
    links = " · ".join(f"[{title}]({posixpath.relpath(name, here)})" for name, title in shown_in)
    back = f"Shown in: {links}\n\n" if links else ""
    return f"{matter}# `{path}`\n\n{back}As it was when these pages were built.\n\n{shown}\n"


def _title(file) -> str:
    text, found = front_matter.get_data(file.content_string)
    return found.get("title") or get_markdown_title(text) or file.src_uri


def on_files(files, *, config):
    """Make a page for every file that a page includes and none shows whole, and alone."""
    _whole.clear()
    if _command == "serve":
        return files
    root = Path(config.config_file_path).parent
    wanted: dict[str, list[tuple[str, str]]] = {}
    for file in files.documentation_pages():
        whole = whole_files(file.content_string, root)
        if len(whole) == 1:  # the lines of two would have the same anchors
            _whole[whole.pop()] = file.src_uri
        for path in source_paths(file.content_string, root):
            wanted.setdefault(path, []).append((file.src_uri, _title(file)))
    for path in sorted(wanted.keys() - _whole.keys()):
        text = (root / path).read_text(encoding="utf-8")
        files.append(File.generated(config, f"{FOLDER}/{path}.md", content=page_of(path, text, wanted[path])))
    return files


def on_page_content(content: str, *, page, config, files) -> str:
    """The page, the files of its excerpts linked to their first lines, and the lines of a whole file with anchors."""

    def link(match: re.Match) -> str:
        target = files.get_file_from_path(_whole.get(match[2], f"{FOLDER}/{match[2]}.md"))
        if target is None:
            return match[0]
        first, last = match[3], match[4]
        address = f"{target.url_relative_to(page.file)}#L{first}" if target is not page.file else f"#L{first}"
        lines = f'<span class="kl-whole">lines {first}–{last}</span>'
        return f'{match[1]}<code><a href="{address}">{match[5]}</a>{match[6]}, {lines}'

    def beside(match: re.Match) -> str:
        return _UNLINKED.sub(named, match[0])

    def named(match: re.Match) -> str:
        target = files.get_file_from_path(_whole.get(match[1], f"{FOLDER}/{match[1]}.md"))
        return f'<a href="{target.url_relative_to(page.file)}">{match[0]}</a>' if target else match[0]

    def numbered(match: re.Match) -> str:
        if _whole.get(match[2]) != page.file.src_uri:
            return match[0]
        return match[1] + _LINE.sub(r'<a id="L\1"></a>\g<0>', match[3])

    _mends.page()
    return _mends.sub(CAPTION, link, _WHOLE.sub(numbered, _BESIDE_SHOWN.sub(beside, content)))


def on_post_build(**named) -> None:
    """Warn where no page has an excerpt's caption."""
    if _command != "serve":  # there a build may be of one page
        _mends.tell()
