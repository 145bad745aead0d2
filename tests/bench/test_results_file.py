"""The results file: strict, atomic, honest about what was not measured, and sure of which GPU it is."""

import json
import math
import os
import shutil
import signal
import subprocess
import sys
import warnings
from pathlib import Path

import msgspec
import pytest
from documents import provenance, record

from kernels.bench import StaleRecord, records, results, schema
from kernels.bench.results import (
    Clocks,
    Document,
    Limit,
    ResultsError,
    Writer,
    complete,
    encode,
    read,
)

ROOT = Path(__file__).resolve().parents[2]


def strict(data: bytes) -> object:
    def refuse(name: str) -> None:
        raise AssertionError(f"{name} in JSON")

    return json.loads(data, parse_constant=refuse)


def test_a_document_comes_back_as_it_was(tmp_path: Path) -> None:
    path = tmp_path / "add.json"
    writer = Writer(path, provenance())
    writer.add_limit(Limit(name="copy", method="triton copy", bytes_moved=2**31, samples_us=[505.0], median_us=505.0))
    writer.add(complete(record(config={"block_size": 128, "path": "block"})))
    writer.finish(Clocks(sm_mhz=1965.0))
    back = read(path)
    assert back == writer.document and back.finished
    assert back.cases[0].provenance.gpu == "NVIDIA H200" and back.cases[0].path == path
    assert not path.with_suffix(".partial.json").exists()


def test_median_spread_and_rates_come_from_the_samples() -> None:
    limit = Limit(name="copy", method="x", gb_per_s=4.0)
    made = complete(record(samples_us=[2.0, 3.0, 2.5, 1.0, 9.0]), limit)
    assert (made.median_us, made.spread_us) == (2.5, 1.0)
    assert made.gb_per_s == pytest.approx(3084 / 2.5e-6 / 1e9)
    assert made.fraction_of_limit == pytest.approx(made.gb_per_s / 4.0)
    assert complete(record(samples_us=[2.0])).spread_us is None


def test_times_are_kept_unrounded() -> None:
    value = 2.0031250000000003
    assert msgspec.json.decode(encode(Document(provenance=provenance(), cases=[record(samples_us=[value])])))["cases"][
        0
    ]["samples_us"] == [value]


@pytest.mark.parametrize("bad", [math.nan, math.inf, -math.inf])
def test_what_is_not_finite_becomes_null_with_a_reason(bad: float) -> None:
    made = complete(record(max_abs_error=bad))
    assert (made.status, made.max_abs_error) == ("not_finite", None)
    assert "max_abs_error" in made.reason
    assert made.median_us is None and made.gb_per_s is None
    made = complete(record(samples_us=[bad, 2.0]))
    assert made.status == "not_finite" and made.median_us is None
    strict(encode(Document(provenance=provenance(), cases=[made])))


@pytest.mark.parametrize("bad", [math.nan, math.inf])
def test_nothing_infinite_can_be_written(bad: float, tmp_path: Path) -> None:
    writer = Writer(tmp_path / "add.json", provenance())
    with pytest.raises(ResultsError, match=r"cases\[0\].gb_per_s is (nan|inf)"):
        writer.add(record(gb_per_s=bad))


@pytest.mark.parametrize("token", ["NaN", "Infinity", "-Infinity"])
def test_a_file_with_nan_is_refused(token: str, tmp_path: Path) -> None:
    data = encode(Document(provenance=provenance(), cases=[record(gb_per_s=1.25)])).replace(b"1.25", token.encode())
    (tmp_path / "bad.json").write_bytes(data)
    with pytest.raises(ResultsError, match="is not a results document"):
        read(tmp_path / "bad.json")


def test_other_readers_accept_the_file(tmp_path: Path) -> None:
    path = tmp_path / "add.json"
    path.write_bytes(
        encode(Document(provenance=provenance(), cases=[complete(record()), complete(record(samples_us=[]))]))
    )
    strict(path.read_bytes())
    if shutil.which("node"):
        script = "JSON.parse(require('fs').readFileSync(process.argv[1], 'utf8'))"
        subprocess.run(["node", "-e", script, str(path)], check=True, timeout=500)


def test_a_failed_case_is_neither_missing_nor_fast() -> None:
    made = complete(record(status="failed", reason="RuntimeError: no", samples_us=[1.0]))
    assert (made.median_us, made.gb_per_s, made.status) == (None, None, "failed")
    assert complete(record(samples_us=[])).status == "failed"


def test_empty_input_is_no_work_with_null_rates() -> None:
    made = complete(record(bytes_moved=0, flops=0, samples_us=[], shape=[0]))
    assert (made.status, made.gb_per_s, made.tflop_per_s, made.median_us) == ("no_work", None, None, None)
    assert "empty" in made.reason
    one = complete(record(bytes_moved=12, flops=1, shape=[1], samples_us=[1.5]))
    assert one.status == "ok" and one.gb_per_s == pytest.approx(0.008)


@pytest.mark.parametrize("samples", [[0.0, 1.0], [-1.0, 1.0]])
def test_no_time_is_zero_or_negative(samples: list[float]) -> None:
    made = complete(record(samples_us=samples))
    assert made.status == "not_finite" and made.median_us is None and "1 of 2 samples" in made.reason


def test_another_schema_version_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "old.json"
    path.write_text('{"schema_version": 99, "provenance": {}}')
    with pytest.raises(ResultsError, match="version 99; this program reads version 1"):
        read(path)


def test_an_unknown_field_is_refused() -> None:
    data = encode(Document(provenance=provenance())).replace(b'"finished"', b'"finnished"')
    with pytest.raises(ResultsError, match="finnished"):
        results.decode(data)


def test_the_published_schema_is_that_of_the_classes() -> None:
    assert schema.PATH.read_text() == schema.text(), "run python -m kernels.bench.schema"


def test_the_schema_accepts_documents_and_refuses_others() -> None:
    jsonschema = pytest.importorskip("jsonschema")
    published = json.loads(schema.PATH.read_text())
    document = strict(encode(Document(provenance=provenance(), cases=[complete(record())])))
    jsonschema.validate(document, published)
    document["cases"][0]["bytes_moved"] = 1.5
    with pytest.raises(jsonschema.ValidationError):
        jsonschema.validate(document, published)


def test_committed_results_follow_the_schema() -> None:
    jsonschema = pytest.importorskip("jsonschema")
    published = json.loads(schema.PATH.read_text())
    for path in (ROOT / "results").glob("*/*.json"):
        if path.parent.name != "local" and not path.name.endswith(".partial.json"):
            jsonschema.validate(strict(path.read_bytes()), published)
            assert read(path).finished, f"{path} is of a run that did not finish"


KILLED = """
import sys, time
sys.path.insert(0, sys.argv[2])
from documents import provenance, record
from kernels.bench.results import Writer, complete
writer = Writer(sys.argv[1], provenance())
for index in range(100_000):
    writer.add(complete(record(shape=[index + 1])))
    print(index, flush=True)
"""


def test_a_killed_run_leaves_what_it_finished_and_the_accepted_file(tmp_path: Path) -> None:
    path = tmp_path / "add.json"
    accepted = Writer(path, provenance())
    accepted.add(complete(record()))
    accepted.finish()
    before = path.read_bytes()
    child = subprocess.Popen(
        [sys.executable, "-c", KILLED, str(path), str(Path(__file__).parent)], stdout=subprocess.PIPE, cwd=ROOT
    )
    seen = 0
    while seen < 20:
        seen = int(child.stdout.readline())
    os.kill(child.pid, signal.SIGKILL)
    child.wait(timeout=500)
    child.stdout.close()
    assert path.read_bytes() == before
    left = read(path.with_suffix(".partial.json"))
    assert not left.finished and len(left.cases) >= seen
    assert [case.shape for case in left.cases] == [[index + 1] for index in range(len(left.cases))]


def test_another_gpus_records_are_not_replaced(tmp_path: Path) -> None:
    path = tmp_path / "add.json"
    Writer(path, provenance()).finish()
    with pytest.raises(ResultsError, match="holds records of NVIDIA H200; this machine has NVIDIA L4"):
        Writer(path, provenance("NVIDIA L4"))


def test_gpus_do_not_mix() -> None:
    one, two = Document(provenance=provenance()), Document(provenance=provenance("NVIDIA L4"))
    assert results.same_gpu([one, one]) == "NVIDIA H200"
    with pytest.raises(ResultsError, match="different GPUs"):
        results.same_gpu([one, two])


@pytest.fixture
def kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A results folder of its own, with a fingerprint of one kernel that is as today and of one that is not."""
    monkeypatch.setattr(results, "RESULTS", tmp_path / "results")
    monkeypatch.setattr(results, "hash_today", {"k:same": "a" * 16, "k:changed": "b" * 16}.get)
    folder = tmp_path / "results" / "h200"
    folder.mkdir(parents=True)
    writer = Writer(folder / "add.json", provenance())
    writer.add(complete(record(implementation="triton", source="k:same", source_hash="a" * 16)))
    writer.add(complete(record(implementation="vector_add", source="k:changed", source_hash="a" * 16)))
    writer.add(complete(record(implementation="vector_add", source="k:changed", source_hash="a" * 16, shape=[9])))
    writer.add(complete(record(implementation="gone", source="k:gone", source_hash="a" * 16)))
    writer.add(complete(record(implementation="torch")))
    writer.add(complete(record(op="softmax")))
    writer.add(complete(record(timing="events")))
    writer.add(complete(record(cache="warm")))
    writer.finish()
    (folder / "add.partial.json").write_text("half a file")
    return folder


def test_records_say_which_are_stale(kept: Path) -> None:
    with warnings.catch_warnings(record=True) as heard:
        warnings.simplefilter("always")
        found = records("add", gpu="h200")
    assert {r.implementation: r.stale for r in found} == {
        "triton": False,
        "vector_add": True,
        "gone": True,
        "torch": False,
    }
    said = [str(w.message) for w in heard if issubclass(w.category, StaleRecord)]
    assert len(said) == 2  # once for each file and implementation
    assert "results/h200/add.json" in said[0] and "add vector_add" in said[0] and "has changed" in said[0]
    assert "is gone" in said[1]


@pytest.mark.filterwarnings("ignore::kernels.bench.results.StaleRecord")
def test_records_keep_dispatch_and_warm_times_apart(kept: Path) -> None:
    assert len(records("add")) == 5
    assert len(records("add", timing="events")) == 1
    assert len(records("add", cache="warm")) == 1
    assert len(records("add", timing=None, cache=None)) == 7


@pytest.mark.filterwarnings("ignore::kernels.bench.results.StaleRecord")
def test_records_read_only_files_of_their_operator(kept: Path) -> None:
    before = len(records("add"))
    (kept / "softmax-wide.json").write_text("not even JSON: another operator's file")
    (kept / "add-wide.json").write_bytes((kept / "add.json").read_bytes())
    assert len(records("add")) == 2 * before


def test_verify_names_a_committed_file_with_a_foreign_record(kept: Path) -> None:
    from kernels.lessons.checks import repository_faults

    said = [fault.message for fault in repository_faults(kept.parents[1], [])]
    assert "add.json holds softmax; a committed file is named after its operator" in said


def test_an_unknown_gpu_is_a_sentence(kept: Path) -> None:
    with pytest.raises(ResultsError, match="called 'h201'; there are results of: h200"):
        records("add", gpu="h201")


def test_a_real_fingerprint_is_found() -> None:
    assert len(results.hash_today("kernels.ops.add:add") or "") == 16
    assert results.hash_today("kernels.ops.add:no_such_kernel") is None
