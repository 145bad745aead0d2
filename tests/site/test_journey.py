"""Where a page stands on its path: what the hook tells the template."""

from __future__ import annotations

import re
import runpy
from types import SimpleNamespace

from site_host import ROOT, nav_pages

journey = runpy.run_path(str(ROOT / "docs/.theme/journey.py"))


def test_code_does_not_count_as_reading():
    prose, code = "word " * 400, "```python\n" + "name = 1\n" * 900 + "```\n"
    assert journey["reading_minutes"](prose) == 2
    assert journey["reading_minutes"](prose + "\n" + code) == 2
    assert journey["reading_minutes"]("") == 1


def page(name: str, parent, **meta):
    made = SimpleNamespace(file=SimpleNamespace(src_uri=name), meta=meta, markdown="text", is_page=True)
    made.ancestors, made.parent, made.next_page = [parent], parent, None
    parent.children.append(made)
    return made


def test_a_path_in_a_path_is_named_in_both():
    guides = SimpleNamespace(children=[], title="Guides")
    cases = SimpleNamespace(children=[], title="Case studies", is_page=False)
    setup = page("setup.md", guides)
    guides.children.append(cases)
    case = page("case.md", cases)
    case.ancestors = [cases, guides]  # as MkDocs has them: the nearest first
    setup.next_page = case
    nav = SimpleNamespace(pages=[setup, case])
    found = journey["on_page_context"]({}, page=case, config=None, nav=nav)["journey"]
    assert found["above"] == [("Guides", setup), ("Case studies", case)] and (found["place"], found["of"]) == (1, 1)
    assert journey["on_page_context"]({}, page=setup, config=None, nav=nav)["journey"]["same_path"]


def test_place_on_the_path_and_the_next_page():
    lessons, labs = SimpleNamespace(children=[], title="Lessons"), SimpleNamespace(children=[], title="Labs")
    first, second = page("a.md", lessons), page("b.md", lessons)
    other = page("c.md", labs)
    first.next_page, second.next_page = second, other
    nav = SimpleNamespace(pages=[first, second, other])
    found = journey["on_page_context"]({}, page=second, config=None, nav=nav)["journey"]
    assert (found["place"], found["of"], found["same_path"]) == (2, 2, False)
    assert journey["on_page_context"]({}, page=first, config=None, nav=nav)["journey"]["same_path"]


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
    good = {first: "**Prerequisite** none. **Read beside", second: "Before you start\n:   [One](1.md#a).\n\n"}
    assert tangled([first, second], good) == []
    circle = good | {first: "**Prerequisite** [Two](2.md). **Read beside"}
    assert f"{first} builds on {second}, which comes later" in tangled([first, second], circle)
    assert f"{second} builds on itself, by way of others" in tangled([first, second], circle)
    assert tangled([first], {first: "# Lab\n"}) == [f"{first} does not say what it builds on"]
