"""A block as a program of its own: it does what the page did, where an earlier block raises on purpose as well."""

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
        [sys.executable, "-c", program], capture_output=True, text=True, encoding="utf-8", check=False, timeout=60
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
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False, timeout=60)
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
        done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=60)
        assert done.returncode == 0, done.stderr
        said.append(done.stdout)
    assert said == ["early b\n", "late b\n", "<b>as it is</b>\n"]
    assert ADDED[0] not in program_of(scan, blocks[2], mark="# here")
