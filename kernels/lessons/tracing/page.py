"""A trace as a page with the figures, which needs no other file."""

from __future__ import annotations

from html import escape
from pathlib import Path

from kernels.lessons.explained import linked
from kernels.lessons.tracing.run import Traced
from kernels.lessons.tracing.words import in_words

STYLE = "docs/assets/lessons.css"
SCRIPTS = tuple(f"docs/assets/{name}.js" for name in ("early", "banks", "stepper-model", "stepper-pictures", "stepper"))
MARK = '<meta name="generator" content="lessons trace">'  # a page that carries it may be written over
MOST_OWNERS_DRAWN = 1 << 16


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
