"""Programs that are asked for something: each gets a time limit, and what it says is read as UTF-8 on every system."""

from __future__ import annotations

import shlex
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path

COMPILE_S = 600.0
"""For one run of a compiler: minutes on a slow machine, and never an hour."""


class TooLong(RuntimeError):
    """A program was stopped at its time limit; the message names the program and the limit."""


def answered(
    command: Sequence[str | Path],
    seconds: float,
    *,
    cwd: str | Path | None = None,
    env: Mapping[str, str] | None = None,
    given: str | None = None,
) -> subprocess.CompletedProcess[str]:
    """What a program said and how it ended, whatever its status. `given` is its standard input; left out, it has none.

    Raises:
        TooLong: it did not end within `seconds`, and was killed.
        OSError: it cannot be started.
    """
    words = [str(word) for word in command]
    source = {"stdin": subprocess.DEVNULL} if given is None else {"input": given}
    try:
        return subprocess.run(
            words,
            capture_output=True,
            encoding="utf-8",
            errors="replace",
            timeout=seconds,
            check=False,
            cwd=cwd,
            env=env,
            **source,
        )
    except subprocess.TimeoutExpired:
        shown = shlex.join(words)
        shown = shown if len(shown) <= 200 else shown[:199] + "…"
        raise TooLong(f"{Path(words[0]).name} did not end within {seconds:g} s, and was stopped: {shown}") from None
