"""Views over whole traces: request tables, divergence, work a thread. On paper, at random, and on real kernels."""

from pathlib import Path

import numpy as np
import pytest
from pace import in_sorts

from kernels.figures.banks import passes
from kernels.trace import Buffer, Launch, Recorder
from kernels.trace.cuda import trace_cuda, why_not
from kernels.trace.model import ATOMIC, KINDS, READ, WRITE

SOURCE = Path(__file__).parent / "cuda_sources" / "views.cu"
cpp = pytest.mark.skipif(why_not() is not None, reason=str(why_not()))
SHARED = Buffer("s", 4, (4096,), space="shared")


def cuda(*buffers, blocks=2, threads=64, language="cuda"):
    recorder = Recorder()
    recorder.launch(Launch("k", (blocks, 1, 1), (threads, 1, 1), language))
    for buffer in buffers or (Buffer("x", 4, (4096,)),):
        recorder.buffer(buffer)
    return recorder, recorder.site("k.cu", 7)


def line_of(mark):
    lines = SOURCE.read_text().splitlines()
    return next(number for number, line in enumerate(lines, 1) if mark in line)


def requests_of(buffer, what=READ, size=4, elements=None, lanes=None):
    """The only request of 32 lanes (or those given) that touch the elements given."""
    recorder, site = cuda(buffer)
    lanes = np.arange(32) if lanes is None else lanes
    recorder.add(launch=0, block=0, thread=lanes, what=what, buffer=0, element=elements, size=size, site=site)
    trace = recorder.trace()
    (request,), table = trace.requests(), trace.request_table()
    for name in ("wavefronts", "ideal_wavefronts", "conflict_degree", "useful_bytes"):
        assert getattr(table, name).tolist() == [getattr(request, name)]
    return request


LANE = np.arange(32)


@pytest.mark.parametrize(
    ("size", "elements", "wavefronts", "ideal", "degree"),
    [
        (4, LANE, 1, 1, 1),  # one word of each bank
        (4, 0 * LANE, 1, 1, 1),  # one word for all: broadcast
        (4, LANE // 2, 1, 1, 1),  # pairs share a word
        (4, 2 * LANE, 2, 1, 2),
        (4, 32 * LANE, 32, 1, 32),  # a column of a tile without padding
        (4, 33 * LANE, 1, 1, 1),  # with padding
        (8, 2 * LANE, 2, 2, 1),  # doubles side by side: a pass for each half warp
        (8, 4 * LANE, 4, 2, 2),  # every second double: two words of a bank in each half
        (8, 32 * LANE, 32, 2, 16),
        (16, 4 * LANE, 4, 4, 1),  # float4 side by side: a pass for each quarter
        (16, 8 * LANE, 8, 4, 2),
        (16, 36 * LANE, 4, 4, 1),  # rows of 36 words: each quarter's eight lanes cover all banks
    ],
)
def test_banks_of_accesses_of_4_8_and_16_bytes(size, elements, wavefronts, ideal, degree):
    for what in (READ, WRITE):
        request = requests_of(SHARED, what, size, elements)
        assert (request.wavefronts, request.ideal_wavefronts, request.conflict_degree) == (wavefronts, ideal, degree)


@pytest.mark.parametrize(
    ("size", "elements", "reads", "writes"),
    [
        (8, 0 * LANE, 1, 2),  # one double for all lanes: the H200's counters say one pass
        (8, 2 * (LANE // 2), 1, 2),  # lanes 2i and 2i + 1 share
        (8, 2 * (LANE // 4 * 2 + LANE % 2), 1, 2),  # lanes i and i + 2 share
        (8, 64 * (LANE // 2), 16, 16),  # sharing does not help where one bank has every word
        (8, 2 * (LANE % 16), 2, 2),  # lanes i and i + 16 share: nothing is gained
        (8, 2 * (LANE // 2 + (LANE == 31)), 2, 2),  # all but one lane share
        (16, 4 * (LANE // 2), 2, 4),
        (16, 0 * LANE, 2, 4),
    ],
)
def test_wide_reads_that_lanes_share_in_pairs_need_half_the_passes(size, elements, reads, writes):
    read, write = (requests_of(SHARED, what, size, elements) for what in (READ, WRITE))
    assert (read.wavefronts, write.wavefronts) == (reads, writes)
    assert len(passes(read)) == reads and len(passes(write)) == writes


@pytest.mark.parametrize(("elements", "degree"), [(LANE, 1), (0 * LANE, 32), (LANE % 4, 8), (LANE // 2, 2)])
def test_atomics_on_one_word_take_turns(elements, degree):
    assert requests_of(SHARED, ATOMIC, 4, elements).conflict_degree == degree


def test_a_half_warp_of_doubles_needs_one_pass():
    request = requests_of(SHARED, READ, 8, 2 * LANE[:16], LANE[:16])
    assert (request.wavefronts, request.ideal_wavefronts) == (1, 1)


def test_a_request_table_says_what_the_requests_say():
    random = np.random.default_rng(7)
    buffers = Buffer("x", 4, (4096,), address=12), Buffer("h", 2, (4096,)), SHARED
    for language in ("cuda", "triton"):
        recorder, _ = cuda(*buffers, blocks=3, threads=70, language=language)
        sites = np.array([recorder.site("k.cu", line) for line in (7, 8, 9)])
        for _ in range(150):
            count = random.integers(1, 50)
            recorder.add(
                launch=0,
                block=random.integers(3),
                thread=random.choice([random.permutation(70)[:count], np.full(count, -1)]),
                what=random.integers(3),
                buffer=(buffer := random.integers(3)),
                element=random.integers(0, random.choice([8, 100, 4000]), count),
                size=random.choice([2, 4, 8, 16]) if buffer == 1 else random.choice([4, 8, 16]),
                site=random.choice(sites),
                active=random.random(count) < 0.8,
            )
        trace = recorder.trace()
        requests, table = trace.requests(), trace.request_table()
        assert len(table) == len(requests) > 100
        told = [
            (r.launch, r.block, r.warp, r.what, r.buffer, r.line, r.interval, r.size, len(r.lanes), len(r.sectors),
             r.useful_bytes, r.sector_bytes, r.efficiency, r.wavefronts, r.ideal_wavefronts, r.conflict_degree)
            for r in requests
        ]  # fmt: skip
        names = ("launch", "block", "warp", "kind", "buffer", "site", "interval", "size", "lanes", "sectors")
        names += ("useful_bytes", "sector_bytes", "efficiency", "wavefronts", "ideal_wavefronts", "conflict_degree")
        found = [list(line) for line in zip(*(getattr(table, name).tolist() for name in names), strict=True)]
        for line in found:
            line[3:6] = KINDS[line[3]], buffers[line[4]].name, trace.sites[line[5]][1]
        assert [tuple(line) for line in found] == told


def test_a_request_table_sums_over_lines():
    recorder, site = cuda()
    for block in (0, 1):
        for step in (1, 8):  # side by side, then a sector for each lane
            recorder.add(
                launch=0, block=block, thread=LANE, what=READ, buffer=0, element=step * LANE, size=4, site=site
            )
    recorder.add(launch=0, block=0, thread=LANE, what=WRITE, buffer=0, element=0, size=4, site=recorder.site("k.cu", 9))
    read, write = recorder.trace().request_table().by_line()
    assert (read["line"], read["what"], read["requests"], read["lanes"], read["bytes"]) == (7, "read", 4, 128, 512)
    assert (read["useful_bytes"], read["sectors"], read["sector_bytes"]) == (512, 72, 72 * 32)
    assert read["efficiency"] == pytest.approx(512 / (72 * 32))
    assert (write["line"], write["lanes"], write["bytes"], write["useful_bytes"], write["sectors"]) == (
        9,
        32,
        128,
        4,
        1,
    )


def test_lanes_of_a_triton_instruction_belong_together_also_after_one_that_a_mask_switched_off():
    recorder, site = cuda(language="triton")
    for active in ([False, True], [True, True]):
        recorder.add(
            launch=0, block=0, thread=[0, 1], what=READ, buffer=0, element=[0, 1], size=4, site=site, active=active
        )
    assert [request.lanes for request in recorder.trace().requests()] == [(1,), (0, 1)]


def test_overlapping_accesses_count_their_bytes_once():
    request = requests_of(Buffer("x", 4, (64,)), READ, 16, np.array([0, 1, 2, 10]), LANE[:4])
    assert request.useful_bytes == 24 + 16


def test_tables_of_nothing_are_empty():
    recorder, _ = cuda()
    trace = recorder.trace()
    assert len(trace.request_table()) == 0 and trace.request_table().by_line() == []
    assert len(trace.divergence()) == 0 and trace.divergence().by_line() == []
    assert trace.thread_counts("read").tolist() == [[0] * 64] * 2


@cpp
def test_two_sides_of_a_branch():
    x, out = np.ones(40, np.float32), np.zeros(40, np.float32)
    found = trace_cuda("two_sides", grid=1, block=40, args=[x, out], source=SOURCE).divergence()
    fourths, others = (found.select(found.site == site) for site in np.unique(found.site))
    assert [found.trace.sites[s][1] for s in np.unique(found.site)] == [line_of("FOURTHS"), line_of("OTHERS")]
    assert fourths.warp.tolist() == [0, 1] and fourths.idle.all() and not fourths.uneven.any()
    assert fourths.passes[0].tolist() == [1, 0, 0, 0] * 8
    assert fourths.lanes[1].tolist() == [True] * 8 + [False] * 24  # a block of 40: the second warp has eight lanes
    assert fourths.efficiency.tolist() == [8 / 32, 2 / 32] and others.efficiency.tolist() == [24 / 32, 6 / 32]
    first, second = found.by_line()
    assert (first["warps"], first["idle"], first["lane_passes"], first["warp_passes"]) == (2, 2, 10, 2)
    assert first["efficiency"] == 10 / 64 and second["lane_passes"] == 30


@cpp
def test_lanes_that_take_different_numbers_of_passes():
    x, out = np.ones(100, np.float32), np.zeros(64, np.float32)
    trace = trace_cuda("strided_sum", grid=1, block=64, args=[x, out, 100], source=SOURCE)
    loop = trace.divergence(line=line_of("LOOP"))
    assert loop.warp.tolist() == [0, 1] and loop.passes[0].tolist() == [2] * 32
    assert loop.passes[1].tolist() == [2] * 4 + [1] * 28  # elements 96–99 are a second pass of the second warp
    assert loop.uneven.tolist() == [False, True] and not loop.idle.any()
    assert loop.efficiency.tolist() == [1.0, 36 / 64]
    written = trace.divergence(what="write")
    assert len(written) and not written.idle.any() and not written.uneven.any()
    assert trace.thread_counts("read").tolist() == [[2] * 36 + [1] * 28]
    assert trace.thread_counts("write", "out", unit="bytes").tolist() == [[4] * 64]


@cpp
def test_blocks_and_grids_of_three_dimensions():
    out = np.full(2 * 3 * 2 * 60, -1, np.int32)
    trace = trace_cuda("number_threads", grid=(2, 3, 2), block=(5, 4, 3), args=[out], source=SOURCE)
    assert out.tolist() == list(range(60)) * 12
    assert trace.columns["thread"].tolist() == trace.columns["element"].__mod__(60).tolist()
    assert trace.owners("out").tolist() == [block for block in range(12) for _ in range(60)]
    event = next(e for e in trace if e.block == 9 and e.thread == 37)
    assert (event.block_id, event.warp, event.lane) == ((1, 1, 1), 1, 5)
    assert trace.owners("out", by="warp")[:60].tolist() == [0] * 32 + [1] * 28
    assert trace.divergence().lanes[1].tolist() == [True] * 28 + [False] * 4
    assert trace.thread_counts("write").shape == (12, 60) and trace.thread_counts("write").all()
    assert {len(r.lanes) for r in trace.requests()} == {32, 28}


@cpp
def test_banks_of_a_kernel():
    out = np.zeros(32, np.float32)
    for stride, degree in ((32, 32), (33, 1)):
        trace = trace_cuda("banks", grid=1, block=32, args=[out, stride], source=SOURCE)
        by_line = {}
        for row in trace.request_table(space="shared").by_line():
            by_line[row["line"], row["what"]] = (row["wavefronts"], row["ideal_wavefronts"], row["conflict_degree"])
        assert by_line[line_of("COLUMN"), "read"] == (degree, 1, degree)
        assert by_line[line_of("BROADCAST"), "read"] == (1, 1, 1)
        assert by_line[line_of("PAIRS"), "write"] == (2, 2, 1)
        assert by_line[line_of("QUADS"), "write"] == (4, 4, 1)
        assert by_line[line_of("ATOMIC"), "atomic"] == (8, 1, 8)


def test_a_thread_reads_elements_bytes_and_accesses():
    recorder, site = cuda(blocks=1)
    recorder.add(launch=0, block=0, thread=[3, 3, 5], what=READ, buffer=0, element=[0, 4, 9], size=16, site=site)
    trace = recorder.trace()
    counted = [trace.thread_counts("read", "x", unit=unit)[0, [3, 4, 5]].tolist() for unit in
               ("accesses", "elements", "bytes")]  # fmt: skip
    assert counted == [[2, 0, 1], [8, 0, 4], [32, 0, 16]]


def test_names_that_a_view_does_not_know_are_refused():
    recorder, _ = cuda()
    trace = recorder.trace()
    with pytest.raises(ValueError, match="what='reads' is no kind of access"):
        trace.thread_counts("reads")
    with pytest.raises(ValueError, match="unit='lines' is unknown"):
        trace.thread_counts("read", unit="lines")
    recorder.launch(Launch("t", (1, 1, 1)))
    with pytest.raises(ValueError, match="does not show the threads of t: it is a Triton kernel"):
        recorder.trace().thread_counts("read", launch=1)


def test_views_of_a_million_rows_are_quick():
    recorder, site = cuda(Buffer("out", 4, (4096 * 256,)), blocks=4096, threads=256)
    at = np.arange(4096 * 256)
    recorder.add(
        launch=0, block=at // 256, thread=at % 256, what=WRITE, buffer=0, element=at, size=4, site=site, sequence=at
    )
    trace = recorder.trace()
    for view in (
        lambda: trace.request_table().by_line(),  # 27 sorts here
        lambda: trace.divergence().by_line(),  # 5
        lambda: trace.thread_counts("write"),  # 1
    ):
        assert len(view()) > 0
        assert in_sorts(view) < 130
