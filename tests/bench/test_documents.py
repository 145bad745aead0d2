"""Records of experiments as JSON: one way to write and to read them, for every kind."""

import json
import math

import msgspec
import pytest

from kernels.bench import documents
from kernels.bench.results import ResultsError


class Small(msgspec.Struct, forbid_unknown_fields=True):
    """A record of one thing."""

    times: dict[str, list[float | None]]
    seconds: float = 1.0


def test_what_was_written_is_read_again():
    made = Small({"a": [1.5, None]})
    data = documents.encoded(made)
    assert data.endswith(b"}\n") and documents.decoded(data, Small, "a.json", "small record") == made


@pytest.mark.parametrize(
    ("made", "where"),
    [
        (Small({"a": [1.0, math.inf]}), r"document\.times\.a\[1\] is inf"),
        (Small({"a": []}, math.nan), r"document\.seconds is nan"),
    ],
)
def test_a_value_that_json_has_not_is_refused_and_never_null(made, where):
    with pytest.raises(ResultsError, match=where):
        documents.encoded(made)


@pytest.mark.parametrize("data", [b"[]", b'{"times": {}, "other": 1}', b'{"times": {"a": ["fast"]}}', b"{"])
def test_what_does_not_fit_is_a_sentence_with_the_file(data):
    with pytest.raises(ResultsError, match=r"^a\.json is no small record: "):
        documents.decoded(data, Small, "a.json", "small record")


def test_the_schema_has_a_title_and_a_dialect():
    made = json.loads(documents.schema_text(Small, "small"))
    assert made["title"] == "small" and made["$schema"].endswith("2020-12/schema")
    assert made["$defs"]["Small"]["additionalProperties"] is False
