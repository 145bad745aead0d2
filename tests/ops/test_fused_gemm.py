"""fused_gemm: what follows the product, in the same pass, rounded once."""

import itertools

import pytest
import torch

from kernels.ops import fused_gemm as module
from kernels.ops.fused_gemm import MORE, OP, fused_gemm, launch_fused_gemm, reference, rounded_once

from .shared import Banded

RECORDS = [OP, *MORE]
CASES = [pytest.param(case.shape, id="x".join(map(str, case.shape))) for case in OP.checks]
SMALL = {"block_m": 16, "block_n": 16, "block_k": 16}
WAYS = {
    "tiles": {"path": "tiles", **SMALL},
    "slices": {"path": "tiles", **SMALL, "splits": 3},
    "turned": {"path": "tiles", **SMALL, "turned": True},
    "persistent": {"path": "persistent", **SMALL},
    "persistent, in halves": {"path": "persistent", "block_m": 16, "block_n": 32, "block_k": 16, "subtiles": 2},
    "persistent, turned": {"path": "persistent", **SMALL, "turned": True, "splits": 2},
}
WAYS = [pytest.param(way, id=name) for name, way in WAYS.items()]


def assert_rounded_once(out, expected, shape):
    dtype = str(out.dtype).removeprefix("torch.")
    rtol, atol = rounded_once(dtype, shape)
    torch.testing.assert_close(out.double(), expected, rtol=rtol, atol=2 * atol)


@pytest.mark.parametrize("record", RECORDS, ids=lambda record: record.name)
@pytest.mark.parametrize("dtype", OP.dtypes)
@pytest.mark.parametrize("shape", CASES)
def test_matches_the_reference(shape, dtype, record, device, poisoned):
    operands = record.inputs(shape, dtype, device, seed=1)
    out = record.implementation("triton").call(*operands)
    assert out.shape == (*shape[:-3], shape[-3], shape[-2]) and out.is_contiguous()
    assert_rounded_once(out, record.reference(*operands), shape)


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("activation", ["none", "relu", "gelu"])
@pytest.mark.parametrize("has_bias,has_residual", list(itertools.product([False, True], repeat=2)))
def test_every_way_has_every_part(has_bias, has_residual, activation, way, device):
    a, b, bias = OP.inputs((33, 40, 72), "bfloat16", device, seed=2, padding=0)
    residual = torch.randn(40, 33, device=device).bfloat16().t()  # column by column
    bias = torch.stack([bias, bias], 1)[:, 0]  # every other number
    parts = (bias if has_bias else None, residual if has_residual else None)
    banded = Banded((33, 40), a.dtype, device)
    launch_fused_gemm(a, b, parts[0], banded.out, residual=parts[1], activation=activation, scale=0.5, **way)
    expected = reference(a, b, *parts, activation=activation, scale=0.5)
    assert_rounded_once(banded.out, expected, (33, 40, 72))
    banded.assert_bands_untouched()


def test_one_rounding_not_four(device):
    # 256 + 1 is no bfloat16: rounded before the residual is added, the sum would be 0 or 2.
    a, b = torch.full((16, 16), 16.0, device=device).bfloat16(), torch.eye(16, device=device).bfloat16()
    bias = torch.full((16,), 241.0, device=device).bfloat16()
    residual = torch.full((16, 16), -256.0, device=device).bfloat16()
    assert (fused_gemm(a, b, bias, residual) == 1.0).all()


def test_leading_dimensions_and_no_product(device):
    a, b = torch.randn(2, 3, 5, 7, device=device), torch.randn(7, 4, device=device)
    residual = torch.randn(3, 2, 5, 4, device=device).transpose(0, 1)
    expected = reference(a, b, None, residual, "relu", 2.0)
    torch.testing.assert_close(fused_gemm(a, b, None, residual, "relu", 2.0).double(), expected, rtol=1e-5, atol=1e-5)
    empty, bias = torch.ones(3, 0, device=device), torch.arange(4.0, device=device) - 1
    out = fused_gemm(empty, torch.ones(0, 4, device=device), bias, activation="relu")
    assert out.tolist() == [[0.0, 0.0, 1.0, 2.0]] * 3
    odd = fused_gemm(torch.tensor([[float("nan")]], device=device), torch.ones(1, 1, device=device), activation="relu")
    assert odd.isnan().all()


def test_opcheck_and_one_graph(device):
    a, b, bias = OP.inputs((5, 4, 6), "float32", device, seed=3)
    residual = torch.randn(4, 5, device=device).t()
    for left, right in ((a, b), (a.t()[:4].t(), b[:4]), (a[:0], b)):
        rest = residual if len(left) else residual[:0]
        found = torch.library.opcheck(module._fused_gemm_operator, (left, right, bias, rest, "gelu", 0.5, "ieee"))
        assert set(found.values()) == {"SUCCESS"}
    compiled = torch.compile(
        lambda x: fused_gemm(fused_gemm(x, b, bias, activation="relu"), b[:4]), fullgraph=True, backend="aot_eager"
    )
    torch.testing.assert_close(compiled(a), fused_gemm(fused_gemm(a, b, bias, activation="relu"), b[:4]))


@pytest.mark.parametrize(
    "change,error,message",
    [
        ({"bias": (3,)}, ValueError, "bias has shape (3,); expected (4,), one number a column."),
        ({"residual": (4, 5)}, ValueError, "residual has shape (4, 5); expected (5, 4)."),
        ({"b": (2, 6, 4)}, ValueError, "b has shape (2, 6, 4); expected two dimensions, (K, N)."),
        ({"activation": "tanh"}, ValueError, 'activation is \'tanh\'; expected "none", "relu" or "gelu".'),
    ],
)
def test_refuses_before_any_launch(change, error, message, device, monkeypatch):
    monkeypatch.setattr(module, "launch_product", None)
    shapes = {"a": (5, 6), "b": (6, 4), "bias": (4,), "residual": (5, 4)}
    given = {"activation": "relu"}
    for name, shape in (shapes | {k: v for k, v in change.items() if k in shapes}).items():
        given[name] = torch.ones(shape, device=device)
    with pytest.raises(error) as caught:
        fused_gemm(**(given | {k: v for k, v in change.items() if k not in shapes}))
    assert str(caught.value) == message


def test_a_gradient_is_refused(device):
    a, b, bias = (x.requires_grad_() for x in OP.inputs((5, 4, 6), "float32", device, seed=4, padding=0))
    with pytest.raises(NotImplementedError, match="fused_gemm has no derivative"):
        fused_gemm(a, b, bias).sum().backward()
