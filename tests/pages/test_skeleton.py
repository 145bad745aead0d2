"""Every page that teaches has each section of the skeleton, and each holds what its heading promises."""

from __future__ import annotations

import re

import pytest
from skeleton import ROOT, faults, read

PAGES = sorted(
    path.relative_to(ROOT / "docs").as_posix()
    for pattern in ("lessons/[0-9]*.md", "labs/[0-9]*.md", "workshops/[ai][0-9]*.md", "essentials/[0-9]*.md")
    for path in (ROOT / "docs").glob(pattern)
)
MODEL = "labs/1-vector-add.md"


def text_of(page: str) -> str:
    return (ROOT / "docs" / page).read_text(encoding="utf-8")


@pytest.mark.parametrize("page", PAGES)
def test_a_page_has_every_section_and_keeps_its_promises(page):
    assert faults(read(text_of(page), page)) == []


def without(title: str) -> tuple[str, str]:
    """Exchange a heading for another one."""
    return rf"^(#+) {re.escape(title)}$", r"\1 Something else"


def within(title: str, pattern: str, instead: str) -> tuple[str, str]:
    """Exchange every match in one section."""

    def change(match: re.Match[str]) -> str:
        return match[1] + re.sub(pattern, instead, match[2], flags=re.MULTILINE)

    return rf"(^## {re.escape(title)}$)(.*?)(?=^## )", change


BREAKS = {
    "no section of that name": (without("Predict"), "no section 'Predict', and no reason"),
    "no time": ((r"^\*\*Time\*\*", "Duration"), "does not say 'Time'"),
    "no prerequisite": ((r"\*\*Prerequisite\*\*", "You"), "does not say 'Prerequisite'"),
    "nothing to read beside": ((r"\*\*Read\s+beside\s+this\s+page\*\*", "See"), "does not say 'Read beside this page'"),
    "explains little": (within("What you will be able to explain", r"^- ", "* "), "lists 0 points"),
    "asks nothing": (within("Predict", r"\?|[Ww]rite down|[Hh]ow many", "."), "'Predict' asks for nothing"),
    "retypes code": (within("The code", r"include=", "shown="), "'The code' includes nothing"),
    "runs nothing": (within("Run it", r'exec="1"', ""), "'Run' runs nothing"),
    "draws from no trace": (within("Who owns what", 'evidence="trace"', ""), "no figure that is drawn from a trace"),
    "figure that is text": (within("Who owns what", 'html="1"', ""), "no figure that is drawn from a trace"),
    "compiles nothing": (within("What the compiler made of it", 'evidence="compile"', ""), "of the evidence compile"),
    "measures nothing": (within("What it costs", 'evidence="measure"', ""), "of the evidence measure"),
    "breaks nothing": (within("What goes wrong", r'exec="1"', ""), "runs nothing that is wrong"),
    "no verdict": (within("What goes wrong", r'id="', 'id="never-accepted-'), "shows no verdict"),
    "no check": (within("Exercise", r'lessons check|exec="1"', "python"), "names no command that checks"),
    "no such exercise": (within("Exercise", r"lessons check \w+", "lessons check nothing"), "which does not exist"),
    "solution in the open": (within("Exercise", r"^\?\?\?", "!!!"), "offers no hint"),
    "open answers": (within("Exit questions", r"^\?\?\?", "!!!"), "asks 0 questions"),
    "answers that are words": (within("Exit questions", r'#!value|exec="1"', ""), "computes 0 of its"),
    "leads nowhere": (("\\Z", "\n## Next\n\nDone.\n"), "leads nowhere"),
}


@pytest.mark.parametrize("broken", BREAKS)
def test_each_kind_of_fault_is_found(broken):
    (pattern, instead), said = BREAKS[broken]
    text = text_of(MODEL)
    if broken == "leads nowhere":
        text = text[: text.index("\n## Next\n")]
    changed, count = re.subn(pattern, instead, text, flags=re.MULTILINE | re.DOTALL)
    assert count and changed != text
    found = faults(read(changed, MODEL))
    assert any(said in each for each in found), found


def test_a_prediction_that_nothing_answers_is_found():
    text = re.sub(r'exec="1"', "", text_of(MODEL))
    assert any("is answered by no executed block" in each for each in faults(read(text, MODEL)))


@pytest.mark.parametrize(
    ("left_out", "said"),
    [
        ("  Predikt: there is nothing to guess about on this page, as all is given.", "is no section of the skeleton"),
        ("  Predict: no.", "too short to be one"),
        ("  Predict: there is nothing to guess about on this page, as all is given.", "and is on the page"),
    ],
)
def test_a_section_is_left_out_by_its_name_with_a_reason_and_really(left_out, said):
    text = text_of(MODEL).replace("---\n", f"---\nleft_out:\n{left_out}\n", 1)
    assert any(said in each for each in faults(read(text, MODEL)))


def test_a_reason_is_enough():
    text = text_of(MODEL).replace("---\n", f"---\nleft_out:\n  Exercise: {'it has none, for a reason. ' * 3}\n", 1)
    text = re.sub(r"^## Exercise$", "## Something else", text, flags=re.MULTILINE)
    assert faults(read(text, MODEL)) == []
