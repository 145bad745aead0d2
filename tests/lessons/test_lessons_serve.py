"""Live preview: a saved page is shown again at once, only what changed runs, a failing block is shown on its page.

What others show of a page follows. How much is rendered is counted, by a hook that notes every page that is written.
"""

import errno
import functools
import json
import os
import re
import socket
import time

import pytest
from lessons_project import CONFIG, Preview, Project, fence, marks, until

from kernels.lessons.command import why_it_ended
from kernels.lessons.mkdocs_plugin.server import PreviewServer
from kernels.lessons.preview_loop import _why

pytestmark = pytest.mark.slow


@pytest.fixture
def preview(project: Project):
    project.write("kernels/toy.py", "FACTOR = 7\n\n\ndef f():\n    return 6 * FACTOR\n")
    code = marks("a") + "\nfrom kernels.toy import f; print(f())"
    drawn = 'drawn html="1"'
    table = "from kernels.toy import f; print(f'<table><tr><td>{f()}</td></tr></table>')"
    project.page("index", f"# I\n\nOld words.\n\n{fence(code, 'a')}\n{fence(table, drawn)}")
    project.page("other", f"# O\n\nMore words.\n\n{fence(marks('b') + chr(10) + 'print(5)', 'b')}")
    assert project.lessons("accept").status == 0
    project.ran()
    started = Preview(project)
    try:
        started.wait_for("Old words")
        started.wait_for_all_to_follow()
        yield started
    finally:
        started.end()


HOOK = """
import os

def on_page_content(html, *, page, config, files):
    if "Broken words" in html:
        raise ValueError("no such word")
    words = files.get_file_from_path("words.md")
    return html + (words.content_string.splitlines()[2] if page.meta.get("wordy") else "")

def on_post_page(output, *, page, config):
    with open(os.environ["RENDERED_LOG"], "a") as log:
        log.write(page.file.src_uri + "\\n")
    return output
"""
BOOK = CONFIG.replace(
    "theme: {name: null, custom_dir: theme}", "theme: {name: material, font: false, custom_dir: theme}"
)
BOOK = BOOK.replace("plugins: [lessons]", "plugins: [search, {lessons: {shared: [words.md]}}]\nhooks: [hook.py]")
BOOK += "validation: {anchors: warn}\nnav: [index.md, two.md, three.md, reads.md, words.md]\n"


class Book(Preview):
    """A site with navigation, search, a page that others are made from, and a page whose block reads another."""

    def __init__(self, root) -> None:
        project = Project(root, BOOK)
        project.write("theme/main.html", '{% extends "base.html" %}')
        project.write("hook.py", HOOK)
        project.page("index", "# Home\n\nOld words.\n\n## Part\n")
        project.page("two", "# Two\n\nSecond words. [A part](index.md#part).\n")
        project.page("three", "---\nwordy: true\n---\n# Three\n\nThird words.\n")
        project.page("reads", "# Reads\n\n" + fence("print(open('docs/two.md').read().split()[2])", "it"))
        project.page("words", "# Words\n\nA shared word.\n")
        self.log = root.parent / "rendered.log"
        self.log.touch()
        project.environment = functools.partial(project.environment, RENDERED_LOG=str(self.log))
        assert project.lessons("accept").status == 0
        super().__init__(project)

    def rendered(self) -> list[str]:
        """Pages that were written since the last call, in order."""
        names = self.log.read_text().split()
        self.log.write_text("")
        return names


@pytest.fixture
def book(tmp_path):
    started = Book(tmp_path / "book")
    try:
        started.wait_for("Old words")
        started.wait_for_all_to_follow()
        started.rendered()
        yield started
    finally:
        started.end()


def test_a_saved_paragraph_is_shown_and_no_block_runs(preview):
    """How soon it is shown is measured by scripts/engine_benchmark.py, on a machine that does nothing else."""
    preview.project.ran()
    words = "Old words"
    for number in range(5):
        preview.project.edit("docs/index.md", words, f"New words {number}")
        words = f"New words {number}"
        preview.wait_for(words)
        preview.wait_for_all_to_follow()
    assert preview.project.ran() == []
    assert "More words" in preview.read("other/")


def test_a_save_while_the_page_is_being_built_is_shown_too(preview):
    """The page written last is then newer than its source, though it does not show it."""
    project = preview.project
    project.edit("docs/index.md", "Old words", "Newer words")
    project.edit("docs/other.md", "print(5)", "import time; time.sleep(1000); print(5)")
    until(lambda: "b" in project.ran())  # now the build has read the page and waits for the block
    project.edit("docs/index.md", "Newer words", "Words saved meanwhile")
    preview.wait_for("Words saved meanwhile")


def test_an_edit_of_an_operator_runs_only_what_imports_it(preview):
    preview.project.edit("kernels/toy.py", "FACTOR = 7", "FACTOR = 8")
    preview.wait_for("the output differs")  # shown with its drift, and the preview goes on
    assert "48" in preview.read()
    preview.wait_for_all_to_follow()
    assert preview.project.ran() == ["a"]


def test_a_difference_is_one_folded_line_which_shows_no_markup(preview):
    preview.project.edit("kernels/toy.py", "FACTOR = 7", "FACTOR = 8")
    preview.wait_for("the output differs")
    page = preview.read()
    folded = re.findall(
        r'<details class="kl-error kl-error--drift"><summary>(.*?)</summary>(.*?)</details>', page, re.S
    )
    assert [re.sub("<.*?>", "", summary) for summary, _ in folded] == [
        f"drift index.md:{line}: the output differs from the accepted one" for line in (5, 10)
    ]
    assert "-42\n+48" in folded[0][1] and "&lt;table" not in folded[1][1]
    assert "+<table><tr><td>48" in preview.said.read_text()  # who writes the page finds it there


EXERCISE = "lessons_src/exercises/sums.py"


@pytest.fixture
def with_exercise(project):
    """An exercise that is there when the preview starts."""
    project.write(EXERCISE, "ONE = 1\n")


@pytest.mark.usefixtures("with_exercise")
def test_a_saved_exercise_stops_no_run_and_pages_are_answered_meanwhile(preview):
    """The block runs once for the edit, though the exercise is saved twice while it does.

    It waits for the test, so a page that waited for the block would never be answered.
    """
    project, go = preview.project, preview.said.with_name("go")
    waits = f"import os, time\nwhile not os.path.exists({str(go)!r}):\n    time.sleep(0.02)\n"
    project.edit("docs/other.md", f"{marks('b')}\nprint(5)", f"{marks('c')}\n{waits}print(6)\n{marks('d')}")
    until(lambda: project.log.exists())
    for number in (2, 3):
        project.write(EXERCISE, f"ONE = {number}\n")
        assert "More words" in preview.read("other/") and "Old words" in preview.read()
        time.sleep(0.5)  # in which a run that a save stops is stopped; a machine that is slower tests less
    go.touch()
    preview.wait_for("<code>6", "other/")
    preview.wait_for_all_to_follow()
    assert project.ran() == ["c", "d"]


@pytest.mark.usefixtures("with_exercise")
def test_what_ran_while_its_exercise_was_saved_runs_again(preview):
    """The shell block stands on the exercise that it checks, and the first run has seen the old text.

    Each run waits until the test has done what comes before its end.
    """
    project = preview.project
    waits = f'read=$(cat {EXERCISE}); echo "$read"; echo -n "s " >> "$RAN_LOG"; '
    waits += 'until [ -e "$RAN_LOG after $read" ]; do sleep 0.05; done # lessons check sums'
    project.save("docs/other.md", f"# O\n\nMore words.\n\n{fence(waits, 's', 'bash')}")
    until(lambda: project.log.exists())
    project.write(EXERCISE, "ONE = 2\n")
    project.log.with_name(f"{project.log.name} after ONE = 1").touch()
    preview.wait_for("ONE = 1", "other/")
    project.log.with_name(f"{project.log.name} after ONE = 2").touch()
    preview.wait_for("ONE = 2", "other/")
    preview.wait_for_all_to_follow()
    assert project.ran().count("s") == 2


def test_a_failing_block_is_shown_on_its_page_and_the_others_go_on(preview):
    preview.project.edit("docs/index.md", "print(f())", "print(1 / 0)")
    preview.wait_for("ZeroDivisionError")
    assert "index.md:7" in preview.read()
    assert "index.md&quot;, line 7, in &lt;module&gt;" in preview.read()  # the traceback names the line of the Markdown
    preview.project.edit("docs/other.md", "More words", "Still here")
    preview.wait_for("Still here", "other/")
    preview.project.edit("docs/index.md", "print(1 / 0)", "print(f())")
    preview.wait_until_gone("ZeroDivisionError")
    preview.project.edit("docs/index.md", "# I", '# I\n\n```python exec="1" id="a"\n1\n```\n')  # the id twice
    preview.wait_for("is used on line 3 already")


def test_one_page_is_rendered_for_an_edit_of_one_page(book):
    book.project.edit("docs/index.md", "Old words", "New words")
    book.wait_for("New words")
    book.wait_for_all_to_follow()
    assert book.rendered() == ["index.md"]


def test_a_title_is_shown_on_its_page_first_and_then_in_the_navigation_of_all(book):
    book.project.edit("docs/index.md", "# Home", "# House")
    book.wait_for("House")
    book.wait_for("House", "two/")
    book.wait_for_all_to_follow()
    first, *others = book.rendered()
    assert first == "index.md" and sorted(others) == ["reads.md", "three.md", "two.md", "words.md"]
    assert "House" in book.read("three/") and "Home" not in book.read("three/")


def test_a_page_that_others_are_made_from_is_shown_first_and_they_follow(book):
    book.project.edit("docs/words.md", "A shared word.", "Another shared word.")
    book.wait_for("Another shared word", "words/")
    book.wait_for("Another shared word", "three/")
    book.wait_for_all_to_follow()
    assert book.rendered()[0] == "words.md"


def test_a_block_that_reads_another_page_runs_after_that_page_is_shown(book):
    book.project.edit("docs/two.md", "Second words", "Changed words")
    book.wait_for("Changed words", "two/")
    book.wait_for("Changed", "reads/")
    book.wait_for_all_to_follow()
    assert book.rendered() == ["two.md", "reads.md"]


def test_search_follows_two_pages_that_are_saved_at_once(book):
    book.project.edit("docs/index.md", "# Home", "---\nsearch: {exclude: true}\n---\n# Home")
    book.wait_for_all_to_follow()
    book.project.edit("docs/three.md", "Third words", "Zebras")
    book.project.edit("docs/two.md", "Second words", "Giraffes")
    book.wait_for("Giraffes", "search/search_index.json")
    index = json.loads(book.read("search/search_index.json"))["docs"]
    texts = {entry["location"]: entry["text"] for entry in index}
    assert len(texts) == len(index) and "" not in texts
    assert "Zebras" in texts["three/"] and "Giraffes" in texts["two/"] and "A shared word" in texts["words/"]
    assert not any("Third words" in text or "Second words" in text for text in texts.values())


def test_a_link_to_a_heading_that_is_gone_is_named_though_its_page_is_not_rendered(book):
    book.project.edit("docs/index.md", "## Part", "## Piece")
    book.wait_for("Piece")
    book.wait_for_all_to_follow()
    assert "'two.md' contains a link 'index.md#part', but the doc 'index.md' does not contain" in book.said.read_text()
    assert "two.md" not in book.rendered()


def test_a_template_is_shown_on_every_page(book):
    book.project.edit("theme/main.html", "%}", "%}{% block footer %}a new footer{% endblock %}")
    for page in ("", "two/", "words/"):
        book.wait_for("a new footer", page)


def test_a_new_page_and_one_that_is_gone(book):
    book.project.page("four", "# Four\n\nFourth words.\n")
    book.project.edit("mkdocs.yml", "two.md, three.md", "three.md, four.md")
    (book.project.root / "docs/two.md").unlink()
    book.wait_for("Fourth words", "four/")
    book.wait_for("Four", "three/")
    book.wait_for_all_to_follow()
    assert "Two" not in book.read("three/")
    assert "Second words" not in book.read("two/")
    assert "Second words" not in book.read("search/search_index.json")


def test_a_build_that_fails_leaves_what_is_shown(book):
    book.project.edit("docs/index.md", "Old words", "Broken words")
    book.wait_for_all_to_follow()
    assert "no such word" in book.said.read_text()
    assert "Old words" in book.read()
    book.project.edit("docs/two.md", "Second words", "Changed words")
    book.wait_for_all_to_follow()
    assert "Changed words" in book.read("two/") and "Old words" in book.read()  # one of the two still fails
    book.project.edit("docs/index.md", "Broken words", "New words")
    book.wait_for("New words")
    book.wait_for("Changed words", "two/")


def test_a_mistake_in_the_settings_is_said_in_a_sentence(project):
    project.page("index", "# I\n\nOld words.\n")
    started = Preview(project)
    try:
        started.wait_for("Old words")
        project.edit("mkdocs.yml", "site_name: Small", "site_name: [Small")
        until = time.monotonic() + 60
        while "An error ended the build" not in (said := started.said.read_text()) and time.monotonic() < until:
            time.sleep(0.02)
        assert 'mkdocs.yml", line 2, column 6' in said and "Traceback" not in said, said
        project.edit("mkdocs.yml", "site_name: [Small", "site_name: Small")
        project.edit("docs/index.md", "Old words", "New words")
        started.wait_for("New words")
    finally:
        started.end()


@pytest.mark.parametrize(
    ("error", "said"),
    [
        (OSError(errno.ENOSPC, "No space left on device", "/site/a"), "No space left on device: /site/a; make room"),
        (OSError(errno.EDQUOT, "Disk quota exceeded"), "Disk quota exceeded; make room"),
        (FileNotFoundError(errno.ENOENT, "No such file", "/hook.txt"), ""),  # nothing that was saved: a hook's own
        (ValueError("no such word"), ""),
    ],
)
def test_a_sentence_takes_the_place_of_a_traceback_only_where_it_says_all(error, said):
    why = _why(error)
    assert why.startswith(said) and bool(why) == bool(said)


@pytest.fixture
def keyboard(project):
    """A preview in a terminal of its own, and a function that presses a key in it."""
    pty = pytest.importorskip("pty", reason="this system has no pseudo-terminals to press keys in")
    project.page("index", f"# I\n\n{fence('print(1)', 'one')}")
    project.page("other", f"# O\n\n{fence('print(2)', 'two')}")
    assert project.lessons("accept").status == 0
    master, slave = pty.openpty()
    started = Preview(project, stdin=slave)
    try:
        started.wait_for("<code>1")
        started.wait_for_all_to_follow()
        yield started, lambda key: os.write(master, key.encode())
    finally:
        started.end()
        os.close(master)
        os.close(slave)


def test_it_says_what_ran_and_for_how_long(keyboard):
    preview, _ = keyboard
    preview.project.edit("docs/index.md", "print(1)", "import time; time.sleep(0.3); print(3)")
    preview.wait_for("the output differs")
    preview.wait_for_all_to_follow()
    said = preview.said.read_text()
    match = re.search(r"docs/index\.md: 1 block ran in (\S+) s: one (\S+) s", said)
    assert match and float(match[1]) == float(match[2]) >= 0.3
    assert "docs/other.md:" not in said


def test_a_key_accepts_what_is_shown_and_nothing_of_a_page_that_fails(keyboard):
    preview, press = keyboard
    before = preview.project.accepted()
    preview.project.edit("docs/index.md", "print(1)", "print(3)")
    preview.project.edit("docs/other.md", "print(2)", "print(1 / 0)")  # it fails, and nothing else is to be said of it
    preview.wait_for("the output differs")
    preview.wait_for("ZeroDivisionError", "other/")
    preview.wait_for_all_to_follow()
    press("x")
    press("a")
    pressed = 1

    def is_accepted() -> bool:
        nonlocal pressed
        if preview.said.read_text().count("press a again") == pressed:  # the system told of a save as late as that
            press("a")
            pressed += 1
        return preview.project.accepted().get("index/one.txt") == b"3\n"

    until(is_accepted, preview.said.read_text)
    preview.wait_until_gone("the output differs")
    after = preview.project.accepted()
    assert {name for name in after if after[name] != before.get(name)} == {"index/one.txt", "index/index.json"}
    assert "other.md is not accepted: one of its blocks fails" in preview.said.read_text()


def test_a_preview_that_is_told_to_end_leaves_nothing(project, tmp_path):
    project.page("index", "# I\n\nSome words.\n")
    (tmp_path / "temporary").mkdir()
    project.environment = functools.partial(project.environment, TMPDIR=str(tmp_path / "temporary"))
    started = Preview(project)
    try:
        started.wait_for("Some words")
        assert [each for each in (tmp_path / "temporary").iterdir() if each.name.startswith("mkdocs_")]
    finally:
        started.end()
    assert not list((tmp_path / "temporary").iterdir())


@pytest.mark.parametrize(
    ("host", "status"),
    [
        ("localhost:8000", 200),
        ("127.0.0.1", 200),
        ("[::1]:8000", 200),
        ("drafts.localhost", 200),
        ("evil.example:8000", 403),
        ("127.0.0.1.evil.example", 403),
        ("localhost.evil.example", 403),
        ("[::1", 403),
    ],
)
@pytest.mark.parametrize("listens", ["127.0.0.1", "localhost", "0.0.0.0"])
def test_only_who_asks_for_this_machine_reads_a_preview_for_it_alone(tmp_path, caplog, listens, host, status):
    """A website may say that its name leads to 127.0.0.1: its scripts could then read a visitor's drafts."""
    (tmp_path / "index.html").write_text("a draft")
    server = PreviewServer(lambda: None, listens, 0, str(tmp_path))
    answers = []
    environ = {"HTTP_HOST": host, "PATH_INFO": "/", "REQUEST_METHOD": "GET", "SERVER_PROTOCOL": "HTTP/1.1"}
    body = server.serve_request(environ, lambda line, headers, error=None: answers.append(line))
    server.server_close()
    alone = listens != "0.0.0.0"
    assert answers[0].startswith(str(status if alone else 200))
    assert (b"draft" in b"".join(body)) == (status == 200 or not alone)
    assert ("Everyone who reaches this machine" in caplog.text) != alone


@pytest.mark.parametrize(
    ("error", "says"),
    [
        (OSError(errno.EADDRINUSE, "Address already in use"), "cannot listen at here:80: Address already in use"),
        (OSError(errno.EACCES, "Permission denied"), "cannot listen at here:80: Permission denied"),
        (socket.gaierror(socket.EAI_NONAME, "Name or service not known"), "cannot listen at here:80: Name or service"),
        (
            OverflowError("bind(): port must be 0-65535."),
            "cannot listen at here:80: bind(): port must be 0-65535; choose",
        ),
        (OSError(errno.ENOSPC, "No space left on device"), "the preview ended: No space left on device"),
        (PermissionError(errno.EACCES, "Permission denied", "docs/a.md"), "ended: Permission denied: docs/a.md"),
    ],
)
def test_an_error_of_the_system_is_told_for_what_it_is(error, says):
    assert says in why_it_ended(error, "here:80")
