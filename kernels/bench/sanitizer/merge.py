"""Puts the records of several runs together: `python -m kernels.bench.sanitizer.merge OUTPUT.json RUN.json…`.

One run over all paths may be cut off by its time. What an earlier run said of a path still holds while the code of the
path is the same; each check that is not of the newest commit says which commit it is of.
"""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Callable, Sequence
from pathlib import Path

import msgspec

from kernels.bench.results import Provenance, ResultsError
from kernels.bench.sanitizer.record import Check, PathRecord, Sanitizers, decode, encode, report
from kernels.sources.files import write_whole


def _weight(check: Check, own: bool) -> int:
    """3: something was reported, which no silence of another run takes back. 2: it came to an end, plants and all.
    1: the path as it is ran, but a plant was not run; or an earlier run's plant, perhaps of another kind, went unseen,
    which says no more. 0: not run."""
    if check.clean in ("not run", "no"):
        return 0 if check.clean == "not run" else 3
    return 1 if check.state == "unproved" or (check.state == "blind" and not own) else 2


def _key(path: PathRecord) -> tuple[str, str, str]:
    return path.op, path.way, path.dtype


def _best(records: Sequence[tuple[PathRecord, str | None]], own: str | None) -> PathRecord:
    """One record of one path from several, newest first, each with its commit."""
    newest, _ = records[0]
    checks = []
    for tool in dict.fromkeys(check.tool for path, _ in records for check in path.checks):
        found = [(check, at) for path, at in records for check in path.checks if check.tool == tool]
        found = [(check, check.commit or at) for check, at in found]  # what was put together may be again
        check, made = max(found, key=lambda pair: _weight(pair[0], pair[1] == own))  # of equals the first: the newest
        checks.append(msgspec.structs.replace(check, commit=None if made == own else made))
    return msgspec.structs.replace(newest, checks=checks)


def check_origins(origins: Sequence[Provenance]) -> None:
    """Raises ResultsError unless runs of these origins can be put together: some, of one GPU, each of one commit."""
    if not origins:
        raise ResultsError("There is no record to put together: give one at least.")
    gpus = sorted({origin.gpu for origin in origins})
    if len(gpus) > 1:
        raise ResultsError(f"The records are of several GPUs: {', '.join(gpus)}. Put together those of one.")
    for origin in origins:
        if len(origins) > 1 and (not origin.commit or origin.dirty):
            raise ResultsError(f"The run of {origin.utc} is of no one commit. Take it again from a clean checkout.")


def merged(documents: Sequence[Sanitizers], fingerprint: Callable[[str], str]) -> Sanitizers:
    """One document from several runs on one GPU, under the newest one's origin.

    For each path and tool: the newest check that ran with all its plants (or reported something); else the newest that
    ran at all. A record counts only where the fingerprint of its launcher's code is today's, and its kernels are those
    of the newest such record. A path of which no record counts keeps its newest one, which is stale.

    Raises:
        ResultsError: no document, several GPUs, or a run whose commit is not known or whose code was changed.
    """
    check_origins([document.provenance for document in documents])
    ordered = sorted(documents, key=lambda document: document.provenance.utc, reverse=True)
    own = ordered[0].provenance.commit
    same = [document for document in ordered if document.provenance.commit == own]
    by_path: dict[tuple[str, str, str], list[tuple[PathRecord, str | None]]] = {}
    for document in ordered:
        for path in document.paths:
            by_path.setdefault(_key(path), []).append((path, document.provenance.commit))
    hashes: dict[str, str | None] = {}

    def today(path: PathRecord) -> bool:
        if path.source not in hashes:
            try:
                hashes[path.source] = fingerprint(path.source)
            except KeyError:  # there is no such launcher any more
                hashes[path.source] = None
        return hashes[path.source] == path.source_hash

    paths = []
    for records in by_path.values():
        fresh = [pair for pair in records if today(pair[0])]
        alike = [pair for pair in fresh if pair[0].kernels == fresh[0][0].kernels]
        paths.append(_best(alike or records[:1], own))
    other: Counter[str] = Counter()
    for document in same:
        other.update(document.unattributed)
    commands = "; ".join(dict.fromkeys(document.provenance.command for document in same))
    return msgspec.structs.replace(
        ordered[0],
        provenance=msgspec.structs.replace(ordered[0].provenance, command=commands),
        seconds=round(sum(document.seconds for document in same), 1),
        unattributed=dict(other),
        paths=paths,
    )


def earlier(document: Sanitizers) -> Counter[str]:
    """How many checks are of which earlier commit."""
    return Counter(check.commit for path in document.paths for check in path.checks if check.commit)


def main(output: str, *runs: str) -> int:
    """Reads the runs, writes the document, prints its report. 0, or 2 with a sentence."""
    from kernels.sources import Sources

    sources = Sources()
    try:
        documents = [decode(Path(run).read_bytes(), run) for run in runs]
        document = merged(documents, lambda reference: sources.fingerprint([reference]))
    except (OSError, ResultsError) as error:
        print(error, file=sys.stderr)
        return 2
    write_whole(Path(output), encode(document))
    print(report(document))
    return 0


if __name__ == "__main__":
    if len(sys.argv) < 3:
        sys.exit("usage: python -m kernels.bench.sanitizer.merge OUTPUT.json RUN.json…")
    sys.exit(main(*sys.argv[1:]))
