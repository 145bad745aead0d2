"""What processes beside each other ask: is a folder mine, is another of us still there, and what if we are to end?"""

from __future__ import annotations

import contextlib
import os
import signal
from collections.abc import Iterator

from kernels.sources.files import locked

__all__ = ["ended_by_signals", "is_alive", "locked"]


def is_alive(process: int) -> bool:
    """Whether a process of that number runs; on Windows, where asking would end or interrupt it, it is taken to."""
    if os.name == "nt":
        return True
    try:
        os.kill(process, 0)
    except (ProcessLookupError, OverflowError):
        return False
    except OSError:  # another user's
        return True
    return True


@contextlib.contextmanager
def ended_by_signals() -> Iterator[None]:
    """While it lasts, being asked to end (SIGTERM, SIGHUP) is a SystemExit, so that what was begun is taken back.

    What this process was told to ignore, as `nohup` does with SIGHUP, it goes on to ignore. Outside of the main thread
    nothing changes.
    """
    asked = [getattr(signal, name) for name in ("SIGTERM", "SIGHUP") if hasattr(signal, name)]

    def end(number: int, _) -> None:
        raise SystemExit(128 + number)

    before = {}
    with contextlib.suppress(ValueError):  # not the main thread
        before = {each: signal.signal(each, end) for each in asked if signal.getsignal(each) is not signal.SIG_IGN}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
