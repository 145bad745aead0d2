"""That the tracer's benchmark measures and reports, and what keeps it fast; no test here depends on the clock."""

import json
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from kernels.trace import cuda_library
from kernels.trace.cuda import trace_cuda, trace_cuda_launcher, why_not
from kernels.trace.cuda_records import Recorded

pytestmark = pytest.mark.skipif(why_not() is not None, reason=str(why_not()))
ROOT = Path(__file__).resolve().parents[2]
UNUSUAL = Path(__file__).parent / "cuda_sources" / "unusual.cu"
F32 = np.float32


def test_the_benchmark_measures_and_reports(tmp_path):
    target = tmp_path / "speed.json"
    command = [
        sys.executable,
        str(ROOT / "scripts" / "trace_benchmark.py"),
        "--scale",
        "0.001",
        "--repeat",
        "1",
        "--page",
    ]
    done = subprocess.run([*command, "--json", str(target)], cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode in (0, 1), done.stderr  # 1: slower than it should be, which a busy machine may be
    document = json.loads(target.read_text())
    by_kernel = {each["case"].split(",")[0]: each for each in document["launches"]}
    assert by_kernel["vector_add"]["accesses"] == 3 * 1048
    assert by_kernel["softmax_serial"]["accesses"] == 4 * 4096
    assert by_kernel["softmax_online"]["events"] > by_kernel["softmax_online"]["accesses"]
    for each in document["launches"]:
        assert 0 < each["recorded_s"] <= each["traced_s"] <= each["judged_s"]
        assert min(each["silent_s"], each["plain_s"]) > 0
        assert each["case"] in done.stdout
    assert set(document["fibers"]) == {"thread_ns", "barrier_ns", "shuffle_ns"}
    page = document["page"]
    assert page["total_s"] == pytest.approx(page["imports_s"] + page["trace_s"] + page["faults_s"])


def traced(columns, **more):
    x = np.random.default_rng(0).standard_normal((1, columns), dtype=F32)
    return trace_cuda_launcher("launch_softmax_parallel", [x, np.empty_like(x), 1, columns, columns, columns], **more)


def test_no_objects_are_made_for_rows():
    traced(300).faults()  # what is made once is made now

    def blocks(columns):
        before = sys.getallocatedblocks()
        trace = traced(columns)
        held = trace, trace.faults()
        return sys.getallocatedblocks() - before, held

    few, (small, _) = blocks(300)
    many, (large, _) = blocks(30_000)
    assert len(large) - len(small) > 80_000
    assert abs(many - few) < 500
    assert {column.dtype.kind for column in large.columns.values()} <= set("bi")


def test_an_event_is_sixteen_bytes_and_a_turn_is_shared(monkeypatch):
    seen = []
    monkeypatch.setattr("kernels.trace.cuda_result.Recorded", lambda *parts: seen.append(parts) or Recorded(*parts))
    n = 1000
    x, out = np.zeros((1, n), F32), np.zeros((1, n), F32)
    trace = trace_cuda_launcher("launch_softmax_serial", [x, out, 1, n, n, n])
    [(events, turns, *_)] = seen
    assert (events.itemsize, turns.itemsize) == (16, 24)
    assert len(events) == len(trace) == 4 * n
    assert len(turns) == 1  # one thread has the row to itself


def test_who_made_an_access_is_right_across_barriers_blocks_and_launches():
    x, out = np.zeros((3, 40), F32), np.zeros((3, 40), F32)
    trace = trace_cuda_launcher("launch_softmax_parallel", [x, out, 3, 40, 40, 40])
    writes = trace.select(buffer="out", what="write").columns
    assert writes["block"].tolist() == np.repeat([0, 1, 2], 40).tolist()
    assert writes["thread"].tolist() == [*range(40)] * 3
    assert len(set(writes["interval"].tolist())) == 1 and writes["interval"][0] > 0


def test_a_thread_that_goes_on_alone_begins_a_new_turn():
    trace = trace_cuda("alone", grid=2, block=1, args=[np.zeros(6, F32)], source=UNUSUAL)
    assert trace.columns["block"].tolist() == [0, 0, 0, 1, 1, 1]
    assert trace.columns["interval"].tolist() == [0, 1, 1] * 2
    assert trace.warp_intervals.tolist() == [0, 0, 1] * 2
    one_each = trace_cuda("one_each", grid=3, block=1, args=[np.zeros(3, F32)], source=UNUSUAL)
    assert one_each.columns["block"].tolist() == [0, 1, 2]


def test_source_lines_are_asked_for_once(monkeypatch):
    cuda_library.load.cache_clear()
    lines = {event.line for event in traced(40)}
    assert len(lines) > 5 and 0 not in lines
    asked = []
    monkeypatch.setattr(cuda_library, "_resolve", lambda *arguments: asked.append(arguments))
    cuda_library.load.cache_clear()  # as in a new process
    assert {event.line for event in traced(40)} == lines
    assert not asked


def test_damaged_source_lines_are_asked_for_again(monkeypatch):
    written = []
    write = cuda_library._write_lines
    monkeypatch.setattr(cuda_library, "_read_lines", lambda file: {})
    monkeypatch.setattr(cuda_library, "_write_lines", lambda file, lines: written.append(file) or write(file, lines))
    cuda_library.load.cache_clear()
    lines = {event.line for event in traced(40)}
    monkeypatch.undo()
    for damage in ("", "[1]", '{"x": 1}', '{"1": null}'):
        written[0].write_text(damage)
        cuda_library.load.cache_clear()
        assert {event.line for event in traced(40)} == lines


def test_a_library_that_records_otherwise_is_refused(monkeypatch):
    cuda_library.load.cache_clear()
    monkeypatch.setattr(cuda_library, "EVENT", np.dtype([("pc", "<u4"), ("block", "<u4"), ("place", "<i8", 2)]))
    with pytest.raises(RuntimeError, match=r"events of other sizes than the 24 and 24 bytes.*cuda/host/record\.cpp"):
        traced(40)
    cuda_library.load.cache_clear()


def test_a_copy_of_many_bytes_is_several_accesses():
    items = (9 << 20) // 4
    x, out = np.ones(items, F32), np.zeros(items, F32)
    trace = trace_cuda("copy_all", grid=1, block=1, args=[x, out], source=UNUSUAL)
    column = trace.select(buffer="out").columns
    assert column["size"].tolist() == [8 << 20, 1 << 20]
    assert column["element"].tolist() == [0, 2 << 20]
    assert out.all()
    assert trace.faults() == []


def test_accesses_in_front_of_a_buffer_and_behind_it_keep_their_elements():
    x, out = np.zeros(8, F32), np.zeros(8, F32)
    trace = trace_cuda("around", grid=1, block=1, args=[x, out], source=UNUSUAL)
    assert trace.select(buffer="x").columns["element"].tolist() == [-1, -16384, 8, 16391]
    assert trace.stopped is None
