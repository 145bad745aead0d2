"""A hook of mkdocs.yml: a page that moved leaves one behind that forwards, so that old links stay good.

`extra.moved` names them, as paths below the documentation: `old/name.md: new/name.md`, with `#place` behind the new
name where the old page became a part of another. The place and the query that a link itself names are kept, as long
as scripts run.
"""

from __future__ import annotations

import posixpath
import re
from html import escape
from pathlib import Path

_PAGE = """<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<title>This page has moved</title>
<meta http-equiv="refresh" content="0; url={target}">
<meta name="robots" content="noindex">
{canonical}<script>location.replace({script} + location.search + (location.hash || {anchor}))</script>
</head>
<body><p>This page has moved: <a href="{target}">go on to where it is now</a>.</p></body>
</html>
"""


def forwarding_page(target: str, canonical: str = "") -> str:
    """A page that sends its reader to `target`, an address relative to it."""
    place, _, anchor = target.partition("#")
    link = f'<link rel="canonical" href="{escape(canonical)}">\n' if canonical else ""
    return _PAGE.format(
        target=escape(target), canonical=link, script=_quoted(place), anchor=_quoted(f"#{anchor}" if anchor else "")
    )


def _quoted(text: str) -> str:
    return '"' + text.replace("\\", "\\\\").replace('"', '\\"').replace("<", "\\u003c") + '"'


def on_env(env, *, config, files):
    """Write a forwarding page for each page that moved.

    Raises:
        ValueError: one forwards to a page that is not there, or has the name of one that is.
    """
    moved = config.extra.get("moved") or {}
    for old, new in moved.items():
        name, _, anchor = new.partition("#")
        target = files.get_file_from_path(name)
        if target is None:
            raise ValueError(f"mkdocs.yml, extra.moved: {old} forwards to {name}, which is no page")
        if files.get_file_from_path(old) is not None:
            raise ValueError(f"mkdocs.yml, extra.moved: {old} is a page, so it cannot forward to {name}")
        stem, folder = re.subn(r"(^|/)(index|README)$", r"\1index", re.sub(r"\.(md|ipynb)$", "", old))
        place = stem + (".html" if folder or not config.use_directory_urls else "/index.html")
        address = posixpath.relpath(target.dest_uri, posixpath.dirname(place))
        if config.use_directory_urls:
            address = posixpath.dirname(address) + "/"
        path = Path(config.site_dir) / place
        path.parent.mkdir(parents=True, exist_ok=True)
        # What mike adds to the address, latest, has no slash at its end.
        canonical = f"{config.site_url.rstrip('/')}/{target.url}" if config.site_url else ""
        path.write_text(forwarding_page(address + (f"#{anchor}" if anchor else ""), canonical), encoding="utf-8")
    return env
