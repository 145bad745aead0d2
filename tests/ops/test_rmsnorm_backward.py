"""rmsnorm_backward: values, layouts, every path, and the same bits in every run."""

import pytest
import torch

from kernels.ops import rmsnorm_backward as module
from kernels.ops.rmsnorm_backward import OP, launch_rmsnorm_backward, plan_backward, rmsnorm_backward

from .shared import Banded, assert_all_match, views, whole_storage

CASES = [pytest.param(case.shape, id="x".join(map(str, case.shape))) for case in OP.checks]
PATHS = [
    pytest.param({"path": "block"}, id="block"),
    pytest.param({"path": "block", "block_m": 1, "teams": 2}, id="block, one row a step"),
    pytest.param({"path": "split", "block": 16}, id="split"),
    pytest.param({"path": "split", "block": 16, "block_m": 2, "teams": 1}, id="split, two rows a step"),
]
if torch.cuda.is_available():  # elsewhere no program can wait for another
    PATHS.append(pytest.param({"path": "joint", "block": 16}, id="joint"))
    PATHS.append(pytest.param({"path": "joint", "block": 16, "block_m": 2, "teams": 2}, id="joint, two rows a step"))
NAN = float("nan")


@pytest.mark.parametrize("dtype", OP.dtypes)
@pytest.mark.parametrize("shape", CASES)
def test_matches_the_reference_and_leaves_its_inputs_alone(shape, dtype, device, poisoned):
    if shape[-1] > 5000 and dtype == "float16" and device == "cpu":
        pytest.skip("the interpreter takes seconds, and float16 differs from bfloat16 in its conversions only")
    inputs = OP.inputs(shape, dtype, device, seed=1)
    before = [whole_storage(each) for each in inputs]
    results = rmsnorm_backward(*inputs)
    assert_all_match(OP, results, inputs, dtype)
    assert all(torch.equal(whole_storage(each), kept) for each, kept in zip(inputs, before, strict=True))
    for first, again in zip(results, rmsnorm_backward(*inputs), strict=True):
        assert torch.equal(first, again)


@pytest.mark.parametrize("choice", PATHS)
@pytest.mark.parametrize("dtype", OP.dtypes)
@pytest.mark.parametrize("width", [1, 17, 100])
def test_every_path_fills_its_outputs_and_nothing_else(width, dtype, choice, device, poisoned):
    inputs = OP.inputs((5, width), dtype, device, seed=2)
    dx, dweight = (Banded(shape, inputs[0].dtype, device) for shape in ((5, width), (width,)))
    results = launch_rmsnorm_backward(*inputs, dx.out, dweight.out, **choice)
    assert results[0] is dx.out and results[1] is dweight.out
    assert_all_match(OP, results, inputs, dtype)
    dx.assert_bands_untouched()
    dweight.assert_bands_untouched()


@pytest.mark.parametrize("name", views("cpu"))
def test_gradients_of_any_strides(name, device, poisoned):
    dout = views(device)[name]
    x, residual, weight, root, _ = OP.inputs(tuple(dout.shape), "float32", device, seed=3, padding=0)
    for dtotal in (None, dout):
        results = rmsnorm_backward(x, residual, weight, root, dout, dtotal)
        expected = module.reference(x, residual, weight, root, dout, dtotal)
        rtol, atol = OP.tolerance("float32", tuple(dout.shape))
        for mine, theirs in zip(results, expected, strict=True):
            torch.testing.assert_close(mine.double(), theirs, rtol=rtol, atol=atol)
    assert_all_match(OP, rmsnorm_backward(dout, dout, weight, root, dout), (dout, dout, weight, root, dout), "float32")


def test_without_a_weight_or_a_residual(device):
    x, residual, weight, root, dout = OP.inputs((6, 20), "float32", device, seed=4)
    for given in ((x, None, weight, root, dout), (x, residual, None, root, dout), (x, None, None, root, dout)):
        dx, dweight = rmsnorm_backward(*given)
        expected = module.reference(*given)
        torch.testing.assert_close(dx.double(), expected[0], rtol=1e-5, atol=1e-4)
        assert dweight.shape == expected[1].shape


def test_the_gradient_is_at_right_angles_to_its_row(device):
    # Scaling a row changes nothing that rmsnorm returns, so a gradient has no part along the row.
    x, residual, weight, root, dout = OP.inputs((6, 50), "float32", device, seed=5, padding=0)
    z = x + residual
    dx, _ = rmsnorm_backward(x, residual, weight, root, dout)
    along = (dx * z).sum(-1).abs() / (dx.norm(dim=-1) * z.norm(dim=-1))
    assert (along < 1e-3).all()  # eps is part of the root: not quite at right angles for small rows


@pytest.mark.parametrize("choice", PATHS)
def test_offsets_past_2_to_the_31(choice, device):
    if device == "cuda" and torch.cuda.mem_get_info()[0] < 6e9:
        pytest.skip("needs 6 GB of free GPU memory")
    try:
        buffer = torch.empty(2**31 + 8, dtype=torch.bfloat16, device=device)
    except RuntimeError:
        pytest.skip("cannot reserve 4.3 GB of address space")
    dout = buffer.as_strided((3, 8), (2**30, 1))
    for i in range(3):
        dout[i] = torch.arange(8, device=device) * (i + 1)
    x, residual, weight, root, _ = OP.inputs((3, 8), "bfloat16", device, seed=6)
    dx, dweight = torch.full((3, 8), NAN, dtype=torch.bfloat16, device=device), torch.empty_like(weight)
    given = (x, residual, weight, root, dout)
    assert_all_match(OP, launch_rmsnorm_backward(*given, dx, dweight, **choice), given, "bfloat16")


def test_an_empty_gradient_launches_nothing(device, monkeypatch):
    monkeypatch.setattr(module, "_launch", None)
    for shape in [(0, 8), (8, 0)]:
        dx, dweight = rmsnorm_backward(*OP.inputs(shape, "float32", device, seed=1))
        assert dx.shape == shape and torch.equal(dweight, torch.zeros(shape[1], device=device))


def test_what_is_refused(device, monkeypatch):
    monkeypatch.setattr(module, "_launch", None)
    x, residual, weight, root, dout = OP.inputs((4, 8), "float32", device, seed=1)
    for given, message in [
        ((x, residual, weight, root[:3], dout), "root has shape (3,); expected one number a row of x, (4,)."),
        ((x, residual, weight, root, dout[:3]), "dout has shape (3, 8); expected the shape of x, (4, 8): no dimension "
         "is broadcast."),
        ((x, residual, weight[:7], root, dout), "weight has shape (7,); expected one number a column of x, (8,)."),
    ]:  # fmt: skip
        with pytest.raises(ValueError) as error:
            rmsnorm_backward(*given)
        assert str(error.value) == message
    with pytest.raises(TypeError, match="root has dtype float64; expected float32"):
        rmsnorm_backward(x, residual, weight, root.double(), dout)
    outs = torch.empty(4, 8, device=device), torch.empty(8, device=device)
    for choice, message in [
        ({"path": "looped"}, "path is 'looped'"),
        ({"block": 4}, "block is 4 for rows of 8 elements"),
        ({"teams": 0}, "teams is 0"),
        ({"block_m": 3}, "block_m is 3"),
    ]:
        with pytest.raises(ValueError, match=message):
            launch_rmsnorm_backward(x, residual, weight, root, dout, *outs, **choice)
    with pytest.raises(ValueError, match="dx overlaps dout in memory"):
        whole = dout.contiguous()
        launch_rmsnorm_backward(x, residual, weight, root, whole, whole, outs[1])
    if device == "cpu":
        with pytest.raises(ValueError, match='path is "joint" on the CPU'):
            launch_rmsnorm_backward(x, residual, weight, root, dout, *outs, path="joint")


def test_the_plan_keeps_partial_sums_few():
    for rows, columns in ((4096, 1024), (16384, 8192), (4096, 32768), (131072, 128), (1, 2**20), (3, 5)):
        plan = plan_backward(rows, columns, 132)
        assert 1 <= plan.teams <= 4 * 132 and plan.parts * plan.block_n >= columns
        assert plan.teams * plan.block_m <= max(rows, plan.block_m) + plan.block_m
    wide = plan_backward(4096, 32768, 132)
    assert (wide.path, wide.block_n, wide.num_warps, wide.parts, wide.teams) == ("joint", 2048, 4, 16, 33)
    wider = plan_backward(64, 131072, 132)
    assert (wider.path, wider.block_n, wider.num_warps, wider.parts, wider.teams) == ("joint", 4096, 8, 32, 8)
    assert plan_backward(4096, 32768, 132, element_bytes=4).teams == 24
    assert plan_backward(64, 131072, 132, element_bytes=4).teams == 8
    narrow = plan_backward(131072, 128, 132)
    assert (narrow.block_m, narrow.num_warps, narrow.teams) == (32, 8, 264)
    assert plan_backward(4096, 32768, 132, may_wait=False).path == "split"
    assert plan_backward(None, 1024, 132).teams == 528


@pytest.mark.gpu
@pytest.mark.parametrize("dtype", OP.dtypes)
@pytest.mark.parametrize("shape", [(300, 32768), (3, 40001), (150, 131072), (1, 65536)])
def test_rows_whose_sums_travel_in_words(shape, dtype):
    if not torch.cuda.is_available():
        pytest.skip("needs a GPU, where programs of one launch run at the same time")
    inputs = OP.inputs(shape, dtype, "cuda", seed=9)
    first = rmsnorm_backward(*inputs)
    for _ in range(3):
        assert all(torch.equal(a, b) for a, b in zip(rmsnorm_backward(*inputs), first, strict=True))
    assert_all_match(OP, first, inputs, dtype)
