"""What the engine found, as text for a terminal or a log."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator

from kernels.lessons.engine import Report
from kernels.lessons.model import NOT_RUN, REFUSED, Fault

ADVICE = {
    "drift": "if today's output is right: lessons accept {page}",
    "new": "to accept it: lessons accept {page}",
    "stale": "record it again where it can run, with lessons accept {page} (measurements: scripts/gpu_runner.sh)",
    "edited": "restore the file from git, or write what the code gives: lessons accept {page}",
    "missing": "run lessons accept {page} on a machine that can run it",
    "orphan": "to remove it: lessons accept {page}",
    "failed": "",
}


TOLERATED = {"drift", "new", "stale", "edited", "orphan"}
"""Faults that a plain build shows as warnings; any other fault fails every build, and so do these under --strict."""


def judged(faults: Iterable[Fault], docs: str = "docs", *, strict: bool) -> Iterator[tuple[bool, str]]:
    """Each fault once, by page and line: whether it fails the build, and what is said of it, as `described` says it."""
    for fault, text in _told(sorted(dict.fromkeys(faults), key=lambda fault: (fault.page, fault.line)), docs):
        yield strict or fault.kind not in TOLERATED, text


def described(faults: Iterable[Fault], docs: str = "docs") -> Iterator[str]:
    """Every fault as `describe` says it; of the blocks and values that one failure stopped, the first, and how many."""
    for _, text in _told(list(faults), docs):
        yield text


def _told(faults: list[Fault], docs: str) -> Iterator[tuple[Fault, str]]:
    stopped = Counter((fault.page, fault.message) for fault in faults if fault.message.startswith(NOT_RUN))
    for fault in faults:
        count = stopped.pop((fault.page, fault.message), 1 if not fault.message.startswith(NOT_RUN) else 0)
        more = f"\n    and {counted(count - 1, 'more block or value', 'more blocks and values')} of {fault.page}"
        if count:
            yield fault, describe(fault, docs) + (more if count > 1 else "")


def describe(fault: Fault, docs: str = "docs") -> str:
    """One fault: place, kind and sentence, then its diff or traceback indented, then what to do."""
    name = f" [{fault.block}]" if fault.block else ""
    lines = [f"{fault.where(docs)}: {fault.kind}{name}: {fault.message}"]
    if fault.kind == "stale" and fault.detail:  # what has changed: no diff, and no traceback
        lines[0] += f": {fault.detail}"
    else:
        lines += ["    " + line for line in fault.detail.split("\n") if fault.detail]
    if advice := ADVICE.get(fault.kind, ""):
        lines.append("    → " + advice.format(page=fault.page))
    return "\n".join(lines)


def ran(report: Report, docs: str = "docs") -> Iterator[str]:
    """A line for each page of which blocks ran: which, and how long each took."""
    for name, page in report.pages.items():
        found = [(each.block.id, each.output.seconds) for each in page.outcomes.values() if each.status == "ran"]
        if found:
            total = sum(seconds for _, seconds in found)
            each = ", ".join(f"{block} {seconds:.2f} s" for block, seconds in found)
            yield f"{docs}/{name}: {counted(len(found), 'block')} ran in {total:.2f} s: {each}"


def acceptable(report: Report) -> list[str]:
    """Names of pages that show what is not accepted yet, and of those that cannot be accepted as they are."""
    shown = {"drift", "new", "edited", *REFUSED}
    return [name for name, page in report.pages.items() if any(fault.kind in shown for fault in page.all_faults())]


def summary(report: Report) -> str:
    """The counts, which must add up: a block that neither ran, was kept nor was frozen is among the failed."""
    counts = report.counts()
    text = (
        f"{counted(counts.sources, 'block')} on {counted(len(report.pages), 'page')}: "
        f"{counts.ran} ran, {counts.kept} kept, {counts.frozen} frozen, "
        f"{counts.failed} failed, {counts.drifted} drifted"
    )
    adrift = counts.sources - counts.ran - counts.kept - counts.frozen - counts.failed
    return text if not adrift else f"{text}; {adrift} did neither, which is an error of the engine"


def known(report: Report) -> str:
    """Of a report on pages that were looked at and not run: what they show, and what is still to run."""
    waiting = sum(page.waiting for page in report.pages.values())
    rest = f"; {counted(waiting, 'block or value', 'blocks and values')} of them wait to be run" if waiting else ""
    return f"{counted(len(report.pages), 'page')} as accepted{rest}"


def counted(number: int, one: str, many: str = "") -> str:
    """`1 page`, `2 pages`."""
    return f"{number} {one if number == 1 else many or one + 's'}"
