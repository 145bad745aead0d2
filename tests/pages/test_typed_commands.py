"""Every command that a page tells its reader to type exists, with the options, files and pages that it names."""

from __future__ import annotations

import pytest
from typed_commands import ROOT, fault, fences, mentioned, pages, typed

PAGES = [path.relative_to(ROOT).as_posix() for path in pages()]


@pytest.mark.parametrize("page", PAGES)
def test_a_command_in_a_fence_can_be_typed_as_it_stands(page):
    text = (ROOT / page).read_text(encoding="utf-8")
    wrong = [f"{page}:{line}: {command}: {why}" for line, command in typed(text) if (why := fault(command))]
    assert wrong == []


@pytest.mark.parametrize("page", PAGES)
def test_a_command_that_prose_mentions_exists(page):
    text = (ROOT / page).read_text(encoding="utf-8")
    wrong = [f"{page}:{line}: {code}: {why}" for line, code in mentioned(text) if (why := fault(code, loose=True))]
    assert wrong == []


OURS = ("lessons ", "kernel-bench", "python ")


@pytest.mark.parametrize("page", [page for page in PAGES if "/authoring/" not in page and page != "CONTRIBUTING.md"])
def test_the_environment_is_switched_on_before_the_first_command_that_needs_it(page):
    """`lessons`, `kernel-bench` and the `python` that knows the project are in .venv alone."""
    text = (ROOT / page).read_text(encoding="utf-8")
    lines = [line for line, command in typed(text) if command.startswith(OURS)]
    if lines:
        above = "".join(" ".join(text.split("\n")[: min(lines)]).split())
        assert "source.venv/bin/activate" in above, f"{page}:{min(lines)}"


def test_a_newcomer_is_told_to_serve_and_to_switch_the_environment_on():
    """`make serve` alone installs, builds and shows; README, Setup and Lesson 0 say so, and what comes after it."""
    first = [command for _, command in typed((ROOT / "docs/lessons/0-orientation.md").read_text(encoding="utf-8"))]
    assert first[:3] == ["make serve", "source .venv/bin/activate", "lessons doctor"]
    assert not [command for command in first if command.startswith("make site")]
    assert "source .venv/bin/activate" in [command for _, command in typed((ROOT / "README.md").read_text("utf-8"))]
    for page in ("README.md", "docs/guides/setup.md"):
        after = (ROOT / page).read_text(encoding="utf-8").partition("to do the exercises,")[2]
        assert -1 < after.find("source .venv/bin/activate") < 1000, page


def test_many_commands_were_looked_at():
    texts = [path.read_text(encoding="utf-8") for path in pages()]
    assert sum(len(list(typed(text))) for text in texts) > 40
    assert sum(len(list(mentioned(text))) for text in texts) > 20


def test_python_that_is_shown_on_a_page_is_run_or_included():
    """A snippet that nothing runs may be wrong, and nobody would know."""
    for page in PAGES:
        for line, head, _ in fences((ROOT / page).read_text(encoding="utf-8")):
            if head.split(" ")[0].strip("{.}") in ("python", "py", "cuda", "cpp", "c++"):
                assert "exec=" in head or "include=" in head, f"{page}:{line}: {head} is neither executed nor included"


@pytest.mark.parametrize(
    ("command", "why"),
    [
        ("lessons chek offsets", "no command 'chek'"),
        ("lessons verify lessons/10000.md", "no page"),
        ("lessons trace softmax_parallel --columns 33", "No such option"),
        ("lessons check nothing", "no exercise nothing"),
        ("lessons scratch labs/1-vector-add#none", "no block"),
        ("kernel-bench --op ad", "no operator 'ad'"),
        ("kernel-bench --blok-size 128", "No such option"),
        ("mike deplo 1.2", "no command 'deplo'"),
        ("mike deploy --updat-aliases 1.2", "--updat-aliases is no option"),
        ("make sight", "no target 'sight'"),
        ("make site TROCH=cpu", "no variable TROCH"),
        ("python lessons_src/examples/none.py", "no file"),
        ("python lessons_src/examples/hello_triton.py --bock 2", "--bock is no option"),
        ("python -m kernels.none", "no module"),
        ("pytest tests/none.py", "no tests/none.py"),
        ("build/cuda_portfolio --tests", "no option"),
        ("./scripts/none.ps1", "no ./scripts/none.ps1"),
        ("npm install", "npm is no program"),
        ("cd x && lessons nothing", "no command 'nothing'"),
    ],
)
def test_a_command_that_does_not_exist_is_found(command, why):
    assert why in fault(command)
