"""`lessons check --watch`: it checks at every save, however the editor saves, and ends with the last verdict."""

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from project import RIGHT, make, source

from kernels.exercises.watch import SETTLE_S, saves

ROOT = Path(__file__).resolve().parents[2]


def until(what) -> None:
    """Wait for it; the limit is against hanging."""
    deadline = time.monotonic() + 400
    while not what():
        assert time.monotonic() < deadline
        time.sleep(0.05)


class Clock:
    """Time that passes only when the watcher pauses; at a time, something happens."""

    def __init__(self, events):
        self.time, self.events = 0.0, sorted(events, key=lambda event: event[0])

    def now(self):
        return self.time

    def pause(self, seconds):
        self.time += seconds
        while self.events and self.events[0][0] <= self.time:
            self.events.pop(0)[1]()
        if self.time > 60:
            raise StopIteration


def seen(path, events):
    clock, texts = Clock(events), []
    try:
        for text in saves(path, pause=clock.pause, now=clock.now):
            texts.append((round(clock.time, 2), text))
    except RuntimeError:  # the clock's end
        pass
    return texts


def replace(path, text):
    other = path.with_name("other.tmp")
    other.write_text(text)
    other.replace(path)


def test_each_save_is_given_once_after_it_has_settled(tmp_path):
    path = tmp_path / "answer.py"
    path.write_text("one")
    texts = seen(path, [(5, lambda: path.write_text("two")), (20, lambda: path.write_text("two"))])
    assert [text for _, text in texts] == ["one", "two"]
    assert 5 + SETTLE_S <= texts[1][0] <= 6


def test_a_save_in_pieces_is_one_save(tmp_path):
    path = tmp_path / "answer.py"
    path.write_text("one")
    pieces = [(5 + 0.15 * i, lambda i=i: path.write_text("two"[:i])) for i in range(4)]
    assert [text for _, text in seen(path, pieces)] == ["one", "two"]


def test_an_editor_that_replaces_the_file_is_seen(tmp_path):
    path = tmp_path / "answer.py"
    path.write_text("one")
    assert [text for _, text in seen(path, [(5, lambda: replace(path, "two"))])] == ["one", "two"]


def test_a_short_absence_is_no_loss_and_a_long_one_is_told_once(tmp_path):
    path = tmp_path / "answer.py"
    path.write_text("one")
    assert [text for _, text in seen(path, [(5, path.unlink), (5.1, lambda: path.write_text("two"))])] == ["one", "two"]
    path.write_text("one")
    texts = [text for _, text in seen(path, [(5, path.unlink), (30, lambda: path.write_text("one"))])]
    assert texts == ["one", None, "one"]


@pytest.mark.skipif(os.name == "nt", reason="Ctrl-C is sent as a signal")
@pytest.mark.usefixtures("signals_are_heard")
def test_the_command_follows_saves_and_ends_with_the_last_verdict(tmp_path):
    files = make(tmp_path)
    environment = {**os.environ, "KERNEL_LESSONS_ROOT": str(tmp_path), "PYTHONPATH": str(ROOT), "PYTHONUNBUFFERED": "1"}
    command = [sys.executable, "-m", "kernels.lessons.command", "check", "halves", "--watch"]
    log = tmp_path / "log"
    with log.open("w") as out:
        process = subprocess.Popen(command, env=environment, stdout=out, stderr=subprocess.STDOUT, cwd=ROOT)
    try:
        steps = [
            (lambda: None, "TODO  halves"),
            (lambda: files.starter.write_text(source("    return n // 2\n")), "FAIL  halves"),
            (lambda: files.starter.unlink(), "waiting for it"),
            (lambda: replace(files.starter, source(RIGHT)), "PASS  halves"),
        ]
        for act, expected in steps:
            act()
            until(lambda expected=expected: expected in log.read_text())
        until(lambda: log.read_text().count("Ctrl-C ends") >= 3)
        process.send_signal(signal.SIGINT)
        assert process.wait(400) == 0
    finally:
        process.kill()
    assert "Traceback" not in log.read_text()


def test_a_byte_order_mark_is_no_part_of_the_text(tmp_path):
    from kernels.exercises.watch import read

    file = tmp_path / "answer.py"
    file.write_bytes(b"\xef\xbb\xbfn = 1\r\n")
    assert read(file) == "n = 1\n"


def test_half_characters_and_escapes_are_shown_as_question_marks(capsys):
    from kernels.lessons.check_command import Screen

    Screen().lines([[("a\ud800b\x1b[2Jc [bold]", "")]])
    assert capsys.readouterr().out == "a?b?[2Jc [bold]\n"
