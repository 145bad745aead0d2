"""The process that runs one page: its blocks in order, their output taken at the file descriptors.

A job is a dictionary (see `run_job`); what happens is told on another descriptor, one JSON document a line:
``{"event": "start", "id": …}`` before a block, ``{"event": "end", "id": …, "ok": …, …}`` after it, and the same for
inline values. A crash is the absence of an end.
"""

from __future__ import annotations

import contextlib
import ctypes
import io
import json
import linecache
import os
import re
import subprocess
import sys
import tempfile
import time
import traceback
import warnings
from pathlib import Path
from types import ModuleType
from typing import Any

_READ_LIMIT = 64 * 1024 * 1024
_QUIET = ("build/", "site/", ".lessons/", ".venv", ".git/", "results/local/", "lessons_src/outputs/")


class Telltale:
    """Notes which files and folders of the project are read, through Python's audit events."""

    def __init__(self, root: str, page: str) -> None:
        self.root = root.rstrip(os.sep) + os.sep
        self.page = page
        self.read: set[str] = set()
        self.active = False
        sys.addaudithook(self._hear)

    def _hear(self, event: str, arguments: tuple) -> None:
        if not self.active or event not in ("open", "os.listdir", "os.scandir"):
            return
        path = arguments[0]
        if event == "open" and isinstance(arguments[1], str) and set(arguments[1]) & set("wax+"):
            return
        if event == "open" and arguments[1] is None and arguments[2] & (os.O_WRONLY | os.O_RDWR):
            return
        with contextlib.suppress(Exception):
            full = os.path.abspath(os.fsdecode(path if path is not None else "."))  # noqa: PTH100 (called for every open)
            if not full.startswith(self.root) or full == self.page:
                return
            if event == "open" and os.path.isdir(full):  # noqa: PTH112 (opened to remove what is in it)
                return
            relative = full[len(self.root) :].replace(os.sep, "/")
            code = relative.endswith((".py", ".pyc", ".cu", ".cuh")) or "__pycache__" in relative
            # What `import` lists and reads is known from the modules; CUDA sources from the names in the code. What an
            # installer wrote beside them is not in every checkout.
            listing = event != "open" and (
                relative.startswith(("kernels", "cuda"))
                or sys._getframe(1).f_code.co_filename.startswith("<frozen importlib")
            )
            first = relative.partition("/")[0]
            installed = first.startswith("__editable__") or first.endswith((".egg-info", ".dist-info"))
            if not (code or listing or installed or relative.startswith(_QUIET)):
                self.read.add(relative)


def run_job(job: dict[str, Any], channel: io.TextIOBase) -> None:
    """Run the items of `job` and tell on `channel` what happens.

    Keys: ``root``, ``page`` (absolute path), ``items``: blocks ``{"kind": "block", "id", "line", "code", "language",
    "session", "returncode", "raises", "replay"}`` and inline values ``{"kind": "inline", "id", "line", "expression"}``.
    """
    os.chdir(job["root"])
    own = os.getpid()
    telltale = Telltale(job["root"], job["page"])
    capture = Capture()
    sessions: dict[str, ModuleType] = {}
    surroundings = Surroundings()
    broken: dict[str, str] = {}
    lines: dict[int, str] = {}
    for item in job["items"]:
        session = item.get("session", "")
        if session in broken:
            _tell(channel, event="end", id=item["id"], ok=False, skipped=broken[session])
            continue
        _tell(channel, event="start", id=item["id"])
        module = sessions.get(session) or _new_session(session, job["page"])
        sessions[session] = module
        surroundings.enter(session)
        telltale.active = True
        began = time.perf_counter()
        if item["kind"] == "inline":
            report = _run_inline(item, module, job["page"])
        else:
            report = _run_block(item, module, job["page"], lines, capture)
        if os.getpid() != own:
            os._exit(0)  # the child of a block that forked: the page goes on in its parent alone
        telltale.active = False
        surroundings.leave(session)
        report["seconds"] = time.perf_counter() - began
        report["modules"] = _project_modules(telltale.root)
        report["data"] = sorted(telltale.read)
        if not report["ok"] and item["kind"] == "block":
            broken[session] = item["id"]
        _tell(channel, event="end", id=item["id"], **report)


def _run_block(
    item: dict[str, Any], module: ModuleType, page: str, lines: dict[int, str], capture: Capture
) -> dict[str, Any]:
    from kernels.lessons.page import take_values

    take_values()
    stale: list[str] = []
    with capture, _collected_warnings(stale):
        error = _run_shell(item) if item["language"] == "bash" else _run_python(item, module, page, lines)
    text = capture.text
    return {"ok": error is None, "error": error, "text": text, "values": take_values(), "stale": stale}


def _run_python(item: dict[str, Any], module: ModuleType, page: str, lines: dict[int, str]) -> str | None:
    first = item["line"] + 1
    for number, text in enumerate(item["code"].split("\n"), first):
        lines[number] = text
    # inspect, tracebacks and Triton read a page's functions from here: the code at its real lines, the prose blank.
    content = [lines.get(number, "") + "\n" for number in range(1, max(lines) + 1)]
    linecache.cache[page] = (len(content), None, content, page)
    expected = item.get("raises", "")
    try:
        exec(compile("\n" * (first - 1) + item["code"], page, "exec", dont_inherit=True), module.__dict__)
    except BaseException as error:
        if expected and expected in {base.__name__ for base in type(error).__mro__}:
            print("".join(traceback.format_exception_only(error)).rstrip())
            return None
        return _told(error, page, item)
    finally:
        with contextlib.suppress(Exception):
            sys.stdout.flush()
            sys.stderr.flush()
    if expected:
        return f"line {first}: the block should raise {expected}, and ended without an exception"
    return None


def _told(error: BaseException, page: str, item: dict[str, Any]) -> str:
    """The traceback from the page's frame on, headed by the line of the page at which the block failed."""
    frames = traceback.extract_tb(error.__traceback__)
    while frames and frames[0].filename != page:
        frames.pop(0)
    inner = [frame.lineno for frame in frames if frame.filename == page and frame.lineno]
    line = inner[-1] if inner else getattr(error, "lineno", None) or item["line"]
    if isinstance(error, SyntaxError) and error.filename == page and error.lineno:
        line = error.lineno
    if isinstance(error, SystemExit):
        head = f"line {line}: the block called sys.exit({error.code!r}); a block ends by reaching its last line"
    else:
        head = f"line {line}: {traceback.format_exception_only(error)[-1].strip()}"
    body = "".join(traceback.format_list(frames) + traceback.format_exception_only(error))
    return f"{head}\nTraceback (most recent call last):\n{body}".rstrip()


def _run_shell(item: dict[str, Any]) -> str | None:
    try:
        done = subprocess.run(["bash", "-euo", "pipefail", "-c", item["code"]], stdin=subprocess.DEVNULL, check=False)
    except OSError as error:
        return f"line {item['line']}: bash cannot be started: {error}"
    if done.returncode != item["returncode"]:
        return (
            f"line {item['line']}: the shell block ended with status {done.returncode}, expected {item['returncode']}"
        )
    return None


def _run_inline(item: dict[str, Any], module: ModuleType, page: str) -> dict[str, Any]:
    stale: list[str] = []
    try:
        code = compile("\n" * (item["line"] - 1) + item["expression"], page, "eval", dont_inherit=True)
        with _collected_warnings(stale):
            text = str(eval(code, module.__dict__))
        if not text.isprintable() or " => " in item["expression"]:
            raise ValueError(f"an inline value is one line of text, this is {text!r}")
        return {"ok": True, "error": None, "text": text, "values": {}, "stale": stale}
    except BaseException as error:
        message = f"line {item['line']}: {item['expression']}: {traceback.format_exception_only(error)[-1].strip()}"
        return {"ok": False, "error": message, "text": "", "values": {}, "stale": []}


def _new_session(name: str, page: str) -> ModuleType:
    """A module of its own, so that dataclasses, pickle and Triton find what a block defines."""
    own = re.sub(r"\W", lambda match: f"_{ord(match[0]):x}_", name) if name != "default" else "default_"
    module = ModuleType(f"lesson_page_{own or 'default'}")
    module.__file__ = page
    sys.modules[module.__name__] = module
    return module


def _project_modules(root: str) -> list[str]:
    found = []
    for name, module in list(sys.modules.items()):
        file = getattr(module, "__file__", None)
        own = isinstance(file, str) and file.startswith(root) and file.endswith(".py")
        if own and not file[len(root) :].startswith((".venv", "build")) and name != "__main__":
            found.append(name)
    return sorted(name for name in found if name != "kernels" and not name.startswith("kernels.lessons"))


@contextlib.contextmanager
def _collected_warnings(stale: list[str]):
    """Set aside warnings about stale records: the engine judges them. Others are printed, at the page's line."""
    with warnings.catch_warnings():
        warnings.simplefilter("default")
        show = warnings.showwarning

        def hear(message, category, filename, lineno, file=None, line=None):
            if category.__name__ == "StaleRecord":
                stale.append(str(message))
            else:
                show(message, category, filename, lineno, file, line)

        warnings.showwarning = hear
        yield


class Surroundings:
    """The environment variables and the working folder of each session: what one sets, no other session sees."""

    def __init__(self) -> None:
        self._first = dict(os.environ), os.getcwd()  # noqa: PTH109 (compared and given back as text)
        self._kept: dict[str, tuple[dict[str, str], str]] = {}

    def enter(self, session: str) -> None:
        """Put back what the session left, or what the process began with."""
        environment, folder = self._kept.get(session, self._first)
        if environment != os.environ:
            os.environ.clear()
            os.environ.update(environment)
        with contextlib.suppress(OSError):
            os.chdir(folder)

    def leave(self, session: str) -> None:
        """Remember what the session leaves."""
        with contextlib.suppress(OSError):  # its folder may be gone
            self._kept[session] = dict(os.environ), os.getcwd()  # noqa: PTH109


class Capture:
    """Takes what is written to descriptors 1 and 2, by Python, C, CUDA and child processes, in the order written."""

    def __init__(self) -> None:
        self.text = ""
        with contextlib.suppress(Exception):  # C's own buffer would come after Python's output
            libc = ctypes.CDLL(None)
            self._fflush = libc.fflush
            libc.setvbuf(ctypes.c_void_p.in_dll(libc, "stdout"), None, 2, 0)
        self._streams = tuple(
            io.TextIOWrapper(io.FileIO(descriptor, "w", closefd=False), "utf-8", "replace", write_through=True)
            for descriptor in (1, 2)
        )

    def __enter__(self) -> Capture:
        sys.stdout, sys.stderr = self._streams  # a block before may have put others there
        self._file = tempfile.TemporaryFile()
        self._saved = os.dup(1), os.dup(2)
        os.dup2(self._file.fileno(), 1)
        os.dup2(self._file.fileno(), 2)
        return self

    def __exit__(self, *exception: object) -> None:
        with contextlib.suppress(Exception):
            sys.stdout.flush()
            sys.stderr.flush()
            self._fflush(None)
        for target, saved in zip((1, 2), self._saved):
            os.dup2(saved, target)
            os.close(saved)
        self._file.seek(0)
        data = self._file.read(_READ_LIMIT)
        size = os.fstat(self._file.fileno()).st_size
        self._file.close()
        self.text = data.decode("utf-8", "replace")
        if size > _READ_LIMIT:
            self.text += f"\n[… {size:,} bytes were written; only the first {_READ_LIMIT:,} were read]"


def _tell(channel: io.TextIOBase, **message: Any) -> None:
    channel.write(json.dumps(message) + "\n")
    channel.flush()


def main() -> None:
    """Run the job in the file that is named, telling on standard output: for systems without `fork`."""
    job = json.loads(Path(sys.argv[1]).read_text(encoding="utf-8"))
    channel = os.fdopen(os.dup(1), "w", encoding="utf-8")
    run_job(job, channel)
    _tell(channel, event="exit", status=0)


if __name__ == "__main__":
    main()
