"""The products of a training step: gradients through autograd, in one graph, and beside PyTorch's own."""

import pytest
import torch

from kernels.ops import matmul as product
from kernels.ops import matmul_launch
from kernels.ops.matmul import matmul
from kernels.ops.matmul_train import OP, matmul_train

from .shared import whole_storage

CASES = [pytest.param(case.shape, id="x".join(map(str, case.shape))) for case in OP.checks]


@pytest.mark.parametrize("dtype", OP.dtypes)
@pytest.mark.parametrize("shape", CASES)
def test_the_three_products_match(shape, dtype, device, poisoned):
    tensors = OP.inputs(shape, dtype, device, seed=1)
    before = [whole_storage(x) for x in tensors]
    rtol, atol = OP.tolerance(dtype, shape)
    for out, expected in zip(matmul_train(*tensors), OP.reference(*tensors), strict=True):
        assert out.is_contiguous() and out.shape == expected.shape
        torch.testing.assert_close(out.double(), expected, rtol=rtol, atol=atol)
    assert all(torch.equal(whole_storage(x), old) for x, old in zip(tensors, before))


def test_no_transpose_is_copied(device, monkeypatch):
    tensors = OP.inputs((32, 24, 40), "bfloat16", device, seed=2, padding=0)
    for name in ("contiguous", "clone", "copy_"):
        monkeypatch.setattr(torch.Tensor, name, None)
    monkeypatch.setattr(matmul_launch, "_packed", None)
    matmul_train(*tensors)


LAYOUTS = {
    "matrices": lambda a, b: (a, b),
    "transposed": lambda a, b: (a.t().contiguous().t(), b.t().contiguous().t()),
    "batch, one weight": lambda a, b: (a.reshape(2, 3, 7), b),
    "both batches": lambda a, b: (a.reshape(2, 3, 7), torch.stack([b, -b])),
    "broadcast": lambda a, b: (a.reshape(2, 1, 3, 7), torch.stack([b, -b, b])),
    "one row": lambda a, b: (a[:1], b),
    "no row": lambda a, b: (a[:0], b),
}


@pytest.mark.parametrize("name", LAYOUTS)
def test_gradients_are_those_of_pytorch(name, device):
    generator = torch.Generator(device).manual_seed(3)
    a, b = LAYOUTS[name](
        torch.randn(6, 7, generator=generator, device=device), torch.randn(7, 5, generator=generator, device=device)
    )
    weights = torch.randn(torch.matmul(a, b).shape, generator=generator, device=device)
    grads = []
    for function in (matmul, torch.matmul):
        left, right = a.detach().clone().requires_grad_(), b.detach().clone().requires_grad_()
        (torch.cat([function(left, right), function(left, right)], -1)[..., :5] * weights).sum().backward()
        grads.append((left.grad, right.grad))
    torch.testing.assert_close(grads[0], grads[1], rtol=1e-5, atol=1e-5)


def test_a_gradient_of_any_strides(device):
    a, b = torch.ones(2, 2, device=device, requires_grad=True), torch.ones(2, 3, device=device, requires_grad=True)
    matmul(a, b).sum().backward()  # arrives with strides (0, 0)
    assert a.grad.tolist() == [[3.0, 3.0]] * 2 and b.grad.tolist() == [[2.0, 2.0, 2.0]] * 2


def test_only_what_is_wanted_is_computed(device, monkeypatch):
    a, b = torch.ones(2, 2, device=device), torch.ones(2, 3, device=device, requires_grad=True)
    out = matmul(a, b)
    calls, launch_product = [], product.launch_product
    monkeypatch.setattr(product, "launch_product", lambda *x, **y: calls.append(1) or launch_product(*x, **y))
    out.sum().backward()
    assert len(calls) == 1


def test_the_second_derivative(device):
    generator = torch.Generator(device).manual_seed(4)
    a, b = (torch.randn(3, 3, generator=generator, device=device, requires_grad=True) for _ in range(2))
    found = []
    for function in (matmul, torch.matmul):
        (first,) = torch.autograd.grad(function(a, b).pow(2).sum(), a, create_graph=True)
        found.append(torch.autograd.grad(first.pow(2).sum(), (a, b)))
    torch.testing.assert_close(found[0], found[1], rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("name", LAYOUTS)
def test_opcheck(name, device):
    a, b = LAYOUTS[name](torch.randn(6, 7, device=device), torch.randn(7, 5, device=device))
    found = torch.library.opcheck(
        product._matmul_operator, (a.detach().requires_grad_(), b.detach().requires_grad_(), "ieee")
    )
    assert set(found.values()) == {"SUCCESS"}


def test_a_training_step_is_one_graph(device):
    def step(x, w, v):
        return matmul(torch.relu(matmul(x, w)), v).pow(2).mean()

    compiled = torch.compile(step, fullgraph=True, backend="aot_eager")
    generator = torch.Generator(device).manual_seed(5)
    for rows in (8, 9, 1):
        x = torch.randn(rows, 6, generator=generator, device=device)
        found = []
        for function in (step, compiled):
            w, v = (torch.full((6, 6), 0.25, device=device, requires_grad=True) for _ in range(2))
            loss = function(x, w, v)
            loss.backward()
            found.append((loss.detach(), w.grad, v.grad))
        torch.testing.assert_close(found[0], found[1])


def test_the_weight_gradient_has_the_same_bits_each_time(device):
    tensors = OP.inputs((300, 16, 24), "float32", device, seed=6)
    first = matmul_train(*tensors)[2]
    assert all(torch.equal(matmul_train(*tensors)[2], first) for _ in range(3))


@pytest.mark.parametrize(
    "shapes,message",
    [
        (((2, 3), (3, 4), (4, 2)), "dout has shape (4, 2); expected (2, 4), that of a @ b."),
        (((2, 3), (3, 4), (2, 1, 4)), "dout has shape (2, 1, 4); expected two dimensions."),
    ],
)
def test_refuses_before_any_launch(shapes, message, device, monkeypatch):
    from kernels.ops import matmul_train as module

    monkeypatch.setattr(module, "launch_product", None)
    with pytest.raises(ValueError) as caught:
        matmul_train(*(torch.ones(shape, device=device) for shape in shapes))
    assert str(caught.value) == message
