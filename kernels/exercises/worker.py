"""The process in which one check looks at one answer. It is forked for that check alone, and ends with it.

What happens is told on a pipe, one JSON document a line, each behind a token that the answer does not know: whatever
else an answer writes there is not read. A process that ends without its last line has not passed.
"""

from __future__ import annotations

import builtins
import contextlib
import json
import linecache
import os
import sys
import time
import traceback
from collections.abc import Callable, Iterator
from pathlib import Path
from types import BuiltinFunctionType, FunctionType, ModuleType
from typing import Any

from kernels.exercises import library
from kernels.exercises.expect import CheckFailed, filled, seen, shown
from kernels.exercises.guard import Guard
from kernels.exercises.marks import names
from kernels.exercises.model import ANSWERS_NAME, FAIL, LOAD_ERROR, PASS, TODO, Check, CheckResult, Exercise, Failure

BROKEN = "BROKEN"  # the check file itself does not work
CLOSED = 81  # the status of a process whose answer closed the pipe
_FRAMES = 12
# Of large libraries only what compares and what references are made of: looking at all of it takes long.
_SOME = {
    "torch": ("allclose", "empty", "equal", "full", "isnan", "log_softmax", "matmul", "softmax", "sum", "zeros"),
    "numpy": ("allclose", "array", "array_equal", "asarray", "isnan", "unique"),
}
_WHOLE = ("json", "math", "random", "statistics")
_SIMPLE = {int, float, str, bool}


def look(job: dict[str, Any], number: int, tell: Callable[[dict[str, Any]], None]) -> None:
    """Run check `number` of the job's exercise on the job's answer, and tell what came of it.

    job: `exercise`, `root`, `text` and `file` (the absolute path that the answer's code belongs to).
    """
    began, owner = time.perf_counter(), os.getpid()
    files = library.Files(job["exercise"], Path(job["root"]))
    try:
        module = library.module_of(files)
        exercise = module.EXERCISE
        check = exercise.checks[number]
    except BaseException as error:
        told = "".join(traceback.format_exception(error, limit=-_FRAMES))
        sentence = f"{files.shown(files.checks)} cannot be used: {_last(error)}"
        tell({"result": as_message(CheckResult("", BROKEN, Failure(sentence, kind="checks", traceback=told)))})
        return
    tell({"phase": "answer", "titles": [each.title for each in exercise.checks], "seconds": check.seconds})
    held, wanted = _Held(module), _names(files)
    guard = Guard(files, job["file"])
    guard.begin()
    status, failure, answer = _load(job, files, wanted, lambda: tell({"phase": "check", "title": check.title}))
    if answer is not None:
        status, failure = _ask(check, answer, job["file"], str(files.checks))
    if os.getpid() != owner:  # an answer that forked returns here twice
        os._exit(0)
    if changed := held.changed():
        sentence = f"The answer changed {changed}, which the checks stand on; nothing they say of it can be believed."
        status, failure = FAIL, Failure(sentence, kind="tampered", cause="the name was assigned to, or patched")
    elif guard.looked:
        status, failure = FAIL, guard.looked
    elif guard.read and not job.get("solution"):
        sentence = f"The answer reads {guard.read}; an answer stands on its own."
        status, failure = FAIL, Failure(sentence, kind="reads-solution")
    elif status == PASS and not seen.compared:
        sentence = "The check ended without comparing anything, so it has not passed."
        why = "the answer returned nothing to look at: a count of 0, an empty list"
        status, failure = FAIL, Failure(sentence, kind="vacuous", cause=why)
    if failure is not None and status == FAIL:
        failure = filled(failure, anchor=check.anchor, **_thoughts(check, failure))
    elapsed = time.perf_counter() - began
    tell({"result": as_message(CheckResult(check.title, status, failure, seen.compared, elapsed))})


def as_message(result: CheckResult) -> dict[str, Any]:
    """A result as JSON can hold it."""
    failure = result.failure.as_json() if result.failure else None
    return {**result.__dict__, "failure": failure}


def _load(job: dict[str, Any], files: library.Files, wanted: list[str], loaded: Callable[[], None]):
    """The answer as a module of its own; else a status and the reason."""
    file, text, name = job["file"], job["text"], f"{ANSWERS_NAME}{job['exercise']}"
    linecache.cache[file] = (len(text), None, text.splitlines(keepends=True), file)  # Triton and tracebacks read here
    module = ModuleType(name)
    module.__file__ = file
    sys.modules[name] = module
    short = files.shown(Path(file))
    try:
        code = compile(text, file, "exec", dont_inherit=True)
        exec(code, module.__dict__)
    except SyntaxError as error:
        line = error.lineno or 1
        where = f"{short}:{line}" if error.filename == file else short
        pointed = (error.text or "").rstrip()
        return LOAD_ERROR, Failure(f"{where}: {error.msg}", kind="syntax", place=where, got=pointed.strip()), None
    except BaseException as error:
        if seen.failure is not None:
            return FAIL, seen.failure, None
        if asks_still(error, file):
            return TODO, Failure(_last(error), kind="todo", place=_where(error, file, files)), None
        return LOAD_ERROR, _unloaded(error, file, files), None
    for missing in wanted:
        if not hasattr(module, missing):
            sentence = f"{short} defines no `{missing}`, which the checks use; was it renamed or removed?"
            return LOAD_ERROR, Failure(sentence, kind="missing", place=f"{short}:1"), None
    loaded()
    return PASS, None, module


def _names(files: library.Files) -> list[str]:
    """What of the solution's own names the check file mentions: an answer has these; its other names are its own."""
    with contextlib.suppress(OSError, SyntaxError):
        checks = files.checks.read_text(encoding="utf-8")
        return [name for name in names(files.solution.read_text(encoding="utf-8")) if f"answer.{name}" in checks]
    return []


def _unloaded(error: BaseException, file: str, files: library.Files) -> Failure:
    where = _where(error, file, files)
    if isinstance(error, SystemExit):
        sentence = f"{where}: the file calls sys.exit({error.code!r}) while it is loaded; it only defines functions"
    elif isinstance(error, RecursionError):
        sentence = f"{where}: RecursionError: a function calls itself without an end"
    else:
        sentence = f"{where}: {_last(error)}"
    told = "".join(traceback.format_exception(error, limit=-_FRAMES))
    return Failure(sentence, kind="load", place=where, traceback=told)


def _ask(check: Check, answer: ModuleType, file: str, checks: str) -> tuple[str, Failure | None]:
    """Run the check. A failure that the answer caught on its way still counts."""
    try:
        check.run(answer)
    except CheckFailed as error:
        return FAIL, filled(seen.failure or error.failure, given=_locals(error, checks))
    except BaseException as error:
        if seen.failure is not None:
            return FAIL, seen.failure
        if asks_still(error, file):
            return TODO, Failure(_last(first_cause(error)), kind="todo")
        return _raised(error, answer, file, checks)
    return (PASS, None) if seen.failure is None else (FAIL, seen.failure)


def _raised(error: BaseException, answer: ModuleType, file: str, checks: str) -> tuple[str, Failure]:
    if isinstance(error, AttributeError) and error.obj is answer:
        sentence = f"{Path(file).name} defines no `{error.name}`, which the check uses"
        return LOAD_ERROR, Failure(sentence, kind="missing", place=f"{Path(file).name}:1")
    cause = first_cause(error)
    told = "".join(traceback.format_exception(error, limit=-_FRAMES))
    line = _line(cause, file) or _line(error, file)
    place = f"{Path(file).name}:{line}" if line else ""
    code = linecache.getline(file, line).strip() if line else ""
    why = ""
    if isinstance(cause, SystemExit):
        sentence = f"The answer calls sys.exit({cause.code!r}). A function that is asked ends with `return`."
    elif isinstance(cause, RecursionError):
        sentence, why = "The answer calls itself without an end (RecursionError).", "a recursion without its last case"
    elif isinstance(cause, MemoryError):
        sentence, why = "The answer asks for more memory than a check may use (MemoryError).", "a list that never ends"
    elif isinstance(cause, EOFError) and not line:
        sentence = "The answer reads its input (EOFError); a check gives it none."
    elif line:
        sentence, why = f"The answer raises {_last(cause)}", _slip(cause)
    else:
        sentence = f"The check cannot use what the answer gave: {_last(cause)}"
    given = _locals(error, checks)
    failure = Failure(
        sentence, kind="raised", given=given, at=place, got=code, cause=why, place=place, traceback=told
    )  # fmt: skip
    return FAIL, failure


def _thoughts(check: Check, failure: Failure) -> dict[str, str]:
    """The check's own cause and hint; they explain wrong results, so an error gets neither."""
    return {} if failure.kind == "raised" else {"cause": check.cause, "hint": check.hint}


def _slip(error: BaseException) -> str:
    """What an error of Python's own words usually means, "" where they may mean anything."""
    if isinstance(error, NameError):
        return "the name is not defined where this line runs"
    if isinstance(error, TypeError) and "unsupported operand" in str(error):
        return "values of these types do not go together; a list, say, is computed with element by element"
    return ""


def first_cause(error: BaseException) -> BaseException:
    """What was raised first: Triton's interpreter raises an error of its own from it."""
    found = error
    for _ in range(_FRAMES):
        if found.__cause__ is None or isinstance(found.__cause__, CheckFailed):
            return found
        found = found.__cause__
    return found


def asks_still(error: BaseException, file: str) -> bool:
    """Whether it is the NotImplementedError of a region that is not filled in, and not one of a library."""
    root = first_cause(error)
    return isinstance(root, NotImplementedError) and _frames(root)[-1:] == [file]


def _frames(error: BaseException) -> list[str]:
    return [frame.filename for frame in traceback.extract_tb(error.__traceback__)]


def _line(error: BaseException, file: str) -> int:
    """The innermost line of the answer in a traceback, 0 where it has none."""
    lines = [frame.lineno for frame in traceback.extract_tb(error.__traceback__) if frame.filename == file]
    return (lines[-1] or 0) if lines else 0


def _where(error: BaseException, file: str, files: library.Files) -> str:
    return f"{files.shown(Path(file))}:{_line(error, file) or 1}"


def _last(error: BaseException) -> str:
    """`ValueError: no such shape`, cut where it is long."""
    text = " ".join(traceback.format_exception_only(error)[-1].split())
    return text if len(text) <= 300 else text[:299] + "…"


def _locals(error: BaseException, checks: str) -> str:
    """The plain variables of the check where it called the answer: `n = 257, block = 256`."""
    found: dict[str, object] = {}
    step = error.__traceback__
    while step is not None:
        if step.tb_frame.f_code.co_filename == checks:
            found = dict(step.tb_frame.f_locals)
        step = step.tb_next
    plain = {
        name: value
        for name, value in found.items()
        if not name.startswith("_")
        and (type(value) in _SIMPLE or (type(value) is tuple and len(value) <= 8 and {*map(type, value)} <= _SIMPLE))
    }
    told = [plain.pop("given")] if isinstance(plain.get("given"), str) else []  # a check's own words for its input
    plain = {name: value for name, value in plain.items() if not any(f"{name} = " in words for words in told)}
    return ", ".join(told + [f"{name} = {shown(value, 60)}" for name, value in list(plain.items())[:6]])


class _Held:
    """The names that a check stands on, as they were before the answer was loaded."""

    def __init__(self, checks: ModuleType) -> None:
        self._places = list(self._all(checks))
        self._before = [self._look(place, names) for _, place, names in self._places]

    def _all(self, checks: ModuleType) -> Iterator[tuple[str, Any, tuple[str, ...]]]:
        own = ("kernels.exercises", "kernels.trace", "kernels.ops", "kernels.sources")
        for name, module in list(sys.modules.items()):
            if name.startswith(own) or name in _WHOLE:
                yield name, module, ()
                for key, each in list(vars(module).items()):
                    if isinstance(each, type) and each.__module__ == name:
                        yield f"{name}.{key}", each, ()
            elif name in _SOME:
                yield name, module, _SOME[name]
        yield "builtins", builtins, ()
        yield library.CHECKS, checks, ()

    @staticmethod
    def _look(place: Any, names: tuple[str, ...]) -> dict[str, tuple[Any, Any]]:
        kept = (FunctionType, BuiltinFunctionType, type, staticmethod, classmethod, property)
        found = vars(place)
        return {
            key: (found[key], getattr(found[key], "__code__", None))
            for key in names or list(found)
            if key in found and (isinstance(found[key], (*kept, Exercise)) or found[key] is seen)
        }

    def changed(self) -> str:
        """The first of the names that is not what it was, "" where all are."""
        for (name, place, _), before in zip(self._places, self._before, strict=True):
            now = vars(place)
            for key, (value, code) in before.items():
                if now.get(key) is not value or getattr(value, "__code__", None) is not code:
                    return f"{name}.{key}"
        return ""


def teller(descriptor: int, token: str) -> Callable[[dict[str, Any]], None]:
    """What writes a message to the pipe; the process ends with `CLOSED` where the answer has closed it."""
    getpid, owner, write, leave, dumps = os.getpid, os.getpid(), os.write, os._exit, json.dumps

    def tell(message: dict[str, Any]) -> None:
        if getpid() != owner:
            leave(0)
        data = f"\n{token} {dumps(message)}\n".encode("utf-8", "backslashreplace")
        try:
            while data:
                data = data[write(descriptor, data) :]
        except OSError:
            leave(CLOSED)

    return tell
