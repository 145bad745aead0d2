"""A warm process that has imported the heavy libraries and forks a worker for every page.

It reads jobs from a socket, one JSON document a message, each with the write end of a pipe for the worker's report. It
ends when the other end of that socket closes, and asks the system for no signal: that would come when the thread that
started it ends.

It never imports anything of the project that a page may use, so every worker sees the code as it is on disk.
"""

from __future__ import annotations

import contextlib
import ctypes
import importlib
import json
import linecache  # noqa: F401 (this and the others so marked: every worker needs them, imported once)
import os
import resource
import shutil
import signal
import socket
import subprocess  # noqa: F401
import sys
import tempfile
import traceback
import warnings  # noqa: F401
from pathlib import Path

_FILE_LIMIT = 1 << 30  # a block that floods a file is stopped before the disk is full


def die_with_parent() -> None:
    """Be killed when the parent is (Linux), so that a killed build leaves nothing running."""
    with contextlib.suppress(Exception):
        ctypes.CDLL(None).prctl(1, signal.SIGKILL)


def _adopt_orphans() -> None:
    """Become the parent of every process below this one that loses its own (Linux)."""
    with contextlib.suppress(Exception):
        ctypes.CDLL(None).prctl(36, 1)


def _end_orphans() -> None:
    """End what a page left running in a group of its own, a server say (Linux)."""
    with contextlib.suppress(OSError):
        while True:
            left = [int(each) for each in Path(f"/proc/self/task/{os.getpid()}/children").read_text().split()]
            if not left:
                return
            for each in left:
                os.kill(each, signal.SIGKILL)
                os.waitpid(each, 0)


def serve(channel: socket.socket) -> None:
    """Fork a supervisor for each job until the other end closes."""
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)
    while True:
        header, descriptors, _, _ = socket.recv_fds(channel, 16, 1)
        if not header:
            return
        remaining, payload = int(header), b""
        while len(payload) < remaining:
            part = channel.recv(min(1 << 20, remaining - len(payload)))
            if not part:
                return
            payload += part
        job = json.loads(payload)
        for name in job.get("preload", []):
            with contextlib.suppress(Exception):
                importlib.import_module(name)
        if os.fork() == 0:
            channel.close()
            _supervise(job, descriptors[0])
        os.close(descriptors[0])


def _supervise(job: dict, descriptor: int) -> None:
    """Start the worker in a process group of its own, clean up behind it and tell how it ended."""
    die_with_parent()
    os.setpgid(0, 0)  # a block that ends its parent's group ends its own page, and no other
    _adopt_orphans()
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    pipe = os.fdopen(descriptor, "w", encoding="utf-8")
    temporary = tempfile.mkdtemp(prefix="lesson-")  # what blocks leave there goes with their page
    worker = os.fork()
    if worker == 0:
        os.setsid()
        die_with_parent()
        os.environ["TMPDIR"] = tempfile.tempdir = temporary
        _work(job, pipe)
    pipe.write(json.dumps({"event": "pid", "pid": worker}) + "\n")
    pipe.flush()
    _, status = os.waitpid(worker, 0)
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(worker, signal.SIGKILL)  # what the page left running
    _end_orphans()
    shutil.rmtree(temporary, ignore_errors=True)
    pipe.write("\n" + json.dumps({"event": "exit", "status": os.waitstatus_to_exitcode(status)}) + "\n")
    pipe.flush()
    os._exit(0)


def _work(job: dict, pipe) -> None:
    status = 70
    try:
        for name in ("kernels", "kernels.lessons"):  # imported to start this process; they may have been edited since
            sys.modules.pop(name, None)
        with contextlib.suppress(ValueError, OSError):
            resource.setrlimit(resource.RLIMIT_FSIZE, (_FILE_LIMIT, _FILE_LIMIT))
            resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
        null = os.open(os.devnull, os.O_RDWR)
        for target in (0, 1, 2):
            os.dup2(null, target)
        from kernels.lessons.worker import run_job

        run_job(job, pipe)
        pipe.flush()
        status = 0
    except BaseException:
        traceback.print_exc()
    finally:
        os._exit(status)


if __name__ == "__main__":
    serve(socket.socket(fileno=int(sys.argv[1])))
    os._exit(0)  # what torch does at an ordinary end takes half a second
