"""What is known of the process of one check while it runs, and what its end means."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import time
from pathlib import Path
from typing import Any

from kernels.exercises.model import FAIL, CheckResult, Failure
from kernels.exercises.worker import BROKEN, CLOSED, as_message

OUTPUT_LIMIT = 16_384  # bytes of an answer's output that are kept
CHECKS_SECONDS = 60.0  # for loading a check file, which is ours

_EXTENSIONS = 2


def cpu_seconds(pid: int) -> float | None:
    """The processor time that a process has used; None where the system does not tell (it is read from /proc)."""
    try:
        fields = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8", errors="replace").rpartition(")")[2].split()
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")
    except (OSError, ValueError, IndexError, AttributeError):
        return None


class Followed:
    """Hears what a check's process tells, and keeps the beginning of what its answer printed.

    `code` is the status with which it ended, `limited` whether its time was up; `deadline` is a time of
    `time.monotonic()`.
    """

    def __init__(self, token: str, titles: list[str], pid: int) -> None:
        self.pid = pid
        self.titles, self.phase, self.seconds = titles, "checks", CHECKS_SECONDS
        self.deadline = time.monotonic() + CHECKS_SECONDS
        self.limited, self.code = False, None
        self._token, self._pending, self._told = token.encode(), b"", None
        self._output, self._written = b"", 0
        self._extended, self._spent = 0, 0.0

    def is_over(self) -> bool:
        """Whether the process has had its time. On a busy machine that is its own time, up to three times the limit."""
        now = time.monotonic()
        if now <= self.deadline:
            return False
        spent = cpu_seconds(self.pid)
        if spent is None or spent - self._spent >= self.seconds / 2 or self._extended == _EXTENSIONS:
            return True
        self._extended += 1
        self.deadline = now + self.seconds
        return False

    def write(self, data: bytes) -> None:
        """Take a piece of the answer's output."""
        self._written += len(data)
        self._output += data[: max(0, OUTPUT_LIMIT - len(self._output))]

    def hear(self, data: bytes) -> None:
        """Take a piece of what came on the pipe of reports; only lines behind the token are read."""
        *lines, self._pending = (self._pending + data).split(b"\n")
        self._pending = self._pending[-(1 << 20) :]
        for line in lines:
            token, _, document = line.partition(b" ")
            if token != self._token:
                continue  # an answer that writes to whatever is open
            message = json.loads(document)
            if "phase" in message:
                self.phase = message["phase"]
                if "titles" in message:
                    self.titles, self.seconds = message["titles"], message["seconds"]
                    self.deadline = time.monotonic() + self.seconds
                    self._extended, self._spent = 0, cpu_seconds(self.pid) or 0.0
            elif self._told is None:
                self._told = message["result"]

    def result(self, number: int, exercise: str) -> dict[str, Any]:
        """What was told, or what the silence means."""
        text = self._output.decode("utf-8", "replace")
        if self._written > len(self._output):
            text += f"\n[cut: {self._written:,} bytes were written, {len(self._output):,} are kept]"
        if self._told is not None and not self.limited:
            return {**self._told, "output": text}
        title = self.titles[number] if number < len(self.titles) else ""
        during = "while the file was loaded" if self.phase == "answer" else "in this check"
        if self.phase == "checks":
            how = f"took more than {CHECKS_SECONDS:g} s" if self.limited else self._ending()
            sentence = f"lessons_src/checks/{exercise}.py {how} before the answer was loaded"
            return {**as_message(CheckResult(title, BROKEN, Failure(sentence, kind="checks"))), "output": text}
        if self.limited:
            why = "a loop that never ends: its condition never becomes false, or its step is 0"
            sentence = f"The answer was stopped {during}: it took more than the limit of {self.seconds:g} s."
            failure = Failure(sentence, kind="too-long", cause=why)
        else:
            sentence = f"The answer {self._ending()} {during}, before the check was through."
            failure = Failure(sentence, kind="ended", cause=self._cause())
        return {**as_message(CheckResult(title, FAIL, failure)), "output": text}

    def _ending(self) -> str:
        code = self.code or 0
        if code < 0:
            with contextlib.suppress(ValueError):
                return f"was ended by {signal.Signals(-code).name}"
        if code == CLOSED:
            return "closed the pipe on which its check reports"
        return f"ended its process with status {code}"

    def _cause(self) -> str:
        code = self.code or 0
        if code in (-signal.SIGSEGV, 0xC0000005):  # the latter on Windows
            return "memory that is not there was touched (ctypes), or a recursion is deeper than the stack"
        if code == -9:
            return "it was killed, perhaps because the machine ran out of memory"
        return (
            "os._exit or a signal in the answer" if code <= 0 else "os._exit in the answer, or a library that gave up"
        )
