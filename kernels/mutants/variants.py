"""Makes mutants run: CUDA ones a few to a library, each in a namespace; Triton ones each as a module of its own."""

from __future__ import annotations

import linecache
import re
import types
from collections.abc import Callable, Iterator, Sequence
from itertools import groupby
from typing import Any

from kernels.mutants.model import Mutant, Problem, Subject
from kernels.sources.cuda import parse_cuda

PER_LIBRARY = 8  # variants; the compiler's own start costs as much as five of them
_INCLUDE = re.compile(r"^[ \t]*#[ \t]*include[^\n]*", re.M)
_DEFINED = re.compile(r"\b(?:__global__[\w\s]*?\bvoid|extern \"C\" \w+)\s+(?:__launch_bounds__\(\w+\)\s*)?(\w+)\s*\(")

Run = Callable[[Problem], Any]


def runners(
    mutants: Sequence[Mutant], subjects: dict[str, Subject], texts: dict[str, str]
) -> Iterator[tuple[Mutant, Run]]:
    """Each mutant with a function that traces it on a problem; `texts` are the mutants' sources."""

    def group(mutant: Mutant) -> tuple[str, str]:
        return subjects[mutant.subject].language, subjects[mutant.subject].source

    for (language, _), members in groupby(sorted(mutants, key=group), group):
        chosen = list(members)
        for first in range(0, len(chosen), PER_LIBRARY):
            some = chosen[first : first + PER_LIBRARY]
            make = _cuda if language == "cuda" else _triton
            yield from make(some, subjects, texts)


def _cuda(mutants: list[Mutant], subjects: dict[str, Subject], texts: dict[str, str]) -> Iterator[tuple[Mutant, Run]]:
    """One library for these mutants of one source."""
    from kernels.trace.cuda import trace_cuda_launcher

    subject = subjects[mutants[0].subject]
    used = [needed(texts[mutant.name], subjects[mutant.subject].launcher) for mutant in mutants]
    together = grouped(subject.source, used)
    for number, mutant in enumerate(mutants):
        launcher = f"{subjects[mutant.subject].launcher}_v{number}"

        def run(problem: Problem, launcher: str = launcher, limits: Any = mutant.limits) -> Any:
            return trace_cuda_launcher(
                launcher, problem.call, source=subject.source, replace={subject.text: together}, **limits
            )

        yield mutant, run


def needed(text: str, launcher: str) -> str:
    """The text without the functions that `launcher` does not reach; their lines stay, empty."""
    symbols = parse_cuda(text).symbols
    reached, waiting = set(), [launcher]
    while waiting:
        name = waiting.pop()
        if name in symbols and name not in reached:
            reached.add(name)
            waiting += symbols[name].names
    lines = text.split("\n")
    for name, symbol in symbols.items():
        for first, last in symbol.spans if symbol.is_function and name not in reached else ():
            lines[first - 1 : last] = [""] * (last - first + 1)
    return "\n".join(lines)


def grouped(source: str, texts: Sequence[str]) -> str:
    """Variants of one source as one translation unit: a namespace each, kernels and launchers numbered, lines kept."""
    headers = dict.fromkeys(line.strip() for text in texts for line in _INCLUDE.findall(text))
    parts = [*headers]
    for number, text in enumerate(texts):
        names = "|".join(sorted(set(_DEFINED.findall(text)), key=len, reverse=True))
        renamed = re.sub(rf"\b({names})\b", lambda found, n=number: f"{found[1]}_v{n}", _INCLUDE.sub("", text))
        parts.append(f'namespace variant_{number} {{\n#line 1 "{source}"\n{renamed}\n}}')
    return "\n".join(parts) + "\n"


def _triton(mutants: list[Mutant], subjects: dict[str, Subject], texts: dict[str, str]) -> Iterator[tuple[Mutant, Run]]:
    from kernels.trace.triton import trace_triton

    for mutant in mutants:
        subject = subjects[mutant.subject]
        module = load(subject, mutant.name, texts[mutant.name])

        def run(problem: Problem, module: types.ModuleType = module, real: str = str(subject.file)) -> Any:
            trace = trace_triton(lambda: problem.call(module, problem.buffers), problem.buffers)
            sites = tuple((real if file == module.__file__ else file, line) for file, line in trace.sites)
            return type(trace)(trace.launches, trace.buffers, sites, trace.columns, trace.clashes)

        yield mutant, run


def load(subject: Subject, name: str, text: str) -> types.ModuleType:
    """The variant of a Python source as a module that nobody imports; Triton reads its lines from `linecache`."""
    file = f"<{name}>/{subject.source}"
    linecache.cache[file] = (len(text), None, text.splitlines(keepends=True), file)
    module = types.ModuleType(f"kernels.mutants.{subject.name}.{name.replace('-', '_')}")
    module.__file__ = file
    exec(compile(text, file, "exec", dont_inherit=True), module.__dict__)
    return module
