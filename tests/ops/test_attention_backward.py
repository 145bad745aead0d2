"""attention_backward as an operator of its own: its record, and what each way to compute it gives.

test_attention.py looks at the gradients of attention, through PyTorch.
"""

import pytest
import torch

from kernels.ops.attention_backward import OP

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
    assert_all_match(OP, way.call(*inputs), inputs, dtype)


def test_the_record_counts_five_products_of_the_visible_half():
    assert OP.flops((2, 4, 2, 8, 16, 32)) == 5 * 2 * (2 * 4 * 8 * 16 * 32) // 2


def test_what_is_kept_is_the_logarithm_of_each_sum_in_two_bases(device):
    q, k, _, _, lse, natural, _ = OP.inputs((1, 1, 1, 4, 4, 16), "float32", device, seed=2)
    score = (q.double() @ k.double().transpose(-1, -2) * 0.25).masked_fill(
        torch.ones(4, 4, dtype=torch.bool, device=device).triu(1), float("-inf")
    )
    torch.testing.assert_close(natural[..., 0].double(), torch.logsumexp(score, -1), rtol=1e-5, atol=1e-5)
    torch.testing.assert_close(lse.double(), natural[..., 0].double() / 0.6931471805599453, rtol=1e-6, atol=1e-6)
