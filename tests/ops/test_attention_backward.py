"""attention_backward as an operator of its own: its record, and what each way to compute it gives.

test_attention.py looks at the gradients of attention, through PyTorch.
"""

import pytest
import torch
from torch._dynamo.source import ConstantSource
from torch.fx.experimental.symbolic_shapes import DimDynamic, ShapeEnv

from kernels.ops import attention_backward as module
from kernels.ops.attention_backward import OP, attention_backward

from .shared import assert_all_match

CASES = [pytest.param(case.shape, id="x".join(map(str, case.shape))) for case in OP.checks]


@pytest.mark.parametrize("name", [each.name for each in OP.implementations])
@pytest.mark.parametrize("dtype", OP.dtypes)
@pytest.mark.parametrize("shape", CASES)
def test_matches_the_reference(shape, dtype, name, device, poisoned):
    way = OP.implementation(name)
    if way.needs == "torch":
        if device == "cpu" and name != "torch":
            pytest.skip("compared on a GPU")
        if dtype not in way.dtypes or shape[1] != shape[2] or shape[3] != shape[4]:
            pytest.skip("takes other dtypes, or masks other keys")
    inputs = OP.inputs(shape, dtype, device, seed=1, padding=0 if way.needs == "torch" else 3)
    found = way.call(*inputs)
    if way.needs == "torch":  # how PyTorch lays its results out is its own affair
        found = tuple(each.contiguous() for each in found)
    assert_all_match(OP, found, inputs, dtype)


def test_the_record_counts_five_products_of_the_visible_half():
    assert OP.flops((2, 4, 2, 8, 16, 32)) == 5 * 2 * (2 * 4 * 8 * 16 * 32) // 2


def test_what_is_kept_is_the_logarithm_of_each_sum_in_two_bases(device):
    q, k, _, _, lse, natural, _ = OP.inputs((1, 1, 1, 4, 4, 16), "float32", device, seed=2)
    score = (q.double() @ k.double().transpose(-1, -2) * 0.25).masked_fill(
        torch.ones(4, 4, dtype=torch.bool, device=device).triu(1), float("-inf")
    )
    torch.testing.assert_close(natural[..., 0].double(), torch.logsumexp(score, -1), rtol=1e-5, atol=1e-5)
    torch.testing.assert_close(lse.double(), natural[..., 0].double() / 0.6931471805599453, rtol=1e-6, atol=1e-6)


def _other_strides(tensor):
    return tensor.transpose(1, 2).contiguous().transpose(1, 2)


WRONG = {  # which of q, k, v, lengths, out, lse, dout is changed, how, and what the sentence says
    "a row of q is missing": (0, lambda t: t[0], "q has shape .*; expected \\(batch, heads, positions, head size\\)"),
    "another head size": (1, lambda t: t[..., :8], "k has shape .*; expected batch and head size of q"),
    "another dtype": (2, lambda t: t.double(), "v has dtype float64; expected"),
    "lengths of 64 bits": (3, lambda _: torch.tensor([3, 4]), "lengths has dtype int64; expected"),
    "a length too many": (3, lambda _: torch.tensor([3, 4, 5], dtype=torch.int32), "lengths has shape \\(3,\\)"),
    "out in another order": (4, _other_strides, "out has strides .*; expected it contiguous"),
    "the logarithm of one head": (5, lambda t: t[:, :1].contiguous(), "lse has shape \\(2, 1, 9\\)"),
    "logarithms in another order": (5, lambda t: t.mT.contiguous().mT, "lse has strides .*; expected it contiguous"),
    "dout of fewer heads": (6, lambda t: t[:, :1], "dout has shape .*; expected the shape of out"),
}


@pytest.mark.parametrize("name", WRONG)
def test_what_does_not_fit_together_is_refused(name, device):
    q, k, v, out, lse, _, dout = OP.inputs((2, 2, 1, 9, 9, 16), "float32", device, seed=3)
    given = [q, k, v, None, out, lse, dout]
    attention_backward(*given, True, 0, 0.25)
    place, change, said = WRONG[name]
    changed = change(given[place])
    given[place] = changed.to(device) if place == 3 else changed
    with pytest.raises((TypeError, ValueError), match=said):
        attention_backward(*given, True, 0, 0.25)


def test_a_window_that_torch_compile_left_open_is_settled(device, monkeypatch):
    source, sizes = ConstantSource("window"), ShapeEnv()
    symbol = sizes.create_symbol(5, source=source, dynamic_dim=DimDynamic.DYNAMIC, constraint_dim=None)
    window = sizes.create_symintnode(symbol, hint=5, source=source)
    launched = []
    monkeypatch.setattr(module, "_launch_either", lambda *given: launched.append(given))
    q, k, v, out, lse, _, dout = OP.inputs((1, 2, 1, 9, 9, 16), "float32", device, seed=4)
    module._forward(q, k, v, None, out, lse, dout, True, window, 0.25)
    assert [type(each[-2]) for each in launched] == [int] and launched[0][-2] == 5
