"""Attention's one-pass backward kernel: on a GPU by its values; without one, as Python over a model of the machine."""

import json
import re

import pytest
import torch

from kernels.inspect.limits import shared_limit_bytes
from kernels.ops import attention_gluon_backward_launch as host
from kernels.ops.attention import OP, attention, reference, visible_keys
from kernels.ops.attention_shared import LOG2_E
from tests.ops import gluon_model, test_attention, test_attention_gluon
from tests.ops.gluon_model import Broken

pytestmark = pytest.mark.triton


def modelled(shape, causal, seed, changes=(), low=False):
    """The kernel over the model against gradients of the reference in float64. low: every score is near -190."""
    q, k, v = OP.inputs(shape, "float16", "cpu", seed, padding=8)
    q = q * 0.5
    if low:
        q[..., 0], k[..., 0] = 16.0, -40.0
    scale = 0.3
    precise = [t.double().requires_grad_() for t in (q, k, v)]
    expected = reference(*precise, None, causal, 0, scale)
    dout = torch.randn(expected.shape, generator=torch.Generator().manual_seed(seed)).half()
    expected.backward(dout.double())
    group = shape[1] // shape[2]
    score = scale * q.double() @ k.double().repeat_interleave(group, 1).transpose(-1, -2)
    seen = visible_keys(shape[0], shape[3], shape[4], None, causal, 0, torch.device("cpu"))[:, None]
    lse = (torch.logsumexp(score.masked_fill(~seen, float("-inf")), -1) * LOG2_E).float()
    lse = torch.where(seen.any(-1), lse, float("inf"))
    found = gluon_model.gradients(q, k, v, expected.detach().half(), lse, dout, causal, scale, seed, changes)
    rtol, atol = OP.gradient_tolerance("float16", shape)
    for mine, theirs in zip(found, precise, strict=True):
        torch.testing.assert_close(mine.double(), theirs.grad, rtol=rtol, atol=atol)


SHAPES = ((1, 2, 1, 200, 200, 16), (2, 2, 2, 65, 130, 16), (1, 1, 1, 150, 70, 16), (1, 1, 1, 1, 129, 16))


@pytest.mark.interpreted
@pytest.mark.parametrize("causal", [False, True], ids=["all keys", "causal"])
@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_the_kernel_is_right_in_any_order_of_events(shape, causal):
    for seed in (1, 2, 3):
        modelled(shape, causal, seed)


BREAKS = {
    "a product does not wait for dout": ("        mbarrier.wait(o_there.index(slot), phase)\n", ""),
    "queries are handed back before they are read": (
        "        dk, dq, s = warpgroup_mma_wait(num_outstanding=0, deps=(dk, dq, s))\n"
        "        mbarrier.arrive(q_free.index(slot), count=1)",
        "        mbarrier.arrive(q_free.index(slot), count=1)\n"
        "        dk, dq, s = warpgroup_mma_wait(num_outstanding=0, deps=(dk, dq, s))",
    ),
    "scores are used too early": (
        "score = warpgroup_mma_wait(num_outstanding=1, deps=(score,))",
        "score = warpgroup_mma_wait(num_outstanding=2, deps=(score,))",
    ),
    "a product does not wait for its queries": ("        mbarrier.wait(q_there.index(slot), phase)\n", ""),
    "dout is never handed back": ("        mbarrier.arrive(o_free.index(slot), count=1)\n", ""),
    "one arrival hands a buffer back": (
        "q_free = _barriers(STAGES, 1), _barriers(STAGES, 2)",
        "q_free = _barriers(STAGES, 1), _barriers(STAGES, 1)",
    ),
    "consumers do not meet": ("        mbarrier.wait(ds_there.index(turn), i // 2 & 1)\n", ""),
    "one buffer of dscore": ("turn = i % 2", "turn = i % 1"),
    "dscore is multiplied without a fence": (
        ".store(dscore)\n        fence_async_shared()\n",
        ".store(dscore)\n",
    ),
    "rows of the tile before": ("        mbarrier.wait(r_there.index(slot), phase)\n", ""),
    "dweight is used too early": (
        "dweight = warpgroup_mma_wait(num_outstanding=1",
        "dweight = warpgroup_mma_wait(num_outstanding=2",
    ),
    "the same half twice": (".slice(GROUP * HALF, HALF, 1)", ".slice(0, HALF, 1)"),
    "the next query head begins a tile late": ("    if block == first:", "    if block == first + 1:"),
}  # fmt: skip


@pytest.mark.interpreted
@pytest.mark.parametrize("name", BREAKS)
def test_the_model_sees_what_is_broken(name):
    with pytest.raises((Broken, AssertionError, IndexError)):
        for seed in range(8):
            modelled((1, 2, 1, 300, 300, 16), True, seed, (BREAKS[name],))


@pytest.mark.interpreted
def test_keys_behind_the_last_one_have_no_weight_however_low_the_scores():
    modelled((1, 1, 1, 70, 100, 16), False, 1, low=True)
    with pytest.raises(AssertionError):
        change = ("gl.where(n < Sk, weight, 0.0)", "weight")
        modelled((1, 1, 1, 70, 100, 16), False, 1, (change,), low=True)


@pytest.mark.parametrize("causal", [False, True], ids=["all keys", "causal"])
def test_products_stay_asynchronous_and_dq_is_added_four_numbers_at_a_time(causal):
    fact = test_attention_gluon.compiled(json.dumps({"dtype": "bfloat16", "causal": causal}))
    assert fact["registers"] <= host.REGISTERS and fact["shared_bytes"] <= shared_limit_bytes(90)
    # ptxas says so where it cannot leave wgmma asynchronous. Addresses go to local memory and back.
    assert "Potential Performance Loss" not in fact["log"] and fact["spills"] <= 448
    assert len(fact["loops"]) == 2 and "mma.sync" not in fact["ptx"]
    for loop in fact["loops"]:
        kinds = [re.search(r"HGMMA\S*|WARPGROUP\.DEPBAR|REDG\S*F32x4|MUFU\.EX2", line) for line in loop]
        kinds = [kind[0].split(".")[0] for kind in kinds if kind]
        assert kinds.count("REDG") == 8 and kinds.count("MUFU") >= 32
        # Scores and dweight begin together; between the waits for the two stand the weights. dq is added at the end.
        waits = [place for place, kind in enumerate(kinds) if kind == "WARPGROUP"]
        assert len(waits) == 4 and kinds[: waits[0]] == ["HGMMA"] * 16
        assert waits[0] < kinds.index("MUFU") < waits[1]
        assert kinds.index("REDG") > waits[-1] and "HGMMA" not in kinds[waits[-1] :]


@pytest.fixture
def one_pass(monkeypatch):
    """Gradients of attention by the one-pass kernel, wherever it can; skips where it cannot run."""
    if not torch.cuda.is_available() or torch.cuda.get_device_capability() != (9, 0):
        pytest.skip("needs a GPU of compute capability 9.0: no other runs the kernel, and nothing interprets it")
    monkeypatch.setattr(host, "ENABLED", True)
    taken = []
    launch = host.launch_one_pass
    monkeypatch.setattr(host, "launch_one_pass", lambda *arguments: (taken.append(1), launch(*arguments)))
    return taken


RUN = [
    pytest.param(shape, id="x".join(map(str, shape)))
    for shape in (
        (1, 1, 1, 128, 128, 128),
        (2, 4, 2, 5, 70, 128),
        (1, 2, 1, 300, 129, 128),
        (2, 2, 2, 1, 1000, 128),
        (1, 3, 1, 700, 700, 128),
    )
]


@pytest.mark.gpu
@pytest.mark.parametrize("causal", [False, True], ids=["all keys", "causal"])
@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
@pytest.mark.parametrize("shape", RUN)
def test_gradients(shape, dtype, causal, one_pass, poisoned):
    inputs = [t.requires_grad_() for t in OP.inputs(shape, dtype, "cuda", seed=4, padding=8)]
    out = attention(*inputs, causal=causal)
    dout = torch.randn_like(out)
    out.backward(dout)
    assert one_pass
    precise = [t.detach().double().requires_grad_() for t in inputs]
    expected = reference(*precise, causal=causal)
    expected.backward(dout.double())
    found = out.detach(), expected.detach(), [t.grad for t in inputs], [t.grad for t in precise]
    test_attention.assert_right(shape, dtype, found)


@pytest.mark.gpu
@pytest.mark.parametrize("Sk", [1, 70, 300])
def test_nothing_is_written_beside_the_gradients(Sk, one_pass):
    """The copy engine writes dk and dv, of heads of 128 elements: whole pieces of 16 bytes."""
    shape = (2, 2, 2, 90, Sk, 128)
    q, k, v = OP.inputs(shape, "bfloat16", "cuda", seed=9, padding=8)
    out = attention(q, k, v)
    precise = [t.double().requires_grad_() for t in (q, k, v)]
    dout = torch.randn_like(out)
    reference(*precise).backward(dout.double())
    lse = torch.logsumexp(precise[0].detach() @ precise[1].detach().mT * 128**-0.5, -1).mul(LOG2_E).float()
    band, made, bands = 4096, [], []
    for t in (q, k, v):
        around = torch.full((t.numel() + 2 * band,), 7.0, dtype=t.dtype, device="cuda")
        bands += [around[:band], around[band + t.numel() :]]
        made.append(around[band : band + t.numel()].view(t.shape))
    host.launch_one_pass(q, k, v, out, lse, dout, *made, False, 128**-0.5)
    rtol, atol = OP.gradient_tolerance("bfloat16", shape)
    for mine, theirs in zip(made, precise, strict=True):
        torch.testing.assert_close(mine.double(), theirs.grad, rtol=rtol, atol=atol)
    assert all((each == 7).all() for each in bands)


@pytest.mark.gpu
def test_who_asks_for_one_order_gets_the_two_passes(one_pass):
    inputs = [t.requires_grad_() for t in OP.inputs((1, 2, 1, 300, 300, 128), "bfloat16", "cuda", seed=5, padding=8)]
    torch.use_deterministic_algorithms(True)
    try:
        once = torch.autograd.grad(attention(*inputs, causal=True).sum(), inputs)
        again = torch.autograd.grad(attention(*inputs, causal=True).sum(), inputs)
    finally:
        torch.use_deterministic_algorithms(False)
    assert not one_pass and all(torch.equal(a, b) for a, b in zip(once, again, strict=True))


def test_what_it_does_not_take_and_says_so():
    q = torch.empty(2, 4, 8, 128, dtype=torch.float16)
    assert "head size 64" in host.refusal_backward(*(q[..., :64],) * 4, None, 0, 1.0)
    assert "a window" in host.refusal_backward(q, q, q, q, None, 5, 1.0)
    assert "lengths" in host.refusal_backward(q, q, q, q, torch.tensor([3, 4]), 0, 1.0)
    torch.use_deterministic_algorithms(True)
    try:
        assert "in any order" in host.refusal_backward(q, q, q, q, None, 0, 1.0)
    finally:
        torch.use_deterministic_algorithms(False)
