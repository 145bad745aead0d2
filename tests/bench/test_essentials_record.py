"""The record of the Essentials' measurements: what is written, read and stale, and what ncu's table becomes."""

import pytest

from kernels.bench import essentials
from kernels.bench.essentials import Essentials, Row, Topic, decode, encode, read_topic, run
from kernels.bench.essentials_counters import read_rows
from kernels.bench.occupancy import plain, sources_with_kernels
from kernels.bench.profile_metrics import ProfileError
from kernels.bench.results import Provenance, ResultsError
from kernels.sources import fingerprint

WHERE = Provenance(
    gpu="NVIDIA H200",
    gpu_slug="h200",
    sm_count=132,
    l2_bytes=1,
    memory_bytes=1,
    python="3.12",
    command="x",
    utc="2026-11-30T00:00:00Z",
)
COPY = "cuda/strided.cu:launch_copy_strided"


class Device:
    def __init__(self, alive=True):
        self.alive = alive

    def usable(self):
        return self.alive


def topic(digest, **values):
    rows = [Row(name="stride 1", settings={"stride": 1}, values={"us": 2.0, **values})]
    return Topic(what="copies", hashes={COPY: digest}, rows=rows, sm_mhz=1980.0)


@pytest.fixture
def recorded(tmp_path, monkeypatch):
    monkeypatch.setattr(essentials, "RESULTS", tmp_path)

    def record(**topics):
        essentials.write(
            tmp_path / "h200" / "experiments" / essentials.FILE, Essentials(provenance=WHERE, topics=topics)
        )

    return record


def test_a_topic_of_an_earlier_run_keeps_its_origin(recorded):
    """Measuring one topic again says nothing of the day and the code of the others."""
    import msgspec

    later, latest = (
        msgspec.structs.replace(WHERE, utc=f"2026-12-{day}T00:00:00Z", commit="c" * 40) for day in (10, 20)
    )
    first = Essentials(provenance=WHERE, topics={"copies": topic("x"), "latency": topic("x")})
    second = Essentials(provenance=later)
    second.keep(first)
    run(second, {"latency": lambda _: topic("y")}, Device(), lambda _: None, lambda _: None)
    third = Essentials(provenance=latest)
    third.keep(decode(encode(second)))
    days = {name: third.found(name).provenance.utc[:10] for name in ("copies", "latency")}
    assert days == {"copies": "2026-11-30", "latency": "2026-12-10"}
    assert second.topics["latency"].provenance is None and first.topics["copies"].provenance is None


def test_a_topic_comes_back_with_its_origin(recorded):
    assert read_topic("copies") is None
    recorded(copies=topic(fingerprint(COPY)), latency=Topic(what="x", hashes={}, rows=[], failed="RuntimeError: no"))
    found = read_topic("copies")
    assert found.value("us", stride=1) == 2.0 and found.stale == []
    assert found.origin == "NVIDIA H200, multiprocessors at 1980 MHz, 2026-11-30"
    assert read_topic("latency") is None and read_topic("banks") is None
    with pytest.raises(KeyError, match="0 rows"):
        found.value("us", stride=2)
    assert "--topic copies" in essentials.missing("copies")


def test_changed_code_is_stale(recorded):
    recorded(copies=topic("0" * 16))
    assert read_topic("copies").stale == [COPY] and "stale" in read_topic("copies").origin


def test_what_is_no_number_is_refused():
    with pytest.raises(ResultsError, match=r"topics\.copies\.rows\[0\]\.values\.more is nan"):
        encode(Essentials(provenance=WHERE, topics={"copies": topic("0", more=float("nan"))}))
    with pytest.raises(ResultsError, match="no document"):
        decode(b"{}")


def test_a_topic_that_fails_is_recorded_and_the_next_one_runs():
    def breaks(device):
        raise RuntimeError("no such kernel\nat all")

    for alive, names in ((True, ["a", "b"]), (False, ["a"])):
        document, saved, said = Essentials(provenance=WHERE), [], []
        run(
            document,
            {"a": breaks, "b": lambda device: topic("0")},
            Device(alive),
            lambda d, saved=saved: saved.append(list(d.topics)),
            said.append,
        )
        assert list(document.topics) == names and saved[-1] == names
        assert document.topics["a"].failed == "RuntimeError: no such kernel"
        assert ("does not answer" in said[-1]) is not alive


def test_ncus_table_becomes_rows():
    text = '==PROF== x\n"ID","Kernel Name","a.sum","b.sum"\n"","","","byte"\n"0","copy(const float *)","1,024","n/a"\n'
    text += '"1","void at::native::fill()","1","1"\n'
    wanted = {"sectors": ("a.sum", 1.0), "kib": ("a.sum", 1 / 1024), "other": ("b.sum", 1.0)}
    rows = read_rows(text, ["first one"], wanted)
    assert [(r.name, r.settings, r.values) for r in rows] == [
        ("first one", {"kernel": "copy"}, {"sectors": 1024, "kib": 1})
    ]
    with pytest.raises(ProfileError, match="1 launches of ours, and the program named 2"):
        read_rows(text, ["one", "two"], wanted)


def test_the_driver_is_asked_about_every_source_with_kernels():
    found = sources_with_kernels()
    assert {"cuda/kernels.cu", "cuda/patterns.cu", "cuda/transposes.cu", "cuda/probes.cu"} <= set(found)
    assert "cuda/library.cu" not in found and not any("host" in path for path in found)
    assert plain("_Z16softmax_parallelPKfPf") == "softmax_parallel" and plain("copy") == "copy"


def test_a_record_that_was_cut_off_is_refused_before_anything_is_measured(tmp_path, monkeypatch, capsys):
    import importlib.util

    from kernels.sources import project_root

    spec = importlib.util.spec_from_file_location("script", project_root() / "scripts" / "essentials.py")
    script = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(script)
    monkeypatch.setattr(script, "CudaDevice", lambda: pytest.fail("the GPU was asked"))
    broken = tmp_path / "essentials.json"
    broken.write_bytes(encode(Essentials(provenance=WHERE))[:50])
    assert script.measure(["latency"], broken) == 2
    assert "essentials.json is no document" in capsys.readouterr().err and len(broken.read_bytes()) == 50
