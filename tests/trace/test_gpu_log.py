"""The recorder's file, the records made of it, and the two commands that write them, with a GPU played by the host."""

import importlib.util
import re

import numpy as np
import pytest
from gpu_play import NOBODY, ROOT, SMALL, launchers, log_of, shapes_of, through_a_file

from kernels.trace import gpu_record
from kernels.trace.counters import METRICS
from kernels.trace.cuda import why_not
from kernels.trace.gpu_record import RecordError, pack, unpack
from kernels.trace.ground_truth import accesses, compare, host_trace, recorded

traced = pytest.mark.skipif(why_not() is not None, reason=str(why_not()))


@traced
@pytest.mark.parametrize(
    ("more", "words"),
    [
        ({"end": False}, "log.bin ends without its mark after 1 launches"),
        ({"asked": 5000}, "vector_add made 5000 accesses, of which 771 were kept"),
        (
            {"change": lambda rows: rows["address"].__setitem__(3, 64) or rows},
            "accessed address 0x40, which is in none of",
        ),
        ({"change": lambda rows: rows["what"].__setitem__(3, 32) or rows}, "accesses to local memory or prefetches"),
    ],
)
def test_a_log_that_is_not_whole_is_refused_in_words(more, words, tmp_path):
    with pytest.raises(RecordError, match=re.escape(words)):
        through_a_file("vector_add", {"n": 257}, tmp_path, **more)


def test_accesses_are_coded_exactly_and_small():
    random = np.random.default_rng(0)
    block, thread, offset = (
        random.integers(0, 9, 5000),
        random.integers(0, 1024, 5000),
        random.integers(0, 99, 5000) * 4,
    )
    count, runs, packed = pack(block, thread, offset)
    rows = unpack(packed, runs)
    want, times = np.unique(np.stack([block, thread, offset], axis=1), axis=0, return_counts=True)
    assert count == 5000 and (rows[:, :3] == want).all() and (rows[:, 3] == times).all()
    i = np.arange(1_000_000)
    assert len(pack(i // 256, i % 256, 4 * i)[2]) < 1000
    assert pack(*[np.empty(0, np.int64)] * 3)[:2] == (0, 0) and not len(
        unpack(pack(*[np.empty(0, np.int64)] * 3)[2], 0)
    )
    with pytest.raises(RecordError, match="cannot be unpacked"):
        unpack(packed[:-9], runs)


def test_a_record_with_an_unknown_field_or_version_is_refused(tmp_path):
    path = tmp_path / "k.json"
    path.write_text('{"kernel": "k", "colour": "green"}')
    with pytest.raises(RecordError, match=r"k\.json is not a record of GPU accesses"):
        gpu_record.read(path)
    with pytest.raises(RecordError, match=r"none\.json cannot be read"):
        gpu_record.read(tmp_path / "none.json")


def test_a_kernel_that_changed_makes_its_record_stale_and_names_the_command():
    from kernels.sources import fingerprint

    source = "cuda/patterns.cu:launch_copy_rows"
    assert gpu_record.stale("copy_rows", source, fingerprint(source)) is None
    said = gpu_record.stale("copy_rows", source, "another")
    change = f"copy_rows ({source}) has changed since a GPU ran it"
    assert said == f"{change}; on a machine with a GPU, run: python scripts/gpu_trace.py"
    assert "is gone" in gpu_record.stale("gone", "cuda/patterns.cu:launch_gone", "another")


def script(name):
    spec = importlib.util.spec_from_file_location(name, ROOT / "scripts" / f"{name}.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


PLAYED = [("vector_add", {"n": 257}), ("softmax_online", shapes_of("softmax_online")[3]), ("copy_rows", SMALL)]


@traced
def test_the_recording_command_writes_what_the_comparison_accepts(tmp_path, monkeypatch, capsys):
    command = script("gpu_trace")

    def play(way, recorder, driver, log, *options):
        lines, data = [], b""
        for kernel, shape in PLAYED[:1] if options else PLAYED:
            source = launchers()[kernel]
            buffers = log_of(host_trace(source, kernel, shape), tmp_path / "one", end=False)
            data += (tmp_path / "one").read_bytes()
            lines.append(
                {"kernel": kernel, "source": source, "reserved_shared": 1024, "shape": shape, "buffers": buffers}
            )
        log.write_bytes(data + b"KLEND..1")
        return lines

    monkeypatch.setattr(command, "WORK", tmp_path)
    monkeypatch.setattr(command, "build_driver", lambda folder: folder)
    monkeypatch.setattr(command, "build_recorder", lambda folder: (folder, folder))
    monkeypatch.setattr(command, "compiler", lambda: "none")
    monkeypatch.setattr(command, "sanitizer_version", lambda: "0")
    monkeypatch.setattr(command, "origin", lambda tool, line: NOBODY)
    monkeypatch.setattr(command, "run", play)
    monkeypatch.setattr("sys.argv", ["gpu_trace.py", "--output", str(tmp_path / "records")])
    assert command.main() == 0, capsys.readouterr().err
    assert "514 reads and 257 writes" in capsys.readouterr().out
    made = {record.kernel: record for record in gpu_record.records(tmp_path / "records")}
    assert set(made) == {kernel for kernel, _ in PLAYED}
    for kernel, shape in PLAYED:
        (case,) = made[kernel].cases
        assert compare(kernel, shape, accesses(host_trace(launchers()[kernel], kernel, shape)), recorded(case)) == []
    # A recorder that sees nothing is reported with what was tried.
    monkeypatch.setattr(
        command, "run", lambda way, recorder, driver, log, *options: log.write_bytes(b"KLEND..1") and []
    )
    assert command.main() == 1
    assert "the recorder does not work here" in capsys.readouterr().err


NCU = """#!/bin/sh
case "$*" in
*--query-metrics*) for m in {known}; do echo "$m  Counter  request  words"; done; exit 0 ;;
*--version*) echo "Version 2025.3.1.0 (build 1)"; exit 0 ;;
esac
while [ $# -gt 0 ]; do [ "$1" = --log-file ] && log=$2; shift; done
cat {csv} >"$log"
cat {lines}
"""


@pytest.mark.parametrize("sectors", [66, 67])
def test_the_counters_command_reads_what_ncu_prints(sectors, tmp_path, monkeypatch, capsys):
    command = script("gpu_counters")
    values = {"global_load_requests": "18", "global_load_sectors": str(sectors), "shared_load_wavefronts": "1,023"}
    asked = [metric for name, metric in METRICS.items() if name in values]
    table = [
        ["ID", "Kernel Name", *asked],
        ["", "", *("" for _ in asked)],
        ["0", "vector_add(const float *)", *values.values()],
    ]
    text = "\n".join(",".join(f'"{cell}"' for cell in row) for row in table)
    (tmp_path / "csv").write_text(f"==PROF== Connected\n{text}\n")
    (tmp_path / "lines").write_text('{"kernel": "vector_add", "source": "cuda/kernels.cu", "shape": {"n": 257}}\n')
    ncu = tmp_path / "ncu"
    known = " ".join(metric.removesuffix(".sum") for metric in asked)
    ncu.write_text(NCU.format(known=known, csv=tmp_path / "csv", lines=tmp_path / "lines"))
    ncu.chmod(0o755)
    monkeypatch.setattr(command, "WORK", tmp_path)
    monkeypatch.setattr(command, "build_driver", lambda folder: folder)
    monkeypatch.setattr(command, "profiler", lambda: ncu)
    monkeypatch.setattr(command, "origin", lambda tool, line: NOBODY)
    monkeypatch.setattr("sys.argv", ["gpu_counters.py", "--output", str(tmp_path / "records")])
    assert command.main() == (0 if sectors == 66 else 1)
    said = capsys.readouterr()
    (case,) = gpu_record.counters(tmp_path / "records").cases
    assert case.values["shared_load_wavefronts"] == 1023 and case.values["global_store_sectors"] is None
    assert "ncu does not list" in said.out and METRICS["global_store_sectors"] in said.out
    assert ("18 load requests and 67 sectors, not 18 and 66" in said.err) == (sectors == 67)
