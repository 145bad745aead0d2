"""Live preview: a saved page is shown again at once, only what changed runs, a failing block is shown on its page."""

import socket
import statistics
import time
import urllib.request

import pytest
from lessons_project import Project, fence, marks

pytestmark = pytest.mark.slow


class Preview:
    """`lessons serve` on a free port."""

    def __init__(self, project: Project, *arguments: str) -> None:
        self.project = project
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            port = probe.getsockname()[1]
        self.address = f"http://127.0.0.1:{port}/"
        self.process = project.start("lessons", "serve", "--address", f"127.0.0.1:{port}", *arguments)

    def read(self, page: str = "") -> str:
        try:
            with urllib.request.urlopen(self.address + page, timeout=5) as answer:
                return answer.read().decode()
        except OSError:
            return ""

    def wait_for(self, words: str, page: str = "", limit_s: float = 20.0) -> float:
        """Seconds until the page holds the words."""
        began = time.perf_counter()
        while time.perf_counter() - began < limit_s:
            if words in self.read(page):
                return time.perf_counter() - began
            time.sleep(0.02)
        raise AssertionError(f"after {limit_s} s {page!r} does not hold {words!r}: {self.read(page)}")


@pytest.fixture
def preview(project: Project):
    project.write("kernels/toy.py", "FACTOR = 7\n\n\ndef f():\n    return 6 * FACTOR\n")
    code = marks("a") + "\nfrom kernels.toy import f; print(f())"
    project.page("index", f"# I\n\nOld words.\n\n{fence(code, 'a')}")
    project.page("other", f"# O\n\nMore words.\n\n{fence(marks('b') + chr(10) + 'print(5)', 'b')}")
    assert project.lessons("accept").status == 0
    project.ran()
    started = Preview(project)
    try:
        started.wait_for("Old words")
        yield started
    finally:
        started.process.kill()
        started.process.communicate()


def test_a_saved_paragraph_is_shown_at_once_and_no_block_runs(preview, record_property):
    preview.project.ran()
    times = []
    words = "Old words"
    for number in range(5):
        time.sleep(0.3)
        preview.project.edit("docs/index.md", words, f"New words {number}")
        words = f"New words {number}"
        times.append(preview.wait_for(words))
    record_property("median_s", statistics.median(times))
    assert statistics.median(times) < 3  # one second on a machine that does nothing else: scripts/engine_benchmark.py
    assert preview.project.ran() == []
    assert "More words" in preview.read("other/")


def test_a_save_while_the_page_is_being_built_is_shown_too(preview):
    """The page written last is then newer than its source, though it does not show it."""
    preview.project.edit("docs/index.md", "Old words", "Newer words")
    preview.project.edit("docs/other.md", "print(5)", "import time; time.sleep(2.5); print(5)")
    time.sleep(1.5)  # now the build has read the page and waits for the block
    preview.project.edit("docs/index.md", "Newer words", "Words saved meanwhile")
    preview.wait_for("Words saved meanwhile", limit_s=10)


def test_an_edit_of_an_operator_runs_only_what_imports_it(preview):
    preview.project.edit("kernels/toy.py", "FACTOR = 7", "FACTOR = 8")
    preview.wait_for("the output differs")  # shown with its drift, and the preview goes on
    assert "48" in preview.read()
    time.sleep(0.5)
    assert preview.project.ran() == ["a"]


def test_a_failing_block_is_shown_on_its_page_and_the_others_go_on(preview):
    preview.project.edit("docs/index.md", "print(f())", "print(1 / 0)")
    preview.wait_for("ZeroDivisionError")
    assert "index.md:7" in preview.read()
    preview.project.edit("docs/other.md", "More words", "Still here")
    preview.wait_for("Still here", "other/")
    preview.project.edit("docs/index.md", "print(1 / 0)", "print(f())")
    deadline = time.monotonic() + 10
    while "ZeroDivisionError" in preview.read() and time.monotonic() < deadline:
        time.sleep(0.1)
    assert "ZeroDivisionError" not in preview.read()
    preview.project.edit("docs/index.md", "# I", '# I\n\n```python exec="1" id="a"\n1\n```\n')  # the id twice
    preview.wait_for("is used on line 3 already")
