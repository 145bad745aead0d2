"""The figures that the Essentials quote: what a watched program printed, and what pages read of the record."""

import sys

import msgspec
import pytest

from kernels.bench import essentials, quoted
from kernels.bench.essentials import Essentials, Row, Topic
from kernels.bench.results import Provenance

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
WATCHED = '========= COMPUTE-SANITIZER\n{"copy": 2.5, "walk": 40.0}\n========= ERROR SUMMARY: 0 errors\n'


def test_times_stand_among_the_tools_words():
    rows = quoted.rows_of("memcheck", 0, WATCHED)
    assert [(row.settings, row.values) for row in rows] == [
        ({"status": 0, "kernel": "copy"}, {"us": 2.5}),
        ({"status": 0, "kernel": "walk"}, {"us": 40.0}),
    ]
    assert {row.said for row in rows} == {"ERROR SUMMARY: 0 errors"}


@pytest.mark.parametrize(
    ("text", "errors", "said"),
    [
        ("========= ERROR SUMMARY: 1 error\n", "Traceback\nRuntimeError: no", "no times: RuntimeError: no"),
        ("", "", "no times: nothing was printed"),
    ],
)
def test_a_program_that_gave_no_times_says_why(text, errors, said):
    (row,) = quoted.rows_of("racecheck", 1, text, errors)
    assert (row.values, row.settings, row.said) == ({}, {"status": 1}, said)


def test_pages_read_what_was_measured_and_no_failed_topic(tmp_path, monkeypatch):
    monkeypatch.setattr(quoted, "RESULTS", tmp_path)
    assert quoted.read_quoted("bins") is None
    bins = Topic(what="bins", hashes={}, rows=[Row(name="histogram_plain", settings={"bins": 256}, values={"us": 1.0})])
    failed = Topic(what="slowdown", hashes={}, rows=[], failed="ProfileError: no tool.")
    path = tmp_path / "h200" / "experiments" / quoted.FILE
    path.parent.mkdir(parents=True)
    essentials.write(path, Essentials(provenance=WHERE, topics={"bins": bins, "slowdown": failed}))
    assert quoted.read_quoted("bins").value("us", bins=256) == 1.0
    assert quoted.read_quoted("slowdown") is None
    assert "kernels.bench.quoted" in quoted.missing("slowdown") and "--topic slowdown" in quoted.missing("slowdown")


@pytest.mark.skipif(sys.platform == "win32", reason="processes take turns by fcntl")
def test_a_turn_is_held_by_one_process_at_a_time(tmp_path, monkeypatch):
    import fcntl

    monkeypatch.setenv("KERNELS_TURN", str(tmp_path / "turn"))
    with (tmp_path / "turn").open("a") as other:
        with quoted._turn(), pytest.raises(BlockingIOError):
            fcntl.flock(other, fcntl.LOCK_EX | fcntl.LOCK_NB)
        fcntl.flock(other, fcntl.LOCK_EX | fcntl.LOCK_NB)


def test_without_a_gpu_the_command_says_so(capsys):
    from kernels.bench.device import gpu_missing

    if not gpu_missing():
        pytest.skip("there is a GPU, so the command would measure")
    assert quoted.main([]) == 3
    assert "need one" in capsys.readouterr().err


def test_one_topic_leaves_the_other_in_the_file(tmp_path, monkeypatch, capsys):
    from kernels.bench import device, provenance

    class Device:
        def warm_clocks(self):
            pass

        def usable(self):
            return True

    def topic(_):
        return Topic(what="x", hashes={}, rows=[Row(name="a row")])

    monkeypatch.setattr(device, "gpu_missing", lambda: None)
    monkeypatch.setattr(device, "CudaDevice", Device)
    monkeypatch.setattr(provenance, "provenance", lambda _: WHERE)
    monkeypatch.setattr(provenance, "clocks", lambda: None)
    monkeypatch.setattr(quoted, "MEASURES", {"bins": topic, "slowdown": topic})
    output = tmp_path / "quoted.json"
    assert quoted.main(["--output", str(output)]) == 0
    assert quoted.main(["--topic", "bins", "--output", str(output)]) == 0
    assert set(essentials.decode(output.read_bytes()).topics) == {"bins", "slowdown"}
    monkeypatch.setattr(provenance, "provenance", lambda _: msgspec.structs.replace(WHERE, gpu="NVIDIA H100"))
    assert quoted.main(["--topic", "bins", "--output", str(output)]) == 2
    output.write_bytes(output.read_bytes()[:60])
    assert quoted.main(["--topic", "bins", "--output", str(output)]) == 2 and output.stat().st_size == 60
    assert "quoted.json is no document" in capsys.readouterr().err
