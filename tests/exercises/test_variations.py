"""The workshops' second exercises: the answers that their pages fold away are right, and touch what they should."""

import pytest

torch = pytest.importorskip("torch")
pytest.importorskip("triton")

from kernels.ops.interpreter import behave_like_a_gpu  # noqa: E402
from kernels.trace.triton import trace_triton  # noqa: E402
from kernels.trace.undefined import undefined_is_nan  # noqa: E402

pytestmark = pytest.mark.interpreted

behave_like_a_gpu()


def numbers(*shape, seed=0):
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed))


@pytest.mark.triton
@pytest.mark.parametrize("order", [(0, 1, 2), (1, 0, 2), (2, 1, 0), (1, 2, 0)])
@pytest.mark.parametrize("block_m", [1, 4])
def test_a_batch_is_softmaxed_where_it_lies(order, block_m):
    from lessons_src.examples.strided_batch import softmax_batch

    x = numbers(3, 5, 33).permute(order)
    out = torch.full((*x.shape[:2], x.shape[2] + 2), float("nan"))[..., : x.shape[2]]
    with undefined_is_nan():
        trace = trace_triton(lambda: softmax_batch(x, out, block_m), {"x": x, "out": out})
    assert not trace.faults(outputs=["out"])
    assert (trace.counts("x", "read") == 1).all() and len(trace.launches) == 1
    assert (out.double() - torch.softmax(x.double(), dim=2)).abs().max() < 2.0**-24 * 32


@pytest.mark.triton
def test_a_batch_without_rows_launches_nothing():
    from lessons_src.examples.strided_batch import softmax_batch

    x, out = torch.empty(0, 3, 4), torch.empty(0, 3, 4)
    assert not trace_triton(lambda: softmax_batch(x, out), {"x": x, "out": out}).launches


@pytest.mark.triton
@pytest.mark.parametrize("width", [1, 33, 64])
def test_the_gradient_of_log_softmax_is_autograds_in_float64(width):
    from lessons_src.examples.log_softmax_gradient import log_softmax_backward

    scores = numbers(5, width, seed=1).double().requires_grad_()
    logarithms = torch.log_softmax(scores, dim=1)
    stored = logarithms.detach().float()
    for dl in (numbers(5, width, seed=2), numbers(width, 5, seed=3).t(), torch.ones(5, 1).expand(5, width)):
        (expected,) = torch.autograd.grad(logarithms, scores, dl.double(), retain_graph=True)
        dx = torch.full((5, width), float("nan"))
        with undefined_is_nan():
            buffers = {"l": stored, "dl": dl, "dx": dx}
            trace = trace_triton(lambda dl=dl, dx=dx: log_softmax_backward(stored, dl, dx), buffers)
        assert not trace.faults(outputs=["dx"])
        allowed = 2.0**-24 * (width**0.5 + 8) * max(1.0, float(dl.abs().sum(dim=1).max()))
        assert (dx - expected).abs().max() < allowed


@pytest.mark.triton
@pytest.mark.parametrize("activation", ["none", "gelu"])
@pytest.mark.parametrize("place", ["of its own", "transposed", "out itself"])
def test_a_residual_joins_behind_the_activation(activation, place):
    from lessons_src.examples.fused_residual import fused_residual

    a, b, bias, residual = numbers(17, 19), numbers(19, 40, seed=1), numbers(40, seed=2), numbers(17, 40, seed=3)
    given = residual.t().contiguous().t() if place == "transposed" else residual.clone()
    out = given if place == "out itself" else torch.full((17, 40), float("nan"))
    exact = a.double() @ b.double() + bias.double()
    exact = torch.nn.functional.gelu(exact, approximate="tanh") if activation == "gelu" else exact
    buffers = {"a": a, "b": b, "bias": bias, "out": out} | ({"residual": given} if given is not out else {})
    with undefined_is_nan():
        trace = trace_triton(lambda: fused_residual(a, b, bias, given, out, activation), buffers)
    assert not trace.faults(outputs=["out"])
    allowed = 2.0**-24 * (19 + 12) * float((a.abs() @ b.abs() + bias.abs() + residual.abs()).max())
    assert (out - (exact + residual.double())).abs().max() < allowed
