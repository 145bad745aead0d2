"""The record of the sanitizers: its schema, its states, its report and its tables, on a document made here."""

from types import SimpleNamespace

import msgspec
import pytest

from kernels.bench.results import Provenance, ResultsError
from kernels.bench.sanitizer import record
from kernels.bench.sanitizer.plants import TOOLS
from kernels.figures.sanitizers import sanitizer_block, sanitizer_summary, sanitizer_table


def plant(state, kernel="_rows", **words):
    return record.Plant(kernel=kernel, state=state, **words)


REPORTED = plant("reported", report="Invalid __global__ read of size 4 bytes")
EMPTY = plant("cannot see", reason="The kernel has no barrier.")
MISSED = plant("cannot see", reason=record.UNREPORTED)


@pytest.mark.parametrize(
    ("clean", "plants", "state"),
    [
        ("yes", [REPORTED], "proved"),
        ("yes", [REPORTED, EMPTY], "proved"),
        ("yes", [EMPTY], "nothing to see"),
        ("yes", [REPORTED, MISSED], "blind"),
        ("yes", [MISSED], "blind"),
        ("yes", [REPORTED, plant("not run", reason="x")], "unproved"),
        ("yes", [], "unproved"),
        ("no", [REPORTED], "no"),
        ("not run", [REPORTED], "not run"),
    ],
)
def test_silence_counts_only_after_a_fault_was_reported(clean, plants, state):
    assert record.Check(tool="memcheck", clean=clean, plants=plants).state == state


def document() -> record.Sanitizers:
    def checks(**changed):
        made = {tool: record.Check(tool=tool, clean="yes", plants=[REPORTED]) for tool in TOOLS} | changed
        return list(made.values())

    def path(op, way, checks):
        return record.PathRecord(
            op=op, way=way, dtype="float32", source="kernels.ops.add:_launch", source_hash="0", kernels=["_rows"],
            checks=checks,
        )  # fmt: skip

    race = record.Check(tool="racecheck", clean="no", reports=["Error: Race reported <here>"], plants=[REPORTED])
    hang = record.Check(tool="synccheck", clean="not run", reason="It said nothing for 30 s, and was stopped.")
    empty = record.Check(tool="synccheck", clean="yes", plants=[EMPTY])
    blind = record.Check(tool="memcheck", clean="yes", plants=[MISSED])
    origin = Provenance(
        gpu="NVIDIA H200", gpu_slug="h200", sm_count=132, l2_bytes=1, memory_bytes=1, python="3.12.3",
        command="sanitize_operators.py", utc="2026-11-30T03:00:00Z", commit="0123456789",
    )  # fmt: skip
    return record.Sanitizers(
        provenance=origin,
        tool_version="compute-sanitizer 2025.3.1",
        seconds=90.5,
        unattributed={"memcheck": 2},
        paths=[
            path("softmax", "block", checks()),
            path("softmax", "joint", checks(racecheck=race, synccheck=hang)),
            path("add", "flat", checks(memcheck=blind, synccheck=empty)),
        ],
    )  # fmt: skip


def test_a_record_comes_back_as_it_was_and_the_schema_file_is_that_of_the_classes():
    made = document()
    assert record.decode(record.encode(made)) == made
    assert record.SCHEMA.read_text() == record.schema_text()


def test_a_file_of_another_kind_is_refused_with_a_sentence():
    with pytest.raises(ResultsError, match=r"add\.json is no record of the sanitizers"):
        record.decode(b"{}", "add.json")
    other = msgspec.json.encode(document())
    with pytest.raises(ResultsError, match="schema version 99"):
        record.decode(other.replace(b'"schema_version":1', b'"schema_version":99'))


def test_a_path_is_stale_once_its_code_is_another():
    from kernels.sources import fingerprint

    made = document()
    made.paths[0].source_hash = fingerprint("kernels.ops.add:_launch")
    made.paths[1].source = "kernels.ops.add:_gone"
    assert record.stale(made) == [False, True, True]


def test_the_report_counts_states_and_says_what_is_wrong():
    text = record.report(document())
    assert "memcheck: 2 proved, 1 blind; 2 reports name no kernel of a path" in text
    assert "racecheck · softmax, joint, float32: no: Error: Race reported" in text
    assert "synccheck · softmax, joint, float32: not run: It said nothing for 30 s" in text
    assert "softmax, block" not in text


def test_the_tables_show_every_state_and_escape_what_the_tool_said():
    made = document()
    whole = sanitizer_block(made, stale=[False, True, False])
    assert "compute-sanitizer 2025.3.1 on NVIDIA H200, 2026-11-30, commit 0123456" in whole
    assert "1 clean<br>" in whole and '<span class="kl-mark kl-mark--bad">1 report</span>' in whole
    assert "<summary>All 3 paths</summary>" in whole and whole.index("<details>") > whole.index("racecheck")
    assert "Race reported &lt;here&gt;" in whole and "<here>" not in whole
    assert whole.count("kl-badge--stale") == 1
    assert "nothing there" in sanitizer_summary(made) and "not seen" in sanitizer_summary(made)
    assert "\n\n" not in whole
    table, below = sanitizer_table(made.paths).split("</table>")
    assert "The kernel has no" not in table and below.count("The kernel has no barrier.") == 1
    assert sanitizer_table(made.paths).count("<code>_rows</code>") == 3
    total = sanitizer_summary(made).rsplit("<tr>", 1)[1]
    assert ">all<" in total and "2 clean" in total and "1 not seen" in total
    assert "earlier run" not in whole and "Why is not known." in whole


def test_that_the_time_was_over_is_said_once():
    made = document()
    over = "The time of the run was over."
    for path in made.paths:
        checks = {check.tool: check for check in path.checks}
        checks["synccheck"].clean, checks["synccheck"].reason = "not run", over
    table, below = sanitizer_table(made.paths).split("</table>")
    assert over not in table and below.count(over) == 1 and table.count('kl-mark--none">not run<') == len(made.paths)


def test_the_page_says_once_what_is_of_an_earlier_run_and_why_something_is_misread_or_not_seen():
    made = document()
    checks = {check.tool: check for check in made.paths[0].checks}
    checks["memcheck"].commit = checks["synccheck"].commit = "fedcba9876"
    line = "Error: Race reported between Read access at _attention_ring__p285+0x100 in attention_gluon.py:365"
    checks["racecheck"].clean, checks["racecheck"].reports = "no", [line]
    checks["initcheck"].plants = [plant("cannot see", "_matmul_ring", reason=record.UNREPORTED)]
    whole = sanitizer_block(made)
    assert "Of these 12 checks 2 are from earlier runs, 2 of commit fedcba9:" in whole and whole.count("fedcba9") == 1
    assert "1 misread" in whole and whole.count("pass barrier 1 four times") == 1
    assert "from version 2025.4 on" in whole and whole.count("Why is not known.") == 1  # _rows, under memcheck


def test_a_path_that_was_misread_for_two_reasons_is_not_counted_as_two(monkeypatch):
    made = document()
    check = next(each for each in made.paths[0].checks if each.tool == "racecheck")
    check.clean, check.reports = "no", ["Error: a race"]
    both = [SimpleNamespace(kernel=f"_k{i}", reason=f"reason {i}", says=lambda *_: True) for i in range(2)]
    monkeypatch.setattr("kernels.bench.sanitizer.readings.MISREAD", both)
    whole = sanitizer_block(made)
    assert "2 paths (<code>_k0</code>): reason 0" in whole
    assert "2 paths, counted above (<code>_k1</code>): reason 1" in whole
