"""From an answer's text to a verdict: starts the warm process, asks it, and weighs what the checks gave."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from kernels.exercises import library, marks, worker
from kernels.exercises.library import Files
from kernels.exercises.model import FAIL, LOAD_ERROR, PASS, TODO, UNAVAILABLE, CheckResult, Failure, Verdict
from kernels.exercises.needs import lacking

SIZE_LIMIT = 1 << 20  # bytes of an answer
START_S = 300.0  # in which a warm process has imported what its checks need, also from a slow disk


class BrokenChecks(RuntimeError):
    """The check file, or the process that runs it, and not the answer, is at fault; the message names it."""


class Checker:
    """Keeps a warm process for each need. Use as a context manager."""

    def __init__(self) -> None:
        self._warm: dict[str, subprocess.Popen] = {}

    def __enter__(self) -> Checker:
        return self

    def __exit__(self, *exception: object) -> None:
        self.close()

    def close(self) -> None:
        """End the warm processes."""
        for process in self._warm.values():
            _close(process)
        self._warm.clear()

    def judge(
        self,
        files: Files,
        text: str,
        path: Path | None = None,
        *,
        brief: bool = False,
        heard: Callable[[CheckResult], None] | None = None,
    ) -> Verdict:
        """The verdict on an answer's text. `path` is the file that its lines belong to; left out, the learner's.

        brief: ask no more once one check has passed and one has failed. heard: told of each check as it ends.
        Raises BrokenChecks where the check file does not work, OSError where starter or checks cannot be read.
        """
        path = path or files.starter
        shown = files.shown(path)
        needs = library.described(files).needs
        if reason := lacking(needs):
            return Verdict(files.name, UNAVAILABLE, shown, sentence=f"These checks need {needs}: {reason}")
        look = _marks(files, text, shown)
        if look.refused or look.untouched:
            kind = LOAD_ERROR if look.refused else TODO
            return Verdict(files.name, kind, shown, sentence=look.refused or look.untouched, notes=look.notes)
        job = {
            "exercise": files.name,
            "root": str(files.root),
            "needs": needs,
            "text": text,
            "file": str(path),
            "solution": path == files.solution,
            "brief": brief,
        }
        try:
            results, titles = self._ask(needs, job, heard)
        except _NotReady as error:
            sentence = f"These checks need {needs}: it is installed, and cannot be imported: {error}"
            return Verdict(files.name, UNAVAILABLE, shown, sentence=sentence)
        return _weighed(files, shown, results, titles, look, brief)

    def _ask(
        self, needs: str, job: dict[str, Any], heard: Callable[[CheckResult], None] | None
    ) -> tuple[list[CheckResult], list[str]]:
        process = self._process(needs, job["root"])
        results: list[CheckResult] = []
        titles: list[str] = []
        broken = ""
        try:
            process.stdin.write(json.dumps(job) + "\n")
            process.stdin.flush()
        except OSError:  # no reader: the process has ended since it was last asked
            raise BrokenChecks(self._ended(needs)) from None
        for line in iter(process.stdout.readline, ""):
            message = json.loads(line)
            if "end" in message:  # read to here in every case: what is left would be taken for the next answer's
                if broken:
                    raise BrokenChecks(broken)
                return results, titles
            given, titles = message["result"], message["titles"]
            failure = Failure.of(given["failure"]) if given["failure"] else None
            result = CheckResult(**{**given, "failure": failure})
            if result.status == worker.BROKEN:
                broken = failure.sentence + (f"\n{failure.traceback}" if failure.traceback else "")
                continue
            results.append(result)
            if heard:
                heard(result)
        raise BrokenChecks(self._ended(needs))

    def _ended(self, needs: str) -> str:
        """Put the warm process away, which has ended or reads no more, and say so."""
        process = self._warm.pop(needs)
        _close(process)
        return f"the process that starts the checks ended with status {process.returncode}; ask again"

    def _process(self, needs: str, root: str) -> subprocess.Popen:
        process = self._warm.get(needs)
        if process is not None and process.poll() is None:
            return process
        if process is not None:
            _close(self._warm.pop(needs))
        process = None
        try:
            with _interrupted_afterwards() as interrupted:  # or a process begins of which nobody knows
                process = subprocess.Popen(
                    [sys.executable, "-m", "kernels.exercises.warm", needs],
                    stdin=subprocess.PIPE,
                    stdout=subprocess.PIPE,
                    env=environment(needs),
                    cwd=root,
                    text=True,
                    encoding="utf-8",
                    start_new_session=True,  # Ctrl-C is for the one who asks, who then closes this
                )
            if interrupted:
                raise KeyboardInterrupt
            _wait_until_ready(process)
            self._warm[needs] = process
        except BaseException:  # Ctrl-C at any moment of this: nobody else knows of the process yet
            if process is not None:
                process.kill()
                _close(process)
            raise
        return process


def _wait_until_ready(process: subprocess.Popen) -> None:
    """Raise _NotReady with the reason where a process just started ends, or takes too long, or cannot import."""
    stuck = threading.Timer(START_S, process.kill)
    stuck.daemon = True  # or Ctrl-C in the moment of its start leaves the command waiting for it
    try:
        stuck.start()
        line = process.stdout.readline()
    finally:
        late = not stuck.is_alive()
        stuck.cancel()
    ended = f"its process {f'did not answer within {START_S:g} s' if late else 'ended at once'}"
    answer = json.loads(line) if line else {"ready": False, "reason": ended}
    if not answer["ready"]:
        raise _NotReady(answer["reason"])


@contextlib.contextmanager
def _interrupted_afterwards() -> Iterator[list[int]]:
    """Ctrl-C during this is put into the list that it gives, and interrupts nothing. Other threads get none anyway."""
    came: list[int] = []
    if threading.current_thread() is not threading.main_thread():
        yield came
        return
    before = signal.signal(signal.SIGINT, lambda number, _: came.append(number))
    try:
        yield came
    finally:
        signal.signal(signal.SIGINT, signal.SIG_DFL if before is None else before)


def _close(process: subprocess.Popen) -> None:
    """End a warm process, which ends by itself when its standard input does, and close what leads to it."""
    with contextlib.suppress(OSError):
        process.stdin.close()
    try:
        process.wait(2)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()
    process.stdout.close()


class _NotReady(RuntimeError):
    """The warm process could not import what the checks need."""


def environment(needs: str) -> dict[str, str]:
    """The environment of the checks: the same everywhere, Triton interpreted unless the checks need a GPU."""
    package = str(Path(__file__).resolve().parents[2])
    found = {key: value for key, value in os.environ.items() if key not in ("TRITON_INTERPRET", "PYTHONSTARTUP")}
    found |= {
        "OMP_NUM_THREADS": "1",
        "PYTHONDONTWRITEBYTECODE": "1",
        "PYTHONHASHSEED": "0",
        "PYTHONPATH": os.pathsep.join(filter(None, [package, os.environ.get("PYTHONPATH", "")])),
        "PYTHONUTF8": "1",
    }
    if needs == "triton":
        found |= {"TRITON_INTERPRET": "1", "CUDA_VISIBLE_DEVICES": ""}
    return found


class _Look:
    """What the marks say of an answer before it runs."""

    def __init__(self) -> None:
        self.refused = ""
        self.untouched = ""
        self.notes: tuple[str, ...] = ()
        self.naive: list[marks.Region] = []  # as shipped, with code that works and is not the answer
        self.shipped: list[marks.Region] = []


def _marks(files: Files, text: str, shown: str) -> _Look:
    look = _Look()
    back = f"git checkout -- {files.shown(files.starter)} brings the starter back; keep a copy of what you wrote"
    solution = marks.marked(files.solution.read_text(encoding="utf-8"), files.shown(files.solution))
    if len(text.encode("utf-8", "replace")) > SIZE_LIMIT:
        look.refused = f"{shown} holds more than {SIZE_LIMIT:,} bytes, which is no answer to an exercise. {back}."
        return look
    try:
        answer = marks.marked(text, shown)
    except marks.MarksDamaged as error:
        look.refused = f"{error}. Put the mark back, or: {back}."
        return look
    if len(answer.regions) != len(solution.regions):
        look.refused = (
            f"{shown} has {len(answer.regions)} regions between `{marks.START}` and `{marks.END}`, the starter has "
            f"{len(solution.regions)}, so it cannot be told what is yours. Put the marks back, or: {back}."
        )
        return look
    look.shipped = marks.as_shipped(answer, library.shipped(files))
    look.naive = [region for region in look.shipped if not region.asks]
    if change := marks.first_change(answer, solution):
        number, line, was = change
        what = f"is `{line}`" if line else "is the last one"
        was = f"; the starter has `{was}` there" if was else "; the starter ends before it"
        look.notes = (f"Outside the marks, {shown}:{number} {what}{was}. It is checked as it stands.",)
    if solution.regions and len(look.shipped) == len(solution.regions):
        first = answer.regions[0]
        many = len(solution.regions)
        where = f"{shown}:{first.first - 1}"
        which = "The region between the marks stands" if many == 1 else f"All {many} regions between the marks stand"
        look.untouched = f"{which} as shipped; begin at {where}, below `{marks.START}`."
    return look


def _weighed(
    files: Files, shown: str, results: list[CheckResult], titles: list[str], look: _Look, brief: bool
) -> Verdict:
    statuses = {result.status for result in results}
    notes, sentence = look.notes, ""
    if LOAD_ERROR in statuses:
        first = next(result for result in results if result.status == LOAD_ERROR)
        kind, sentence = LOAD_ERROR, first.failure.sentence
    elif look.naive:
        lines = ", ".join(str(region.first) for region in look.naive)
        kind, sentence = TODO, f"A region stands as shipped: {shown}, line {lines}."
    elif FAIL in statuses:
        kind = FAIL
    elif TODO in statuses or look.shipped:
        kind = TODO
        asked = next((result.failure.sentence for result in results if result.status == TODO and result.failure), "")
        lines = ", ".join(str(region.first) for region in look.shipped)
        sentence = asked or f"A region stands as shipped: {shown}, line {lines}."
    elif statuses == {PASS} and (brief or len(results) == len(titles)):
        kind = PASS
    else:
        kind, sentence = FAIL, "No check ran, so nothing has passed."
    return Verdict(files.name, kind, shown, tuple(results), sentence, notes)
