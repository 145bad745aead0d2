"""Run many pages in parallel, each in a worker of its own, and give back what every block did."""

from __future__ import annotations

import contextlib
import json
import os
import select
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

_HEAVY = ("numpy", "torch", "triton", "matplotlib")
_ASKED_S = 0.1
_CAN_FORK = hasattr(os, "fork") and hasattr(socket, "send_fds")


@dataclass
class Job:
    """One page's items for one kind of worker. `limits` holds the time limit of each item, by id."""

    page: str
    path: Path
    items: list[dict[str, Any]]
    limits: dict[str, float]
    compiled: bool = False


@dataclass
class JobResult:
    """Reports by item id; `ended` says how the process ended when it did not end by itself."""

    reports: dict[str, dict[str, Any]] = field(default_factory=dict)
    failed_at: str = ""
    ended: str = ""
    interrupted: bool = False
    """Stopped because nobody waits for it any more: it says nothing about the page."""


class Runner:
    """Keeps a warm process for interpreted and one for compiled pages. Use as a context manager.

    Raises:
        ValueError: LESSONS_JOBS is no number.
    """

    def __init__(self, root: Path, jobs: int | None = None) -> None:
        self.root = root
        self.jobs = jobs or _jobs_at_once()
        self._zygotes: dict[bool, tuple[subprocess.Popen, socket.socket]] = {}
        self._lock = threading.Lock()

    def __enter__(self) -> Runner:
        return self

    def __exit__(self, *exception: object) -> None:
        self.close()

    def close(self) -> None:
        """End the warm processes."""
        for process, channel in self._zygotes.values():
            channel.close()
            with contextlib.suppress(subprocess.TimeoutExpired):
                process.wait(5)
            process.kill()
        self._zygotes.clear()

    def run(
        self,
        jobs: Iterable[Job],
        progress: Callable[[Job, str], None] | None = None,
        interrupted: Callable[[], bool] | None = None,
    ) -> Iterator[tuple[Job, JobResult]]:
        """Run the jobs, `self.jobs` at a time; results come as they end. `progress` hears every item that starts.

        `interrupted` is asked ten times a second; when it says yes, what runs is stopped and nothing more is started.
        """
        jobs = list(jobs)
        with ThreadPoolExecutor(max_workers=max(1, min(self.jobs, len(jobs)))) as pool:
            futures = [(job, pool.submit(self._run_one, job, progress, interrupted)) for job in jobs]
            for job, future in futures:
                yield job, future.result()

    def _run_one(
        self, job: Job, progress: Callable[[Job, str], None] | None, interrupted: Callable[[], bool] | None
    ) -> JobResult:
        if interrupted and interrupted():
            return JobResult(interrupted=True)
        payload = {
            "root": str(self.root),
            "page": str(job.path),
            "items": job.items,
            "preload": _preload(job.items),
        }
        if _CAN_FORK:
            reader = self._submit(job.compiled, payload)
            return _follow(reader, job, progress, None, interrupted)
        return self._spawn(job, payload, progress)

    def _submit(self, compiled: bool, payload: dict[str, Any]) -> int:
        reader, writer = os.pipe()
        data = json.dumps(payload).encode()
        with self._lock:
            process, channel = self._zygote(compiled)
            try:
                socket.send_fds(channel, [f"{len(data):<16}".encode()], [writer])
                channel.sendall(data)
            except OSError:
                del self._zygotes[compiled]
                raise RuntimeError(f"the process that starts workers has ended with status {process.poll()}") from None
            finally:
                os.close(writer)
        return reader

    def _zygote(self, compiled: bool) -> tuple[subprocess.Popen, socket.socket]:
        known = self._zygotes.get(compiled)
        if known is not None and known[0].poll() is None:
            return known
        ours, theirs = socket.socketpair()
        process = subprocess.Popen(
            [sys.executable, "-m", "kernels.lessons.zygote", str(theirs.fileno())],
            pass_fds=[theirs.fileno()],
            env=worker_environment(self.root, compiled),
            cwd=self.root,
            stdin=subprocess.DEVNULL,
        )
        theirs.close()
        self._zygotes[compiled] = (process, ours)
        return self._zygotes[compiled]

    def _spawn(self, job: Job, payload: dict[str, Any], progress: Callable[[Job, str], None] | None) -> JobResult:
        with tempfile.TemporaryDirectory() as folder:
            file = Path(folder, "job.json")
            file.write_text(json.dumps(payload), encoding="utf-8")
            process = subprocess.Popen(
                [sys.executable, "-m", "kernels.lessons.worker", str(file)],
                stdout=subprocess.PIPE,
                env=worker_environment(self.root, job.compiled),
                cwd=self.root,
            )
            return _follow(process.stdout.fileno(), job, progress, process)


def _jobs_at_once() -> int:
    asked = os.environ.get("LESSONS_JOBS") or str(os.cpu_count() or 1)
    if not asked.isdecimal() or not int(asked):
        raise ValueError(f"LESSONS_JOBS={asked!r} is not a number of pages to run at once, as in LESSONS_JOBS=4")
    return int(asked)


def worker_environment(root: Path, compiled: bool) -> dict[str, str]:
    """The environment of every block: the same on every machine, as far as it can be."""
    environment = {key: value for key, value in os.environ.items() if key not in ("TRITON_INTERPRET", "PYTHONHOME")}
    environment |= {
        "COLUMNS": "100",
        "KERNEL_LESSONS_ROOT": str(root),
        "LC_ALL": "C.UTF-8",
        "MPLBACKEND": "agg",
        "NO_COLOR": "1",
        "OMP_NUM_THREADS": "1",
        "PYTHONDONTWRITEBYTECODE": "1",
        "PYTHONHASHSEED": "0",
        "PYTHONUTF8": "1",
        "PYTHONPATH": os.pathsep.join(filter(None, [str(root), os.environ.get("PYTHONPATH", "")])),
        "TERM": "dumb",
        "TZ": "UTC",
    }
    environment.pop("FORCE_COLOR", None)
    scripts = str(Path(sys.executable).parent)
    environment["PATH"] = os.pathsep.join([scripts, environment.get("PATH", "")])
    if not compiled:
        environment["TRITON_INTERPRET"] = "1"
    return environment


def _preload(items: list[dict[str, Any]]) -> list[str]:
    """Libraries worth importing once for all pages: those that this page's code is going to import."""
    code = "\n".join(item.get("code", "") for item in items)
    if "kernels.ops" in code or "triton" in code:
        return ["numpy", "torch", "triton", "triton.language"]
    return [name for name in _HEAVY if name in code]


def _follow(
    reader: int,
    job: Job,
    progress: Callable[[Job, str], None] | None,
    process: Any,
    interrupted: Callable[[], bool] | None = None,
) -> JobResult:
    """Read a worker's report, with each item's time limit; kill the worker's group when one is passed."""
    result = JobResult()
    running, deadline, pid = "", None, None
    pending: list[bytes] = []
    try:
        while True:
            wait = None if deadline is None else max(0.0, deadline - time.monotonic())
            if process is None or os.name != "nt":
                slice_s = min(wait, _ASKED_S) if wait is not None else _ASKED_S
                ready, _, _ = select.select([reader], [], [], slice_s if interrupted and pid else wait)
                if interrupted and pid and interrupted():
                    _kill(pid, process)
                    return JobResult(interrupted=True)
                if not ready and interrupted and (deadline is None or time.monotonic() < deadline):
                    continue
                if not ready:
                    result.failed_at = running
                    result.ended = f"passed its time limit of {job.limits[running]:g} s and was stopped"
                    _kill(pid, process)
                    deadline = None
                    continue
            data = os.read(reader, 1 << 20)
            if not data:
                break
            if b"\n" not in data:  # a long report comes in many parts
                pending.append(data)
                continue
            *lines, rest = b"".join([*pending, data]).split(b"\n")
            pending = [rest]
            for line in filter(None, lines):
                try:
                    message = json.loads(line)
                except ValueError:
                    continue  # a report cut short by a crash
                event = message["event"]
                if event == "pid":
                    pid = message["pid"]
                elif event == "start":
                    running, deadline = message["id"], time.monotonic() + job.limits[message["id"]]
                    if progress:
                        progress(job, running)
                elif event == "end":
                    result.reports[message["id"]] = message
                    running, deadline = "", None
                elif event == "exit":
                    if not result.ended and (running or message["status"]):
                        result.failed_at, result.ended = running, _ending(message["status"])
                    return result
        if not result.ended:
            result.failed_at, result.ended = running, _ending(process.wait() if process else None)
        return result
    finally:
        with contextlib.suppress(OSError):
            os.close(reader) if process is None else process.stdout.close()
        if process is not None:
            process.kill()


def _kill(pid: int | None, process: Any) -> None:
    if process is not None:
        process.kill()
    elif pid is not None:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(pid, signal.SIGKILL)


def _ending(status: int | None) -> str:
    if status is None:
        return "ended without a report"
    if status < 0:
        with contextlib.suppress(ValueError):
            return f"was ended by {signal.Signals(-status).name}"
    return f"ended the process with status {status}"
