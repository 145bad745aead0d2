"""What would give a wrong answer without a word is refused with a sentence, and nothing has been launched."""

import numpy as np
import pytest
import torch
from torch.autograd import forward_ad

from kernels.ops import bias_act, bias_act_backward, histogram, rmsnorm, rmsnorm_backward, row_sum, softmax
from kernels.ops.add import add, launch_add
from kernels.ops.checks import MAX_EXTENT

DEVICE = "cuda" if torch.cuda.is_available() else "cpu"
BIAS, ROOT = torch.ones(8, device=DEVICE), torch.ones(6, device=DEVICE)


def rows() -> torch.Tensor:
    return torch.ones(6, 8, device=DEVICE)


TANGENTS = {
    "add": lambda x: add(x, x),
    "row_sum": row_sum.row_sum,
    "softmax": softmax.softmax,
    "rmsnorm": rmsnorm.rmsnorm,
    "add_rmsnorm": lambda x: rmsnorm.add_rmsnorm(x, rows()),
    "bias_act": lambda x: bias_act.bias_act(x, BIAS),
}


@pytest.mark.parametrize("name", TANGENTS)
def test_a_tangent_is_refused_and_not_dropped(name, device):
    with forward_ad.dual_level(), pytest.raises(ValueError, match="x carries a forward-mode tangent"):
        TANGENTS[name](forward_ad.make_dual(rows(), rows()))
    if name != "add":
        with pytest.raises(ValueError, match="x carries a forward-mode tangent"):
            torch.func.jvp(TANGENTS[name], (rows(),), (rows(),))


LAUNCHERS = {
    "bias_act x": lambda: bias_act.launch_bias_act(rows().requires_grad_(), BIAS, rows()),
    "bias_act bias": lambda: bias_act.launch_bias_act(rows(), torch.ones(8, requires_grad=True, device=DEVICE), rows()),
    "bias_act_backward": lambda: bias_act_backward.launch_bias_act_backward(
        rows().requires_grad_(), BIAS, rows(), rows(), torch.ones(8, device=DEVICE)
    ),
    "rmsnorm": lambda: rmsnorm.launch_rmsnorm(rows(), rows().requires_grad_(), None, rows()),
    "rmsnorm_backward": lambda: rmsnorm_backward.launch_rmsnorm_backward(
        rows(), None, None, ROOT, rows().requires_grad_(), rows(), None
    ),
}


@pytest.mark.parametrize("name", LAUNCHERS)
def test_a_launcher_records_no_gradient_and_says_so(name, device):
    with pytest.raises(ValueError, match="requires a gradient, which this call does not record"):
        LAUNCHERS[name]()


def test_a_number_is_a_float_whatever_was_given(device, monkeypatch):
    given = []
    for module in (bias_act, bias_act_backward, rmsnorm):
        monkeypatch.setattr(module, "launch", lambda kernel, grid, arguments, **_: given.extend(arguments))
        monkeypatch.setattr(module, "sum_partials", lambda *_: None, raising=False)
    bias_act.bias_act(rows(), BIAS, scale=2)
    bias_act.launch_bias_act(rows(), BIAS, rows(), scale=2)
    bias_act_backward.bias_act_backward(rows(), BIAS, rows(), scale=2)
    rmsnorm.rmsnorm(rows(), eps=2)
    rmsnorm.add_rmsnorm(rows(), rows(), eps=2)
    rmsnorm.launch_rmsnorm(rows(), None, None, rows(), eps=2)
    assert [type(each) for each in given if not isinstance(each, torch.Tensor | None) and each == 2] == [float] * 6
    for call in (
        lambda: bias_act.bias_act(rows(), BIAS, scale="a"),
        lambda: bias_act_backward.bias_act_backward(rows(), BIAS, rows(), scale=None),
        lambda: rmsnorm.rmsnorm(rows(), eps=True),
    ):
        with pytest.raises(TypeError, match="; expected a number"):
            call()


@pytest.mark.parametrize(("eps", "root"), [(0.25, 2.0), (0.0, float("inf")), (-1.0, float("nan"))])
def test_rows_without_a_column_have_a_root_for_every_epsilon(eps, root, device):
    x = torch.empty(3, 0, requires_grad=True, device=DEVICE)
    rmsnorm.rmsnorm(x, eps=eps).sum().backward()
    assert x.grad.shape == (3, 0)
    _, _, roots = rmsnorm._kept(x.detach(), None, None, eps)
    torch.testing.assert_close(roots, torch.full((3,), root, device=DEVICE), equal_nan=True)


def test_a_root_with_gaps_is_refused(device):
    with pytest.raises(ValueError, match="root has strides"):
        rmsnorm_backward.rmsnorm_backward(rows(), None, None, torch.ones(12, device=DEVICE)[::2], rows())


def test_outputs_that_lie_on_anything_are_refused(device):
    wide = torch.ones(7, 8, device=DEVICE)
    with pytest.raises(ValueError, match="out overlaps bias"):
        bias_act.launch_bias_act(rows(), wide[0], wide[:6])
    with pytest.raises(ValueError, match="dbias overlaps dx"):
        bias_act_backward.launch_bias_act_backward(rows(), BIAS, rows(), wide[:6], wide[2])
    with pytest.raises(ValueError, match="dbias overlaps dout"):
        bias_act_backward.launch_bias_act_backward(rows(), BIAS, wide[:6], rows(), wide[2])
    with pytest.raises(ValueError, match="dweight overlaps dx"):
        rmsnorm_backward.launch_rmsnorm_backward(
            rows(), None, torch.ones(8, device=DEVICE), ROOT, rows(), wide[:6], wide[2]
        )
    with pytest.raises(ValueError, match="dx overlaps root"):
        rmsnorm_backward.launch_rmsnorm_backward(rows(), None, None, wide[0, :6], rows(), wide[:6], None)
    with pytest.raises(ValueError, match="dweight is a tensor where weight is None"):
        rmsnorm_backward.launch_rmsnorm_backward(rows(), None, None, ROOT, rows(), rows(), BIAS)


@pytest.mark.skipif(DEVICE == "cuda", reason="NumPy lends memory of the CPU")
def test_two_storages_over_one_memory_are_one_memory(device):
    numbers = np.ones(17, np.float32)
    x, out = torch.from_numpy(numbers[:16]), torch.from_numpy(numbers[1:])
    assert x.untyped_storage().data_ptr() != out.untyped_storage().data_ptr()
    with pytest.raises(ValueError, match=r"out overlaps x in memory \(bytes 4 to 68 and 0 to 64"):
        launch_add(x, torch.ones(16, device=DEVICE), out)


@pytest.mark.parametrize("shape", [(1, MAX_EXTENT + 1), (MAX_EXTENT + 1, 1), (2, MAX_EXTENT, 1)])
def test_more_rows_or_columns_than_tiles_are_counted_for(shape, device):
    x, bias = torch.ones(1, device=DEVICE).expand(shape), torch.ones(1, device=DEVICE).expand(shape[-1])
    for call in (
        lambda: bias_act.bias_act(x, bias),
        lambda: bias_act_backward.bias_act_backward(x, bias, x),
        lambda: rmsnorm_backward.rmsnorm_backward(
            x, None, None, torch.ones(1, device=DEVICE).expand(x[..., 0].numel()), x
        ),
    ):
        with pytest.raises(ValueError, match=f"expected at most {MAX_EXTENT}|root has strides"):
            call()


@pytest.mark.parametrize("count", [0, 2.5, "3", True])
def test_a_count_is_a_whole_number(count, device):
    x, out = torch.zeros(5, dtype=torch.int32, device=DEVICE), torch.zeros(4, dtype=torch.int64, device=DEVICE)
    for call in (
        lambda: histogram.launch_histogram(x, out, programs=count),
        lambda: bias_act_backward.launch_bias_act_backward(
            rows(), BIAS, rows(), rows(), torch.ones(8, device=DEVICE), programs=count
        ),
        lambda: rmsnorm_backward.launch_rmsnorm_backward(rows(), None, None, ROOT, rows(), rows(), None, teams=count),
    ):
        with pytest.raises(ValueError, match="expected a whole number"):
            call()
    with pytest.raises(ValueError, match="programs is 65536; expected a whole number, at least 1 and at most 65535"):
        bias_act_backward.launch_bias_act_backward(
            rows(), BIAS, rows(), rows(), torch.ones(8, device=DEVICE), programs=65536
        )


def test_a_tile_that_triton_cannot_hold_is_refused(device):
    with pytest.raises(ValueError, match="block_m is 1024 for 8192 columns"):
        bias_act.launch_bias_act(rows(), BIAS, rows(), block_m=1024, block_n=8192)
    with pytest.raises(ValueError, match="block_m is 64 for 32768 columns"):
        rmsnorm_backward.launch_rmsnorm_backward(
            rows(), None, None, ROOT, rows(), rows(), None, block_m=64, block=32768
        )


def test_relu_passes_the_gradient_on_where_the_sum_is_nan(device):
    x, dout = rows(), rows() * 3
    x[2, 3] = float("nan")
    dx, dbias = bias_act_backward.bias_act_backward(x, BIAS, dout, "relu", 0.5)
    assert dx[2, 3] == 1.5 and dbias[3] == 9.0
    wanted, _ = bias_act_backward.reference(x, BIAS, dout, "relu", 0.5)
    torch.testing.assert_close(dx.double(), wanted)
    gelu, _ = bias_act_backward.bias_act_backward(x, BIAS, dout, "gelu")
    assert gelu[2, 3].isnan() and bias_act_backward.reference(x, BIAS, dout, "gelu")[0][2, 3].isnan()
