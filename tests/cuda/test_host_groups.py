"""Cooperative groups in the host build: ranks, tiles, coalesced threads, reductions, memory, and what is refused."""

from pathlib import Path

import numpy as np
import pytest

from kernels.trace.cuda import NotForHost, trace_cuda, why_not

pytestmark = pytest.mark.skipif(why_not() is not None, reason=str(why_not()))
SOURCE = Path(__file__).parent / "host_sources" / "groups.cu"
X = (np.arange(64, dtype=np.int32) * 37) % 41


def run(kernel, *args, block=64, grid=1, **more):
    return trace_cuda(kernel, grid=grid, block=block, args=args, source=SOURCE, **more)


def test_ranks_in_a_block_of_two_dimensions():
    out = np.zeros((64, 8), np.int32)
    run("ranks", out, block=(16, 4))
    i = np.arange(64)
    expected = [i * 0 + 64, i % 8, i // 8, i * 0 + 8, i // 2 % 4, i // 16, i, i * 0 + 2]
    assert (out == np.stack(expected, axis=1)).all()


@pytest.mark.parametrize("size", [4, 16, 32])
def test_tiles_reduce_shuffle_and_vote(size):
    sums, largest, firsts, votes = (np.zeros(64, np.int32) for _ in range(4))
    ballots, best = np.zeros(64, np.uint32), np.zeros(64)
    run(f"tiles<{size}>", X, sums, largest, ballots, firsts, votes, best)
    x = X.reshape(-1, size)
    rank = np.arange(size)
    assert (sums.reshape(x.shape) == x.sum(1, keepdims=True)).all()
    assert (largest.reshape(x.shape) == x.max(1, keepdims=True)).all()
    assert (ballots.reshape(x.shape) == ((x % 2) << rank).astype(np.uint64).sum(1, keepdims=True)).all()
    down, up = x[:, np.minimum(rank + 1, size - 1)], x[:, np.maximum(rank - 1, 0)]
    assert (firsts.reshape(x.shape) == x[:, :1] + 1000 * down + 1000000 * up).all()
    assert (votes.reshape(x.shape) == (x == 7).any(1, keepdims=True) + 2 * (x < 30).all(1, keepdims=True)).all()
    other = np.arange(64) ^ size // 2
    assert (best == 1.5 * X[other] + other).all()


def test_coalesced_threads_are_those_of_the_branch():
    out, ballots = np.full((64, 4), -1, np.int32), np.zeros(64, np.uint32)
    trace = run("coalesced", X, out, ballots)
    for base in (0, 32):
        lanes = base + np.flatnonzero(X[base : base + 32] % 3 == 0)
        values = X[lanes]
        expected = [[rank, len(lanes), values.sum(), values[1]] for rank in range(len(lanes))]
        assert out[lanes].tolist() == expected
        assert set(ballots[lanes].tolist()) == {sum(1 << r for r, v in enumerate(values) if v % 2 == 0)}
    assert not trace.stopped


def test_a_binary_partition_has_two_sides():
    x, out = X[:32], np.zeros(32, np.int32)
    run("halves", x, out, block=32)
    odd = x % 2 != 0
    assert (out == np.where(odd, x[odd].sum(), x[~odd].sum())).all()


def test_a_tiles_sync_orders_its_own_memory_and_no_more():
    x, out = np.arange(64, dtype=np.float32), np.zeros(64, np.float32)
    trace = run("tile_memory", x, out)
    assert (out == x[np.arange(64) ^ 3]).all() and trace.faults() == []
    without = run("tile_memory", x, out, replace={"    tile.sync();\n": ""})
    assert [f.kind for f in without.faults()] == ["shared-race"]
    across = run("tile_memory", x, out, replace={"threadIdx.x ^ 3": "threadIdx.x ^ 32"})
    assert [f.kind for f in across.faults()] == ["shared-race"]


def test_a_copy_by_a_block_is_dealt_out_and_arrives_with_the_wait():
    x, out = np.arange(72, dtype=np.float32), np.zeros(70, np.float32)
    trace = run("block_memory", x, out, block=70, shared_bytes=280)
    assert (out == x[:70][::-1]).all() and trace.faults() == []
    reads = [(e.thread, e.element, e.size) for e in trace.select(buffer="x")]
    assert sorted(reads) == sorted([*((t, 4 * t, 16) for t in range(17)), (0, 68, 4), (1, 69, 4)])
    wrong = run(
        "block_memory", x, out, block=70, shared_bytes=280, replace={"    cg::wait(block);\n": "    block.sync();\n"}
    )
    assert [f.kind for f in wrong.faults()] == ["shared-race"] and "may still be copying" in wrong.faults()[0].sentence


def test_a_barrier_of_a_group_is_one_at_the_callers_line():
    x, out = np.arange(72, dtype=np.float32), np.zeros(70, np.float32)
    trace = run("block_memory", x, out, block=70, shared_bytes=280)
    (barrier,) = trace.barriers()
    assert SOURCE.read_text().splitlines()[barrier.line - 1].strip() == "cg::wait(block);"
    assert barrier.threads == 70
    early = {"    cg::wait(block);\n": "    if (threadIdx.x > 40) return;\n    cg::wait(block);\n"}
    stopped = run("block_memory", x, out, block=70, shared_bytes=280, replace=early)
    assert stopped.stopped.kind == "barrier-divergence" and stopped.stopped.line == barrier.line + 1


@pytest.mark.parametrize(
    "line",
    [
        "cg::this_grid().sync();",
        "auto grid = cg::this_grid(); grid.sync();",
        "cg::grid_group g = cg::this_grid(); cg::sync(g);",
    ],
)
def test_a_barrier_of_the_grid_is_refused_with_its_line(line):
    text = "    const auto block = cg::this_thread_block();\n    cg::memcpy_async"
    with pytest.raises(NotForHost, match=r"groups\.cu:\d+: .*blocks one after another") as caught:
        run("block_memory", np.zeros(72, np.float32), np.zeros(70, np.float32), replace={text: f"    {line}\n{text}"})
    number = int(str(caught.value).split(":")[1])
    assert SOURCE.read_text().splitlines()[number - 1].strip() == "const auto block = cg::this_thread_block();"
