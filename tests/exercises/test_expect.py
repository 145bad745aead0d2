"""How a comparison that ends a check tells the two values apart."""

import pytest

from kernels.exercises import equal, expect
from kernels.exercises.expect import CheckFailed


@pytest.fixture(autouse=True)
def nothing_has_failed_yet(monkeypatch):
    monkeypatch.setattr(expect, "seen", expect.Seen())


def test_two_numbers_that_look_alike_are_shown_with_all_their_digits():
    with pytest.raises(CheckFailed) as caught:
        equal([1.0, 2048.0 + 2.0**-20], [1.0, 2048.0], given="sums")
    failure = caught.value.failure
    assert (failure.got, failure.expected) == ("2048.0000009536743", "2048.0")
    assert "is 2048.0000009536743, and should be 2048.0" in failure.sentence
    assert failure.drawing.rows[1:3] == (("expected", ("1", "2048.0")), ("got", ("1", "2048.0000009536743")))


def test_other_numbers_are_shown_short():
    with pytest.raises(CheckFailed) as caught:
        equal([0.1 + 0.2], [0.5])
    assert (caught.value.failure.got, caught.value.failure.expected) == ("0.3", "0.5")
