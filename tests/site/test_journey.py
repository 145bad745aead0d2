"""Where a page stands on its path: what the hook tells the template."""

from __future__ import annotations

import re
import runpy
from types import SimpleNamespace

import pytest
from mkdocs.exceptions import PluginError
from site_host import ROOT, nav_pages

journey = runpy.run_path(str(ROOT / "docs/.theme/journey.py"))


def test_code_does_not_count_as_reading():
    prose, code = "word " * 400, "```python\n" + "name = 1\n" * 900 + "```\n"
    assert journey["reading_minutes"](prose) == 2
    assert journey["reading_minutes"](prose + "\n" + code) == 2
    assert journey["reading_minutes"]("") == 1


def page(name: str, parent, **meta):
    made = SimpleNamespace(file=SimpleNamespace(src_uri=name), meta=meta, markdown="text", is_page=True, title=name)
    made.ancestors, made.parent, made.next_page = [parent], parent, None
    parent.children.append(made)
    return made


def told_of(one, nav):
    return journey["on_page_context"]({}, page=one, config=None, nav=nav)["journey"]


def test_a_path_in_a_path_is_named_in_both():
    guides = SimpleNamespace(children=[], title="Guides")
    cases = SimpleNamespace(children=[], title="Case studies", is_page=False)
    setup = page("setup.md", guides)
    guides.children.append(cases)
    case = page("case.md", cases)
    case.ancestors = [cases, guides]  # as MkDocs has them: the nearest first
    setup.next_page = case
    nav = SimpleNamespace(pages=[setup, case])
    found = told_of(case, nav)
    assert found["above"] == [("Guides", setup), ("Case studies", case)] and (found["place"], found["of"]) == (1, 1)
    assert told_of(setup, nav)["same_path"]


def test_place_on_the_path_and_the_next_page():
    lessons, labs = SimpleNamespace(children=[], title="Lessons"), SimpleNamespace(children=[], title="Labs")
    first, second = page("a.md", lessons), page("b.md", lessons)
    other = page("c.md", labs)
    first.next_page, second.next_page = second, other
    nav = SimpleNamespace(pages=[first, second, other])
    found = told_of(second, nav)
    assert (found["place"], found["of"], found["same_path"]) == (2, 2, False)
    assert told_of(first, nav)["same_path"]


def test_a_page_may_name_the_next_and_a_page_that_is_looked_up_has_none():
    lessons = SimpleNamespace(children=[], title="Lessons")
    first, second = page("a.md", lessons, next="c.md"), page("b.md", lessons, next="none")
    third, looked_up = page("c.md", lessons), page("reference/d.md", lessons)
    lost = page("e.md", lessons, next="gone.md")
    overview = page("reference/index.md", lessons, lists=True)
    overview.next_page = looked_up
    assert told_of(overview, SimpleNamespace(pages=[overview, looked_up]))["after"] is looked_up
    nav = SimpleNamespace(pages=[first, second, third, looked_up, lost])
    for each in nav.pages:
        each.next_page = second
    told = {
        p.file.src_uri: journey["on_page_context"]({}, page=p, config=None, nav=nav)["journey"] for p in nav.pages[:4]
    }
    assert told["a.md"]["after"] is third and told["c.md"]["after"] is second
    assert first.next_page is third  # the footer leads where the card does
    assert told["b.md"]["after"] is None and told["reference/d.md"]["after"] is None
    with pytest.raises(PluginError, match=r"e\.md: `next: gone\.md` in its front matter is no page"):
        told_of(lost, nav)


def test_one_number_and_one_time():
    lessons = SimpleNamespace(children=[], title="Lessons")
    named, numbered = page("a.md", lessons), page("b.md", lessons)
    named.title, numbered.title, numbered.markdown = (
        "The plan",
        "9. Read",
        "**Time** 40 minutes. **Prerequisite** none.",
    )
    nav = SimpleNamespace(pages=[named, numbered])
    first = page("index.md", lessons, lists=True)
    told = [told_of(each, nav) for each in (*nav.pages, first)]
    assert [(each["place"], each["minutes"]) for each in told] == [(1, 1), (0, 0), (0, 1)]


def tangled(order: list[str], texts: dict[str, str]) -> list[str]:
    """What is wrong with what pages say they build on: nothing said, a later page of the same path, a circle."""
    needed = {name: journey["prerequisites"](name, text) for name, text in texts.items()}
    wrong = [f"{name} does not say what it builds on" for name in order if needed[name] is None]
    for name in order:
        for other in needed[name] or ():
            if other in order and name.split("/")[0] == other.split("/")[0] and order.index(other) >= order.index(name):
                wrong.append(f"{name} builds on {other}, which comes later")
        reached, front = set(), list(needed[name] or ())
        while front:
            one = front.pop()
            if one not in reached:
                reached.add(one)
                front += needed.get(one) or ()
        if name in reached:
            wrong.append(f"{name} builds on itself, by way of others")
    return wrong


PATHS = ("lessons/", "labs/", "workshops/", "essentials/")


def test_what_a_page_builds_on_comes_before_it():
    names = [f"{name.strip('/')}.md" for name in nav_pages()]
    order = [name for name in names if name.startswith(PATHS) and re.match(r"[a-z]?\d", name.rpartition("/")[2])]
    assert len(order) > 40
    assert tangled(order, {name: (ROOT / "docs" / name).read_text() for name in order}) == []


def test_a_tangle_is_seen():
    first, second = "labs/1.md", "labs/2.md"
    good = {first: "**Prerequisite** none. **Read beside", second: "**Prerequisite** [One](1.md#a).\n\n"}
    assert tangled([first, second], good) == []
    circle = good | {first: "**Prerequisite** [Two](2.md). **Read beside"}
    assert f"{first} builds on {second}, which comes later" in tangled([first, second], circle)
    assert f"{second} builds on itself, by way of others" in tangled([first, second], circle)
    assert tangled([first], {first: "# Lab\n"}) == [f"{first} does not say what it builds on"]
