"""Words of the glossary: which are found in a text, and how the first use on a page is linked."""

import re
import time
from html.parser import HTMLParser
from pathlib import Path

import pytest

from kernels.lessons.glossary import Terms, alphabet, plural, read_entries

PAGE = """
# Glossary

Words in groups.

bank { #bank }
:   A part of *shared* memory, see [banks](9.md#banks).
    Introduced in [Lesson 9](9-read-cuda.md#banks).

bank conflict { #bank-conflict }
:   Lanes that want `one` bank & differ.

SM { #sm data-also="multiprocessor" }
:   Runs blocks.

block { #block data-forms="a block, thread block" data-not="a block of code" }
:   Threads together.

latency { #latency }
:   How long it takes.
"""


@pytest.fixture
def entries():
    return read_entries(PAGE)


def links(html: str, entries) -> list[tuple[str, str]]:
    linked = Terms(entries).link(html, "../glossary/")
    return re.findall(r'<a class="kl-term" href="\.\./glossary/#([\w-]+)" title="[^"]*">(.*?)</a>', linked, re.DOTALL)


def test_an_entry_has_a_plain_definition_and_the_place_where_it_is_introduced(entries):
    bank, conflict = entries[:2]
    assert (bank.word, bank.anchor, bank.page, bank.heading) == ("bank", "bank", "9-read-cuda.md", "banks")
    assert bank.definition == "A part of shared memory, see banks."
    assert conflict.definition == "Lanes that want one bank & differ." and conflict.page == ""
    assert [entry.word for entry in entries] == ["bank", "bank conflict", "SM", "block", "latency"]


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("a bank, a bank, banks", [("bank", "bank")]),  # only the first use
        ("bank\nconflicts and banks", [("bank-conflict", "bank\nconflicts"), ("bank", "banks")]),  # longest first
        ("Banks and banking, bank-wide, riverbank", [("bank", "Banks")]),  # whole words
        ("An sm, an SM's work", [("sm", "SM")]),  # capitals within a word count
        ("two multiprocessors, one SM", [("sm", "multiprocessors")]),  # one entry, one link
        ("latencies", [("latency", "latencies")]),
        ("the block; a block of code; thread block", [("block", "thread block")]),
        ("A block", [("block", "A block")]),
        ("bank, conflict", [("bank", "bank")]),  # a comma ends a phrase
    ],
)
def test_first_uses_are_found(entries, text, found):
    assert links(f"<p>{text}</p>", entries) == found


@pytest.mark.parametrize(
    "html",
    [
        "<h2 id='bank'>A bank</h2>",
        '<p><a href="x">the bank <em>of</em></a></p>',
        "<p><code>bank</code></p>",
        '<pre><span>bank</span>\n<span class="c"># bank</span></pre>',
        "<summary>A bank?</summary>",
        '<figure class="kl-excerpt"><figure>bank</figure>bank</figure>',
        '<div class="kl-block" id="x"><div>bank</div> bank <div><div>bank</div></div>bank</div>',
        '<span class="kl-value" title="computed">bank</span>',
        '<span class="kl-formula"><span>bank</span> bank</span>',
        "<!-- bank --><svg><text>bank</text></svg>",
        '<p title="bank"><img alt="a bank > all"></p>',
        "<button>bank</button>",
        "<p><cite>Money in the Bank of a bank</cite></p>",
    ],
)
def test_headings_code_links_and_figures_are_left_as_they_are(entries, html):
    assert Terms(entries).link(html, "g") == html
    assert links(html + "<p>bank</p>", entries) == [("bank", "bank")]


def test_a_folded_use_and_an_open_one_are_both_linked(entries):
    html = "<details><summary>bank</summary><p>bank bank</p></details><p>bank</p><p>bank</p>"
    assert links(html, entries) == [("bank", "bank")] * 2


def test_a_page_says_which_of_its_phrases_mean_something_else(entries):
    html = "<p>Money in the\nbank, and the block on the left; a block, a bank</p>"
    everyday = ("in the bank", "a block")
    linked = Terms(entries).link(html, "g", everyday)
    assert re.findall(r'class="kl-term"[^>]*>(.*?)</a>', linked) == ["bank"] and linked.endswith("bank</a></p>")
    assert links(html, entries) == [("bank", "bank"), ("block", "a block")]  # another page is as it was
    assert links("<p>In the bank</p>", entries) == [("bank", "bank")]
    assert Terms(entries).link("<p>In the bank</p>", "g", ("in the bank",)) == "<p>In the bank</p>"


@pytest.mark.parametrize(
    ("phrase", "said"),
    [
        ("river bank", "has 'river bank'; the prose of the page has no such words"),  # it was rewritten since
        ("the riverside", "has 'the riverside'; no word of the glossary is in it"),
    ],
)
def test_a_phrase_that_leaves_nothing_alone_is_refused(entries, phrase, said):
    with pytest.raises(ValueError, match=re.escape(said)):
        Terms(entries).link("<p>a bank, the riverside</p><pre>river bank</pre>", "g", (phrase,))


@pytest.mark.parametrize(
    "text",
    [
        "The button beside a block copies a program. To type a block by hand, begin with",
        "The button on each block copies",
        "Where a block says which of two is shorter, nobody typed it; or the block says so.",
        "This page is the reference behind it.",
    ],
)
def test_the_course_does_not_define_its_pages_blocks_and_references(text):
    page = Path(__file__).parents[2] / "docs" / "lessons" / "glossary.md"
    found = {entry.anchor for _, _, entry in Terms(read_entries(page.read_text(encoding="utf-8"))).find(text)}
    assert not found & {"block", "reference"}


def test_nothing_but_links_is_added(entries):
    html = "<p>a bank &amp; a <b>bank</b> conflict &lt;SM&gt;</p>\n<br/><p>latency"
    linked = Terms(entries).link(html, "g")
    assert re.sub(r'<a class="kl-term"[^>]*>(.*?)</a>', r"\1", linked) == html
    assert 'title="bank conflict: Lanes that want one bank &amp; differ."' in Terms(entries).link("bank conflict", "g")


@pytest.mark.parametrize(
    ("more", "said"),
    [
        ("banks { #other }\n:   x\n", "defines 'banks' twice"),
        ("x { #y data-also='' }\n:   x\n\nSMs { #z }\n:   x\n", "defines 'SMs' twice"),
        ("till { #bank }\n:   x\n", "the same anchor #bank"),
    ],
)
def test_a_word_or_an_anchor_that_stands_twice_is_refused(more, said):
    with pytest.raises(ValueError, match=re.escape(said)):
        read_entries(PAGE + "\n" + more)


def test_plurals():
    assert [plural(word) for word in ("lane", "latency", "array", "bank conflict", "mass", "branch")] == [
        "lanes", "latencies", "arrays", "bank conflicts", "masses", "branches",
    ]  # fmt: skip


def test_a_long_page_is_linked_in_a_part_of_the_time_that_reading_its_html_takes(entries):
    """About a tenth of what Python's own reader takes, a few hundredths of a second; a slow machine is slow at both."""
    words = "<p>Every lane of a warp reads <code>x[i]</code>, and the <em>rest</em> is told &amp; drawn.</p>\n" * 400
    drawn = '<div class="kl-block" id="b">' + '<div class="s"><span>bank</span></div>' * 4000 + "</div>"
    code = "<pre>" + '<span class="n">bank</span>' * 4000 + "</pre>"
    page = (words + drawn + code) * 2
    terms = Terms(entries)
    taken = [(_seconds(lambda: terms.link(page, "g")), _seconds(lambda: HTMLParser().feed(page))) for _ in range(5)]
    assert len(page) > 500_000 and min(ours for ours, _ in taken) < min(read for _, read in taken) / 3


def _seconds(call) -> float:
    began = time.process_time()
    call()
    return time.process_time() - began


def test_the_alphabet_lists_every_name_once_behind_its_letter_and_leads_to_its_entry(entries):
    lines = alphabet(entries).split("<br>")
    assert [re.search(r"<b>(.)</b>", line)[1] for line in lines] == ["B", "L", "M", "S"]
    assert re.findall(r'href="#([\w-]+)">(.*?)</a>', lines[0]) == [
        ("bank", "bank"),
        ("bank-conflict", "bank conflict"),
        ("block", "block"),
    ]
    assert '<a href="#sm">multiprocessor</a>' in lines[2] and '<a href="#sm">SM</a>' in lines[3]
