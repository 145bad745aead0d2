"""The gate's results, kept in the ignored folder `.lessons/` while nothing that they stand on changes."""

from __future__ import annotations

import contextlib
import hashlib
import importlib
import importlib.metadata
import json
import platform
from collections.abc import Iterable
from dataclasses import asdict
from pathlib import Path

from kernels.exercises import library
from kernels.exercises.gate import Gated, GateFault, Judged, gate
from kernels.exercises.needs import lacking
from kernels.sources import Sources, project_root
from kernels.sources.files import write_whole

FILE = ".lessons/exercise-gate.json"
_PACKAGE = Path(__file__).resolve().parents[2]


def kept_gate(root: Path | None = None, names: Iterable[str] | None = None) -> list[Gated]:
    """All exercises through the gate, or those named; run are those of which something has changed.

    The page of the graders, the workshops and `lessons verify` ask for it, and one run serves all of them.
    """
    root = root or project_root()
    everyone = library.exercises(root)
    names = everyone if names is None else list(names)
    known = _read(root / FILE)
    digests = {name: digest(library.find(name, root)) for name in names}
    stale = [name for name in names if name not in known or known[name][0] != digests[name]]
    for gated in gate(stale, root) if stale else ():
        known[gated.name] = (digests[gated.name], gated)
    kept = [name for name in everyone if name in known]
    document = {name: {"digest": known[name][0], "gated": asdict(known[name][1])} for name in kept}
    with contextlib.suppress(OSError):  # a folder that cannot be written costs time, and nothing else
        write_whole(root / FILE, json.dumps(document, indent=1) + "\n")
    return [known[name][1] for name in names]


def stands_on(root: Path | None = None, exercises: Iterable[str] | None = None) -> list[str]:
    """Import the check files and solutions as modules, and name them: a page that shows the gate stands on these.

    The engine tells by the imported modules what an output stands on. ImportError where one needs what is not here.
    """
    folders = (library.CHECKS, library.SOLUTIONS)
    exercises = library.exercises(root) if exercises is None else list(exercises)
    names = [f"{folder.replace('/', '.')}.{name}" for folder in folders for name in exercises]
    for name in names:
        importlib.import_module(name)
    return names


def digest(files: library.Files) -> str:
    """Changes with the exercise's files, with the code that they reach, with this room, and with what is installed."""
    found = hashlib.sha256()
    texts = [
        path.read_bytes() for path in (files.starter, files.solution, files.checks, files.answers) if path.exists()
    ]
    room = sorted(Path(__file__).parent.glob("*.py"))
    for data in [*texts, *(path.read_bytes() for path in room)]:
        found.update(hashlib.sha256(data).digest())
    sources = Sources(files.root)
    for text in texts[1:3]:
        with contextlib.suppress(SyntaxError, ValueError):
            found.update(repr(sources.explain_code(text.decode("utf-8"))).encode())
    found.update(
        repr(Sources(_PACKAGE).explain(["kernels.trace.triton:trace_triton", "kernels.trace.faults:faults"])).encode()
    )
    for name in ("numpy", "torch", "triton"):
        with contextlib.suppress(importlib.metadata.PackageNotFoundError):
            found.update(f"{name} {importlib.metadata.version(name)}".encode())
    with contextlib.suppress(Exception):
        found.update(lacking(library.described(files).needs).encode())
    found.update(platform.python_version().encode())
    page = "docs/" + (library.described(files).lesson.partition("#")[0] if not _broken(files) else "")
    found.update(str((files.root / page).is_file()).encode())
    return found.hexdigest()[:16]


def _broken(files: library.Files) -> bool:
    try:
        library.described(files)
    except Exception:
        return True
    return False


def _read(path: Path) -> dict[str, tuple[str, Gated]]:
    """What was kept; nothing where it cannot be read, or was kept by another version of this file."""
    try:
        document = json.loads(path.read_text(encoding="utf-8"))
        return {name: (entry["digest"], _gated(entry["gated"])) for name, entry in document.items()}
    except (OSError, ValueError, KeyError, TypeError, AttributeError):
        return {}


def _gated(given: dict) -> Gated:
    faults = [GateFault(**each) for each in given["faults"]]
    answers = [Judged(**each) for each in given["answers"]]
    return Gated(**{**given, "faults": faults, "answers": answers})
