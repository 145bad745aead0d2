"""CUDA: an atomic of one block beside a plain access of another is a race; a guess that is checked later is none."""

from pathlib import Path

import numpy as np
import pytest

from kernels.trace.cuda import trace_cuda, why_not

pytestmark = pytest.mark.skipif(why_not() is not None, reason=str(why_not()))
RACES = Path(__file__).parent / "cuda_sources" / "races.cu"
EXAMPLES = Path(__file__).parents[2] / "lessons_src" / "examples" / "verdicts"
BOTH = pytest.mark.parametrize("order", ["forward", "backward"])


def mean(order, replace=None, grid=3):
    args = [np.ones(64 * grid, np.float32), np.zeros(1, np.float32), np.zeros(1, np.float32), 64 * grid]
    source = EXAMPLES / "mean.cu"
    return trace_cuda("mean", grid=grid, block=64, args=args, source=source, order=order, replace=replace).faults()


@BOTH
def test_a_sum_that_is_read_before_the_other_blocks_have_added(order):
    (fault,) = mean(order)
    assert (fault.kind, fault.buffer, fault.element, fault.count) == ("global-race", "sum", 0, 1)
    assert fault.who == "block 0, thread 0 (warp 0, lane 0)" and "reads sum[0] by a plain access" in fault.sentence
    assert "second launch" in fault.cause


@BOTH
def test_a_sum_that_one_block_sets_while_others_add(order):
    (fault,) = mean(order, {"if (i == 0) out[0] = sum[0] / n;": "if (i == 0) out[0] = sum[0] = 0.0f;"})
    assert fault.kind == "global-race" and "writes sum[0] by a plain access" in fault.sentence
    assert "before the launch" in fault.cause


@BOTH
def test_one_block_needs_its_barrier_only(order):
    assert mean(order, grid=1) == []
    assert [fault.kind for fault in mean(order, {"    __syncthreads();\n": "\n"}, grid=1)] == ["global-race"]


@BOTH
def test_a_guess_that_a_compare_and_swap_checks_is_right_across_blocks(order):
    total = np.zeros(1, np.float32)
    args = [total, np.ones(64, np.float32)]
    trace = trace_cuda("add_by_compare_and_swap", grid=2, block=64, args=args, source=RACES, order=order)
    assert [str(fault) for fault in trace.faults()] == [] and total[0] == 128
