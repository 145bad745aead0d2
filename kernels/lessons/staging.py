"""Build a site beside the one that is there, and change the two over when the new one is good.

A build that fails, or is killed at any moment, leaves the last good site; two builds at once leave that of the last to
finish.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import re
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path


class Staging:
    """A folder beside `target` that becomes `target`. Its name holds the process, so left-over ones are recognised."""

    def __init__(self, target: Path) -> None:
        self.target = target
        target.parent.mkdir(parents=True, exist_ok=True)
        with _locked(target):
            _clear_up(target)
            self.folder = Path(tempfile.mkdtemp(prefix=f".{target.name}-{os.getpid()}-", dir=target.parent))

    def publish(self) -> None:
        """Put the staged site where readers find it; the old one goes."""
        self.folder.chmod(0o755)
        old = self.target.with_name(f".{self.target.name}-old")
        with _locked(self.target):
            _clear_up(self.target)  # another build may have been killed between its two renames
            if self.target.exists():
                self.target.rename(old)
            self.folder.rename(self.target)
            shutil.rmtree(old, ignore_errors=True)

    def discard(self) -> None:
        """Remove the staged site; what is published stays."""
        shutil.rmtree(self.folder, ignore_errors=True)


def _clear_up(target: Path) -> None:
    """Undo what a killed build left: put back a site that it had moved away, remove what it had staged."""
    old = target.with_name(f".{target.name}-old")
    if old.exists():
        if target.exists():
            shutil.rmtree(old, ignore_errors=True)
        else:
            old.rename(target)
    for folder in target.parent.glob(f".{target.name}-*-*"):
        match = re.fullmatch(re.escape(f".{target.name}-") + r"(\d+)-\w+", folder.name)
        if match and not _alive(int(match[1])):
            shutil.rmtree(folder, ignore_errors=True)


def _alive(process: int) -> bool:
    if os.name == "nt":
        return True  # signal 0 would end it; a left-over folder only costs space
    try:
        os.kill(process, 0)
    except ProcessLookupError:
        return False
    except OSError:
        return True
    return True


@contextlib.contextmanager
def _locked(target: Path) -> Iterator[None]:
    """One build at a time may change over. The system lets go of the lock of a killed process."""
    try:
        import fcntl
    except ImportError:
        yield
        return
    name = hashlib.sha256(str(target.resolve()).encode()).hexdigest()[:16]
    path = Path(tempfile.gettempdir(), f"kernel-lessons-{name}.lock")
    try:
        descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o666)
    except OSError:  # another user's file: then the two do not share a checkout either
        yield
        return
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX)
        yield
    finally:
        os.close(descriptor)
