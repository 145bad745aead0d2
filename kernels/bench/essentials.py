"""The measurements of the Essentials: one document of topics, each a table of settings and of what came out.

`scripts/essentials.py` makes it on a GPU and writes it after every topic; pages read it with `read_topic`. A topic
names the CUDA launchers that it stands on and their hashes, so that one whose code has changed is known as stale.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import msgspec

from kernels.bench import documents
from kernels.bench.results import RESULTS, Clocks, Provenance
from kernels.sources.files import write_whole

FILE = "essentials.json"
COMMAND = "python scripts/essentials.py --output results/local/essentials.json"


class Row(msgspec.Struct, kw_only=True, forbid_unknown_fields=True):
    """One setting: what was set, what was measured (the unit is in the name), and words where there is no number."""

    name: str
    settings: dict[str, int | float | str] = {}
    values: dict[str, float] = {}
    said: str = ""


class Topic(msgspec.Struct, kw_only=True, forbid_unknown_fields=True):
    """One experiment. `hashes` maps the code that it stands on to a fingerprint of that code when it was measured."""

    what: str
    hashes: dict[str, str]
    rows: list[Row]
    sm_mhz: float | None = None
    """The clock of the multiprocessors during the topic, counted by a kernel that waits for a number of cycles."""
    failed: str = ""
    provenance: Provenance | None = None
    """Where it was measured, if that was an earlier run than the document's."""


class Essentials(msgspec.Struct, kw_only=True, forbid_unknown_fields=True):
    """One run, and topics of earlier ones that it did not measure again."""

    schema_version: int = 1
    provenance: Provenance
    clocks_after: Clocks | None = None
    topics: dict[str, Topic] = {}

    def keep(self, before: Essentials) -> None:
        """Takes over an earlier document's topics, each with its origin."""
        for name, topic in before.topics.items():
            self.topics[name] = msgspec.structs.replace(topic, provenance=topic.provenance or before.provenance)

    def found(self, name: str) -> Found | None:
        """A topic with its origin; None where it was not measured, or failed."""
        topic = self.topics.get(name)
        return Found(topic, topic.provenance or self.provenance) if topic and topic.rows and not topic.failed else None


def encode(document: Essentials) -> bytes:
    """Strict JSON. Raises ResultsError where a value is no finite number."""
    return documents.encoded(document)


def decode(data: bytes, name: str = "file") -> Essentials:
    """Reads what `encode` wrote. Raises ResultsError with a sentence."""
    return documents.decoded(data, Essentials, name, "document of the Essentials' measurements")


def write(path: Path, document: Essentials) -> None:
    write_whole(path, encode(document))


class Found(msgspec.Struct):
    """A topic that was measured, and where."""

    topic: Topic
    provenance: Provenance

    @property
    def stale(self) -> list[str]:
        """The references whose code is not what it was when it was measured."""
        from kernels.sources import fingerprint

        def changed(reference: str, then: str) -> bool:
            try:
                return fingerprint(reference) != then
            except KeyError:
                return True

        return [reference for reference, then in self.topic.hashes.items() if changed(reference, then)]

    @property
    def origin(self) -> str:
        """GPU, clock, day and commit in words, and what is stale."""
        where = self.provenance
        commit = f", commit {where.commit[:7]}" if where.commit else ""
        clock = f", multiprocessors at {self.topic.sm_mhz:.0f} MHz" if self.topic.sm_mhz else ""
        stale = f"; stale: {', '.join(self.stale)} changed since" if self.stale else ""
        return f"{where.gpu}{clock}, {where.utc[:10]}{commit}{stale}"

    def rows(self, **settings: int | float | str) -> list[Row]:
        """The rows with these settings."""
        return [row for row in self.topic.rows if all(row.settings.get(k) == v for k, v in settings.items())]

    def value(self, key: str, **settings: int | float | str) -> float:
        """The one value under `key` with these settings. KeyError where there is none, or several."""
        found = [row.values[key] for row in self.rows(**settings) if key in row.values]
        if len(found) != 1:
            raise KeyError(f"{len(found)} rows have {key} with {settings}")
        return found[0]


def read_topic(topic: str, gpu: str = "h200") -> Found | None:
    """One topic as it was recorded on a GPU; None where it was not measured there, or failed."""
    path = RESULTS / gpu / "experiments" / FILE
    if not path.is_file():
        return None
    return decode(path.read_bytes(), path.name).found(topic)


def missing(topic: str, gpu: str = "H200") -> str:
    """The sentence for a page that has no record to show."""
    return f"Not measured yet on an {gpu}. This measures it: {COMMAND} --topic {topic}"


def run(
    document: Essentials,
    topics: Mapping[str, Callable[[Any], Topic]],
    device: Any,
    save: Callable[[Essentials], None],
    say: Callable[[str], None],
) -> None:
    """Measures one topic after the other and saves after each; one that raises is recorded as failed.

    An error that leaves the device unusable ends the run.
    """
    import time

    for name, measure in topics.items():
        began = time.monotonic()
        try:
            document.topics[name] = measure(device)
        except Exception as error:
            first = (str(error).strip().splitlines() or ["no message"])[0]
            document.topics[name] = Topic(what=name, hashes={}, rows=[], failed=f"{type(error).__name__}: {first}")
        save(document)
        topic = document.topics[name]
        say(f"{name}: {topic.failed or f'{len(topic.rows)} rows'}, {time.monotonic() - began:.1f} s")
        if topic.failed and not device.usable():
            say("The device does not answer any more; the rest is left out.")
            return
