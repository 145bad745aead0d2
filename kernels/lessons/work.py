"""One page on its way through a mode: what must run, what it gave, what is wrong with it, what is accepted."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from kernels.lessons import compare, machine
from kernels.lessons.locks import locked
from kernels.lessons.look import Look
from kernels.lessons.model import NOT_RUN, REFUSED, Block, Fault, Outcome, Output, PageOutcome, PageScan
from kernels.lessons.normalise import normalise
from kernels.lessons.reach import Reach
from kernels.lessons.runner import Job, JobResult
from kernels.lessons.store import Accepted, AcceptedPage

if TYPE_CHECKING:
    from kernels.lessons.engine import Engine

INLINE_ITEM = "inline:"


class PageWork:
    """One page on its way through a mode. `only` chooses blocks, by the page's name and the block; else it is all."""

    def __init__(
        self,
        engine: Engine,
        scan: PageScan,
        mode: str,
        look: Look,
        only: Callable[[str, Block], bool] | None = None,
    ) -> None:
        self.engine, self.scan, self.mode = engine, scan, mode
        self.chosen = [block for block in scan.blocks if only is None or only(scan.source.name, block)]
        self.whole = only is None
        with locked(engine.accepted_folder, shared=True):  # an accept writes outputs first, then what it says of them
            self.accepted = AcceptedPage(engine.accepted_folder, scan.source.slug)
            self.stored: dict[str, Accepted | None] = {block.id: self.accepted.get(block) for block in scan.blocks}
            self.inline_stored = self.accepted.inline()
        self.outcome = PageOutcome(scan, faults=list(scan.faults))
        self.today: dict[str, Output] = {}
        self.commits: dict[str, str] = {}
        self.errors: dict[str, str] = {}
        self.to_run: set[str] = set()
        self.reach = Reach(scan, look)
        self.inline_today: dict[str, str] = {}
        self.inline_made: dict[str, Any] = {}
        self.inline_runs = False
        if self.accepted.problem:
            self._page_fault("store", self.accepted.problem)

    # What must run

    def jobs(self) -> list[Job]:
        """The jobs that this page needs, one for each kind of worker."""
        if self.mode != "frozen":
            for block in self.chosen:
                if self.engine.machine.lacking(self.scan.needs_of(block)):
                    continue
                if self.mode in ("verify", "accept") or not self._reuse(block):
                    self.to_run.add(block.id)
            inlines = self.scan.inlines if self.whole else []
            self.inline_runs = bool(inlines) and self._inline_can_run() and not self._reuse_inline()
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

    def waits_for(self) -> str:
        """Changes with what is to run, and with the code behind it; asked after `jobs`."""
        parts = []
        for block in self.scan.blocks:
            if block.id in self.to_run:
                stored = self.stored[block.id]
                parts.append(f"{block.id} {self.reach.of_block(block, stored.output if stored else Output())[0]}")
        if self.inline_runs:
            made = self.inline_stored[2]
            parts.append(self.reach.of_inlines(made.get("modules", []), made.get("data", [])))
        return "\n".join(parts)

    def put_off(self, jobs: list[Job]) -> None:
        """Run nothing of this now: the page shows what is known, and says how much of it waits to be run."""
        self.outcome.waiting = sum(len(job.items) for job in jobs)
        self.to_run.clear()
        self.inline_runs = False

    def _reuse(self, block: Block) -> bool:
        """Let an accepted output or a stored run of the same code in the same environment stand in for a run."""
        environment = self.engine.machine.environment(self.scan.needs_of(block))
        stored = self.stored[block.id]
        same = stored and not stored.edited and stored.environment == environment
        if same and self.reach.of_block(block, stored.output)[0] == stored.code:
            return True
        for run in self.engine.runs.candidates(self.scan.source, block.id):
            if run.get("environment_hash") != machine.digest(environment):
                continue
            output = Output(**run["output"])
            if self.reach.of_block(block, output)[0] == run["code"]:
                self.today[block.id] = output
                self.commits[block.id] = run["commit"]
                return True
        return False

    def _with_earlier_blocks(self) -> set[str]:
        """The blocks to run, and those before them in their sessions: a miss after hits replays what led to it."""
        wanted = [block for block in self.scan.blocks if block.id in self.to_run]
        found = {each.id for block in wanted for each in self.scan.session_of(block)}
        if self.inline_runs:
            found |= {block.id for block in self.scan.before_inlines()}
        return found

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

    def _inline_can_run(self) -> bool:
        return not self.engine.machine.lacking(self.scan.inline_needs())

    def _reuse_inline(self) -> bool:
        if self.mode in ("verify", "accept"):
            return False
        digest = machine.digest(self.engine.machine.environment(self.scan.inline_needs()))
        accepted, edited, made = self.inline_stored
        complete = set(self.scan.inline_keys().values()) <= accepted.keys() and not edited
        if complete and made.get("environment") == digest and self._inline_made_from(made):
            self.inline_today, self.inline_made = accepted, made
            return True
        for run in self.engine.runs.candidates(self.scan.source, INLINE_ITEM):
            if run.get("environment_hash") == digest and self._inline_made_from(run):
                self.inline_today = run["values"]
                self.inline_made = {key: run[key] for key in ("modules", "data", "code")} | {"environment": digest}
                return True
        return False

    def _inline_made_from(self, made: dict[str, Any]) -> bool:
        return self.reach.of_inlines(made.get("modules", []), made.get("data", [])) == made.get("code")

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
        keys = self.scan.inline_keys()
        self.reach.forget()
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
                message = f"line {item['line']}: {NOT_RUN}block {report['skipped']!r} before it failed"
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
            environment = self.engine.machine.environment(self.scan.inline_needs())
            made = {"modules": modules, "data": data, "code": self.reach.of_inlines(modules, data)}
            self.inline_made = made | {"environment": machine.digest(environment)}
            run = {"environment_hash": machine.digest(environment), "values": self.inline_today, **made}
            self.engine.runs.add(self.scan.source, INLINE_ITEM, run)
        self.engine.runs.save(self.scan.source)

    def _remember(self, block: Block, output: Output) -> None:
        environment = self.engine.machine.environment(self.scan.needs_of(block))
        commit = self.commits[block.id] = self.engine.commit
        code, reached = self.reach.of_block(block, output)
        if self.reach.look.was_saved(reached):
            return  # the next build runs it again
        run = {"environment_hash": machine.digest(environment), "code": code}
        self.engine.runs.add(self.scan.source, block.id, run | {"output": vars(output), "commit": commit})

    # What is shown and what is wrong

    def finish(self) -> PageOutcome:
        """Compare, and describe the outcome of every block that was chosen, or failed before one that was."""
        for block in self.scan.blocks:
            if block in self.chosen or block.id in self.errors:
                self.outcome.outcomes[block.id] = self._finish_block(block)
            else:
                self.outcome.not_chosen += 1
        if self.scan.inlines and self.whole:
            self._finish_inline()
        for include in self.scan.includes:
            line, _, reference = include.partition("=")
            try:
                self.outcome.snippets[reference] = self.reach.look.snippet(reference)
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
            label, commit = self.engine.machine.label(block.needs, block.evidence), self.commits[block.id]
            status = "ran" if block.id in self.to_run else "kept"
            self._compare(faults, block, stored, today)
            shown = today
        elif stored is None:
            reasons = "; ".join(self.engine.machine.lacking(self.scan.needs_of(block)))
            why = "this mode runs nothing" if not self.outcome.waiting else "it waits for its turn to be run"
            why = f"it cannot be run here ({reasons})" if reasons else why
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
        code, reached = self.reach.of_block(block, stored.output)
        if code == stored.code or stored.edited or self._confirmed(block, stored):
            return
        names = sorted(
            name for name in stored.reached.keys() | reached.keys() if stored.reached.get(name) != reached.get(name)
        )
        what = ", ".join(names[:6]) + (f" and {len(names) - 6} more" if len(names) > 6 else "")
        because = f"{what} changed" if names else "its own code or an earlier block of its session changed"
        runs_here = self.outcome.waiting and not self.engine.machine.lacking(self.scan.needs_of(block))
        waits = "; it waits for its turn to be run here" if runs_here else ""
        self._block_fault(faults, block, "stale", f"recorded on {stored.label} from other code{waits}", because)

    def _confirmed(self, block: Block, stored: Accepted) -> bool:
        """A run of today's code gave what is accepted: other code, same output, nothing on the page is untrue."""
        for run in self.engine.runs.candidates(self.scan.source, block.id):
            output = Output(**run["output"])
            if self.reach.of_block(block, output)[0] == run["code"] and not compare.differences(
                block, stored.output, output
            ):
                return True
        return False

    def _inline_fresh(self, accepted: dict[str, str], made: dict[str, Any]) -> bool:
        return self._inline_made_from(made) or any(
            self._inline_made_from(run) and run["values"] == accepted
            for run in self.engine.runs.candidates(self.scan.source, INLINE_ITEM)
        )

    def _finish_inline(self) -> None:
        keys = self.scan.inline_keys()
        accepted, edited, made = self.inline_stored
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

    def accept(self) -> list[str]:
        """Write what was chosen and ran. A page with a failed block is left as it was accepted."""
        if any(fault.kind in REFUSED for fault in self.outcome.all_faults()):
            return []
        entries: dict[str, tuple[Block, Output, dict[str, Any]]] = {}
        keep: set[str] = set()
        for block in self.scan.blocks:
            if block.id not in self.today:
                keep.add(block.id)
                continue
            outcome = self.outcome.outcomes[block.id]
            if any(fault.kind == "stale" for fault in outcome.faults):
                keep.add(block.id)  # a page never comes to rest on a stale record
                continue
            stored = self.stored[block.id]
            output = outcome.output
            if stored and not stored.edited and not compare.differences(block, stored.output, output):
                output = Output(stored.output.text, stored.output.values, output.modules, output.data)
            code, reached = self.reach.of_block(block, output)
            made = {
                "code": code,
                "reached": reached,
                "environment": self.engine.machine.environment(self.scan.needs_of(block)),
                "label": outcome.label,
                "commit": outcome.commit,
            }
            entries[block.id] = (block, output, made)
            outcome.faults = [fault for fault in outcome.faults if fault.kind not in ("drift", "new", "edited")]
        inline = None if self.scan.inlines else {}
        keys = self.scan.inline_keys()
        if self.inline_today and self.whole:
            today = {keys[each.place]: self.inline_today[keys[each.place]] for each in self.scan.inlines}
            accepted, edited, made = self.inline_stored
            same = today == accepted and not edited and "environment" in made
            if not same or made["code"] != self.inline_made["code"]:  # else machine and values stay as they were
                inline = today
        if self.whole:
            gone = ("drift", "new", "edited", "orphan")
            self.outcome.faults = [fault for fault in self.outcome.faults if fault.kind not in gone]
        kept = keep if self.whole else keep | set(self.accepted.ids())
        return self.accepted.write(entries, inline, self.inline_made, kept)
