"""What a launcher sets by cudaMemset has a value, though no thread wrote it."""

import numpy as np
import pytest

from kernels.trace.cuda import trace_cuda_launcher, why_not

pytestmark = pytest.mark.skipif(why_not() is not None, reason=str(why_not()))
X = np.array([0, 0, 2, 7, -1], np.int32)


def trace(**more):
    out = np.full(4, 2**64 - 1, np.uint64)
    traced = trace_cuda_launcher("launch_histogram_plain", [X, out, X.size, 4, 1], source="cuda/histogram.cu", **more)
    return traced, out


def test_zeros_that_the_host_set_are_not_missing():
    traced, out = trace()
    assert out.tolist() == [2, 0, 1, 0]
    assert traced.faults() == []
    assert traced.filled["out"].all()


def test_a_memset_that_is_too_short_leaves_the_rest_unwritten():
    whole = "static_cast<size_t>(bins) * sizeof(unsigned long long), stream"
    traced, _ = trace(replace={whole: "static_cast<size_t>(bins) * 6 + 3, stream"})  # 27 bytes: three whole counts
    assert [fault.kind for fault in traced.faults()] == ["unwritten"]
    assert "out[3] is never written" in str(traced.faults()[0])
    assert traced.filled["out"].tolist() == [True, True, True, False]


def test_nothing_is_left_from_the_launch_before():
    trace()
    out = np.full(4, 7, np.uint64)
    refused = trace_cuda_launcher("launch_histogram_plain", [X, out, X.size, 4, 0], source="cuda/histogram.cu")
    assert refused.result != 0 and refused.filled == {} and out.tolist() == [7] * 4
