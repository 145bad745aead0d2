"""While an exercise is checked a terminal says so: an endless loop would else be silent until it is stopped."""

from __future__ import annotations

import io
import re
import time

import pytest
from rich.console import Console

from kernels.lessons import check_command
from kernels.lessons.check_command import Screen


@pytest.fixture
def told(monkeypatch):
    """`told(terminal, seconds)`: what standard error gets while somebody waits so long."""
    monkeypatch.setattr(check_command, "PATIENCE_S", 0.2)

    def tell(terminal: bool, seconds: float) -> str:
        screen, text = Screen(), io.StringIO()
        screen._err = Console(file=text, force_terminal=terminal, width=80)
        with screen.waiting("checking"):
            time.sleep(seconds)
        return text.getvalue()

    return tell


def test_a_terminal_is_told_after_a_while_and_the_line_goes(told):
    said = told(terminal=True, seconds=1.5)
    assert re.search(r"checking.*0:00:0[01]", said)
    assert said.endswith("\x1b[2K"), "the line is erased"


@pytest.mark.parametrize(("terminal", "seconds"), [(True, 0.0), (False, 0.6)])
def test_what_is_quick_and_what_is_no_terminal_is_told_nothing(told, terminal, seconds):
    assert told(terminal, seconds) == ""


def test_an_error_ends_the_line_as_well(told):
    screen, text = Screen(), io.StringIO()
    screen._err = Console(file=text, force_terminal=True, width=80)
    with pytest.raises(KeyboardInterrupt), screen.waiting("checking"):
        time.sleep(0.5)
        raise KeyboardInterrupt
    before = text.getvalue()
    time.sleep(0.5)
    assert "checking" in before and text.getvalue() == before
