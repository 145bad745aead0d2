"""A Python that has imported torch, and forks a new process for every program: torch takes longer than most of them.

It knows nothing of Triton or of the project, whose modules must be read anew under the program's own environment. A
program gets a name space, a working folder and files for its output of its own, as from `python FILE`.
"""

from __future__ import annotations

import contextlib
import json
import os
import runpy
import signal
import subprocess
import sys
import threading
import time
import traceback
from pathlib import Path

LIMIT_S = 400  # for one program; pytest has a limit for the test
PATIENCE_S = 30


class WarmPython:
    """One such Python; calls may come from several threads, each has a process of its own."""

    def __init__(self, environment: dict[str, str]) -> None:
        self._lock = threading.Lock()
        self._helper = subprocess.Popen(
            [sys.executable, __file__], env=environment, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )

    def run(self, file: Path) -> subprocess.CompletedProcess:
        """Run a file in its folder, as a program that ends by itself.

        RuntimeError where it cannot be told how the program ended: the helper has died, or says nothing for too long.
        """
        out, err, status = (file.with_suffix(end) for end in (".out", ".err", ".status"))
        with self._lock, contextlib.suppress(BrokenPipeError):
            self._helper.stdin.write(json.dumps([str(file), str(out), str(err), str(status)]) + "\n")
            self._helper.stdin.flush()
        until = time.monotonic() + LIMIT_S + PATIENCE_S
        while not status.exists():
            if self._helper.poll() is not None:
                raise RuntimeError(f"the Python that runs programs ended with {self._helper.returncode}, before {file}")
            if time.monotonic() > until:
                raise RuntimeError(f"nothing was heard of {file} in {LIMIT_S + PATIENCE_S} s")
            time.sleep(0.02)
        return subprocess.CompletedProcess([str(file)], int(status.read_text()), out.read_text(), err.read_text())

    def close(self) -> None:
        with contextlib.suppress(BrokenPipeError):
            self._helper.stdin.close()
        try:
            self._helper.wait(10)
        except subprocess.TimeoutExpired:
            self._helper.kill()
            self._helper.wait()


def _child(file: str, out: str, err: str) -> None:
    for number, name in ((0, os.devnull), (1, out), (2, err)):
        os.dup2(os.open(name, os.O_RDWR | os.O_CREAT, 0o644), number)
    os.chdir(Path(file).parent)
    sys.path[0], sys.argv = str(Path(file).parent), [file]
    code = 0
    try:
        runpy.run_path(file, run_name="__main__")
    except SystemExit as stop:
        code = stop.code if isinstance(stop.code, int) else int(stop.code is not None)
    except BaseException:
        traceback.print_exc()
        code = 1
    sys.exit(code)  # as any program ends: what is registered for the end still runs


def main() -> None:
    import numpy  # noqa: F401
    import torch  # noqa: F401

    for line in sys.stdin:
        file, out, err, status = json.loads(line)
        if os.fork() == 0:
            worker = os.fork()
            if worker == 0:
                os.setsid()
                signal.alarm(LIMIT_S)  # ends a program that does not end by itself
                _child(file, out, err)
            _, ended = os.waitpid(worker, 0)
            part = Path(status).with_suffix(".part")
            part.write_text(str(os.waitstatus_to_exitcode(ended)))
            part.replace(status)
            os._exit(0)


if __name__ == "__main__":
    main()
