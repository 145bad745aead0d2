"""What an answer may not look at while it is checked: who calls it, the checker's own modules, and the solution.

Python tells of such a look before it happens (audit events). One that the answer makes ends the check; the same one
made by a library does not: `dataclass` and Triton look at their callers as well.
"""

from __future__ import annotations

import contextlib
import linecache
import os
import sys
import sysconfig
from pathlib import Path
from types import FrameType, ModuleType

from kernels.exercises.expect import seen
from kernels.exercises.library import Files
from kernels.exercises.model import Failure

_LOOKS = {
    "sys._getframe": "looks at the function that calls it (sys._getframe)",
    "sys._getframemodulename": "looks at the function that calls it (sys._getframemodulename)",
    "sys._current_frames": "looks at the function that calls it (sys._current_frames)",
    "sys._current_exceptions": "looks at the exceptions of the checker (sys._current_exceptions)",
    "sys.settrace": "follows the checker's steps (sys.settrace)",
    "sys.setprofile": "follows the checker's steps (sys.setprofile)",
    "sys.monitoring.register_callback": "follows the checker's steps (sys.monitoring)",
    "gc.get_objects": "looks through all objects (gc.get_objects)",
    "gc.get_referrers": "looks for what holds an object (gc.get_referrers)",
    "gc.get_referents": "looks into objects (gc.get_referents)",
    "ctypes.dlsym": "calls into Python itself (ctypes)",
}
_ATTRIBUTES = {"tb_frame", "gi_frame", "cr_frame", "ag_frame", "__closure__", "__globals__"}
_PASSED_THROUGH = ("bdb", "contextlib", "ctypes/__init__", "inspect", "threading", "trace")
_WALKS = ("walk_stack", "walk_tb")  # of traceback: who asks for these is given frames; the rest of it gives text
_OPEN_TO_ANSWERS = "kernels.exercises.rounding"


class Guard:
    """Notes what the answer looks at, from now on. (An audit hook stays for as long as the process.)

    `looked` is the first forbidden look as a failure, `read` the first file of the solutions or checks that was opened.
    """

    def __init__(self, files: Files, answer: str) -> None:
        self.looked: Failure | None = None
        self.read = ""
        self._files, self._answer, self._busy = files, answer, False
        self._solutions = os.path.realpath(files.solution.parent) + os.sep
        self._checks = os.path.realpath(files.checks.parent) + os.sep
        library = sysconfig.get_paths()
        roots = {library[name] for name in ("stdlib", "platstdlib", "purelib", "platlib")}
        roots |= {str(Path(os.__file__).parent), str(Path(__file__).parents[1])}
        self._trusted = tuple(root + os.sep for root in roots)
        standard = Path(os.__file__).parent
        packages = ("site-packages", "dist-packages")
        self._standard = (
            __file__,
            "<frozen ",
            *(str(each) for each in standard.iterdir() if each.name not in packages),
        )
        self._traceback = str(standard / "traceback.py")
        self._through = (__file__, *(str(standard / f"{name}.py") for name in _PASSED_THROUGH))
        linecache.getlines(str(files.checks))  # a traceback shows lines of it: read them now

    def begin(self) -> None:
        """Listen, and put the checker's modules out of the answer's reach: an import of one finds a copy of it."""
        sys.addaudithook(self._hear)
        self._kept = [sys.modules.pop(name) for name in list(sys.modules) if self._is_ours(name)]
        self._kept.append(sys.modules["__main__"])
        sys.modules["__main__"] = ModuleType("__main__")
        with contextlib.suppress(KeyError, AttributeError):
            delattr(sys.modules["kernels"], "exercises")

    @staticmethod
    def _is_ours(name: str) -> bool:
        return (name + ".").startswith("kernels.exercises.") and name != _OPEN_TO_ANSWERS

    def _hear(self, event: str, arguments: tuple) -> None:
        if event == "open":
            self._opened(arguments[0])
            return
        what = _LOOKS.get(event)
        if event == "object.__getattr__" and arguments[1] in _ATTRIBUTES:
            what = f"looks behind its own names (.{arguments[1]})"
        if what is None:
            return
        line = self._asks(self._through)
        if line is None:
            return
        place = f"{Path(self._answer).name}:{line}" if line else ""
        failure = Failure(f"The answer {what}; it stands on what it is given.", kind="looks-around", place=place)
        self.looked = self.looked or failure
        seen.end(failure)

    def _line_of_answer(self, frame: FrameType | None, through: tuple[str, ...]) -> int | None:
        """The line in which the answer asks, 0 where that is code it made; None where somebody else does."""
        while frame is not None and (frame.f_code.co_filename.startswith(through) or self._walks(frame)):
            frame = frame.f_back
        if frame is None:
            return None
        name = frame.f_code.co_filename
        if name == self._answer:
            return frame.f_lineno
        known = name.startswith(self._trusted) or name == str(self._files.checks) or name.startswith("<frozen ")
        return None if known else 0

    def _walks(self, frame: FrameType) -> bool:
        return frame.f_code.co_name in _WALKS and frame.f_code.co_filename == self._traceback

    def _opened(self, path: object) -> None:
        with contextlib.suppress(Exception):
            real = os.path.realpath(os.fsdecode(path))
            # torch.compile reads the lines of a check that it compiles; a solution is read by nobody.
            wanted = real.startswith(self._checks) and self._asks(self._standard) is not None
            if wanted or real.startswith(self._solutions):
                self.read = self.read or self._files.shown(Path(real))

    def _asks(self, through: tuple[str, ...]) -> int | None:
        """The line of the answer that does what is heard of, seen through those files; None where it is not it."""
        if self._busy:
            return None
        self._busy = True  # what is asked here is such an event itself
        try:
            return self._line_of_answer(sys._getframe(), through)
        finally:
            self._busy = False
