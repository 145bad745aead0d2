"""rmsnorm: values, layouts, the sum that is not rounded, and both outputs' gradients."""

import math

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch._subclasses import FakeTensorMode

from kernels.ops import rmsnorm as module
from kernels.ops.rmsnorm import OP, add_rmsnorm, launch_rmsnorm, rmsnorm
from kernels.ops.rmsnorm_plan import plan_rmsnorm

from .shared import Banded, assert_matches, views, whole_storage

CASES = [pytest.param(case.shape, id="x".join(map(str, case.shape))) for case in OP.checks]
PATHS = [pytest.param({"path": "block"}, id="block"), pytest.param({"path": "split", "block": 16}, id="split")]
if torch.cuda.is_available():  # elsewhere no program can wait for another
    PATHS.append(pytest.param({"path": "joint", "block": 16}, id="joint"))
NAN = float("nan")


@pytest.mark.parametrize("dtype", OP.dtypes)
@pytest.mark.parametrize("shape", CASES)
def test_matches_the_reference_and_leaves_its_inputs_alone(shape, dtype, device, poisoned):
    if shape[-1] > 5000 and dtype == "float16" and device == "cpu":
        pytest.skip("the interpreter takes seconds, and float16 differs from bfloat16 in its conversions only")
    inputs = OP.inputs(shape, dtype, device, seed=1)
    before = [whole_storage(each) for each in inputs]
    assert_matches(OP, rmsnorm(*inputs), inputs, dtype)
    assert all(torch.equal(whole_storage(each), kept) for each, kept in zip(inputs, before, strict=True))


@pytest.mark.parametrize("choice", PATHS)
@pytest.mark.parametrize("dtype", OP.dtypes)
@pytest.mark.parametrize("width", [1, 16, 17, 100])
def test_every_path_fills_its_output_and_nothing_else(width, dtype, choice, device):
    inputs = OP.inputs((5, width), dtype, device, seed=2)
    banded = Banded((5, width), inputs[0].dtype, device)
    assert launch_rmsnorm(*inputs, banded.out, **choice) is banded.out
    assert_matches(OP, banded.out, inputs, dtype)
    banded.assert_bands_untouched()


@pytest.mark.parametrize("name", views("cpu"))
def test_any_strides(name, device, poisoned):
    x = views(device)[name]
    weight = torch.arange(1.0, 2 * x.shape[-1] + 1, device=device)[::2]  # every other number
    for residual in (torch.ones_like(x), views(device)[name]):
        assert_matches(OP, rmsnorm(x, residual, weight), (x, residual, weight), "float32")
    assert torch.equal(rmsnorm(x.reshape(-1, x.shape[-1])).reshape(x.shape), rmsnorm(x))


def test_without_residual_or_weight(device):
    x, residual, weight = OP.inputs((4, 33), "float32", device, seed=3)
    for given_residual in (None, residual):
        for given_weight in (None, weight):
            out = rmsnorm(x, given_residual, given_weight)
            expected = module.reference(x, given_residual, given_weight)
            torch.testing.assert_close(out.double(), expected, rtol=1e-6, atol=1e-6)


def test_the_sum_is_rounded_for_nobody_but_its_own_output(device):
    # 1 + 2**-9 is 1 in bfloat16. With this weight the result is 113.79 from the sum as it is, and 113.59 from the
    # rounded one; bfloat16 has 113.5 and 114.
    x = torch.tensor([[1.0, 3.0]], dtype=torch.bfloat16, device=device)
    residual = torch.tensor([[2.0**-9, 0.0]], dtype=torch.bfloat16, device=device)
    weight = torch.full((2,), 254.0, dtype=torch.bfloat16, device=device)
    out, total = add_rmsnorm(x, residual, weight, 0.0)
    assert torch.equal(total, x + residual) and total[0, 0] == 1
    assert torch.equal(out, rmsnorm(x, residual, weight, 0.0))
    assert out[0, 0] == 114 and rmsnorm(total, None, weight, 0.0)[0, 0] == 113.5
    assert add_rmsnorm(x, residual)[1] is not x


@settings(deadline=None, max_examples=15, derandomize=True)
@given(rows=st.integers(1, 7), width=st.integers(1, 70), power=st.integers(-20, 20), seed=st.integers(0, 10**6))
def test_rows_have_mean_square_one_whatever_their_scale(device, rows, width, power, seed):
    x = torch.randn(rows, width, generator=torch.Generator(device).manual_seed(seed), device=device) + 0.1
    out = rmsnorm(x, eps=0.0)
    torch.testing.assert_close(out.square().mean(-1), torch.ones(rows, device=device), rtol=1e-5, atol=0)
    assert torch.equal(rmsnorm(x * 2.0**power, eps=0.0), out)  # powers of two change no bit


@pytest.mark.parametrize("choice", PATHS)
def test_zeros_and_what_is_no_number(choice, device):
    x = torch.ones(4, 20, device=device)
    x[1], x[2, 17], x[3, 3] = 0, NAN, float("inf")
    out = launch_rmsnorm(x, None, None, torch.full_like(x, 9.0), **choice)
    assert (out[1] == 0).all() and out[2].isnan().all() and out[3, 3].isnan()
    torch.testing.assert_close(out[0], torch.ones(20, device=device))
    assert launch_rmsnorm(x, None, None, torch.empty_like(x), eps=0.0, **choice)[1].isnan().all()


@pytest.mark.parametrize("choice", PATHS)
def test_offsets_past_2_to_the_31(choice, device):
    if device == "cuda" and torch.cuda.mem_get_info()[0] < 6e9:
        pytest.skip("needs 6 GB of free GPU memory")
    try:
        buffer = torch.empty(2**31 + 8, dtype=torch.bfloat16, device=device)
    except RuntimeError:
        pytest.skip("cannot reserve 4.3 GB of address space")
    x = buffer.as_strided((3, 8), (2**30, 1))
    for i in range(3):
        x[i] = i + 1
    out = launch_rmsnorm(x, x, None, torch.full((3, 8), NAN, dtype=torch.bfloat16, device=device), **choice)
    assert (out == 1).all()


GRADIENT = torch.tensor([[1.0, 0.0]]), torch.tensor([[10.0, 20.0]])


@pytest.mark.parametrize(
    ("used", "expected"),
    [
        ((True, True), [10.1810, 19.8642]),
        ((True, False), [0.1810, -0.1358]),
        ((False, True), [10.0, 20.0]),
    ],
    ids=["both outputs", "the normed one", "the sum"],
)
def test_the_sums_gradient_joins_after_the_norms(used, expected, device):
    x = torch.tensor([[1.0, 1.0]], device=device, requires_grad=True)
    residual = torch.tensor([[2.0, 3.0]], device=device, requires_grad=True)
    weight = torch.ones(2, device=device, requires_grad=True)
    outs = add_rmsnorm(x, residual, weight, 0.0)
    assert [each.tolist() for each in outs[1]] == [[3.0, 4.0]]
    loss = sum((out * g.to(device)).sum() for out, g, use in zip(outs, GRADIENT, used, strict=True) if use)
    loss.backward()
    for leaf in (x, residual):
        torch.testing.assert_close(leaf.grad, torch.tensor([expected], device=device), rtol=1e-4, atol=5e-5)
    assert weight.grad.tolist() == ([0.0, 0.0] if not used[0] else [pytest.approx(3 / math.sqrt(12.5)), 0.0])


def test_leaves_that_want_no_gradient_get_none(device):
    x = torch.randn(3, 8, device=device)
    residual = torch.randn(3, 8, device=device, requires_grad=True)
    rmsnorm(x, residual).sum().backward()
    assert x.grad is None and residual.grad.shape == (3, 8)
    plain = x.clone().requires_grad_()
    rmsnorm(plain).sum().backward()
    wide = x.double().requires_grad_()
    module.reference(wide, None, None).sum().backward()
    torch.testing.assert_close(plain.grad.double(), wide.grad, rtol=1e-5, atol=1e-6)


def test_no_rows_leave_a_weights_gradient_of_zeros(device):
    for shape in ((0, 8), (4, 0)):
        x = torch.empty(shape, device=device, requires_grad=True)
        weight = torch.ones(shape[-1], device=device, requires_grad=True)
        out = rmsnorm(x, None, weight)
        assert out.shape == shape
        out.sum().backward()
        assert x.grad.shape == shape and torch.equal(weight.grad, torch.zeros_like(weight))


def test_an_empty_input_launches_nothing(device, monkeypatch):
    monkeypatch.setattr(module, "_launch", None)
    for shape in [(0, 8), (8, 0), (0,), (2, 0, 5)]:
        assert rmsnorm(torch.empty(shape, device=device)).shape == shape


def test_what_is_refused(device, monkeypatch):
    monkeypatch.setattr(module, "_launch", None)
    x = torch.ones(4, 8, device=device)
    column = "expected one number a column of x, (8,)."
    for arguments, kind, message in [
        ((x, None, torch.ones(7, device=device)), ValueError, f"weight has shape (7,); {column}"),
        ((x, None, torch.ones(16, device=device)), ValueError, f"weight has shape (16,); {column}"),
        ((x, None, torch.ones(8, 1, device=device)), ValueError, f"weight has shape (8, 1); {column}"),
        (
            (x, None, torch.ones(8, device=device).half()),
            TypeError,
            "weight has dtype float16; expected the dtype of x, float32: no dtype is promoted.",
        ),
        (
            (x, x[:3], None),
            ValueError,
            "residual has shape (3, 8); expected the shape of x, (4, 8): no dimension is broadcast.",
        ),
        ((x, x.bfloat16(), None), TypeError, "residual has dtype bfloat16; expected the dtype of x, float32: no dtype "
         "is promoted."),
        ((x, None, torch.ones(8, device="meta")), ValueError, f"weight is on meta; expected the device of x, "
         f"{x.device}."),
        ((x.sum(), None, None), ValueError, "x has shape (); expected at least one dimension."),
        (([1.0], None, None), TypeError, "x is a list; expected a torch.Tensor."),
    ]:  # fmt: skip
        with pytest.raises(kind) as error:
            rmsnorm(*arguments)
        assert str(error.value) == message
    with pytest.raises(ValueError, match="out overlaps x in memory"):
        launch_rmsnorm(x, None, None, x)
    with pytest.raises(ValueError, match="path is 'looped'; expected"):
        launch_rmsnorm(x, None, None, torch.empty_like(x), path="looped")
    with pytest.raises(ValueError, match="block is 4 for rows of 8 elements; expected at least 8"):
        launch_rmsnorm(x, None, None, torch.empty_like(x), path="block", block=4)


def test_a_wide_row_of_float32_is_shared_where_launches_begin_early(monkeypatch):
    monkeypatch.setattr("kernels.ops.rmsnorm_plan.starts_early", lambda *_: True)
    wide = plan_rmsnorm(torch.empty(4096, 32768, device="meta"))
    assert (wide.path, wide.block_n, wide.num_warps, wide.parts) == ("joint", 4096, 4, 8)
    for shape, dtype in (((4096, 16384), torch.float32), ((4096, 32768), torch.bfloat16)):
        assert plan_rmsnorm(torch.empty(shape, dtype=dtype, device="meta")).path == "block"


def test_parts_of_few_rows_of_float32_are_small_where_all_of_them_run_at_once(monkeypatch):
    def planned(rows, columns, dtype=torch.float32, path=None):
        with FakeTensorMode():
            made = plan_rmsnorm(torch.empty(rows, columns, dtype=dtype, device="cuda"), path)
        assert made.path == "joint"
        return made.block_n, made.num_warps

    monkeypatch.setattr("kernels.ops.row_plan.sm_count", lambda _: 132)
    monkeypatch.setattr("kernels.ops.rmsnorm_plan.sm_count", lambda _: 132)
    monkeypatch.setattr("kernels.ops.rmsnorm_plan.starts_early", lambda *_: True)
    assert planned(64, 131072) == (4096, 4)
    assert planned(64, 131072, path="joint") == planned(64, 131072, torch.bfloat16) == (8192, 8)
    assert planned(64, 2**20) == (8192, 8)  # 256 smaller parts would wait for one another
    assert planned(4, 32768) == (2048, 4)  # few rows, of which each must have many parts
    monkeypatch.setattr("kernels.ops.rmsnorm_plan.starts_early", lambda *_: False)
    assert planned(64, 131072) == (8192, 8)


def test_the_plan():
    def plan(rows, columns, dtype=torch.bfloat16):
        made = plan_rmsnorm(torch.empty(rows, columns, dtype=dtype, device="meta"))
        return made.path, made.block_m, made.block_n, made.num_warps

    assert plan(4096, 1024) == ("block", 2, 1024, 4)
    assert plan(131072, 128) == ("block", 16, 128, 4)
    assert plan(16384, 4096) == ("block", 1, 4096, 16)
    assert plan(16384, 4096, torch.float32) == ("block", 1, 4096, 16)  # never walked twice
    assert plan(4096, 32768, torch.float32) == ("block", 1, 32768, 16)
    assert plan(4096, 32768) == ("block", 1, 32768, 32)
    assert plan(200, 40000)[0] == "split"  # not on a GPU: nobody can wait


@pytest.mark.gpu
@pytest.mark.parametrize("dtype", OP.dtypes)
@pytest.mark.parametrize("shape", [(64, 131072), (3, 32770), (133, 40001), (1, 1 << 20)])
def test_rows_whose_sums_travel_in_words(shape, dtype):
    if not torch.cuda.is_available():
        pytest.skip("needs a GPU, where programs of one launch run at the same time")
    inputs = OP.inputs(shape, dtype, "cuda", seed=9)
    first = rmsnorm(*inputs)
    for _ in range(3):
        assert torch.equal(rmsnorm(*inputs), first)
    assert_matches(OP, first, inputs, dtype)
