import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from kernels.ops import add as module
from kernels.ops.add import OP, add, launch_add

from .shared import assert_matches, whole_storage

CASES = [pytest.param(case.shape, id=f"{'x'.join(map(str, case.shape)) or 'scalar'}") for case in OP.checks]


@pytest.mark.parametrize("dtype", OP.dtypes)
@pytest.mark.parametrize("shape", CASES)
def test_matches_the_reference_and_leaves_its_inputs_alone(shape, dtype, device, poisoned):
    inputs = OP.inputs(shape, dtype, device, seed=1)
    before = [whole_storage(x) for x in inputs]
    assert_matches(OP, add(*inputs), inputs, dtype)
    assert all(torch.equal(whole_storage(x), kept) for x, kept in zip(inputs, before))


@pytest.mark.parametrize("block_size", [1, 128, 256, 512, 1024])
@pytest.mark.parametrize("num_warps", [1, 4, 8])
def test_every_launch_parameter_gives_the_same_sum(block_size, num_warps, device):
    x, y = OP.inputs((257,), "float32", device, seed=2)
    out = torch.full_like(x, float("nan"))
    assert launch_add(x, y, out, block_size=block_size, num_warps=num_warps) is out
    assert torch.equal(out, x + y)


@pytest.mark.parametrize("n", [1, 255, 256, 257])
def test_writes_nothing_past_the_end(n, device):
    x, y = OP.inputs((n,), "float32", device, seed=3)
    buffer = torch.full((n + 600,), 7.0, device=device)
    buffer[300 : 300 + n] = float("nan")
    launch_add(x, y, buffer[300 : 300 + n], block_size=256)
    assert torch.equal(buffer[300 : 300 + n], x + y)
    assert (buffer[:300] == 7).all() and (buffer[300 + n :] == 7).all()


def views(device):
    base = torch.randn(6, 8, generator=torch.Generator(device).manual_seed(4), device=device)
    return {
        "transposed": base.t(),
        "every other row": base[::2],
        "every other column": base[:, ::2],
        "one row repeated": base[:1].expand(5, 8),
        "permuted": base.reshape(2, 3, 8).permute(2, 0, 1),
        "offset by one element": base.flatten()[1:],
    }


@pytest.mark.parametrize("name", views("cpu"))
def test_any_strides(name, device, poisoned):
    x = views(device)[name]
    y = torch.arange(x.numel(), dtype=torch.float32, device=device).reshape(x.shape)
    assert_matches(OP, add(x, y), (x, y), "float32")
    assert_matches(OP, add(y, x), (y, x), "float32")
    assert_matches(OP, add(x, x), (x, x), "float32")


@settings(deadline=None, max_examples=30, derandomize=True)
@given(st.lists(st.floats(width=32, allow_subnormal=False), max_size=40))
def test_is_pytorchs_sum_to_the_last_bit_of_a_normal_number(device, values):
    x = torch.tensor(values, dtype=torch.float32, device=device)
    y = x.flip(0)
    assert torch.allclose(add(x, y), x + y, rtol=0, atol=2.0**-126, equal_nan=True)


def test_infinities_and_nan(device):
    inf, nan = float("inf"), float("nan")
    x = torch.tensor([inf, inf, -inf, nan, 1.0], device=device)
    y = torch.tensor([1.0, -inf, -inf, 1.0, nan], device=device)
    expected = torch.tensor([inf, nan, -inf, nan, nan], device=device)
    assert torch.equal(add(x, y).nan_to_num(nan=5.0), expected.nan_to_num(nan=5.0))


def test_half_precision_overflow_is_infinite(device):
    x = torch.tensor([60000.0, 65504.0, -65504.0], dtype=torch.float16, device=device)
    assert torch.equal(add(x, x), torch.tensor([float("inf"), float("inf"), float("-inf")], device=device).half())


def test_launch_may_write_over_an_input(device):
    x, y = OP.inputs((300,), "float32", device, seed=5)
    expected = x + y
    launch_add(x, y, x)
    assert torch.equal(x, expected)


def test_empty_input_launches_nothing(device, monkeypatch):
    monkeypatch.setattr(module, "_add", None)
    assert add(torch.empty(0, 3, device=device), torch.empty(0, 3, device=device)).shape == (0, 3)


@pytest.mark.gpu
def test_more_than_2_to_the_31_elements():
    if not torch.cuda.is_available() or torch.cuda.mem_get_info()[0] < 16e9:
        pytest.skip("needs a GPU with 16 GB free")
    n = 2**31 + 8
    x = torch.ones(n, dtype=torch.bfloat16, device="cuda")
    x[-4:] = 3.0
    out = add(x, x)
    assert (out[:-4] == 2).all() and (out[-4:] == 6).all()
