"""The glossary on the built site: no word is met before it is introduced without a link to its entry."""

from __future__ import annotations

import re
from html.parser import HTMLParser
from pathlib import Path
from posixpath import join, normpath

import pytest
from site_host import ROOT, Document

from kernels.lessons.glossary import Terms, read_entries

# One process builds the site and keeps the browser.
pytestmark = [pytest.mark.browser, pytest.mark.xdist_group("site")]

GLOSSARY = ROOT / "docs" / "lessons" / "glossary.md"
VOID = {"br", "hr", "img", "input", "meta", "link", "wbr", "col", "source"}


@pytest.fixture(scope="module")
def entries():
    return read_entries(GLOSSARY.read_text(encoding="utf-8"))


@pytest.fixture(scope="module")
def site(deployed) -> Path:
    return deployed.files / "latest"


class Prose(HTMLParser):
    """What an article says, headings and links included, code and figures left out; and its links to entries."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.said: list[str] = []
        self.linked: list[str] = []
        self._out: list[bool] = []
        self.feed(text)

    def handle_starttag(self, tag, attrs) -> None:
        found = {name: value or "" for name, value in attrs}
        names = found.get("class", "").split()
        if "kl-term" in names:
            self.linked.append(found["href"].partition("#")[2])
        if tag not in VOID:
            hidden = tag in ("pre", "code", "figure", "svg", "math", "script", "button", "aside", "nav")
            self._out.append(hidden or bool({"kl-block", "headerlink", "kl-value"} & set(names)))
        if tag in ("p", "li", "td", "dt", "h1", "h2", "h3", "summary"):
            self.said.append(" ; ")  # a phrase does not go on from one to the next

    def handle_endtag(self, tag) -> None:
        if tag not in VOID and self._out:
            self._out.pop()

    def handle_data(self, data) -> None:
        self.said.append(" ; " if any(self._out) else data)


def prose(site: Path, page: str) -> Prose:
    text = (site / page / "index.html").read_text(encoding="utf-8")
    return Prose(text[text.index("<article") : text.index("</article>")])


def lessons() -> list[tuple[int, str]]:
    """Number and name of each lesson, in the order of the learner's path."""
    found = (re.match(r"(\d+)-", path.name) for path in (ROOT / "docs" / "lessons").glob("*.md"))
    return sorted((int(match[1]), match.string.removesuffix(".md")) for match in found if match)


def test_no_word_is_used_before_it_is_introduced_unless_it_is_linked(site, entries):
    introduced = {entry.anchor: re.match(r"(\d+)-", entry.page) for entry in entries}
    terms, unlinked, uses = Terms(entries), [], 0
    for number, name in lessons():
        page = prose(site, f"lessons/{name}")
        for _, _, entry in terms.find("".join(page.said)):
            known = introduced[entry.anchor]
            uses += 1
            if (known is None or int(known[1]) > number) and entry.anchor not in page.linked:
                unlinked.append(f"lessons/{name}.md: {entry.word}")
    assert sorted(set(unlinked)) == [], "use the word in a sentence of the page, where it gets its link"
    assert uses > 50


def test_the_place_where_a_word_is_introduced_exists_and_uses_it(site, entries):
    missing = []
    for entry in entries:
        if not entry.page:
            continue
        page = normpath(join("lessons", entry.page)).removesuffix(".md")
        path = site / page / "index.html"
        if not path.is_file() or entry.heading not in Document(path.read_text(encoding="utf-8")).ids:
            missing.append(f"{entry.word}: {page}#{entry.heading}")
        elif entry not in [found for _, _, found in Terms([entry]).find("".join(prose(site, page).said))]:
            missing.append(f"{entry.word}: {page} does not use the word")
    assert missing == []
    assert sum(bool(entry.page) for entry in entries) > 20


def test_every_entry_of_the_page_was_read_and_can_be_linked_to(site, entries):
    text = (site / "lessons" / "glossary" / "index.html").read_text(encoding="utf-8")
    assert re.findall(r'<dt\b[^>]*? id="([\w-]+)"', text) == [entry.anchor for entry in entries]
    assert text.count("<dt") == len(entries) and 'class="kl-term"' not in text


def test_pages_where_the_words_mean_other_things_are_left_alone(site):
    for page in ("labs/1-vector-add", "."):
        assert 'class="kl-term"' in (site / page / "index.html").read_text(encoding="utf-8")
    for page in ("authoring/how-a-page-works", "guides/setup"):
        assert 'class="kl-term"' not in (site / page / "index.html").read_text(encoding="utf-8")


def test_a_word_shows_its_definition_and_leads_to_its_entry(read):
    with read("latest/lessons/9-read-cuda/", java_script_enabled=False) as reading:
        word = reading.page.locator("a.kl-term", has_text="sectors").first
        assert "32 neighbouring bytes" in word.get_attribute("title")
        word.click()
        reading.page.wait_for_url("**/lessons/glossary/#sector")
        entry = reading.page.locator("dt#sector")
        assert entry.is_visible() and entry.inner_text() == "sector"
