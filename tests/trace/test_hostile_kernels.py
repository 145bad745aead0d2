"""Kernels that harm their own stack, heap or neighbours end with a verdict of their own, and nothing else ends."""

from pathlib import Path

import numpy as np
import pytest

from kernels.trace.cuda import trace_cuda, why_not

pytestmark = pytest.mark.skipif(why_not() is not None, reason=str(why_not()))
SOURCE = Path(__file__).parent / "cuda_sources" / "hostile.cu"


@pytest.mark.parametrize(
    ("kernel", "threads", "kind", "words"),
    [
        ("into_the_next_array", 128, "out-of-bounds", "writes 4 bytes outside shared a, which has 512 bytes: 0 bytes"),
        ("frees_what_it_was_given", 1, "assertion", "the freed pointer came from malloc or new"),
        ("large_frame", 32, "stack-overflow", "ran out of stack"),
        ("new_without_end", 1, "out-of-memory", "asks for 4000 bytes more than the kernels' heap"),
    ],
)
def test_the_verdict_says_what_happened(kernel, threads, kind, words):
    trace = trace_cuda(
        kernel, grid=1, block=threads, args=[np.zeros(128, np.float32)], source=SOURCE, max_events=100_000
    )
    found = [fault for fault in trace.faults() if fault.kind != "unwritten"]
    assert [fault.kind for fault in found] == [kind]
    assert words in found[0].sentence


def test_a_grid_that_is_too_wide_is_refused_for_its_width():
    args = [np.zeros(128, np.float32)]
    trace = trace_cuda("frees_what_it_was_given", grid=2**31, block=1, args=args, source=SOURCE)
    assert "x of a grid goes up to 2147483647" in trace.faults()[0].sentence
