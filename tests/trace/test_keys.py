"""Groups of equal keys against numpy's own, and verdicts with and without the rows that nobody disputes."""

import numpy as np
import pytest

from kernels.trace import races as races_module
from kernels.trace.cuda_result import CudaTrace
from kernels.trace.keys import differs, group_numbers, has
from kernels.trace.model import ATOMIC, Recorder
from kernels.trace.places import Buffer, Launch

# Small ranges are counted; wide ones, with negative and far numbers, must be ranked first.
RANGES = [(0, 1), (0, 5), (-3, 4), (0, 100_000), (-(2**40), 2**40)]


@pytest.mark.parametrize("seed", range(20))
def test_groups_are_those_of_a_sort(seed):
    generator = np.random.default_rng(seed)
    count = int(generator.integers(1, 3000))
    chosen = generator.integers(0, len(RANGES), int(generator.integers(1, 6)))
    columns = [generator.integers(*RANGES[i], count) for i in chosen]
    columns[0] = columns[0].astype(np.int32 if chosen[0] < 4 else np.int64)
    repeated = generator.integers(0, count, count)  # so that groups have several rows
    columns = [column[repeated] for column in columns]

    number, total = group_numbers(columns)

    _, expected = np.unique(np.stack(columns, axis=1), axis=0, return_inverse=True)
    _, found = np.unique(number, return_inverse=True)
    np.testing.assert_array_equal(found, expected.reshape(-1))  # the same groups, in the same order
    assert 0 <= number.min() <= number.max() < total <= max(1 << 16, 8 * count)


def test_many_wide_columns_do_not_overflow():
    columns = list(np.random.default_rng(0).integers(-(2**40), 2**40, (6, 20_000)))  # 20000**6 is more than 2**63
    number, total = group_numbers(columns)
    assert total == 20_000
    assert (columns[0][np.argsort(number)] == np.sort(columns[0])).all()


def test_no_rows_have_no_groups():
    number, total = group_numbers([np.empty(0, np.int32)] * 2)
    assert (len(number), total) == (0, 0)
    assert len(differs(number, total, np.empty(0, np.int32))) == 0


def test_groups_in_which_somebody_differs_and_in_which_a_mask_holds():
    number, person = np.array([0, 2, 0, 2, 3, 3, 3]), np.array([7, 5, 7, 6, 1, 2, 1])
    assert differs(number, 4, person).tolist() == [False, False, True, True]
    assert has(number, 4, person > 6).tolist() == [True, False, False, False]


def random_trace(seed):
    generator = np.random.default_rng(seed)
    recorder = Recorder()
    launch = recorder.launch(Launch("k", (3, 1, 1), (64, 1, 1), "cuda", "k.cu", 1))
    buffers = [
        recorder.buffer(Buffer(name, 4, (12,), space=space)) for name, space in (("x", "global"), ("s", "shared"))
    ]
    sites = [recorder.site("k.cu", line) for line in (10, 11, 12)]
    rows = int(generator.integers(1, 60))
    # Every other trace: few writes, two threads on few elements, so that a read and its own check are often alone.
    kinds, threads, elements = ([0, 0, 0, 1, 2], 8, 12) if seed % 2 else ([0, 0, 2, 2], 2, 4)
    recorder.add(
        launch=launch,
        block=generator.integers(0, 3, rows),
        thread=generator.integers(0, threads, rows) * 8,
        what=generator.choice(kinds, rows),
        buffer=generator.choice(buffers, rows),
        element=generator.integers(0, elements, rows),
        size=4,
        site=generator.choice(sites, rows),
        interval=generator.integers(0, 2, rows),
        sequence=np.arange(rows),
    )
    return recorder.trace()


def with_compares(trace, seed):
    """The same trace, in which every other atomic is a compare-and-swap."""
    compares = (trace.columns["what"] == ATOMIC) & np.random.default_rng(seed).choice([True, False], len(trace))
    synced = np.zeros(len(trace), np.int32)
    parts = trace.launches, trace.buffers, trace.sites, trace.columns
    return CudaTrace(*parts, compares=compares, warp_intervals=synced)


def test_what_nobody_disputes_changes_no_verdict(monkeypatch):
    traces = [random_trace(seed) for seed in range(150)]
    quick = [trace.faults(()) for trace in traces]
    monkeypatch.setattr(races_module, "_disputed", lambda trace: trace)
    assert quick == [trace.faults(()) for trace in traces]
    kinds = {fault.kind for faults in quick for fault in faults}
    assert kinds == {"double-write", "read-write-overlap", "global-race", "shared-race"}
    assert any(not faults for faults in quick)


def test_groups_that_are_known_to_be_at_fault_are_those_that_rows_show(monkeypatch):
    traces = [random_trace(seed) for seed in range(150)]
    traces += [with_compares(trace, seed) for seed, trace in enumerate(traces)]
    quick = [trace.faults(()) for trace in traces]
    monkeypatch.setattr(races_module, "_known", lambda guilty, unknown: np.full(len(guilty), -1, np.int8))
    assert quick == [trace.faults(()) for trace in traces]


def test_rows_are_looked_at_for_the_pair_that_is_named_only(monkeypatch):
    recorder = Recorder()
    launch = recorder.launch(Launch("k", (2, 1, 1), (32, 1, 1), "cuda", "k.cu", 1))
    buffer, site = recorder.buffer(Buffer("out", 4, (5000,))), recorder.site("k.cu", 10)
    where = {"launch": launch, "buffer": buffer, "site": site, "size": 4, "thread": 0}
    for block in (0, 1):
        recorder.add(block=block, what=1, element=np.arange(5000), **where)
    looked = []
    two = races_module._two
    monkeypatch.setattr(races_module, "_two", lambda *given: looked.append(given) or two(*given))
    [fault] = recorder.trace().faults()
    assert (fault.kind, fault.count, fault.element) == ("double-write", 5000, 0)
    assert len(looked) == 1
