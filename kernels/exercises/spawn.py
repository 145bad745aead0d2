"""Where a system cannot fork (Windows): a new Python for each check, slower, with the same protocol.

    python -m kernels.exercises.spawn FOLDER

What the check tells goes to a file in a folder of its own: a pipe has no number there that a child could be given.
"""

from __future__ import annotations

import contextlib
import json
import os
import secrets
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path
from typing import Any

from kernels.exercises import worker
from kernels.exercises.followed import Followed

_POLL_S = 0.02


def watched(job: dict[str, Any], number: int, titles: list[str]) -> tuple[dict[str, Any], list[str]]:
    """Start a process for one check, and follow it to its end, or to its limit; the result, and the titles of all."""
    token = secrets.token_hex(16)
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as folder:
        reports = Path(folder, "reports")
        reports.touch()
        document = json.dumps({"job": job, "number": number, "token": token})
        Path(folder, "job.json").write_text(document, encoding="utf-8")
        process = subprocess.Popen(
            [sys.executable, "-m", "kernels.exercises.spawn", folder],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
        )
        followed = Followed(token, titles, process.pid)
        reader = threading.Thread(target=_drain, args=(process.stdout, followed), daemon=True)
        reader.start()
        with reports.open("rb") as file:
            while process.poll() is None:
                followed.hear(file.read())
                if followed.is_over():
                    followed.limited = True
                    process.kill()
                    process.wait()
                time.sleep(_POLL_S)
            followed.hear(file.read())
        followed.code = process.returncode
        reader.join(1)  # a child of the answer may hold its output open
    return followed.result(number, job["exercise"]), followed.titles


def _drain(stream: Any, followed: Followed) -> None:
    with contextlib.suppress(OSError, ValueError):
        while data := stream.read1(1 << 16):
            followed.write(data)


def main(folder: str) -> None:
    """Be the process of one check."""
    from kernels.exercises.warm import import_more, limit, warmed

    path = Path(folder, "job.json")
    given = json.loads(path.read_text(encoding="utf-8"))
    path.unlink()
    job = given["job"]
    descriptor = os.open(Path(folder, "reports"), os.O_WRONLY | os.O_APPEND)
    warmed(job["needs"])
    import_more(job)
    limit()
    sys.path[:0] = [job["root"]] if job["root"] not in sys.path else []
    worker.look(job, given["number"], worker.teller(descriptor, given["token"]))
    for stream in (sys.stdout, sys.stderr):
        with contextlib.suppress(Exception):
            stream.flush()
    os._exit(0)


if __name__ == "__main__":
    main(sys.argv.pop())
