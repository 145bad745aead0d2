"""What `lessons trace` says: the life of one thread of a CUDA kernel, and the verdicts on all of them."""

from __future__ import annotations

from html import escape
from pathlib import Path

import numpy as np

from kernels.lessons.explained import linked, with_explanation

STYLE = "docs/assets/lessons.css"


def trace_kernel(kernel: str, rows: int, columns: int):
    """Trace `vector_add` on `columns` elements, or a softmax of `rows` × `columns`, with its own launch.

    Raises:
        KeyError: cuda/kernels.cu has no such kernel with a launcher; the message lists those it has.
        ValueError: a size is below one.
    """
    from kernels.sources import Sources
    from kernels.trace.cuda import trace_cuda_launcher

    if rows < 1 or columns < 1:
        raise ValueError(f"--rows {rows} and --cols {columns} must both be at least 1.")
    symbols = Sources().cuda_files()["cuda/kernels.cu"].symbols
    known = sorted(name.removeprefix("launch_") for name, symbol in symbols.items() if symbol.exported)
    if kernel not in known:
        raise KeyError(f"cuda/kernels.cu launches no kernel {kernel!r}; it launches {', '.join(known)}.")
    generator = np.random.default_rng(0)
    if kernel == "vector_add":
        x, y = generator.standard_normal((2, columns), dtype=np.float32)
        arguments = [x, y, np.full(columns, np.nan, np.float32), columns]
    else:
        x = generator.standard_normal((rows, columns), dtype=np.float32)
        arguments = [x, np.full_like(x, np.nan), rows, columns, columns, columns]
    return trace_cuda_launcher(f"launch_{kernel}", arguments)


def in_words(trace, block: int, thread: int) -> list[str]:
    """The launch, what one thread did from its first line to its last, and what is wrong.

    Raises:
        ValueError: the launch has no such block or thread.
    """
    launch = trace.launches[0]
    if not 0 <= block < launch.blocks or not 0 <= thread < launch.threads:
        raise ValueError(
            f"The launch has {_count(launch.blocks, 'block')} of {launch.threads} threads, so there is no thread "
            f"{thread} of block {block}; both count from 0."
        )
    lines = [f"{launch.kernel}: {_count(launch.blocks, 'block')} of {launch.threads} threads"]
    lines += trace.story(thread, block)
    faults = trace.faults()
    lines += [f"verdict: {with_explanation(fault)}" for fault in faults] or ["no verdict: nothing is wrong"]
    return lines + [f"advice: {with_explanation(item)}" for item in trace.advice()]


def _count(number: int, word: str) -> str:
    return f"{number} {word}{'s' * (number != 1)}"


def as_page(trace, block: int, root: Path) -> str:
    """Owners, the first load of the block, and its barriers, as an HTML page that needs no other file."""
    from kernels.figures import ownership_grid, ownership_strip, request_figure, timeline, verdict_list

    launch = trace.launches[0]
    owners = trace.owners("out")
    figures = [
        ownership_strip(owners, label="out", who="block")
        if owners.ndim == 1
        else ownership_grid(owners, "out", "block")
    ]
    loads = trace.requests(block=block, what="read", buffer="x")
    if loads:
        figures.append(request_figure(loads[0], f"Block {block}, warp {loads[0].warp}: its first load of x"))
    shared = trace.timeline(block=block)
    if shared:
        figures.append(timeline(shared, f"Block {block}: shared memory between barriers"))
    figures.append(linked(verdict_list(trace.faults())))
    advice = trace.advice()
    if advice:
        figures.append(linked(verdict_list(advice, "Right, and slower than it need be")))
    style = (root / STYLE).read_text(encoding="utf-8") if (root / STYLE).is_file() else ""
    return (
        '<!doctype html><html lang="en"><meta charset="utf-8"><meta name="viewport" content="width=device-width">'
        f"<title>{escape(launch.kernel)}</title><style>{style}\nbody{{max-width:52rem;margin:2rem auto;padding:0 1rem;"
        f"font-family:sans-serif}}</style><h1>{escape(launch.kernel)}</h1>{''.join(figures)}</html>\n"
    )
