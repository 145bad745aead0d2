"""Pages of a MkDocs site as the engine takes them, and the converter that they are read with."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from pathlib import Path

import yaml
from markdown import Markdown
from mkdocs.exceptions import PluginError
from mkdocs.utils import meta as front_matter

from kernels.lessons.model import PageSource
from kernels.lessons.store import text_digest


def new_markdown_of(config) -> Callable[[], Markdown]:
    """A function that gives converters with the site's Markdown extensions."""
    made: list[Markdown] = []

    def new_markdown() -> Markdown:
        if not made:
            made.append(Markdown(extensions=config.markdown_extensions, extension_configs=config.mdx_configs))
        return made[0].reset()

    return new_markdown


def page_sources(files) -> list[PageSource]:
    """The Markdown pages of a site.

    Raises:
        PluginError: one is no UTF-8, or has front matter that is no YAML; the message says which, and where.
    """
    found = []
    for file in files.documentation_pages():
        if file.src_uri.endswith(".md") and file.abs_src_path:
            try:
                text = file.content_string
            except UnicodeDecodeError as error:
                line = error.object[: error.start].count(b"\n") + 1
                wrong = f"line {line} holds the byte {error.object[error.start]:#x}, which is no UTF-8"
                raise PluginError(f"{file.src_uri}: {wrong}; save the page as UTF-8") from None
            if wrong := _wrong_front_matter(text):
                raise PluginError(f"{file.src_uri}: {wrong}")
            found.append(page_source(file.src_uri, Path(file.abs_src_path), text))
    return sorted(found, key=lambda source: source.name)


def _wrong_front_matter(text: str) -> str:
    """What is wrong with a page's front matter, which MkDocs would show as text; "" where nothing is."""
    found = front_matter.YAML_RE.match(text)
    if not found or not re.search(r"^[\w-]+:", found[1], re.MULTILINE):  # a page may begin with a rule
        return ""
    try:
        yaml.safe_load(found[1])
    except yaml.YAMLError as error:
        mark = getattr(error, "problem_mark", None)
        where = f"line {mark.line + 2}" if mark else "its beginning"
        why = getattr(error, "problem", None) or error
        return f"{where}: the front matter is no YAML, {why}; put words with a colon in quotes"
    return ""


def in_order_of(nav, sources: list[PageSource]) -> list[PageSource]:
    """These pages in the order of a navigation, as mkdocs.yml has it; those that it does not name come behind."""
    names = [*_names(nav), "index.md"]
    return sorted(sources, key=lambda source: names.index(source.name) if source.name in names else len(names))


def _names(nav) -> Iterator[str]:
    for item in nav.values() if isinstance(nav, dict) else nav or ():
        if isinstance(item, str):
            yield item
        else:
            yield from _names(item)


def page_source(name: str, path: Path, text: str) -> PageSource:
    """A page of this text. `name` is its path below docs/."""
    body, _ = front_matter.get_data(text)
    return PageSource(name, path, body, text.count("\n") - body.count("\n"), text_digest(text))


def docs_name(config) -> str:
    """The name of the folder of pages, as in docs."""
    return Path(config.docs_dir).name
