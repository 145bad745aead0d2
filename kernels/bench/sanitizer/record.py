"""The record of a run of the sanitizer: a strict JSON document, what each tool said of each path and of each plant."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from pathlib import Path
from typing import Literal

import msgspec

from kernels.bench import documents
from kernels.bench.results import RESULTS, Provenance, ResultsError
from kernels.bench.sanitizer.readings import is_misread
from kernels.sources.files import write_whole

SCHEMA_VERSION = 1
SCHEMA = Path(__file__).with_name("sanitizers.schema.json")

Tool = Literal["memcheck", "racecheck", "initcheck", "synccheck"]


class Plant(msgspec.Struct, kw_only=True, forbid_unknown_fields=True):
    """A fault planted in one kernel of the path. Without "reported", `reason` says why; with it, `report` is the
    tool's first line."""

    kernel: str
    state: Literal["reported", "cannot see", "not run"]
    reason: str | None = None
    report: str | None = None


class Check(msgspec.Struct, kw_only=True, forbid_unknown_fields=True):
    """What one tool said of one path: of the path as it is, and of each of its kernels with a fault in it. `commit` is
    that of an earlier run, where the check is not of the document's own."""

    tool: Tool
    clean: Literal["yes", "no", "not run"]
    reason: str | None = None
    reports: list[str] = msgspec.field(default_factory=list)  # first lines, each once
    plants: list[Plant] = msgspec.field(default_factory=list)
    commit: str | None = None

    @property
    def state(self) -> str:
        """ "proved": clean, and every plant reported or nothing there to see, at least one reported. "nothing to see":
        clean, and no kernel has what the tool looks at. "unproved": clean, but not every plant was run. "blind": clean,
        but a plant went unreported. "misread": reports, all of which `readings` explains. Otherwise "no" or "not run".
        """
        if self.clean == "no" and self.reports and all(is_misread(self.tool, words) for words in self.reports):
            return "misread"
        if self.clean != "yes":
            return self.clean
        states = {plant.state for plant in self.plants}
        unseen = [plant for plant in self.plants if plant.state == "cannot see"]
        if "not run" in states or not states:
            return "unproved"
        if any(plant.reason == UNREPORTED for plant in unseen):
            return "blind"
        return "proved" if "reported" in states else "nothing to see"


UNREPORTED = "The fault was planted and launched, and the tool reported nothing."


class PathRecord(msgspec.Struct, kw_only=True, forbid_unknown_fields=True):
    """One kernel path in one dtype, its launcher with the fingerprint of its code, and the kernels it launched."""

    op: str
    way: str
    dtype: str
    source: str
    source_hash: str
    kernels: list[str]
    checks: list[Check]


class Sanitizers(msgspec.Struct, kw_only=True, forbid_unknown_fields=True):
    """One run. `unattributed` counts reports that name no kernel of a path, by tool."""

    schema_version: int = SCHEMA_VERSION
    provenance: Provenance
    tool_version: str
    seconds: float
    unattributed: dict[str, int]
    paths: list[PathRecord]


STATES = ("proved", "nothing to see", "unproved", "misread", "blind", "no", "not run")


def summary(paths: Iterable[PathRecord]) -> dict[tuple[str, str], Counter]:
    """How many paths are in which state (`Check.state`), by operator and tool."""
    found: dict[tuple[str, str], Counter] = {}
    for path in paths:
        for check in path.checks:
            found.setdefault((path.op, check.tool), Counter())[check.state] += 1
    return found


def report(document: Sanitizers) -> str:
    """The run as text for a terminal: the states of all paths by tool, then everything that is not as it should be."""
    lines = [f"{document.tool_version} on {document.provenance.gpu}: {len(document.paths)} paths, "
             f"{document.seconds:.0f} s"]  # fmt: skip
    totals: dict[str, Counter] = {}
    for (_, tool), counts in summary(document.paths).items():
        totals.setdefault(tool, Counter()).update(counts)
    for tool, counts in totals.items():
        words = ", ".join(f"{counts[state]} {state}" for state in STATES if counts[state])
        other = document.unattributed.get(tool, 0)
        lines.append(f"{tool}: {words}" + (f"; {other} reports name no kernel of a path" if other else ""))
    for path in document.paths:
        for check in path.checks:
            if check.state in ("proved", "nothing to see"):
                continue
            words = check.reason or "; ".join(
                [*check.reports, *(f"{p.kernel}: {p.reason}" for p in check.plants if p.reason)]
            )
            lines.append(f"  {check.tool} · {path.op}, {path.way}, {path.dtype}: {check.state}: {words}")
    return "\n".join(lines)


def encode(document: Sanitizers) -> bytes:
    """Strict JSON. Raises ResultsError where a value is no finite number."""
    return documents.encoded(document)


def decode(data: bytes, name: str = "file") -> Sanitizers:
    """Reads what `encode` wrote. Raises ResultsError with a sentence."""
    document = documents.decoded(data, Sanitizers, name, "record of the sanitizers")
    if document.schema_version != SCHEMA_VERSION:
        raise ResultsError(f"{name} has schema version {document.schema_version}; expected {SCHEMA_VERSION}.")
    return document


def committed(gpu: str = "h200") -> Sanitizers | None:
    """The committed record of a GPU; None where none was taken yet."""
    path = RESULTS / gpu / "experiments" / "sanitizers.json"
    return decode(path.read_bytes(), path.name) if path.is_file() else None


def taken(document: Sanitizers) -> set[tuple[str, str, str, str]]:
    """The checks that stand, as (op, way, dtype, tool): not unproved, not left out, and of code that is today's."""
    return {
        (path.op, path.way, path.dtype, check.tool)
        for path, changed in zip(document.paths, stale(document), strict=True)
        for check in path.checks
        if not changed and check.state not in ("unproved", "not run")
    }


def stale(document: Sanitizers) -> list[bool]:
    """Of each path, whether its code has changed since the run."""
    from kernels.sources import Sources

    sources = Sources()

    def changed(path: PathRecord) -> bool:
        try:
            return sources.fingerprint([path.source]) != path.source_hash
        except KeyError:  # there is no such launcher any more
            return True

    return [changed(path) for path in document.paths]


def schema_text() -> str:
    """JSON Schema (draft 2020-12) of `Sanitizers`, as it stands in the file."""
    return documents.schema_text(Sanitizers, "sanitizers")


if __name__ == "__main__":
    write_whole(SCHEMA, schema_text())
    print(SCHEMA.name)
