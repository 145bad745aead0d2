"""A preview answers at once: pages are shown with what is known of them, then blocks run, what is open first."""

import contextlib
import re
import threading
import time
import urllib.request
from pathlib import Path

import pytest
from lessons_project import LIMIT_S, Preview, fence, marks, until

from kernels.lessons.model import PageOutcome, PageScan, PageSource
from kernels.lessons.turns import Turns


def pages(**texts):
    return [PageSource(f"{name}.md", Path(name), text, digest=text) for name, text in texts.items()]


def known(sources, *waiting):
    return {each.name: PageOutcome(PageScan(each), waiting=each.name in waiting) for each in sources}


@pytest.fixture
def turns():
    made = Turns()
    made.stepwise = True
    return made


def test_the_first_build_looks_at_one_page_and_runs_nothing(turns):
    turn = turns.next(pages(a="1", b="1"), {}, set(), "a.md")
    assert turn.names == {"a.md"} and not turn.runs


def test_pages_that_nobody_has_seen_come_next_and_then_all_are_looked_at_and_nothing_runs_for_nobody(turns):
    sources = pages(a="1", b="1", c="1")
    turn = turns.next(sources, known(sources[:1], "a.md"), {"b.md", "c.md"}, "a.md")
    assert turn.names == {"b.md", "c.md"} and not turn.runs
    turn = turns.next(sources, known(sources, "a.md", "c.md"), set(), "a.md")
    assert not turn.names and turn.runs and turn.resting == {"a.md", "c.md"}
    turns.open("c.md", unseen=False, waiting=True)
    assert turns.called
    turn = turns.next(sources, known(sources, "a.md", "c.md"), set(), "a.md")
    assert turn.names == {"c.md"} and turn.runs and turn.waited_for
    turn = turns.next(sources, known(sources, "a.md"), set(), "a.md")
    assert not turn.names and turn.resting == {"a.md"}


def test_all_that_was_opened_or_saved_runs_however_much_it_is(turns):
    names = [f"p{number}" for number in range(12)]
    sources = pages(**dict.fromkeys(names, "1"))
    turns.next(sources, {}, set(), "p0.md")
    for name in names[1:]:
        turns.open(f"{name}.md", unseen=False, waiting=True)
    sources = pages(**dict.fromkeys(names, "1") | {"p0": "2"})  # saved
    left = {source.name for source in sources}
    for _ in range(40):
        turn = turns.next(sources, known(sources, *left), set(), "p0.md")
        if not turn.names:
            break
        left -= turn.names if turn.runs else set()
    assert not left and not turn.resting


def test_what_is_opened_comes_first_and_calls_only_where_something_else_is_built(turns):
    sources = pages(a="1", b="1", c="1")
    turns.next(sources, known(sources[:1]), {"b.md", "c.md"}, "a.md")  # b and c are built
    turns.open("c.md", unseen=True, waiting=False)
    assert not turns.called
    turns.open("b.md", unseen=False, waiting=False)
    turns.next(sources, known(sources, "a.md", "b.md"), set(), "a.md")  # blocks of a and b run
    turns.open("c.md", unseen=True, waiting=False)
    assert turns.called
    turn = turns.next(sources, known(sources, "a.md", "b.md"), {"c.md"}, "a.md")
    assert turn.names == {"c.md"} and not turn.runs and turn.waited_for and not turns.called
    turns.open("b.md", unseen=False, waiting=True)
    assert not turns.called  # somebody waits for c
    turn = turns.next(sources, known(sources, "a.md", "b.md"), set(), "a.md")
    assert turn.names == {"b.md"} and turn.runs


def test_a_saved_page_is_shown_first_and_its_blocks_run_where_it_was_seen(turns):
    before = pages(a="1", b="1", c="1")
    turns.next(before, known(before[:2]), {"c.md"}, "a.md")
    after = pages(a="1", b="2", c="2")  # c was not seen: it is shown as it is, and then b, whose blocks run
    turn = turns.next(after, known(before[:2]), {"c.md"}, "a.md")
    assert turn.names == {"c.md"} and not turn.runs
    turn = turns.next(after, known(before[:2]) | known(after[2:], "c.md"), set(), "a.md")
    assert turn.names == {"b.md"} and turn.runs
    turn = turns.next(after, known(after, "a.md", "c.md"), set(), "a.md")
    assert turn.names == {"c.md"} and turn.runs


def test_a_saved_page_whose_blocks_wait_is_shown_before_they_run(turns):
    before, after = pages(a="1", b="1"), pages(a="1", b="2")
    turns.next(before, known(before, "a.md", "b.md"), set(), "a.md")
    turn = turns.next(after, known(before, "a.md", "b.md"), set(), "a.md")
    assert turn.names == {"b.md"} and not turn.runs and turn.waited_for
    turn = turns.next(after, known(before[:1], "a.md") | known(after[1:], "b.md"), set(), "a.md")
    assert turn.names == {"b.md"} and turn.runs


def test_a_page_that_was_saved_last_does_not_wait_for_the_blocks_of_one_saved_before(turns):
    first, second, third = pages(a="1", b="1"), pages(a="1", b="2"), pages(a="2", b="2")
    turns.next(first, known(first), set(), "a.md")
    assert turns.next(second, known(first), set(), "a.md").names == {"b.md"}  # and was stopped by the next save
    turn = turns.next(third, known(first), set(), "a.md")
    assert turn.names == {"a.md"} and turn.runs and turn.waited_for
    assert turns.next(third, known(third[:1]) | known(first[1:]), set(), "a.md").names == {"b.md"}


def test_without_a_build_behind_it_a_build_looks_at_all_pages():
    assert not Turns().next(pages(a="1"), {}, set(), "a.md").names


@pytest.mark.slow
def test_a_preview_shows_what_was_accepted_and_runs_behind_it_without_stopping_an_edit(project):
    """Every block is stale and does not end, and the preview is there, follows a save, and runs in order."""
    project.write("kernels/toy.py", "def wait():\n    return 0\n")
    code = "import time\nfrom kernels.toy import wait\ntime.sleep(wait())\n"
    timed = f'it timeout="{10 * LIMIT_S:g}"'
    for name in ("index", "one", "two"):
        project.page(name, f"# {name}\n\nOld words.\n\n{fence(code + marks(name) + chr(10) + 'print(5)', timed)}")
    assert project.lessons("accept").status == 0
    project.ran()
    project.write("kernels/toy.py", f"def wait():\n    return {10 * LIMIT_S}\n")
    (project.root / ".lessons").rename(project.root.parent / "elsewhere")
    preview = Preview(project)
    try:
        preview.wait_for("kl-badge--stale")
        until(lambda: "index.md it" in preview.said.read_text())  # it is open, so its block runs
        for name in ("two/", "one/"):
            assert "<code>5" in preview.read(name) and "waits for its turn" in preview.read(name)
            assert "toy:wait" not in preview.read(name)  # what changed is for the terminal
        project.edit("docs/two.md", "time.sleep(wait())", "pass")
        preview.wait_for("kl-badge--stale", "one/")  # shown as it was while another page's block runs
        preview.wait_until_gone("kl-badge--stale", "two/")
        project.edit("docs/one.md", "Old words", "New words")
        project.edit("docs/one.md", "time.sleep(wait())", "pass")
        preview.wait_for("New words", "one/")
        preview.wait_until_gone("waits for its turn", "one/")
        assert project.ran() == ["one", "two"]
    finally:
        preview.end()


@pytest.mark.slow
def test_what_was_accepted_on_another_machine_runs_when_it_is_opened_or_what_it_stands_on_is_saved(project):
    """As in a fresh clone on a laptop with another Python: nobody has asked for blocks that give what is there."""
    project.write("kernels/toy.py", "def five():\n    return 5\n")
    for name in ("index", "one", "two", "three"):
        code = "print(5)" if name == "three" else "from kernels.toy import five; print(five())"
        project.page(name, f"# {name}\n\nWords.\n\n{fence(marks(name) + chr(10) + code, 'it')}")
    assert project.lessons("accept").status == 0
    project.ran()
    for index in (project.root / "lessons_src/outputs").rglob("index.json"):
        text = re.sub(r'"python": "[^"]*"', '"python": "2.7"', index.read_text())
        index.write_text(text.replace("on Python 3", "on Python 2"))
    (project.root / ".lessons").rename(project.root.parent / "elsewhere")
    preview = Preview(project)

    def wait_for_line(words, count=1):
        until = time.monotonic() + 90
        while preview.said.read_text().count(words) < count:
            assert time.monotonic() < until, preview.said.read_text()
            time.sleep(0.05)

    try:
        wait_for_line("All pages are up to date; 4 pages show what was accepted")
        assert project.ran() == []
        preview.wait_for("<code>5", "one/")  # opened
        wait_for_line("; 3 pages show what was accepted")
        assert project.ran() == ["one"]
        project.edit("kernels/toy.py", "return 5", "return 3 + 3")
        wait_for_line("; 1 page shows what was accepted")
        assert project.ran() == ["index", "one", "two"]
        assert "stale" not in preview.said.read_text()
        project.edit("docs/three.md", "Words", "Other words")
        wait_for_line("up to date.")
        assert project.ran() == ["three"]
    finally:
        preview.end()


@pytest.mark.slow
def test_a_browser_loads_again_when_its_own_page_looks_different_and_when_a_style_sheet_was_saved(project):
    project.write("docs/look.css", "p {}")
    project.page("index", "# I\n\nFirst words.\n")
    project.page("other", "# O\n\nOther words.\n")
    preview = Preview(project)
    told = {}

    def poll(page):
        request = urllib.request.Request(f"{preview.address}livereload/{epochs[page]}/1")
        request.add_header("Referer", preview.address + page)
        with contextlib.suppress(OSError), urllib.request.urlopen(request, timeout=LIMIT_S) as answer:
            told[page] = int(answer.read())

    try:
        preview.wait_for("First words")
        preview.wait_for("Other words", "other/")
        preview.wait_for_all_to_follow()
        pages = ("", "other/")
        epochs = {page: int(re.search(r"livereload\((\d+),", preview.read(page))[1]) for page in pages}
        waiting = [threading.Thread(target=poll, args=(page,), daemon=True) for page in pages]
        for each in waiting:
            each.start()
        project.edit("docs/index.md", "First words", "Second words")
        waiting[0].join(LIMIT_S)
        assert told.get("", 0) > epochs[""]
        preview.wait_for("Second words")
        preview.wait_for_all_to_follow()
        time.sleep(1.0)  # in which the other browser would be told; a machine that is slower tests less
        assert "other/" not in told
        project.edit("docs/look.css", "p {}", "p { color: red }")
        waiting[1].join(LIMIT_S)
        assert told.get("other/", 0) > epochs["other/"]
    finally:
        preview.end()
