"""What `lessons trace` runs and says: the life of one thread of a CUDA kernel or of one Triton program, the verdicts on
all of them, and a page with the figures that needs no other file."""

from __future__ import annotations

import os
import re
from dataclasses import dataclass
from html import escape
from itertools import groupby
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from kernels.lessons import registered
from kernels.lessons.explained import linked, with_explanation

if TYPE_CHECKING:
    from kernels.trace import Buffer, Trace

STYLE = "docs/assets/lessons.css"
SCRIPTS = tuple(f"docs/assets/{name}.js" for name in ("early", "banks", "stepper-model", "stepper-pictures", "stepper"))
MARK = '<meta name="generator" content="lessons trace">'  # a page that carries it may be written over
CUDA_FILES = ("cuda/kernels.cu", "cuda/patterns.cu")
MOST_ELEMENTS = 1 << 16
MOST_OWNERS_DRAWN = 1 << 16


@dataclass(frozen=True)
class Traced:
    """A trace, the kernel's name, its source file below the project, and the shape of the work.

    A Triton trace has threads where the compiler was asked for them.
    """

    trace: Trace
    kernel: str
    source: str
    shape: tuple[int, ...]

    @property
    def who(self) -> str:
        return "program" if self.trace.launches[0].language == "triton" else "block"

    @property
    def files(self) -> str:
        """The files that the numbers of lines are of: the kernel's own, then those of functions that it calls."""
        from kernels.trace.model import shown_path

        others = sorted({shown_path(file) for file, _ in self.trace.sites} - {self.source})
        return ", and of ".join([self.source, *others])

    @property
    def threads(self) -> int:
        """Threads a block or program, 0 where the trace does not show them."""
        return self.trace.launches[0].threads


def trace_kernel(kernel: str, rows: int, columns: int, block_size: int | None = None, lanes: bool = False) -> Traced:
    """Trace a CUDA kernel of `CUDA_FILES` with its own launch, or a Triton operator, on seeded float32 inputs.

    A kernel that takes a vector gets `columns` elements, one that takes a matrix `rows` × `columns`. `block_size` is
    for Triton operators whose launcher takes one. With `lanes` a Triton kernel is compiled as well, for sm_90, and its
    accesses get the threads that the compiler chose.

    Raises:
        KeyError: there is no such kernel or operator; the message lists those there are.
        ValueError: a size is below one or too large, or the kernel takes something that is not made here.
        RuntimeError: Triton kernels are compiled in this process; or the compiler, for `lanes`, is missing or fails.
    """
    for option, number in (("--rows", rows), ("--cols (or --n)", columns)):
        if number < 1:
            raise ValueError(f"{option} is {number}; it must be at least 1.")
    if rows * columns > MOST_ELEMENTS:
        times = f"{rows:,} × {columns:,} = " if rows > 1 else ""
        raise ValueError(
            f"{times}{rows * columns:,} elements are too many; every access is recorded, so {MOST_ELEMENTS:,} are the "
            "most. A small size with the same remainder shows the same."
        )
    launchers = _launchers()
    if kernel in launchers:
        if block_size is not None:
            raise ValueError(f"--block-size is for Triton operators; {kernel} is CUDA, and its source fixes the block.")
        return _trace_cuda(kernel, *launchers[kernel], rows, columns)
    names = _operators()
    if kernel not in names:
        raise KeyError(
            f"there is no kernel {kernel!r} to trace. CUDA kernels: {', '.join(sorted(launchers))}. "
            f"Triton operators: {', '.join(names)}."
        )
    return _trace_triton(kernel, rows, columns, block_size, lanes)


def why_not(kernel: str) -> str:
    """Why this machine cannot trace that kernel, "" where it can. A Triton operator needs no compiler."""
    from kernels.lessons.machine import Machine

    need = "cxx" if kernel in _launchers() else "triton" if kernel in _operators() else "cpu"
    return Machine().ability(need).reason


def _launchers() -> dict[str, tuple[str, list[tuple[str, str]]]]:
    """Kernel -> (file, the (type, name) of each of its launcher's parameters but the stream)."""
    from kernels.sources import project_root

    found = {}
    for file in CUDA_FILES:
        path = project_root() / file
        text = path.read_text(encoding="utf-8") if path.is_file() else ""
        for name, inside in re.findall(r'extern "C" \w+ launch_(\w+)\(([^)]*)\)', text):
            given = [" ".join(part.split()).rpartition(" ") for part in inside.split(",")]
            found[name] = file, [(kind, word) for kind, _, word in given if kind != "cudaStream_t"]
    return found


def _operators() -> list[str]:
    """The Triton operators that the registry names; read and not imported: Triton may be missing, and it is slow."""
    from kernels.sources import project_root

    path = project_root() / "kernels/ops/registry.py"
    return [*registered.names(path.read_text(encoding="utf-8"))] if path.is_file() else []


def _trace_cuda(kernel: str, file: str, parameters: list[tuple[str, str]], rows: int, columns: int) -> Traced:
    from kernels.trace.cuda import trace_cuda_launcher

    generator = np.random.default_rng(0)
    names = {name for _, name in parameters}
    if "n" in names and rows > 1:
        raise ValueError(f"--rows is for kernels that take a matrix; {kernel} takes vectors of --n elements.")
    shape = (columns,) if "n" in names else (rows, columns)
    arrays: dict[str, np.ndarray] = {}
    for kind, name in parameters:
        if kind not in ("const float*", "float*"):
            continue
        written, flipped = kind == "float*", kernel.startswith("transpose")
        its = shape[::-1] if written and flipped else shape
        if len(its) == 2 and f"{name}_stride" not in names:
            its = (rows,)  # one number a row
        values = generator.standard_normal(its, dtype=np.float32)
        arrays[name] = np.full(its, np.nan, np.float32) if written else values
    sizes = {"n": columns, "rows": rows, "columns": columns}
    sizes |= {f"{name}_stride": array.shape[-1] for name, array in arrays.items()}
    unknown = [f"{kind} {name}" for kind, name in parameters if name not in arrays and name not in sizes]
    if unknown:
        raise ValueError(
            f"launch_{kernel} takes {', '.join(unknown)}, which this command cannot make up; trace it from Python with "
            "kernels.trace.cuda.trace_cuda_launcher."
        )
    arguments = [arrays[name] if name in arrays else sizes[name] for _, name in parameters]
    trace = trace_cuda_launcher(f"launch_{kernel}", arguments, source=file)
    if not trace.launches:
        raise ValueError(f"launch_{kernel} refused {rows} rows of {columns} columns (error {trace.result}).")
    return Traced(trace, kernel, file, shape)


def _trace_triton(name: str, rows: int, columns: int, block_size: int | None, lanes: bool) -> Traced:
    import importlib
    import inspect

    os.environ.setdefault("TRITON_INTERPRET", "1")  # Triton decides when it is imported
    import torch

    from kernels.ops.registry import get
    from kernels.trace.triton import trace_triton

    operator, module = get(name), importlib.import_module(f"kernels.ops.{name}")
    shape = (columns,) if rows == 1 else (rows, columns)
    made = operator.inputs(shape, "float32" if "float32" in operator.dtypes else operator.dtypes[0], "cpu", 0)
    # Contiguous, for else some operators copy what they are given, and the copy is what the kernel reads.
    inputs = [value.contiguous() if isinstance(value, torch.Tensor) else value for value in made]
    call = operator.implementation("triton").call
    buffers = dict(zip(inspect.signature(call).parameters, inputs, strict=False))
    if block_size is None:
        trace = trace_triton(lambda: call(*inputs), buffers)
    else:
        launch = getattr(module, f"launch_{name}", None)
        if launch is None or "block_size" not in inspect.signature(launch).parameters:
            raise ValueError(f"--block-size: {name} chooses its block from the shape, and takes none.")
        out = torch.full(shape, float("nan"))
        trace = trace_triton(lambda: launch(*buffers.values(), out, block_size=block_size), buffers | {"out": out})
    if lanes and trace.launches:
        from kernels.trace.lanes import with_lanes

        trace = with_lanes(trace)
    if not trace.launches:
        raise ValueError(f"{name} launches nothing for the shape {shape}.")
    return Traced(trace, name, f"kernels/ops/{name}.py", shape)


def in_words(traced: Traced, block: int, thread: int) -> list[str]:
    """The launch, and what one thread (or program) did from its first line to its last.

    Raises:
        ValueError: the launch has no such block, program or thread.
    """
    trace, launch, who = traced.trace, traced.trace.launches[0], traced.who
    size = f" of {launch.threads} threads" if launch.threads else ""
    if not 0 <= block < launch.blocks:
        more = " A smaller --block-size makes more of them, where the operator takes one." if who == "program" else ""
        raise ValueError(
            f"The launch has {_count(launch.blocks, who)}{size}, so there is no {who} {block}; they count from 0.{more}"
        )
    if launch.threads and not 0 <= thread < launch.threads:
        raise ValueError(
            f"The launch has {_count(launch.blocks, who)}{size}, so there is no thread {thread} of {who} {block}; "
            "both count from 0."
        )
    lines = [f"{traced.kernel}: {_count(launch.blocks, who)}{size}"]
    if len(trace.launches) > 1:
        lines[0] += f", the first of {len(trace.launches)} launches"
    if who == "block":
        return lines + trace.story(thread, block)
    return lines + program_story(trace, block, thread if launch.threads else None)


def judged(traced: Traced) -> list[str]:
    """What is wrong with any of the accesses, and what is right and slow; `no verdict` where nothing is."""
    lines = [f"verdict: {with_explanation(fault)}" for fault in traced.trace.faults()]
    lines = lines or ["no verdict: nothing is wrong"]
    return lines + [f"advice: {with_explanation(item)}" for item in traced.trace.advice()]


def program_story(trace: Trace, program: int, thread: int | None = None) -> list[str]:
    """One line for each load, store and atomic of a Triton program, or of one of its threads, in its order."""
    from kernels.figures.steps import block_steps

    verbs = {"read": "reads", "write": "writes", "atomic": "updates"}
    name = trace.launches[0].who(program, -1 if thread is None else thread)
    lines = [name]
    steps = block_steps(trace, program)
    for (line, kind, number), group in groupby(steps, key=lambda step: (step.line, step.kind, step.buffer)):
        buffer, on, off = trace.buffers[number], [], 0
        for step in group:  # several instructions where the compiler gave a thread several elements
            mine = np.ones(len(step.threads), bool) if thread is None else step.threads == thread
            width = max(1, step.size // buffer.itemsize)
            on += (step.elements[mine & step.active][:, None] + np.arange(width)).reshape(-1).tolist()
            off += int((mine & ~step.active).sum()) * width
        if on or off:
            words = f"{verbs[kind]} {_elements(buffer, on)}" if on else f"{verbs[kind]} nothing"
            masked = f"; {_count(off, 'element')} masked off" if off else ""
            lines.append(f"line {line}: {words}{masked}")
    return lines if len(lines) > 1 else [*lines, "touches no memory"]


def _elements(buffer: Buffer, elements: list[int]) -> str:
    """`x[0]–x[255]`, `x[268]–x[271] and x[780]–x[783]`; elements in more than three runs are counted."""
    found = np.unique(elements)
    runs = np.split(found, np.flatnonzero(np.diff(found) != 1) + 1)
    texts = [buffer.text(int(run[0])) + (f"–{buffer.text(int(run[-1]))}" if len(run) > 1 else "") for run in runs]
    if len(texts) > 3:
        return f"{len(found)} elements from {buffer.text(int(found[0]))} to {buffer.text(int(found[-1]))}"
    return " and ".join(filter(None, [", ".join(texts[:-1]), texts[-1]]))


def _count(number: int, word: str) -> str:
    return f"{number} {word}{'s' * (number != 1)}"


def page_name(traced: Traced, block: int, thread: int) -> str:
    """`softmax_parallel-1x33-block-0-thread-67.html`: other questions have other pages."""
    place = f"{traced.who}-{block}" + (f"-thread-{thread}" if traced.threads else "")
    return f"{traced.kernel}-{'x'.join(map(str, traced.shape))}-{place}.html"


def may_write(path: Path) -> str:
    """Why a page must not be written there, "" where it may: nothing is there, or a page of this command."""
    if path.is_dir():
        return f"{path} is a folder; --output names a file, such as {path / 'trace.html'}."
    try:
        head = path.read_text(encoding="utf-8", errors="replace")[:2000] if path.exists() else MARK
    except OSError as error:
        return f"{path} cannot be read to see whose it is ({error.strerror}); choose another --output."
    if MARK in head:
        return ""
    return f"{path} is there already, and this command did not write it. Choose another --output, or say --force."


def as_page(traced: Traced, block: int, thread: int, root: Path) -> str:
    """The stepper, owners, sectors, banks, barriers and lanes as an HTML page that needs no other file."""
    from kernels import figures

    words = in_words(traced, block, thread)
    style, *scripts = ((root / name).read_text(encoding="utf-8") for name in (STYLE, *SCRIPTS))
    story = "".join(f"<li>{escape(line)}</li>" for line in words[1:])
    verdicts = linked(figures.verdict_list(traced.trace.faults()))
    parts = [("Step by step", _stepper(traced, block, thread, root)), ("In words", f'<ol class="story">{story}</ol>')]
    parts.insert(0 if traced.trace.faults() else 2, ("Verdicts", verdicts))
    if advice := traced.trace.advice():
        parts.append(("Right, and slower than it need be", linked(figures.verdict_list(advice))))
    parts += _figures(traced, block, thread)
    size = " × ".join(map(str, traced.shape))
    title = f"{traced.kernel}, {size}"
    body = "\n".join(f"<h2>{escape(head)}</h2>\n{figure}" for head, figure in parts)
    scheme = 'matchMedia("(prefers-color-scheme: dark)").matches?"slate":"default"'
    return f"""<!doctype html>
<html lang="en" data-md-color-scheme="default">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
{MARK}
<title>{escape(title)}</title>
<script>document.documentElement.dataset.mdColorScheme={scheme}</script>
<style>
{style}
body {{ max-width: 50rem; margin: 0 auto; padding: 1.5rem 1rem 4rem; font-family: system-ui, sans-serif; }}
body {{ line-height: 1.55; background: var(--kl-paper); color: var(--kl-ink); }}
h1 {{ font-size: 1.6rem; line-height: 1.25; overflow-wrap: anywhere; }}
h2 {{ margin: 2.4em 0 .4em; font-size: 1.1rem; }}
ol.story {{ padding-left: 2.4em; overflow-wrap: anywhere; }}
</style>
</head>
<body>
<main>
<h1>{escape(title)}</h1>
<p>{escape(words[0])}, as {escape(traced.source)} was run on the CPU, access by access.</p>
{body}
</main>
<script>
{";".join(scripts)}</script>
</body>
</html>
"""


def _stepper(traced: Traced, block: int, thread: int, root: Path) -> str:
    from kernels.figures import stepper

    source = root / traced.source
    alone = traced.files == traced.source  # the stepper marks lines of one text, and lines of another would mislead
    text = source.read_text(encoding="utf-8") if alone and source.is_file() else ""
    chosen = {"thread": thread} if traced.threads else {}
    try:
        return stepper(traced.trace, block, source=text, **chosen)
    except ValueError as error:
        return f"<p>{escape(str(error))}</p>"


def _figures(traced: Traced, block: int, thread: int) -> list[tuple[str, str]]:
    from kernels import figures

    trace, found = traced.trace, []
    owners = trace.owners("out") if any(buffer.name == "out" for buffer in trace.buffers) else None
    if owners is not None and owners.size <= MOST_OWNERS_DRAWN:
        draw = figures.ownership_grid if owners.ndim == 2 and owners.shape[0] > 1 else figures.ownership_strip
        picture = draw(owners, label="out", who=traced.who, everyone=trace.writers("out"))
        found.append(("Who writes what", picture))
    return found + (_of_the_warp(traced, block, thread // 32) if traced.threads else [])


def _of_the_warp(traced: Traced, block: int, warp: int) -> list[tuple[str, str]]:
    """What only a trace with threads can show: sectors, banks, barriers, lanes."""
    from kernels import figures

    trace, found = traced.trace, []
    for what in ("read", "write"):
        requests = [r for r in trace.requests(block=block, warp=warp, what=what, launch=0) if r.space == "global"]
        if requests:
            worst = min(requests, key=lambda request: request.efficiency)
            found.append((f"Sectors of a {what} of warp {warp}", figures.request_figure(worst)))
    shared = [r for r in trace.requests(block=block, warp=warp, launch=0) if r.space == "shared"]
    if shared:
        worst = max(shared, key=lambda request: (request.conflict_degree, len(request.lanes)))
        found.append((f"Banks of warp {warp}, at its worst", figures.bank_figure(worst)))
        buffer = trace.buffer(worst.buffer)
        if len(buffer.shape) == 2:
            found.append(("The shared array and its banks", figures.bank_tile(worst, buffer)))
    cells = trace.timeline(block=block)
    if cells:
        threads = trace.launches[0].threads
        caption = f"Block {block}: shared memory between barriers"
        found.append(("Barriers", figures.timeline(cells, caption, barriers=trace.barriers(block), threads=threads)))
    return [*found, (f"Lanes of warp {warp}", figures.divergence_figure(trace, block, warp))]
