"""Many variants of a kernel can be traced in one process: what a trace maps, it gives back."""

from pathlib import Path

import numpy as np
import pytest

from kernels.trace.cuda import trace_cuda_launcher, why_not

MAPS = Path("/proc/self/maps")
pytestmark = pytest.mark.skipif(bool(why_not()) or not MAPS.exists(), reason="Needs Linux and a C++ compiler.")


def mappings() -> int:
    return len(MAPS.read_text().splitlines())


def test_a_trace_leaves_no_stacks_behind():
    """A thousand stacks with a guard page each are two thousand mappings; Linux allows a process 65,530."""
    x, y = np.ones((2, 5), np.float32)
    before = mappings()
    for threads in (64, 128, 512):
        out = np.full(5, np.nan, np.float32)
        change = {"constexpr int kThreads = 256;": f"constexpr int kThreads = {threads};"}
        trace_cuda_launcher("launch_vector_add", [x, y, out, 5], replace=change)
        assert (out == 2).all()
    assert mappings() - before < 200
