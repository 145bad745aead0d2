"""The server of a live preview: it hears of saved files, builds the edited page first, and answers this machine."""

from __future__ import annotations

import ipaddress
import logging
import re
import urllib.parse

from mkdocs.commands import serve as serve_command
from mkdocs.livereload import LiveReloadServer

from kernels.lessons.locks import ended_by_signals
from kernels.lessons.preview_loop import EditedFirst
from kernels.lessons.watching import Watcher

log = logging.getLogger("mkdocs.plugins.lessons")


class PreviewServer(EditedFirst, LiveReloadServer):
    """Hears at once of saved files, where the system tells of them.

    It shows drafts, and the tracebacks of blocks that fail. So where it listens to this machine alone, it answers those
    who ask for this machine by its own name: another name is that of a website whose server says that it lives here.
    """

    def __init__(self, builder, host: str, port: int, *arguments, **named) -> None:
        super().__init__(builder, host, port, *arguments, **named)
        self._host = host
        if not is_this_machine(host):
            log.warning("Everyone who reaches this machine at %s:%s sees drafts and tracebacks.", host, port)
        self.build_delay = 0.05
        self.observer = Watcher(self.note)  # in the place of one that looks at every file, and has not begun

    def server_bind(self) -> None:
        """Take the port. Port 0 is any that is free: which one, is known from here on, and said."""
        asked = self.server_address[1]
        super().server_bind()
        if asked == 0:
            self.url = self.url.replace(":0/", f":{self.server_port}/", 1)

    def serve_request(self, environ, start_response):
        """Answer a request, unless it is for another machine's name."""
        asked = environ.get("HTTP_HOST", "")
        if not is_this_machine(self._host) or not asked or is_this_machine(host_of(asked)):
            return self._answer(environ, start_response)
        said = f"This preview answers requests for localhost, and this one is for {asked!r}. "
        said += "To let others read it, serve at another address: --address 0.0.0.0:8000\n"
        start_response("403 Forbidden", [("Content-Type", "text/plain; charset=utf-8")])
        return [said.encode("utf-8", "replace")]

    def _answer(self, environ, start_response):
        path = environ["PATH_INFO"].encode("latin-1").decode("utf-8", "ignore")
        poll = re.fullmatch(r"/livereload/([0-9]+)/[0-9]+", path)
        reader = self._address(urllib.parse.unquote(urllib.parse.urlsplit(environ.get("HTTP_REFERER", "")).path))
        if not poll or not reader:
            self.wait_for_page(self._address(path))
            return super().serve_request(environ, start_response)
        epoch = int(poll[1])
        with self._epoch_cond:  # the page in this browser, and no other, is to be loaded again
            self._epoch_cond.wait_for(lambda: self.epoch_of(reader) > epoch, timeout=self.poll_response_timeout)
            answer = self.epoch_of(reader)
        start_response("200 OK", [("Content-Type", "text/plain")])
        return [b"%d" % answer]

    def _address(self, path: str) -> str:
        """The file of the site that an address of this server names, by its path below the site; "" for another."""
        if not path.startswith(self.mount_path):
            return ""
        below = path[len(self.mount_path) :]
        if not below or below.endswith("/"):
            below += "index.html"
        elif "." not in below.rpartition("/")[2]:
            below += "/index.html"  # it will be sent on to there
        return below


def host_of(asked: str) -> str:
    """The host that a request's `Host` names, without its port; "" where it names none."""
    try:
        return urllib.parse.urlsplit(f"//{asked}").hostname or ""
    except ValueError:
        return ""


def is_this_machine(host: str) -> bool:
    """Whether a host is this machine for itself alone: localhost, or an address that leads back, as 127.0.0.1 does."""
    try:
        return host == "localhost" or host.endswith(".localhost") or ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


def serve_site(config_file: str | None, address: str | None, *, open_in_browser: bool, every_page: bool) -> None:
    """Live preview: `mkdocs serve`, rebuilding only pages that changed unless `every_page`."""
    serve_command.LiveReloadServer = PreviewServer
    logging.getLogger("mkdocs").addFilter(_is_of_use)
    for handler in logging.getLogger("mkdocs").handlers or [logging.StreamHandler()]:
        handler.addFilter(_is_of_use)
    named = {"dev_addr": address} if address else {}
    build_type = None if every_page else "dirty"
    with ended_by_signals():  # else a preview that is told to end leaves its site in the temporary folder
        serve_command.serve(config_file, build_type=build_type, open_in_browser=open_in_browser, **named)


def _is_of_use(record: logging.LogRecord) -> bool:
    return "'dirty' build" not in record.getMessage()
