"""bias_act_backward: values, layouts, and the same bits in every run."""

import pytest
import torch

from kernels.ops import bias_act_backward as module
from kernels.ops.bias_act_backward import MORE, OP, bias_act_backward, launch_bias_act_backward
from kernels.ops.op import ROUNDOFF

from .shared import Banded, assert_all_match, views, whole_storage

RECORDS = [OP, *MORE]
each_record = pytest.mark.parametrize("record", RECORDS, ids=lambda record: record.name)
CASES = [pytest.param(case.shape, id="x".join(map(str, case.shape))) for case in OP.checks]
TILES = [
    pytest.param({}, id="as planned"),
    pytest.param({"block_m": 2, "block_n": 16, "num_warps": 1, "programs": 2}, id="two programs of 2 x 16"),
]


@pytest.mark.parametrize("dtype", OP.dtypes)
@pytest.mark.parametrize("shape", CASES)
@each_record
def test_matches_the_reference_and_leaves_its_inputs_alone(record, shape, dtype, device, poisoned):
    inputs = record.inputs(shape, dtype, device, seed=1)
    before = [whole_storage(each) for each in inputs]
    call = record.implementations[0].call
    results = call(*inputs)
    assert_all_match(record, results, inputs, dtype)
    assert all(torch.equal(whole_storage(each), kept) for each, kept in zip(inputs, before, strict=True))
    assert all(torch.equal(*pair) for pair in zip(results, call(*inputs), strict=True))


@pytest.mark.parametrize("choice", TILES)
@pytest.mark.parametrize("width", [1, 16, 17, 100])
@each_record
def test_every_tile_fills_its_outputs_and_nothing_else(record, width, choice, device, poisoned):
    inputs = record.inputs((7, width), "bfloat16", device, seed=2)
    dx, dbias = (Banded(shape, torch.bfloat16, device) for shape in ((7, width), (width,)))
    results = launch_bias_act_backward(*inputs, dx.out, dbias.out, **record.launch, **choice)
    assert_all_match(record, results, inputs, "bfloat16")
    dx.assert_bands_untouched()
    dbias.assert_bands_untouched()


@pytest.mark.parametrize("name", views("cpu"))
@each_record
def test_gradients_of_any_strides(record, name, device, poisoned):
    dout = views(device)[name]
    x, bias, _ = record.inputs(tuple(dout.shape), "float32", device, seed=3, padding=0)
    for given in ((x, bias, dout), (dout, bias, dout)):
        assert_all_match(record, record.implementations[0].call(*given), given, "float32")


def test_the_slope_of_relu_at_zero_is_zero(device):
    x = torch.tensor([[-1.0, 0.0, 1.0]], device=device)
    dx, dbias = bias_act_backward(x, torch.zeros(3, device=device), torch.full((1, 3), 8.0, device=device), "relu", 0.5)
    assert dx.tolist() == [[0.0, 0.0, 4.0]] and dbias.tolist() == [0.0, 0.0, 4.0]


def test_the_slope_of_gelu_keeps_its_digits_where_the_gate_rounds_to_one(device):
    # 1 - gate would have an error of half a roundoff there, 5 * 1.6 * 4 times as large in the slope.
    x = torch.linspace(3, 7, 513, device=device).reshape(1, -1)
    one, bias = torch.ones_like(x), torch.zeros(513, device=device)
    dx, _ = bias_act_backward(x, bias, one, "gelu")
    expected, _ = module.reference(x, bias, one, "gelu")
    assert (dx.double() - expected).abs().max() < 3 * ROUNDOFF["float32"] * expected.abs().max()


def test_an_empty_gradient_launches_nothing(device, monkeypatch):
    monkeypatch.setattr(module, "_launch", None)
    for shape in [(0, 8), (8, 0)]:
        dx, dbias = bias_act_backward(*OP.inputs(shape, "float32", device, seed=1))
        assert dx.shape == shape and torch.equal(dbias, torch.zeros(shape[1], device=device))


def test_what_is_refused(device, monkeypatch):
    monkeypatch.setattr(module, "_launch", None)
    x, bias, dout = OP.inputs((4, 8), "float32", device, seed=1, padding=0)
    with pytest.raises(ValueError) as error:
        bias_act_backward(x, bias, dout[:3])
    assert str(error.value) == "dout has shape (3, 8); expected the shape of x, (4, 8): no dimension is broadcast."
    with pytest.raises(TypeError, match="dout is a float"):
        bias_act_backward(x, bias, 1.0)
    for dx, choice, message in [
        (x, {}, "dx overlaps x in memory"),
        (dout, {}, "dx overlaps dout in memory"),
        (torch.empty_like(x), {"programs": 0}, "programs is 0"),
        (torch.empty_like(x), {"block_n": 3}, "block_n is 3"),
        (torch.empty_like(x)[:, :7], {}, "dx has shape"),
    ]:
        with pytest.raises(ValueError, match=message):
            launch_bias_act_backward(x, bias, dout, dx, torch.empty_like(bias), **choice)


def test_one_program_down_a_strip_of_few_rows_writes_the_gradient_of_the_bias(device):
    for rows in (32, 33, 64, 65):  # 33 to 64 rows: strips half as wide, and one step
        tensors = OP.inputs((rows, 200), "float32", device, seed=2)
        assert_all_match(OP, OP.implementations[0].call(*tensors), tensors, "float32")
