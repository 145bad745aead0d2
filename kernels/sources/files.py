"""Files that several processes read and write: whole ones only, and one writer at a time."""

from __future__ import annotations

import contextlib
import os
import tempfile
from collections.abc import Iterator
from pathlib import Path


def write_whole(path: Path, data: str | bytes, *, durable: bool = True) -> None:
    """Write a file so that a reader sees the old one or the new one, never a part. Text is written in UTF-8.

    Folders that are missing are made. Not `durable` spares waiting for the disk, for what can be made again. OSError
    where the file cannot be written; the old one is then as it was, and nothing is left beside it.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    descriptor, name = tempfile.mkstemp(prefix=f".{path.name}.", suffix=".tmp", dir=path.parent)
    try:
        with os.fdopen(descriptor, "wb") as file:
            file.write(data.encode("utf-8") if isinstance(data, str) else data)
            if durable:
                file.flush()
                os.fsync(file.fileno())
        Path(name).chmod(0o644)  # a temporary file is its owner's alone
        Path(name).replace(path)
    except BaseException:
        with contextlib.suppress(OSError):
            Path(name).unlink()
        raise


@contextlib.contextmanager
def locked(folder: Path, *, shared: bool = False) -> Iterator[None]:
    """Have a folder alone, or with others that only read: every process and thread that asks so waits for its turn.

    The lock lies on the folder itself, so no file is left over, and the system takes it from a killed process. A folder
    that is not there, and a system or a file system without such locks, lets everyone in.
    """
    try:
        import fcntl

        descriptor = os.open(folder, os.O_RDONLY | os.O_CLOEXEC)
    except (ImportError, OSError):
        yield
        return
    try:
        with contextlib.suppress(OSError):
            fcntl.flock(descriptor, fcntl.LOCK_SH if shared else fcntl.LOCK_EX)
        yield
    finally:
        os.close(descriptor)
