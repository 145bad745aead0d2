"""The Gluon attention kernel: on a GPU by its values; without one, as Python over a model of the machine, and compiled.

What only a GPU can say stands in the tests marked gpu, which go through the readable kernel's own test function.
"""

import dataclasses
import inspect
import json
import os
import re
import subprocess
import sys
import weakref
from functools import cache
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from kernels.inspect.limits import shared_limit_bytes
from kernels.ops import attention_gluon
from kernels.ops import attention_gluon_launch as host
from kernels.ops.attention import OP, attention, reference, visible_keys
from kernels.ops.attention_gluon_launch import RingPlan, plan_ring, refusal
from tests.ops import gluon_model, test_attention
from tests.ops.gluon_model import Broken, Machine

pytestmark = pytest.mark.triton
ROWS = 4  # queries of a consumer in the model, in the place of 64

PLANS = {
    "each": RingPlan(block_n=8),
    "pingpong": RingPlan(block_n=16, pingpong=True),
    "persistent": RingPlan(block_n=8, slots=2, stages=3, schedule="planned"),
    "everything": RingPlan(groups=3, block_n=8, slots=2, section=2, schedule="planned", pingpong=True),
    "strided": RingPlan(block_n=8, section=3, schedule="strided", pingpong=True),
    "mixed": RingPlan(block_n=8, slots=2, schedule="strided", mixed=True),
}


@pytest.fixture
def small(monkeypatch):
    monkeypatch.setattr(host, "ROWS", ROWS)


def modelled(shape, plan, causal, window, lengths, seed, changes=()):
    """The kernel over the model against the reference: out, and lse in base 2. NaN lies behind each sequence's end."""
    q, k, v = OP.inputs(shape, "float16", "cpu", seed, padding=8)
    if lengths is not None:
        for b, length in enumerate(lengths.tolist()):
            k[b, :, length:], v[b, :, length:] = float("nan"), float("nan")
    out, lse = gluon_model.attend(q, k, v, lengths, causal, window, 0.3, plan, 3, seed, ROWS, changes)
    k, v = k.nan_to_num(), v.nan_to_num()
    expected = reference(q, k, v, lengths, causal, window, 0.3)
    rtol, atol = OP.tolerance("float16", shape)
    torch.testing.assert_close(out.double(), expected, rtol=rtol, atol=atol)
    score = 0.3 * q.double() @ k.double().repeat_interleave(shape[1] // shape[2], 1).transpose(-1, -2)
    seen = visible_keys(shape[0], shape[3], shape[4], lengths, causal, window, "cpu")[:, None]
    rows = torch.logsumexp(score.masked_fill(~seen, float("-inf")), -1) * host.LOG2_E
    rows = torch.where(seen.any(-1), rows, float("inf"))
    torch.testing.assert_close(lse.double(), rows, rtol=1e-3, atol=1e-3)


@pytest.mark.parametrize("name", PLANS)
@pytest.mark.parametrize("options", [(False, 0), (True, 0), (True, 5), (True, 40)], ids=str)
@pytest.mark.parametrize("ragged", [False, True], ids=["", "lengths"])
def test_the_kernel_is_right_in_any_order_of_events(name, options, ragged, small):
    for seed, Sq, Sk in ((1, 19, 23), (2, 30, 9), (3, 7, 41)):
        lengths = torch.tensor([Sk // 2, 0 if Sq > Sk else Sk], dtype=torch.int32) if ragged else None
        modelled((2, 2, 1, Sq, Sk, 8), PLANS[name], *options, lengths, seed)


@given(
    st.integers(1, 2), st.integers(1, 2), st.integers(1, 2), st.integers(1, 40), st.integers(1, 40), st.booleans(),
    st.integers(0, 50), st.booleans(), st.sampled_from(list(PLANS)), st.integers(0, 2**16),
)  # fmt: skip
@settings(max_examples=15, deadline=None)
def test_any_shape_in_the_model(B, Hkv, group, Sq, Sk, causal, window, ragged, name, seed):
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(host, "ROWS", ROWS)
        lengths = torch.randint(0, Sk + 1, (B,), dtype=torch.int32) if ragged else None
        shape = (B, Hkv * group, Hkv, Sq, Sk, 8)
        modelled(shape, PLANS[name], causal, window if causal else 0, lengths, seed)


BREAKS = {
    "a product does not wait for its keys": (
        "mbarrier.wait(k_there.index(slot), step // STAGES & 1)\n            if PINGPONG",
        "if PINGPONG",
    ),
    "keys are handed back before they are read": (
        "score = warpgroup_mma_wait(num_outstanding=1, deps=(score,))\n"
        "            mbarrier.arrive(k_free.index(slot), count=1)",
        "mbarrier.arrive(k_free.index(slot), count=1)\n"
        "            score = warpgroup_mma_wait(num_outstanding=1, deps=(score,))",
    ),
    "values are never handed back": (
        "mbarrier.arrive(v_free.index(before), count=1)\n            step += 1",
        "step += 1",
    ),
    "one arrival hands a buffer back": (
        "k_free, k_there = _barriers(STAGES, GROUPS)",
        "k_free, k_there = _barriers(STAGES, 1)",
    ),
    "the producer waits for the other phase": ("(step + j) // STAGES & 1 ^ 1", "(step + j) // STAGES & 1"),
    "nobody is a turn ahead": ("& 1 ^ (GROUP == 0)", "& 1"),
    "the queries are overwritten too early": ("            tma.store_wait(0)\n            gone", "            gone"),
    "the result leaves without a fence": ("        fence_async_shared()\n", ""),
    "sums are not brought to the new maximum": (
        "            acc = _scaled(acc, keep)\n            p",
        "            p",
    ),
    "the wrong values": (
        "kv_ring.index(STAGES + before)), acc, is_async=True)\n            if PING",
        "kv_ring.index(STAGES + slot)), acc, is_async=True)\n            if PING",
    ),
    "a result is used too early": (
        "deps=(score,))\n            mbarrier.arrive",
        "deps=(acc,))\n            mbarrier.arrive",
    ),
    "a copy ends behind the sequence": ("FAR - length + row, 0]", "FAR - length - 1 + row, 0]"),
}


@pytest.mark.parametrize("name", BREAKS)
def test_the_model_sees_what_is_broken(name, small):
    lengths = torch.tensor([21], dtype=torch.int32)
    with pytest.raises((Broken, AssertionError)):
        for seed in range(6):
            modelled((1, 4, 2, 30, 40, 8), PLANS["everything"], True, 0, lengths, seed, (BREAKS[name],))


@given(
    st.integers(1, 40), st.integers(1, 60), st.integers(0, 60), st.booleans(), st.integers(0, 70),
    st.sampled_from([2, 4, 8, 16]), st.sampled_from([2, 3]),
)  # fmt: skip
@settings(max_examples=300, deadline=None)
def test_masked_blocks_by_brute_force(Sq, Sk, length, causal, window, block_n, groups):
    length, window = min(length, Sk), window if causal else 0
    stretches = gluon_model.load_kernel(Machine(0), 0, 1, ROWS)["_stretches"]
    seen = visible_keys(1, Sq, Sk, torch.tensor([length]), causal, window, torch.device("cpu"))[0]
    keys = -(-Sk // block_n) * block_n + block_n
    seen = torch.nn.functional.pad(seen, (0, keys - Sk)).view(Sq, -1, block_n)
    rows = groups * ROWS
    for first in range(0, Sq, rows):
        begin, left, right, end = stretches(first, Sq, length, rows, block_n, causal, window)
        assert 0 <= begin <= left <= right <= end - 1 and (end - 1) * block_n < max(Sk, 1)
        tile = seen[first : first + rows]
        touched = set(tile.any(-1).any(0).nonzero().flatten().tolist())
        assert touched <= set(range(begin, end)), "a block with a visible key is not visited"
        assert len(touched) == end - begin or window or not touched, "a block without one is"
        assert tile[:, left:right].all(), "a block that is not masked has a key that some query does not see"


def test_a_planned_schedule_has_every_tile_once_and_no_program_waits_long():
    for heads, S, causal, section, window in ((64, 4096, True, 1, 0), (16, 16384, True, 4, 0), (7, 777, True, 3, 100)):
        plan, programs = RingPlan(section=section, schedule="planned"), 132
        order = host.planned_order(heads, S, S, causal, window, plan, programs)
        starts, blocks = order[: programs + 1], -(-S // plan.tile_rows)
        assert starts[0] == programs + 1 and starts[-1] == len(order) - 1
        assert sorted(order[programs + 1 : -1]) == list(range(heads * blocks))
        place = gluon_model.load_kernel(Machine(0), 0, 1, 64)["_place"]
        work = []
        for begin, end in pairwise(starts):
            tiles = [place(t, None, heads, heads, S, S, plan.tile_rows, section, False)[0] for t in order[begin:end]]
            work.append(sum(host.blocks_of(m, S, S, causal, window, plan.tile_rows, plan.block_n) for m in tiles))
        if heads > 7:
            assert max(work) < 1.05 * sum(work) / programs


def test_the_list_of_a_captured_launch_is_kept_whatever_else_is_launched():
    # A CUDA graph that captured a launch holds its list's address alone; another tensor would get memory given back.
    plan, cpu = RingPlan(schedule="planned"), torch.device("cpu")
    captured = weakref.ref(host._order_on(cpu, 1, 128, 128, True, 0, plan, 1))
    for keys in range(1, 513):
        host._order_on(cpu, 1, 128, keys, False, 0, plan, 1)
    assert captured() is not None


VIEWS = {
    "contiguous": (lambda t: t, None),
    "positions before heads": (lambda t: t.transpose(1, 2).contiguous().transpose(1, 2), None),
    "one key head repeated": (lambda t: t[:, :1].expand(-1, 4, -1, -1), None),
    "every second position": (lambda t: t[:, :, ::2], None),
    "heads before batch": (lambda t: t.transpose(0, 1).contiguous().transpose(0, 1), None),
    "one position repeated": (lambda t: t[:, :, :1].expand(-1, -1, 8, -1), "one position is repeated"),
    "columns apart": (lambda t: t.repeat_interleave(2, -1)[..., ::2], "do not lie side by side"),
    "a row of 68": (lambda t: torch.nn.functional.pad(t, (0, 4))[..., :64], "not a multiple of 16 bytes"),
    "an odd address": (lambda t: torch.cat([t.flatten(), t.flatten()])[1 : t.numel() + 1].view(t.shape), "an address"),
}


@pytest.mark.parametrize("name", VIEWS)
def test_which_views_a_tensor_map_describes(name):
    view, why = VIEWS[name]
    x = view(torch.randn(3, 4, 8, 64).half())
    if why is not None:
        assert why in host.undescribable(x)
        return
    assert host.undescribable(x) is None
    _, _, b_steps, h_steps = host.as_heads(x)
    read = gluon_model.Map(host.describe(x, 64)).read
    for b, h in ((0, 0), (1, 3), (2, 1)):
        found = read([b * b_steps + h * h_steps, 0, 0])[0]
        assert torch.equal(found[: x.shape[2]], x[b, h]) and (found[x.shape[2] :] == 0).all()


def test_a_map_of_a_ragged_tensor_ends_where_each_load_says():
    x = torch.randn(2, 3, 100, 64).half()
    read = gluon_model.Map(host.describe(x, 32, ragged=True)).read
    for length, row in ((100, 64), (70, 64), (33, 0), (0, 0), (64, 64)):
        found = read([host.FARTHEST, length, 4, host.FARTHEST - length + row, 0])[0, 0, 0]
        there = max(0, min(32, length - row))
        assert torch.equal(found[:there], x[1, 1, row : row + there]) and (found[there:] == 0).all()


def test_what_it_does_not_take_and_says_so():
    q = torch.empty(2, 4, 8, 64, dtype=torch.float16)
    assert "head size 64 of torch.float32" in refusal(q.float(), q.float(), q.float(), 1.0)
    assert "head size 32" in refusal(*(q[..., :32],) * 3, 1.0)
    assert "empty" in refusal(q[:, :, :0], q, q, 1.0)
    assert "scale -1.0" in refusal(q, q, q, -1.0)
    if not torch.cuda.is_available():
        assert "compute capability 9.0 alone" in refusal(q, q, q, 1.0)
    with torch._subclasses.fake_tensor.FakeTensorMode():
        assert "traces" in refusal(*(torch.empty(2, 4, 8, 64, dtype=torch.float16),) * 3, 1.0)


def test_what_it_does_not_take_goes_to_the_readable_kernel(monkeypatch, device):
    monkeypatch.setattr(host, "ENABLED", True)
    monkeypatch.setattr(host, "launch_ring", lambda *_: pytest.fail("the Gluon kernel was launched"))
    q, k, v = OP.inputs((1, 2, 1, 5, 9, 64), "float32", device, seed=1)
    torch.testing.assert_close(attention(q, k, v).double(), reference(q, k, v), rtol=1e-4, atol=1e-4)


COMPILED = {
    "heads of 128": {"D": 128, "dtype": "bfloat16", "plan": dataclasses.asdict(plan_ring(128, True, 4096)),
                     "causal": True},
    "heads of 64": {"D": 64, "dtype": "float16", "plan": dataclasses.asdict(plan_ring(64, True, 4096)), "causal": True,
                    "window": 300, "ragged": True},
    "heads of 64, all keys": {"D": 64, "dtype": "bfloat16", "plan": dataclasses.asdict(plan_ring(64, False, 4096))},
    "heads of 128, all keys": {"D": 128, "dtype": "bfloat16", "plan": dataclasses.asdict(plan_ring(128, False, 4096))},
    "three consumers": {"D": 64, "dtype": "bfloat16", "plan": {"groups": 3, "block_n": 64, "pingpong": True}},
}  # fmt: skip


def facts(name: str) -> dict:
    return compiled(json.dumps({"causal": False, "window": 0, "ragged": False} | COMPILED[name]))


@cache
def compiled(options: str) -> dict:
    environment = {name: value for name, value in os.environ.items() if not name.startswith("TRITON_")}
    script = Path(__file__).with_name("compile_attention_gluon.py")
    root = str(script.parents[2])
    environment["PYTHONPATH"] = os.pathsep.join([root, environment.get("PYTHONPATH", "")])
    command = [sys.executable, script, options]
    done = subprocess.run(command, capture_output=True, text=True, env=environment, cwd=root)
    assert done.returncode == 0, done.stderr[-2000:]
    return json.loads(done.stdout)


@pytest.mark.parametrize("name", COMPILED)
def test_it_compiles_and_fits(name):
    fact = facts(name)
    assert fact["registers"] <= 168 and fact["shared_bytes"] <= shared_limit_bytes(90)
    assert re.search(r"\.target sm_90a", fact["ptx"])
    assert "Potential Performance Loss" not in fact["log"]  # ptxas says so where it cannot leave wgmma asynchronous
    # Some numbers of a tile go to local memory and back, once a tile; nothing does in the loop over blocks.
    assert fact["spills"] <= 128
    assert not [line for loop in fact["loops"] for line in loop if re.search(r"\b(LDL|STL)\b", line)]


@pytest.mark.parametrize("name", COMPILED)
def test_one_warp_fetches_and_the_groups_get_its_registers(name):
    ptx, plan = facts(name)["ptx"], RingPlan(**COMPILED[name]["plan"])
    assert f".reqntid {128 * (plan.groups + 1)}" in ptx
    granted = [int(number) for number in re.findall(r"setmaxnreg\.\w+\.sync\.aligned\.u32\s+(\d+)", ptx)]
    assert granted.count(plan.registers[1]) >= plan.groups - 1 and 24 in granted
    assert ptx.count("cp.async.bulk.tensor.5d.shared") == (
        COMPILED[name]["D"] // 64 if COMPILED[name].get("ragged") else 0
    )
    assert ptx.count("cp.async.bulk.tensor.3d.global") >= plan.groups and "mma.sync" not in ptx


@pytest.mark.parametrize("name", COMPILED)
def test_weights_are_computed_while_the_second_product_runs(name):
    loops, plan = facts(name)["loops"], RingPlan(**COMPILED[name]["plan"])
    assert len(loops) == plan.groups
    for loop in loops:
        kinds = [re.search(r"HGMMA|WARPGROUP\.DEPBAR|MUFU\.EX2", line) for line in loop]
        kinds = [kind[0] for kind in kinds if kind]
        products = COMPILED[name]["D"] // 16 + plan.block_n // 16
        assert kinds[:products] == ["HGMMA"] * products, "both products are started before anything is waited for"
        assert kinds[products] == kinds[-1] == "WARPGROUP.DEPBAR" and kinds.count("WARPGROUP.DEPBAR") == 2
        unit = plan.block_n // 2 * 3 // 4 if plan.mixed else plan.block_n // 2
        assert kinds.count("MUFU.EX2") == unit + 2, "between the two waits, the exponentials"


def test_which_plan_a_shape_gets():
    assert plan_ring(64, False, 4096) == RingPlan(slots=2, schedule="strided", mixed=True)
    assert plan_ring(64, True, 4096) == plan_ring(128, False, 4096) == RingPlan(slots=2, schedule="planned")
    assert [plan_ring(128, True, Sk).section for Sk in (1, 1024, 4096, 8192, 8193, 16384)] == [4, 4, 4, 4, 1, 1]


def test_the_polynomial_is_as_near_as_it_says():
    """Its numbers, out of the kernel's text, in the order in which the kernel takes them, in float32."""
    text = inspect.getsource(attention_gluon._exp2_mixed.fn)
    constants = re.findall(r"0f([0-9A-F]{8})", text)
    low, magic, again, *factors = (np.array(int(x, 16), np.uint32).view(np.float32) for x in constants)
    assert (low, magic, again) == (-127.0, 1.5 * 2**23, 1.5 * 2**23) and len(factors) == 4
    x = np.concatenate([np.linspace(-150, 0.5, 1_000_001), [-np.inf, np.nan]]).astype(np.float32)
    cut = np.where(np.isnan(x), x, np.maximum(x, low))
    shifted = cut + magic
    f = cut - (shifted - again)
    found = factors[0] * f + factors[1]
    for factor in factors[2:]:
        found = found * f + factor
    bits = (shifted.view(np.uint32) << np.uint32(23)) + np.uint32(
        int(re.search(r"add\.s32 i, i, 0x(\w+)", text)[1], 16)
    )
    found = found * bits.view(np.float32)
    assert np.isnan(found[-1]) and found[-2] == 0 and (found[x < -127] == 0).all()
    normal = x >= -126
    assert np.abs(found[normal] / np.exp2(x[normal].astype(np.float64)) - 1).max() < 1e-4


@pytest.fixture
def ring(monkeypatch):
    """Attention by the Gluon kernel, wherever it can; skips where it cannot run."""
    if not torch.cuda.is_available() or torch.cuda.get_device_capability() != (9, 0):
        pytest.skip("needs a GPU of compute capability 9.0: no other runs the kernel, and nothing interprets it")
    monkeypatch.setattr(host, "ENABLED", True)
    taken = []
    launch = host.launch_ring
    monkeypatch.setattr(host, "launch_ring", lambda *arguments: (taken.append(1), launch(*arguments)))
    return taken


RUN = [
    pytest.param(shape, id="x".join(map(str, shape)))
    for shape in (
        (1, 1, 1, 128, 128, 64),
        (2, 4, 2, 5, 70, 64),
        (1, 2, 1, 300, 129, 128),
        (2, 2, 2, 1, 1000, 128),
        (1, 3, 1, 700, 700, 64),
    )
]


@pytest.mark.gpu
@pytest.mark.parametrize("ragged", [False, True], ids=["", "lengths"])
@pytest.mark.parametrize("options", test_attention.SEEN)
@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
@pytest.mark.parametrize("shape", RUN)
def test_values_and_gradients(shape, dtype, options, ragged, ring, poisoned):
    padded = test_attention.both(shape, dtype, "cuda", options, ragged)  # rows of D + 3: for the readable kernel
    assert not ring
    test_attention.assert_right(shape, dtype, padded)


@pytest.mark.gpu
@pytest.mark.parametrize("name", ["default", *PLANS])
@pytest.mark.parametrize("options", test_attention.SEEN)
@pytest.mark.parametrize("shape", RUN)
def test_values_by_every_plan(shape, options, name, ring, monkeypatch, poisoned):
    D = shape[-1]
    plan = (
        plan_ring(D, options.get("causal", False), shape[4])
        if name == "default"
        else dataclasses.replace(PLANS[name], block_n=64, stages=2)
    )
    monkeypatch.setattr(host, "plan_ring", lambda *_: plan)
    q, k, v = OP.inputs(shape, "bfloat16", "cuda", seed=3, padding=8)
    lengths = torch.full((shape[0],), shape[4] - shape[4] // 3, dtype=torch.int32, device="cuda")
    rtol, atol = OP.tolerance("bfloat16", shape)
    for given_lengths in (None, lengths):
        out = attention(q, k, v, lengths=given_lengths, **options)
        expected = reference(q, k, v, given_lengths, **options)
        torch.testing.assert_close(out.double(), expected, rtol=rtol, atol=atol)
    assert len(ring) == 2


@pytest.mark.gpu
@pytest.mark.parametrize("D", [64, 128])
@pytest.mark.parametrize("key", range(4))
def test_nan_and_infinite_scores_whatever_computes_their_exponential(key, D, ring):
    q, k, v = OP.inputs((1, 1, 1, 130, 300, D), "bfloat16", "cuda", seed=8, padding=0)
    q[..., 0], k[..., 0] = 1.0, 0.0
    k[0, 0, 8 + key, 0] = float("-inf")  # a masked key
    out = attention(q, k, v)
    rtol, atol = OP.tolerance("bfloat16", (1, 1, 1, 130, 300, D))
    torch.testing.assert_close(out.double(), reference(q, k, v), rtol=rtol, atol=atol)
    k[0, 0, 8 + key, 0] = float("nan")
    assert attention(q, k, v).isnan().all() and len(ring) == 2


@pytest.mark.gpu
@pytest.mark.parametrize("D", [64, 128])
@pytest.mark.parametrize("Sq", [1, 70, 300])
def test_nothing_is_written_beside_the_output(Sq, D, ring):
    """The copy engine writes out; a head has D of 64 or 128 elements, whole pieces of 16 bytes."""
    q, k, v = OP.inputs((2, 2, 1, Sq, 90, D), "bfloat16", "cuda", seed=9, padding=8)
    band, size = 4096, q.numel()
    around = torch.full((size + 2 * band,), 7.0, dtype=q.dtype, device="cuda")
    out = around[band : band + size].view(q.shape)
    lse = torch.full((2, 2, Sq), float("nan"), device="cuda")
    host.launch_ring(q, k, v, out, lse, None, False, 0, D**-0.5)
    rtol, atol = OP.tolerance("bfloat16", (2, 2, 1, Sq, 90, D))
    torch.testing.assert_close(out.double(), reference(q, k, v), rtol=rtol, atol=atol)
    assert (around[:band] == 7).all() and (around[band + size :] == 7).all()


@pytest.mark.gpu
@pytest.mark.parametrize("options", test_attention.SEEN)
@pytest.mark.parametrize("shape", RUN)
def test_gradients_from_what_it_kept(shape, options, ring, poisoned):
    inputs = [t.requires_grad_() for t in OP.inputs(shape, "bfloat16", "cuda", seed=4, padding=8)]
    out = attention(*inputs, **options)
    assert ring
    dout = torch.randn_like(out)
    out.backward(dout)
    precise = [t.detach().double().requires_grad_() for t in inputs]
    expected = reference(*precise, **options)
    expected.backward(dout.double())
    found = out.detach(), expected.detach(), [t.grad for t in inputs], [t.grad for t in precise]
    test_attention.assert_right(shape, "bfloat16", found)
