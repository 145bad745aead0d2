"""Every kind of verdict leads to a heading that exists, in words and as a link that is right from any page."""

import ast
import re
from pathlib import Path

import pytest
from lessons_project import fence

from kernels.figures import verdict_list
from kernels.lessons import explained
from kernels.lessons.explained import EXPLAINED, in_words, linked, with_explanation
from kernels.trace import Fault
from kernels.trace.advice import ADVICE, Advice
from kernels.trace.faults import VERDICTS

ROOT = Path(__file__).parents[2]
KINDS = sorted({**VERDICTS, **ADVICE})


def fault(kind="unwritten", **more):
    return Fault(kind, "out[1] is never written.", "out", 1, "", "", 0, 1, "", **more)


@pytest.mark.parametrize("kind", KINDS)
def test_every_kind_has_a_heading_of_that_name_on_its_page(kind):
    explanation = EXPLAINED[kind]
    text = (ROOT / "docs" / explanation.page).read_text(encoding="utf-8")
    headings = re.findall(r"^#{2,} (.+?) \{#([\w-]+)\}$", text, re.MULTILINE)
    assert headings.count((explanation.title, explanation.anchor)) == 1
    assert f"- {explanation.page}\n" in (ROOT / "mkdocs.yml").read_text(encoding="utf-8")


def test_nothing_is_explained_that_no_verdict_says():
    assert sorted(EXPLAINED) == KINDS


def test_every_kind_that_the_tracer_gives_is_listed():
    """The first argument of each `Fault(...)` and of the helpers that make one, and what a launch stops for."""
    given = set()
    for path in sorted((ROOT / "kernels" / "trace").glob("*.py")):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Call) and getattr(node.func, "id", "") in ("Fault", "_fault", "Advice", "_advice"):
                first = [a.value for a in node.args[:2] if isinstance(a, ast.Constant) and isinstance(a.value, str)]
                given.update(first[:1])
    assert {"out-of-bounds", "misaligned", "uncoalesced"} <= given <= set(KINDS)
    from kernels.trace.cuda_library import STOPS

    said_otherwise = {"barrier", "warp", "mask", "wild"}
    assert {stop for stop in STOPS if stop} - said_otherwise <= set(KINDS)


def test_in_words():
    assert in_words(fault()) == "Explained in: docs/reference/verdicts.md#unwritten (Never written)"
    assert in_words(fault("of-another-tool")) == ""
    assert with_explanation(fault()).splitlines()[1].strip() == in_words(fault())
    assert with_explanation(fault("of-another-tool")) == "out[1] is never written."


def test_each_item_of_a_list_gets_its_own_link_and_a_list_without_verdicts_none():
    html = linked(verdict_list([fault(), fault("shared-race")]), lambda page: f"../{page}")
    assert re.findall(r'href="([^"]*)"', html) == [
        "../reference/verdicts.md#unwritten",
        "../reference/verdicts.md#shared-race",
    ]
    assert html.count("<li>") == html.count("</li>") == 2 and "Explained in: Never written</a>" in html
    assert linked(verdict_list([]), lambda page: page) == verdict_list([])


def test_an_explanation_that_is_not_named_like_the_kind():
    html = verdict_list([fault("of-another-tool", explanation="unwritten")])
    assert '<li data-explained="unwritten">' in html
    assert 'href="v#unwritten"' in linked(html, lambda page: "v")


def test_a_site_without_the_page_shows_the_verdict_alone():
    html = verdict_list([fault()])
    assert linked(html, lambda page: None) == html
    assert f"Explained in: docs/{explained.PAGE}#unwritten" in linked(html)


BLOCK = fence(
    """from kernels.figures import verdict_list
from kernels.trace import Fault
print(verdict_list([Fault("unwritten", "out[1] is never written.", "out", 1, "", "", 0, 1, "")]))""",
    'a html="1"',
)


@pytest.mark.parametrize("directories", [True, False])
def test_the_link_is_right_from_any_depth(project, directories):
    if not directories:
        project.write("mkdocs.yml", project.read("mkdocs.yml") + "use_directory_urls: false\n")
    project.page("reference/verdicts", "# Verdicts\n\n## Never written {#unwritten}\n\n" + BLOCK)
    for name in ("index", "top", "labs/deep/er"):
        project.page(name, "# A page\n\n" + BLOCK)
    assert project.build().status == 0
    files = sorted((project.root / "site").rglob("*.html"))
    found = 0
    for file in files:
        for link in re.findall(r'href="([^"]*#unwritten)"', file.read_text()):
            if link.startswith("#"):
                continue
            found += 1
            target = (file.parent / link.partition("#")[0]).resolve()
            target = target / "index.html" if target.is_dir() else target
            assert target.is_file() and 'id="unwritten"' in target.read_text()
    assert found == 3  # not on the page itself


def test_advice_keeps_its_look_when_it_gets_its_link():
    advice = Advice("bank-conflict", "slow", "tile", 0, "block 0", "", 0, 1, "", remedy="pad")
    html = explained.linked(verdict_list([advice]))
    assert '<li class="kl-advice"><strong' in html and "kl-verdict__explained" in html
