"""How long the lesson engine takes beside stock markdown-exec and beside the same Markdown with no blocks run.

    python scripts/engine_benchmark.py              60 pages of 6 blocks that sleep 0.05 s each
    python scripts/engine_benchmark.py --preview    from saving a page to seeing it, under `lessons serve`

Every time is that of a whole command in a new process, the median of `--repeat` runs.
"""

from __future__ import annotations

import json
import os
import platform
import shutil
import socket
import statistics
import subprocess
import sys
import tempfile
import time
import urllib.request
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console
from rich.table import Table

SCRIPTS = Path(sys.executable).parent
EXTENSIONS = """\
markdown_extensions:
  - admonition
  - attr_list
  - toc: {permalink: true}
  - pymdownx.highlight: {anchor_linenums: false}
  - pymdownx.inlinehilite
"""
KINDS = {
    "no blocks": "plugins: [search]\n" + EXTENSIONS + "  - pymdownx.superfences\n",
    "markdown-exec": "plugins: [search, markdown-exec]\n" + EXTENSIONS + "  - pymdownx.superfences\n",
    "lessons": "plugins: [search, lessons]\n" + EXTENSIONS + "  - pymdownx.superfences\n",
}
EXPECTED = {"cold: markdown-exec / lessons": (1.7, "at least"), "edited: lessons / no blocks": (1.2, "at most")}


def make_site(root: Path, kind: str, pages: int, blocks: int, sleep_s: float) -> None:
    """Write a site of `pages` pages with `blocks` blocks each that sleep and print; `kind` is a key of `KINDS`."""
    (root / "docs").mkdir(parents=True)
    theme = "site_name: Benchmark\nuse_directory_urls: true\ntheme: {name: material, font: false}\n"
    (root / "mkdocs.yml").write_text(theme + KINDS[kind], encoding="utf-8")
    for page in range(pages):
        parts = [f"# Page {page}\n\nThe first paragraph.\n"]
        for block in range(blocks):
            executed = "" if kind == "no blocks" else f' exec="1" source="above" id="b{block}"'
            if kind == "markdown-exec":
                executed += ' result="text"'
            code = f"import time\n\ntime.sleep({sleep_s})\nprint('page {page}, block {block}', {page} * {block})"
            parts.append(f"## Part {block}\n\nSome prose with *emphasis*.\n\n```python{executed}\n{code}\n```\n")
            if kind == "no blocks":
                parts.append(f"```text\npage {page}, block {block} {page * block}\n```\n")
        (root / "docs" / ("index.md" if page == 0 else f"page{page}.md")).write_text("\n".join(parts), encoding="utf-8")


def timed_build(root: Path) -> float:
    """Seconds of one `mkdocs build` in a new process.

    Raises:
        RuntimeError: the build failed; the message is what it said.
    """
    began = time.perf_counter()
    environment = {name: value for name, value in os.environ.items() if not name.startswith("LESSONS_")}
    command = [str(SCRIPTS / "mkdocs"), "build", "--quiet"]
    done = subprocess.run(command, cwd=root, env=environment, capture_output=True, text=True, check=False)
    seconds = time.perf_counter() - began
    if done.returncode:
        raise RuntimeError(f"mkdocs build failed in {root}:\n{done.stdout}{done.stderr}")
    return seconds


def accept(root: Path) -> None:
    """Accept all outputs, so that a later build compares them and has nothing to say."""
    subprocess.run([str(SCRIPTS / "lessons"), "accept"], cwd=root, capture_output=True, check=True)


def measure(folder: Path, kind: str, pages: int, blocks: int, sleep_s: float, repeat: int) -> dict[str, list[float]]:
    """Seconds of builds from clean, and of builds after one paragraph was edited."""
    times: dict[str, list[float]] = {"cold": [], "edited": []}
    root = folder / kind.replace(" ", "-")
    make_site(root, kind, pages, blocks, sleep_s)
    if kind == "lessons":
        accept(root)
    outputs, kept = root / "lessons_src", folder / "kept-outputs"
    for _ in range(repeat):
        for name in (".lessons", "site"):
            shutil.rmtree(root / name, ignore_errors=True)
        if outputs.exists():
            outputs.rename(kept)  # nothing accepted: every block runs
        times["cold"].append(timed_build(root))
        if kept.exists():
            kept.rename(outputs)
    page = root / "docs" / "page1.md"
    for number in range(repeat):
        text = page.read_text(encoding="utf-8")
        page.write_text(text.replace("The first paragraph", f"Edit {number}. The first paragraph"), encoding="utf-8")
        times["edited"].append(timed_build(root))
    return times


def preview_times(folder: Path, pages: int, blocks: int, edits: int) -> dict[str, list[float]]:
    """Seconds from saving a page to its new words being served by `lessons serve`: those of a text, and of a block.

    An edited block runs. The first one that does starts the process which later ones are forked from.
    """
    root = folder / "preview"
    make_site(root, "lessons", pages, blocks, 0.0)
    accept(root)
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    command = [str(SCRIPTS / "lessons"), "serve", "--address", f"127.0.0.1:{port}"]
    server = subprocess.Popen(command, cwd=root, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    page, words = root / "docs" / "index.md", "The first paragraph"
    times: dict[str, list[float]] = {"text": [], "block": []}
    try:
        _wait_for(port, words)
        for number in range(edits):
            time.sleep(0.5)
            new = f"Words of edit {number}"
            page.write_text(page.read_text(encoding="utf-8").replace(words, new), encoding="utf-8")
            words = new
            times["text"].append(_wait_for(port, words))
        words = "'page 0, block 0'"
        for number in range(edits):
            time.sleep(0.5)
            new = f"said by edit {number}"
            said = page.read_text(encoding="utf-8").replace(words, f"'{new}'.upper()")  # the code is shown as well
            page.write_text(said, encoding="utf-8")
            words = f"'{new}'.upper()"
            times["block"].append(_wait_for(port, new.upper()))
    finally:
        server.terminate()
        server.wait()
    return times


def _wait_for(port: int, words: str) -> float:
    began = time.perf_counter()
    while time.perf_counter() - began < 120:
        try:
            with urllib.request.urlopen(f"http://127.0.0.1:{port}/", timeout=10) as answer:
                if words in answer.read().decode():
                    return time.perf_counter() - began
        except OSError:
            pass
        time.sleep(0.02)
    raise RuntimeError(f"after two minutes the preview did not show {words!r}")


def main(
    pages: Annotated[int, typer.Option(min=2)] = 60,
    blocks: Annotated[int, typer.Option(min=1, help="Blocks on a page.")] = 6,
    sleep: Annotated[float, typer.Option(min=0.0, help="Seconds that each block sleeps.")] = 0.05,
    repeat: Annotated[int, typer.Option(min=1, help="Builds of each kind; the median is shown.")] = 3,
    preview: Annotated[bool, typer.Option("--preview", help="Measure live preview instead of builds.")] = False,
    json_file: Annotated[Path | None, typer.Option("--json", help="Write all times to this file.")] = None,
) -> None:
    """Time the engine and say whether it keeps its promises."""
    out = Console(highlight=False)
    load = os.getloadavg()[0] if hasattr(os, "getloadavg") else float("nan")
    machine = {"cores": os.cpu_count(), "load_before": load, "python": platform.python_version()}
    out.print(f"{pages} pages of {blocks} blocks of {sleep} s; {os.cpu_count()} cores, load {load:.1f} before")
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        if preview:
            times = preview_times(folder, pages, blocks, max(repeat, 5))
            for kind, each in times.items():
                said = f"median {statistics.median(each):.2f} s, the first {each[0]:.2f} s, slowest {max(each):.2f} s"
                out.print(f"{kind} saved to shown: {said} of {len(each)} edits")
            document = {"machine": machine, "preview_s": times}
            kept = all(statistics.median(each) <= 1 for each in times.values())
        else:
            found = {kind: measure(folder, kind, pages, blocks, sleep, repeat) for kind in KINDS}
            document, kept = {"machine": machine, "builds_s": found}, _tell(out, found)
    if json_file:
        json_file.write_text(json.dumps(document, indent=1) + "\n", encoding="utf-8")
    raise typer.Exit(0 if kept else 1)


def _tell(out: Console, found: dict[str, dict[str, list[float]]]) -> bool:
    middle = {kind: {what: statistics.median(times) for what, times in each.items()} for kind, each in found.items()}
    table = Table("build", "from clean, s", "after editing a paragraph, s", box=None, pad_edge=False)
    for kind, each in middle.items():
        table.add_row(kind, f"{each['cold']:.2f}", f"{each['edited']:.2f}")
    out.print(table)
    ratios = {
        "cold: markdown-exec / lessons": middle["markdown-exec"]["cold"] / middle["lessons"]["cold"],
        "edited: lessons / no blocks": middle["lessons"]["edited"] / middle["no blocks"]["edited"],
    }
    kept = True
    for name, ratio in ratios.items():
        bound, word = EXPECTED[name]
        good = ratio >= bound if word == "at least" else ratio <= bound
        kept &= good
        out.print(f"{name}: {ratio:.2f} (expected {word} {bound}){'' if good else '  NOT KEPT'}")
    return kept


if __name__ == "__main__":
    typer.run(main)
