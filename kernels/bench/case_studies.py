"""What the case studies say of records: each sentence is made from the records of the day, as they turn out."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path

from kernels.bench import results
from kernels.bench.compare import slower
from kernels.bench.results import Document, Record, read

FACTOR = 1.1
"""From this ratio on a sentence says how many times as fast; below it, by how many percent."""


def folder(gpu: str = "h200") -> Path:
    """Where the experiments of one GPU are kept."""
    return results.RESULTS / gpu / "experiments"


def experiment(name: str, gpu: str = "h200") -> Document | None:
    """The committed document of an experiment in the bench's schema, or None where it was not measured yet."""
    path = folder(gpu) / f"{name}.json"
    return read(path) if path.exists() else None


def not_measured(what: str, command: str) -> str:
    """The sentence that stands where a record will stand."""
    return f"Not measured yet on this GPU: {what}. On a machine with a GPU, `{command}` measures it."


def recorded(experiments: Mapping[str, str], gpu: str = "h200") -> str:
    """One line: how many of a page's experiments have a record of one GPU, and which wait for it.

    `experiments` has, for what a reader calls an experiment, the name of its file without the ending. Raises ValueError
    where it is empty.
    """
    if not experiments:
        raise ValueError("A line about a page's records needs at least one experiment.")
    there = {path.stem for path in folder(gpu).glob("*.json")}
    waiting = [what for what, name in experiments.items() if name not in there]
    of = len(experiments)
    below = f"GPU experiment{'s' * (of > 1)} below."
    if not waiting:
        return f"Recorded on an {gpu.upper()}: {'the' if of == 1 else f'all {of} of the'} {below}"
    return f"Recorded on an {gpu.upper()}: {of - len(waiting)} of {of} {below} Not yet: {'; '.join(waiting)}."


def find(
    records: Iterable[Record], implementation: str, shape: Iterable[int], dtype: str = "float32", **config: int | str
) -> Record | None:
    """The first record of that implementation, shape, dtype and these choices that has a time; None where none has."""
    for record in records:
        same = (record.implementation, tuple(record.shape), record.dtype) == (implementation, tuple(shape), dtype)
        if same and record.median_us is not None and all(record.config.get(k) == v for k, v in config.items()):
            return record
    return None


def versus(first: Record, second: Record, first_name: str = "", second_name: str = "") -> str:
    """Which of two is faster and by how much, or that their times do not differ by more than both spreads.

    The names stand for the implementations where they are given. Raises ValueError where either has no time.
    """
    if first.median_us is None or second.median_us is None:
        raise ValueError(f"{first.implementation} or {second.implementation} has no time to compare.")
    names = first_name or first.implementation, second_name or second.implementation
    if slower(first, second):
        return _faster(names[1], names[0], first.median_us / second.median_us)
    if slower(second, first):
        return _faster(names[0], names[1], second.median_us / first.median_us)
    return f"{names[0]} and {names[1]} do not differ by more than their spreads"


def _faster(winner: str, loser: str, ratio: float) -> str:
    if ratio >= FACTOR:
        return f"{winner} is {ratio:.2f} times as fast as {loser}"
    percent = 100 * (ratio - 1)
    return f"{winner} is {percent:.1f}% faster than {loser}"


def span(values: Iterable[float], pattern: str = "{:.2f}") -> str:
    """The smallest and the largest of some numbers as words: "1.20 to 1.31", or one number where they look alike.

    Raises ValueError where there is none.
    """
    found = sorted(values)
    if not found:
        raise ValueError("There is no number whose span could be named.")
    low, high = pattern.format(found[0]), pattern.format(found[-1])
    return low if low == high else f"{low} to {high}"


def ranking(records: Iterable[Record]) -> list[str]:
    """The implementations from the fastest to the slowest; those without a time are left out."""
    timed = [record for record in records if record.median_us is not None]
    return [record.implementation for record in sorted(timed, key=lambda record: record.median_us or 0.0)]
