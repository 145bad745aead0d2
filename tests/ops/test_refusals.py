"""What would give a wrong answer without a word is refused with a sentence, and nothing has been launched."""

import numpy as np
import pytest
import torch
from torch._subclasses import FakeTensorMode
from torch.autograd import forward_ad
from torch.fx.experimental.proxy_tensor import make_fx

from kernels.ops import (
    attention,
    attention_backward,
    bias_act,
    bias_act_backward,
    histogram,
    matmul,
    rmsnorm,
    rmsnorm_backward,
    row_sum,
    softmax,
    split_softmax,
)
from kernels.ops.add import add, launch_add
from kernels.ops.checks import MAX_EXTENT, MAX_PROGRAMS
from kernels.ops.matmul_train import matmul_train

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


def many(*shape: int) -> torch.Tensor:
    """A tensor of any shape over one number."""
    return torch.ones(1, device=DEVICE).expand(shape)


def batches() -> tuple[torch.Tensor, torch.Tensor]:
    """2**30 products of (1, 1) by (1, 520), which no tile covers at once. What b is over moves on along the second
    dimension alone: no rows of a."""
    b = torch.ones(2**15 + 520, device=DEVICE).as_strided((2**15, 2**15, 1, 520), (0, 1, 1, 1))
    return many(2**15, 2**15, 1, 1), b


ONE, FEW, TALL = many(2**16, 2**15, 1, 1), many(256, 1, 1, 1), many(2**20, 8)
TOO_MANY = {
    "split_softmax splits": lambda: split_softmax.split_softmax(TALL, splits=4096),
    "split_softmax rows": lambda: split_softmax.split_softmax(many(2**16, 2**15, 1)),
    "split_softmax launcher": lambda: split_softmax.launch_split_softmax(TALL, TALL.contiguous(), splits=2048),
    "split_states": lambda: split_softmax.split_states(TALL, 2048),
    "attention": lambda: attention.attention(ONE, ONE, ONE),
    "attention_backward queries": lambda: attention_backward.attention_backward(
        ONE, ONE[:, :1], ONE[:, :1], None, ONE, ONE[..., 0], ONE, False, 0, 1.0
    ),
    "attention_backward keys": lambda: attention_backward.attention_backward(
        FEW, many(256, 1, 2**30, 1), many(256, 1, 2**30, 1), None, FEW, FEW[..., 0], FEW, False, 0, 1.0
    ),
    "matmul": lambda: matmul.matmul(*batches()),
    "matmul launcher": lambda: matmul.launch_matmul(*batches(), many(2**15, 2**15, 1, 520), splits=64),
    "add": lambda: launch_add(*[torch.empty(2**31, dtype=torch.float16, device="meta")] * 3, block_size=1),
}


@pytest.mark.parametrize("name", TOO_MANY)
def test_more_programs_than_a_launch_holds_are_refused_before_memory_is_asked_for(name, device, monkeypatch):
    for module in (split_softmax, attention, attention_backward, matmul):
        for each in ("_outputs", "_launch", "_launch_either", "_launch_states"):
            monkeypatch.setattr(module, each, None, raising=False)
    # A contiguous tensor of such a shape would take the memory.
    monkeypatch.setattr("kernels.ops.checks.require_contiguous", lambda *_: None)
    monkeypatch.setattr("kernels.ops.checks.require_apart", lambda *_, **__: None)
    with pytest.raises(ValueError, match=rf"takes [0-9]+ programs; expected at most {MAX_PROGRAMS}"):
        TOO_MANY[name]()


def test_a_batch_of_products_that_fits_is_multiplied(device):
    a = torch.ones(3, 2, 5, 4, device=DEVICE)
    torch.testing.assert_close(matmul.matmul(a, a.mT), torch.full((3, 2, 5, 5), 4.0, device=DEVICE))


@pytest.mark.parametrize("name", ["add", "matmul_train"])
def test_a_call_that_is_no_operator_says_that_tracing_does_not_see_it(name, device):
    def call(x):
        return add(x, x) if name == "add" else matmul_train(x, x, x)[0]

    x = torch.ones(4, 4, device=DEVICE)
    for trace, by in (
        (lambda: torch.vmap(call)(torch.ones(2, 4, 4, device=DEVICE)), "torch.func"),
        (lambda: torch.func.functionalize(call)(x), "torch.func"),
        (lambda: make_fx(call)(x), "a mode that traces"),
        (lambda: make_fx(call, tracing_mode="symbolic")(x), "a mode that traces"),
    ):
        with pytest.raises(ValueError, match=f"is held by {by}, which does not see the kernel of this call"):
            trace()
    with FakeTensorMode(), pytest.raises(ValueError, match="a mode that traces"):
        call(torch.ones(4, 4, device=DEVICE))


def test_what_is_no_flag_count_or_tile_is_refused_with_a_sentence(device, monkeypatch):
    x = torch.ones(1, 1, 3, 4, device=DEVICE)
    for value in ("no", 1, None):
        with pytest.raises(TypeError, match=f"causal is {value!r}; expected True or False"):
            attention.attention(x, x, x, causal=value)
    for value in (None, 2.5, "3"):
        with pytest.raises(ValueError, match=f"splits is {value!r}; expected"):
            split_softmax.split_states(rows(), value)
    with pytest.raises(ValueError, match="window is -1"):
        attention_backward.attention_backward(x, x, x, None, x, x[..., 0].contiguous(), x, True, -1, 1.0)
    monkeypatch.setattr(bias_act, "_launch", None)
    half = torch.ones(2, 4096, dtype=torch.float16, device=DEVICE)
    with pytest.raises(ValueError, match="block_m is 1024 for 2048 columns; expected at most"):
        bias_act.launch_bias_act(half, half[0].clone(), half.clone(), block_m=1024)


def test_nan_in_a_value_reaches_who_sees_its_key_and_at_most_who_shares_a_tile_with_it(device):
    q, k, v = (torch.ones(1, 1, 300, 16, device=DEVICE) for _ in range(3))
    v[0, 0, 299] = float("nan")
    out = attention.attention(q, k, v, causal=True)[0, 0]
    assert out[299].isnan().all()
    assert out[298].isnan().all(), "the contract's sentence about tiles has no case"
    assert not out[: 300 - 128].isnan().any()  # no tile of a plan is larger
