"""The HTML around a block: its output is shown with its evidence, its faults, and a copy of runnable code."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Callable, Iterable
from html import escape
from pathlib import Path

from kernels.figures.reference import REFERENCE
from kernels.lessons.model import Block, Fault, Outcome, PageOutcome
from kernels.lessons.program import program_of
from kernels.lessons.store import RunStore, text_digest
from kernels.sources import Snippet, source_of

_EVIDENCE = {
    "run": "the output of this block",
    "trace": "reads and writes recorded while the code ran",
    "compile": "what the compiler made of the code",
    "measure": "measured on a GPU",
    "missing": "nothing was measured: the sentence says what would measure it",
}
_NAMES = {"missing": "not measured"}
_TAG = re.compile(r"<[^>]*>")
_MISSING = re.compile(
    r"\bnot (been )?(measured|run|read|built|taken)\b[^.]*\byet\b"
    r"|\b(without|no|not met) (a|the|that) (measurement|number)\b"
    r"|\[not on that machine"
    r"|\buntil it is measured\b|\bno (record|result)\b[^.]*\byet\b",
    re.IGNORECASE,
)
_HASH = re.compile(r"([0-9a-f]{7})[0-9a-f]*")  # seven digits tell commits apart for a reader
_FEW = 400  # characters of one or two sentences; what is longer says more than that something is missing
_COMMANDS = ("python scripts/", "kernel-bench ", "lessons ")  # an inline value that begins so is set as code
_DRAWN = ("<table", "<svg", "<figure")


def record_folders(paths: Iterable[str]) -> list[str]:
    """The folders of results/ that these files lie in; one that lies in another of them is not named again."""
    found = sorted({path.rpartition("/")[0] for path in paths if path.startswith("results/")} - {"results"})
    return [each for each in found if not any(each.startswith(f"{other}/") for other in found)]


def evidence_of(block: Block, text: str) -> str:
    """The badge of a block; `missing` where a measurement is only spoken of: its output is a sentence that says so."""
    said = _TAG.sub("", text).strip()
    if block.evidence != "measure" or len(said) > _FEW or any(mark in text for mark in _DRAWN):
        return block.evidence
    return "missing" if _MISSING.search(said) else "measure"


def _printed(block: Block, outcome: Outcome) -> str:
    """Classes of a block that printed text: `kl-block--says` where it is sentences, which may be broken anywhere."""
    text = outcome.output.text.rstrip()
    if block.html or not text:
        return ""
    columns = any("  " in line.strip() or line[:1] == " " for line in text.splitlines())
    return " kl-block--text" if columns else " kl-block--text kl-block--says"


class PageRenderer:
    """Serves the fences while one page is converted (see `fence.Renderer`)."""

    def __init__(self, outcome: PageOutcome, runs: RunStore, root: Path, *, authoring: bool = False) -> None:
        self.outcome = outcome
        self._root = root
        self.authoring = authoring
        self.extra_faults: list[Fault] = []
        self.rendered: set[str] = set()
        self._source = outcome.scan.source
        self._blocks = {block.line: block for block in outcome.scan.blocks}
        self._runs = runs
        self._cache: dict[str, list[str]] = runs.noted(self._source, "html") or {}
        self._changed = False

    def output(self, line: int) -> str | None:
        """See `fence.Renderer`."""
        block = self._blocks.get(line)
        if block is not None:
            return self.outcome.outcomes[block.id].output.text
        return "" if self._faults_at(line) else None

    def cached(self, line: int) -> str | None:
        """See `fence.Renderer`."""
        block = self._blocks.get(line)
        if block is None:
            return None
        known = self._cache.get(block.id)
        return known[1] if known and known[0] == self._render_key(block) else None

    def snippet(self, reference: str) -> Snippet:
        """See `fence.Renderer`."""
        return self.outcome.snippets.get(reference) or source_of(reference, self._root)

    def kept(self, name: str, key: str, make: Callable[[], str]) -> str:
        """See `fence.Renderer`."""
        key = text_digest(key)
        if self._cache.get(name, [""])[0] != key:
            self._cache[name] = [key, make()]
            self._changed = True
        return self._cache[name][1]

    def block(self, line: int, html: str, block_id: str) -> str:
        """See `fence.Renderer`."""
        block = self._blocks.get(line)
        if block is None:
            return f'<div class="kl-block">{html}{self._errors(self._faults_at(line))}</div>'
        key = self._render_key(block)
        if self._cache.get(block.id, [""])[0] != key:
            self._cache[block.id] = [key, html]
            self._changed = True
        self.rendered.add(block.id)
        outcome = self.outcome.outcomes[block.id]
        text = outcome.output.text
        drawn = block.html and REFERENCE not in text  # figures and numbers; a reference is text
        search = " data-search-exclude" if drawn or (text.count("\n") > 40 and not block.html) else ""
        classes = f"kl-block no-copy kl-block--{outcome.status}{_printed(block, outcome)}"
        return (
            f'<div class="{classes}" id="block-{escape(block.id)}" '
            f'data-evidence="{block.evidence}"{search}>{html}{self._errors(outcome.faults)}{self._bar(outcome)}</div>'
        )

    def inline(self, line: int, column: int, expression: str) -> str:
        """See `fence.Renderer`."""
        text = self.outcome.values.get(f"{line}:{column}", "?")
        tag = "code" if text.startswith(_COMMANDS) else "span"
        return f'<{tag} class="kl-value" title="computed: {escape(expression)}">{escape(text)}</{tag}>'

    def fault(self, line: int, kind: str, message: str) -> str:
        """See `fence.Renderer`."""
        fault = Fault(self._source.name, line + self._source.line_offset, kind, message)
        self.extra_faults.append(fault)
        return self._errors([fault])

    def finish(self) -> None:
        """Keep what was rendered for the next build."""
        if self._changed:
            self._runs.note(self._source, "html", self._cache)
            self._runs.save(self._source)

    def not_rendered(self) -> list[Fault]:
        """Faults for blocks that the scan found and the converter did not render."""
        return [
            Fault(
                self._source.name,
                b.line + self._source.line_offset,
                "unrendered",
                "the block is not on the page",
                block=b.id,
            )
            for b in self.outcome.scan.blocks
            if b.id not in self.rendered
        ]

    def runnable(self, block: Block) -> str:
        """The block as a program of its own: its session's earlier code first."""
        return program_of(self.outcome.scan, block)

    def _bar(self, outcome: Outcome) -> str:
        block = outcome.block
        evidence = evidence_of(block, outcome.output.text)
        stale = any(fault.kind == "stale" for fault in outcome.faults)
        words = [
            f'<span class="kl-badge kl-badge--{evidence}" title="{_EVIDENCE[evidence]}">'
            f"{_NAMES.get(evidence, evidence)}</span>"
        ]
        if stale:
            words.append('<span class="kl-badge kl-badge--stale">stale</span>')
        verb = "recorded on" if outcome.status == "frozen" else "run on"
        where = f"{verb} {outcome.label}" if outcome.label else "not run"
        commit = _HASH.sub(r"\1", outcome.commit)
        folders = record_folders(outcome.output.data)
        if block.evidence == "measure" and folders and "gpu" not in block.needs:
            # The records name the commit that was measured, and figures show it; this commit read them.
            where = f"read from {', '.join(folders)}{f' at commit {commit}' if commit else ''}"
        elif commit:
            where += f", commit {commit}"
        if evidence == "missing":
            where = ""
        words.append(f'<span class="kl-block__where">{escape(where)}</span>')
        text = escape(self.runnable(block), quote=True).replace("\n", "&#10;")
        what, name = "Copy a program to save and run", "Copy as a program"
        if block.language == "bash":
            what, name = "Copy commands for a terminal", "Copy for the terminal"
        button = (
            f'<button type="button" class="kl-copy" data-clipboard-text="{text}" '
            f'title="{what} in the project&#x27;s folder">{name}<span class="kl-visually-hidden"> '
            f"({escape(block.id)})</span></button>"
        )
        own = "" if block.shown else f"<pre><code>{escape(block.code.strip())}</code></pre>"
        scratch = (
            f'<details class="kl-scratch"><summary>{"Code, and open" if own else "Open"} in scratch'
            f'<span class="kl-visually-hidden"> ({escape(block.id)})</span></summary>{own}'
            f"<p>In the project&#x27;s folder: "
            f"<code>lessons scratch {escape(self._source.slug)}#{escape(block.id)}</code></p></details>"
        )
        if any(fault.kind == "failed" for fault in outcome.faults):
            button = scratch = ""
        return f'<div class="kl-block__bar" data-search-exclude>{"".join(words)}{scratch}{button}</div>'

    def _errors(self, faults: list[Fault]) -> str:
        return "".join(self._error(fault) for fault in faults)

    def _error(self, fault: Fault) -> str:
        """A fault in the page: what failed as it is; what only differs from what was accepted in one folded line."""
        detail = f"<pre>{escape(fault.detail)}</pre>" if fault.detail and self.authoring else ""
        said = f"<strong>{escape(fault.kind)}</strong> {escape(f'{fault.page}:{fault.line}: {fault.message}')}"
        tag, attributes = "div", f'class="kl-error kl-error--{escape(fault.kind)}" role="note"'
        if fault.kind == "stale":
            detail = ""  # names of modules say nothing to who reads the page; reports have them
        elif fault.kind == "drift" and self.authoring:
            tag, attributes = "details", attributes.removesuffix(' role="note"')
            said = f"<summary>{said.replace(' (check: exact)', ' from the accepted one')}</summary>"
            if any(block.id == fault.block and block.html for block in self.outcome.scan.blocks):
                detail = "<p>Above is what it draws today. The terminal of this preview has the difference.</p>"
        return f"<{tag} {attributes}>{said}{detail}</{tag}>"

    def _faults_at(self, line: int) -> list[Fault]:
        return [f for f in self.outcome.faults if f.line == line + self._source.line_offset and f.kind == "option"]

    def _render_key(self, block: Block) -> str:
        text = self.outcome.outcomes[block.id].output.text
        header = self._source.body.split("\n")[block.line - 1].strip()
        return hashlib.sha256("\0".join([header, block.code, text]).encode()).hexdigest()[:16]
