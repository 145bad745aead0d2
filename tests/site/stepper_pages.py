"""Pages with steppers over small traces that need no compiler, and what Python says of the same steps."""

from __future__ import annotations

from pathlib import Path

import numpy as np
from site_host import ROOT, STEPPER, script_of

from kernels.figures import stepper
from kernels.trace import Buffer, Launch, Recorder, Trace
from kernels.trace.model import ATOMIC, READ, WRITE

SOURCE = "".join(f"    statement {n};\n" for n in range(1, 61))


def record(recorder: Recorder, line: int, what: int, buffer: int, threads, elements, **more) -> None:
    recorder.add(
        launch=0, block=more.pop("block", 0), thread=threads, what=what, buffer=buffer, element=np.asarray(elements),
        size=more.pop("size", 4), site=recorder.site("k.cu", line), **more,
    )  # fmt: skip


def cuda_trace(name: str = "x", arrive: int = 96) -> Trace:
    """96 threads: a strided load, a store down a column of a tile, a barrier, a load by 40 threads, an atomic, and one
    store past the end. `arrive` threads reach the barrier."""
    recorder = Recorder()
    recorder.launch(Launch("k", (1, 1, 1), (96, 1, 1), "cuda"))
    recorder.buffer(Buffer(name, 4, (1000,)))
    recorder.buffer(Buffer("tile", 4, (32, 32), space="shared"))
    recorder.buffer(Buffer("out", 4, (96,)))
    who = np.arange(96)
    record(recorder, 10, READ, 0, who, who * 3)
    record(recorder, 11, WRITE, 1, who, who % 32 * 32 + who // 32)
    record(recorder, 40, READ, 1, who[:40], who[:40], interval=1)
    record(recorder, 41, ATOMIC, 1, who, who * 0, interval=1)
    record(recorder, 42, WRITE, 2, who, who + 1, interval=1)
    trace = recorder.trace()
    few, zero = who[:arrive], np.zeros(arrive, int)
    columns = {
        "launch": zero, "block": zero, "thread": few, "interval": zero, "what": zero + 3, "sequence": zero + 1,
        "site": zero + trace.sites.index(("k.cu", 11)),
    }  # fmt: skip
    object.__setattr__(trace, "steps", columns)
    return trace


def triton_trace() -> Trace:
    """Two programs of 256 elements on vectors of 300."""
    recorder = Recorder()
    recorder.launch(Launch("_add", (2, 1, 1), None, "triton"))
    for name in ("x", "out"):
        recorder.buffer(Buffer(name, 4, (300,)))
    for block in range(2):
        elements = np.arange(256) + 256 * block
        for line, what, buffer in ((5, READ, 0), (6, WRITE, 1)):
            record(recorder, line, what, buffer, -1, elements, block=block, active=elements < 300)
    return recorder.trace()


def wide_trace(elements, size: int) -> Trace:
    """32 threads read, and then write, `size` bytes each of shared memory, from these elements of 4 bytes on."""
    recorder = Recorder()
    recorder.launch(Launch("k", (1, 1, 1), (32, 1, 1), "cuda"))
    recorder.buffer(Buffer("tile", 4, (1024,), space="shared"))
    for line, what in ((10, READ), (11, WRITE)):
        record(recorder, line, what, 0, np.arange(32), elements, size=size)
    return recorder.trace()


def vector_trace(count: int, block: int) -> Trace:
    """One program that loads and stores `block` places of two vectors of `count`, those past the end masked off."""
    recorder = Recorder()
    recorder.launch(Launch("_add", (1, 1, 1), None, "triton"))
    elements = np.arange(block)
    for number, (name, line, what) in enumerate((("x", 5, READ), ("out", 6, WRITE))):
        recorder.buffer(Buffer(name, 4, (count,)))
        record(recorder, line, what, number, -1, elements, active=elements < count)
    return recorder.trace()


def page_of(*figures: str, scheme: str = "default", head: str = "") -> str:
    """A page like the site's: its stylesheets, some prose, the figures, the script."""
    style = "".join((ROOT / f"docs/assets/{name}.css").read_text() for name in ("lessons",))
    body = "<p>Prose between figures.</p>".join(figures)
    return (
        f'<!doctype html><html lang="en" data-md-color-scheme="{scheme}"><head><meta charset="utf-8">'
        f'<meta name="viewport" content="width=device-width"><title>Steppers</title><style>{style} body{{margin:1rem;'
        f"background:var(--kl-paper);color:var(--kl-ink)}}</style>{head}</head><body><main><h1>Steppers</h1>{body}"
        f"</main><script>{script_of(*STEPPER)}</script></body></html>"
    )


def cuda_page(**more) -> str:
    return page_of(stepper(cuda_trace(), source=SOURCE, caption="A kernel."), **more)


def requests_of(trace: Trace, warp: int) -> list:
    """Python's requests of one warp, in order."""
    plain = Trace(trace.launches, trace.buffers, trace.sites, trace.columns)
    return plain.requests(block=0, warp=warp)


def written(folder: Path, html: str) -> str:
    path = folder / "steppers.html"
    path.write_text(html, encoding="utf-8")
    return path.as_uri()
