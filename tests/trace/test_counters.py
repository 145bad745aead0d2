"""Requests, sectors, wavefronts and bank conflicts: from a trace, and as the hardware counted them. Needs no GPU."""

from functools import cache

import numpy as np
import pytest
from gpu_play import launchers, shapes_of
from msgspec.structs import replace

from kernels.trace import gpu_record
from kernels.trace.counters import (
    BY_INSTRUCTION,
    COUNTER_DIFFERENCES,
    METRICS,
    CounterDifference,
    apart,
    derive,
    unlisted,
)
from kernels.trace.cuda import why_not
from kernels.trace.gpu_record import RecordError, find_case, find_counters
from kernels.trace.ground_truth import compare_all, host_trace
from kernels.trace.model import READ, WRITE, Buffer, Launch, Recorder
from kernels.trace.requests import requests

traced = pytest.mark.skipif(why_not() is not None, reason=str(why_not()))
RECORDS = {record.kernel: record for record in gpu_record.records()}
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


# ---- the committed counters -----------------------------------------------------------------------------------------

COUNTED = gpu_record.counters()
EVERY = [(kernel, shape) for kernel in sorted(launchers()) for shape in shapes_of(kernel)]


@cache
def disagreements():
    """Where the source's trace and the hardware's counters disagree, over every kernel and shape."""
    launches = compare_all()
    assert [(launch.kernel, launch.shape) for launch in launches] == EVERY
    return [one for launch in launches for one in launch.apart]


def test_every_kernel_and_shape_was_counted_with_todays_counters():
    assert COUNTED.metrics == METRICS
    cases = sorted((case.kernel, list(case.shape.values())) for case in COUNTED.cases)
    assert cases == sorted((kernel, list(shape.values())) for kernel, shape in EVERY)


def test_counters_belong_to_todays_kernels():
    for kernel, shape in EVERY:
        find_counters(COUNTED, kernel, shape)
    with pytest.raises(RecordError, match=r"record of vector_add for n 258; .* run: python scripts/gpu_counters.py"):
        find_counters(COUNTED, "vector_add", {"n": 258})
    changed = replace(COUNTED, cases=[replace(case, source_hash="0" * 16) for case in COUNTED.cases])
    with pytest.raises(RecordError, match=r"has changed since a GPU ran it; .* run: python scripts/gpu_counters.py"):
        find_counters(changed, "vector_add", {"n": 257})


def test_vector_add_on_257_elements_is_what_was_known_before():
    case = next(case for case in COUNTED.cases if case.shape == {"n": 257})
    assert (case.values["global_load_requests"], case.values["global_load_sectors"]) == (18, 66)


@traced
@pytest.mark.parametrize("kernel", sorted(launchers()))
def test_the_trace_gives_what_the_hardware_counted(kernel):
    listed = [line for line in COUNTER_DIFFERENCES if line.kernel == kernel]
    assert unlisted([one for one in disagreements() if one.kernel == kernel], listed) == []


def test_each_listed_counter_is_of_a_kernel_that_there_is():
    assert {line.kernel for line in COUNTER_DIFFERENCES} <= set(launchers())


@pytest.mark.parametrize(("kernel", "shape"), EVERY, ids=lambda value: value if isinstance(value, str) else "")
def test_lanes_grouped_as_the_compiled_code_groups_them_leave_no_difference(kernel, shape):
    """The reason that the table gives, held against the instructions at which the GPU's lanes really were."""
    grouped = find_case(RECORDS, kernel, shape).by_instruction
    counted = find_counters(COUNTED, kernel, shape).values
    assert grouped == {name: counted[name] for name in BY_INSTRUCTION}


def test_what_is_not_listed_fails_and_so_does_a_line_that_nothing_needs():
    shape = {"rows": 7, "columns": 33, "x_stride": 40, "out_stride": 36}
    traced = dict.fromkeys(METRICS, 4)
    (found,) = apart("k", shape, traced, traced | {"global_load_sectors": 5})
    assert str(found) == (
        "k, rows 7, columns 33, x_stride 40, out_stride 36: global_load_sectors is 5 in hardware, and 4 from the trace"
    )
    line = CounterDifference("k", 33, ("global_load_sectors",), "because")
    assert unlisted([found], [line]) == []
    assert unlisted([found], []) == [str(found)]
    (other,) = apart("k", shape | {"columns": 34}, traced, traced | {"global_load_sectors": 5})
    unused = "the listed difference of global_load_sectors for k on 33 columns does not occur; remove it"
    assert unlisted([other], [line]) == [str(other), unused]
    (absent,) = apart("k", shape, traced, traced | {"global_load_sectors": None})
    assert unlisted([absent], [line]) == [str(absent)] and "was not counted" in str(absent)  # no excuse for that
