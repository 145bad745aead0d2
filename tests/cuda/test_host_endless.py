"""What never ends, recurses or allocates without end is stopped with a sentence, and the process goes on.

A test of something that is not stopped never ends: its limit in the project's settings ends it.
"""

from pathlib import Path

import numpy as np
import pytest

from kernels.trace.cuda import trace_cuda, trace_cuda_launcher, why_not

pytestmark = pytest.mark.skipif(why_not() is not None, reason=str(why_not()))
SOURCE = Path(__file__).parent / "host_sources" / "endless.cu"


@pytest.fixture(autouse=True)
def goes_on():
    """After what was stopped, a kernel runs as before."""
    yield
    out = np.zeros(1, np.int32)
    assert trace_cuda("one", grid=1, block=1, args=[out], source=SOURCE).faults() == [] and out[0] == 1


def line_of(text):
    (line,) = [n for n, line in enumerate(SOURCE.read_text().splitlines(), 1) if text in line]
    return line


@pytest.mark.parametrize(
    ("kernel", "more", "grid", "kind", "line", "words"),
    [
        ("spins", (), 1, "too-long", "while (one)", "was still running"),
        ("recurses", (), 1, "stack-overflow", "int deeper", "calls itself without end"),
        ("leaks", (2**31 - 1,), 1, "out-of-memory", "malloc(1000)", "asks for 1000 bytes more than the kernels' heap"),
        ("list", (2**31 - 1,), 1, "out-of-memory", "new Node", "asks for 16 bytes more"),
        ("mallocs_and_spins", (), 1, "too-long", "free(malloc(64))", "was still running"),
    ],
)
def test_a_kernel_is_stopped(kernel, more, grid, kind, line, words):
    out = np.zeros(4, np.int32)
    trace = trace_cuda(
        kernel, grid=grid, block=1, args=[out, *more], source=SOURCE, max_seconds=0.5, max_events=3_000_000
    )
    fault = trace.faults()[0]
    assert (fault.kind, fault.line) == (kind, line_of(line)) and words in fault.sentence
    assert out[0] == 0


def test_a_block_that_waits_for_a_later_one_is_stopped():
    trace = trace_cuda(
        "waits_for_another_block", grid=2, block=1, args=[np.zeros(1, np.int32)], source=SOURCE, max_events=100_000
    )
    assert trace.stopped.kind == "too-many-events" and trace.stopped.line == line_of("while (flag[0] == 0)")


def test_memory_that_is_given_back_can_be_had_again():
    out = np.zeros(2, np.int32)
    trace = trace_cuda("list", grid=1, block=2, args=[out, 1000], source=SOURCE)
    assert out.tolist() == [499500] * 2 and not trace.stopped
    assert {e.what for e in trace.select(buffer="allocation 0")} == {"read", "write"}


@pytest.mark.parametrize(
    ("launcher", "kind", "line", "words"),
    [
        ("allocates", "out-of-memory", "cudaMalloc(&memory, 1 << 20)", "it holds 128 allocations of 134217728 bytes"),
        ("allocates_too_much", "out-of-memory", "while (cudaMalloc", "128 allocations and 2 GB"),
        ("launches", "too-long", "for (;;) one<<<1, 1>>>(out)", "at launch number 251"),
        ("exits", "assertion", "exit(7)", "The launcher calls `exit(7)`"),
        ("exits_after_a_fault", "out-of-bounds", "void one(int* out)", "lies near no buffer"),
        ("launches_what_fails", "out-of-bounds", "void one(int* out)", "lies near no buffer"),
    ],
)
def test_a_launcher_is_given_up(launcher, kind, line, words):
    trace = trace_cuda_launcher(launcher, [np.zeros(1, np.int32)], source=SOURCE)
    assert (trace.stopped.kind, trace.stopped.line) == (kind, line_of(line))
    assert words in trace.stopped.sentence and trace.result != 0


def test_one_allocation_that_does_not_fit_is_an_error_and_no_verdict():
    trace = trace_cuda_launcher("asks_and_gives_up", [np.zeros(1, np.int32)], source=SOURCE)
    assert trace.result == 2 and not trace.stopped
