"""Steps of a block: who takes them together, in which order, and in how few numbers they are written."""

import numpy as np
import pytest

from kernels.figures.steps import Part, block_steps, has_threads, parts, thread_count
from kernels.trace import Buffer, Launch, Recorder
from kernels.trace.model import READ, WRITE


def recorded(rows, language="cuda", block=(64, 1, 1), blocks=1):
    """A trace of rows (thread, line, what, element, interval), in the order in which they were recorded."""
    recorder = Recorder()
    recorder.launch(Launch("k", (blocks, 1, 1), block, language))
    recorder.buffer(Buffer("x", 4, (4096,)))
    for thread, line, what, element, interval in rows:
        recorder.add(
            launch=0, block=0, thread=thread, what=what, buffer=0, element=element, size=4,
            site=recorder.site("k.cu", line), interval=interval,
        )  # fmt: skip
    return recorder.trace()


def unfolded(found):
    """What parts stand for, pair by pair."""
    return [
        (p.thread + i * p.d_thread + r * p.shift_thread, p.element + i * p.d_element + r * p.shift_element)
        for p in found
        for r in range(p.times)
        for i in range(p.count)
    ]


def test_threads_meet_at_their_nth_pass_through_a_line():
    rows = [(t, 5, READ, t + 64 * turn, 0) for t in (0, 1, 2) for turn in range(3 - t)]
    steps = block_steps(recorded(rows))
    assert [step.threads.tolist() for step in steps] == [[0, 1, 2], [0, 1], [0]]
    assert [step.elements.tolist() for step in steps] == [[0, 1, 2], [64, 65], [128]]


def test_the_order_is_every_threads_own_whatever_was_recorded_first():
    # Thread 0 goes round line 5 to line 6 and was recorded first; thread 1 shows that line 5 comes before line 6.
    rows = [(0, 6, WRITE, 0, 0), (1, 5, READ, 1, 0), (1, 6, WRITE, 1, 0)]
    assert [step.line for step in block_steps(recorded(rows))] == [5, 6]


def test_what_threads_leave_open_stands_as_it_was_recorded():
    rows = [(t, line, READ, t, 0) for t, line in ((0, 9), (0, 8), (1, 3), (1, 2), (2, 7), (2, 1))]
    assert [step.line for step in block_steps(recorded(rows))] == [9, 8, 3, 2, 7, 1]


def test_lines_in_opposite_orders_fall_back_on_the_record():
    rows = [(0, 5, READ, 0, 0), (0, 6, READ, 0, 0), (1, 6, READ, 1, 0), (1, 5, READ, 1, 0)]
    assert [step.line for step in block_steps(recorded(rows))] == [5, 6]


def test_a_barrier_parts_steps_of_one_line():
    rows = [(0, 5, READ, 0, 1), (1, 5, READ, 1, 0), (1, 5, READ, 1, 1)]
    assert [(s.interval, s.threads.tolist()) for s in block_steps(recorded(rows))] == [(0, [1]), (1, [0, 1])]


def test_barriers_and_exchanges_of_a_cuda_trace_are_steps():
    trace = recorded([(0, 5, READ, 0, 0), (1, 5, READ, 1, 0)])
    names = ("launch", "block", "thread", "interval", "what", "site", "sequence")
    made = [(0, 0, t, 0, 4, 0, 10 + i) for i in range(3) for t in (0, 1)] + [(0, 0, t, 0, 3, 0, 20) for t in (0, 1)]
    object.__setattr__(trace, "steps", {n: np.array(c) for n, c in zip(names, zip(*made, strict=True), strict=True)})
    steps = block_steps(trace)
    assert [(s.kind, s.times, s.threads.tolist()) for s in steps] == [
        ("read", 1, [0, 1]), ("exchange", 3, [0, 1]), ("barrier", 1, [0, 1]),
    ]  # fmt: skip


def test_a_triton_operation_is_one_step_with_or_without_threads():
    recorder = Recorder()
    recorder.launch(Launch("k", (1, 1, 1), None, "triton"))
    recorder.buffer(Buffer("x", 4, (100,)))
    site = recorder.site("k.py", 9)
    for thread in (-1, np.arange(128) // 4):
        recorder.add(
            launch=0, block=0, thread=thread, what=READ, buffer=0, element=np.arange(128), size=4, site=site,
            active=np.arange(128) < 100,
        )  # fmt: skip
    bare, with_threads = block_steps(recorder.trace())
    assert bare.threads.tolist() == list(range(128)) and bare.active.sum() == 100
    assert with_threads.threads.tolist() == (np.arange(128) // 4).tolist()
    assert not has_threads(recorder.trace())
    only = recorder.trace().rows(np.arange(128, 256))
    assert has_threads(only) and thread_count(only) == 32


def test_no_access_no_step():
    assert block_steps(recorded([])) == [] and not has_threads(recorded([]))


@pytest.mark.parametrize(
    ("threads", "elements", "count"),
    [
        (np.arange(256), np.arange(256) + 7, 1),
        (np.arange(8) * 32, np.arange(8), 1),
        (np.arange(256), np.arange(256) // 16 * 128 + 3, 1),  # a row of a matrix for each 16 threads
        (np.arange(256), np.arange(256) % 16, 1),
        (np.arange(96), np.r_[np.arange(32), np.arange(32) + 500, np.arange(32) + 32], 2),
        (np.array([5]), np.array([9]), 1),
        (np.arange(0), np.arange(0), 0),
    ],
)
def test_parts_are_few_and_stand_for_every_pair(threads, elements, count):
    found = parts(threads, elements)
    assert len(found) == count
    assert unfolded(found) == list(zip(threads.tolist(), elements.tolist(), strict=True))


def test_parts_of_anything_stand_for_every_pair():
    generator = np.random.default_rng(3)
    for _ in range(200):
        size = int(generator.integers(1, 60))
        threads, elements = generator.integers(0, 6, size), generator.integers(0, 4, size)
        assert unfolded(parts(threads, elements)) == list(zip(threads.tolist(), elements.tolist(), strict=True))


def test_parts_in_words():
    x = Buffer("x", 4, (4, 64))
    words = [p.words(x, "thread") for p in (Part(0, 1, 32, 64, 1), Part(0, 32, 8, 0, 1), Part(3, 0, 1, 65, 0))]
    assert words == [
        "threads 0–31 → x[1, 0]–x[1, 31]", "threads 0–224, every 32nd → x[0, 0]–x[0, 7]", "thread 3 → x[1, 1]",
    ]  # fmt: skip
    assert Part(0, 1, 4, 0, 64).words(x, "thread").endswith("x[0, 0]–x[3, 0], in steps of 64")
    repeated = Part(0, 1, 16, 0, 0, 4, 16, 64).words(x, "thread")
    assert repeated == "threads 0–15 → x[0, 0] (4 times, each 16 threads and 64 elements further)"
    assert Part(0, 1, 256, 0, 0).words(None, "thread") == "threads 0–255"
