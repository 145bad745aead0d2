"""Threads and blocks that wait for each other by asking for a value, and shuffles whose width no GPU has."""

from pathlib import Path

import numpy as np
import pytest

from kernels.trace.cuda import trace_cuda, why_not

pytestmark = pytest.mark.skipif(why_not() is not None, reason=str(why_not()))
SOURCE = Path(__file__).parent / "host_sources" / "waiting.cu"
ORDERS = pytest.mark.parametrize("order", ["forward", "backward"])


def run(kernel, args, grid=1, block=1, **more):
    return trace_cuda(kernel, grid=grid, block=block, args=args, source=SOURCE, **more)


@ORDERS
@pytest.mark.parametrize("producer", [0, 1, 2])
def test_warps_wait_for_another_warp_of_their_block(order, producer):
    x, out = np.arange(32, dtype=np.int32), np.full(96, -1, np.int32)
    trace = run("warp_flag", [x, out, producer], block=96, order=order, max_events=100_000)
    assert trace.stopped is None
    assert trace.faults(outputs=[]) == []
    wanted = np.tile(x[::-1], 3)
    wanted[32 * producer : 32 * producer + 32] = -1
    assert out.tolist() == wanted.tolist()


@ORDERS
def test_threads_that_pass_a_volatile_turn_to_each_other_end(order):
    turn, count = np.zeros(1, np.int32), np.zeros(1, np.int32)
    assert run("turns", [turn, count, 20], block=2, order=order, max_events=100_000).stopped is None
    assert (turn[0], count[0]) == (40, 40)


@ORDERS
def test_who_asks_often_and_does_not_wait_is_not_hindered(order):
    x, out = np.arange(5000, dtype=np.int32)[::-1].copy(), np.zeros(1, np.int32)
    assert run("largest", [x, out, 5000], block=3, order=order).faults() == [] and out[0] == 4999


@pytest.mark.parametrize("limit", [{"max_events": 20_000}, {"max_seconds": 0.3}])
def test_a_block_that_waits_for_a_later_one_is_not_called_endless(limit):
    args = [np.arange(4, dtype=np.int32), np.zeros(4, np.int32), np.zeros(4, np.int32), np.zeros(1, np.uint32)]
    assert run("chained", args, grid=4).faults() == [] and args[1].tolist() == [0, 1, 3, 6]
    args[3][:] = 0
    stopped = run("chained", args, grid=4, order="backward", **{"max_events": 1 << 26} | limit).stopped
    assert stopped.kind == ("too-long" if "max_seconds" in limit else "too-many-events")
    assert stopped.who == "block 3, thread 0 (warp 0, lane 0)" and "3 of them had not begun" in stopped.sentence
    assert "on a GPU is right only if both are resident" in stopped.cause and "never ends" not in stopped.sentence


def test_who_waits_for_a_value_that_no_later_block_can_give_is_endless():
    turn = [np.ones(1, np.int32), np.zeros(1, np.int32), 20]
    stopped = run("turns", turn, max_events=20_000).stopped  # there is no other block
    assert stopped.kind == "too-many-events" and "a loop that never ends" in stopped.cause
    shared = [np.arange(32, dtype=np.int32), np.zeros(32, np.int32), 5]
    stopped = run("warp_flag", shared, grid=3, block=32, max_events=20_000).stopped  # no other block sees the flag
    assert stopped.who.startswith("block 0, ") and "a loop that never ends" in stopped.cause


@pytest.mark.parametrize("width", [0, -8, 3, 24, 64])
def test_a_width_that_no_gpu_has_is_a_verdict(width):
    (fault,) = run("fold", [np.arange(32, dtype=np.int32), np.zeros(32, np.int32), width], block=32).faults()
    assert fault.kind == "shuffle-width" and f"with the width {width};" in fault.sentence
    assert SOURCE.read_text().splitlines()[fault.line - 1].strip().startswith("out[threadIdx.x] = __shfl_down_sync")


@pytest.mark.parametrize("width", [1, 2, 4, 8, 16, 32])
def test_every_other_width_is_none(width):
    assert run("fold", [np.arange(32, dtype=np.int32), np.zeros(32, np.int32), width], block=32).faults() == []
