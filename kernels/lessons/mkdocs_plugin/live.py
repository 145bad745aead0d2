"""What a live preview keeps of a MkDocs site from one build to the next, so that a build renders what changed alone.

`Preview` decides which pages are due; here stands what that means for MkDocs' files, templates and search.
"""

from __future__ import annotations

import copy
import functools
import json
from collections.abc import Callable
from pathlib import Path

from mkdocs.structure.files import File
from mkdocs.utils import get_markdown_title
from mkdocs.utils import meta as front_matter

from kernels.lessons.model import PageOutcome
from kernels.lessons.preview import Preview, stamps
from kernels.lessons.templates import KeptTemplates


class LiveSite:
    """Follows the builds of a live preview. Its methods are called in the order in which they stand."""

    def __init__(self, root: Path, preview: Preview) -> None:
        self.preview = preview
        self._templates = KeptTemplates(root)
        self._nav = None
        self._shared: list[str] = []
        self._entries: dict[str, list] = {}
        self._to_index: dict[str, object] = {}

    def keep_templates(self, config) -> None:
        """Compile a template once, and again when it was edited."""
        env = self._templates.environment(config.theme.get_env, config.theme.dirs)
        config.theme.get_env = lambda: env

    def plan(
        self, nav, config, files, outcome_of: Callable[[str], PageOutcome | None], shared: list[str], complete: bool
    ) -> None:
        """Decide which pages are rendered; one that is not says what it said when it was shown.

        `outcome_of` takes a page's name; `shared` are digests of pages that others are made from; `complete` says that
        every page was looked at.
        """
        self._nav, self._shared = nav, shared
        pages = {file.src_uri: file for file in files.documentation_pages() if outcome_of(file.src_uri)}
        for file in files.documentation_pages():
            if file.src_uri not in pages and self.preview.turns.now.names:  # its turn comes
                file.is_modified = _no
                _introduce(file)
        self.preview.addresses = {file.dest_uri: file.src_uri for file in files.documentation_pages()}
        outcomes = {name: outcome_of(name) for name in pages}
        self.preview.plan(outcomes, self._in_common(config, files), complete=complete)
        for name in self.preview.forget_gone(pages):
            self._entries.pop(name, None)
            self._to_index.pop(name, None)
            gone = File(name, config.docs_dir, config.site_dir, config.use_directory_urls)
            Path(gone.abs_dest_path).unlink(missing_ok=True)
        for name, file in pages.items():
            # MkDocs itself compares times: a page saved while it was built is older than what was built from it.
            file.is_modified = functools.partial(self.preview.is_due, name)
            if file.page is not None:
                links = self.preview.recall(name, file.page)
                known = {files.get_file_from_path(other): anchors for other, anchors in links.items()}
                file.page.links_to_anchors = {other: known[other] for other in known if other is not None}
                if not self.preview.is_shown(name) and not self.preview.is_due(name):
                    _introduce(file)

    def all_read(self, config, files) -> None:
        """All pages of this build have been read: now their titles are known."""
        self.preview.common = self._in_common(config, files)

    def before_page(self, page, config) -> None:
        """Let the search's index take the edited page when it is shown already, and any other now."""
        if _search_index(config) is not None:
            self._to_index[page.file.src_uri] = copy.copy(page)
            page.meta = page.meta | {"search": {"exclude": True}}

    def after_page(self, output: str, page) -> None:
        """Take down what is shown of a page."""
        page.meta = getattr(self._to_index.get(page.file.src_uri), "meta", page.meta)
        links = {file.src_uri: anchors for file, anchors in (page.links_to_anchors or {}).items()}
        self.preview.show(page.file.src_uri, output, page, links)

    def fill_search(self, config) -> None:
        """Give the search's index all pages. When somebody waits for a page, the build that follows does so."""
        index = _search_index(config)
        if index is None:
            return
        if not self.preview.unchecked or not self.preview.turns.now.waited_for:
            for name, page in self._to_index.items():
                index.entries = []
                index.add_entry_from_context(page)
                self._entries[name] = index.entries
            self._to_index.clear()
        index.entries = [entry for entries in self._entries.values() for entry in entries]
        config.plugins["material/search"].search_index_prev = None  # it would take all entries for one page's

    def _in_common(self, config, files) -> str:
        pages = {file.src_uri: file.page for file in files.documentation_pages() if file.page is not None}
        theme = stamps(Path(config.theme.custom_dir)) if config.theme.custom_dir else []
        settings = Path(config.config_file_path).stat().st_mtime_ns if config.config_file_path else 0
        return self.preview.in_common(pages, [_outline(self._nav.items), self._shared, theme, settings])


def _no() -> bool:
    return False


def _introduce(file: File) -> None:
    """Tell a page that is not read yet what its file says of it: other pages show its title and its front matter."""
    page = file.page
    if page is None:
        return
    if file.src_uri.endswith(".ipynb"):
        text, meta = "".join(json.loads(file.content_string)["cells"][0]["source"]), {}
    else:
        text, meta = front_matter.get_data(file.content_string)
    page.meta, title = meta, meta.get("title") or get_markdown_title(text)
    if title and "title" not in vars(page):  # else the navigation names it
        page.title = title


def _outline(items) -> list:
    """The navigation's sections and what is in them."""
    return [
        [item.title, _outline(item.children)] if item.children else item.file.src_uri if item.is_page else item.title
        for item in items
    ]


def _search_index(config):
    """The index of Material's search, which under a dirty build takes all of its entries for those of one page."""
    index = getattr(config.plugins.get("material/search"), "search_index", None)
    return index if hasattr(index, "entries") else None
