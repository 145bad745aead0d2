#!/usr/bin/env python3
"""Every internal link and anchor of a built site: `check_links.py SITE`. Exit status 1 where one leads nowhere.

Absolute links (`/img/a.png`) are faults too: they break as soon as the site is served below a version's name.
"""

import argparse
import sys
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urlsplit

LINKING = {"a": "href", "link": "href", "img": "src", "script": "src", "source": "src", "iframe": "src"}


class Page(HTMLParser):
    """What one HTML file links to, with lines, and the anchors it offers."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.links: list[tuple[int, str]] = []
        self.anchors: set[str] = set()
        self.feed(text)

    def handle_starttag(self, tag: str, attributes: list[tuple[str, str | None]]) -> None:
        named = dict(attributes)
        self.anchors.update(value for value in (named.get("id"), named.get("name") if tag == "a" else None) if value)
        target = named.get(LINKING.get(tag, ""))
        if target and named.get("rel") != "canonical":
            self.links.append((self.getpos()[0], target))


def faults(site: Path) -> list[str]:
    """A sentence for every link below `site` that leads nowhere. The 404 page may link absolutely: it serves any
    depth.
    """
    pages = {path.resolve(): Page(path.read_text(encoding="utf-8")) for path in sorted(site.rglob("*.html"))}
    found = []
    for path, page in pages.items():
        name = path.relative_to(site.resolve()).as_posix()
        for line, link in page.links:
            parts = urlsplit(link)
            if parts.scheme or parts.netloc:
                continue
            if parts.path.startswith("/"):
                if name != "404.html":
                    found.append(f"{name}:{line}: {link} is absolute: it breaks under a version's prefix")
                continue
            target = (path.parent / unquote(parts.path)).resolve() if parts.path else path
            if target.is_dir():
                target = target / "index.html"
            if not target.is_relative_to(site.resolve()):
                continue  # another version of the site
            if not target.is_file():
                found.append(f"{name}:{line}: {link} leads to no file")
            elif parts.fragment and target in pages and unquote(parts.fragment) not in pages[target].anchors:
                found.append(f"{name}:{line}: {link} names an anchor that is not there")
    return found


def main() -> int:
    parser = argparse.ArgumentParser(description="Check every internal link and anchor of a built site.")
    parser.add_argument("site", type=Path, help="folder with the built site")
    site = parser.parse_args().site
    pages = len(list(site.rglob("*.html"))) if site.is_dir() else 0
    if not pages:
        print(f"{site} holds no page: build the site first.", file=sys.stderr)
        return 2
    wrong = faults(site)
    print("\n".join([*wrong, f"{pages} pages, {len(wrong)} links that lead nowhere"]))
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
