"""scripts/check_html.py: the whole site before the Nu HTML checker, and small pages with a fault planted."""

from __future__ import annotations

import os
import sys

import pytest
from site_host import ROOT

sys.path.insert(0, str(ROOT / "scripts"))
from check_html import NoChecker, article, command, findings, judged, known

# One process builds the site.
pytestmark = [pytest.mark.browser, pytest.mark.xdist_group("site")]

PAGE = """<!doctype html>
<html lang="en"><head><meta charset="utf-8"><title>Title</title></head><body>
<p id="theirs">𝛼𝛽 around</p>{before}<article class="md-content__inner md-typeset">{inside}<h1>𝛼</h1></article>
<p>After</p>
</body></html>
"""
PLANTS = {
    "an id that the theme has, too": ('<p id="theirs">Text</p>', "Duplicate ID “theirs”."),
    "an id twice": ('<p id="a">Text</p><p id="a">Text</p>', "Duplicate ID “a”."),
    "an unclosed element": ("<section><h2>𝛼</h2><div><p>Text</p>", "End tag “article” seen, but there were open"),
    "a stray end tag": ("<p>Text</p></div>", "Stray end tag “div”."),
    "a block in a paragraph": ("<p><table><tr><td>1</td></tr></table></p>", "No “p” element in scope but a “p” end"),
    "an attribute that SVG does not have": ("<svg><path d='M0 0' colour='red'/></svg>", "Attribute “colour” not"),
    "half a fraction": ("<math><mfrac><mn>1</mn></mfrac></math>", "Element “mfrac” is missing"),
    "a reference to nothing": ('<p aria-labelledby="gone">Text</p>', "The “aria-labelledby” attribute must point"),
    "nothing": ('<p id="ours">Text</p><svg role="img"><title>𝛼</title></svg><math><mn>1</mn></math>', None),
}


@pytest.fixture(scope="module")
def checker():
    try:
        command()
    except NoChecker as error:
        if os.environ.get("REQUIRE_JAVA") == "1":
            pytest.fail(f"{error} REQUIRE_JAVA=1 forbids skipping this.")
        pytest.skip(str(error))


@pytest.fixture(scope="module")
def planted(checker, tmp_path_factory):
    """Every plant inside an article and before one; the checker is asked once for all."""
    site, pages = tmp_path_factory.mktemp("plants"), {}
    for number, (inside, _) in enumerate(PLANTS.values()):
        for place in ("inside", "before"):
            page = site / f"{number}-{place}.html"
            page.write_text(PAGE.format(**({"inside": "", "before": ""} | {place: inside})), encoding="utf-8")
            pages[number, place] = page
    found = findings(site, pages.values())
    return {key: [one for one in found if one.page == page.name] for key, page in pages.items()}


def test_the_site_is_valid_inside_the_article_and_the_rest_is_listed(checker, deployed):
    site = deployed.files / "latest"
    faults, _, unsaid = judged(findings(site, sorted(site.rglob("*.html"))), known())
    assert [str(one) for one in faults] == []
    assert unsaid == [], "the theme does not say this any more: take it out of the table"


@pytest.mark.parametrize("plant", PLANTS)
def test_a_planted_fault_is_found_and_its_place_is_known(planted, plant):
    number, said = list(PLANTS).index(plant), PLANTS[plant][1]
    if said is None:
        assert planted[number, "inside"] == []
        return
    inside, before = planted[number, "inside"], planted[number, "before"]
    assert any(one.inside and one.words.startswith(said) for one in inside), inside
    if plant != "an unclosed element":  # that reaches into the article from outside
        assert before and not any(one.inside for one in before)


def test_a_listed_sentence_inside_the_article_is_a_fault(planted):
    listed = {"Duplicate ID “a”.": "", "The first occurrence of ID “a” was here.": "", "Nobody says this": ""}
    number = list(PLANTS).index("an id twice")
    faults, times, unsaid = judged(planted[number, "inside"], listed)
    assert len(faults) == 2 and not times and len(unsaid) == 3
    faults, times, unsaid = judged(planted[number, "before"], listed)
    assert faults == [] and sum(times.values()) == 2 and unsaid == ["Nobody says this"]


def test_every_listed_sentence_has_a_reason():
    assert len(known()) >= 1
    assert [words for words, reason in known().items() if len(reason) < 40] == []


def test_the_article_is_measured_as_the_checker_counts():
    assert article('<p>\n𝛼𝛽<article class="md-content__inner">\n</article></p>') == ((2, 5), (3, 10))
    assert article("<p>no article</p>") == ((0, 0), (0, 0))


def test_a_missing_checker_is_said_in_a_sentence(monkeypatch, tmp_path):
    monkeypatch.setenv("VNU_JAR", str(tmp_path / "vnu.jar"))
    with pytest.raises(NoChecker, match=r"is not at|No Java was found"):
        command()
