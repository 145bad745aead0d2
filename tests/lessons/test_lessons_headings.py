"""The list of headings of a page holds those that its blocks produce, too."""

from __future__ import annotations

import re

from lessons_project import fence
from mkdocs.structure.toc import get_toc

from kernels.lessons.mkdocs_plugin.headings import complete

BLOCK = '<div class="kl-block no-copy" id="block-a">{}</div>'


def listed(links, depth: int = 0) -> list[tuple[int, str, str]]:
    return [each for link in links for each in [(depth, link.id, link.title), *listed(link.children, depth + 1)]]


def token(level: int, name: str, *children) -> dict:
    return {"level": level, "id": name, "name": name.upper(), "children": list(children)}


def test_what_a_block_heads_stands_where_it_stands_on_the_page_and_once():
    toc = get_toc([token(1, "page", token(2, "first", token(3, "below")), token(2, "last"))])
    made = BLOCK.format('<h3 id="a-b" class="x"><code>a b</code></h3><h4 id="a-c">c &amp; d</h4><h3 id="a-b">two</h3>')
    html = f'<h1 id="page">P</h1><h2 id="first">F</h2>{made}<h3 id="below">B</h3><h2 id="last">L</h2>'
    assert listed(complete(toc, html)) == [
        (0, "page", "PAGE"),
        (1, "first", "FIRST"),
        (2, "a-b", "a b"),
        (3, "a-c", "c &amp; d"),
        (2, "below", "BELOW"),
        (1, "last", "LAST"),
    ]


def test_a_heading_without_an_address_is_not_listed_and_other_lists_stay():
    toc = get_toc([token(1, "page")])
    for html in (
        '<h1 id="page">P</h1>' + BLOCK.format("<h2>nameless</h2>"),
        '<h1 id="page">P</h1><h2 id="raw">of no block</h2>',
        BLOCK.format('<h2 id="new">new</h2>'),  # what is listed is not on the page: nothing to go by
    ):
        assert complete(toc, html) is toc


def test_the_built_page_lists_them(project):
    block = fence("print('<h2 id=made>Made here</h2>')", 'a html="1"')
    project.page("index", f"# P\n\n## Before\n\n{block}\n\n## After\n")
    assert project.lessons("accept").status == 0
    assert project.build().status == 0
    nav = project.html().partition("<nav>")[2].partition("</nav>")[0]
    assert re.findall(r"(\S[^\n]*) - #([\w-]+)", nav) == [
        ("P", "p"),
        ("Before", "before"),
        ("Made here", "made"),
        ("After", "after"),
    ]
