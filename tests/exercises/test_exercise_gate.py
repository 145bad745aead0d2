"""The mutant gate, exercise by exercise: what `lessons verify` proves of each of them."""

import pytest

from kernels.exercises import library
from kernels.exercises.gate import through
from kernels.exercises.run import Checker


@pytest.fixture(scope="module")
def checker():
    with Checker() as warm:
        yield warm


@pytest.mark.parametrize("name", library.exercises())
def test_an_exercise_passes_the_gate(name, checker):
    gated = through(library.find(name), checker)
    if gated.skipped:
        pytest.skip(gated.skipped)
    assert [str(fault) for fault in gated.faults] == []
    assert len(gated.answers) >= 8
