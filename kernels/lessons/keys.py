"""Single keys from a terminal, heard while a command goes on."""

from __future__ import annotations

import contextlib
import os
import select
import sys
import threading
from collections.abc import Callable, Iterator


@contextlib.contextmanager
def heard(hear: Callable[[str], None]) -> Iterator[bool]:
    """Call `hear` with every key that is pressed, in a thread; gives whether there is a terminal to press keys in.

    Control-C goes on to interrupt the command, and the terminal is as it was afterwards. A command in the background
    (`lessons serve &`) leaves the terminal to others: asking for keys would stop it.
    """
    if sys.stdin is None or not sys.stdin.isatty() or _in_background():
        yield False
        return
    ended = threading.Event()
    listen = _listen_on_windows if os.name == "nt" else _listen
    with _unbuffered():
        thread = threading.Thread(target=listen, args=(hear, ended), daemon=True)
        thread.start()
        try:
            yield True
        finally:
            ended.set()
            thread.join(1)


def _in_background() -> bool:
    try:
        return os.name != "nt" and os.tcgetpgrp(sys.stdin.fileno()) != os.getpgrp()
    except OSError:  # a terminal that is not this session's own: nobody stops who asks it
        return False


@contextlib.contextmanager
def _unbuffered() -> Iterator[None]:
    """Give keys as they are pressed and do not echo them."""
    if os.name == "nt":
        yield
        return
    import termios
    import tty

    before = termios.tcgetattr(sys.stdin)
    try:
        tty.setcbreak(sys.stdin)
        yield
    finally:
        termios.tcsetattr(sys.stdin, termios.TCSADRAIN, before)


def _listen(hear: Callable[[str], None], ended: threading.Event) -> None:
    descriptor = sys.stdin.fileno()
    while not ended.is_set():
        ready, _, _ = select.select([descriptor], [], [], 0.2)
        if ready:
            pressed = os.read(descriptor, 1)
            if not pressed:
                return  # the terminal is gone
            hear(pressed.decode("ascii", "replace"))


def _listen_on_windows(hear: Callable[[str], None], ended: threading.Event) -> None:
    import msvcrt

    while not ended.wait(0.1):
        while msvcrt.kbhit():
            hear(msvcrt.getwch())
