"""What a terminal shows while blocks run, and while none does."""

import io
import sys

from kernels.lessons.progress import showing


class Terminal(io.StringIO):
    """A standard error that is a terminal."""

    def isatty(self) -> bool:
        return True


def test_a_terminal_shows_a_bar_once_something_runs_and_what(monkeypatch):
    monkeypatch.setattr(sys, "stderr", Terminal())
    monkeypatch.setenv("TERM", "xterm")
    with showing():
        pass
    assert sys.stderr.getvalue().strip() == ""
    with showing() as tell:
        tell("page.md it", 1, 4)
        tell("page.md next", 2, 4)
    said = sys.stderr.getvalue()
    assert "1/4" in said and "page.md it" in said and "?" not in said.replace("\x1b[?25", "")
