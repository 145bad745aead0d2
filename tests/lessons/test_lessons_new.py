"""`lessons new` writes files that pass the gate as they are, and nothing where it cannot."""

import ast
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from kernels.lessons import new, registered
from kernels.lessons.new import new_lesson, new_operator, write

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture
def small(tmp_path):
    """What `lessons new` reads of a project."""
    for path in ("mkdocs.yml", "docs/lessons/schedule.md", "kernels/ops/unmeasured.py"):
        (tmp_path / path).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(ROOT / path, tmp_path / path)
    for name in ("lessons/0-first.md", "lessons/11-where-to-go.md", "labs/1-add.md"):
        (tmp_path / "docs" / name).parent.mkdir(exist_ok=True)
        (tmp_path / "docs" / name).touch()
    return tmp_path


def files_of(folder):
    return {path.relative_to(folder).as_posix(): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def names_in(folder):
    """The operators of a project's unmeasured.py."""
    text = (folder / "kernels/ops/unmeasured.py").read_text()
    return ast.literal_eval(re.search(r"^NAMES = (\(.*?\))$", text, re.MULTILINE | re.DOTALL)[1])


def test_the_first_operator_without_measurements_is_in_a_tuple(small):
    place = small / "kernels/ops/unmeasured.py"
    place.write_text(re.sub(r"^NAMES = \(.*?\)$", "NAMES = ()", place.read_text(), flags=re.MULTILINE | re.DOTALL))
    write(small, new_operator(small, "triple"))
    assert names_in(small) == ("triple",)


@pytest.mark.parametrize("fails", range(9))
def test_where_one_file_cannot_be_written_none_is(small, monkeypatch, fails):
    before, folders = files_of(small), sorted(small.rglob("*"))
    start = new_operator(small, "triple")
    asked = []

    def write_whole(path, data, whole=new.write_whole):
        asked.append(path)
        if len(asked) == fails + 1:
            raise OSError("the disk is full")
        whole(path, data)

    monkeypatch.setattr(new, "write_whole", write_whole)
    with pytest.raises(OSError, match="the disk is full"):
        write(small, start)
    assert files_of(small) == before and sorted(small.rglob("*")) == folders
    assert len(start.files) >= 9


@pytest.mark.parametrize("count", [0, 1, 2, 8, 9, 20])
def test_a_name_is_added_to_a_list_as_the_formatter_lays_it_out(count):
    words = [f'"operator_{number}"' for number in range(count)]
    text = f'"""Doc."""\n\nNAMES = ({", ".join(words)}{"," * (count == 1)})\nOTHER = (1, 2)\n'
    added = registered.with_name(text, "last")
    assert registered.names(added) == (*registered.names(text), "last") and len(registered.names(text)) == count
    command = [sys.executable, "-m", "ruff", "format", "--line-length", "120", "-"]
    assert subprocess.run(command, input=added, capture_output=True, text=True, timeout=500).stdout == added


def test_a_file_without_a_list_registers_nothing():
    assert registered.names("NAME = ('add',)\n") == ()
    with pytest.raises(ValueError, match=r"no list NAMES = \(…\) that 'last' could be added to"):
        registered.with_name("NAME = ('add',)\n", "last")


def test_pages_are_numbered_and_named_one_after_the_other(small):
    for make, name, page in (
        (new_lesson, "squares", "lessons/12-squares.md"),
        (new_lesson, "row_sums", "lessons/13-row-sums.md"),
        (new_operator, "triple", "labs/2-triple.md"),
    ):
        start = make(small, name)
        write(small, start)
        assert start.page == page
    config = (small / "mkdocs.yml").read_text()
    assert "      - lessons/12-squares.md\n      - lessons/13-row-sums.md\n" in config
    assert names_in(small)[-1] == "triple"
    schedule = (small / "docs/lessons/schedule.md").read_text()
    assert "[Row sums](13-row-sums.md); [Triple](../labs/2-triple.md) |" in schedule
    assert "`lessons check row_sums`, `lessons check triton_triple` |" in schedule


@pytest.mark.parametrize("make", [new_lesson, new_operator])
@pytest.mark.parametrize("name", ["Squares", "9th", "two words", "while", "../up", ""])
def test_what_is_no_name_is_refused(small, make, name):
    before = files_of(small)
    with pytest.raises(ValueError, match="is no name; write a word of Python in small letters"):
        make(small, name)
    assert files_of(small) == before


@pytest.mark.parametrize("make", [new_lesson, new_operator])
@pytest.mark.parametrize("name", ["torch", "triton", "tl", "con", "nul", "com1"])
def test_a_name_that_hides_a_module_or_is_a_device_is_refused(small, make, name):
    before = files_of(small)
    with pytest.raises(ValueError, match=f"'{name}' is no name: "):
        make(small, name)
    assert files_of(small) == before


def test_a_page_whose_name_has_a_hyphen_is_not_made_twice(small):
    (small / "docs/labs/1-vector-add.md").touch()
    with pytest.raises(ValueError, match=r"docs/labs/1-vector-add\.md is there already"):
        new_operator(small, "vector_add")


@pytest.mark.parametrize(
    ("make", "path"),
    [
        (new_lesson, "lessons_src/exercises/squares.py"),
        (new_lesson, "docs/lessons/3-squares.md"),
        (new_operator, "kernels/ops/squares.py"),
        (new_operator, "lessons_src/checks/triton_squares.toml"),
    ],
)
def test_what_is_there_is_never_written_over(small, make, path):
    (small / path).parent.mkdir(parents=True, exist_ok=True)
    (small / path).write_text("mine")
    with pytest.raises(ValueError, match=f"{path} is there already; choose another name, or remove it"):
        make(small, "squares")


def test_the_starter_asks_and_the_solution_answers(small):
    files = new_lesson(small, "squares").files
    starter, solution = files["lessons_src/exercises/squares.py"], files["lessons_src/solutions/squares.py"]
    assert starter.count("raise NotImplementedError(") == 2 and "raise" not in solution
    assert "return -(-n // block)" in solution and "-(-n // block)" not in starter
    assert "#!" not in starter + solution and not any("@" in text for text in (starter, solution))


@pytest.mark.slow
@pytest.mark.timeout(900)  # half of it runs tests of its own
def test_both_pass_the_gate_at_once(tmp_path):
    listed = subprocess.run(["git", "ls-files", "-z"], cwd=ROOT, capture_output=True, text=True, check=False)
    if listed.returncode:
        pytest.skip("the project is copied by git's list of its files, and this is no checkout")
    copy = tmp_path / "copy"
    for name in filter(None, listed.stdout.split("\0")):
        if (ROOT / name).is_file():
            (copy / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(ROOT / name, copy / name)
    kept = {key: value for key, value in os.environ.items() if not key.startswith(("LESSONS_", "KERNEL_LESSONS_"))}

    def run(*arguments):
        command = [sys.executable, "-m", *arguments]
        environment = kept | {"PYTHONPATH": str(copy)}
        done = subprocess.run(command, cwd=copy, env=environment, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout

    lessons = ("kernels.lessons.command",)
    run(*lessons, "new", "lesson", "squares")
    run(*lessons, "new", "operator", "triple")
    pages = [path.relative_to(copy / "docs").as_posix() for path in (copy / "docs").glob("l*/*.md")]
    pages = [page for page in pages if page.endswith(("-squares.md", "-triple.md"))]
    assert len(pages) == 2
    assert "0 failed, 0 drifted; 0 faults" in run(*lessons, "verify", *pages)
    gate = "tests/exercises/test_exercise_gate.py"
    said = run("pytest", "-q", "-rs", gate, "-k", "squares or triton_triple")
    assert "2 passed" in said and "skipped" not in said
    run("pytest", "-q", "tests/pages/test_skeleton.py", "-k", "squares or triple")
    run("pytest", "-q", "tests/site/test_project_files.py", "-k", "navigation")
    run("pytest", "-q", "tests/ops/test_triple.py")
    run("pytest", "-q", "tests/ops/test_op.py", "-k", "registered or triple")
    if shutil.which("ruff") or (Path(sys.executable).parent / "ruff").exists():
        made = ["lessons_src", "kernels/ops/triple.py", "kernels/ops/unmeasured.py", "tests/ops/test_triple.py"]
        run("ruff", "check", *made)
        run("ruff", "format", "--check", *made)
