"""Records that are no results files, the experiments', as JSON: written strictly, read strictly, with a schema."""

from __future__ import annotations

import json
from typing import TypeVar

import msgspec

from kernels.bench.results import ResultsError, refuse_infinite

Kind = TypeVar("Kind", bound=msgspec.Struct)


def encoded(document: msgspec.Struct, name: str = "document") -> bytes:
    """Strict JSON, one space of indent. ResultsError names the first value that is no finite number."""
    refuse_infinite(msgspec.to_builtins(document), name)  # msgspec itself would write null
    return msgspec.json.format(msgspec.json.encode(document), indent=1) + b"\n"


def decoded(data: bytes, kind: type[Kind], name: str, what: str) -> Kind:
    """What `encoded` wrote. ResultsError where the file `name` is not `what`: "record of a run on two devices"."""
    try:
        return msgspec.json.decode(data, type=kind)
    except msgspec.DecodeError as error:
        raise ResultsError(f"{name} is no {what}: {error}.") from None


def schema_text(kind: type[msgspec.Struct], title: str) -> str:
    """JSON Schema (draft 2020-12) of a kind of document, as it stands in its file."""
    made = msgspec.json.schema(kind)
    made["$schema"] = "https://json-schema.org/draft/2020-12/schema"
    made["title"] = title
    return json.dumps(made, indent=1, sort_keys=True, allow_nan=False) + "\n"
