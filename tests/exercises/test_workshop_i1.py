"""What Workshop I1's checks say of the mistakes that readers make, and what its experiment sheet asks for."""

import math
import os
import re
import subprocess
import sys
from types import SimpleNamespace

import pytest

from kernels.exercises import library, worker
from kernels.exercises.expect import CheckFailed, seen
from kernels.exercises.needs import lacking
from kernels.exercises.run import Checker

FILES = library.find("strided_softmax")
needs_triton = pytest.mark.skipif(bool(lacking("triton")), reason="interprets Triton kernels")


@pytest.fixture(scope="module")
def checker():
    with Checker() as warm:
        yield warm


@pytest.fixture
def failure(checker):
    """The first failure of the solution with one text exchanged, as a reader gets it."""

    def of(old: str, new: str):
        text = FILES.solution.read_text(encoding="utf-8")
        assert text.count(old) == 1
        verdict = checker.judge(FILES, text.replace(old, new), brief=True)
        return verdict.first_failure.title, verdict.first_failure.failure

    return of


@needs_triton
@pytest.mark.parametrize(
    ("other", "said"), [("", "without other="), (", other=0.0", "takes part in the maximum and in the sum")]
)
def test_padding_is_named_where_padding_is_wrong(failure, other, said):
    title, found = failure(', other=float("-inf")', other)
    assert title == "contiguous rows" and "the 31 masked lanes count as scores" in found.cause and said in found.cause
    assert 'other=float("-inf")' in found.hint and "3 x 33" in found.given


@needs_triton
def test_a_program_for_each_row_hears_of_the_grid_and_not_of_the_mask(failure):
    title, found = failure("grid = (triton.cdiv(M, block_m),)", "grid = (M,)")
    assert title == "several rows in one program" and found.sentence.startswith("4 programs are launched for 4 rows")
    assert found.cause.startswith("The grid counts rows") and found.hint == "grid = (triton.cdiv(M, block_m),)"


def test_an_error_in_shares_addresses_shows_what_it_was_called_with_and_no_name_of_the_checks():
    answer = SimpleNamespace(shares_addresses=lambda sizes, strides: strides[0] // 0)
    seen.failure = None
    status, found = worker._ask(sharing(), answer, __file__, str(FILES.checks))
    assert status == "FAIL" and "ZeroDivisionError" in found.sentence
    assert found.given == "sizes = (2, 2), strides = (1, 1): the rows lie at 0 1 | 1 2"


def sharing():
    from lessons_src.checks.strided_softmax import EXERCISE

    (check,) = (each for each in EXERCISE.checks if each.title == "which outputs share addresses")
    return check


def right(sizes, strides):
    places = [i * strides[0] + j * strides[1] for i in range(sizes[0]) for j in range(sizes[1])]
    return len(set(places)) < len(places)


def thumb(sizes, strides):
    """The rule of thumb, and right on everything that is not two rows and two columns apart."""
    if 0 in sizes or 1 in sizes or 0 in strides:
        return right(sizes, strides)
    (small, many), (large, _) = sorted(zip(strides, sizes, strict=True))
    return large <= small * (many - 1)


@pytest.mark.parametrize(
    ("answer", "given", "expected"),
    [
        (lambda sizes, strides: 0 in strides, "sizes = (2, 2), strides = (1, 1): the rows lie at 0 1 | 1 2", "True"),
        (thumb, "sizes = (2, 3), strides = (3, 2): the rows lie at 0 2 4 | 3 5 7", "False"),
        (
            lambda sizes, strides: right(sizes, strides) and 0 not in strides,
            "sizes = (2, 2), strides = (0, 0): the rows lie at 0 0 | 0 0",
            "True",
        ),
        (
            lambda sizes, strides: 0 in strides or right(sizes, strides),
            "sizes = (1, 2), strides = (0, 1): the rows lie at 0 1",
            "False",
        ),
        (
            lambda sizes, strides: 0 in sizes or right(sizes, strides),
            "sizes = (0, 0), strides = (0, 0): there is no element",
            "False",
        ),
        (right, "", ""),
        (lambda sizes, strides: math.prod(sizes) > 1 and right(sizes, strides), "", ""),
    ],
)
def test_the_first_counterexample_is_the_plainest_there_is(answer, given, expected):
    seen.failure = None
    try:
        sharing().run(SimpleNamespace(shares_addresses=answer))
        assert not given
    except CheckFailed as error:
        assert (error.failure.given, error.failure.expected) == (given, expected)
    finally:
        seen.failure, seen.compared = None, 0


BEFORE = """
import os, sys
os.environ["TRITON_INTERPRET"] = "1"
import torch
from kernels.figures import data_table
from kernels.lessons.in_words import InWords
from lessons_src.examples.softmax_layouts import laid
from lessons_src.solutions import strided_softmax as solution
LAYOUTS = ("every second column", "transposed")
sys.stdout = InWords(sys.stdout)
"""
COLUMN, TRANSPOSED = "every second column", ["transposed", "1 12.5%", "2 25%", "4 50%", "8 100%"]


@needs_triton
@pytest.mark.parametrize(
    ("row", "table"),
    [
        (1, ["x, 64 × 64 in float32", COLUMN, *["1 50%", "2 50%", "4 50%", "8 50%"], *TRANSPOSED]),
        (4, ["x, 64 × 64 in float16", COLUMN, "8 25%", "16 12.5%", "transposed", "8 50%", "16 100%"]),
    ],
)
def test_a_row_of_the_experiment_sheet_can_be_done_as_it_is_written(row, table):
    page = (FILES.root / "docs/workshops/i1-strided-softmax.md").read_text(encoding="utf-8")
    (line,) = re.findall(rf"^\| {row}\. .*", page, re.MULTILINE)
    (change,) = re.findall("`(HEIGHTS.*?)`", line)
    drawn, counted = (
        re.search(rf'```python [^\n]*id="{name}"[^\n]*\n(.*?)\n```', page, re.DOTALL)[1]
        for name in ("one-row", "efficiency")
    )
    changed, count = re.subn("^HEIGHTS, DTYPE = .*", lambda found: f"{found[0]}\n{change}", drawn, flags=re.MULTILINE)
    assert count == 1
    program = BEFORE + changed.replace("print(request_figure", "(request_figure") + "\n" + counted
    command = [sys.executable, "-c", program]
    environment = {**os.environ, "PYTHONPATH": str(FILES.root)}
    done = subprocess.run(command, cwd=FILES.root, env=environment, capture_output=True, text=True, timeout=500)
    assert done.returncode == 0, done.stderr
    said = re.sub(r"^(\d+) rows? a program.* (\S+)$", r"\1 \2", done.stdout, flags=re.MULTILINE).splitlines()
    assert [each.removesuffix(", program 0") for each in said if not each.startswith("program ")] == table
