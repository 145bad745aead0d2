"""A block as a program of its own: it does what the page did, where an earlier block raises on purpose as well."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from kernels.lessons.model import Block, PageScan, PageSource
from kernels.lessons.program import ADDED, program_of


def runs(tmp_path: Path, code: str, raises: str) -> tuple[str, str]:
    """The program of a block after `code`, and what it prints."""
    before, block = Block("before", 1, "python", code, raises=raises), Block("it", 9, "python", "print(repr(text))")
    program = program_of(PageScan(PageSource("page.md", tmp_path / "page.md", ""), [before, block]), block)
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, encoding="utf-8", check=False, timeout=500
    )
    assert done.returncode == 0, done.stderr
    return program, done.stdout


TEXT = '"""one\n  two\n"""'


@pytest.mark.parametrize(
    ("code", "raises", "printed"),
    [
        (
            "text = 'kept'\nif text:\n    1 / 0",
            "ZeroDivisionError",
            "'kept'\n",
        ),
        (
            f"text = {TEXT}\n1 / 0",
            "ZeroDivisionError",
            "'one\\n  two\\n'\n",
        ),
        (
            f"text = f{TEXT}\n1 / 0",
            "ArithmeticError",
            "'one\\n  two\\n'\n",
        ),
        ("text = 'kept'\nraise SystemExit('no')", "SystemExit", "'kept'\n"),
        ("text = 'kept'\nraise KeyboardInterrupt", "BaseException", "'kept'\n"),
        ("text = 'kept'\nclass Own(Exception): ...\nraise Own(3)", "Own", "'kept'\n"),
    ],
)
def test_an_earlier_block_is_gone_through_as_on_the_page(tmp_path, code, raises, printed):
    program, said = runs(tmp_path, code, raises)
    assert said == printed
    assert ("exec(" in program) is (TEXT in code)  # only where indenting would change what the block says


def test_an_earlier_block_that_is_no_python_does_not_break_the_program(tmp_path):
    scan = [
        Block("before", 1, "python", "def f(:\n    pass", raises="SyntaxError"),
        Block("it", 9, "python", "print(3)"),
    ]
    program = program_of(PageScan(PageSource("page.md", tmp_path / "page.md", ""), scan), scan[1])
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False, timeout=500)
    assert done.returncode == 0 and done.stdout == "3\n"


def test_a_program_prints_its_own_block_and_of_a_figure_the_words(tmp_path):
    table = "print('<table><tr><td>{}</td><td>b</td></tr></table>')"
    blocks = [
        Block("before", 1, "python", f"{table.format('early')}\nshown = sys = os = None", html=True),
        Block("drawn", 5, "python", table.format("late"), html=True),
        Block("it", 9, "python", "print('<b>as it is</b>')"),
    ]
    scan = PageScan(PageSource("page.md", tmp_path / "page.md", ""), blocks)
    said = []
    for block in blocks:
        command = [sys.executable, "-c", program_of(scan, block)]
        done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=500)
        assert done.returncode == 0, done.stderr
        said.append(done.stdout)
    assert said == ["early b\n", "late b\n", "<b>as it is</b>\n"]
    assert ADDED[0] not in program_of(scan, blocks[2], mark="# here")


ROOT = Path(__file__).resolve().parents[2]
SHELL = [
    Block("one", 1, "bash", 'echo "one" || true'),
    Block("two", 5, "bash", "false | cat >/dev/null\nmkdir -p build\necho made >build/thing || exit 1"),
    Block("three", 9, "bash", "cat build/thing\nexit 3"),
    Block("four", 13, "bash", "echo four"),
]


def copied(tmp_path: Path, block: Block, mark: str = "") -> str:
    return program_of(PageScan(PageSource("page.md", tmp_path / "page.md", ""), SHELL), block, mark)


def test_what_is_copied_for_a_terminal_leaves_it_open_and_its_options_alone(tmp_path):
    typed = "".join(copied(tmp_path, block) for block in SHELL)
    typed += 'false\necho "$- $(set -o | grep pipefail)" STILL-HERE\n'
    done = subprocess.run(
        ["bash", "--norc", "--noprofile"], input=typed, cwd=tmp_path, capture_output=True, text=True, timeout=500
    )
    last = done.stdout.strip().splitlines()[-1]
    assert last.endswith("STILL-HERE") and last.split()[2] == "off", done
    assert not set("eu") & set(last.split()[0]), last


def test_a_block_of_commands_is_copied_alone_but_for_what_it_builds_on(tmp_path):
    assert copied(tmp_path, SHELL[0]) == 'echo "one" || true\n'
    assert copied(tmp_path, SHELL[3]) == "echo four\n"
    (tmp_path / "fresh").mkdir()
    done = subprocess.run(
        ["bash", "-c", copied(tmp_path, SHELL[1])], cwd=tmp_path / "fresh", capture_output=True, text=True
    )
    assert done.returncode == 1, "an option of the page's shell is kept inside of the parentheses"
    third = copied(tmp_path, SHELL[2])
    assert "made" in third and "one" not in third  # both name build/thing
    for_a_file = copied(tmp_path, SHELL[3], mark="# here")
    assert for_a_file == "set -euo pipefail\necho four\n"


USES = "from lessons_src.examples.sums import __doc__ as said\nprint(len(said) > 3)"


@pytest.mark.parametrize("folder", ["project", "elsewhere"])
def test_a_program_finds_the_project_wherever_it_is_saved(tmp_path, folder):
    block = Block("it", 3, "python", USES)
    program = program_of(PageScan(PageSource("page.md", tmp_path / "page.md", ""), [block]), block)
    first = program.partition("\n")[0]
    assert first.startswith("# ") and "project's folder" in first and "source .venv/bin/activate" in first
    file = tmp_path / "x.py"
    file.write_text(program, encoding="utf-8")
    where = ROOT if folder == "project" else tmp_path
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    done = subprocess.run([sys.executable, str(file)], cwd=where, env=environment, capture_output=True, text=True)
    assert done.stdout == "True\n", done.stderr
    bare = subprocess.run(
        [sys.executable, "-S", str(file)], cwd=tmp_path, env=environment, capture_output=True, text=True
    )
    assert bare.returncode == 1 and bare.stderr.startswith("This Python does not know the project."), bare.stderr


def test_a_program_that_needs_nothing_of_the_project_is_left_short(tmp_path):
    block = Block("it", 3, "python", "print(3)")
    program = program_of(PageScan(PageSource("page.md", tmp_path / "page.md", ""), [block]), block)
    assert program.count("\n") == 2 and program.endswith("\nprint(3)\n")
