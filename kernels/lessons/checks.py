"""What `lessons verify` checks beside the blocks: committed results, outputs of pages that are gone, exercises."""

from __future__ import annotations

import warnings
from pathlib import Path

from kernels.lessons.model import Fault, PageSource


def repository_faults(root: Path, sources: list[PageSource]) -> list[Fault]:
    """Faults of the repository as a whole: results, outputs without a page, exercises that do not pass their gate."""
    return [*_results(root), *_outputs(root, sources), *_exercises(root)]


def _exercises(root: Path) -> list[Fault]:
    """What the mutant gate says of the exercises. An exercise that this machine cannot judge is no fault of it."""
    from kernels.exercises.kept_gate import kept_gate

    faults = [fault for gated in kept_gate(root) for fault in gated.faults]
    return [Fault(f"../{fault.file}", fault.line, "exercise", fault.message) for fault in faults]


def _results(root: Path) -> list[Fault]:
    from kernels.bench import StaleRecord, read, records

    faults = []
    for folder in sorted((root / "results").glob("*")):
        if not folder.is_dir() or folder.name == "local":
            continue
        for path in sorted(folder.glob("*.json")):
            try:
                others = {case.op for case in read(path).cases} - {path.stem.partition("-")[0]}
            except Exception as error:
                faults.append(Fault(f"../results/{folder.name}", 1, "results", f"{path.name}: {error}"))
                continue
            if others:
                message = f"{path.name} holds {', '.join(sorted(others))}; a committed file is named after its operator"
                faults.append(Fault(f"../results/{folder.name}", 1, "results", message))
        for op in sorted({path.stem.partition("-")[0].partition(".")[0] for path in folder.glob("*.json")}):
            with warnings.catch_warnings(record=True) as caught:
                warnings.simplefilter("always")
                try:
                    records(op, gpu=folder.name, timing=None, cache=None)
                except Exception as error:
                    faults.append(Fault(f"../results/{folder.name}", 1, "results", f"{op}: {error}"))
            for warning in caught:
                if issubclass(warning.category, StaleRecord):
                    faults.append(Fault(f"../results/{folder.name}", 1, "stale", str(warning.message)))
    return faults


def _outputs(root: Path, sources: list[PageSource]) -> list[Fault]:
    folder = root / "lessons_src" / "outputs"
    known = {source.slug for source in sources}
    faults = []
    for index in sorted(folder.glob("**/index.json")):
        slug = index.parent.relative_to(folder).as_posix()
        if slug not in known:
            message = f"lessons_src/outputs/{slug} holds accepted outputs of a page that is gone; remove the folder"
            faults.append(Fault(f"{slug}.md", 1, "orphan", message))
    return faults
