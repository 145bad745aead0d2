"""Requests, sectors, wavefronts and bank conflicts: from a trace, and as the hardware counted them. Needs no GPU."""

import numpy as np
import pytest

from kernels.trace import gpu_record
from kernels.trace.counters import METRICS, derive
from kernels.trace.cuda import why_not
from kernels.trace.ground_truth import host_trace
from kernels.trace.model import READ, WRITE, Buffer, Launch, Recorder
from kernels.trace.requests import requests

traced = pytest.mark.skipif(why_not() is not None, reason=str(why_not()))
COUNTERS = gpu_record.counters()
counted_once = pytest.mark.skipif(
    COUNTERS is None, reason="No hardware counters are committed yet; on a GPU, run python scripts/gpu_counters.py."
)
PADDED = {"rows": 7, "columns": 33, "x_stride": 40, "out_stride": 36}
MIXED = {"rows": 5, "columns": 1028, "x_stride": 1029, "out_stride": 1028}
RAGGED = {"rows": 31, "columns": 33, "x_stride": 36, "out_stride": 36}


def one_by_one(trace):
    """The same numbers from the requests that pages show."""
    found = {}
    every = requests(trace)
    for name, what in (("load", "read"), ("store", "write")):
        far = [r for r in every if r.space == "global" and r.what == what]
        near = [r for r in every if r.space == "shared" and r.what == what]
        found[f"global_{name}_requests"] = len(far)
        found[f"global_{name}_sectors"] = sum(len(r.sectors) for r in far)
        found[f"shared_{name}_requests"] = len(near)
        found[f"shared_{name}_wavefronts"] = sum(r.wavefronts for r in near)
        found[f"shared_{name}_conflicts"] = sum(r.wavefronts - r.ideal_wavefronts for r in near)
    return found


@traced
@pytest.mark.parametrize(
    ("source", "kernel", "shape"),
    [
        ("cuda/kernels.cu", "vector_add", {"n": 257}),
        ("cuda/kernels.cu", "softmax_serial", PADDED),
        ("cuda/kernels.cu", "softmax_parallel", PADDED),
        ("cuda/kernels.cu", "softmax_online", MIXED),  # rows with 4-byte and rows with 16-byte accesses
        ("cuda/patterns.cu", "copy_columns", RAGGED),
        ("cuda/patterns.cu", "transpose_tile_32", RAGGED),
        ("cuda/patterns.cu", "transpose_tile_33", RAGGED),
    ],
)
def test_the_sums_are_those_of_the_requests_one_by_one(source, kernel, shape):
    trace = host_trace(source, kernel, shape)
    assert derive(trace) == one_by_one(trace)


def shared_reads(words, size=4):
    recorder = Recorder()
    recorder.launch(Launch("k", (1, 1, 1), (32, 1, 1), "cuda"))
    buffer = recorder.buffer(Buffer("tile", 4, (4096,), space="shared"))
    lanes = np.arange(32)
    recorder.add(launch=0, block=0, thread=lanes, what=READ, buffer=buffer, element=words(lanes), size=size,
                 site=recorder.site("k.cu", 1))  # fmt: skip
    found = derive(recorder.trace())
    return found["shared_load_requests"], found["shared_load_wavefronts"], found["shared_load_conflicts"]


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        (lambda lane: lane, (1, 1, 0)),
        (lambda lane: 0 * lane, (1, 1, 0)),  # one word for all: a broadcast
        (lambda lane: 2 * lane, (1, 2, 1)),
        (lambda lane: 32 * lane, (1, 32, 31)),
        (lambda lane: 33 * lane, (1, 1, 0)),
        (lambda lane: 32 * (lane // 8) + lane % 8, (1, 4, 3)),
    ],
)
def test_banks(words, expected):
    assert shared_reads(words) == expected


def test_nothing_is_all_zeros():
    recorder = Recorder()
    assert derive(recorder.trace()) == dict.fromkeys(METRICS, 0)
    recorder.launch(Launch("k", (1, 1, 1), (32, 1, 1), "cuda"))
    buffer = recorder.buffer(Buffer("x", 4, (64,)))
    recorder.add(launch=0, block=0, thread=np.arange(32), what=WRITE, buffer=buffer, element=np.arange(32) + 1, size=4,
                 site=recorder.site("k.cu", 1))  # fmt: skip
    assert derive(recorder.trace())["global_store_sectors"] == 5  # one element off the sector's edge


@counted_once
def test_counters_belong_to_todays_kernels():
    for case in COUNTERS.cases:
        assert gpu_record.stale(case.kernel, case.source, case.source_hash, "scripts/gpu_counters.py") is None


@counted_once
def test_the_recorded_instructions_add_up_to_what_the_hardware_counted():
    recorded = {record.kernel: record for record in gpu_record.records()}
    wrong = []
    for case in COUNTERS.cases:
        found = next(c for c in recorded[case.kernel].cases if c.shape == case.shape).by_instruction
        wrong += [
            f"{case.kernel} {case.shape}: {name} is {found[name]} from the accesses and {value} in hardware"
            for name, value in case.values.items()
            if value != found[name]
        ]
    assert wrong == []
