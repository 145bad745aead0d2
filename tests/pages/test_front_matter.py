"""What stands above a page's text: it is read as YAML, and cards and the search show its description."""

from __future__ import annotations

from pathlib import Path

import pytest
import yaml

DOCS = Path(__file__).parents[2] / "docs"
PAGES = sorted(path.relative_to(DOCS).as_posix() for path in DOCS.rglob("*.md"))


@pytest.mark.parametrize("page", PAGES)
def test_front_matter_is_read_and_describes_the_page(page):
    text = (DOCS / page).read_text(encoding="utf-8")
    assert text.startswith("---\n"), "a page begins with its front matter"
    matter = yaml.safe_load(text.removeprefix("---\n").partition("\n---\n")[0])
    assert isinstance(matter, dict), "a value with a colon in it stands between quotes"
    assert isinstance(matter.get("description"), str) and matter["description"].endswith((".", "?"))
