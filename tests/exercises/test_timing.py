"""The time of an answer beside the solution."""

import subprocess
import sys

import pytest
from project import ASKS, make

from kernels.exercises import library, timing


@pytest.fixture
def found(tmp_path, monkeypatch):
    def known(**named):
        files = make(tmp_path, **named)
        monkeypatch.setattr(library, "find", lambda name: files)
        return files

    return known


def test_both_are_timed_in_turns_and_the_answer_is_left_alone(found, capsys):
    files = found(starter="    return -((-n) // 2)\n")
    before = files.starter.read_bytes()
    assert timing.main(["halves"]) == 0
    first, yours, theirs = capsys.readouterr().out.splitlines()
    assert first == "halves, plain Python:"
    assert yours.split()[0] == "yours" and theirs.split()[:2] == ["the", "solution"]
    assert all("µs, spread" in line for line in (yours, theirs))
    assert files.starter.read_bytes() == before


def test_the_slower_answer_takes_longer(found, capsys):
    found(starter="    return -(-n // 2) + 0 * sum(range(2000))\n")
    assert timing.main(["halves"]) == 0
    yours, theirs = (
        float(line.split("µs")[0].split()[-1].replace(",", "")) for line in capsys.readouterr().out.splitlines()[1:]
    )
    assert yours > 3 * theirs


def test_once_shows_what_the_work_gives(found, capsys):
    found(starter="    return n\n")
    assert timing.main(["halves", "--once"]) == 0
    assert capsys.readouterr().out == "0, 1, 2, 3, 4, 5, ... (100 in all)\n"


@pytest.mark.parametrize(
    ("starter", "said"),
    [
        (ASKS, "lessons_src/exercises/halves.py still asks: half: divide by 2, rounded up"),
        ("    return n / 0\n", "halves.py does not work yet (ZeroDivisionError: division by zero); lessons check"),
        ("    import asyncio\n    return asyncio.AbstractEventLoop().time()\n", "halves.py does not work yet (NotImpl"),
        ("    return (\n", "halves.py does not work yet (SyntaxError"),
    ],
)
def test_an_answer_that_does_not_work_has_a_sentence(found, capsys, starter, said):
    found(starter=starter)
    assert timing.main(["halves"]) == 2
    printed = capsys.readouterr()
    assert said in printed.err and printed.out == ""


def test_an_unknown_exercise_lists_the_known_ones(capsys):
    assert timing.main(["no_such_exercise"]) == 2
    assert "there is no exercise 'no_such_exercise'" in capsys.readouterr().err


def test_a_missing_package_is_named(found, capsys, monkeypatch):
    def absent(needs):
        raise ModuleNotFoundError("No module named 'torch'", name="torch")

    found()
    monkeypatch.setattr(timing, "device_for", absent)
    assert timing.main(["halves"]) == 3
    assert capsys.readouterr().err == "torch is not installed here, and halves needs it.\n"


WORK = """
import sys
from kernels.exercises import library, timing

files = library.find(sys.argv[1])
device = timing.device_for(library.described(files).needs)
print(timing.shown(timing.prepared(files, files.solution, device)()))
"""


@pytest.mark.parametrize("name", library.exercises())
def test_the_work_of_every_exercise_can_be_done(name):
    if library.described(library.find(name)).needs != "cpu":
        pytest.importorskip("triton")
    done = subprocess.run([sys.executable, "-c", WORK, name], capture_output=True, text=True, check=False)
    assert done.returncode == 0 and "," in done.stdout, done.stderr
