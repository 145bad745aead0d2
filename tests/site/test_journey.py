"""Where a page stands on its path: what the hook tells the template."""

from __future__ import annotations

import runpy
from types import SimpleNamespace

import pytest
from site_host import ROOT

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
    first, second = page("a.md", lessons), page("b.md", lessons, prerequisites=["a.md"])
    other = page("c.md", labs)
    first.next_page, second.next_page = second, other
    nav = SimpleNamespace(pages=[first, second, other])
    found = journey["on_page_context"]({}, page=second, config=None, nav=nav)["journey"]
    assert (found["place"], found["of"], found["needed"], found["same_path"]) == (2, 2, [first], False)
    assert journey["on_page_context"]({}, page=first, config=None, nav=nav)["journey"]["same_path"]
    second.meta["prerequisites"] = ["gone.md"]
    with pytest.raises(ValueError, match=r"b.md: the prerequisite 'gone.md'"):
        journey["on_page_context"]({}, page=second, config=None, nav=nav)
