"""What the scripts share that look at a built site in Chromium: a host for it, the browser, the list of its pages."""

from __future__ import annotations

import functools
import gzip
import http.server
import shutil
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

COMPRESSED = (".html", ".css", ".js", ".json", ".svg", ".xml")  # what hosts of static files compress on their way
QUIET = ("background-networking", "component-update", "sync", "gpu", "quic")
FLAGS = ["--headless", "--no-sandbox", "--no-first-run", *(f"--disable-{what}" for what in QUIET)]


class NoBrowser(RuntimeError):
    """This machine has no Chromium, or no Playwright."""


def page_names(site: Path) -> list[str]:
    """The addresses of a site's pages below its root, "" for the home page; forwarding pages are left out."""
    found = []
    for path in sorted(site.rglob("index.html")):
        if 'http-equiv="refresh"' not in path.read_text(encoding="utf-8")[:2000]:
            found.append(path.parent.relative_to(site).as_posix() + "/")
    return ["" if name == "./" else name for name in found]


class _Handler(http.server.SimpleHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    packed: dict[Path, bytes]  # what was compressed, kept

    def log_message(self, *arguments) -> None:
        pass

    def do_GET(self) -> None:
        path = Path(self.translate_path(self.path))
        path = path / "index.html" if path.is_dir() else path
        if not path.is_file():
            return self.send_error(404)
        compress = path.suffix in COMPRESSED and "gzip" in self.headers.get("Accept-Encoding", "")
        if compress and path not in self.packed:
            self.packed[path] = gzip.compress(path.read_bytes(), 6, mtime=0)
        body = self.packed[path] if compress else path.read_bytes()
        self.send_response(200)
        self.send_header("Content-Type", self.guess_type(str(path)))
        self.send_header("Content-Length", str(len(body)))
        if compress:
            self.send_header("Content-Encoding", "gzip")
        self.end_headers()
        self.wfile.write(body)
        return None


class _Server(http.server.ThreadingHTTPServer):
    def handle_error(self, request, client_address) -> None:
        """A browser that closes in the middle of an answer is no news."""


@contextmanager
def hosted(site: Path) -> Iterator[str]:
    """Serve a folder on this machine, compressed as hosts of static files do; gives the address, with its slash."""
    handler = type("Handler", (_Handler,), {"packed": {}})
    server = _Server(("127.0.0.1", 0), functools.partial(handler, directory=str(site)))
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}/"
    finally:
        server.shutdown()
        server.server_close()


@contextmanager
def chromium() -> Iterator[object]:
    """The system's Chromium, through Playwright.

    Raises:
        NoBrowser: one of the two is missing; the message says how to get it.
    """
    path = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)
    if path is None:
        raise NoBrowser("No Chromium was found; apt install chromium brings one.")
    try:
        from playwright.sync_api import sync_playwright
    except ImportError:
        raise NoBrowser("Playwright is not installed; pip install -e '.[test]' brings it.") from None
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=path, args=FLAGS)
        try:
            yield browser
        finally:
            browser.close()
