"""What Workshop A1 runs beside its exercise: laws and counterexamples, two tests of every wrong answer, moments."""

import random
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest

from kernels.exercises import library
from kernels.exercises.planted import planted
from kernels.exercises.run import Checker
from lessons_src.examples import laws, try_moments
from lessons_src.examples.two_tests import two_tests
from lessons_src.solutions import mergeable

ROOT = Path(__file__).resolve().parents[2]


def test_the_solution_keeps_all_laws_and_each_law_has_a_wrong_answer_that_breaks_it():
    assert not [name for name in laws.LAWS if laws.counterexample(name, mergeable) is not None]
    broken = {name for _, module in planted("mergeable") for name in laws.LAWS if laws.counterexample(name, module)}
    assert broken == set(laws.LAWS)


def test_a_counterexample_is_one_and_cannot_be_made_smaller():
    added = SimpleNamespace(**vars(mergeable))
    added.merge = lambda one, other: (max(one[0], other[0]), one[1] + other[1])
    parts = laws.counterexample("the pair of the whole", added)
    assert not laws.holds("the pair of the whole", added, parts) and sum(map(len, parts)) == 2
    assert all(laws.holds("the pair of the whole", added, each) for each in laws._smaller(parts))
    assert laws.counterexample("associative", added) is None  # sums that are added are associative


def test_an_answer_that_raises_breaks_a_law():
    def divides(one, other):
        return one[0] / 0, 0.0

    assert not laws.holds("commutative", SimpleNamespace(statistics=lambda a: (0.0, 1.0), merge=divides), ([], [], []))


def test_every_wrong_answer_fails_its_check_whatever_the_hurried_test_says():
    tested = two_tests("mergeable", lambda answer: True)
    wrong = [answer for answer in library.answers(library.find("mergeable")) if answer.wrong]
    assert [(each.name, each.check) for each in tested] == [(answer.name, answer.fails) for answer in wrong]
    assert not any(each.hurried for each in tested)
    some = two_tests("mergeable", lambda answer: answer.merge((0.0, 1.0), (5.0, 1.0))[1] < 1.5)
    assert [each.name for each in some if each.hurried] == [wrong[0].name]


def test_a_tree_that_drops_the_pair_left_over_hears_of_that_pair_and_not_of_rounding():
    files = library.find("mergeable")
    dropped = [answer for answer in library.answers(files) if answer.name == "the pair left over is dropped"]
    with Checker() as checker:
        verdict = checker.judge(files, library.text_of(files, *dropped))
    failure = verdict.first_failure.failure
    assert failure.sentence == "The tree of 3 pairs leaves out pair 2." and "no neighbour" in failure.cause
    assert "float32" not in failure.text and (failure.expected, failure.got) == ("[0, 1, 2]", "[0, 1]")


def test_a_hurried_test_that_refuses_the_solution_is_no_test():
    with pytest.raises(RuntimeError, match="refuses the solution"):
        two_tests("mergeable", lambda answer: False)


def test_moments_of_parts_in_every_grouping_are_those_of_the_whole():
    assert try_moments.complaint(try_moments.merge_moments, seed=7) == ""
    generator = random.Random(1)
    parts = [[generator.gauss(3.0, 2.0) for _ in range(size)] for size in (0, 5, 1, 0, 9)]
    a, b, c, d, e = (try_moments.moments(part) for part in parts)
    merge = try_moments.merge_moments
    for result in (merge(merge(a, b), merge(merge(c, d), e)), merge(a, merge(b, merge(c, merge(d, e))))):
        assert result == pytest.approx(try_moments.moments([value for part in parts for value in part]))


WRONG = {
    "division by zero": "count = one[0] + other[0]\n    step = other[1] - one[1]\n"
    "    return count, one[1] + step * other[0] / count, one[2] + other[2] + step**2 * one[0] * other[0] / count",
    "a variance of": "count = max(one[0] + other[0], 1)\n    mean = (one[1] * one[0] + other[1] * other[0]) / count\n"
    "    return one[0] + other[0], mean, one[2] + other[2]",
    "a mean of": "return one[0] + other[0], (one[1] + other[1]) / 2, one[2] + other[2]",
    "a count of": "return one[0], one[1], one[2]",
    "it returned None, and should return three numbers; is there no return?": "count = one[0] + other[0]",
    "it returned (0, 0.0), and should return three numbers\n": "return 0, 0.0",
}


@pytest.mark.parametrize("said", WRONG)
def test_the_command_says_what_is_wrong_with_a_file(said, tmp_path):
    file = tmp_path / "mine.py"
    file.write_text(f"def merge_moments(one, other):\n    {WRONG[said]}\n", encoding="utf-8")
    command = [sys.executable, "lessons_src/examples/try_moments.py"]
    done = subprocess.run([*command, str(file)], cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 1 and said in done.stdout, done
    assert subprocess.run(command, cwd=ROOT, capture_output=True, text=True).stdout.startswith("right")
    file.write_text("", encoding="utf-8")
    done = subprocess.run([*command, str(file)], cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 2 and "defines no merge_moments" in done.stderr
    file.unlink()
    done = subprocess.run([*command, str(file)], cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 2 and f"there is no file {file}" in done.stderr and "Traceback" not in done.stderr
