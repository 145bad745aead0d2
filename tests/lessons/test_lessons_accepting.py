"""What is accepted by several processes at once, or from a live preview, is whole and loses nothing."""

import os
import subprocess
import sys
import threading
from pathlib import Path

import pytest
from lessons_project import LIMIT_S, Project, fence

from kernels.lessons import store
from kernels.lessons.engine import Engine
from kernels.lessons.mkdocs_plugin import open_project
from kernels.lessons.model import Block, Output, PageScan, PageSource
from kernels.lessons.store import AcceptedPage


def entry(name: str, text: str) -> dict:
    made = {"code": "c", "label": "here", "commit": "", "environment": {"python": "3"}, "reached": {f"m:{name}": "1"}}
    return {name: (Block(name, 1, "python", ""), Output(text), made)}


def accepted(folder: Path, name: str):
    return AcceptedPage(folder, "page").get(Block(name, 1, "python", ""))


def test_two_accepts_of_one_page_keep_each_others_blocks(tmp_path):
    AcceptedPage(tmp_path, "page").write(entry("old", "0") | entry("gone", "0"), {"1 + 1": "2"}, _of_inline(), set())
    first, second = AcceptedPage(tmp_path, "page"), AcceptedPage(tmp_path, "page")
    first.write(entry("a", "1") | entry("old", "1"), {"1 + 1": "3"}, _of_inline(), {"old"})
    second.write(entry("b", "2"), None, {}, {"old"})
    for name, text in (("a", "1"), ("b", "2"), ("old", "1")):
        found = accepted(tmp_path, name)
        assert found.output.text == text and found.edited == "" and found.reached == {f"m:{name}": "1"}
    assert accepted(tmp_path, "gone") is None and not (tmp_path / "page/gone.txt").exists()
    values, edited, _ = AcceptedPage(tmp_path, "page").inline()
    assert values == {"1 + 1": "3"} and edited == ""


def _of_inline() -> dict:
    return {"code": "c", "modules": [], "data": [], "environment": "e"}


def test_many_accepts_at_once_lose_none(tmp_path):
    code = """
import sys
from pathlib import Path
sys.path.insert(0, sys.argv[3])
from test_lessons_accepting import entry
from kernels.lessons.store import AcceptedPage
for number in range(12):
    page = AcceptedPage(Path(sys.argv[1]), "page")
    page.write(entry(f"b{sys.argv[2]}-{number}", "x"), None, {}, set(page.ids()))
"""
    command = [sys.executable, "-c", code, tmp_path]
    running = [subprocess.Popen([*command, str(each), Path(__file__).parent]) for each in range(3)]
    assert [process.wait(LIMIT_S) for process in running] == [0, 0, 0]
    page = AcceptedPage(tmp_path, "page")
    names = [f"b{each}-{number}" for each in range(3) for number in range(12)]
    assert page.ids() == sorted(names)
    assert [accepted(tmp_path, name).edited for name in names] == [""] * 36


def test_an_accept_of_one_block_leaves_edited_inline_values_told(project: Project):
    project.page("index", "# P\n\n" + fence("print(1)", "a") + "It is `#!value 1 + 1`.\n")
    assert project.lessons("accept").status == 0
    project.edit("lessons_src/outputs/index/inline.txt", "=> 2", "=> 3")
    project.edit("docs/index.md", "print(1)", "print(2)")
    assert project.lessons("accept", "index.md#a").status == 0
    done = project.lessons("verify", "--frozen")
    assert done.status == 1 and "inline.txt is not what was accepted" in done.text


@pytest.mark.parametrize("edit", [("print(1)", "print(2)"), ("#!value 1 + 1", "#!value 1 + 2")])
def test_inline_values_that_a_preview_shows_are_accepted_with_what_made_them(project: Project, edit, monkeypatch):
    project.page("index", "# P\n\n" + fence("print(1)", "a") + "It is `#!value 1 + 1`.\n")
    assert project.lessons("accept").status == 0
    project.edit("docs/index.md", *edit)
    monkeypatch.chdir(project.root)
    engine, sources, _ = open_project("mkdocs.yml")
    try:
        shown = engine.bring_up_to_date(sources).pages["index.md"]
        written, refusal = engine.accept_shown(shown)
    finally:
        engine.close()
    assert written and refusal == ""
    assert project.lessons("verify").status == 0
    assert project.lessons("verify", "--frozen").status == 0


@pytest.mark.skipif(os.name == "nt", reason="Windows has no locks on folders")
def test_a_preview_does_not_read_between_an_output_and_what_is_said_of_it(tmp_path, monkeypatch):
    engine = Engine(tmp_path, lambda: None)
    source = PageSource("page.md", tmp_path / "docs/page.md", "text")
    engine.scan = lambda source: PageScan(source, [Block("a", 1, "python", "print(1)")])
    half, read, put = threading.Event(), threading.Event(), store.write_whole

    def slowly(path: Path, text: str, **named) -> None:
        if path.name == "index.json" and half.is_set():
            read.wait(1)  # the preview has all the time that it needs
        put(path, text, **named)
        half.set()

    page = AcceptedPage(engine.accepted_folder, "page")
    page.write(entry("a", "0"), None, {}, set())
    half.clear()
    monkeypatch.setattr(store, "write_whole", slowly)
    writer = threading.Thread(target=page.write, args=(entry("a", "1"), None, {}, set()))
    writer.start()
    assert half.wait(LIMIT_S)
    try:
        faults = engine.bring_up_to_date([source]).faults()
    finally:
        read.set()
        writer.join()
        engine.close()
    assert [fault for fault in faults if fault.kind == "edited"] == []


def test_an_accept_leaves_what_is_not_its_own(tmp_path):
    page = AcceptedPage(tmp_path, "page")
    page.write(entry("a", "1") | entry("b", "1"), None, {}, set())
    for name, age_s in ((".DS_Store", 9999), (".a.txt.writes.tmp", 5), (".a.txt.killed.tmp", 9999)):
        file = tmp_path / "page" / name
        file.write_text("not an output")
        os.utime(file, (file.stat().st_mtime - age_s,) * 2)
    said = page.write(entry("a", "2"), None, {}, set())
    assert said == ["page/a.txt", "page/index.json", "page/b.txt (removed: its block is gone)"]
    left = {path.name for path in (tmp_path / "page").iterdir()}
    assert left == {"a.txt", "index.json", ".DS_Store", ".a.txt.writes.tmp"}
