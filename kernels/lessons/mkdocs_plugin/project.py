"""A project behind its `mkdocs.yml`, for commands: opened without building a site, or built."""

from __future__ import annotations

from mkdocs.commands import build as build_command
from mkdocs.config import load_config
from mkdocs.exceptions import MkDocsException
from mkdocs.structure.files import get_files

from kernels.lessons.engine import Engine
from kernels.lessons.mkdocs_plugin.pages import docs_name, page_source, page_sources
from kernels.lessons.mkdocs_plugin.plugin import LessonsPlugin
from kernels.lessons.model import PageScan, PageSource
from kernels.lessons.notebook import notebook_sources
from kernels.lessons.scan import scan_page


class ProjectError(ValueError):
    """There is no such `mkdocs.yml`, or it is wrong; the message says how."""


def open_project(config_file: str | None = None) -> tuple[Engine, list[PageSource], str]:
    """The engine and the pages behind a `mkdocs.yml`, and the name of their folder, for commands that build no site.

    Raises:
        ProjectError: there is no such configuration, or it is wrong.
    """
    try:
        config = load_config(config_file)
        plugin = next((each for each in config.plugins.values() if isinstance(each, LessonsPlugin)), None)
        if plugin is None:
            raise ProjectError(f"{config.config_file_path} does not name the plugin 'lessons'")
        plugin.on_config(config)
        sources = page_sources(get_files(config)) + notebook_sources(plugin.engine.root)
    except MkDocsException as error:
        raise ProjectError(str(error)) from None
    return plugin.engine, sources, docs_name(config)


def scan_text(engine: Engine, name: str, text: str) -> PageScan:
    """What a page of this text would ask to be run: a page as it was, say. `name` is its path below docs/."""
    return scan_page(page_source(name, engine.root / name, text), engine.new_markdown)


def build_site(config_file: str | None, *, strict: bool, site_dir: str | None) -> None:
    """What `mkdocs build` does.

    Raises:
        click.ClickException: the site cannot be built; what was said tells why.
    """
    named = {"site_dir": site_dir} if site_dir else {}
    config = load_config(config_file, strict=strict, **named)
    config.plugins.on_startup(command="build", dirty=False)
    try:
        build_command.build(config)
    finally:
        config.plugins.on_shutdown()
