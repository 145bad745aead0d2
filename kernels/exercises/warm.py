"""A warm process: it imports what an exercise needs once, and forks a child for every check of every answer.

    python -m kernels.exercises.warm triton

Jobs come on standard input, one JSON document a line; results go to standard output in the same way. A child has a
session, a time limit, a memory limit and an output limit of its own. What it leaves running is killed.
"""

from __future__ import annotations

import contextlib
import ctypes
import gc
import importlib
import json
import os
import secrets
import select
import signal
import sys
import time
from pathlib import Path
from typing import Any

from kernels.exercises import spawn, worker
from kernels.exercises.expect import seen
from kernels.exercises.followed import Followed
from kernels.exercises.model import PASS

HEAVY = {"cpu": (), "triton": ("numpy", "torch", "triton", "triton.language"), "gpu": ("torch", "triton")}
MEMORY_LIMIT = 1 << 30  # bytes that a check may use beside what the warm process has
FILE_LIMIT = 64 << 20  # bytes of a file that a check may write
DIE_S = 10.0  # in which a process that was killed is gone, on a crowded machine too
_PR_SET_PDEATHSIG, _PR_SET_CHILD_SUBREAPER = 1, 36


def main(needs: str) -> None:
    """Serve jobs until standard input ends."""
    out = os.fdopen(os.dup(1), "w", encoding="utf-8")
    jobs = os.fdopen(os.dup(0), "r", encoding="utf-8")
    null = os.open(os.devnull, os.O_RDWR)
    for target in (0, 1):
        os.dup2(null, target)
    _prctl(_PR_SET_PDEATHSIG, 9)
    _prctl(_PR_SET_CHILD_SUBREAPER, 1)
    forks = hasattr(os, "fork") and not os.environ.get("KERNELS_EXERCISES_SPAWN")
    _say(out, warmed(needs) if forks else {"ready": True})
    gc.freeze()  # a collection in a child would copy every page of this process
    for line in iter(jobs.readline, ""):
        job = json.loads(line)
        if forks:
            import_more(job)
        number, titles = 0, [""]
        while number < len(titles):
            if forks:
                result, titles = _watched(job, number, titles, (out.fileno(), jobs.fileno()))
            else:
                result, titles = spawn.watched(job, number, titles)
            _say(out, {"result": result, "titles": titles})
            number += 1
            if result["status"] == worker.BROKEN or _is_decided(job, result):
                break
        _say(out, {"end": True})


def _is_decided(job: dict[str, Any], result: dict[str, Any]) -> bool:
    """Whether the one who asks wants no more: after the first failure once a check has passed."""
    job.setdefault("statuses", []).append(result["status"])
    return bool(job.get("brief")) and PASS in job["statuses"] and set(job["statuses"]) != {PASS}


def warmed(needs: str) -> dict[str, Any]:
    """Import what these needs take; whether that went well, and why not."""
    try:
        for name in HEAVY[needs]:
            importlib.import_module(name)
        if needs == "triton":
            from kernels.ops.interpreter import behave_like_a_gpu

            behave_like_a_gpu()
            _rehearse()
    except Exception as error:
        return {"ready": False, "reason": f"{type(error).__name__}: {error}"}
    return {"ready": True}


def _rehearse() -> None:
    """Trace one small kernel, which imports what Triton and the trace import late."""
    import torch

    from kernels.exercises.traced import traced
    from kernels.ops.add import launch_add

    x, out = torch.ones(1), torch.zeros(1)
    traced(lambda: launch_add(x, x, out), {"x": x, "out": out}, ["out"])
    seen.compared = 0


def import_more(job: dict[str, Any]) -> None:
    """What the exercise imports beside HEAVY. What cannot be imported, its checks will miss, and say so."""
    from kernels.exercises import library

    with contextlib.suppress(Exception):
        for name in library.described(library.Files(job["exercise"], Path(job["root"]))).imports:
            importlib.import_module(name)


def _watched(job: dict[str, Any], number: int, titles: list[str], ours: tuple[int, ...]) -> tuple[dict, list[str]]:
    """Fork a child for one check, and follow it to its end, or to its limit."""
    token = secrets.token_hex(16)
    (from_child, report), (from_output, output) = os.pipe(), os.pipe()
    child = os.fork()
    if child == 0:
        for descriptor in (*ours, from_child, from_output):
            os.close(descriptor)
        _child(job, number, report, output, token)
    os.close(report)
    os.close(output)
    followed = Followed(token, titles, child)
    try:
        _follow(followed, child, from_child, from_output)
    finally:
        os.close(from_child)
        os.close(from_output)
        _kill_all(child)
    return followed.result(number, job["exercise"]), followed.titles


def _follow(followed: Followed, child: int, reports: int, output: int) -> None:
    """Read both pipes until the child has ended or its time is up, even where others hold the pipes open."""
    while followed.code is None:
        if followed.is_over():
            followed.limited = True
            _kill_group(child)
            followed.code = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
            break
        ready, _, _ = select.select([reports, output], [], [], 0.02)
        _read(followed, ready, output)
        done, status = os.waitpid(child, os.WNOHANG)
        if done:
            followed.code = os.waitstatus_to_exitcode(status)
    for _ in range(64):  # what is in the pipes still
        ready, _, _ = select.select([reports, output], [], [], 0)
        if not _read(followed, ready, output):
            break


def _read(followed: Followed, ready: list[int], output: int) -> bool:
    some = False
    for descriptor in ready:
        data = os.read(descriptor, 1 << 16)
        some = some or bool(data)
        followed.write(data) if descriptor == output else followed.hear(data)
    if ready and not some:
        time.sleep(0.002)  # both ends are closed, the child is about to end
    return some


def _child(job: dict[str, Any], number: int, report: int, output: int, token: str) -> None:
    """Become the process of one check. Does not return."""
    status = 80
    try:
        os.setsid()
        _prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
        signal.signal(signal.SIGINT, signal.SIG_IGN)
        os.dup2(output, 1)
        os.dup2(output, 2)
        os.close(output)
        sys.stdin = sys.__stdin__ = open(0, encoding="utf-8", closefd=False)  # noqa: SIM115
        for name, descriptor in (("stdout", 1), ("stderr", 2)):
            stream = open(descriptor, "w", encoding="utf-8", errors="replace", buffering=1, closefd=False)  # noqa: SIM115
            setattr(sys, name, stream)
            setattr(sys, f"__{name}__", stream)
        limit()
        sys.path[:0] = [job["root"]] if job["root"] not in sys.path else []
        worker.look(job, number, worker.teller(report, token))
        for stream in (sys.stdout, sys.stderr):
            with contextlib.suppress(Exception):
                stream.flush()
        status = 0
    finally:
        os._exit(status)


def limit() -> None:
    """Limit what this process may use, where the system can."""
    with contextlib.suppress(ImportError, ValueError, OSError):
        import resource

        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
        resource.setrlimit(resource.RLIMIT_FSIZE, (FILE_LIMIT, FILE_LIMIT))
        used = 0
        with contextlib.suppress(OSError, IndexError):
            status = Path("/proc/self/status").read_text(encoding="utf-8")
            used = int(status.split("VmData:")[1].split()[0]) << 10
        most = used + MEMORY_LIMIT
        resource.setrlimit(resource.RLIMIT_DATA, (most, most))


def _prctl(option: int, value: int) -> None:
    with contextlib.suppress(Exception):
        ctypes.CDLL(None).prctl(option, value)


def _kill_group(child: int) -> None:
    for kill in (os.killpg, os.kill):
        with contextlib.suppress(ProcessLookupError, PermissionError):
            kill(child, signal.SIGKILL)


def _kill_all(child: int) -> None:
    """Kill what the check left running: its group, and whatever has become a child of this process."""
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(child, signal.SIGKILL)
    until = time.monotonic() + DIE_S
    while time.monotonic() < until:
        left = _children()
        for each in left:
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.kill(each, signal.SIGKILL)
        with contextlib.suppress(ChildProcessError):
            while os.waitpid(-1, os.WNOHANG)[0]:
                pass
        if not left:
            return
        time.sleep(0.002)


def _children() -> list[int]:
    """The processes whose parent this one is (Linux tells; elsewhere none are found)."""
    try:
        listed = Path(f"/proc/self/task/{os.getpid()}/children").read_text(encoding="utf-8")
    except OSError:
        return []
    return [int(each) for each in listed.split()]


def _say(out, message: dict[str, Any]) -> None:
    out.write(json.dumps(message) + "\n")
    out.flush()


if __name__ == "__main__":
    main(sys.argv[1] if len(sys.argv) > 1 else "cpu")
