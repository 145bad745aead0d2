"""What this machine's learner has reached: the last verdict on each exercise, in the ignored folder `.lessons/`."""

from __future__ import annotations

import json
import time
from dataclasses import dataclass
from pathlib import Path

from kernels.exercises.model import EXIT_CODES
from kernels.sources.files import locked, write_whole

FILE = ".lessons/exercises.json"
_FORMAT = 1


@dataclass(frozen=True)
class Reached:
    """The last verdict on an exercise, when it was (UTC, ISO 8601), and whether it has ever passed."""

    verdict: str
    at: str
    passed: bool


class Progress:
    """The file of the verdicts. What cannot be read is set aside under another name, and begun anew."""

    def __init__(self, root: Path) -> None:
        self.path = root / FILE
        self.remark = ""
        """A sentence where the file was damaged or could not be written."""

    def read(self) -> dict[str, Reached]:
        """The verdicts by exercise."""
        try:
            text = self.path.read_text(encoding="utf-8")
        except FileNotFoundError:
            return {}
        except (OSError, UnicodeDecodeError) as error:
            return self._set_aside(str(error))
        try:
            document = json.loads(text)
            if document["format"] != _FORMAT:
                raise ValueError(f"format {document['format']}")
            found = {name: Reached(**entry) for name, entry in document["exercises"].items()}
            for entry in found.values():
                if entry.verdict not in EXIT_CODES or not isinstance(entry.at, str):
                    raise ValueError(f"verdict {entry.verdict!r}")
        except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
            return self._set_aside(f"{type(error).__name__}: {error}")
        return found

    def note(self, name: str, verdict: str) -> None:
        """Remember a verdict. A folder that cannot be written costs the memory, and nothing else."""
        try:
            self.path.parent.mkdir(parents=True, exist_ok=True)
            with locked(self.path.parent):  # another check may end at the same time, under `--watch`
                found = self.read()
                passed = verdict == "PASS" or (name in found and found[name].passed)
                found[name] = Reached(verdict, time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()), passed)
                document = {"format": _FORMAT, "exercises": {key: vars(entry) for key, entry in sorted(found.items())}}
                write_whole(self.path, json.dumps(document, indent=1) + "\n")
        except OSError as error:
            self.remark = f"the verdict cannot be kept in {FILE} ({error.strerror})."

    def _set_aside(self, why: str) -> dict[str, Reached]:
        aside = self.path.with_suffix(f".damaged-{time.time_ns()}.json")
        try:
            self.path.replace(aside)
        except OSError:
            self.remark = f"{FILE} cannot be read ({why}); delete it."
            return {}
        self.remark = f"{FILE} could not be read ({why}); it is now {aside.name}, and progress begins anew."
        return {}
