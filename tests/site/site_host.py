"""A host of plain files, as the published branch meets one: no redirects of its own, one 404 page at the root."""

from __future__ import annotations

import functools
import http.server
import os
import re
import threading
from html.parser import HTMLParser
from pathlib import Path

# SITE_TEST_ROOT tests a copy of the project, one with a fault planted, say.
ROOT = Path(os.environ.get("SITE_TEST_ROOT") or Path(__file__).parents[2])
PREFIX = "/learn/kernels/"
OLD, NEW = "1.0", "1.1"
LINKS = {"a": "href", "link": "href", "script": "src", "img": "src", "source": "src", "iframe": "src"}


STEPPER = ("banks", "stepper-model", "stepper-pictures", "stepper")


# Scripts that others need before them.
KINDS = tuple(f"explorer-{kind}" for kind in ("access", "tiles", "merge", "roofline"))
ASKED = {
    "explorers": ("links", "banks", "explorer-parts", *KINDS, "explorer-cases"),
    "occupancy": ("links", "occupancy-cliffs"),
    "stepper": ("links",),
}


def scripts_of(*names: str, without: str = "") -> list[str]:
    """The texts of scripts of the site, behind those that they ask."""
    names = [each for name in names for each in (*ASKED.get(name, ()), name) if each != without]
    return [(ROOT / f"docs/assets/{name}.js").read_text(encoding="utf-8") for name in ("early", *names)]


def script_of(*names: str) -> str:
    """`scripts_of` as one text."""
    return ";".join(scripts_of(*names))


def nav_pages() -> list[str]:
    """The addresses of the pages that mkdocs.yml names, below a version, in its order; "" is the home page."""
    text = (ROOT / "mkdocs.yml").read_text().partition("\nnav:\n")[2]
    names = re.findall(r"([\w/.-]+)\.(?:md|ipynb)\s*$", text, re.MULTILINE)
    return [re.sub(r"(^|/)index$", r"\1", name) + ("" if name.endswith("index") else "/") for name in names]


def ask(page, words: str) -> None:
    """Type `words` into the search of an open page, in the place of what stands there."""
    field = page.locator(".md-search__input")
    if not field.is_visible() or not field.evaluate("field => field === document.activeElement"):
        page.keyboard.press("/")
    field.fill("")
    field.press("Backspace")  # the theme listens for keys
    page.wait_for_function("document.querySelectorAll('.md-search-result__item').length === 0")
    field.fill(words[:-1])
    field.press_sequentially(words[-1])  # one key, one answer


def results(page, words: str) -> list[str]:
    """Addresses that the search of an open page answers with, best first."""
    ask(page, words)
    page.locator(".md-search-result__item").first.wait_for(timeout=20_000)
    links = page.locator(".md-search-result__item a.md-search-result__link")
    return links.evaluate_all("all => all.map(a => a.href)")


class _Handler(http.server.SimpleHTTPRequestHandler):
    def log_message(self, *arguments) -> None:
        pass

    def translate_path(self, path: str) -> str:
        if not path.startswith(PREFIX):
            return str(Path(self.directory) / "outside-of-the-site")
        return super().translate_path("/" + path[len(PREFIX) :])

    def list_directory(self, path):
        self.send_error(404)

    def send_error(self, code, message=None, explain=None) -> None:
        page = Path(self.directory) / "404.html"
        if code != 404 or not page.exists() or not self.path.startswith(PREFIX):
            super().send_error(code, message, explain)
            return
        body = page.read_bytes()
        self.send_response(404)
        self.send_header("Content-Type", "text/html; charset=utf-8")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)


class Host:
    """Serves `folder` under PREFIX on this machine until `stop`."""

    def __init__(self, folder: Path) -> None:
        handler = functools.partial(_Handler, directory=str(folder))
        self._server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler)
        self.origin = f"http://127.0.0.1:{self._server.server_port}"
        self.url = self.origin + PREFIX
        threading.Thread(target=self._server.serve_forever, daemon=True).start()

    def stop(self) -> None:
        self._server.shutdown()
        self._server.server_close()


class Document(HTMLParser):
    """What a page points at and can be pointed at."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.links: list[str] = []
        self.ids: set[str] = set()
        self.canonical = ""
        self.feed(text)

    def handle_starttag(self, tag, attrs) -> None:
        found = dict(attrs)
        self.ids |= {found[name] for name in ("id", "name") if found.get(name)}
        if tag == "link" and found.get("rel") == "canonical":
            self.canonical = found["href"]
        elif found.get(LINKS.get(tag, "")):
            self.links.append(found[LINKS[tag]])

    handle_startendtag = handle_starttag
