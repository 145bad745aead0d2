"""Whether Triton is interpreted in this test run, and which signals the processes of a test hear.

Triton decides when it is first imported, so the decision stands here, before any test module is imported: interpreted
on a machine without an NVIDIA GPU, compiled on one that has it. Tests of the other kind skip, or start a process.
"""

import os
import signal
from pathlib import Path

import pytest

if not Path("/dev/nvidiactl").exists() and not Path("/dev/nvidia0").exists():
    os.environ.setdefault("TRITON_INTERPRET", "1")
DECIDED = os.environ.get("TRITON_INTERPRET")


def pytest_collection_finish(session):
    """No module may decide otherwise when it is imported: the kernels of all other tests would go another way."""
    if os.environ.get("TRITON_INTERPRET") != DECIDED:
        now = os.environ.get("TRITON_INTERPRET")
        raise pytest.UsageError(
            f"A test module changed TRITON_INTERPRET from {DECIDED!r} to {now!r} when it was imported. Mark its tests "
            "`interpreted`, or set the variable for a process that a test starts."
        )


def pytest_runtest_setup(item):
    if item.get_closest_marker("interpreted") and os.environ.get("TRITON_INTERPRET") != "1":
        pytest.skip("Triton is compiled in this run; with TRITON_INTERPRET=1 these kernels run on the CPU.")


@pytest.fixture
def signals_are_heard():
    """Processes that the test starts hear Ctrl-C and the terminal's end, also where the test run ignores them.

    A run below `nohup`, or in the background of a script, ignores them, and a process inherits that. What a function
    handles is at its default in a new program, and to the test run nothing happens: the function does nothing.
    """
    numbers = [getattr(signal, name) for name in ("SIGINT", "SIGHUP", "SIGTERM") if hasattr(signal, name)]
    ignored = [number for number in numbers if signal.getsignal(number) is signal.SIG_IGN]
    for number in ignored:
        signal.signal(number, lambda *_: None)
    yield
    for number in ignored:
        signal.signal(number, signal.SIG_IGN)
