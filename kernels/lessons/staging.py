"""Build a site beside the one that is there, and change the two over when the new one is good.

A build that fails, or is killed at any moment, leaves the last good site; two builds at once leave that of the last to
finish.
"""

from __future__ import annotations

import os
import re
import shutil
import tempfile
from pathlib import Path

from kernels.lessons.locks import is_alive, locked


class Staging:
    """A folder beside `target` that becomes `target`. Its name holds the process, so left-over ones are recognised."""

    def __init__(self, target: Path) -> None:
        self.target = target
        target.parent.mkdir(parents=True, exist_ok=True)
        with locked(target.parent):
            _clear_up(target)
            self.folder = Path(tempfile.mkdtemp(prefix=f".{target.name}-{os.getpid()}-", dir=target.parent))

    def publish(self) -> None:
        """Put the staged site where readers find it; the old one goes."""
        self.folder.chmod(0o755)
        old = self.target.with_name(f".{self.target.name}-old")
        with locked(self.target.parent):
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
        if match and not is_alive(int(match[1])):
            shutil.rmtree(folder, ignore_errors=True)
