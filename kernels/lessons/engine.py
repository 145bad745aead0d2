"""Bring pages up to date: decide what must run, run it, compare it with what was accepted, report.

Modes:

* ``run``: execute what is not fresh, compare; what differs is drift.
* ``frozen``: execute nothing; every output must be accepted and fresh.
* ``verify``: execute everything that this machine can, from clean, and compare.
* ``accept``: like ``verify``, and what differs replaces the accepted output, unless a block of the page failed.
"""

from __future__ import annotations

import ast
import contextlib
import hashlib
import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from functools import lru_cache
from pathlib import Path
from typing import Any

from kernels.lessons import compare, machine
from kernels.lessons.model import Block, Fault, Inline, Outcome, Output, PageOutcome, PageScan, PageSource
from kernels.lessons.normalise import normalise
from kernels.lessons.runner import Job, JobResult, Runner
from kernels.lessons.scan import scan_page
from kernels.lessons.store import Accepted, AcceptedPage, RunStore, text_digest
from kernels.sources import Sources, source_of

MODES = ("run", "frozen", "verify", "accept")
INLINE_ITEM = "inline:"


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

    def faults(self) -> list[Fault]:
        """All faults, by page and line."""
        return [fault for name in sorted(self.pages) for fault in self.pages[name].all_faults()]

    def counts(self) -> Counts:
        """Blocks in the sources, and what became of them."""
        counts = Counts()
        for page in self.pages.values():
            counts.sources += len(page.scan.blocks)
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
        self.runs = RunStore(root / ".lessons" / "runs", stamp=f"{_own_digest()} {text_digest(settings)}")
        self.commit = machine.commit(root)
        self._new_markdown = new_markdown
        self._runner = Runner(root, jobs)

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
        scan = scan_page(source, self._new_markdown)
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
    ) -> Report:
        """Bring the pages to a state that can be shown, and say what is wrong with them.

        `progress` hears (what starts, blocks started, blocks to run). `only` restricts what `accept` may replace:
        it is asked with a page's name and a block.

        Raises:
            ValueError: `mode` is not a mode.
        """
        if mode not in MODES:
            raise ValueError(f"LESSONS_MODE={mode!r} is not one of {', '.join(MODES)}")
        look = Sources(self.root)
        works = [_PageWork(self, self.scan(source), mode, look) for source in sources]
        jobs = [job for work in works for job in work.jobs()]
        total, started = sum(len(job.items) for job in jobs), [0]

        def hear(job: Job, item: str) -> None:
            started[0] += 1
            if progress:
                progress(f"{job.page} {item}", started[0], total)

        by_page = {work.scan.source.name: work for work in works}
        for job, result in self._runner.run(jobs, hear):
            by_page[job.page].take(job, result)
        report = Report()
        for work in works:
            report.pages[work.scan.source.name] = work.finish()
            if mode == "accept":
                report.written += work.accept(only)
        return report


class _PageWork:
    """One page on its way through a mode."""

    def __init__(self, engine: Engine, scan: PageScan, mode: str, sources: Sources) -> None:
        self.engine, self.scan, self.mode, self.sources = engine, scan, mode, sources
        self.accepted = AcceptedPage(engine.accepted_folder, scan.source.slug)
        self.outcome = PageOutcome(scan, faults=list(scan.faults))
        self.stored: dict[str, Accepted | None] = {block.id: self.accepted.get(block) for block in scan.blocks}
        self.today: dict[str, Output] = {}
        self.errors: dict[str, str] = {}
        self.to_run: set[str] = set()
        self._known_codes: dict[tuple[str, ...], tuple[str, dict[str, str]]] = {}
        self.inline_today: dict[str, str] = {}
        self.inline_made: dict[str, Any] = {}
        self.inline_runs = False
        if self.accepted.problem:
            self._page_fault("store", self.accepted.problem)

    # What must run

    def jobs(self) -> list[Job]:
        """The jobs that this page needs, one for each kind of worker."""
        if self.mode != "frozen":
            for block in self.scan.blocks:
                if self.engine.machine.lacking(self.scan.needs_of(block)):
                    continue
                if self.mode in ("verify", "accept") or not self._reuse(block):
                    self.to_run.add(block.id)
            self.inline_runs = bool(self.scan.inlines) and self._inline_can_run() and not self._reuse_inline()
        replayed = self._with_earlier_blocks()
        jobs = []
        for compiled in (False, True):
            items = [self._item(b) for b in self.scan.blocks if b.id in replayed and b.compiled is compiled]
            if not compiled and self.inline_runs:
                items = self._with_inlines(items)
            if items:
                limits = {block.id: block.timeout_s for block in self.scan.blocks}
                limits |= {INLINE_ITEM + inline.place: 60.0 for inline in self.scan.inlines}
                jobs.append(Job(self.scan.source.name, self.scan.source.path, items, limits, compiled))
        return jobs

    def code(self, block: Block, output: Output) -> tuple[str, dict[str, str]]:
        """The hash of all code and data behind a block's output, and the symbols that it reaches."""
        key = (block.id, *output.modules, "", *output.data)
        if key not in self._known_codes:
            self._known_codes[key] = self._code_of(self.scan.session_of(block), output.modules, output.data)
        return self._known_codes[key]

    def _code_of(
        self, blocks: list[Block], modules: list[str], data: list[str], extra: str = ""
    ) -> tuple[str, dict[str, str]]:
        digest = hashlib.sha256(extra.encode())
        reached: dict[str, str] = {}
        if blocks and modules:
            # What an earlier block of the page imported by name is that block's, whatever its session.
            modules = self.sources.unexplained(self._codes_up_to(blocks[-1]), modules)
        for block in blocks:
            fields = (
                block.language,
                block.code,
                block.needs,
                block.html,
                block.returncode,
                block.raises,
                block.normalise,
            )
            digest.update(repr(fields).encode())
            if block.language == "python":
                try:
                    reached |= self.sources.explain_code(block.code, modules)
                except SyntaxError:
                    continue  # its run will say so
            else:
                reached |= self.sources.explain_shell(block.code)
        for path in data:
            reached[f"file {path}"] = _data_digest(self.engine.root / path)
            if path.startswith("results/") and path.endswith(".json"):
                reached |= self._measured(path)
        for name, value in sorted(reached.items()):
            digest.update(f"{name}={value}\n".encode())
        return digest.hexdigest()[:16], reached

    def _measured(self, path: str) -> dict[str, str]:
        """The kernels that a results file was measured on, as they are today: when one changes, its figures may lie."""
        found: dict[str, str] = {}
        with contextlib.suppress(OSError):
            text = (self.engine.root / path).read_text(encoding="utf-8")
            for source in sorted(set(re.findall(r'"source":\s*"([^"]+)"', text))):
                try:
                    found[f"measured {source}"] = self.sources.fingerprint([source])
                except KeyError:
                    found[f"measured {source}"] = "gone"
        return found

    def _codes_up_to(self, last: Block) -> list[str]:
        before = [b for b in self.scan.blocks if b.compiled is last.compiled and b.line <= last.line]
        return [b.code for b in before if b.language == "python" and _is_python(b.code)]  # else its run will say so

    def _reuse(self, block: Block) -> bool:
        """Let an accepted output or a stored run of the same code in the same environment stand in for a run."""
        environment = self.engine.machine.environment(self.scan.needs_of(block))
        stored = self.stored[block.id]
        same = stored and not stored.edited and stored.environment == environment
        if same and self.code(block, stored.output)[0] == stored.code:
            return True
        for run in self.engine.runs.candidates(self.scan.source, block.id):
            if run.get("environment_hash") != machine.digest(environment):
                continue
            output = Output(**run["output"])
            if self.code(block, output)[0] == run["code"]:
                self.today[block.id] = output
                return True
        return False

    def _with_earlier_blocks(self) -> set[str]:
        """The blocks to run, and those before them in their sessions: a miss after hits replays what led to it."""
        found = {
            each.id for block in self.scan.blocks if block.id in self.to_run for each in self.scan.session_of(block)
        }
        if self.inline_runs:
            last = max(inline.line for inline in self.scan.inlines)
            found |= {block.id for block in self._page_session() if block.line < last}
        return found

    def _page_session(self) -> list[Block]:
        return [block for block in self.scan.blocks if not block.session and not block.compiled]

    def _item(self, block: Block) -> dict[str, Any]:
        return {
            "kind": "block",
            "id": block.id,
            "line": block.line + self.scan.source.line_offset,
            "language": block.language,
            "code": block.code,
            "session": block.session,
            "returncode": block.returncode,
            "raises": block.raises,
        }

    # Inline values

    def _inline_needs(self) -> tuple[str, ...]:
        needs = ["cpu"]
        last = max((inline.line for inline in self.scan.inlines), default=0)
        for block in self._page_session():
            if block.line < last:
                needs += block.needs
        return tuple(dict.fromkeys(needs))

    def _inline_can_run(self) -> bool:
        return not self.engine.machine.lacking(self._inline_needs())

    def _inline_keys(self) -> dict[str, str]:
        """Key of each inline value by its place: its expression, and a count where an expression comes again."""
        keys: dict[str, str] = {}
        used: dict[str, int] = {}
        for inline in self.scan.inlines:
            used[inline.expression] = used.get(inline.expression, 0) + 1
            count = used[inline.expression]
            keys[inline.place] = inline.expression + (f" #{count}" if count > 1 else "")
        return keys

    def _inline_code(self, modules: list[str], data: list[str]) -> str:
        last = max(inline.line for inline in self.scan.inlines)
        blocks = [block for block in self._page_session() if block.line < last]
        order = "\n".join(
            f"{sum(block.line < inline.line for block in blocks)} {inline.expression}" for inline in self.scan.inlines
        )
        return self._code_of(blocks, modules, data, order)[0]

    def _reuse_inline(self) -> bool:
        if self.mode in ("verify", "accept"):
            return False
        digest = machine.digest(self.engine.machine.environment(self._inline_needs()))
        accepted, edited, made = self.accepted.inline()
        complete = set(self._inline_keys().values()) <= accepted.keys() and not edited
        if complete and made.get("environment") == digest and self._inline_made_from(made):
            self.inline_today = accepted
            return True
        for run in self.engine.runs.candidates(self.scan.source, INLINE_ITEM):
            if run.get("environment_hash") == digest and self._inline_made_from(run):
                self.inline_today = run["values"]
                return True
        return False

    def _inline_made_from(self, made: dict[str, Any]) -> bool:
        return self._inline_code(made.get("modules", []), made.get("data", [])) == made.get("code")

    def _with_inlines(self, items: list[dict[str, Any]]) -> list[dict[str, Any]]:
        inlines = [
            {
                "kind": "inline",
                "id": INLINE_ITEM + inline.place,
                "line": inline.line + self.scan.source.line_offset,
                "expression": inline.expression,
                "session": "",
            }
            for inline in self.scan.inlines
        ]
        return sorted(items + inlines, key=lambda item: item["line"])

    # What a run gave

    def take(self, job: Job, result: JobResult) -> None:
        """Read a worker's reports."""
        keys = self._inline_keys()
        self._known_codes.clear()  # what ran may have written files that it read
        blocks = {block.id: block for block in self.scan.blocks}
        modules: list[str] = []
        data: list[str] = []
        inline_failed = False
        for item in job.items:
            report = result.reports.get(item["id"])
            is_inline = item["kind"] == "inline"
            if report is None:
                name = "the inline value" if is_inline else "the block"
                if item["id"] == result.failed_at or (result.ended and not result.failed_at):
                    message = f"line {item['line']}: {name} {result.ended or 'left no report'}"
                else:
                    message = (
                        f"line {item['line']}: {name} was not run: {result.failed_at or 'the page'} stopped the page"
                    )
            elif report["ok"]:
                message = ""
            elif report.get("skipped"):
                message = f"line {item['line']}: not run: block {report['skipped']!r} before it failed"
            else:
                message = report["error"]
            if message:
                self.errors[item["id"]] = message
                inline_failed |= is_inline
                continue
            modules, data = report["modules"], report["data"]
            if is_inline:
                for sentence in report["stale"]:
                    self._page_fault("stale", sentence, item["line"])
                self.inline_today[keys[item["id"].removeprefix(INLINE_ITEM)]] = report["text"]
                continue
            block = blocks[item["id"]]
            text = normalise(report["text"], block.normalise, str(self.engine.root), html=block.html)
            output = Output(text, report["values"], modules, data, report["stale"], report["seconds"])
            if block.id in self.to_run:
                self.today[block.id] = output
                self._remember(block, output)
        if self.inline_runs and not job.compiled and not inline_failed:
            environment = self.engine.machine.environment(self._inline_needs())
            made = {"modules": modules, "data": data, "code": self._inline_code(modules, data)}
            self.inline_made = made | {"environment": machine.digest(environment)}
            run = {"environment_hash": machine.digest(environment), "values": self.inline_today, **made}
            self.engine.runs.add(self.scan.source, INLINE_ITEM, run)
        self.engine.runs.save(self.scan.source)

    def _remember(self, block: Block, output: Output) -> None:
        environment = self.engine.machine.environment(self.scan.needs_of(block))
        run = {"environment_hash": machine.digest(environment), "code": self.code(block, output)[0]}
        self.engine.runs.add(self.scan.source, block.id, run | {"output": vars(output)})

    # What is shown and what is wrong

    def finish(self) -> PageOutcome:
        """Compare, and describe every block's outcome."""
        for block in self.scan.blocks:
            self.outcome.outcomes[block.id] = self._finish_block(block)
        if self.scan.inlines:
            self._finish_inline()
        for include in self.scan.includes:
            line, _, reference = include.partition("=")
            try:
                source_of(reference, self.engine.root)
            except (KeyError, OSError, SyntaxError) as error:
                message = f"include={reference!r}: {error.args[0] if error.args else error}"
                self._page_fault("include", message, int(line) + self.scan.source.line_offset)
        if self.mode != "run":
            known = {block.id for block in self.scan.blocks}
            for name in self.accepted.ids():
                if name not in known:
                    self._page_fault("orphan", f"an accepted output {name!r} has no block on the page any more")
        return self.outcome

    def _finish_block(self, block: Block) -> Outcome:
        stored = self.stored[block.id]
        faults: list[Fault] = []
        today = self.today.get(block.id)
        if block.id in self.errors:
            self._block_fault(faults, block, "failed", self.errors[block.id])
            return Outcome(block, "failed", Output(), "", "", faults)  # what it once gave is not what it gives
        if stored and stored.edited:
            self._block_fault(faults, block, "edited", stored.edited)
        if today is not None:
            label, commit = self.engine.machine.label(block.needs, block.evidence), self.engine.commit
            status = "ran" if block.id in self.to_run else "kept"
            self._compare(faults, block, stored, today)
            shown = today
        elif stored is None:
            reasons = "; ".join(self.engine.machine.lacking(self.scan.needs_of(block)))
            why = f"it cannot be run here ({reasons})" if reasons else "this mode runs nothing"
            self._block_fault(faults, block, "missing", f"no accepted output, and {why}")
            return Outcome(block, "failed", Output(), "", "", faults)
        else:
            label, commit, status = stored.label, stored.commit, "frozen"
            shown = stored.output
            self._check_fresh(faults, block, stored)
        for sentence in shown.stale_records:
            self._block_fault(faults, block, "stale", sentence)
        return Outcome(block, status, shown, label, commit, faults)

    def _compare(self, faults: list[Fault], block: Block, stored: Accepted | None, today: Output) -> None:
        if stored is None:
            self._block_fault(faults, block, "new", "the output has not been accepted yet")
            return
        if stored.edited:
            return
        broken = compare.differences(block, stored.output, today)
        if broken:
            name = f"{self.scan.source.slug}/{block.id}{block.suffix}"
            detail = compare.unified_diff(stored.output.text, today.text, name)
            self._block_fault(faults, block, "drift", "; ".join(broken[:4]), detail)

    def _check_fresh(self, faults: list[Fault], block: Block, stored: Accepted) -> None:
        code, reached = self.code(block, stored.output)
        if code == stored.code or stored.edited or self._confirmed(block, stored):
            return
        names = sorted(
            name for name in stored.reached.keys() | reached.keys() if stored.reached.get(name) != reached.get(name)
        )
        what = ", ".join(names[:6]) + (f" and {len(names) - 6} more" if len(names) > 6 else "")
        because = f"{what} changed" if names else "its own code or an earlier block of its session changed"
        self._block_fault(faults, block, "stale", f"recorded on {stored.label} from other code: {because}")

    def _confirmed(self, block: Block, stored: Accepted) -> bool:
        """A run of today's code gave what is accepted: other code, same output, nothing on the page is untrue."""
        for run in self.engine.runs.candidates(self.scan.source, block.id):
            output = Output(**run["output"])
            if self.code(block, output)[0] == run["code"] and not compare.differences(block, stored.output, output):
                return True
        return False

    def _inline_fresh(self, accepted: dict[str, str], made: dict[str, Any]) -> bool:
        return self._inline_made_from(made) or any(
            self._inline_made_from(run) and run["values"] == accepted
            for run in self.engine.runs.candidates(self.scan.source, INLINE_ITEM)
        )

    def _finish_inline(self) -> None:
        keys = self._inline_keys()
        accepted, edited, made = self.accepted.inline()
        if edited:
            self._page_fault("edited", edited)
        can_run = self.mode != "frozen" and self._inline_can_run()
        if not can_run and accepted and not self._inline_fresh(accepted, made):
            line = self.scan.inlines[0].line + self.scan.source.line_offset
            self._page_fault("stale", "the page's inline values were computed from other code", line)
        for inline in self.scan.inlines:
            key = keys[inline.place]
            line = inline.line + self.scan.source.line_offset
            error = self.errors.get(INLINE_ITEM + inline.place)
            if error:
                self._page_fault("failed", error, line)
            elif can_run and key in self.inline_today:
                self.outcome.values[inline.place] = self.inline_today[key]
                if key not in accepted and not edited:
                    self._page_fault("new", f"the inline value {inline.expression!r} has not been accepted yet", line)
                elif not edited and accepted[key] != self.inline_today[key]:
                    message = f"the inline value {inline.expression!r} differs"
                    detail = f"-{accepted[key]}\n+{self.inline_today[key]}"
                    self._page_fault("drift", message, line, detail)
                continue
            elif key not in accepted:
                self._page_fault("missing", f"the inline value {inline.expression!r} was never accepted", line)
            self.outcome.values.setdefault(inline.place, accepted.get(key, "?"))

    def _block_fault(self, faults: list[Fault], block: Block, kind: str, message: str, detail: str = "") -> None:
        line = block.line + self.scan.source.line_offset
        if message.startswith("line ") and kind == "failed":  # a failure names its own line
            head, _, message = message.partition(": ")
            line = int(head.removeprefix("line "))
            message, _, trace = message.partition("\n")
            detail = detail or trace
        faults.append(Fault(self.scan.source.name, line, kind, message, detail, block.id))

    def _page_fault(self, kind: str, message: str, line: int = 0, detail: str = "") -> None:
        if message.startswith("line ") and kind == "failed":
            head, _, message = message.partition(": ")
            line = int(head.removeprefix("line "))
        where = line or 1 + self.scan.source.line_offset
        self.outcome.faults.append(Fault(self.scan.source.name, where, kind, message, detail))

    # What is accepted

    def accept(self, only: Callable[[str, Block], bool] | None) -> list[str]:
        """Write what ran. A page with a failed block is left as it was accepted."""
        failed = [
            f for f in self.outcome.all_faults() if f.kind in ("failed", "option", "markdown", "unplaced", "store")
        ]
        if failed:
            return []
        entries: dict[str, tuple[Block, Output, dict[str, Any]]] = {}
        keep: set[str] = set()
        for block in self.scan.blocks:
            outcome = self.outcome.outcomes[block.id]
            if block.id not in self.today or (only and not only(self.scan.source.name, block)):
                keep.add(block.id)
                continue
            if any(fault.kind == "stale" for fault in outcome.faults):
                keep.add(block.id)  # a page never comes to rest on a stale record
                continue
            stored = self.stored[block.id]
            output = outcome.output
            if stored and not stored.edited and not compare.differences(block, stored.output, output):
                output = Output(stored.output.text, stored.output.values, output.modules, output.data)
            code, reached = self.code(block, output)
            made = {
                "code": code,
                "reached": reached,
                "environment": self.engine.machine.environment(self.scan.needs_of(block)),
                "label": outcome.label,
                "commit": outcome.commit,
            }
            entries[block.id] = (block, output, made)
            outcome.faults = [fault for fault in outcome.faults if fault.kind not in ("drift", "new", "edited")]
        inline, edited, inline_made = self.accepted.inline()
        keys = self._inline_keys()
        if self.inline_today and not only:
            today = {keys[each.place]: self.inline_today[keys[each.place]] for each in self.scan.inlines}
            same = today == inline and not edited and "environment" in inline_made
            if not same or inline_made["code"] != self.inline_made["code"]:  # else machine and values stay as they were
                inline, inline_made = today, self.inline_made
        if not self.scan.inlines:
            inline = {}
        if not only:
            gone = ("drift", "new", "edited", "orphan")
            self.outcome.faults = [fault for fault in self.outcome.faults if fault.kind not in gone]
        kept = keep if not only else keep | set(self.accepted.ids())
        return self.accepted.write(entries, inline, inline_made, kept)


def _tuples(each: dict[str, Any]) -> dict[str, Any]:
    return {name: tuple(each[name]) for name in ("needs", "normalise")}


@lru_cache(maxsize=4096)
def _is_python(code: str) -> bool:
    try:
        ast.parse(code)
    except SyntaxError:
        return False
    return True


def _data_digest(path: Path) -> str:
    if path.is_dir():
        names = sorted(child.name for child in path.iterdir() if not child.name.startswith((".", "__pycache__")))
        return hashlib.sha256("\n".join(names).encode()).hexdigest()[:16]
    try:
        return hashlib.sha256(path.read_bytes().replace(b"\r\n", b"\n")).hexdigest()[:16]
    except FileNotFoundError:
        return "absent"


def _own_digest() -> str:
    """Changes with the engine's own code: a scan by another engine is not trusted."""
    digest = hashlib.sha256()
    for path in sorted(Path(__file__).parent.glob("*.py")):
        digest.update(path.read_bytes())
    return digest.hexdigest()[:16]
