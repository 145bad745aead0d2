"""Wrong arguments raise one sentence that names the argument, before anything is launched."""

import pytest
import torch

from kernels.ops import add as add_module
from kernels.ops import softmax as softmax_module
from kernels.ops.add import add, launch_add
from kernels.ops.softmax import launch_softmax, softmax


@pytest.fixture(autouse=True)
def no_launch(monkeypatch):
    """A launch would index None and raise TypeError with another text."""
    monkeypatch.setattr(add_module, "_add", None)
    monkeypatch.setattr(softmax_module, "_softmax_rows", None)
    monkeypatch.setattr(softmax_module, "_softmax_looped", None)
    monkeypatch.setattr(softmax_module, "_launch", None)


def ones(*shape, device, dtype=torch.float32):
    return torch.ones(shape, dtype=dtype, device=device)


BAD_ADD = {
    "(4,) + (3,)": (
        lambda d: (ones(4, device=d), ones(3, device=d)),
        ValueError,
        "y has shape (3,); expected the shape of x, (4,): no dimension is broadcast.",
    ),
    "would broadcast": (
        lambda d: (ones(4, 3, device=d), ones(1, 3, device=d)),
        ValueError,
        "y has shape (1, 3); expected the shape of x, (4, 3): no dimension is broadcast.",
    ),
    "same count, other shape": (
        lambda d: (ones(4, 3, device=d), ones(3, 4, device=d)),
        ValueError,
        "y has shape (3, 4); expected the shape of x, (4, 3): no dimension is broadcast.",
    ),
    "one empty": (
        lambda d: (ones(0, device=d), ones(1, device=d)),
        ValueError,
        "y has shape (1,); expected the shape of x, (0,): no dimension is broadcast.",
    ),
    "two dtypes": (
        lambda d: (ones(4, device=d, dtype=torch.float16), ones(4, device=d, dtype=torch.bfloat16)),
        TypeError,
        "y has dtype bfloat16; expected the dtype of x, float16: no dtype is promoted.",
    ),
    "double": (
        lambda d: (ones(4, device=d, dtype=torch.float64), ones(4, device=d)),
        TypeError,
        "x has dtype float64; expected float32, float16 or bfloat16.",
    ),
    "integers": (
        lambda d: (ones(4, device=d), ones(4, device=d, dtype=torch.int32)),
        TypeError,
        "y has dtype int32; expected float32, float16 or bfloat16.",
    ),
    "a number": (lambda d: (ones(4, device=d), 1.0), TypeError, "y is a float; expected a torch.Tensor."),
    "a list": (lambda d: ([1.0], ones(1, device=d)), TypeError, "x is a list; expected a torch.Tensor."),
    "neither device runs a kernel": (
        lambda d: (ones(4, device="meta"), ones(4, device="meta")),
        ValueError,
        "x is on meta; expected a tensor on cuda, or on cpu under the interpreter.",
    ),
    "two devices": (
        lambda d: (ones(4, device="meta"), ones(4, device="cpu")),
        ValueError,
        "y is on cpu; expected the device of x, meta.",
    ),
    "sparse": (
        lambda d: (ones(4, device=d).to_sparse(), ones(4, device=d)),
        TypeError,
        "x has layout sparse_coo; expected a strided tensor, such as x.to_dense().",
    ),
    "needs a gradient": (
        lambda d: (ones(4, device=d), ones(4, device=d).requires_grad_()),
        ValueError,
        "y requires a gradient, which this call does not record; expected y.detach(), or a call under torch.no_grad().",
    ),
    "negated view": (
        lambda d: (torch.ones(4, dtype=torch.complex64, device=d).conj().imag, ones(4, device=d)),
        ValueError,
        "x is a view that negates on reading; expected stored values: x.resolve_neg().",
    ),
}


@pytest.mark.parametrize("name", BAD_ADD)
def test_add_refuses(name, device):
    make, kind, message = BAD_ADD[name]
    with pytest.raises(kind) as error:
        add(*make(device))
    assert str(error.value) == message


@pytest.mark.gpu
def test_a_cpu_tensor_beside_a_cuda_tensor(monkeypatch):
    if not torch.cuda.is_available():
        pytest.skip("needs a GPU")
    monkeypatch.undo()  # the real kernel: its own advice about CPU tensors would mislead here
    with pytest.raises(ValueError) as error:
        add(ones(4, device="cuda"), ones(4, device="cpu"))
    assert str(error.value) == "y is on cpu; expected the device of x, cuda:0."


BAD_LAUNCH = [
    ({"block_size": 0}, "block_size is 0; expected a power of two from 1 to 65536."),
    ({"block_size": 100}, "block_size is 100; expected a power of two from 1 to 65536."),
    ({"block_size": 131072}, "block_size is 131072; expected a power of two from 1 to 65536."),
    ({"block_size": 256.0}, "block_size is 256.0; expected a power of two from 1 to 65536."),
    ({"num_warps": 3}, "num_warps is 3; expected a power of two from 1 to 32."),
    ({"num_warps": 64}, "num_warps is 64; expected a power of two from 1 to 32."),
    ({"num_warps": True}, "num_warps is True; expected a power of two from 1 to 32."),
]


@pytest.mark.parametrize("choice,message", BAD_LAUNCH)
def test_launch_add_refuses_a_parameter(choice, message, device):
    x = ones(4, device=device)
    with pytest.raises(ValueError) as error:
        launch_add(x, x, torch.empty_like(x), **choice)
    assert str(error.value) == message


def test_launch_add_refuses_gaps_and_a_wrong_output(device):
    x = ones(4, 6, device=device)
    with pytest.raises(ValueError) as error:
        launch_add(x, x, ones(6, 4, device=device).t())
    assert str(error.value) == "out has strides (1, 4) for shape (4, 6); expected it contiguous."
    with pytest.raises(ValueError) as error:
        launch_add(x, x, ones(4, 5, device=device))
    assert str(error.value) == "out has shape (4, 5); expected the shape of x, (4, 6): no dimension is broadcast."


BAD_SOFTMAX = {
    "scalar": (lambda d: ones(device=d), ValueError, "x has shape (); expected at least one dimension."),
    "integers": (
        lambda d: ones(2, 3, device=d, dtype=torch.int64),
        TypeError,
        "x has dtype int64; expected float32, float16 or bfloat16.",
    ),
    "text": (lambda d: "text", TypeError, "x is a str; expected a torch.Tensor."),
    "meta": (
        lambda d: ones(2, 3, device="meta"),
        ValueError,
        "x is on meta; expected a tensor on cuda, or on cpu under the interpreter.",
    ),
}


@pytest.mark.parametrize("name", BAD_SOFTMAX)
def test_softmax_refuses(name, device):
    make, kind, message = BAD_SOFTMAX[name]
    with pytest.raises(kind) as error:
        softmax(make(device))
    assert str(error.value) == message


def test_launch_softmax_refuses(device):
    x = ones(4, 6, device=device)
    for arguments, kind, message in [
        ((x[0], x[0]), ValueError, "x has shape (6,); expected two dimensions, (rows, columns)."),
        ((x, x[None]), ValueError, "out has shape (1, 4, 6); expected two dimensions, (rows, columns)."),
        ((x, x.half()), TypeError, "out has dtype float16; expected the dtype of x, float32: no dtype is promoted."),
        ((x, ones(6, 4, device=device).t()), ValueError, "out has strides (1, 4); expected a column stride of 1."),
        (
            (x, ones(4, 5, device=device)),
            ValueError,
            "out has shape (4, 5); expected the shape of x, (4, 6): no dimension is broadcast.",
        ),
    ]:
        with pytest.raises(kind) as error:
            launch_softmax(*arguments)
        assert str(error.value) == message


def test_gradients_may_be_switched_off(device, monkeypatch):
    monkeypatch.undo()  # this one launches
    x = ones(2, 4, device=device).requires_grad_()
    with torch.no_grad():
        assert softmax(x).tolist() == [[0.25] * 4] * 2
        assert add(x, x).tolist() == [[2.0] * 4] * 2
