"""Runs all kernel paths under the four tools, side by side, and makes the record of it.

First without a tool (compiles everything, and finds out what each path launches), then for each tool in two kinds of
process: one for the paths as they are, one in which every kernel in turn has a fault. A path that hangs or ends its
process is noted as not run, and the others go on in a new one.
"""

from __future__ import annotations

import contextlib
import dataclasses
import itertools
import json
import os
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from kernels.bench.sanitizer.plants import TOOLS, Sees, nothing_to_see
from kernels.bench.sanitizer.record import UNREPORTED, Check, PathRecord, Plant
from kernels.bench.sanitizer.reports import Log, Report, is_finding, read_log
from kernels.bench.sanitizer.worker import symbol
from kernels.sources import project_root

Task = tuple[int, str | None]  # the place of a path, and the kernel that has a fault
NO_TIME = "The time of the run was over."
NOT_ASKED = "This run was not asked for it."
HELPERS = ("_sum_partials", "_clear")  # kernels of no operator of their own: planted once for each dtype


@dataclass(frozen=True)
class Limits:
    """Seconds for everything; for a path without news; for a process to start; how many processes run side by side, and
    the command that each of them is."""

    total: float = 120.0
    stall: float = 30.0
    start: float = 60.0
    jobs: int = 16
    worker: tuple[str, ...] = (sys.executable, "-m", "kernels.bench.sanitizer.worker")


@dataclass
class Outcome:
    """What became of a task: what it launched, the tool's reports about it, or why it did not run."""

    launched: dict[str, dict[str, Any]] = field(default_factory=dict)
    reports: list[Report] = field(default_factory=list)
    reason: str | None = None


@dataclass
class Attempt:
    """One process: tasks that it finished, the one that it ended in, and the log of the tool."""

    done: dict[Task, dict[str, Any]] = field(default_factory=dict)
    current: Task | None = None
    ended: bool = False
    silent: bool = False
    why: str = "Its process ended there."
    log: Log = field(default_factory=Log)


_turns = itertools.count()


def tool_command(sanitizer: str, tool: str, log: Path) -> list[str]:
    """The command line before that of the process which is watched. Every report is wanted, with the names of the
    functions around it, a faulty kernel must not end the process, and tools that run side by side need ports of their
    own and patience while PyTorch starts."""
    command = [sanitizer, "--tool", tool, "--log-file", str(log), "--print-limit", "0", "--show-backtrace", "device"]
    command += ["--destroy-on-device-error", "kernel", "--target-processes", "application-only"]
    command += ["--launch-timeout", "120", "--port", str(49152 + 16 * (next(_turns) % 1000))]
    return command + (["--report-api-errors", "no"] if tool == "memcheck" else [])


def _end(process: subprocess.Popen, worker: int | None) -> None:
    """Ends the watched process first, so that the tool can still sum up; then the tool."""
    if worker is not None:
        with contextlib.suppress(OSError):
            os.kill(worker, 9)
    with contextlib.suppress(subprocess.TimeoutExpired):
        process.wait(timeout=5)
        return
    with contextlib.suppress(OSError):
        os.killpg(process.pid, 9)
    process.wait()


def attempt(
    tool: str, phase: str, tasks: Sequence[Task], folder: Path, sanitizer: str | None, limits: Limits, until: float
) -> Attempt:
    """Run the tasks in one process until it ends, says nothing for too long, or the time is over."""
    folder.mkdir(parents=True)
    wanted, progress, log = folder / "tasks.json", folder / "progress.jsonl", folder / "log.txt"
    wanted.write_text(json.dumps(tasks), encoding="utf-8")
    command = [*limits.worker, tool, phase, str(wanted), str(progress)]
    if sanitizer:
        command = [*tool_command(sanitizer, tool, log), *command]
    environment = os.environ | {"PYTORCH_NO_CUDA_MEMORY_CACHING": "1"}
    environment.pop("TRITON_INTERPRET", None)
    made, read, news, worker = Attempt(), 0, time.monotonic(), None
    with (folder / "output.txt").open("wb") as output:
        process = subprocess.Popen(
            command,
            cwd=project_root(),
            stdout=output,
            stderr=subprocess.STDOUT,
            env=environment,
            start_new_session=True,
        )
        while True:
            ended = process.poll() is not None
            lines = progress.read_bytes().split(b"\n")[:-1] if progress.exists() else []
            for line in lines[read:]:
                words, news = json.loads(line), time.monotonic()
                worker = words.get("pid", worker)
                if "begin" in words:
                    made.current = tuple(words["begin"])
                elif "done" in words:
                    made.done[tuple(words["done"])], made.current = words, None
                made.ended = made.ended or "end" in words
            read = len(lines)
            if ended:
                break
            now = time.monotonic()
            if now > until:
                made.why, made.current = NO_TIME, None
            elif now - news > (limits.stall if read > 1 else limits.start):
                made.why, made.silent = f"It said nothing for {now - news:.0f} s, and was stopped.", True
            else:
                time.sleep(0.05)
                continue
            _end(process, worker)
            break
    made.log = read_log(log.read_text(errors="replace")) if log.exists() else Log()
    return made


def settle(
    tool: str | None, made: Attempt, tasks: Sequence[Task], symbols: Callable[[Task], list[str]]
) -> tuple[dict[Task, Outcome], list[Task], int]:
    """What is known after an attempt, the tasks to try again, and how many reports name none of its kernels.

    A task counts as run where the tool came to its summary; in a log that was cut off, only where it was reported.
    """
    known: dict[Task, Outcome] = {}
    found = [report for report in made.log.reports if is_finding(report)]
    named_by = {task: list(dict.fromkeys(symbols(task))) for task in tasks}  # a name said twice is one kernel's still
    uses = Counter(name for names in named_by.values() for name in names)
    for (_, planted), names in named_by.items():  # whose fault a report of a shared function tells cannot be known
        names[:] = [name for name in names if planted is None or uses[name] == 1]
    by_task = {task: [r for r in found if any(map(r.names, names))] for task, names in named_by.items()}
    named = {id(report) for reports in by_task.values() for report in reports}
    for task, words in made.done.items():
        if words["error"] and not by_task[task]:
            known[task] = Outcome(words["launched"], [], words["error"])
        elif tool is None or made.log.complete or by_task[task]:
            known[task] = Outcome(words["launched"], by_task[task])
    if made.current is not None:
        reports = by_task[made.current]
        known[made.current] = Outcome({}, reports, None if reports else made.why)
    again = [task for task in tasks if task not in known]
    return known, again, sum(id(report) not in named for report in found)


def _lane(tool, phase, tasks, folder, sanitizer, limits, until, symbols):
    """All tasks of one kind, in as many processes as it takes."""
    known: dict[Task, Outcome] = {}
    pending, unattributed, number = list(tasks), 0, 0
    while pending and time.monotonic() < until:
        made = attempt(tool, phase, pending, folder / str(number), sanitizer, limits, until)
        settled, again, other = settle(tool if sanitizer else None, made, pending, symbols)
        known |= settled
        if made.silent and made.current is not None:  # others of the kind may hang too: less time is lost on each
            limits = dataclasses.replace(limits, stall=max(limits.stall / 2, min(limits.stall, 6.0)))
        unattributed, number = unattributed + other, number + 1
        if again == pending:  # nothing came of it: once more would be the same
            why = made.why if not made.ended else "The tool gave no summary."
            last = (folder / str(number - 1) / "output.txt").read_text(errors="replace").strip().splitlines()
            why = f"{why} Last words: {last[-1][:200]}" if last else why
            known |= {task: Outcome(reason=why) for task in pending}
            break
        pending = again
    return known | {task: Outcome(reason=NO_TIME) for task in pending if task not in known}, unattributed


def _shards(
    tasks: Sequence[Task], count: int, turn: int, symbols: Callable[[Task], list[str]] = lambda _: []
) -> list[list[Task]]:
    """The tasks dealt out, each hand begun elsewhere, so that the tools do not all compile the same kernel at once.

    Two planted kernels that share a function do not come into one hand if there is another: a report that names the
    function could not be told to be about the one or the other.
    """
    hands: list[list[Task]] = [[] for _ in range(count)]
    named: list[set[str]] = [set() for _ in range(count)]
    for task in tasks:
        names = set() if task[1] is None else set(symbols(task))
        shortest = sorted(range(count), key=lambda i: len(hands[i]))
        at = next((i for i in shortest if not names & named[i]), shortest[0])
        hands[at].append(task)
        named[at] |= names
    return [hand[(len(hand) * turn) // 8 :] + hand[: (len(hand) * turn) // 8] for hand in hands if hand]


def run(
    paths: Sequence[Any],
    places: Sequence[int],
    sanitizer: str,
    limits: Limits,
    fingerprint: Callable[[str], str],
    folder: Path,
    say: Callable[[str], None] = lambda _: None,
    functions: Callable[[str], list[str]] = lambda _: [],
    asked: Callable[[Any, str], bool] = lambda path, tool: True,
) -> tuple[list[PathRecord], dict[str, int]]:
    """Run the paths at those places under all tools: their records, and the unattributed reports by tool.

    folder: an empty one, where every process leaves its tasks, its output and the tool's text. functions: the names of
    what is compiled into a CUDA kernel, by its source. asked: whether a path is run under a tool.
    """
    until = time.monotonic() + limits.total
    with ThreadPoolExecutor(max_workers=2 * limits.jobs + 16) as pool:

        def go(tool, phase, tasks, count, turn, watched, symbols, limits=limits):
            return [
                pool.submit(_lane, tool, phase, hand, folder / f"{tool}-{phase}-{i}", watched, limits, until, symbols)
                for i, hand in enumerate(_shards(tasks, count, turn, symbols))
            ]

        def collect(lanes):
            known, other = {}, 0
            for lane in lanes:
                outcomes, count = lane.result()
                known, other = known | outcomes, other + count
            return known, other

        patient = dataclasses.replace(limits, stall=2 * limits.stall)  # for what is compiled, by nvcc too
        warm, _ = collect(go("none", "warm", [(p, None) for p in places], limits.jobs, 0, None, lambda _: [], patient))
        failed = sum(outcome.reason is not None for outcome in warm.values())
        say(f"{len(warm)} paths without a tool: {len(warm) - failed} ran, {failed} did not")
        runnable = {task[0]: outcome for task, outcome in warm.items() if outcome.reason is None}

        def symbols(task: Task) -> list[str]:
            place, kernel = task
            if paths[place].cuda:  # a report may name a function that was compiled into the kernel
                return [paths[place].cuda, *functions(paths[place].source)]
            return [symbol(name, place) for name in runnable[place].launched if kernel in (None, name)]

        planted = _plant_tasks(paths, runnable)
        few, many = max(1, limits.jobs // 8), max(1, limits.jobs // 4)
        clean, plants = {}, {}
        for turn, tool in enumerate(TOOLS):
            whole = [(p, None) for p in runnable if asked(paths[p], tool)]
            faulty = [task for task in planted[tool] if asked(paths[task[0]], tool)]
            clean[tool] = go(tool, "clean", whole, few, 2 * turn, sanitizer, symbols)
            plants[tool] = go(tool, "plant", faulty, many, 2 * turn + 1, sanitizer, symbols)
        clean, plants = ({t: collect(lanes) for t, lanes in each.items()} for each in (clean, plants))
    other = {tool: clean[tool][1] + plants[tool][1] for tool in TOOLS}
    records = [
        path_record(paths[place], place, warm[(place, None)], {t: clean[t][0] for t in TOOLS},
                    {t: plants[t][0] for t in TOOLS}, fingerprint, asked)
        for place in places
    ]  # fmt: skip
    return records, other


def _kernel_sees(outcome: Outcome, kernel: str) -> Sees:
    return Sees(**outcome.launched[kernel]["sees"])


def _plant_tasks(paths: Sequence[Any], runnable: dict[int, Outcome]) -> dict[str, list[Task]]:
    """For each tool the kernels that get a fault: all that the tool could see something in, helpers once a dtype."""
    tasks: dict[str, list[Task]] = {tool: [] for tool in TOOLS}
    helped: set[tuple[str, str, str]] = set()
    for place, outcome in runnable.items():
        for kernel in outcome.launched:
            for tool in TOOLS:
                key = (tool, kernel, paths[place].dtype)
                if nothing_to_see(tool, _kernel_sees(outcome, kernel)) or (kernel in HELPERS and key in helped):
                    continue
                helped.add(key)
                tasks[tool].append((place, kernel))
    return tasks


def path_record(
    path: Any,
    place: int,
    warm: Outcome,
    clean: dict[str, dict[Task, Outcome]],
    planted: dict[str, dict[Task, Outcome]],
    fingerprint: Callable[[str], str],
    asked: Callable[[Any, str], bool] = lambda path, tool: True,
) -> PathRecord:
    """The record of one path from what became of its tasks."""
    checks = []
    for tool in TOOLS:
        if not asked(path, tool):
            checks.append(Check(tool=tool, clean="not run", reason=NOT_ASKED))
            continue
        outcome = clean[tool].get((place, None)) or Outcome(reason=warm.reason or NO_TIME)
        state = "no" if outcome.reports else "yes" if outcome.reason is None else "not run"
        reports = list(dict.fromkeys(report.headline for report in outcome.reports))[:5]
        plants = []
        for kernel in warm.launched:
            blind = nothing_to_see(tool, _kernel_sees(warm, kernel))
            there = planted[tool].get((place, kernel))
            if blind:
                plants.append(Plant(kernel=kernel, state="cannot see", reason=blind))
            elif there is None and kernel in HELPERS:
                continue  # the same kernel is planted where another path of the dtype launches it
            elif there is None or there.reason:
                plants.append(Plant(kernel=kernel, state="not run", reason=there.reason if there else NO_TIME))
            elif there.reports:
                plants.append(Plant(kernel=kernel, state="reported", report=there.reports[0].headline))
            else:
                plants.append(Plant(kernel=kernel, state="cannot see", reason=UNREPORTED))
        checks.append(Check(tool=tool, clean=state, reason=outcome.reason, reports=reports, plants=plants))
    return PathRecord(
        op=path.op,
        way=path.way,
        dtype=path.dtype,
        source=path.source,
        source_hash=fingerprint(path.source),
        kernels=list(warm.launched),
        checks=checks,
    )
