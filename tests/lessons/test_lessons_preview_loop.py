"""The loop of a live preview, with builds that are functions: what goes on, what begins again, what makes way."""

import logging
import threading

import pytest

from kernels.lessons.preview import Preview
from kernels.lessons.preview_loop import EditedFirst
from kernels.lessons.turns import Turn


class Loop(EditedFirst):
    """What a live reload server has, without a server. Each build is the next of `builds`; then it ends."""

    shutdown_delay, build_delay = 0.01, 0.0

    def __init__(self, *builds) -> None:
        self._rebuild_cond, self._epoch_cond = threading.Condition(), threading.Condition()
        self._want_rebuild, self._shutdown = True, False
        self._builds = list(builds)
        self.follow(Preview(), lambda: None)

    def builder(self) -> None:
        build = self._builds.pop(0)
        self._shutdown = not self._builds
        build(self)


def renamed(loop) -> None:
    loop._want_rebuild = True
    raise FileNotFoundError(2, "No such file or directory", "docs/old.md")


def broken(loop) -> None:
    raise FileNotFoundError(2, "No such file or directory", "docs/lost.md")


def test_a_page_that_is_renamed_while_it_is_built_is_no_error(caplog, capfd):
    loop = Loop(renamed, lambda loop: None)
    with caplog.at_level(logging.INFO):
        loop._build_again_and_again()
    assert "docs/old.md was gone before it was read" in caplog.text and "An error ended" not in caplog.text
    assert "Traceback" not in capfd.readouterr().err and loop._failures == 0 and loop._builds == []


def test_a_file_that_is_missing_though_nothing_was_saved_is_one(caplog, capfd):
    loop = Loop(broken)
    loop._build_again_and_again()
    assert "An error ended the build" in caplog.text and loop._failures == 1
    assert "docs/lost.md" in capfd.readouterr().err


@pytest.mark.parametrize("waited_for", [False, True])
def test_who_presses_the_key_waits_for_no_page_that_nobody_waits_for(waited_for):
    loop = Loop()
    loop._want_rebuild = False
    loop._preview.turns.now = Turn(frozenset(["a.md"]), waited_for=waited_for)
    assert not loop._preview.interrupted()
    loop.hear("a")
    assert loop._preview.interrupted() is not waited_for
