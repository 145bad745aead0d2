"""Bring pages up to date: decide what must run, run it, compare it with what was accepted, report.

Modes:

* ``run``: execute what is not fresh, compare; what differs is drift.
* ``frozen``: execute nothing; every output must be accepted and fresh.
* ``verify``: execute everything that this machine can, from clean, and compare.
* ``accept``: like ``verify``, and what differs replaces the accepted output, unless a block of the page failed.
"""

from __future__ import annotations

import hashlib
import importlib.metadata
from collections.abc import Callable, Collection, Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from kernels.lessons import machine
from kernels.lessons.look import Unchanged
from kernels.lessons.model import REFUSED, Block, Fault, Inline, PageOutcome, PageScan, PageSource
from kernels.lessons.notebook import is_notebook, scan_notebook
from kernels.lessons.runner import Job, Runner
from kernels.lessons.scan import scan_page
from kernels.lessons.store import RunStore, text_digest
from kernels.lessons.work import INLINE_ITEM, PageWork

MODES = ("run", "frozen", "verify", "accept")


@dataclass
class Counts:
    """How many blocks did what: `kept` ones show this machine's last run, `frozen` ones what was accepted."""

    sources: int = 0
    ran: int = 0
    kept: int = 0
    frozen: int = 0
    failed: int = 0
    drifted: int = 0


@dataclass
class Report:
    """The outcome of every page, with the files that `accept` wrote."""

    pages: dict[str, PageOutcome] = field(default_factory=dict)
    written: list[str] = field(default_factory=list)
    interrupted: bool = False
    """Whether pages were left out because nobody waits for them any more."""

    def faults(self) -> list[Fault]:
        """All faults, by page and line."""
        return [fault for name in sorted(self.pages) for fault in self.pages[name].all_faults()]

    def counts(self) -> Counts:
        """Blocks that were asked for, and what became of them."""
        counts = Counts()
        for page in self.pages.values():
            counts.sources += len(page.scan.blocks) - page.not_chosen
            for outcome in page.outcomes.values():
                setattr(counts, outcome.status, getattr(counts, outcome.status) + 1)
                counts.drifted += any(fault.kind in ("drift", "new") for fault in outcome.faults)
        return counts


class Engine:
    """One project's pages. Keep it for several builds: it keeps warm workers and what it has read."""

    def __init__(
        self, root: Path, new_markdown: Callable[[], Any], *, settings: str = "", jobs: int | None = None
    ) -> None:
        """`new_markdown` gives a converter with the site's extensions; `settings` is a text that tells them apart."""
        self.root = root
        self.accepted_folder = root / "lessons_src" / "outputs"
        self.machine = machine.Machine()
        stamp = f"{_own_digest()} {text_digest(settings)} {_renderers()}"
        self.runs = RunStore(root / ".lessons" / "runs", stamp)
        self.commit = ""
        """The commit that blocks run in; looked at before they do."""
        self.new_markdown = new_markdown
        self._runner = Runner(root, jobs)
        self._unchanged = Unchanged(root)
        self._put_off: dict[str, str] = {}

    def close(self) -> None:
        """End the warm workers."""
        self._runner.close()

    def scan(self, source: PageSource) -> PageScan:
        """What a page asks to be run; remembered for as long as its text, the engine and its settings stay."""
        key = text_digest(source.body)
        noted = self.runs.noted(source, "scan")
        if noted and noted["key"] == key:
            blocks = [Block(**{**each, **_tuples(each)}) for each in noted["blocks"]]
            inlines = [Inline(**each) for each in noted["inlines"]]
            return PageScan(source, blocks, inlines, noted["includes"])
        scan = scan_notebook(source) if is_notebook(source) else scan_page(source, self.new_markdown)
        if not scan.faults:
            noted = {
                "key": key,
                "blocks": [vars(block) for block in scan.blocks],
                "inlines": [vars(inline) for inline in scan.inlines],
                "includes": scan.includes,
            }
            self.runs.note(source, "scan", noted)
            self.runs.save(source)
        return scan

    def bring_up_to_date(
        self,
        sources: Iterable[PageSource],
        mode: str = "run",
        *,
        progress: Callable[[str, int, int], None] | None = None,
        only: Callable[[str, Block], bool] | None = None,
        interrupted: Callable[[], bool] | None = None,
        runs: bool = True,
        resting: Collection[str] = (),
    ) -> Report:
        """Bring the pages to a state that can be shown, and say what is wrong with them.

        `progress` hears (what starts, blocks started, blocks to run). `only` restricts what `accept` runs and may
        replace: it is asked with a page's name and a block. When `interrupted` says yes, what runs is stopped, and the
        report leaves out the pages that were not done. Unless it `runs`, pages whose blocks are to run show what was
        accepted, and say how many wait; so do pages of these names that are `resting`, as long as the same waits.

        Raises:
            ValueError: `mode` is not a mode.
        """
        if mode not in MODES:
            raise ValueError(f"LESSONS_MODE={mode!r} is not one of {', '.join(MODES)}")
        report = Report()
        look = self._unchanged.look()
        sources = list(sources)
        if mode == "run":
            known = {source.name: self._unchanged.get(source) for source in sources}
            report.pages |= {
                name: outcome
                for name, outcome in known.items()
                if outcome is not None and not (outcome.waiting and runs and name not in resting)
            }
            sources = [source for source in sources if source.name not in report.pages]
        works, jobs = [], []
        for source in sources:
            if interrupted and interrupted():
                report.interrupted = True
                break
            work = PageWork(self, self.scan(source), mode, look, only)
            works.append(work)
            wanted = work.jobs()
            if wanted and self._rests(work, runs, resting):
                work.put_off(wanted)
            else:
                jobs += wanted
        if jobs:
            self.commit = machine.commit(self.root)
        total, started = sum(item["kind"] == "block" for job in jobs for item in job.items), [0]

        def hear(job: Job, item: str) -> None:
            started[0] += not item.startswith(INLINE_ITEM)  # values in the text take no time worth a count
            if progress and not item.startswith(INLINE_ITEM):
                progress(f"{job.page} {item}", started[0], total)

        by_page = {work.scan.source.name: work for work in works}
        for job, result in self._runner.run(jobs, hear, interrupted):
            if result.interrupted:
                report.interrupted = True
                by_page.pop(job.page, None)
            elif job.page in by_page:
                by_page[job.page].take(job, result)
        for name, work in by_page.items():
            outcome = report.pages[name] = work.finish()
            if mode == "run":
                self._unchanged.put(outcome)
            if mode == "accept":
                report.written += work.accept()
        return report

    def _rests(self, work: PageWork, runs: bool, resting: Collection[str]) -> bool:
        """Whether the blocks of a page that are to run are put off: always, or as long as it is the same ones."""
        name = work.scan.source.name
        if runs and name not in resting:
            return False
        waits = work.waits_for()
        if runs and self._put_off.get(name) != waits:
            return False
        self._put_off[name] = waits
        return True

    def accept_shown(self, shown: PageOutcome) -> tuple[list[str], str]:
        """Accept the outputs that a page shows, without running anything: the files written, or why it is refused."""
        name = shown.scan.source.name
        if any(fault.kind in REFUSED for fault in shown.all_faults()):
            return [], f"{name} is not accepted: one of its blocks fails"
        if shown.waiting:
            return [], f"{name} is not accepted: its blocks have not run here; open the page, and press a again"
        work = PageWork(self, shown.scan, "run", self._unchanged.look())
        if work.jobs():
            return [], f"{name} is not accepted: what it stands on has changed since it was shown"
        again = work.finish()
        texts = [{key: each.output.text for key, each in page.outcomes.items()} for page in (shown, again)]
        if texts[0] != texts[1] or shown.values != again.values:
            return [], f"{name} is not accepted: its outputs are not those that were shown"
        return work.accept(), ""


def _tuples(each: dict[str, Any]) -> dict[str, Any]:
    return {name: tuple(each[name]) for name in ("needs", "normalise")}


def _own_digest() -> str:
    """Changes with the engine's own code: a scan by another engine is not trusted."""
    digest = hashlib.sha256()
    for path in sorted(Path(__file__).parent.rglob("*.py")):
        digest.update(path.read_bytes())
    return digest.hexdigest()[:16]


def _renderers() -> str:
    """The versions of what makes HTML of blocks: what another version has made is not shown again."""
    names = ("markdown", "markdown-exec", "pygments", "pymdown-extensions")
    return " ".join(importlib.metadata.version(name) for name in names)
