"""cuda/grid_sum.cu: the same sum in every order of blocks, and what happens without the fence."""

import numpy as np
import pytest

from kernels.trace.cuda import NotForHost, trace_cuda_launcher, why_not

traced = pytest.mark.skipif(why_not() is not None, reason=str(why_not()))
SOURCE = "cuda/grid_sum.cu"


def run(kernel, n, blocks, **more):
    x = np.random.default_rng(n).normal(size=n).astype(np.float32)
    partials, out = np.full(blocks, np.nan, np.float32), np.full(1, np.nan, np.float32)
    tickets = [np.full(1, 7, np.uint32)] if kernel == "grid_sum_last_block" else []
    trace = trace_cuda_launcher(f"launch_{kernel}", [x, partials, *tickets, out, n, blocks], source=SOURCE, **more)
    return out[0], x.sum(dtype=np.float64), trace


@traced
@pytest.mark.parametrize(("n", "blocks"), [(0, 1), (1, 1), (1000, 3), (257, 4), (700, 300)])  # more blocks than threads
@pytest.mark.parametrize("order", ["forward", "backward"])
@pytest.mark.parametrize("kernel", ["grid_sum_two_launches", "grid_sum_last_block"])
def test_the_sum_is_right_in_both_orders(kernel, n, blocks, order):
    got, want, trace = run(kernel, n, blocks, order=order)
    assert trace.result == 0 and trace.faults() == []
    assert abs(got - want) <= 1e-6 * (n + 1)
    assert got == run(kernel, n, blocks)[0]


@traced
@pytest.mark.parametrize(
    "replace",
    [
        {"        __threadfence();  // the partial sum is seen by whoever sees the ticket\n": ""},
        {"last = atomicAdd(tickets, 1u) == gridDim.x - 1": "last = blockIdx.x == gridDim.x - 1"},
    ],
    ids=["no fence", "no ticket"],
)
def test_without_fence_or_ticket_nothing_is_ordered(replace):
    faults = run("grid_sum_last_block", 1000, 3, replace=replace)[2].faults()
    assert any(fault.buffer == "partials" for fault in faults), faults


def test_the_host_build_has_no_barrier_of_a_grid():
    with pytest.raises(NotForHost, match="grid"):
        trace_cuda_launcher("launch_grid_sum_cooperative", [], source="cuda/grid_sum_cooperative.cu")


@pytest.mark.gpu
@pytest.mark.parametrize("kernel", ["grid_sum_two_launches", "grid_sum_last_block", "grid_sum_cooperative"])
def test_sums_on_the_gpu(kernel):
    import torch

    from kernels.cuda import grid_sum

    x = torch.randn(1_000_003, device="cuda")
    found = {getattr(grid_sum, kernel)(x, 132).item() for _ in range(5)}
    assert len(found) == 1 and abs(found.pop() - x.double().sum().item()) < 0.1
