#!/usr/bin/env python3
"""Make a bundle of the site that opens from disk: `offline_bundle.py VERSION [--output FOLDER]`.

From accepted outputs alone, the site is built with addresses that need no server and a search index that a page may
read from a file, and packed into `kernel-lessons-VERSION.zip`. Unpack it, open `index.html`: links and search work.
"""

from __future__ import annotations

import argparse
import os
import posixpath
import re
import subprocess
import sys
import tempfile
import zipfile
from pathlib import Path

ROOT = Path(__file__).parents[1]
LEFT_OUT = (".map", "sitemap.xml", "sitemap.xml.gz", "404.html", "objects.inv")
_LINK = re.compile(r'((?:href|src)=")([^"#?]*)([#?"])')
LONG_AGO = (1980, 1, 1, 0, 0, 0)


def build(folder: Path, config: Path = ROOT / "mkdocs.yml") -> None:
    """Build the site for reading from disk into a folder.

    Raises:
        subprocess.CalledProcessError: it cannot be built; what was printed says why.
    """
    environment = os.environ | {
        "OFFLINE": "true",
        "LESSONS_MODE": os.environ.get("LESSONS_MODE", "frozen"),
        "NO_MKDOCS_2_WARNING": "1",  # Material's notice about its own end of life
    }
    command = [
        sys.executable,
        "-m",
        "mkdocs",
        "build",
        "--quiet",
        "--config-file",
        str(config),
        "--site-dir",
        str(folder),
    ]
    subprocess.run(command, cwd=config.parent, env=environment, check=True)
    for page in sorted(folder.rglob("*.html")):
        text = page.read_text(encoding="utf-8")
        mended = mend(text, page, folder)
        if mended != text:
            page.write_text(mended, encoding="utf-8")


def mend(text: str, page: Path, folder: Path) -> str:
    """The text of a page whose links were written for addresses that end in a slash, `../next/`, and not for files.

    MkDocs turns links of Markdown; those that a block or a notebook wrote stand as they are. Only a link that leads to
    no file is changed, and only where the file that it means is there.
    """
    here = page.parent.relative_to(folder).as_posix()
    inside = here if page.name == "index.html" else posixpath.join(here, page.stem)  # the page's address as a folder

    def turned(match: re.Match) -> str:
        before, link, rest = match.groups()
        if not link or ":" in link or (page.parent / link).is_file():
            return match[0]
        meant = posixpath.normpath(posixpath.join(inside, link))
        for name in (meant, f"{meant}.html", f"{meant}/index.html"):
            if (folder / name).is_file():
                return f"{before}{posixpath.relpath(name, here)}{rest}"
        return match[0]

    return _LINK.sub(turned, text)


def pack(folder: Path, archive: Path, name: str) -> int:
    """Zip a built site under a folder called `name`, in a fixed order, with fixed times; returns the count of files."""
    files = [path for path in sorted(folder.rglob("*")) if path.is_file() and not path.name.endswith(LEFT_OUT)]
    archive.parent.mkdir(parents=True, exist_ok=True)
    with zipfile.ZipFile(archive, "w", zipfile.ZIP_DEFLATED, compresslevel=9) as packed:
        for path in files:
            info = zipfile.ZipInfo(f"{name}/{path.relative_to(folder).as_posix()}", LONG_AGO)
            info.compress_type, info.external_attr = zipfile.ZIP_DEFLATED, 0o644 << 16
            packed.writestr(info, path.read_bytes())
    return len(files)


def main() -> int:
    parser = argparse.ArgumentParser(description="Make a bundle of the site that opens from disk.")
    parser.add_argument("version", help="the version that the bundle is named after, such as 1.1")
    parser.add_argument("--output", type=Path, default=ROOT / "build", metavar="FOLDER", help="default: build/")
    asked = parser.parse_args()
    name = f"kernel-lessons-{asked.version}"
    with tempfile.TemporaryDirectory() as folder:
        try:
            build(Path(folder) / "site")
        except subprocess.CalledProcessError as error:
            print(f"The site could not be built (status {error.returncode}), so there is no bundle.", file=sys.stderr)
            return 1
        archive = asked.output / f"{name}.zip"
        count = pack(Path(folder) / "site", archive, name)
    print(f"{archive}: {count} files, {archive.stat().st_size / 1e6:.1f} MB")
    return 0


if __name__ == "__main__":
    sys.exit(main())
