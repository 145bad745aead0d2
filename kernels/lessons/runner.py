"""Run many pages in parallel, each in a worker of its own, and give back what every block did."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor, as_completed
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any, BinaryIO

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
        while self._zygotes:
            _end(*self._zygotes.popitem()[1])

    def run(
        self,
        jobs: Iterable[Job],
        progress: Callable[[Job, str], None] | None = None,
        interrupted: Callable[[], bool] | None = None,
    ) -> Iterator[tuple[Job, JobResult]]:
        """Run the jobs, `self.jobs` at a time; results come as they end. `progress` hears every item that starts.

        `interrupted` is asked ten times a second; when it says yes, what runs is stopped and nothing more is started.
        The same happens when whoever takes the results goes away, by Control-C for example.
        """
        jobs, left = list(jobs), threading.Event()
        if _CAN_FORK:
            for compiled in {job.compiled for job in jobs}:
                self._zygote(compiled)

        def nobody_waits() -> bool:
            return left.is_set() or bool(interrupted and interrupted())

        with ThreadPoolExecutor(max_workers=max(1, min(self.jobs, len(jobs)))) as pool:
            futures = {pool.submit(self._run_one, job, progress, nobody_waits): job for job in jobs}
            try:
                for future in as_completed(futures):
                    yield futures[future], future.result()
            finally:
                left.set()

    def _run_one(
        self, job: Job, progress: Callable[[Job, str], None] | None, nobody_waits: Callable[[], bool]
    ) -> JobResult:
        if nobody_waits():
            return JobResult(interrupted=True)
        payload = {
            "root": str(self.root),
            "page": str(job.path),
            "items": job.items,
            "preload": _preload(job.items),
        }
        if not _CAN_FORK:
            return self._spawn(job, payload, progress, nobody_waits)
        try:
            reader = self._submit(job.compiled, payload)
        except OSError as error:
            return JobResult(ended=f"could not be started: the process that starts workers does not stay ({error})")
        return _follow(os.fdopen(reader, "rb"), job, progress, nobody_waits)

    def _submit(self, compiled: bool, payload: dict[str, Any]) -> int:
        """Hand a page to the warm process; returns where its worker reports.

        Raises:
            OSError: the warm process has ended, and so has one that was started in its place.
        """
        reader, writer = os.pipe()
        try:
            with self._lock:
                try:
                    _send(self._zygote(compiled)[1], payload, writer)
                except OSError:  # it has ended since
                    _end(*self._zygotes.pop(compiled))
                    _send(self._zygote(compiled)[1], payload, writer)
        except OSError:
            os.close(reader)
            raise
        finally:
            os.close(writer)
        return reader

    def _zygote(self, compiled: bool) -> tuple[subprocess.Popen, socket.socket]:
        known = self._zygotes.get(compiled)
        if known is not None and known[0].poll() is None:
            return known
        if known is not None:
            known[1].close()
        ours, theirs = socket.socketpair()
        process = subprocess.Popen(
            [sys.executable, "-m", "kernels.lessons.zygote", str(theirs.fileno())],
            pass_fds=[theirs.fileno()],
            env=worker_environment(self.root, compiled),
            cwd=self.root,
            stdin=subprocess.DEVNULL,
            start_new_session=True,  # Control-C is for the command: what it started ends with it
        )
        theirs.close()
        self._zygotes[compiled] = (process, ours)
        return self._zygotes[compiled]

    def _spawn(
        self,
        job: Job,
        payload: dict[str, Any],
        progress: Callable[[Job, str], None] | None,
        nobody_waits: Callable[[], bool],
    ) -> JobResult:
        with tempfile.TemporaryDirectory(prefix="lesson-", ignore_cleanup_errors=True) as folder:
            file = Path(folder, "job.json")
            file.write_text(json.dumps(payload), encoding="utf-8")
            process = subprocess.Popen(
                [sys.executable, "-m", "kernels.lessons.worker", str(file)],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                env=worker_environment(self.root, job.compiled) | dict.fromkeys(("TMPDIR", "TEMP", "TMP"), folder),
                cwd=self.root,
            )
            with process:
                try:
                    return _follow(process.stdout, job, progress, nobody_waits, process)
                finally:
                    process.kill()


def _send(channel: socket.socket, payload: dict[str, Any], writer: int) -> None:
    data = json.dumps(payload).encode()
    socket.send_fds(channel, [f"{len(data):<16}".encode()], [writer])
    channel.sendall(data)


def _end(process: subprocess.Popen, channel: socket.socket) -> None:
    """End a warm process: it goes when nobody can ask it any more."""
    channel.close()
    try:
        process.wait(5)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()


def _jobs_at_once() -> int:
    asked = os.environ.get("LESSONS_JOBS") or str(os.cpu_count() or 1)
    if not asked.isdecimal() or not int(asked):
        raise ValueError(f"LESSONS_JOBS={asked!r} is not a number of pages to run at once, as in LESSONS_JOBS=4")
    return int(asked)


def worker_environment(root: Path, compiled: bool) -> dict[str, str]:
    """The environment of every block: the same on every machine, as far as it can be."""
    environment = {key: value for key, value in os.environ.items() if key not in ("TRITON_INTERPRET", "PYTHONHOME")}
    environment |= {
        "COLUMNS": "88",
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


@dataclass
class _Watched:
    """A worker and its guard: what they tell each other."""

    stop: Callable[[], None] | None = None
    """How to end the worker, once that is known."""
    running: tuple[str, float, float] | None = None
    """The item that runs, since when, and its limit in seconds."""
    late: str = ""
    """The item for which the guard has ended the worker."""
    interrupted: bool = False
    over: threading.Event = field(default_factory=threading.Event)


def _crowd() -> float:
    """How many want each core of this machine, from 1 to 8: so many times as long may a block take."""
    try:
        waiting = os.getloadavg()[0]
    except (AttributeError, OSError):  # Windows tells nothing of the kind
        return 1.0
    return min(max(waiting / (os.cpu_count() or 1), 1.0), 8.0)


def _guard(watched: _Watched, nobody_waits: Callable[[], bool]) -> None:
    """End the worker when an item has run for too long, or nobody waits for it."""
    while not watched.over.wait(_ASKED_S):
        stop, running = watched.stop, watched.running
        if stop is None:
            continue
        if nobody_waits():
            watched.interrupted = True
        elif running is not None and time.monotonic() - running[1] >= running[2] * _crowd():
            watched.late = running[0]
        else:
            continue
        stop()
        return


def _follow(
    reports: BinaryIO,
    job: Job,
    progress: Callable[[Job, str], None] | None,
    nobody_waits: Callable[[], bool],
    process: subprocess.Popen | None = None,
) -> JobResult:
    """Read a worker's reports to their end, under guard. `process` is the worker, where no warm process forked it."""
    result, running, status = JobResult(), "", None
    watched = _Watched(stop=process.kill if process else None)
    guard = threading.Thread(target=_guard, args=(watched, nobody_waits), daemon=True)
    guard.start()
    try:
        for line in reports:
            try:
                message = json.loads(line)
            except ValueError:
                continue  # a report cut short by a crash, or the empty line after it
            event = message["event"]
            if event == "pid":
                watched.stop = partial(_kill_group, message["pid"])
            elif event == "start":
                running = message["id"]
                watched.running = running, time.monotonic(), job.limits[running]
                if progress:
                    progress(job, running)
            elif event == "end":
                running, watched.running = "", None
                result.reports[message["id"]] = message
            elif event == "exit":
                status = message["status"]
                break
        else:
            status = process.wait() if process else None
    finally:
        watched.over.set()
        guard.join()
        reports.close()
    if watched.interrupted:
        return JobResult(interrupted=True)
    if watched.late:
        result.failed_at = watched.late
        limit = job.limits[watched.late]
        result.ended = (
            f'passed its time limit of {limit:g} s and was stopped (timeout="{2 * limit:g}" would allow it twice that)'
        )
    elif running or status != 0:
        result.failed_at, result.ended = running, _ending(status)
    return result


def _kill_group(pid: int) -> None:
    with contextlib.suppress(ProcessLookupError):
        os.killpg(pid, signal.SIGKILL)


def _ending(status: int | None) -> str:
    if status is None:
        return "ended without a report"
    if status < 0:
        with contextlib.suppress(ValueError):
            return f"was ended by {signal.Signals(-status).name}"
    return f"ended the process with status {status}"
