"""Runs mutants on the cases of their subjects, without a GPU, and says what each case showed first."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from kernels.mutants.model import Judgement, Mutant, Problem, Subject, Verdict, mutated
from kernels.trace.faults import Fault, place_of, shown_place
from kernels.trace.model import READ, shown_path
from kernels.trace.values import value_faults

if TYPE_CHECKING:
    from kernels.trace.model import Trace


def judge(mutants: Sequence[Mutant], subjects: dict[str, Subject], cases: Iterable[str] = ()) -> list[Judgement]:
    """Each mutant on every case of its subject, or on those named in `cases`.

    Raises what the tracer raises where it cannot trace at all (no compiler, Triton's interpreter off), and ValueError
    where a mutant no longer fits its source.
    """
    from kernels.mutants import variants

    wanted = set(cases)
    texts = {mutant.name: mutated(subjects[mutant.subject], mutant) for mutant in mutants}
    judgements = []
    for mutant, run in variants.runners(mutants, subjects, texts):
        subject = subjects[mutant.subject]
        chosen = [case for case in subject.cases if not wanted or case.name in wanted]
        lines = texts[mutant.name].split("\n")
        verdicts = {case.name: _first(run, subject, lines, case.make()) for case in chosen}
        judgements.append(Judgement(mutant, subject, verdicts))
    order = {mutant.name: number for number, mutant in enumerate(mutants)}
    return sorted(judgements, key=lambda judgement: order[judgement.mutant.name])


def _first(run: Any, subject: Subject, lines: list[str], problem: Problem) -> Verdict | None:
    before = {name: _numbers(buffer).copy() for name, buffer in problem.buffers.items()}
    try:
        trace = run(problem)
    except Exception as error:
        if subject.language == "cuda":
            raise  # a CUDA mutant that cannot be traced is a mistake in the catalogue
        return Verdict("error", "", "", subject.source, 0, "", f"The launch raises {type(error).__name__}: {error}")
    for found in _found(trace, problem, before):
        file = shown_path(found.file) if found.file else ""
        code = lines[found.line - 1].partition("//")[0].partition("#")[0].strip() if found.line else ""
        known = any(buffer.name == found.buffer for buffer in trace.buffers)
        place = trace.buffer(found.buffer).text(found.element) if known else ""
        return Verdict(found.kind, place, found.who, file, found.line, code, found.sentence)
    return None


def _found(trace: Trace, problem: Problem, before: dict[str, np.ndarray]) -> Iterator[Fault]:
    """The trace's verdicts, then inputs that were changed, then outputs that are wrong."""
    yield from trace.faults(list(problem.expected) if problem.whole else [])
    for name, buffer in problem.buffers.items():
        if name not in problem.expected:
            yield from _changed(trace, name, before[name], _numbers(buffer))
    for name, expected in problem.expected.items():
        yield from _wrong(trace, name, expected, _numbers(problem.buffers[name]), problem)


def _numbers(buffer: Any) -> np.ndarray:
    """A numpy view or copy of an array or a tensor; bfloat16 as float32, exactly."""
    if isinstance(buffer, np.ndarray):
        return buffer
    return buffer.float().numpy() if buffer.is_floating_point() else buffer.numpy()


def _wrong(trace: Trace, name: str, expected: np.ndarray, got: np.ndarray, problem: Problem) -> list[Fault]:
    """Verdicts on values; where outputs need not be written whole, also on a wrong element that nobody wrote."""
    found = value_faults(trace, name, got, expected, problem.rtol, problem.atol)
    different = np.flatnonzero((got != expected).reshape(-1))
    if found or problem.whole or not len(different):
        return found
    first = int(different[0])
    start = f"is {_shown(got.reshape(-1)[first])}, and the reference has {_shown(expected.reshape(-1)[first])}"
    return [_value(trace, "wrong-value", name, first, start, len(different), got.size)]


def _changed(trace: Trace, name: str, before: np.ndarray, after: np.ndarray) -> list[Fault]:
    same = (before == after) | ((before != before) & (after != after))
    if same.all():
        return []
    flat = int(np.flatnonzero(~same.reshape(-1))[0])
    index = np.unravel_index(flat, same.shape)
    start = f"is an input and was changed, from {_shown(before[index])} to {_shown(after[index])}"
    return [_value(trace, "input-changed", name, flat, start, int((~same).sum()), same.size)]


def _value(trace: Trace, kind: str, name: str, flat: int, start: str, wrong: int, count: int) -> Fault:
    """A verdict on a value: its element, and who wrote it last."""
    buffer = trace.buffer(name)
    element = int(buffer.offsets.reshape(-1)[flat])
    rows = trace.select(buffer=name, active=True).expanded()
    mine = (rows.columns["element"] == element) & (rows.columns["what"] != READ)
    who, file, line = place_of(rows, int(np.flatnonzero(mine)[-1])) if mine.any() else ("", "", 0)
    by = f" Written by {who}. Line: {shown_place(file, line)}." if who else " Nobody wrote it."
    sentence = f"{buffer.text(element)} {start}.{by} In all, {wrong} of {count} elements are wrong."
    return Fault(kind, sentence, name, element, who, file, line, wrong, "")


def _shown(value: Any) -> str:
    return f"{float(value):.6g}"
