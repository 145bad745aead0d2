"""Rows that several programs share within a launch: the word in which they meet, and on a GPU the rows themselves."""

import numpy as np
import pytest
import torch
import triton
import triton.language as tl

from kernels.ops.row_plan import plan_for
from kernels.ops.softmax import OP, launch_softmax, softmax
from kernels.ops.softmax_parts import _word

from .shared import assert_matches

INF, NAN = float("inf"), float("nan")


@triton.jit
def _words_of(maxima_ptr, totals_ptr, words_ptr, count, BLOCK: tl.constexpr):
    n = tl.arange(0, BLOCK)
    mask = n < count
    words = _word(tl.load(maxima_ptr + n, mask=mask), tl.load(totals_ptr + n, mask=mask))
    tl.store(words_ptr + n, words, mask=mask)


def test_a_word_holds_both_numbers_and_is_never_empty(device):
    maxima = torch.tensor([0.0, -0.0, -INF, INF, -1e38, 1e-45, 2.5, NAN], device=device)
    totals = torch.tensor([1.0, 3e38, 0.0, NAN, 1.5, 8192.0, 1.0, NAN], device=device)
    totals.view(torch.int32)[3] = -4194304  # NaN with its sign set must not reach into the maximum
    words = torch.zeros(8, dtype=torch.int64, device=device)
    _words_of[(1,)](maxima, totals, words, 8, BLOCK=8)
    assert (words != 0).all()
    halves = words.cpu().numpy().view(np.float32).reshape(8, 2)
    np.testing.assert_array_equal(halves[:, 1], maxima.cpu().numpy())
    np.testing.assert_array_equal(halves[:, 0], totals.cpu().numpy())


def need_a_gpu():
    if not torch.cuda.is_available():
        pytest.skip("needs a GPU, where programs of one launch run at the same time")


@pytest.mark.gpu
@pytest.mark.parametrize("dtype", OP.dtypes)
@pytest.mark.parametrize("shape", [(3, 40000), (200, 32769), (1, 1 << 20), (700, 70000), (2, 20000)])
def test_joint_rows_match_the_reference(shape, dtype):
    need_a_gpu()
    inputs = OP.inputs(shape, dtype, "cuda", seed=11)
    assert plan_for(inputs[0]).path == "joint"
    for _ in range(3):
        assert_matches(OP, softmax(*inputs), inputs, dtype)


@pytest.mark.gpu
def test_parts_that_are_all_masked_and_rows_that_are_nan():
    need_a_gpu()
    x = torch.randn(6, 40000, device="cuda")
    x[0, :30000] = -INF
    x[1] = -INF
    x[2, 39999] = INF
    x[3, 0] = NAN
    x[4, 8192:] = -INF
    out = launch_softmax(x, torch.full_like(x, 7.0), path="joint")
    torch.testing.assert_close(out, torch.softmax(x, -1), equal_nan=True, rtol=1e-4, atol=1e-7)


@pytest.mark.gpu
def test_two_graphs_that_run_at_once_share_nothing():
    need_a_gpu()
    inputs = [torch.randn(64, 131072, device="cuda") for _ in range(2)]
    softmax(inputs[0])  # compiled before anything is captured
    torch.cuda.synchronize()
    graphs, outs = [], []
    for x in inputs:
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph):
            outs.append(softmax(x))
        graphs.append(graph)
    streams = [torch.cuda.Stream() for _ in range(2)]
    for turn in range(5):
        for x in inputs:
            x.normal_().mul_(turn + 1)
        torch.cuda.synchronize()
        for _ in range(20):
            for graph, stream in zip(graphs, streams, strict=True):
                with torch.cuda.stream(stream):
                    graph.replay()
        torch.cuda.synchronize()
        for x, out in zip(inputs, outs, strict=True):
            torch.testing.assert_close(out, torch.softmax(x, -1), rtol=1e-4, atol=1e-9)


@pytest.mark.gpu
def test_a_compiled_graph_has_joint_rows_too():
    need_a_gpu()
    x = torch.randn(40, 40000, device="cuda")
    compiled = torch.compile(lambda t: softmax(t * 2.0) + 1.0, fullgraph=True)
    torch.testing.assert_close(compiled(x), torch.softmax(x * 2.0, -1) + 1.0)
