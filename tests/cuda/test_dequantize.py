"""cuda/dequantize.cu: right sums, what is read how often, what is refused."""

import numpy as np
import pytest
from bfloat16 import POISON, rounded, widened

from kernels.inspect import compile_cuda
from kernels.trace.cuda import trace_cuda_launcher, why_not

traced = pytest.mark.skipif(why_not() is not None, reason=str(why_not()))
SOURCE = "cuda/dequantize.cu"


def inputs(m, n, k):
    rng = np.random.default_rng(m + n + k)
    x = rounded(rng.normal(size=(m, k)).astype(np.float32))
    q = rng.integers(-128, 128, (n, k), dtype=np.int8)
    return x, q, rng.uniform(0.5, 2, n).astype(np.float32)


def multiply(m, n, k, **more):
    x, q, scale = inputs(m, n, k)
    out = np.full((m, n), POISON, np.uint16)
    trace = trace_cuda_launcher("launch_dequantize_matmul", [x, q, scale, out, m, n, k], source=SOURCE, **more)
    weights = q.astype(np.float64) * scale[:, None]
    return widened(out), widened(x).astype(np.float64) @ weights.T, trace


@traced
@pytest.mark.parametrize(
    ("m", "n", "k"),
    [
        (1, 1, 16),  # one piece of one lane
        (1, 17, 528),  # a second block of one column, one lane with a second piece
        (2, 5, 512),
        (4, 16, 1040),
        (9, 7, 32),  # a second block of one row
        (3, 4, 0),  # empty sums are zero
    ],
)
@pytest.mark.parametrize("order", ["forward", "backward"])
def test_every_product_is_right(m, n, k, order):
    got, want, trace = multiply(m, n, k, order=order)
    assert trace.result == 0 and trace.faults() == []
    assert (np.abs(got - want) <= 2.0**-8 * np.abs(want) + 2e-4 * (k + 1) ** 0.5).all()


@traced
def test_each_weight_is_read_once_and_sixteen_at_a_time():
    _, _, trace = multiply(8, 16, 1024)
    assert (trace.counts("q", "read") == 1).all()
    assert {request.size for request in trace.requests(buffer="q", what="read")} == {16}


@traced
@pytest.mark.parametrize(("n", "k"), [(1, 16), (5, 48), (3, 0), (300, 16)])
def test_the_separate_pass_writes_every_weight(n, k):
    _, q, scale = inputs(1, n, k)
    w = np.full((n, k), POISON, np.uint16)
    trace = trace_cuda_launcher("launch_dequantize", [q, scale, w, n, k], source=SOURCE)
    assert trace.result == 0 and trace.faults() == []
    assert (w == rounded(q.astype(np.float32) * scale[:, None])).all()


@traced
def test_a_planted_fault_shows():
    got, want, _ = multiply(2, 5, 64, replace={"0x80808080u": "0x00808080u"})
    assert (np.abs(got - want) > 0.1).any()
    _, _, trace = multiply(3, 5, 64, replace={"first_m + i < M ? first_m + i : M - 1": "first_m + i"})
    assert "out-of-bounds" in {fault.kind for fault in trace.faults()}


@traced
def test_what_has_no_whole_pieces_is_refused():
    x, q, scale = inputs(2, 3, 32)
    out = np.zeros((2, 3), np.uint16)
    for arguments in (
        [x, q, scale, out, 2, 3, 17],
        [x, q, scale, out, -1, 3, 32],
        [x.ravel()[1:], q, scale, out, 1, 3, 16],
    ):
        trace = trace_cuda_launcher("launch_dequantize_matmul", arguments, source=SOURCE)
        assert (trace.result, trace.launches) == (1, ())


@pytest.mark.nvcc
@pytest.mark.parametrize("arch", [80, 90, 100, 120])
def test_no_conversion_and_no_spill(arch):
    for rows in (1, 2, 4, 8):
        name = f"_Z17dequantize_matmulILi{rows}EEvPK13__nv_bfloat16PKaPKfPS0_lll"
        facts = compile_cuda(name, arch=arch, source=SOURCE)
        assert (facts.spill_store_bytes, facts.spill_load_bytes) == (0, 0)
        assert facts.instructions("LDG.E.128") and facts.instructions("PRMT") and not facts.instructions("I2F")


@pytest.mark.gpu
@pytest.mark.parametrize(("m", "n", "k"), [(1, 17, 528), (4, 4096, 4096), (9, 300, 1024), (3, 4, 0)])
def test_products_on_the_gpu(m, n, k):
    import torch

    from kernels.cuda import dequantize

    x = torch.randn(m, k, device="cuda").bfloat16()
    q = torch.randint(-128, 128, (n, k), device="cuda", dtype=torch.int8)
    scale = torch.rand(n, device="cuda") + 0.5
    want = x.double() @ (q.double() * scale.double()[:, None]).T
    error = (dequantize.dequantize_matmul(x, q, scale).double() - want).abs()
    assert bool((error <= 2.0**-8 * want.abs() + 2e-4 * (k + 1) ** 0.5).all())
    assert bool((dequantize.dequantize(q, scale) == (q.float() * scale[:, None]).bfloat16()).all())
