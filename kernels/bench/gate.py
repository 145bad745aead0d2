"""The performance gate: a fresh run against the committed record of the same GPU, case by case."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from kernels.bench import results
from kernels.bench.compare import Key, allowance_us, key, slower
from kernels.bench.rates import ratio
from kernels.bench.report import number, shape_text
from kernels.bench.results import Document, Record, ResultsError, read, same_gpu

# Two recorded runs of the same code, hours apart on two cards of one kind (114 cases of add and softmax): the medians
# differed by 0.6 % in the middle, by up to 2.3 % in nine of ten, and by 3.6 % at most.
RUN_TO_RUN = 0.04


@dataclass(frozen=True)
class Change:
    """One case measured twice: the committed record, the fresh one, and how far they may lie apart."""

    old: Record
    new: Record
    allowed_us: float

    @property
    def factor(self) -> float | None:
        """The fresh time over the committed one."""
        return ratio(self.new.median_us, self.old.median_us)


@dataclass
class Outcome:
    """What the gate found. `red` decides; the rest is for the reader."""

    gpu: str
    slower: list[Change] = field(default_factory=list)
    faster: list[Change] = field(default_factory=list)
    same: list[Change] = field(default_factory=list)
    broken: list[Change] = field(default_factory=list)  # had a time, and has none now
    unrecorded: list[Record] = field(default_factory=list)
    peers_slower: list[Change] = field(default_factory=list)  # other people's code: told, and not held against us

    @property
    def compared(self) -> int:
        return len(self.slower) + len(self.faster) + len(self.same) + len(self.broken)

    @property
    def red(self) -> bool:
        """Slower or broken, or nothing of ours was compared at all: a gate that compares nothing has shown nothing."""
        return bool(self.slower or self.broken) or self.compared == 0


def committed(slug: str) -> list[Document]:
    """The committed documents of a GPU. Raises ResultsError with a sentence where there are none."""
    found = [read(path) for path in results.files(slug)]
    if not found:
        raise ResultsError(
            f"There is no committed record of a GPU called {slug!r} under {results.RESULTS.name}/, so there is nothing "
            "to compare with."
        )
    return found


def compare(fresh: Sequence[Document], records: Sequence[Document], run_to_run: float = RUN_TO_RUN) -> Outcome:
    """Hold fresh documents against committed ones.

    A case is slower where its median lies above the committed median by more than both spreads and `run_to_run` of the
    committed one. Raises ResultsError where documents come from different GPUs, or a fresh run did not finish.
    """
    gpu = same_gpu([*fresh, *records])
    unfinished = [document for document in fresh if not document.finished]
    if unfinished:
        raise ResultsError(
            f"{len(unfinished)} of {len(fresh)} fresh runs did not finish: cases are missing that nobody would miss."
        )
    known: dict[Key, Record] = {}
    for document in records:
        for record in document.cases:
            known.setdefault(key(record), record)
    outcome = Outcome(gpu)
    for record in (record for document in fresh for record in document.cases):
        old = known.get(key(record))
        if old is None or old.median_us is None:
            if record.ours and record.status != "unavailable":
                outcome.unrecorded.append(record)
            continue
        change = Change(old, record, allowance_us(old, record, run_to_run))
        if not record.ours:
            if slower(record, old, run_to_run):
                outcome.peers_slower.append(change)
        elif record.median_us is None:
            outcome.broken.append(change)
        elif slower(record, old, run_to_run):
            outcome.slower.append(change)
        elif slower(old, record, run_to_run):
            outcome.faster.append(change)
        else:
            outcome.same.append(change)
    return outcome


def _case(record: Record) -> str:
    where = f"{record.dtype} {shape_text(record.shape)}, {record.timing}, {record.cache}"
    return f"{record.op} {record.implementation}, {where}"


def _table(changes: Iterable[Change]) -> list[str]:
    lines = ["| case | record µs | now µs | now / record | allowed ± µs |", "| --- | ---: | ---: | ---: | ---: |"]
    for change in sorted(changes, key=lambda c: -(c.factor or float("inf"))):
        factor = "–" if change.factor is None else f"{change.factor:.3f}"
        now = (
            number(change.new.median_us)
            if change.new.median_us is not None
            else f"{change.new.status}: {change.new.reason}"
        )
        cells = (_case(change.old), number(change.old.median_us), now, factor, number(change.allowed_us, 2))
        lines.append("| " + " | ".join(cell.replace("|", "\\|").replace("\n", " ") for cell in cells) + " |")
    return lines


def markdown(outcome: Outcome, run_to_run: float = RUN_TO_RUN) -> str:
    """The outcome as a report: the verdict first, then tables."""
    lines = [f"# Performance gate on {outcome.gpu}: {'red' if outcome.red else 'green'}", ""]
    if outcome.compared == 0:
        lines += ["None of the fresh cases has a committed record, so nothing was compared. That is no pass.", ""]
    lines += [
        f"{outcome.compared} cases compared: {len(outcome.slower)} slower, {len(outcome.broken)} without a time now, "
        f"{len(outcome.faster)} faster, {len(outcome.same)} as before; {len(outcome.unrecorded)} have no record.",
        f"Slower is what lies above the record by more than both spreads and {100 * run_to_run:g} % of the record.",
        "",
    ]
    for title, changes in (
        ("Slower", outcome.slower),
        ("No time any more", outcome.broken),
        ("Faster", outcome.faster),
        ("Peers that got slower (not ours)", outcome.peers_slower),
    ):
        if changes:
            lines += [f"## {title}", "", *_table(changes), ""]
    if outcome.unrecorded:
        lines += ["## No record", "", *(f"- {_case(record)}" for record in outcome.unrecorded), ""]
    return "\n".join(lines)


def recorded_cases(documents: Iterable[Document]) -> dict[str, list[str]]:
    """Dtypes by operator with a committed time of ours, by graph replay from cold caches: what a gate measures."""
    found: dict[str, list[str]] = {}
    for document in documents:
        for record in document.cases:
            if record.ours and record.median_us and (record.timing, record.cache) == ("graph", "cold"):
                dtypes = found.setdefault(record.op, [])
                if record.dtype not in dtypes:
                    dtypes.append(record.dtype)
    return found


def gate(fresh: Sequence[Path], folder: Path | None = None, run_to_run: float = RUN_TO_RUN) -> Outcome:
    """`compare` over files: fresh ones, and those of `folder` (default: the committed ones of the fresh runs' GPU)."""
    documents = [read(path) for path in fresh]
    same_gpu(documents)
    if folder is None:
        old = committed(documents[0].provenance.gpu_slug)
    else:
        old = [read(path) for path in sorted(folder.glob("*.json")) if not path.name.endswith(".partial.json")]
        if not old:
            raise ResultsError(f"{folder} holds no results file, so there is nothing to compare with.")
    return compare(documents, old, run_to_run)
