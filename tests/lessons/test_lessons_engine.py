"""An engine that is kept for days: what it knows of the project is as the project is now."""

import importlib.metadata
import os

import pytest

from kernels.lessons import machine
from kernels.lessons.engine import Engine
from kernels.lessons.look import Unchanged
from kernels.lessons.model import Block, PageScan, PageSource
from kernels.lessons.preview import stamps
from kernels.lessons.store import AcceptedPage


@pytest.fixture
def commits(monkeypatch):
    """The commit of the project, as a function that sets it."""
    now = [""]
    monkeypatch.setattr(machine, "commit", lambda root: now[0])
    return lambda commit: now.__setitem__(0, commit)


def test_an_output_has_the_commit_that_it_was_made_in_whenever_it_is_accepted(tmp_path, commits):
    source, block = PageSource("page.md", tmp_path / "docs/page.md", "text"), Block("it", 1, "python", "print(1)")
    commits("at the start")
    for now, made_in in (("when it ran", "when it ran"), ("when it was kept", "when it ran")):
        engine = Engine(tmp_path, lambda: None)
        engine.scan = lambda source: PageScan(source, [block])
        try:
            commits(now)
            shown = engine.bring_up_to_date([source]).pages["page.md"]
        finally:
            engine.close()
        assert shown.outcomes["it"].commit == made_in
    commits("when it was accepted")
    assert engine.accept_shown(shown) == (["page/it.txt", "page/index.json"], "")
    assert AcceptedPage(engine.accepted_folder, "page").get(block).commit == "when it ran"


def test_a_copy_of_a_tree_says_that_it_differs_from_its_commit(tmp_path, monkeypatch):
    monkeypatch.setenv("KERNELS_COMMIT", "0123456789abcdef")
    for dirty, told in ((None, "012345678"), ("", "012345678"), ("0", "012345678"), ("1", "012345678+")):
        monkeypatch.delenv("KERNELS_DIRTY", raising=False)
        if dirty is not None:
            monkeypatch.setenv("KERNELS_DIRTY", dirty)
        assert machine.commit(tmp_path) == told


@pytest.mark.parametrize("name", ["markdown", "markdown-exec", "pygments", "pymdown-extensions"])
def test_html_that_another_version_has_made_is_not_shown_again(tmp_path, monkeypatch, name):
    source, version = PageSource("page.md", tmp_path / "docs/page.md", "text"), importlib.metadata.version
    first = Engine(tmp_path, lambda: None)
    first.runs.note(source, "html", "<p>made by today's</p>")
    first.runs.save(source)
    assert Engine(tmp_path, lambda: None).runs.noted(source, "html") == "<p>made by today's</p>"
    monkeypatch.setattr(importlib.metadata, "version", lambda each: "99" if each == name else version(each))
    assert Engine(tmp_path, lambda: None).runs.noted(source, "html") is None


def test_links_to_folders_are_followed_once(tmp_path):
    (tmp_path / "kernels/data").mkdir(parents=True)
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "elsewhere/file.txt").write_text("1")
    try:
        (tmp_path / "kernels/data/up").symlink_to(tmp_path / "kernels", target_is_directory=True)
        (tmp_path / "kernels/there").symlink_to(tmp_path / "elsewhere", target_is_directory=True)
        (tmp_path / "elsewhere/back").symlink_to(tmp_path / "kernels/there", target_is_directory=True)
    except OSError:
        pytest.skip("this system makes no links")
    walked, scan = [], os.scandir
    unchanged = Unchanged(tmp_path)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(os, "scandir", lambda folder: walked.append(folder) or scan(folder))
        first = unchanged.look()
    assert len(walked) == 5  # the root, kernels, data, there, elsewhere
    assert unchanged.look() is first
    (tmp_path / "elsewhere/file.txt").write_text("22")
    assert unchanged.look() is not first


def test_a_file_of_the_theme_that_goes_while_it_is_looked_at_is_no_error(tmp_path, monkeypatch):
    for name in ("goes.html", "stays.html"):
        (tmp_path / name).write_text("1")
    is_file = type(tmp_path).is_file

    def gone_after(self) -> bool:
        found = is_file(self)
        if self.name == "goes.html":
            self.unlink(missing_ok=True)
        return found

    monkeypatch.setattr(type(tmp_path), "is_file", gone_after)
    assert [line.partition(" ")[0] for line in stamps(tmp_path)] == [str(tmp_path / "stays.html")]
