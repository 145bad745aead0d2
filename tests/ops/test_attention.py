"""attention: values, gradients, which keys are seen, layouts, and what it refuses."""

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from kernels.ops import attention as module
from kernels.ops.attention import MORE, OP, attention, reference, visible_keys

CASES = [pytest.param(case.shape, id="x".join(map(str, case.shape))) for case in OP.checks]
SEEN = [
    pytest.param({}, id="all keys"),
    pytest.param({"causal": True}, id="causal"),
    pytest.param({"causal": True, "window": 3}, id="window"),
    pytest.param({"causal": True, "window": 64}, id="wide window"),
]


def both(shape, dtype, device, options, ragged=False, seed=1):
    """Ours and the reference: output and gradients of q, k and v, with an upstream gradient of its own strides."""
    inputs = [t.requires_grad_() for t in OP.inputs(shape, dtype, device, seed)]
    B, H, _, Sq, Sk, D = shape
    generator = torch.Generator(device).manual_seed(seed + 1)
    lengths = None
    if ragged:
        lengths = torch.randint(0, Sk + 1, (B,), dtype=torch.int32, generator=generator, device=device)
    dout = torch.randn((B, Sq, H, D), generator=generator, device=device).to(inputs[0].dtype).transpose(1, 2)
    out = attention(*inputs, lengths=lengths, **options)
    out.backward(dout)
    precise = [t.detach().double().requires_grad_() for t in inputs]
    expected = reference(*precise, lengths, **options)
    if expected.requires_grad:
        expected.backward(dout.double())
    theirs = [torch.zeros_like(t) if t.grad is None else t.grad for t in precise]
    return out.detach(), expected.detach(), [t.grad for t in inputs], theirs


def assert_right(shape, dtype, found):
    out, expected, gradients, precise = found
    rtol, atol = OP.tolerance(dtype, shape)
    torch.testing.assert_close(out.double(), expected, rtol=rtol, atol=atol)
    rtol, atol = OP.gradient_tolerance(dtype, shape)
    for gradient, theirs in zip(gradients, precise, strict=True):
        assert gradient.is_contiguous()
        torch.testing.assert_close(gradient.double(), theirs, rtol=rtol, atol=atol)


@pytest.mark.parametrize("ragged", [False, True], ids=["", "lengths"])
@pytest.mark.parametrize("options", SEEN)
@pytest.mark.parametrize("dtype", OP.dtypes)
@pytest.mark.parametrize("shape", CASES)
def test_values_and_gradients(shape, dtype, options, ragged, device, poisoned):
    assert_right(shape, dtype, both(shape, dtype, device, options, ragged))


@given(
    st.integers(1, 2), st.integers(1, 2), st.integers(1, 3), st.integers(0, 80), st.integers(0, 80),
    st.sampled_from([1, 8, 17, 32]), st.booleans(), st.integers(0, 90), st.booleans(), st.integers(0, 2**16),
)  # fmt: skip
@settings(max_examples=12, deadline=None)
def test_any_shape(B, Hkv, group, Sq, Sk, D, causal, window, ragged, seed):
    device = "cuda" if torch.cuda.is_available() else "cpu"
    shape = (B, Hkv * group, Hkv, Sq, Sk, D)
    options = {"causal": causal, "window": window if causal else 0}
    assert_right(shape, "float32", both(shape, "float32", device, options, ragged, seed))


@pytest.mark.parametrize("head", [16, 64, 80, 128, 256])
def test_every_head_size_has_a_plan_that_works(head, device):
    shape = (1, 1, 1, 20, 37, head)
    for dtype in ("float32", "bfloat16"):
        assert_right(shape, dtype, both(shape, dtype, device, {"causal": True}))


def test_the_last_query_stands_at_the_last_key():
    seen = visible_keys(1, 2, 4, None, True, 0, torch.device("cpu"))[0]
    assert seen.tolist() == [[True, True, True, False], [True] * 4]
    seen = visible_keys(2, 3, 4, torch.tensor([4, 1]), True, 2, torch.device("cpu"))
    assert seen[0].int().tolist() == [[1, 1, 0, 0], [0, 1, 1, 0], [0, 0, 1, 1]]
    assert seen[1].int().tolist() == [[0, 0, 0, 0], [0, 0, 0, 0], [1, 0, 0, 0]]


@pytest.mark.parametrize("causal", [False, True])
def test_agrees_with_pytorch_where_its_mask_is_the_same(causal, device):
    q, k, v = OP.inputs((2, 4, 4, 40, 40, 32), "float32", device, seed=5, padding=0)
    theirs = torch.nn.functional.scaled_dot_product_attention(q, k, v, is_causal=causal)
    torch.testing.assert_close(attention(q, k, v, causal=causal), theirs, rtol=1e-4, atol=1e-4)


def test_a_query_without_a_key_gives_zeros_and_no_gradient(device):
    q, k, v = (t.requires_grad_() for t in OP.inputs((2, 2, 1, 70, 9, 16), "float32", device, seed=6))
    lengths = torch.tensor([9, 0], dtype=torch.int32, device=device)
    out = attention(q, k, v, lengths=lengths, causal=True)
    assert (out[0, :, :61] == 0).all() and (out[0, :, 61:] != 0).all() and (out[1] == 0).all()
    out.sum().backward()
    assert (q.grad[0, :, :61] == 0).all() and (q.grad[1] == 0).all() and q.grad.isfinite().all()
    assert (k.grad[1] == 0).all() and (v.grad[1] == 0).all() and (v.grad[0] != 0).all()


def test_keys_behind_the_length_are_not_looked_at(device):
    q, k, v = OP.inputs((1, 1, 1, 5, 70, 16), "float32", device, seed=7)
    lengths = torch.tensor([33], dtype=torch.int32, device=device)
    out = attention(q, k, v, lengths=lengths)
    for tensor in (k, v):
        tensor[:, :, 33:] = float("nan")
    assert torch.equal(attention(q, k, v, lengths=lengths), out)


def test_infinite_and_nan_scores(device):
    q, k, v = OP.inputs((1, 1, 1, 3, 40, 16), "float32", device, seed=8, padding=0)
    q[..., 0], k[..., 0] = 1.0, 0.0
    k[0, 0, 7, 0] = float("-inf")  # a masked key
    out = attention(q, k, v)
    assert out.isfinite().all()
    without = [torch.cat([t[:, :, :7], t[:, :, 8:]], dim=2) for t in (k, v)]
    torch.testing.assert_close(out, attention(q, *without), rtol=1e-5, atol=1e-5)
    k[0, 0, 7, 0] = float("nan")
    assert attention(q, k, v).isnan().all()


@pytest.mark.parametrize("name", ["positions before heads", "one key head repeated", "columns apart", "reversed heads"])
def test_layouts_are_read_in_place(name, device, poisoned):
    q, k, v = OP.inputs((2, 3, 3, 20, 20, 16), "float32", device, seed=9, padding=0)
    views = {
        "positions before heads": lambda t: t.transpose(1, 2).contiguous().transpose(1, 2),
        "one key head repeated": lambda t: t[:, :1].expand(-1, 3, -1, -1),
        "columns apart": lambda t: t.repeat_interleave(2, dim=-1)[..., ::2],
        "reversed heads": lambda t: t.flip(1).transpose(0, 1).contiguous().transpose(0, 1),
    }
    q, k, v = (views[name](t) for t in (q, k, v))
    kept = [t.clone() for t in (q, k, v)]
    out = attention(q, k, v, causal=True)
    rtol, atol = OP.tolerance("float32", (2, 3, 3, 20, 20, 16))
    torch.testing.assert_close(out.double(), reference(q, k, v, causal=True), rtol=rtol, atol=atol)
    assert all(torch.equal(a, b) for a, b in zip((q, k, v), kept, strict=True))


def test_gradients_come_in_the_same_bits_and_from_a_broadcast_upstream(device):
    inputs = [t.requires_grad_() for t in OP.inputs((1, 4, 2, 33, 50, 16), "float16", device, seed=10)]
    once = torch.autograd.grad(attention(*inputs, causal=True).sum(), inputs)  # an upstream with zero strides
    again = torch.autograd.grad(attention(*inputs, causal=True).sum(), inputs)
    assert all(torch.equal(a, b) for a, b in zip(once, again, strict=True))
    precise = [t.detach().double().requires_grad_() for t in inputs]
    theirs = torch.autograd.grad(reference(*precise, causal=True).sum(), precise)
    rtol, atol = OP.gradient_tolerance("float16", (1, 4, 2, 33, 50, 16))
    for mine, other in zip(once, theirs, strict=True):
        torch.testing.assert_close(mine.double(), other, rtol=rtol, atol=atol)


def test_no_access_lies_outside(device):
    if device != "cpu":
        pytest.skip("traced under the interpreter")
    from kernels.trace.triton import trace_triton

    q, k, v = OP.inputs((1, 2, 1, 19, 35, 12), "float32", "cpu", seed=11)
    results = {}

    def launch():
        results["out"], results["lse"] = module._kept(q, k, v, None, True, 9, 0.3)

    assert not trace_triton(launch, {"q": q, "k": k, "v": v}).faults()


def test_what_pytorch_asks_of_an_operator(device):
    q, k, v = (t.requires_grad_() for t in OP.inputs((1, 2, 1, 5, 9, 16), "float32", device, seed=12, padding=0))
    lengths = torch.tensor([7], dtype=torch.int32, device=device)
    for given_lengths, window in ((None, 0), (lengths, 4)):
        torch.library.opcheck(module._attention, (q, k, v, given_lengths, True, window, 0.25))


def test_a_second_derivative_is_refused(device):
    q, k, v = (t.requires_grad_() for t in OP.inputs((1, 1, 1, 3, 3, 16), "float32", device, seed=13))
    (dq,) = torch.autograd.grad(attention(q, k, v).sum(), q, create_graph=True)
    with pytest.raises(NotImplementedError, match="gradient that attention computed has no derivative of its own"):
        dq.sum().backward()


@pytest.mark.parametrize(
    "change,error,sentence",
    [
        (lambda q, k, v: (q[0], k, v), ValueError, r"q has shape \(2, 5, 16\); expected \(batch, heads"),
        (lambda q, k, v: (q, k[..., :8], v[..., :8]), ValueError, r"expected \(1, key heads, positions, 16\)"),
        (lambda q, k, v: (q, k, v[:, :, :4]), ValueError, r"v has shape .* expected the shape of k"),
        (lambda q, k, v: (q[:, :1], k, v), ValueError, "q has 1 heads and k has 2; expected q's to be a multiple"),
        (lambda q, k, v: (q, k.half(), v.half()), TypeError, "k has dtype float16; expected the dtype of q, float32"),
        (lambda q, k, v: (q.int(), k, v), TypeError, "q has dtype int32"),
        (
            lambda q, k, v: tuple(t.repeat(1, 1, 1, 17) for t in (q, k, v)),
            ValueError,
            "head size of 272; expected 1 to",
        ),
    ],
)
def test_tensors_that_do_not_fit(change, error, sentence, device):
    q, k, v = OP.inputs((1, 2, 2, 5, 5, 16), "float32", device, seed=14)
    with pytest.raises(error, match=sentence):
        attention(*change(q, k, v))


@pytest.mark.parametrize(
    "options,error,sentence",
    [
        ({"window": 4}, ValueError, "window is 4 without causal"),
        ({"window": -1, "causal": True}, ValueError, "window is -1; expected a number of keys"),
        (
            {"lengths": torch.tensor([1, 2], dtype=torch.int32)},
            ValueError,
            r"lengths has shape \(2,\); expected \(1,\)",
        ),
        ({"lengths": torch.tensor([1])}, TypeError, "lengths has dtype int64; expected int32"),
        (
            {"lengths": torch.tensor([6], dtype=torch.int32)},
            ValueError,
            r"lengths is \[6\]; expected numbers from 0 to 5",
        ),
    ],
)
def test_options_that_do_not_fit(options, error, sentence):
    if torch.cuda.is_available():
        pytest.skip("lengths are looked at on the CPU only")
    q, k, v = OP.inputs((1, 2, 2, 5, 5, 16), "float32", "cpu", seed=15)
    with pytest.raises(error, match=sentence):
        attention(q, k, v, **options)


def test_the_records_count_what_the_formula_needs():
    shape = (2, 4, 2, 8, 16, 32)
    assert OP.flops(shape) * 2 == MORE[0].flops(shape) == 4 * 2 * 4 * 8 * 16 * 32
    assert OP.bytes_moved(shape, "bfloat16") == 2 * 2 * 32 * (2 * 4 * 8 + 2 * 2 * 16) + 4 * 2 * 4 * 8


def test_a_window_or_a_sequence_whose_sums_leave_32_bits_is_refused(device):
    q, k, v = OP.inputs((1, 1, 1, 9, 9, 16), "float32", device, seed=11)
    wide = attention(q, k, v, causal=True, window=2**30)
    torch.testing.assert_close(wide, attention(q, k, v, causal=True))
    for window in (2**30 + 1, 2**31 - 1, 2**31):
        with pytest.raises(ValueError, match=f"window is {window}; expected a number of keys up to {2**30}, or 0"):
            attention(q, k, v, causal=True, window=window)
    with pytest.raises(ValueError, match=f"k {2**30 + 1}; expected at most {2**30}"):
        far = k[:, :, :1].expand(-1, -1, 2**30 + 1, -1)
        attention(q, far, far)
