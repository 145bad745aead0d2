"""Waits for a file to be saved, in place or, as some editors do, by renaming another file to its name."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from pathlib import Path

POLL_S, SETTLE_S = 0.15, 0.25


def saves(
    path: Path, *, pause: Callable[[float], None] = time.sleep, now: Callable[[], float] = time.monotonic
) -> Iterator[str | None]:
    """Yields the text at first and each time it has changed and then stayed for a moment; None once when it is gone.

    A file that cannot be read as UTF-8 is given with its bad bytes replaced. Ends never; the one who asks stops.
    """
    given: object = ()  # what was yielded last; no text equals it
    pending, since = read(path), now() - SETTLE_S
    while True:
        if pending != given and now() - since >= SETTLE_S:
            given = pending
            yield pending
        pause(POLL_S)
        text = read(path)
        if text != pending:
            pending, since = text, now()


def read(path: Path) -> str | None:
    """The text of a file, without the byte order mark of some editors; None for no file or a folder."""
    try:
        return path.read_bytes().decode("utf-8-sig", "replace").replace("\r\n", "\n")
    except OSError:
        return None
