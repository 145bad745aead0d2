"""The results file: one strict JSON document a run.

A document is written whole after every finished case, to a temporary name that is then renamed, so that a run that is
killed half-way leaves a valid file with the cases that it finished. NaN and Infinity cannot be written: a value that
could not be measured is null, and `status` and `reason` say why. `results.schema.json` beside this file is generated
from these classes.
"""

import math
import re
import warnings
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Literal

import msgspec

from kernels.bench.rates import median, rates, ratio, spread
from kernels.sources.files import write_whole

SCHEMA_VERSION = 1
RESULTS = Path(__file__).resolve().parents[2] / "results"

Status = Literal["ok", "no_work", "wrong", "failed", "implausible", "not_finite", "unavailable"]


class StaleRecord(UserWarning):
    """A committed measurement whose kernel has changed since it was taken."""


class ResultsError(ValueError):
    """A results file that cannot be read, or results that must not be mixed."""


class Clocks(msgspec.Struct, kw_only=True, forbid_unknown_fields=True):
    """What the card said about itself at one moment; null where it does not say."""

    sm_mhz: float | None = None
    memory_mhz: float | None = None
    power_w: float | None = None
    temperature_c: float | None = None
    load_percent: float | None = None


class Provenance(msgspec.Struct, kw_only=True, forbid_unknown_fields=True):
    """Where a document comes from: the card, the software and the moment. Never the name of the machine."""

    gpu: str
    gpu_slug: str
    sm_count: int
    l2_bytes: int
    memory_bytes: int
    power_limit_w: float | None = None
    clocks_before: Clocks = msgspec.field(default_factory=Clocks)
    clocks_after: Clocks | None = None
    driver: str | None = None
    cuda: str | None = None
    python: str
    torch: str | None = None
    triton: str | None = None
    commit: str | None = None
    dirty: bool | None = None
    command: str
    utc: str


class Limit(msgspec.Struct, kw_only=True, forbid_unknown_fields=True):
    """A ceiling measured in the same run: how it was measured, and what came out."""

    name: str
    method: str
    bytes_moved: int = 0
    flops: int = 0
    samples_us: list[float] = msgspec.field(default_factory=list)
    median_us: float | None = None
    gb_per_s: float | None = None
    tflop_per_s: float | None = None
    status: Status = "ok"
    reason: str | None = None


class Record(msgspec.Struct, kw_only=True, forbid_unknown_fields=True, dict=True):
    """One implementation on one shape and dtype.

    Times are microseconds, unrounded, one sample a replay divided by its launches. `spread_us` is the interquartile
    range. `source` and `source_hash` name the kernel and what it was when it was measured; library code has neither.
    Attributes that do not travel in the file: `stale`, `provenance`, `path`.
    """

    op: str
    implementation: str
    ours: bool
    source: str = ""
    source_hash: str = ""
    shape: list[int]
    dtype: str
    config: dict[str, int | str] = msgspec.field(default_factory=dict)
    status: Status
    reason: str | None = None
    bytes_moved: int
    flops: int
    timing: Literal["graph", "events"]
    cache: Literal["cold", "warm"]  # what was asked for; where it could not be had, cache_note says so
    in_l2: bool = False  # whether the data stayed in the L2 cache between calls
    cache_note: str | None = None
    buffer_sets: int | None = None
    launches: int | None = None  # calls in one timed sample
    graph_nodes: dict[str, int] | None = None  # kinds of node in the captured graph: kernel, memcpy, memset
    samples_us: list[float] = msgspec.field(default_factory=list)
    median_us: float | None = None
    spread_us: float | None = None
    gb_per_s: float | None = None
    tflop_per_s: float | None = None
    fraction_of_limit: float | None = None
    first_call_ms: float | None = None
    compile_ms: float | None = None
    tune_ms: float | None = None
    max_abs_error: float | None = None
    error_over_tolerance: float | None = None
    tolerance: list[float] | None = None

    @property
    def stale(self) -> bool:
        """Whether the kernel differs today from the one that was measured (or is gone)."""
        if not self.source:
            return False
        if "_today" not in self.__dict__:
            self.__dict__["_today"] = hash_today(self.source)
        return self.__dict__["_today"] != self.source_hash

    @property
    def provenance(self) -> Provenance | None:
        """Of the document this record was read from; None for one that was just made."""
        return self.__dict__.get("_provenance")

    @property
    def path(self) -> Path | None:
        """The file this record was read from."""
        return self.__dict__.get("_path")


class Document(msgspec.Struct, kw_only=True, forbid_unknown_fields=True):
    """One run of kernel-bench."""

    schema_version: int = SCHEMA_VERSION
    finished: bool = False
    provenance: Provenance
    limits: list[Limit] = msgspec.field(default_factory=list)
    cases: list[Record] = msgspec.field(default_factory=list)


def hash_today(source: str) -> str | None:
    """Today's fingerprint of a kernel, or None where it no longer exists."""
    from kernels.sources import fingerprint

    try:
        return fingerprint(source)
    except (LookupError, ValueError, OSError):
        return None


def complete(record: Record, limit: Limit | None = None) -> Record:
    """Fill in median, spread, rates and the fraction of `limit` from the samples, and turn what is not finite into
    null.

    A record that is not "ok" keeps its samples as evidence and gets no median and no rate: it must not look like a
    fast one.
    """
    if record.status == "ok" and record.bytes_moved == 0 and record.flops == 0:
        record.status, record.reason = "no_work", "The input is empty: there is nothing to move and nothing to compute."
    for name in ("max_abs_error", "error_over_tolerance", "first_call_ms", "compile_ms", "tune_ms"):
        value = getattr(record, name)
        if value is not None and not math.isfinite(value):
            setattr(record, name, None)
            if record.status == "ok":
                record.status = "not_finite"
            record.reason = record.reason or f"{name} is not a finite number."
    finite = [value for value in record.samples_us if math.isfinite(value) and value > 0.0]
    if len(finite) != len(record.samples_us):
        if record.status == "ok":
            record.status = "not_finite"
            record.reason = (
                f"{len(record.samples_us) - len(finite)} of {len(record.samples_us)} samples are not positive times."
            )
        record.samples_us = finite
    record.median_us = record.spread_us = record.gb_per_s = record.tflop_per_s = record.fraction_of_limit = None
    if record.status == "ok" and not record.samples_us:
        record.status, record.reason = "failed", record.reason or "No repetition gave a time."
    if record.status not in ("ok", "no_work"):
        return record
    record.median_us, record.spread_us = median(record.samples_us), spread(record.samples_us)
    if record.status == "ok":
        found = rates(record.bytes_moved, record.flops, record.median_us)
        record.gb_per_s, record.tflop_per_s = found.gb_per_s, found.tflop_per_s
        record.fraction_of_limit = ratio(record.gb_per_s, limit.gb_per_s if limit else None)
    return record


def refuse_infinite(value: object, where: str) -> None:
    """ResultsError where a dictionary, a list or a number in it is not finite; `where` says what it is."""
    if isinstance(value, float) and not math.isfinite(value):
        raise ResultsError(
            f"{where} is {value}: JSON has no such number. Store null, and say why in status and reason."
        )
    if isinstance(value, dict):
        for key, inner in value.items():
            refuse_infinite(inner, f"{where}.{key}")
    elif isinstance(value, list):
        for index, inner in enumerate(value):
            refuse_infinite(inner, f"{where}[{index}]")


_FLAT_ARRAY = re.compile(rb"\[\s*([-+0-9.eE]+(?:,\s*[-+0-9.eE]+)*)\s*\]")


def encode(document: Document) -> bytes:
    """The document as strict JSON, indented, each array of numbers on one line. Raises ResultsError on NaN or
    Infinity.
    """
    refuse_infinite(msgspec.to_builtins(document), "document")
    text = msgspec.json.format(msgspec.json.encode(document), indent=1)
    return _FLAT_ARRAY.sub(lambda found: b"[" + re.sub(rb"\s+", b" ", found[1]) + b"]", text) + b"\n"


def decode(data: bytes, name: str = "results file") -> Document:
    """Read a document strictly: an unknown field, a wrong type, NaN, or another schema version is an error with a
    sentence.
    """
    try:
        version = msgspec.json.decode(data, type=_Version).schema_version
        if version != SCHEMA_VERSION:
            raise ResultsError(f"{name} has schema version {version}; this program reads version {SCHEMA_VERSION}.")
        return msgspec.json.decode(data, type=Document)
    except msgspec.DecodeError as error:  # ValidationError is one of these
        raise ResultsError(f"{name} is not a results document: {error}.") from None


class _Version(msgspec.Struct):
    schema_version: int


def read(path: Path | str) -> Document:
    """Read one results file; its records know the document's provenance and the path."""
    path = Path(path)
    try:
        data = path.read_bytes()
    except OSError as error:
        raise ResultsError(f"{path} cannot be read: {error.strerror}.") from None
    document = decode(data, str(path))
    for record in document.cases:
        record.__dict__.update(_provenance=document.provenance, _path=path)
    return document


class Writer:
    """Writes a run case by case.

    Every case is on the disk before the next begins, in `<name>.partial.json`; `finish()` renames it to the final
    name. So a run that is killed leaves the accepted file as it was, and a valid partial file beside it. Refuses to
    replace the records of another GPU.
    """

    def __init__(self, path: Path | str, provenance: Provenance) -> None:
        self.path = Path(path)
        self.partial = self.path.with_suffix(".partial.json")
        if self.path.exists():
            held = read(self.path).provenance.gpu
            if held != provenance.gpu:
                raise ResultsError(
                    f"{self.path} holds records of {held}; this machine has {provenance.gpu}. Choose another --output."
                )
        self.document = Document(provenance=provenance)
        self._flush()

    def add_limit(self, limit: Limit) -> None:
        self.document.limits.append(limit)
        self._flush()

    def add(self, record: Record) -> None:
        self.document.cases.append(record)
        self._flush()

    def finish(self, clocks_after: Clocks | None = None) -> Path:
        self.document.provenance.clocks_after = clocks_after
        self.document.finished = True
        self._flush()
        self.partial.replace(self.path)
        return self.path

    def _flush(self) -> None:
        write_whole(self.partial, encode(self.document))


def same_gpu(documents: Iterable[Document]) -> str:
    """The one GPU of all documents. Raises ResultsError where they come from several: their times do not compare."""
    names = list(dict.fromkeys(document.provenance.gpu for document in documents))
    if not names:
        raise ResultsError("No results document was given.")
    if len(names) > 1:
        raise ResultsError(
            f"These results come from different GPUs ({', '.join(names)}): times of two cards do not compare."
        )
    return names[0]


def files(gpu: str) -> Iterator[Path]:
    """The finished results files of one GPU (its slug, such as "h200"), in name order."""
    for path in sorted((RESULTS / gpu).glob("*.json")):
        if not path.name.endswith(".partial.json"):
            yield path


def records(
    op: str,
    gpu: str = "h200",
    *,
    timing: Literal["graph", "events"] | None = "graph",
    cache: Literal["cold", "warm"] | None = "cold",
) -> list[Record]:
    """The committed measurements of an operator on one GPU, in file order: graph replay over rotated buffers.

    `timing` and `cache` choose others; None takes all of them. Only files named after the operator are read
    (``softmax.json``, ``softmax-wide.json``), so another operator's new file changes nothing here.

    A record whose kernel has changed since is `.stale`, and a StaleRecord warning names file, operator and
    implementation. Raises ResultsError where the folder of that GPU does not exist or a file in it cannot be read.
    """
    folder = RESULTS / gpu
    if not folder.is_dir():
        known = sorted(path.name for path in RESULTS.iterdir() if path.is_dir()) if RESULTS.is_dir() else []
        raise ResultsError(
            f"There are no results of a GPU called {gpu!r}; there are results of: {', '.join(known) or 'none'}."
        )
    today: dict[str, str | None] = {}
    found: list[Record] = []
    warned: set[tuple[Path, str]] = set()
    for path in files(gpu):
        if path.stem.partition("-")[0] != op:
            continue
        for record in read(path).cases:
            if record.op != op or timing not in (None, record.timing) or cache not in (None, record.cache):
                continue
            if record.source:
                if record.source not in today:
                    today[record.source] = hash_today(record.source)
                record.__dict__["_today"] = today[record.source]
            found.append(record)
            if record.stale and (path, record.implementation) not in warned:
                warned.add((path, record.implementation))
                warnings.warn(StaleRecord(_stale_sentence(path, record)), stacklevel=2)
    return found


def _stale_sentence(path: Path, record: Record) -> str:
    name = path.relative_to(RESULTS.parent).as_posix() if path.is_relative_to(RESULTS.parent) else path.as_posix()
    change = "is gone" if record.__dict__.get("_today") is None else "has changed"
    return (
        f"{name}: {record.op} {record.implementation} was measured on code that {change} since "
        f"({record.source}); measure it again with kernel-bench --op {record.op} --output {name}."
    )
