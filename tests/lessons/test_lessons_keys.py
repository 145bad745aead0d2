"""Keys of a live preview: heard in the terminal's foreground, and never forgotten without a word."""

import os
import signal
import sys
import threading

import pytest
from lessons_project import LIMIT_S, until

from kernels.lessons import preview_loop
from kernels.lessons.preview_loop import EditedFirst

pty = pytest.importorskip("pty", reason="this system has no pseudo-terminals to press keys in")


def in_a_terminal(background: bool) -> str:
    """What `heard` gives in a process of a terminal's own session; "stopped" where the system stopped it."""
    answer, told = os.pipe()
    child, master = pty.fork()
    if child == 0:  # leads the session of its terminal
        worker = os.fork()
        if worker == 0:
            try:
                os.setpgid(0, 0)
                if not background:
                    signal.signal(signal.SIGTTOU, signal.SIG_IGN)
                    os.tcsetpgrp(0, os.getpgrp())
                    signal.signal(signal.SIGTTOU, signal.SIG_DFL)
                from kernels.lessons.keys import heard

                sys.stdin = os.fdopen(0)
                with heard(lambda key: None) as keys:
                    said = f"keys: {keys}"
                os.write(told, said.encode())
            finally:
                os._exit(0)  # whatever happens: this is a copy of the process that runs the tests
        _, status = os.waitpid(worker, os.WUNTRACED)
        if os.WIFSTOPPED(status):
            os.kill(worker, signal.SIGKILL)
            os.write(told, b"stopped")
        os._exit(0)
    os.close(told)
    try:
        return os.read(answer, 100).decode()
    finally:
        os.close(answer)
        os.close(master)
        os.waitpid(child, 0)


def test_a_preview_in_the_background_is_not_stopped_for_its_keys():
    assert in_a_terminal(background=False) == "keys: True"
    assert in_a_terminal(background=True) == "keys: False"


def test_without_an_input_there_are_no_keys(monkeypatch):
    from kernels.lessons.keys import heard

    monkeypatch.setattr(sys, "stdin", None)
    with heard(lambda key: None) as keys:
        assert keys is False


class _Server(EditedFirst):
    """What a live reload server has of the loop, with builds that only count."""

    def __init__(self) -> None:
        self._rebuild_cond, self._epoch_cond = threading.Condition(), threading.Condition()
        self._want_rebuild = self._shutdown = False
        self._wanted_epoch = self._visible_epoch = 0
        self.build_delay, self.shutdown_delay = 0.01, 0.05
        self.did: list[str] = []

    def builder(self) -> None:
        self.did.append("built")


@pytest.mark.parametrize(("saved", "did", "said"), [(False, ["accepted"], []), (True, ["built"], ["press a again"])])
def test_a_key_pressed_while_a_file_is_saved_is_answered(monkeypatch, saved, did, said):
    told = []
    monkeypatch.setattr(preview_loop.log, "info", lambda text, *rest: told.append(text))
    server = _Server()
    server._accept = lambda: server.did.append("accepted")
    server._want_rebuild, server._asked_to_accept = saved, True
    thread = threading.Thread(target=server._build_again_and_again)
    thread.start()
    until(lambda: server.did)
    server._shutdown = True
    thread.join(LIMIT_S)
    assert server.did == did
    assert [words for words in ("press a again",) if any(words in text for text in told)] == said
