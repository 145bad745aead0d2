"""A page's shell block that checks an exercise is run again when the exercise, or what judges it, has changed."""

import pytest
from project import make

from kernels.lessons.look import Look
from kernels.lessons.model import Block, Output, PageScan, PageSource
from kernels.lessons.reach import Reach


def code_hash(root, code):
    block = Block("it", 1, "bash", code)
    scan = PageScan(PageSource("page.md", root / "docs/page.md", ""), [block])
    return Reach(scan, Look(root)).of_block(block, Output())


@pytest.mark.parametrize("which", ["starter", "solution", "checks", "answers"])
def test_each_file_of_the_exercise_counts(tmp_path, which):
    files = make(tmp_path, answers="# none\n")
    code = 'lessons check halves --wrong "floor division"'
    before, reached = code_hash(tmp_path, code)
    assert "file lessons_src/checks/halves.toml" in reached
    path = getattr(files, which)
    path.write_text(path.read_text() + ("\n# more\n" if which == "answers" else "\nmore = 1\n"), encoding="utf-8")
    assert code_hash(tmp_path, code)[0] != before
    assert code_hash(tmp_path, "echo halves")[0] == code_hash(tmp_path, "echo halves")[0]


def test_what_judges_and_shows_counts():
    from kernels.sources import project_root

    _, reached = code_hash(project_root(), "lessons check grid_stride_add --solution")
    assert {"kernels.exercises.worker:look", "kernels.exercises.show:verdict_lines"} <= reached.keys()
    assert "kernels.exercises.traced:traced" in reached
