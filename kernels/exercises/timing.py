"""How long an answer takes beside the solution: python -m kernels.exercises.timing NAME [--once]

The check file of an exercise defines `timed(answer, device)`: it prepares inputs and returns a function without
arguments that does the work once. device: "cuda" for an exercise of Triton kernels where there is a GPU, else "cpu",
where they are interpreted: such a time says nothing about a GPU. With --once the answer works once, and what it gives
is shown. Nothing is checked here.
"""

from __future__ import annotations

import argparse
import importlib.util
import os
import statistics
import sys
import time
from collections.abc import Callable
from pathlib import Path
from types import ModuleType

from kernels.exercises import library, worker
from kernels.exercises.library import Files

ROUNDS = 7
AT_LEAST = 0.02  # seconds that one sample takes: shorter work is done several times


def main(arguments: list[str] | None = None) -> int:
    """Status 0; 2 for a name that is none, or an answer that does not load or work; 3 where a package is missing."""
    parser = argparse.ArgumentParser(prog="python -m kernels.exercises.timing", description=__doc__.partition("\n")[0])
    parser.add_argument("name", help="an exercise, as in triton_add")
    parser.add_argument("--once", action="store_true", help="do the work once and show what it gives")
    asked = parser.parse_args(arguments)
    try:
        files = library.find(asked.name)
    except library.UnknownExercise as error:
        print(error, file=sys.stderr)
        return 2
    try:
        device = device_for(library.described(files).needs)
    except ImportError as error:
        print(f"{error.name} is not installed here, and {files.name} needs it.", file=sys.stderr)
        return 3
    where = files.shown(files.starter)
    try:
        mine = prepared(files, files.starter, device)
        if asked.once:
            print(shown(mine()))
        else:
            theirs = prepared(files, files.solution, device)
            print(told(files, device, *compared(mine, theirs, device)))
    except Exception as error:  # whatever an answer raises
        if worker.asks_still(error, str(files.starter)):
            print(f"{where} still asks: {worker.first_cause(error)}", file=sys.stderr)
            return 2
        print(f"{where} does not work yet ({type(error).__name__}: {error}); lessons check says more.", file=sys.stderr)
        return 2
    return 0


def device_for(needs: str) -> str:
    """ "cuda" for Triton kernels where there is a GPU, else "cpu"; there it switches Triton's interpreter on."""
    if needs == "cpu":
        return "cpu"
    import torch

    if torch.cuda.is_available():
        return "cuda"
    os.environ["TRITON_INTERPRET"] = "1"
    import triton  # noqa: F401

    return "cpu"


def prepared(files: Files, path: Path, device: str) -> Callable[[], object]:
    """The work of the answer in `path`, ready to be done."""
    return library.module_of(files).timed(_loaded(path), device)


def _loaded(path: Path) -> ModuleType:
    name = f"timed_{path.parent.name}_{path.stem}"
    spec = importlib.util.spec_from_file_location(name, path)
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    spec.loader.exec_module(module)
    return module


def compared(mine: Callable[[], object], theirs: Callable[[], object], device: str) -> tuple[list[float], list[float]]:
    """Seconds of each, ROUNDS samples in turn, after a first call that may compile."""
    done = _synchronize if device == "cuda" else lambda: None
    for work in (mine, theirs):
        work()
        done()
    began = time.perf_counter()
    theirs()
    done()
    often = max(1, min(10_000, int(AT_LEAST / max(time.perf_counter() - began, 1e-9))))
    samples: tuple[list[float], list[float]] = ([], [])
    for number in range(ROUNDS):
        for which in (0, 1) if number % 2 else (1, 0):
            began = time.perf_counter()
            for _ in range(often):
                (mine, theirs)[which]()
            done()
            samples[which].append((time.perf_counter() - began) / often)
    return samples


def _synchronize() -> None:
    import torch

    torch.cuda.synchronize()


def told(files: Files, device: str, mine: list[float], theirs: list[float]) -> str:
    """The two medians with their spreads (the distance of the quartiles), and on what they were measured."""
    where = {"cuda": "on the GPU, launches included", "cpu": "plain Python"}[device]
    if device == "cpu" and library.described(files).needs != "cpu":
        where = "interpreted on the CPU, which says nothing about a GPU"
    lines = [f"{files.name}, {where}:"]
    for name, samples in (("yours", mine), ("the solution", theirs)):
        low, _, high = statistics.quantiles(samples, n=4, method="inclusive")
        lines.append(f"  {name:13} {statistics.median(samples) * 1e6:12,.1f} µs, spread {(high - low) * 1e6:,.1f}")
    return "\n".join(lines)


def shown(value: object) -> str:
    """A result on one line: the first numbers of a long one."""
    numbers = value.detach().flatten().tolist() if hasattr(value, "detach") else value
    if not isinstance(numbers, (list, tuple)):
        return repr(numbers)
    first = ", ".join(f"{each:.6g}" if isinstance(each, float) else repr(each) for each in numbers[:6])
    return f"{first}, ... ({len(numbers):,} in all)" if len(numbers) > 6 else first


if __name__ == "__main__":
    sys.exit(main())
