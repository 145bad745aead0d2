"""The trace model on rows written by hand, where the right answer is countable on paper."""

import numpy as np
import pytest

from kernels.trace import Buffer, Launch, Recorder
from kernels.trace.faults import spans
from kernels.trace.model import ATOMIC, READ, WRITE


def cuda(blocks=2, threads=64, *buffers):
    """A recorder with one CUDA launch."""
    recorder = Recorder()
    recorder.launch(Launch("k", (blocks, 1, 1), (threads, 1, 1), "cuda"))
    for buffer in buffers or (Buffer("x", 4, (128,)), Buffer("out", 4, (128,))):
        recorder.buffer(buffer)
    return recorder, recorder.site("k.cu", 7)


def one(faults):
    assert len(faults) == 1, [str(fault) for fault in faults]
    return faults[0]


def test_a_row_tells_who_what_where_when():
    recorder, site = cuda()
    recorder.add(launch=0, block=1, thread=[66], what=READ, buffer=0, element=5, size=4, site=site, interval=3)
    event = recorder.trace()[0]
    assert (event.block_id, event.thread, event.warp, event.lane) == ((1, 0, 0), 66, 2, 2)
    assert (event.what, event.buffer, event.element, event.interval) == ("read", "x", 5, 3)
    assert (event.file, event.line) == ("k.cu", 7)


def test_block_ids_count_x_fastest():
    launch = Launch("k", (3, 2, 2))
    assert [launch.block_id(i) for i in (0, 1, 3, 11)] == [(0, 0, 0), (1, 0, 0), (0, 1, 0), (2, 1, 1)]
    assert launch.who(4) == "program (1, 1, 0)"


def test_owners_readers_and_counts():
    recorder, site = cuda()
    t = np.arange(64)
    for block in (0, 1):
        at = block * 64 + t
        recorder.add(launch=0, block=block, thread=t, what=READ, buffer=0, element=at, size=4, site=site)
        recorder.add(launch=0, block=block, thread=t, what=WRITE, buffer=1, element=at, size=4, site=site)
    recorder.add(launch=0, block=1, thread=0, what=READ, buffer=0, element=3, size=4, site=site)
    trace = recorder.trace()
    assert trace.owners("out").tolist() == [0] * 64 + [1] * 64
    assert trace.owners("out", by="warp")[[0, 31, 32, 127]].tolist() == [0, 0, 1, 1]
    assert trace.readers("x")[2:4] == [(0,), (0, 1)]
    assert trace.counts("x", "read")[3] == 2
    assert trace.programs()[1] == {
        "block": 1,
        "block_id": (1, 0, 0),
        "reads": 65,
        "writes": 64,
        "atomics": 0,
        "masked": 0,
    }
    assert trace.faults() == []


def test_a_vector_access_covers_all_its_elements():
    recorder, site = cuda(1, 32, Buffer("out", 4, (130,)))
    t = np.arange(32)
    recorder.add(launch=0, block=0, thread=t, what=WRITE, buffer=0, element=4 * t, size=16, site=site)
    trace = recorder.trace()
    assert len(trace) == 32 and len(trace.expanded()) == 128
    assert trace.owners("out", by="thread")[[0, 3, 4, 127, 128]].tolist() == [0, 0, 1, 31, -1]
    fault = one(trace.faults())
    assert (fault.kind, fault.element, fault.count) == ("unwritten", 128, 2)


def test_a_strided_view_maps_elements_to_indices_and_knows_its_padding():
    view = Buffer("x", 4, (2, 3), (5, 1))
    assert (view.count, view.extent) == (6, 8)
    assert view.index(6) == (1, 1) and view.index(3) is None and view.index(-1) is None
    assert view.text(6) == "x[1, 1]"
    assert view.holds(np.array([-1, 2, 3, 5, 7, 8])).tolist() == [False, True, False, True, True, False]


def test_reading_the_padding_is_out_of_bounds():
    recorder, site = cuda(1, 32, Buffer("x", 4, (2, 3), (5, 1)))
    recorder.add(launch=0, block=0, thread=0, what=READ, buffer=0, element=[2, 3], size=4, site=site)
    fault = one(recorder.trace().faults())
    assert (fault.kind, fault.element) == ("out-of-bounds", 3)
    assert "reads item 3 of x (shape (2, 3), strides (5, 1)), which is out of bounds" in fault.sentence
    assert "it is padding, behind x[0, 2]" in fault.sentence


def test_items_of_a_view_whose_indices_overlap_are_not_taken_for_indices():
    recorder, site = cuda(1, 32, Buffer("x", 4, (4,), (0,)))
    recorder.add(launch=0, block=0, thread=0, what=READ, buffer=0, element=[0, 1], size=4, site=site)
    fault = one(recorder.trace().faults())
    assert (fault.kind, fault.element) == ("out-of-bounds", 1)
    assert "item 1 of x (shape (4,), strides (0,)), which is out of bounds: the view's 4 indices" in fault.sentence
    assert "share 1 item, and the last one is item 0" in fault.sentence and "x[" not in fault.sentence
    spaced = Buffer("x", 4, (4,), (2,))  # items 0, 2, 4 and 6
    recorder, site = cuda(1, 32, spaced)
    recorder.add(launch=0, block=0, thread=0, what=READ, buffer=0, element=1, size=4, site=site)
    assert "item 1 of x (shape (4,), strides (2,))" in one(recorder.trace().faults()).sentence


@pytest.mark.parametrize(
    ("shape", "strides", "overlaps", "held"),
    [
        ((2, 2), (0, 3), True, [0, 3]),  # four indices in four items, two of them padding
        ((3, 2), (1, 1), True, [0, 1, 2, 3]),
        ((2, 3), (3, 1), False, [0, 1, 2, 3, 4, 5]),
        ((2, 2), (3, 2), False, [0, 2, 3, 5]),  # interleaved
        ((1, 4), (0, 1), False, [0, 1, 2, 3]),
        ((0, 4), (0, 0), False, []),
    ],
)
def test_a_view_knows_whether_its_indices_overlap_and_which_items_it_has(shape, strides, overlaps, held):
    view = Buffer("x", 4, shape, strides)
    assert view.overlaps is overlaps
    assert np.flatnonzero(view.holds(np.arange(8))).tolist() == held


def test_the_element_nearest_to_the_buffer_is_named_and_who_touched_it_first():
    for elements, named in (([130, 129, 500], 129), ([-7, -1, -3], -1), ([-1, 128], 128)):
        recorder, site = cuda()
        recorder.add(launch=0, block=1, what=READ, buffer=0, element=elements, size=4, site=site)
        recorder.add(launch=0, block=0, what=READ, buffer=0, element=elements, size=4, site=site)
        fault = one(recorder.trace().faults())
        assert (fault.element, fault.who) == (named, "block 1")


@pytest.mark.parametrize(("element", "words"), [(128, "last element is x[127]"), (-1, "first element is x[0]")])
def test_out_of_bounds_names_thread_line_and_cause(element, words):
    recorder, site = cuda()
    recorder.add(launch=0, block=1, thread=40, what=READ, buffer=0, element=element, size=4, site=site)
    fault = one(recorder.trace().faults())
    assert (fault.kind, fault.element, fault.line) == ("out-of-bounds", element, 7)
    assert "Block 1, thread 40 (warp 1, lane 8) reads" in fault.sentence and words in fault.sentence
    assert "k.cu:7" in fault.sentence and fault.cause in fault.sentence


def test_double_write_across_blocks_and_within_an_interval():
    recorder, site = cuda()
    recorder.add(launch=0, block=[0, 1], thread=0, what=WRITE, buffer=1, element=9, size=4, site=site)
    recorder.add(launch=0, block=0, thread=[1, 2], what=WRITE, buffer=0, element=4, size=4, site=site)
    recorder.add(launch=0, block=0, thread=[1, 2], interval=[0, 1], what=WRITE, buffer=0, element=5, size=4, site=site)
    doubles = [fault for fault in recorder.trace().faults(outputs=[]) if fault.kind == "double-write"]
    assert [(fault.buffer, fault.element, fault.count) for fault in doubles] == [("out", 9, 1), ("x", 4, 1)]
    assert "block 0" in doubles[0].sentence and "block 1" in doubles[0].sentence


def test_atomics_and_separate_launches_are_no_double_write():
    recorder, site = cuda()
    recorder.launch(Launch("k", (1, 1, 1), (64, 1, 1), "cuda"))
    recorder.add(launch=0, block=[0, 1], thread=0, what=ATOMIC, buffer=1, element=9, size=4, site=site)
    recorder.add(launch=[0, 1], block=[1, 0], thread=0, what=WRITE, buffer=1, element=3, size=4, site=site)
    assert recorder.trace().faults(outputs=[]) == []


def test_reading_what_another_block_writes():
    recorder, site = cuda()
    recorder.add(launch=0, block=0, thread=0, what=WRITE, buffer=0, element=[4, 5], size=4, site=site)
    recorder.add(launch=0, block=0, thread=0, what=READ, buffer=0, element=4, size=4, site=site)
    assert recorder.trace().faults(outputs=[]) == []
    recorder.add(launch=0, block=1, thread=3, what=READ, buffer=0, element=5, size=4, site=recorder.site("k.cu", 9))
    fault = one(recorder.trace().faults(outputs=[]))
    assert (fault.kind, fault.element, fault.line) == ("read-write-overlap", 5, 9)


def test_the_writer_who_reads_its_own_element_is_not_the_one_accused():
    recorder, site = cuda()
    for block, what in ((0, READ), (0, WRITE), (1, READ)):
        recorder.add(launch=0, block=block, thread=0, what=what, buffer=0, element=5, size=4, site=site)
    assert one(recorder.trace().faults(outputs=[])).sentence.startswith("x[5] is read by block 1, thread 0")


def test_shared_race_needs_a_missing_barrier():
    shared = Buffer("partial", 4, (8,), space="shared")
    for interval, count in ((0, 1), (1, 0)):
        recorder, site = cuda(1, 64, shared)
        recorder.add(launch=0, block=0, thread=[0, 32], what=WRITE, buffer=0, element=[0, 1], size=4, site=site)
        recorder.add(
            launch=0, block=0, thread=5, what=READ, buffer=0, element=[0, 1], size=4, site=site, interval=interval
        )
        found = recorder.trace().faults()
        assert [fault.kind for fault in found] == ["shared-race"] * count
    recorder, site = cuda(1, 64, shared)
    recorder.add(launch=0, block=0, thread=[0, 1], what=READ, buffer=0, element=0, size=4, site=site)
    assert recorder.trace().faults() == []


def test_an_output_that_nobody_writes_is_a_fault_only_where_it_is_named():
    recorder, site = cuda()
    recorder.add(launch=0, block=0, thread=0, what=READ, buffer=0, element=0, size=4, site=site)
    trace = recorder.trace()
    assert trace.faults() == []
    assert one(trace.faults(outputs=["out"])).count == 128


def test_sectors_of_a_warp():
    recorder, site = cuda(1, 32, Buffer("x", 4, (2000,)))
    lane = np.arange(32)
    for element in (lane, lane + 1, 8 * lane, 0 * lane):
        recorder.add(launch=0, block=0, thread=lane, what=READ, buffer=0, element=element, size=4, site=site)
    got = [(len(r.sectors), r.useful_bytes, r.efficiency) for r in recorder.trace().requests()]
    assert got == [(4, 128, 1.0), (5, 128, 0.8), (32, 128, 0.125), (1, 4, 0.125)]


def test_an_access_that_straddles_two_sectors_moves_both():
    recorder, site = cuda(1, 32, Buffer("x", 4, (64,)))
    recorder.add(launch=0, block=0, thread=0, what=READ, buffer=0, element=6, size=16, site=site)
    request = recorder.trace().requests()[0]
    assert (request.sectors, request.useful_bytes, request.sector_bytes) == ((0, 1), 16, 64)


def test_an_element_that_is_masked_off_costs_nothing():
    recorder, site = cuda(1, 64, Buffer("x", 4, (64,)))
    recorder.add(launch=0, block=0, what=READ, buffer=0, element=[0, 8, 16], active=[1, 0, 1], size=4, site=site)
    assert recorder.trace().requests()[0].sectors == (0, 2)


def test_requests_split_by_warp_and_by_turn():
    recorder, site = cuda(2, 64, Buffer("x", 4, (257,)))
    sequence = iter(range(10_000))
    for block in (0, 1):  # one thread after the other, as a traced CPU build runs them
        for thread in range(64):
            for turn in range(2 if thread < 40 else 1):
                element = turn * 128 + block * 64 + thread
                recorder.add(
                    launch=0,
                    block=block,
                    thread=thread,
                    what=READ,
                    buffer=0,
                    element=element,
                    size=4,
                    site=site,
                    sequence=next(sequence),
                )
    got = [(r.block, r.warp, len(r.lanes), r.elements[0]) for r in recorder.trace().requests()]
    assert sorted(got) == [
        (0, 0, 32, 0), (0, 0, 32, 128), (0, 1, 8, 160), (0, 1, 32, 32),
        (1, 0, 32, 64), (1, 0, 32, 192), (1, 1, 8, 224), (1, 1, 32, 96),
    ]  # fmt: skip


@pytest.mark.parametrize(("pitch", "degree"), [(32, 32), (33, 1), (2, 2), (1, 1), (0, 1)])
def test_bank_conflicts_of_a_column(pitch, degree):
    recorder, site = cuda(1, 32, Buffer("tile", 4, (32 * 33,), space="shared"))
    lane = np.arange(32)
    recorder.add(launch=0, block=0, thread=lane, what=READ, buffer=0, element=pitch * lane, size=4, site=site)
    trace = recorder.trace()
    assert trace.requests()[0].conflict_degree == degree
    assert len(trace.bank_conflicts()) == (degree > 1)


def test_a_float4_from_shared_memory_takes_four_wavefronts_without_conflict():
    recorder, site = cuda(1, 32, Buffer("tile", 4, (128,), space="shared"))
    lane = np.arange(32)
    recorder.add(launch=0, block=0, thread=lane, what=READ, buffer=0, element=4 * lane, size=16, site=site)
    request = recorder.trace().requests()[0]
    assert (request.wavefronts, request.ideal_wavefronts, request.conflict_degree) == (4, 4, 1)
    assert recorder.trace().bank_conflicts() == []


def test_timeline_counts_threads_per_warp_and_interval():
    recorder, site = cuda(1, 64, Buffer("s", 4, (64,), space="shared"))
    t = np.arange(64)
    recorder.add(launch=0, block=0, thread=t, what=WRITE, buffer=0, element=t, size=4, site=site)
    recorder.add(launch=0, block=0, thread=t[:8], what=READ, buffer=0, element=t[:8], size=4, site=site, interval=1)
    cells = [(c["warp"], c["interval"], c["reads"], c["writes"]) for c in recorder.trace().timeline()]
    assert cells == [(0, 0, 0, 32), (0, 1, 8, 0), (1, 0, 0, 32)]


def test_masked_elements_are_kept_and_not_counted_as_touched():
    recorder, site = cuda(1, 64, Buffer("x", 4, (3,)))
    recorder.add(launch=0, block=0, what=READ, buffer=0, element=[0, 1, 2, 3], active=[1, 1, 1, 0], size=4, site=site)
    trace = recorder.trace()
    assert trace.masked("x") == {3: 0} and trace.faults() == []
    assert trace.programs()[0]["masked"] == 1 and trace.programs()[0]["reads"] == 3


def test_an_empty_trace_has_empty_views():
    recorder, _ = cuda()
    trace = recorder.trace()
    assert len(trace) == 0 and trace.requests() == [] and trace.faults() == [] and trace.timeline() == []
    assert set(trace.owners("out").tolist()) == {-1}


def test_names_are_checked():
    recorder, _ = cuda()
    with pytest.raises(KeyError, match="it has: x, out"):
        recorder.trace().owners("y")
    with pytest.raises(ValueError, match="two buffers are called 'x'"):
        recorder.buffer(Buffer("x", 4, (1,)))
    with pytest.raises(ValueError, match='"warp"'):
        recorder.trace().owners("x", by="lane")


def test_spans_join_runs():
    assert spans([9, 7, 8, 3]) == "3, 7–9"
    assert spans([1, 3, 5, 7, 9]) == "1, 3, 5 and 2 more places"
    assert spans([]) == ""


def test_a_million_rows_are_judged_quickly():
    recorder, site = cuda(4096, 256, Buffer("out", 4, (4096 * 256,)))
    at = np.arange(4096 * 256)
    recorder.add(
        launch=0, block=at // 256, thread=at % 256, what=WRITE, buffer=0, element=at, size=4, site=site, sequence=at
    )
    assert recorder.trace().faults() == []
