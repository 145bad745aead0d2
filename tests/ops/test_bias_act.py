"""bias_act: values, layouts, both activations."""

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from kernels.ops import bias_act as module
from kernels.ops.bias_act import MORE, OP, bias_act, launch_bias_act

from .shared import Banded, assert_matches, views, whole_storage

RECORDS = [OP, *MORE]
each_record = pytest.mark.parametrize("record", RECORDS, ids=lambda record: record.name)
CASES = [pytest.param(case.shape, id="x".join(map(str, case.shape))) for case in OP.checks]
TILES = [pytest.param({}, id="as planned"), pytest.param({"block_m": 2, "block_n": 16, "num_warps": 1}, id="2 x 16")]
NAN, INF = float("nan"), float("inf")


@pytest.mark.parametrize("dtype", OP.dtypes)
@pytest.mark.parametrize("shape", CASES)
@each_record
def test_matches_the_reference_and_leaves_its_inputs_alone(record, shape, dtype, device, poisoned):
    inputs = record.inputs(shape, dtype, device, seed=1)
    before = [whole_storage(each) for each in inputs]
    assert_matches(record, record.implementations[0].call(*inputs), inputs, dtype)
    assert all(torch.equal(whole_storage(each), kept) for each, kept in zip(inputs, before, strict=True))


@pytest.mark.parametrize("choice", TILES)
@pytest.mark.parametrize("width", [1, 16, 17, 100])
@each_record
def test_every_tile_fills_its_output_and_nothing_else(record, width, choice, device):
    inputs = record.inputs((5, width), "bfloat16", device, seed=2)
    banded = Banded((5, width), torch.bfloat16, device)
    assert launch_bias_act(*inputs, banded.out, **record.launch, **choice) is banded.out
    assert_matches(record, banded.out, inputs, "bfloat16")
    banded.assert_bands_untouched()


@pytest.mark.parametrize("name", views("cpu"))
def test_any_strides(name, device, poisoned):
    x = views(device)[name]
    bias = torch.linspace(-1, 1, 2 * x.shape[-1], device=device)[::2]
    assert_matches(OP, bias_act(x, bias, "relu", 0.5), (x, bias), "float32")
    assert_matches(MORE[0], bias_act(x, bias, "gelu"), (x, bias), "float32")


def test_relu_keeps_nan_and_gelu_is_what_pytorch_has(device):
    x = torch.tensor([[NAN, -INF, INF, -0.0, 0.0, -30.0, 30.0]], device=device)
    bias = torch.zeros(7, device=device)
    assert torch.equal(bias_act(x, bias)[0, 1:], torch.tensor([0.0, INF, 0.0, 0.0, 0.0, 30.0], device=device))
    assert bias_act(x, bias)[0, 0].isnan()
    expected = torch.nn.functional.gelu(x, approximate="tanh")
    torch.testing.assert_close(bias_act(x, bias, "gelu"), expected, rtol=1e-6, atol=1e-6, equal_nan=True)


@settings(deadline=None, max_examples=15, derandomize=True)
@given(rows=st.integers(1, 9), width=st.integers(1, 70), seed=st.integers(0, 10**6))
def test_relu_of_a_and_of_minus_a_differ_by_a(device, rows, width, seed):
    generator = torch.Generator(device).manual_seed(seed)
    x = torch.randn(rows, width, generator=generator, device=device)
    bias = torch.randn(width, generator=generator, device=device)
    assert torch.equal(bias_act(x, bias) - bias_act(-x, -bias), x + bias)
    both = bias_act(x, bias, "gelu") - bias_act(-x, -bias, "gelu")
    torch.testing.assert_close(both, x + bias, rtol=1e-5, atol=1e-6)
    assert torch.equal(bias_act(x, bias, "relu", 4.0), 4 * bias_act(x, bias))


def test_offsets_past_2_to_the_31(device):
    if device == "cuda" and torch.cuda.mem_get_info()[0] < 6e9:
        pytest.skip("needs 6 GB of free GPU memory")
    try:
        buffer = torch.empty(2**31 + 8, dtype=torch.bfloat16, device=device)
    except RuntimeError:
        pytest.skip("cannot reserve 4.3 GB of address space")
    x = buffer.as_strided((3, 8), (2**30, 1))
    for i in range(3):
        x[i] = i + 1
    bias = torch.ones(8, dtype=torch.bfloat16, device=device)
    assert bias_act(x, bias)[:, 0].tolist() == [2.0, 3.0, 4.0]


def test_an_empty_input_launches_nothing(device, monkeypatch):
    monkeypatch.setattr(module, "_launch", None)
    for shape in [(0, 8), (8, 0), (0,)]:
        assert bias_act(torch.empty(shape, device=device), torch.empty(shape[-1], device=device)).shape == shape


def test_what_is_refused(device, monkeypatch):
    monkeypatch.setattr(module, "_launch", None)
    x, bias = torch.ones(4, 8, device=device), torch.ones(8, device=device)
    for arguments, kind, message in [
        ((x, bias[:7]), ValueError, "bias has shape (7,); expected one number a column of x, (8,)."),
        (
            (x, bias.half()),
            TypeError,
            "bias has dtype float16; expected the dtype of x, float32: no dtype is promoted.",
        ),
        ((x, bias, "tanh"), ValueError, "activation is 'tanh'; expected 'relu' or 'gelu'."),
        ((x.sum(), bias), ValueError, "x has shape (); expected at least one dimension."),
        (([1.0], bias), TypeError, "x is a list; expected a torch.Tensor."),
    ]:
        with pytest.raises(kind) as error:
            bias_act(*arguments)
        assert str(error.value) == message
    with pytest.raises(ValueError, match="out overlaps x in memory"):
        launch_bias_act(x, bias, x)
    with pytest.raises(ValueError, match="block_m is 3"):
        launch_bias_act(x, bias, torch.empty_like(x), block_m=3)
