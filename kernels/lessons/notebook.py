"""Notebooks: percent-format Python files that the engine runs like pages, and the `.ipynb` made of a run.

A cell begins with a line `# %%`. One of code carries the options of a page's block (`# %% id="trace" needs="cxx"`); one
of text is `# %% [markdown]` and holds comments. The format is jupytext's: editors open the file as a notebook.
"""

from __future__ import annotations

import html as html_module
import json
import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from kernels.lessons.model import Block, Fault, PageOutcome, PageScan, PageSource
from kernels.lessons.options import OptionError, parse_own_options, take_own_options
from kernels.lessons.store import text_digest
from kernels.sources.files import write_whole

FOLDER = "lessons_src/notebooks"
SUFFIX = ".py"
_HEAD = re.compile(r"# %%(?P<words>.*)$")
_OPTION = re.compile(r'\s*([A-Za-z_]\w*)="([^"]*)"')
_LINK = re.compile(r"\]\(\.\./\.\./docs/([\w./-]+\.md)(#[\w-]+)?\)")
_STYLE = "docs/assets/lessons.css"


@dataclass
class Cell:
    """A part of a notebook's source. `first` is the line of its `# %%`, counted from one."""

    kind: str
    """``code``, ``markdown``, or ``head`` for what stands above the first cell."""
    first: int
    lines: list[str] = field(default_factory=list)
    options: dict[str, str] = field(default_factory=dict)
    fault: str = ""

    @property
    def text(self) -> str:
        """The code, or the Markdown without its comment marks, without empty lines around it."""
        lines = self.lines if self.kind == "code" else [re.sub(r"^#( |$)", "", line) for line in self.lines]
        return "\n".join(lines).strip("\n")


def is_notebook(source: PageSource) -> bool:
    """Whether a source is a notebook and not a Markdown page."""
    return source.name.endswith(SUFFIX)


def notebook_sources(root: Path) -> list[PageSource]:
    """The notebooks of a project, by name. Each is called ``notebooks/NAME.py``, as pages are by their place."""
    found = []
    for path in sorted((root / FOLDER).glob(f"*{SUFFIX}")):
        text = path.read_text(encoding="utf-8").replace("\r\n", "\n")
        found.append(PageSource(f"notebooks/{path.name}", path, text, 0, text_digest(text)))
    return found


def cells_of(text: str) -> list[Cell]:
    """The cells of a percent-format file, in order; what stands above the first is dropped when it is empty."""
    cells = [Cell("head", 0)]
    for number, line in enumerate(text.split("\n"), 1):
        head = _HEAD.match(line)
        if head is None:
            cells[-1].lines.append(line)
            continue
        words = head["words"].strip()
        kind = "markdown" if words.startswith("[markdown]") else "code"
        words = words.removeprefix("[markdown]")
        options = dict(_OPTION.findall(words))
        rest = _OPTION.sub("", words).strip()
        fault = f'{rest!r} is no option of a cell; write name="value", as in id="trace"' if rest else ""
        cells.append(Cell(kind, number, options=options, fault=fault))
    return cells if cells[0].text else cells[1:]


def scan_notebook(source: PageSource) -> PageScan:
    """What a notebook runs: its code cells, each with its line. What is wrong with a cell's head is a fault."""
    scan = PageScan(source)
    seen: dict[str, int] = {}

    def fault(cell: Cell, message: str, block: str = "") -> None:
        scan.faults.append(Fault(source.name, max(cell.first, 1), "option", message, block=block))

    for cell in cells_of(source.body):
        name = cell.options.get("id", "")
        if cell.fault:
            fault(cell, cell.fault, name)
        elif cell.kind == "head":
            fault(cell, "text stands above the first cell; begin the file with a line '# %% [markdown]'")
        elif cell.kind == "markdown":
            bare = next((line for line in cell.lines if line.strip() and not re.match(r"#( |$)", line)), None)
            if bare is not None:
                fault(cell, f"a cell of text holds a line that is no comment, {bare.strip()!r}; begin it with '# '")
        elif name in seen:
            fault(cell, f"the id {name!r} is used on line {seen[name]} already; ids are unique in a notebook", name)
        else:
            inputs = {key: value for key, value in cell.options.items() if key not in ("id", "html")}
            own = take_own_options(inputs)
            as_html = cell.options.get("html") == "1"
            try:
                fields = parse_own_options(own, block_id=name, html=as_html, language="python", extra=inputs)
            except OptionError as error:
                fault(cell, str(error), name)
                continue
            if "gpu" in fields["needs"]:
                fault(cell, "a notebook runs in one process, which interprets Triton: a cell cannot need a gpu", name)
                continue
            seen[name] = cell.first
            code = "\n".join(cell.lines).rstrip("\n")
            scan.blocks.append(Block(id=name, line=cell.first, language="python", code=code, html=as_html, **fields))
    return scan


def prose_of(body: str) -> str:
    """A notebook's text cells as Markdown, every line where it stands in the file, the code left out."""
    lines: list[str] = [""] * (body.count("\n") + 1)
    for cell in cells_of(body):
        if cell.kind == "markdown":
            for offset, line in enumerate(cell.lines):
                lines[cell.first + offset] = re.sub(r"^#( |$)", "", line)
    return "\n".join(lines)


def links_of(body: str) -> list[tuple[int, str]]:
    """The pages that a notebook's text links, by line: paths below docs/, without their anchors."""
    prose = prose_of(body).split("\n")
    return [(number, match[1]) for number, line in enumerate(prose, 1) for match in _LINK.finditer(line)]


def as_notebook(
    outcome: PageOutcome, root: Path, *, styled: bool = True, link: Callable[[str], str] | None = None
) -> str:
    """The notebook with the outputs of a run, as strict JSON in the format of Jupyter (4.5).

    An output of a cell that prints HTML comes as HTML and as text beside it; with `styled`, the site's style sheet
    comes before the first. `link` gives the address of a page by its path below docs/; without it, links stay.
    """
    cells: list[dict[str, Any]] = []
    count = 0
    for index, cell in enumerate(cells_of(outcome.scan.source.body)):
        if cell.kind == "markdown":
            text = cell.text
            if link:
                text = _LINK.sub(lambda match: f"]({link(match[1])}{match[2] or ''})", text)
            cells.append({"cell_type": "markdown", "id": f"text-{index}", "metadata": {}, "source": _lines(text)})
            continue
        count += 1
        block_id = cell.options.get("id", f"cell-{index}")
        found = outcome.outcomes.get(block_id)
        outputs: list[dict[str, Any]] = []
        if found and found.output.text and not found.block.html:
            outputs = [{"output_type": "stream", "name": "stdout", "text": _lines(found.output.text + "\n")}]
        elif found and found.output.text:
            shown = found.output.text
            style, styled = _style(root) if styled else "", False
            outputs = [
                {
                    "output_type": "display_data",
                    "metadata": {},
                    "data": {"text/html": _lines(style + shown), "text/plain": _lines(plain(shown))},
                }
            ]
        made = {"label": found.label, "commit": found.commit, "evidence": found.block.evidence} if found else {}
        cells.append(
            {
                "cell_type": "code",
                "id": block_id,
                "metadata": {"lesson": made} if made else {},
                "execution_count": count,
                "source": _lines(cell.text),
                "outputs": outputs,
            }
        )
    document = {
        "nbformat": 4,
        "nbformat_minor": 5,
        "metadata": {
            "kernelspec": {"display_name": "Python 3", "language": "python", "name": "python3"},
            "language_info": {"name": "python"},
        },
        "cells": cells,
    }
    return json.dumps(document, indent=1, ensure_ascii=False, allow_nan=False) + "\n"


def write_notebooks(
    folder: Path,
    root: Path,
    outcomes: Iterable[PageOutcome],
    shown: list[str],
    url_of: Callable[[str, str], str | None],
) -> list[str]:
    """Write each as notebooks/download/NAME.ipynb below `folder`, and those in `shown` as notebooks/NAME.ipynb too.

    The second kind is a page of the site: `url_of` gives a page's address as seen from another's, or None where there
    is no such page. A download's links stay those of the project's folder, where it is run. Returns the paths below
    `folder`; a file that would not change is not written.

    Raises:
        ValueError: `shown` names a notebook that there is none of, or a notebook links a page that there is none of.
    """
    known = {Path(outcome.scan.source.name).stem: outcome for outcome in outcomes}
    unknown = sorted(set(shown) - known.keys())
    if unknown:
        raise ValueError(f"shown_notebooks names {unknown[0]!r}; {FOLDER} holds {', '.join(known) or 'none'}")
    made = []
    for name, outcome in known.items():
        here = f"notebooks/{name}/"
        urls: dict[str, str] = {}
        for line, target in links_of(outcome.scan.source.body):
            url = url_of(target, here)
            if url is None:
                raise ValueError(f"{FOLDER}/{name}.py:{line}: it links docs/{target}, and there is no such page")
            urls[target] = url
        texts = {f"notebooks/download/{name}.ipynb": as_notebook(outcome, root)}
        if name in shown:
            texts[f"notebooks/{name}.ipynb"] = as_notebook(outcome, root, styled=False, link=urls.__getitem__)
        for uri, text in texts.items():
            path = folder / uri
            if not path.exists() or path.read_text(encoding="utf-8") != text:
                write_whole(path, text)
            made.append(uri)
    return made


def _lines(text: str) -> list[str]:
    return text.splitlines(keepends=True)


def _style(root: Path) -> str:
    try:
        return f"<style>{(root / _STYLE).read_text(encoding='utf-8')}</style>\n"
    except OSError:
        return ""


def plain(markup: str) -> str:
    """The words of a figure or table, a line a row, for readers that show no HTML."""
    once = re.sub(r'<div class="kl-narrow">.*?\n</div>\n</div>', "", markup, flags=re.DOTALL)  # a phone's drawing
    text = re.sub(r"<(style|script|svg)\b.*?</\1>", "", once, flags=re.DOTALL)
    text = re.sub(r"</(?:td|th)>\s*(?=<t[dh])", "  ", text)
    text = re.sub(r"</(?:tr|p|div|caption|figcaption|summary|li)>", "\n", text)
    text = html_module.unescape(re.sub(r"<[^>]+>", "", text))
    lines = (re.sub(r"[ \t]+", " ", line).strip() for line in text.split("\n"))
    return "\n".join(line for line in lines if line) or "a figure"
