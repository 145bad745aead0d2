"""Processes beside each other: one has a folder at a time, and who is gone or asked to end leaves nothing behind."""

import os
import signal
import subprocess
import sys
import tempfile
import threading
from pathlib import Path

import pytest
from lessons_project import LIMIT_S

from kernels.lessons import locks
from kernels.lessons.locks import ended_by_signals, is_alive, locked
from kernels.lessons.staging import Staging

HOLD = """
import sys, time
from pathlib import Path
from kernels.lessons.locks import locked
with locked(Path(sys.argv[1]), shared=sys.argv[2] == "shared"):
    print("has it", flush=True)
    time.sleep(1000)
"""
needs_locks = pytest.mark.skipif(os.name == "nt", reason="Windows has no such locks")


@pytest.fixture
def holder(tmp_path):
    """Start a process that has `tmp_path` until it is killed."""
    started = []

    def hold(how: str) -> subprocess.Popen:
        process = subprocess.Popen([sys.executable, "-c", HOLD, tmp_path, how], stdout=subprocess.PIPE, text=True)
        started.append(process)
        assert process.stdout.readline() == "has it\n"
        return process

    yield hold
    for process in started:
        process.kill()
        process.communicate()


def enters(folder: Path, *, shared: bool, within_s: float) -> bool:
    entered = threading.Event()

    def enter() -> None:
        with locked(folder, shared=shared):
            entered.set()

    threading.Thread(target=enter, daemon=True).start()
    return entered.wait(within_s)


@needs_locks
@pytest.mark.parametrize(
    ("first", "second_shares", "at_once"),
    [("alone", False, False), ("alone", True, False), ("shared", False, False), ("shared", True, True)],
)
def test_a_folder_is_had_by_one_or_by_readers_and_death_lets_go(tmp_path, holder, first, second_shares, at_once):
    process = holder(first)
    assert enters(tmp_path, shared=second_shares, within_s=LIMIT_S if at_once else 0.3) is at_once
    process.kill()
    process.wait()
    assert enters(tmp_path, shared=second_shares, within_s=LIMIT_S)
    assert list(tmp_path.iterdir()) == []


def test_what_cannot_be_locked_lets_everyone_in(tmp_path, monkeypatch):
    with locked(tmp_path / "not-there"):
        pass
    monkeypatch.setitem(sys.modules, "fcntl", None)  # as on Windows
    with locked(tmp_path), locked(tmp_path):
        pass


def test_a_build_leaves_no_lock_in_the_temporary_folder(tmp_path, monkeypatch):
    (tmp_path / "temporary").mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "temporary"))
    Staging(tmp_path / "site").publish()
    assert {path.relative_to(tmp_path).as_posix() for path in tmp_path.rglob("*")} == {"site", "temporary"}


def test_who_is_alive(monkeypatch):
    child = subprocess.Popen([sys.executable, "-c", ""])
    child.wait()
    assert is_alive(os.getpid()) and not is_alive(child.pid) and not is_alive(10**30)
    asked = []
    monkeypatch.setattr(locks.os, "kill", lambda *what: asked.append(what))
    monkeypatch.setattr(locks.os, "name", "nt")
    alive = is_alive(child.pid)
    monkeypatch.undo()
    assert alive and asked == []  # there, asking is Control-C to a whole group


WAIT = """
import signal, sys, time
from kernels.lessons.locks import ended_by_signals
if sys.argv[1] == "ignores":
    signal.signal(signal.SIGHUP, signal.SIG_IGN)
try:
    with ended_by_signals():
        print("begun", flush=True)
        time.sleep(1 if sys.argv[1] == "ignores" else 1000)
finally:
    print("taken back", flush=True)
"""


@pytest.mark.skipif(os.name == "nt", reason="Windows has no such signals")
@pytest.mark.usefixtures("signals_are_heard")
@pytest.mark.parametrize(
    ("how", "name", "status"), [("ends", "SIGTERM", 143), ("ends", "SIGHUP", 129), ("ignores", "SIGHUP", 0)]
)
def test_being_asked_to_end_takes_back_what_was_begun(how, name, status):
    process = subprocess.Popen([sys.executable, "-c", WAIT, how], stdout=subprocess.PIPE, text=True)
    try:
        assert process.stdout.readline() == "begun\n"
        process.send_signal(getattr(signal, name))
        assert process.communicate(timeout=LIMIT_S)[0] == "taken back\n" and process.returncode == status
    finally:
        process.kill()


def test_the_signals_are_as_they_were_afterwards():
    before = signal.getsignal(signal.SIGTERM)
    with ended_by_signals():
        assert signal.getsignal(signal.SIGTERM) is not before
    assert signal.getsignal(signal.SIGTERM) is before
    heard = []
    thread = threading.Thread(target=lambda: [ended_by_signals().__enter__(), heard.append("entered")])
    thread.start()
    thread.join()
    assert heard == ["entered"]
