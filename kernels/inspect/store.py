"""Compile facts on disk, so that an unchanged kernel is not compiled twice."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path
from typing import Any

from kernels.inspect.facts import CompileFacts
from kernels.sources import project_root
from kernels.sources.files import write_whole


def key_of(*parts: object) -> str:
    """A file name for everything that the facts depend on."""
    return hashlib.sha256(repr(parts).encode()).hexdigest()[:32]


def read(key: str) -> list[CompileFacts] | None:
    """The facts stored under `key`, or None. A damaged file counts as absent: it is made again."""
    try:
        return [CompileFacts.from_json(item) for item in read_json(key)]
    except TypeError:
        return None


def write(key: str, facts: list[CompileFacts]) -> None:
    """Stores the facts. Another process sees all of the file or none of it."""
    write_json(key, [item.to_json() for item in facts])


def read_json(key: str) -> Any:
    """What was stored under `key`, or None where there is no such file or it is damaged."""
    try:
        return json.loads(_path(key).read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return None


def write_json(key: str, value: object) -> None:
    """Stores a value that JSON can hold. Another process sees all of the file or none of it."""
    write_whole(_path(key), json.dumps(value), durable=False)


def _path(key: str) -> Path:
    return project_root() / "build" / "inspect" / f"{key}.json"
