"""One look at the project's files, which lasts until one of them changes: nothing is read or computed twice."""

from __future__ import annotations

import contextlib
import hashlib
import os
import re
from collections.abc import Iterable, Iterator
from dataclasses import replace
from pathlib import Path

from kernels.exercises.library import EXERCISES
from kernels.lessons.model import PageOutcome, PageSource
from kernels.sources import Snippet, Sources, source_of

NOT_READ = {"build", "docs", "site"}
"""Folders of a project that hold no code of it: what is built, and pages, which are known by their texts."""


class Look:
    """The sources, and digests of data files, as they are now. Make a new one after files may have changed."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.sources = Sources(root)
        self._digests: dict[str, str] = {}
        self._measured: dict[str, dict[str, str]] = {}
        self._fingerprints: dict[str, str] = {}
        self._snippets: dict[str, Snippet] = {}
        self._exercises = {path: _stamp(path) for path in (root / EXERCISES).glob("*.py")}

    def was_saved(self, reached: Iterable[str]) -> bool:
        """Whether an exercise among the symbols and files that an output stands on was saved since this look began.

        A run goes on when a learner saves an exercise; what it gave then may be of one text or of the other.
        """
        texts = "\n".join(reached)
        paths = self._exercises.keys() | set((self.root / EXERCISES).glob("*.py"))
        changed = {path.stem for path in paths if self._exercises.get(path, "") != _stamp(path)}
        folder = EXERCISES.replace("/", "[./]")
        return any(re.search(rf"\b{folder}[./]{re.escape(name)}\b", texts) for name in changed)

    def forget_data(self) -> None:
        """Read data files again: what ran may have written them. No run writes sources."""
        self._digests.clear()
        self._measured.clear()

    def forget_others(self) -> None:
        """Read again what lies where `Unchanged` does not look."""
        for path in [each for each in self._digests if each.partition("/")[0] in NOT_READ]:
            del self._digests[path]

    def snippet(self, reference: str) -> Snippet:
        """The text of a symbol or file that a page includes.

        Raises:
            KeyError, OSError, SyntaxError: there is no such symbol or file, or it cannot be read.
        """
        if reference.partition("/")[0] in NOT_READ:
            return source_of(reference, self.root)
        if reference not in self._snippets:
            self._snippets[reference] = source_of(reference, self.root)
        return self._snippets[reference]

    def data(self, path: str) -> str:
        """A digest of a file's bytes, or of a folder's names; `path` is relative to the root."""
        if path not in self._digests:
            self._digests[path] = _data_digest(self.root / path)
        return self._digests[path]

    def measured(self, path: str) -> dict[str, str]:
        """The kernels that a results file was measured on, as they are today: when one changes, its figures may lie."""
        if path not in self._measured:
            found = self._measured[path] = {}
            with contextlib.suppress(OSError):
                text = (self.root / path).read_text(encoding="utf-8")
                for source in sorted(set(re.findall(r'"source":\s*"([^"]+)"', text))):
                    found[f"measured {source}"] = self._fingerprint(source)
        return self._measured[path]

    def _fingerprint(self, source: str) -> str:
        if source not in self._fingerprints:
            try:
                self._fingerprints[source] = self.sources.fingerprint([source])
            except KeyError:
                self._fingerprints[source] = "gone"
        return self._fingerprints[source]


class Unchanged:
    """What became of pages, for as long as neither their text nor anything that they may stand on changes.

    Under a live preview most pages are as they were at the last build. Their fingerprints need not be computed again
    when no file of the project has another time or size.
    """

    def __init__(self, root: Path) -> None:
        self.root = root
        self._project = ""
        self._look = Look(root)
        self._known: dict[str, tuple[str, PageOutcome]] = {}

    def look(self) -> Look:
        """Look at the files of the project, before anything of them is read: the last look where none has changed."""
        digest = hashlib.sha256()
        for line in _stamps(self.root, NOT_READ):
            digest.update(line.encode())
        if digest.hexdigest() == self._project:
            self._look.forget_others()
        else:
            self._project = digest.hexdigest()
            self._look = Look(self.root)
            self._known.clear()
        return self._look

    def get(self, source: PageSource) -> PageOutcome | None:
        """What became of a page, where it and all that it stands on are as they were."""
        key, outcome = self._known.get(source.name, ("", None))
        return outcome if outcome is not None and key == self._key(source, outcome) else None

    def put(self, outcome: PageOutcome) -> None:
        """Remember what became of a page."""
        outcomes = {
            name: replace(each, status="kept") if each.status == "ran" else each
            for name, each in outcome.outcomes.items()
        }
        if any(each.status == "ran" for each in outcome.outcomes.values()):
            outcome = replace(outcome, outcomes=outcomes)
        source = outcome.scan.source
        self._known[source.name] = self._key(source, outcome), outcome

    def _key(self, source: PageSource, outcome: PageOutcome) -> str:
        parts = [source.digest, str(source.line_offset)]
        if any(each.status == "failed" for each in outcome.outcomes.values()) or outcome.faults:
            parts.append(_stamp(source.path))  # saving it again tries it again
        paths = {path for each in outcome.outcomes.values() for path in each.output.data}
        paths |= {_file_of(include) for include in outcome.scan.includes}
        for path in sorted(each for each in paths if each.partition("/")[0] in NOT_READ):
            parts.append(_data_digest(self.root / path))
        return "\n".join(parts)


def _file_of(include: str) -> str:
    reference = include.partition("=")[2]
    return reference.rpartition(":")[0] or reference


def _stamps(folder: Path | str, without: set[str], above: tuple[tuple[int, int], ...] = ()) -> Iterator[str]:
    """A line for every file below `folder`; a link to a folder `above` is not walked again."""
    found = os.stat(folder)  # noqa: PTH116 (called for every folder)
    here = found.st_dev, found.st_ino
    if here in above:
        return
    with os.scandir(folder) as entries:
        for entry in sorted(entries, key=lambda each: each.name):
            if entry.name.startswith((".", "__pycache__")) or entry.name in without:
                continue
            try:
                if entry.is_dir():
                    yield from _stamps(entry.path, set(), (*above, here))
                else:
                    stat = entry.stat()
                    yield f"{entry.path} {stat.st_mtime_ns} {stat.st_size} {stat.st_ino}\n"
            except OSError:  # gone since
                yield f"{entry.path}\n"


def _stamp(path: Path) -> str:
    try:
        return str(path.stat().st_mtime_ns)
    except OSError:
        return ""


def _data_digest(path: Path) -> str:
    if path.is_dir():
        names = sorted(child.name for child in path.iterdir() if _is_kept(child))
        return hashlib.sha256("\n".join(names).encode()).hexdigest()[:16]
    try:
        return hashlib.sha256(path.read_bytes().replace(b"\r\n", b"\n")).hexdigest()[:16]
    except FileNotFoundError:
        return "absent"


def _is_kept(path: Path) -> bool:
    """Whether git keeps it: a folder without files is in this checkout alone."""
    if path.name.startswith((".", "__pycache__")):
        return False
    return not path.is_dir() or any(_is_kept(child) for child in path.iterdir())
