"""Show a long run's progress: a bar in a terminal, a line now and then in a log."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

_QUIET_S = 2.0


@contextmanager
def showing() -> Iterator[Callable[[str, int, int], None]]:
    """Give a function that is told (what starts, how many have started, how many there are)."""
    if sys.stderr.isatty():
        from rich.console import Console
        from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

        columns = (BarColumn(), MofNCompleteColumn(), TimeElapsedColumn(), TextColumn("{task.description}"))
        bar = Progress(*columns, console=Console(stderr=True), transient=True)
        task = bar.add_task("", total=None)

        def show(what: str, count: int, total: int) -> None:
            bar.update(task, completed=count, total=total, description=what)
            bar.start()  # not before: a bar that counts nothing says nothing

        try:
            yield show
        finally:
            bar.stop()
        return
    began = last = time.monotonic()

    def tell(what: str, count: int, total: int) -> None:
        nonlocal last
        now = time.monotonic()
        if now - last > _QUIET_S or count == total:
            last = now
            print(f"lessons: block {count} of {total} after {now - began:.0f} s: {what}", file=sys.stderr, flush=True)

    yield tell
