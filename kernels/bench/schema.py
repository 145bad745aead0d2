"""The published JSON Schema of a results file. `python -m kernels.bench.schema` writes it again after a change of the
classes.
"""

import json
from pathlib import Path

import msgspec

from kernels.bench.results import SCHEMA_VERSION, Document
from kernels.sources.files import write_whole

PATH = Path(__file__).with_name("results.schema.json")


def schema() -> dict[str, object]:
    """JSON Schema (draft 2020-12) of `kernels.bench.results.Document`."""
    made = msgspec.json.schema(Document)
    made["$schema"] = "https://json-schema.org/draft/2020-12/schema"
    made["title"] = "kernel-bench results"
    made["$defs"]["Document"]["properties"]["schema_version"] = {"const": SCHEMA_VERSION}
    return made


def text() -> str:
    """The schema as it stands in the file."""
    return json.dumps(schema(), indent=1, sort_keys=True, allow_nan=False) + "\n"


def write_schema(path: Path = PATH) -> Path:
    """Write the schema file."""
    write_whole(path, text())
    return path


if __name__ == "__main__":
    print(write_schema().name)
