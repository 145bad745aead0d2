"""What every operator that records a gradient promises, for each one in the registry."""

import pytest
import torch

from kernels.ops.registry import OPS

# Operators on rows; a product or attention has other shapes, and tests of its gradient in its own file.
RECORDING = [op for op in OPS.values() if op.gradient_tolerance is not None and len(op.benches[0].shape) <= 2]
each_operator = pytest.mark.parametrize("op", RECORDING, ids=lambda op: op.name)
# What the registered operator takes beyond the tensors, and its name where several records share one.
REGISTERED = {
    "rmsnorm": ("rmsnorm", 1e-6),
    "bias_act": ("bias_act", "relu", 0.5),
    "bias_gelu": ("bias_act", "gelu", 1.0),
    "split_softmax": ("split_softmax", None),
}
LAYOUTS = ("contiguous", "transposed", "no rows", "one column", "three dimensions")


def call(op, *inputs):
    """The results of the public function, as a tuple."""
    out = op.implementation("triton").call(*inputs)
    return out if isinstance(out, tuple) else (out,)


def reference(op, *inputs):
    out = op.reference(*inputs)
    return out if isinstance(out, tuple) else (out,)


def leaves(op, shape, dtype, device, seed=1):
    return [each.clone().requires_grad_() for each in op.inputs(shape, dtype, device, seed, padding=0)]


def laid_out(op, layout, device):
    """Inputs whose matrices lie in memory as named; every result and gradient has to come out right all the same."""
    shape = {"no rows": (0, 6), "one column": (5, 1), "three dimensions": (2, 3, 6)}.get(layout, (5, 6))
    inputs = op.inputs(shape, "float32", device, 1, 0)
    if layout == "transposed":
        inputs = [each.t().contiguous().t() if each.dim() == 2 else each for each in inputs]
        assert not inputs[0].is_contiguous()
    return [each.detach().requires_grad_() for each in inputs]


def assert_gradients(op, inputs, dtype, loss):
    """Gradients of loss(results) against those of the reference in float64."""
    wide = [each.detach().double().requires_grad_() for each in inputs]
    got = torch.autograd.grad(loss(call(op, *inputs)), inputs)
    expected = torch.autograd.grad(loss(reference(op, *wide)), wide)
    rtol, atol = op.gradient_tolerance(dtype, tuple(inputs[0].shape))
    for mine, theirs, x in zip(got, expected, inputs, strict=True):
        assert mine.shape == x.shape and mine.dtype == x.dtype
        torch.testing.assert_close(mine.double(), theirs, rtol=rtol, atol=atol)


def whole(shape, like):
    """Upstream weights that every dtype holds exactly."""
    count = torch.Size(shape).numel()
    return (torch.arange(count, device=like.device) % 13 - 6.0).reshape(shape).to(like.dtype)


@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
@pytest.mark.parametrize("shape", [(5, 33), (2, 3, 40), (65,)], ids=["ragged", "three dimensions", "one row"])
@each_operator
def test_gradients_match_those_of_the_reference(op, shape, dtype, device, poisoned):
    inputs = leaves(op, shape, dtype, device)
    assert_gradients(op, inputs, dtype, lambda outs: sum((out * whole(out.shape, out)).sum() for out in outs))


@each_operator
def test_a_gradient_cut_out_of_a_wider_one(op, device):
    # torch.cat hands back columns of a wider tensor: with the input's strides only the first row would be right.
    inputs = leaves(op, (4, 6), "float32", device)

    def loss(outs):
        wide = [torch.cat([out, torch.zeros_like(out)], dim=-1) for out in outs]
        return sum((out * whole(out.shape, out)).sum() for out in wide)

    assert_gradients(op, inputs, "float32", loss)


@each_operator
def test_a_gradient_of_one_number_and_of_turned_rows(op, device):
    inputs = leaves(op, (4, 6), "float32", device)
    assert_gradients(op, inputs, "float32", lambda outs: sum(3 * out.sum() for out in outs))  # strides (0, 0)

    def turned(outs):
        return sum((out.t() * whole(out.t().shape, out)).sum() for out in outs)

    assert_gradients(op, inputs, "float32", turned)


@pytest.mark.parametrize("layout", LAYOUTS)
@each_operator
def test_opcheck(op, layout, device):
    name, *more = REGISTERED.get(op.name, (op.name,))
    registered = getattr(torch.ops.kernel_lessons, name).default
    found = torch.library.opcheck(registered, (*laid_out(op, layout, device), *more))
    assert set(found.values()) == {"SUCCESS"}


@pytest.mark.parametrize("layout", LAYOUTS)
@each_operator
def test_one_graph_forward_and_backward(op, layout, device):
    def function(*inputs):
        outs = call(op, *(torch.relu(each) for each in inputs))
        return sum((out * out).sum() for out in outs)

    backend = "inductor" if device == "cuda" else "aot_eager"
    torch._dynamo.reset()  # one function, many operators: each has the whole budget of recompilations
    compiled = torch.compile(function, fullgraph=True, backend=backend, dynamic=False)
    inputs = laid_out(op, layout, device)
    results = [(each(*inputs), *torch.autograd.grad(each(*inputs), inputs)) for each in (function, compiled)]
    torch.testing.assert_close(results[1], results[0])


@each_operator
def test_a_new_number_of_rows_compiles_nothing(op, device):
    count = []

    def backend(graph, _inputs):
        count.append(graph)
        return graph.forward

    compiled = torch.compile(lambda *inputs: call(op, *inputs), fullgraph=True, backend=backend, dynamic=True)
    torch._dynamo.reset()
    for rows in (8, 9, 300, 5):
        inputs = op.inputs((rows, 24), "float32", device, 1, 0)
        torch.testing.assert_close(compiled(*inputs), call(op, *inputs))
    assert len(count) == 1
    inputs = op.inputs((1, 24), "float32", device, 1, 0)
    torch.testing.assert_close(compiled(*inputs), call(op, *inputs))


@each_operator
def test_a_second_derivative_is_right_or_refused(op, device):
    inputs = leaves(op, (3, 5), "float32", device)
    loss = sum((out * out).sum() for out in call(op, *inputs))
    first = torch.autograd.grad(loss, inputs, create_graph=True)
    try:
        second = torch.autograd.grad(sum((each * each).sum() for each in first), inputs)
    except NotImplementedError as refusal:
        assert "has no derivative of its own here; expected one backward pass without create_graph=True" in str(refusal)
        return
    wide = [each.detach().double().requires_grad_() for each in inputs]
    loss = sum((out * out).sum() for out in reference(op, *wide))
    first = torch.autograd.grad(loss, wide, create_graph=True)
    expected = torch.autograd.grad(sum((each * each).sum() for each in first), wide)
    for mine, theirs in zip(second, expected, strict=True):
        torch.testing.assert_close(mine.double(), theirs, rtol=1e-5, atol=1e-6)


@each_operator
def test_one_column_and_no_rows_have_gradients(op, device):
    for shape in ((5, 1), (0, 8), (8, 0)):
        inputs = leaves(op, shape, "float32", device)
        gradients = torch.autograd.grad(sum(out.sum() for out in call(op, *inputs)), inputs)
        assert [each.shape for each in gradients] == [each.shape for each in inputs]
        assert all(each.isfinite().all() for each in gradients)


@each_operator
def test_under_no_grad_nothing_is_recorded(op, device):
    inputs = leaves(op, (3, 5), "float32", device)
    with torch.no_grad():
        assert not any(out.requires_grad for out in call(op, *inputs))
    assert all(out.requires_grad for out in call(op, *inputs))
