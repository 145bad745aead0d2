"""Whatever happens to the files of a build, the next build is right and nothing accepted is lost."""

import os
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from lessons_project import LIMIT_S, Project, fence, marks

from kernels.lessons.model import Block, Output, PageSource
from kernels.lessons.staging import Staging
from kernels.lessons.store import AcceptedPage, RunStore


@pytest.fixture
def built(project: Project) -> Project:
    project.page("index", f"# I\n\n{fence(marks('a') + chr(10) + 'print(6 * 7)', 'a')}\nIt is `#!value 6 * 7`.\n")
    project.page("other", f"# O\n\n{fence(marks('b') + chr(10) + 'print(8 * 7)', 'b')}\n")
    assert project.lessons("accept").status == 0
    assert project.build("--strict").status == 0
    assert project.ran() == ["a", "b"]
    return project


def run_files(project: Project) -> list[Path]:
    return sorted((project.root / ".lessons").rglob("*.json"))


def spoil(project: Project, how: str) -> None:
    if how == "gone":
        shutil.rmtree(project.root / ".lessons")
    elif how == "a file in its place":  # as little writable as a read-only folder, for root too
        shutil.rmtree(project.root / ".lessons")
        project.write(".lessons", "x")
    for file in run_files(project) if how not in ("gone", "a file in its place") else []:
        data = file.read_bytes()
        changed = {"truncated": data[: len(data) // 2], "empty": b"", "binary": os.urandom(200)}
        changed["altered"] = data.replace(b"42", b"43").replace(b"56", b"57")
        file.write_bytes(changed[how])


@pytest.mark.parametrize("how", ["truncated", "empty", "binary", "altered", "gone", "a file in its place"])
@pytest.mark.parametrize("edited", [False, True])
def test_a_spoiled_run_store_costs_only_time(built, how, edited):
    if edited:  # its outputs then come from the run store, not from what is accepted
        built.edit("docs/index.md", "print(6 * 7)", "print(7 * 6)")
        assert built.build("--strict").status == 0
        built.ran()
    before = built.accepted()
    spoil(built, how)
    done = built.build("--strict")
    assert done.status == 0, done.text
    assert "42" in built.html() and "56" in built.html("other")
    assert built.ran() == (["a"] if edited else [])
    assert built.accepted() == before


@pytest.mark.parametrize(
    ("spoiled", "words"),
    [
        (lambda text: text[: len(text) // 2], "JSONDecodeError"),
        (lambda text: "", "JSONDecodeError"),
        (lambda text: "[1, 2]", "TypeError"),
        (lambda text: text.replace('"format": 2', '"format": 99'), "its format is 99"),
        (lambda text: text.replace('"file":', '"fil":'), "KeyError: 'file'"),
        (lambda text: text.replace('"modules": "",', '"modules": 3,'), "modules of block a is 3"),
        (lambda text: text.replace('"label": "', '"label": "\udcff'), "UnicodeDecodeError"),
    ],
)
def test_a_spoiled_index_is_a_sentence_and_is_not_overwritten(built, spoiled, words):
    path = built.root / "lessons_src/outputs/index/index.json"
    path.write_bytes(spoiled(path.read_text()).encode("utf-8", "surrogateescape"))
    before = built.accepted()
    for command in (("verify", "index.md"), ("verify", "index.md", "--frozen"), ("accept",), ("build", "--no-strict")):
        done = built.lessons(*command)
        assert done.status == 1, (command, done.text)
        assert "docs/index.md:1: store: lessons_src/outputs/index/index.json cannot be read" in done.text
        assert words in done.text and "Traceback" not in done.text and "restore it from git" in done.text
    assert built.accepted() == before


@pytest.mark.parametrize("name", ["index/a.txt", "index/inline.txt"])
def test_a_lost_or_binary_output_is_edited_not_a_crash(built, name):
    path = built.root / "lessons_src/outputs" / name
    path.write_bytes(b"\xff\xfe")
    assert "not text" in built.lessons("verify", "--frozen").text
    path.unlink()
    done = built.lessons("verify", "--frozen")
    assert done.status == 1 and "edited" in done.text and f"{name} is gone" in done.text
    assert built.lessons("accept", "index.md").status == 0 and path.exists()


def test_two_builds_at_once_both_end_well(built):
    built.edit("docs/index.md", "print(6 * 7)", "import time; time.sleep(0.3); print(7 * 6)")
    running = [built.start("mkdocs", "build", "--strict") for _ in range(2)]
    ended = [(process.communicate(timeout=LIMIT_S)[0].decode(), process.returncode) for process in running]
    assert [status for _, status in ended] == [0, 0], ended
    assert "42" in built.html() and "56" in built.html("other")
    assert built.build("--strict").status == 0
    assert not list(built.root.glob(".site-*"))


def test_many_change_overs_at_once_leave_one_whole_site(tmp_path):
    """The two renames of a change-over are one step to other builds."""
    code = """
import sys
from pathlib import Path
from kernels.lessons.staging import Staging
for number in range(40):
    staging = Staging(Path(sys.argv[1]))
    for name in ("one", "two"):
        (staging.folder / name).write_text(f"{sys.argv[2]} {number}")
    staging.publish()
"""
    site = tmp_path / "site"
    running = [subprocess.Popen([sys.executable, "-c", code, str(site), str(n)]) for n in range(3)]
    assert [process.wait(LIMIT_S) for process in running] == [0, 0, 0]
    assert (site / "one").read_text() == (site / "two").read_text()
    assert [path.name for path in tmp_path.iterdir()] == ["site"]


@pytest.mark.slow
def test_a_build_killed_at_any_moment_leaves_the_next_one_right(built):
    before = built.accepted()
    for moment in (0.05, 0.3, 0.45, 0.6, 0.8, 1.1):
        built.edit("docs/index.md", built.read("docs/index.md").split("```")[1], _sleeping(moment))
        process = built.start("mkdocs", "build")
        time.sleep(moment)
        process.send_signal(signal.SIGKILL)
        process.communicate()
        there = "site" if (built.root / "site").exists() else ".site-old"  # killed between the two renames
        assert "56" in built.read(f"{there}/other/index.html")  # the site of before, or the new one: whole
        assert built.accepted() == before
    done = built.build("--strict")
    assert done.status == 0, done.text
    assert "42" in built.html()
    assert not list(built.root.glob(".site-*"))


def _sleeping(moment: float) -> str:
    return f'python exec="1" id="a"\nimport time; time.sleep(0.2)  # {moment}\nprint(42)\n'


def test_an_interrupted_change_over_is_undone(built):
    site, old = built.root / "site", built.root / ".site-old"
    site.rename(old)  # killed between the two renames
    left = built.root / ".site-999999999-abcd"
    left.mkdir()
    built.edit("docs/index.md", "print(6 * 7)", "raise ValueError")
    assert built.build().status == 1  # so only the clearing up can have put it back
    assert "42" in built.html() and not old.exists() and not left.exists()
    shutil.copytree(site, old)  # killed after the second rename
    assert built.build().status == 1
    assert "42" in built.html() and not old.exists()


def test_a_staging_of_a_running_build_is_left_alone(tmp_path):
    mine = Staging(tmp_path / "site")
    other = Staging(tmp_path / "site")
    assert mine.folder.exists()
    other.publish()
    mine.publish()
    assert not list(tmp_path.glob(".site-*"))


def test_runs_of_another_engine_are_not_trusted(tmp_path):
    page = PageSource("a/b.md", tmp_path / "b.md", "")
    store = RunStore(tmp_path, "one")
    store.add(page, "block", {"code": "1", "environment_hash": "2", "output": {"text": "\ud800"}})
    store.save(page)
    assert RunStore(tmp_path, "one").candidates(page, "block")
    assert RunStore(tmp_path, "two").candidates(page, "block") == []


def test_an_unchanged_entry_keeps_commit_machine_and_file_times(tmp_path):
    block = Block("a", 1, "python", "x", needs=("gpu",))
    made = {"code": "c", "reached": {"m:f": "1"}, "environment": {"gpu": "H200"}, "label": "H200", "commit": "aaa"}
    page = AcceptedPage(tmp_path, "p")
    assert page.write({"a": (block, Output("text"), made)}, {}, {}, set()) == ["p/a.txt", "p/index.json"]
    times = {file: file.stat().st_mtime_ns for file in (tmp_path / "p").iterdir()}
    later = made | {"label": "H100", "commit": "bbb", "environment": {"gpu": "H100"}}
    page = AcceptedPage(tmp_path, "p")
    assert page.write({"a": (block, Output("text"), later)}, {}, {}, set()) == []
    assert {file: file.stat().st_mtime_ns for file in (tmp_path / "p").iterdir()} == times
    assert AcceptedPage(tmp_path, "p").get(block).commit == "aaa"
    assert page.write({"a": (block, Output("other"), later)}, {}, {}, set()) == ["p/a.txt", "p/index.json"]
    assert AcceptedPage(tmp_path, "p").get(block).commit == "bbb"


def test_a_commit_with_changes_on_top_gives_way_to_one_without(tmp_path):
    block = Block("a", 1, "python", "x")
    made = {"code": "c", "reached": {"m:f": "1"}, "environment": {}, "label": "CPU", "commit": "aaa+"}

    def accepted_at(commit):
        AcceptedPage(tmp_path, "p").write({"a": (block, Output("text"), made | {"commit": commit})}, {}, {}, set())
        return AcceptedPage(tmp_path, "p").get(block).commit

    told = [accepted_at(commit) for commit in ("aaa+", "bbb+", "ccc", "ddd", "eee+")]
    assert told == ["aaa+", "aaa+", "ccc", "ccc", "ccc"]
