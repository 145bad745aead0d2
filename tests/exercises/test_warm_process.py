"""The process that runs the checks may die or hang: who asks gets a sentence, and the next question an answer."""

import pytest
from project import RIGHT, source

from kernels.exercises import run
from kernels.exercises.model import PASS, UNAVAILABLE
from kernels.exercises.run import BrokenChecks, Checker


def test_a_process_that_died_before_it_was_asked_is_told_and_replaced(files, monkeypatch):
    with Checker() as checker:
        assert checker.judge(files, source(RIGHT)).kind == PASS
        process = checker._warm["cpu"]
        process.kill()
        process.wait()
        with monkeypatch.context() as patched:  # it looked alive, and was dead when it was written to
            patched.setattr(checker, "_process", lambda needs, root: process)
            with pytest.raises(BrokenChecks, match=r"ended with status -?9; ask again"):
                checker.judge(files, source(RIGHT))
        assert process.stdout.closed
        assert checker.judge(files, source(RIGHT)).kind == PASS


def test_a_process_that_died_between_two_questions_is_replaced_without_a_word(files):
    with Checker() as checker:
        assert checker.judge(files, source(RIGHT)).kind == PASS
        process = checker._warm["cpu"]
        process.kill()
        process.wait()
        assert checker.judge(files, source(RIGHT)).kind == PASS
        assert process.stdout.closed


def test_a_process_that_never_gets_ready_is_given_up(files, monkeypatch):
    monkeypatch.setattr(run, "START_S", 0.001)
    with Checker() as checker:
        verdict = checker.judge(files, source(RIGHT))
    assert verdict.kind == UNAVAILABLE and "did not answer within 0.001 s" in verdict.sentence
