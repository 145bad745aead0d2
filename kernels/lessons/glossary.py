"""The glossary: its entries, read from its page, and the links to them in the prose of other pages.

An entry is an item of a definition list, with an anchor::

    bank conflict { #bank-conflict data-also="conflict of banks" }
    :   Lanes of one warp that ask one bank for different words. They are served one after another.
        Introduced in [Lesson 9](9-read-cuda.md#four-ways-to-walk-a-matrix).

``data-also`` lists other words for the same thing. ``data-forms`` lists the phrases that mean this entry where the word
alone has an everyday meaning, too; then the word alone is left as it is. ``data-not`` lists phrases that mean something
else on any page, although they hold one of these. A page lists such phrases of its own in its front matter, under
``everyday``.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from html import escape

_ENTRY = re.compile(
    r"^(?P<word>[^\n{:#>-][^\n{]*?) *\{ *#(?P<anchor>[\w-]+)(?P<more>[^}\n]*)\}\n"
    r":[ ]{3}(?P<text>[^\n]+(?:\n[ ]{4}[^\n]+)*)",
    re.MULTILINE,
)
_OPTION = re.compile(r'data-(also|forms|not)="([^"]*)"')
_INTRODUCED = re.compile(r"\s*Introduced in \[[^\]]*\]\(([^)#\s]+)#([^)\s]+)\)\.?\s*$")
_MARKDOWN_LINK = re.compile(r"\[([^\]]*)\]\([^)]*\)")
_WORD = re.compile(r"[^\W_](?:\w|-(?=\w))*")
_TAG = re.compile(r"<!--.*?-->|<(/?)([a-zA-Z][\w-]*)((?:[^>\"']|\"[^\"]*\"|'[^']*')*)>", re.DOTALL)
_UNLINKED = re.compile(r'class="kl-(?:block|value|formula)\b')  # executed blocks, computed values, formulas
_APART = {"a", "button", "cite", "code", "figure", "math", "pre", "script", "select", "style", "summary", "svg",
          "textarea", "h1", "h2", "h3", "h4", "h5", "h6"}  # fmt: skip
"""Elements whose text is never linked: code, titles of works, what a link or a heading says, what can be operated,
what is drawn."""

_FRONT = "`everyday` in the front matter has"  # how a sentence about what a page says there begins


@dataclass(frozen=True)
class Entry:
    """A word of the glossary."""

    word: str
    anchor: str
    definition: str
    """Plain text, without Markdown."""
    page: str = ""
    """Where the word is introduced, by its path relative to the glossary; empty where no page does."""
    heading: str = ""
    """The anchor on that page."""
    also: tuple[str, ...] = ()
    forms: tuple[str, ...] = ()
    but: tuple[str, ...] = ()
    """Phrases that hold a spelling of this entry, and mean something else."""

    def spellings(self) -> Iterator[str]:
        """Every spelling that means this entry: plurals, other words, and each with a capital to begin a sentence."""
        for text in self.forms or (self.word, *self.also):
            for one in dict.fromkeys((text, text if self.forms else plural(text))):
                yield one
                if one.split()[0].islower():
                    yield one[0].upper() + one[1:]


def plural(text: str) -> str:
    """`text` with its last word in the plural: `bank conflicts`, `latencies`, `masses`."""
    if re.search(r"[^aeiou]y$", text):
        return text[:-1] + "ies"
    return text + ("es" if re.search(r"(s|x|z|ch|sh)$", text) else "s")


def read_entries(markdown: str) -> list[Entry]:
    """The entries of a glossary's page, in its order.

    Raises:
        ValueError: two entries have one anchor or one spelling; the message names both.
    """
    entries = []
    for match in _ENTRY.finditer(markdown.replace("\r\n", "\n")):
        options = {name: _listed(text) for name, text in _OPTION.findall(match["more"])}
        options["but"] = options.pop("not", ())
        text = re.sub(r"\s*\n\s*", " ", match["text"]).strip()
        introduced = _INTRODUCED.search(text)
        page, heading = introduced.groups() if introduced else ("", "")
        text = _INTRODUCED.sub("", text)
        plain = re.sub(r"[*`]", "", _MARKDOWN_LINK.sub(r"\1", text))
        entries.append(Entry(match["word"].strip(), match["anchor"], plain, page, heading, **options))
    _refuse_twice(entries)
    return entries


def alphabet(entries: Iterable[Entry]) -> str:
    """All words and their other names, by the alphabet and behind their letters, each a link to its entry."""
    names = sorted({(name, entry.anchor) for entry in entries for name in (entry.word, *entry.also)}, key=_place)
    letters = {}
    for name, anchor in names:
        letters.setdefault(_place((name, anchor))[0][0].upper(), []).append(f'<a href="#{anchor}">{escape(name)}</a>')
    lines = (f"<b>{escape(letter)}</b> {' · '.join(links)}" for letter, links in letters.items())
    return f'<nav class="kl-alphabet" aria-label="All words by the alphabet"><p>{"<br>".join(lines)}</p></nav>'


def _place(name: tuple[str, str]) -> tuple[str, str]:
    """Where a name stands in the alphabet: by its letters and digits."""
    return "".join(filter(str.isalnum, name[0])).casefold() or name[0], name[1]


def _begun(text: str) -> tuple[str, str]:
    """A phrase within a sentence, and where it begins one."""
    return text, text[0].upper() + text[1:]


def _listed(text: str) -> tuple[str, ...]:
    return tuple(filter(None, map(str.strip, text.split(","))))


def _refuse_twice(entries: Iterable[Entry]) -> None:
    anchors: dict[str, Entry] = {}
    spelled: dict[str, Entry] = {}
    for entry in entries:
        other = anchors.setdefault(entry.anchor, entry)
        if other is not entry:
            raise ValueError(f"the glossary's {entry.word!r} and {other.word!r} have the same anchor #{entry.anchor}")
        for text in entry.spellings():
            other = spelled.setdefault(text, entry)
            if other is not entry:
                raise ValueError(f"the glossary defines {text!r} twice: as {other.word!r} and as {entry.word!r}")


class Terms:
    """Finds the words of a glossary in text and links them."""

    def __init__(self, entries: Iterable[Entry]) -> None:
        self._by_first: dict[str, list[tuple[tuple[str, ...], Entry | None]]] = {}
        for entry in entries:
            self._mean(entry.spellings(), entry)
            self._mean((spelled for text in entry.but for spelled in _begun(text)), None)

    def _mean(self, texts: Iterable[str], entry: Entry | None) -> None:
        """Let each of the texts mean the entry, or no entry at all."""
        for text in texts:
            words = tuple(_WORD.findall(text))
            known = self._by_first.setdefault(words[0], [])
            known.insert(0, (words, entry))  # what is said later, of one page, counts before what is said of all
            known.sort(key=lambda one: len(one[0]), reverse=True)  # "bank conflict" before "bank"

    def find(self, text: str) -> Iterator[tuple[int, int, Entry]]:
        """Start, end and entry of every use in plain text, the longest spelling first, none within another."""
        return ((start, end, entry) for start, end, entry in self._meanings(text) if entry is not None)

    def _meanings(self, text: str) -> Iterator[tuple[int, int, Entry | None]]:
        """As `find`, with the phrases that mean something else, too: those have no entry."""
        after = 0
        for match in _WORD.finditer(text):
            start = match.start()
            if start < after or match.group() not in self._by_first:
                continue
            for words, entry in self._by_first[match.group()]:
                end = self._ends(text, match.end(), words[1:])
                if end:
                    yield start, end, entry
                    after = end
                    break

    @staticmethod
    def _ends(text: str, end: int, words: tuple[str, ...]) -> int:
        """Where the phrase ends, if `words` follow with nothing but spaces between them; otherwise 0."""
        for word in words:
            following = _WORD.search(text, end)
            if following is None or following.group() != word or text[end : following.start()].strip():
                return 0
            end = following.end()
        return end

    def link(self, html: str, href: str, everyday: Sequence[str] = ()) -> str:
        """The page with the first use of each word linked to `href` and its anchor, the definition as its title.

        A use in a folded part counts apart: a reader who never opens it still meets a link. `everyday` are phrases of
        this page which mean something else, although they hold a word of the glossary.

        Raises:
            ValueError: the prose of the page has no such phrase, or none that holds a word of the glossary.
        """
        page = self._besides(everyday)
        seen: tuple[set[str], set[str]] = set(), set()
        parts: list[str] = []
        left = {phrase.casefold() for phrase in everyday}
        for text, folded in _prose(html):
            if folded is None:
                parts.append(text)
                continue
            done, start = seen[folded], 0
            for begin, end, entry in page._meanings(text):
                if entry is None:
                    left.discard(" ".join(text[begin:end].split()).casefold())
                    continue
                if entry.anchor in done:
                    continue
                done.add(entry.anchor)
                title = escape(f"{entry.word}: {entry.definition}")
                link = f'<a class="kl-term" href="{escape(href)}#{entry.anchor}" title="{title}">{text[begin:end]}</a>'
                parts += [text[start:begin], link]
                start = end
            parts.append(text[start:])
        if left:
            raise ValueError(f"{_FRONT} {', '.join(map(repr, sorted(left)))}; the prose of the page has no such words")
        return "".join(parts)

    def _besides(self, everyday: Sequence[str]) -> Terms:
        """These terms, and phrases that mean none of them."""
        idle = [phrase for phrase in everyday if not any(self.find(phrase))]
        if idle:
            raise ValueError(f"{_FRONT} {', '.join(map(repr, idle))}; no word of the glossary is in it")
        if not everyday:
            return self
        page = Terms(())
        page._by_first = {first: list(known) for first, known in self._by_first.items()}
        page._mean((spelled for text in everyday for spelled in _begun(text)), None)
        return page


def _prose(html: str) -> Iterator[tuple[str, bool | None]]:
    """The HTML in pieces: text that may be linked, with whether it is folded away, and the rest, with None."""
    position = details = 0
    while match := _TAG.search(html, position):
        if match.start() > position:
            yield html[position : match.start()], details > 0
        closing, name, attributes = match[1], (match[2] or "").lower(), match[3] or ""
        position = match.end()
        if name == "details":
            details += -1 if closing else 1
        elif not closing and (name in _APART or _UNLINKED.search(attributes)) and not attributes.endswith("/"):
            position = _end_of(html, name, match.end())
        yield html[match.start() : position], None
    yield html[position:], details > 0


def _end_of(html: str, name: str, position: int) -> int:
    """Where the element ends that is open at `position`: elements of its own name may stand within it."""
    depth = 1
    for tag in re.compile(rf"<(/?){name}\b[^>]*>").finditer(html, position):
        depth += -1 if tag[1] else 1
        if depth == 0:
            return tag.end()
    return len(html)
