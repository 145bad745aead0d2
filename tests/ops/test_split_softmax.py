"""split_softmax: values for any number of splits, its states, layouts, special rows, and what it refuses."""

import pytest
import torch

from kernels.ops import split_softmax as module
from kernels.ops.split_softmax import OP, launch_split_softmax, plan_splits, split_softmax, split_states

from .shared import Framed, assert_matches, views

# The interpreter of Triton 3.6 reads a run-time loop bound in a way that numpy deprecates.
pytestmark = pytest.mark.filterwarnings("ignore:Conversion of an array with ndim:DeprecationWarning")

CASES = [pytest.param(case.shape, id="x".join(map(str, case.shape))) for case in OP.checks]
INF, NAN = float("inf"), float("nan")


@pytest.mark.parametrize("dtype", OP.dtypes)
@pytest.mark.parametrize("shape", CASES)
def test_matches_the_reference(shape, dtype, device, poisoned):
    inputs = OP.inputs(shape, dtype, device, seed=1)
    assert_matches(OP, split_softmax(*inputs), inputs, dtype)


@pytest.mark.parametrize("splits", [1, 2, 7, 20])
@pytest.mark.parametrize("width", [1, 15, 16, 17, 100])  # fewer columns than splits, too
def test_any_number_of_splits_fills_the_output_and_nothing_else(width, splits, device):
    (x,) = OP.inputs((3, width), "float32", device, seed=2)
    framed = Framed(3, width, x.dtype, device)
    assert launch_split_softmax(x, framed.out, splits=splits) is framed.out
    assert_matches(OP, framed.out.contiguous(), (x,), "float32")
    framed.assert_frame_untouched()


def test_a_split_is_a_whole_number_of_tiles_and_splits_cover_the_row():
    for M, N, splits in ((1, 1 << 24, None), (32, 1 << 20, None), (4, 4097, 2), (3, 5, 128), (7, 1000, 3)):
        count, columns, tile = plan_splits(M, N, 132, splits)
        assert count * columns >= N and columns % tile == 0 and tile <= module.TILE
        assert splits is None or count == splits
    assert plan_splits(1, 1 << 24, 132)[0] == 16 * 132 and plan_splits(16384, 4096, 132)[0] == 1


@pytest.mark.parametrize("name", views("cpu"))
def test_any_strides(name, device, poisoned):
    x = views(device)[name]
    assert_matches(OP, split_softmax(x, splits=3), (x,), "float32")


def test_states_are_those_of_the_formula_and_merge_to_the_row(device):
    (x,) = OP.inputs((3, 1000), "float32", device, seed=3)
    x[1, :256] = -INF
    maxima, sums = split_states(x, 4)  # of 256 columns each
    for s in range(4):
        part = x[:, s * 256 : (s + 1) * 256].double()
        highest = part.amax(1)
        expected = torch.where(highest == -INF, 0.0, torch.exp(part - highest[:, None].nan_to_num(neginf=0.0)).sum(1))
        assert torch.equal(maxima[:, s].double(), highest)
        torch.testing.assert_close(sums[:, s].double(), expected, rtol=OP.tolerance("float32", (3, 256))[0], atol=0)
    row = maxima.amax(1, keepdim=True)
    total = (sums * torch.exp(maxima - row)).sum(1).double()
    rtol, _ = OP.tolerance("float32", (3, 1000))
    torch.testing.assert_close(total, torch.exp(x.double() - row.double()).sum(1), rtol=rtol, atol=0)
    assert split_states(x[:, :0], 2).tolist() == [[[-INF] * 2] * 3, [[0.0] * 2] * 3]


SPECIAL = {
    "first split masked": [-INF] * 16 + [1.0, 2.0],
    "all splits but one masked": [-INF] * 40 + [3.0] + [-INF] * 20,
    "fully masked": [-INF] * 33,
    "plus infinity late": [1.0] * 17 + [INF],
    "NaN first": [NAN] + [1.0] * 20,
    "NaN among masked": [-INF] * 17 + [NAN],
    "equal": [3.0] * 20,
}


@pytest.mark.parametrize("splits", [1, 4])
@pytest.mark.parametrize("dtype", OP.dtypes)
@pytest.mark.parametrize("name", SPECIAL)
def test_special_values_as_pytorch(name, dtype, splits, device):
    row = torch.tensor(SPECIAL[name], dtype=getattr(torch, dtype), device=device)
    x = torch.stack([torch.zeros_like(row), row, torch.zeros_like(row)])  # its neighbours must not notice
    out, expected = split_softmax(x, splits=splits), torch.softmax(x, dim=-1)
    rtol, atol = OP.tolerance(dtype, x.shape)
    torch.testing.assert_close(out.double(), expected.double(), rtol=2 * rtol, atol=atol, equal_nan=True)


@pytest.mark.parametrize("shape,strides", [((3, 8), (2**30, 1)), ((2, 3), (1, 2**30))], ids=["rows", "columns"])
def test_offsets_past_2_to_the_31(shape, strides, device):
    if device == "cuda" and torch.cuda.mem_get_info()[0] < 6e9:
        pytest.skip("needs 6 GB of free GPU memory")
    try:
        buffer = torch.empty(2**31 + 8, dtype=torch.bfloat16, device=device)
    except RuntimeError:
        pytest.skip("cannot reserve 4.3 GB of address space")
    x = buffer.as_strided(shape, strides)
    for i in range(3):
        x.select(strides.index(2**30), i).fill_(i + 1)
    assert_matches(OP, split_softmax(x, splits=2), (x,), "bfloat16")


def test_the_gradient_is_that_of_softmax(device):
    (x,) = OP.inputs((3, 100), "float32", device, seed=4)
    dy = torch.randn(3, 100, generator=torch.Generator(device).manual_seed(5), device=device)
    (ours,) = torch.autograd.grad(split_softmax(x.requires_grad_(), splits=4), x, dy)
    precise = x.detach().double().requires_grad_()
    (theirs,) = torch.autograd.grad(torch.softmax(precise, -1), precise, dy.double())
    rtol, atol = OP.gradient_tolerance("float32", (3, 100))
    torch.testing.assert_close(ours.double(), theirs, rtol=rtol, atol=atol)


def test_what_pytorch_asks_of_an_operator(device):
    (x,) = OP.inputs((2, 100), "float32", device, seed=6, padding=0)
    for splits in (None, 3):
        torch.library.opcheck(module._split_softmax, (x.requires_grad_(), splits))


def test_empty_input_launches_nothing(device, monkeypatch):
    monkeypatch.setattr(module, "_launch", None)
    for shape in ((0, 8), (8, 0), (2, 0, 5)):
        assert split_softmax(torch.empty(shape, device=device), splits=2).shape == shape


@pytest.mark.parametrize(
    "call,error,sentence",
    [
        (lambda x: split_softmax(x, splits=0), ValueError, "splits is 0; expected None or a whole number from 1"),
        (lambda x: split_softmax(x, splits=5000), ValueError, "splits is 5000"),
        (lambda x: split_softmax(x, splits=2.0), ValueError, r"splits is 2\.0"),
        (lambda x: split_softmax(x[0, 0]), ValueError, r"x has shape \(\)"),
        (lambda x: split_softmax(x.int()), TypeError, "x has dtype int32"),
        (lambda x: split_states(x[0], 2), ValueError, r"x has shape \(8,\); expected two dimensions"),
        (lambda x: launch_split_softmax(x, x.half()), TypeError, "out has dtype float16"),
        (lambda x: launch_split_softmax(x, x), ValueError, "out overlaps x"),
        (
            lambda x: launch_split_softmax(x, torch.empty(8, 4, device=x.device).t()),
            ValueError,
            "expected a column stride of 1",
        ),
    ],
)
def test_what_it_refuses(call, error, sentence, device):
    with pytest.raises(error, match=sentence):
        call(torch.zeros(4, 8, device=device))
