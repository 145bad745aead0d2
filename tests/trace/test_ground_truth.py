"""The host's trace against what a GPU did: accesses thread by thread, and the hardware's counters. Needs no GPU."""

import importlib.util
import re
from pathlib import Path

import numpy as np
import pytest

from kernels.sources import Sources
from kernels.trace import gpu_record, ground_truth
from kernels.trace.counters import METRICS
from kernels.trace.cuda import why_not
from kernels.trace.gpu_log import ACCESS, HEADER, read_log, to_case, to_trace
from kernels.trace.gpu_record import Origin, Record, RecordError, pack, unpack
from kernels.trace.ground_truth import Difference, accesses, compare, host_trace, recorded, unlisted

ROOT = Path(__file__).parents[2]
traced = pytest.mark.skipif(why_not() is not None, reason=str(why_not()))
RECORDS = {record.kernel: record for record in gpu_record.records()}
recorded_once = pytest.mark.skipif(
    not RECORDS, reason=f"No GPU's accesses are committed yet; on one, run python {gpu_record.COMMAND}."
)
SMALL = {"rows": 7, "columns": 33, "x_stride": 40, "out_stride": 36}


def launchers():
    """Every kernel with a launcher, and its file."""
    files = Sources().cuda_files()
    return {
        name.removeprefix("launch_"): path
        for path in ("cuda/kernels.cu", "cuda/patterns.cu")
        for name, symbol in files[path].symbols.items()
        if symbol.exported
    }


def written_shapes():
    """The shapes that the test programs name, for each family of kernels, read from their sources."""
    test = (ROOT / "cuda" / "portfolio_test.cuh").read_text()
    driver = (ROOT / "cuda" / "gpu_trace" / "driver.cu").read_text()
    softmax = [tuple(map(int, found)) for found in re.findall(r"\{(\d+), (\d+), (\d+), (\d+), Scores::", test)]
    block = driver.partition("kPatternShapes[] = {")[2].partition("};")[0]
    pattern = [tuple(map(int, found)) for found in re.findall(r"\{(\d+), (\d+), (\d+)\}", block)]
    return softmax, pattern


def shapes_of(kernel):
    softmax, pattern = written_shapes()
    if kernel == "vector_add":
        return [{"n": n} for n in (1, 257, 1000003)]
    names = ("rows", "columns", "x_stride", "out_stride")
    if kernel.startswith("softmax"):
        return [dict(zip(names, shape, strict=True)) for shape in softmax]
    wide = kernel.startswith("transpose")
    return [dict(zip(names, (r, c, c + p, (r if wide else c) + p), strict=True)) for r, c, p in pattern]


# ---- a file such as the recorder writes, made from a host trace ------------------------------------------------------


def log_of(trace, path, *, end=True, asked=0, reserved=1024, change=None):
    """The trace's accesses as the recorder would have written them; `change` edits the rows. Returns the buffers."""
    launch, column = trace.launches[0], trace.columns
    places = {b.name: (0x7F0000000000 + 0x1000000 * i) for i, b in enumerate(trace.buffers)}
    rows = np.zeros(len(trace), ACCESS)
    numbers = column["block"].astype(np.int64)
    rows["block_x"], rows["block"][:, 0] = numbers % launch.grid[0], numbers // launch.grid[0] % launch.grid[1]
    rows["thread"][:, 0], rows["thread"][:, 1] = (
        column["thread"] % launch.block[0],
        column["thread"] // launch.block[0],
    )
    shared = np.array([b.space == "shared" for b in trace.buffers])[column["buffer"]]
    items = np.array([b.itemsize for b in trace.buffers])[column["buffer"]]
    bases = np.array([reserved if b.space == "shared" else places[b.name] for b in trace.buffers])[column["buffer"]]
    rows["address"] = bases + column["element"] * items
    rows["size"], rows["what"] = column["size"], column["what"] + 16 * shared
    rows["pc"] = 0x100 + 16 * column["site"].astype(np.uint64)
    rows = rows if change is None else change(rows)
    header = np.zeros(1, HEADER)
    header["magic"], header["grid"], header["block"] = b"KLAUNCH1", launch.grid, launch.block
    header["recorded"], header["asked"], header["access_bytes"] = len(rows), asked or len(rows), ACCESS.itemsize
    header["name_bytes"] = len(launch.kernel)
    path.write_bytes(header.tobytes() + launch.kernel.encode() + rows.tobytes() + (b"KLEND..1" if end else b""))
    return {b.name: {"address": places[b.name], "bytes": b.extent * 4} for b in trace.buffers if b.space == "global"}


def through_a_file(kernel, shape, path, **more):
    """Host accesses, and the same after a way through the recorder's file, a record and its text."""
    source = launchers()[kernel]
    trace = host_trace(source, kernel, shape)
    buffers = log_of(trace, path / "log.bin", **more)
    (launch,) = read_log(path / "log.bin")
    case = to_case(launch, to_trace(launch, buffers, 1024), shape, buffers)
    origin = Origin(gpu="none", driver="", compiler="", flags="", tool="", commit=None, dirty=None, command="", utc="")
    made = Record(kernel=kernel, source=source, source_hash="", origin=origin, cases=[case])
    gpu_record.write(made, path / f"{kernel}.json")
    back = gpu_record.read(path / f"{kernel}.json")
    assert back == made
    return accesses(trace), recorded(back.cases[0])


@traced
@pytest.mark.parametrize("kernel", sorted(launchers()))
def test_what_the_host_does_survives_the_recorders_file_and_the_record(kernel, tmp_path):
    shape = shapes_of(kernel)[1]
    host, gpu = through_a_file(kernel, shape, tmp_path)
    assert compare(kernel, shape, host, gpu) == []
    assert {key: len(rows) for key, rows in gpu.items()} == {key: len(rows) for key, rows in host.items()}


def first_write_of(rows, number):
    return np.flatnonzero(rows["what"] % 16 == 1)[number]


def drop(rows):
    return np.delete(rows, first_write_of(rows, 40))


def shift(rows):
    rows["address"][first_write_of(rows, 40)] += 4
    return rows


def other_thread(rows):
    rows["thread"][first_write_of(rows, 40), 0] += 1
    return rows


def other_block(rows):
    rows["block_x"][first_write_of(rows, 40)] += 1
    return rows


def twice(rows):
    return np.append(rows, rows[first_write_of(rows, 40)])


@traced
@pytest.mark.parametrize(
    ("change", "words"),
    [
        (drop, "thread 7 of block 1 writes the word at byte 172 once in the host's trace and not at all on the GPU"),
        (shift, "thread 7 of block 1 writes the word at byte 172 once in the host's trace and not at all on the GPU"),
        (other_thread, "thread 7 of block 1 writes the word at byte 172 once in the host's trace and not at all"),
        (other_block, "thread 7 of block 1 writes the word at byte 172 once in the host's trace and not at all"),
        (twice, "thread 7 of block 1 writes the word at byte 172 once in the host's trace and 2 times on the GPU"),
    ],
)
def test_one_access_that_differs_is_found_and_named(change, words, tmp_path):
    def in_out(rows):  # only what goes to global memory: the shared writes keep their places
        glob = rows["what"] < 16
        return np.concatenate([rows[~glob], change(rows[glob].copy())])

    host, gpu = through_a_file("softmax_parallel", SMALL, tmp_path, change=in_out)
    (found,) = compare("softmax_parallel", SMALL, host, gpu)
    assert (found.kind, found.space, found.buffer, found.what) == ("other", "global", "out", "write")
    assert words in str(found), str(found)
    assert "softmax_parallel, rows 7, columns 33, x_stride 40, out_stride 36: out, writes: " in str(found)
    everything = Difference("softmax_parallel", "global", "out", "write", "other", "")
    assert str(found) in unlisted([found], [everything])  # this kind cannot be excused


@traced
def test_a_shared_access_that_differs_is_found(tmp_path):
    def change(rows):
        shared = np.flatnonzero(rows["what"] == 17)
        rows["address"][shared[3]] += 4
        return rows

    host, gpu = through_a_file("transpose_tile_33", shapes_of("transpose_tile_33")[1], tmp_path, change=change)
    (found,) = compare("transpose_tile_33", {}, host, gpu)
    assert (found.kind, found.space, found.what) == ("other", "shared", "write")


def row(block, thread, offset, size):
    return [block, thread, offset, size]


X_READ = ("global", "x", "read")
FOUR = np.array([row(0, 0, 0, 4), row(0, 0, 4, 4), row(0, 1, 8, 4), row(0, 1, 12, 4)])


@pytest.mark.parametrize(
    ("gpu", "kinds"),
    [
        (FOUR[::-1], []),
        (np.array([row(0, 0, 0, 8), row(0, 1, 8, 8)]), ["wider"]),
        (np.array([row(0, 0, 0, 16)]), ["other"]),  # the right words, one of them by another thread
        (FOUR[:3], ["other"]),
        (np.empty((0, 4), np.int64), ["other"]),
    ],
)
def test_wider_accesses_are_told_from_missing_ones(gpu, kinds):
    assert [m.kind for m in compare("k", {}, {X_READ: FOUR}, {X_READ: gpu})] == kinds


def test_fewer_means_that_each_word_is_still_read_by_its_thread():
    host = {X_READ: np.concatenate([FOUR, FOUR])}
    assert [m.kind for m in compare("k", {}, host, {X_READ: FOUR})] == ["fewer"]
    wide = np.array([row(0, 0, 0, 8), row(0, 1, 8, 8)])
    assert [m.kind for m in compare("k", {}, host, {X_READ: wide})] == ["fewer", "wider"]
    assert [m.kind for m in compare("k", {}, {X_READ: wide}, {X_READ: FOUR})] == ["narrower"]
    assert [m.kind for m in compare("k", {}, {X_READ: FOUR}, host)] == [
        "other"
    ]  # more than the source is not excusable
    assert [m.kind for m in compare("k", {}, host, {X_READ: FOUR[:3]})] == ["other"]


def test_the_table_must_name_each_difference_and_nothing_else():
    listed = Difference("k", "global", "x", "read", "fewer", "kept in a register")
    found = compare("k", {"n": 1}, {X_READ: np.concatenate([FOUR, FOUR])}, {X_READ: FOUR})
    assert unlisted(found, [listed]) == []
    assert unlisted(found, []) == [str(found[0])]
    assert unlisted([], [listed]) == ["the listed difference k, global, x, read, fewer does not occur; remove it"]


# ---- files ----------------------------------------------------------------------------------------------------------


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


# ---- the commands, with a GPU played by the host ---------------------------------------------------------------------


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

    nobody = Origin(gpu="none", driver="", compiler="", flags="", tool="", commit=None, dirty=None, command="", utc="")
    monkeypatch.setattr(command, "WORK", tmp_path)
    monkeypatch.setattr(command, "build_driver", lambda folder: folder)
    monkeypatch.setattr(command, "build_recorder", lambda folder: (folder, folder))
    monkeypatch.setattr(command, "compiler", lambda: "none")
    monkeypatch.setattr(command, "sanitizer_version", lambda: "0")
    monkeypatch.setattr(command, "origin", lambda tool, line: nobody)
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
    nobody = Origin(gpu="none", driver="", compiler="", flags="", tool="", commit=None, dirty=None, command="", utc="")
    monkeypatch.setattr(command, "WORK", tmp_path)
    monkeypatch.setattr(command, "build_driver", lambda folder: folder)
    monkeypatch.setattr(command, "profiler", lambda: ncu)
    monkeypatch.setattr(command, "origin", lambda tool, line: nobody)
    monkeypatch.setattr("sys.argv", ["gpu_counters.py", "--output", str(tmp_path / "records")])
    assert command.main() == (0 if sectors == 66 else 1)
    said = capsys.readouterr()
    (case,) = gpu_record.counters(tmp_path / "records").cases
    assert case.values["shared_load_wavefronts"] == 1023 and case.values["global_store_sectors"] is None
    assert "ncu does not list" in said.out and METRICS["global_store_sectors"] in said.out
    assert ("18 load requests and 67 sectors, not 18 and 66" in said.err) == (sectors == 67)


# ---- the committed records ------------------------------------------------------------------------------------------


@recorded_once
def test_there_is_a_record_for_every_kernel_and_shape():
    assert set(RECORDS) == set(launchers())
    for kernel, record in RECORDS.items():
        assert [case.shape for case in record.cases] == shapes_of(kernel), kernel


@recorded_once
@pytest.mark.parametrize("kernel", sorted(RECORDS))
def test_a_record_belongs_to_todays_kernel(kernel):
    record = RECORDS[kernel]
    assert gpu_record.stale(kernel, record.source, record.source_hash) is None


@recorded_once
def test_the_first_thing_recorded_is_what_was_known_before():
    case = next(case for case in RECORDS["vector_add"].cases if case.shape == {"n": 257})
    assert {what: sum(g.accesses for g in case.groups if g.what == what) for what in ("read", "write")} == {
        "read": 514,
        "write": 257,
    }


@recorded_once
@traced
def test_host_and_gpu_agree_for_every_kernel_and_shape():
    found = []
    for kernel, record in RECORDS.items():
        for case in record.cases:
            trace = host_trace(record.source.partition(":")[0], kernel, case.shape)
            assert (list(trace.launches[0].grid), list(trace.launches[0].block)) == (case.grid, case.block)
            found += compare(kernel, case.shape, accesses(trace), recorded(case))
    assert unlisted(found, ground_truth.DIFFERENCES) == []
