"""The server of a live preview: it hears of saved files, builds the edited page first, and answers this machine."""

from __future__ import annotations

import logging

from mkdocs.commands import serve as serve_command
from mkdocs.livereload import LiveReloadServer

from kernels.lessons.preview_loop import EditedFirst
from kernels.lessons.watching import Watcher


class PreviewServer(EditedFirst, LiveReloadServer):
    """Hears at once of saved files, where the system tells of them."""

    def __init__(self, *arguments, **named) -> None:
        super().__init__(*arguments, **named)
        self.build_delay = 0.05
        self.observer = Watcher()  # in the place of one that looks at every file all the time, and has not begun


def serve_site(config_file: str | None, address: str | None, *, open_in_browser: bool, every_page: bool) -> None:
    """Live preview: `mkdocs serve`, rebuilding only pages that changed unless `every_page`."""
    serve_command.LiveReloadServer = PreviewServer
    logging.getLogger("mkdocs").addFilter(_is_of_use)
    for handler in logging.getLogger("mkdocs").handlers or [logging.StreamHandler()]:
        handler.addFilter(_is_of_use)
    named = {"dev_addr": address} if address else {}
    build_type = None if every_page else "dirty"
    serve_command.serve(config_file, build_type=build_type, open_in_browser=open_in_browser, **named)


def _is_of_use(record: logging.LogRecord) -> bool:
    return "'dirty' build" not in record.getMessage()
