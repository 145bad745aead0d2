"""softmax_backward: values, layouts, and the parts of a row."""

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from kernels.ops import softmax_backward as module
from kernels.ops.softmax_backward import OP, launch_softmax_backward, softmax_backward
from kernels.ops.softmax_backward_pairs import in_pairs

from .shared import Framed, assert_matches, views, whole_storage

CASES = [pytest.param(case.shape, id="x".join(map(str, case.shape))) for case in OP.checks]
PATHS = [pytest.param({"path": "block"}, id="block"), pytest.param({"path": "split", "block": 16}, id="split")]
NAN = float("nan")


@pytest.mark.parametrize("dtype", OP.dtypes)
@pytest.mark.parametrize("shape", CASES)
def test_matches_the_reference_and_leaves_its_inputs_alone(shape, dtype, device, poisoned):
    if shape[-1] > 5000 and dtype == "float16" and device == "cpu":
        pytest.skip("the interpreter takes seconds, and float16 differs from bfloat16 in its conversions only")
    inputs = OP.inputs(shape, dtype, device, seed=1)
    before = [whole_storage(each) for each in inputs]
    assert_matches(OP, softmax_backward(*inputs), inputs, dtype)
    assert all(torch.equal(whole_storage(each), kept) for each, kept in zip(inputs, before, strict=True))


@pytest.mark.parametrize("choice", PATHS)
@pytest.mark.parametrize("dtype", OP.dtypes)
@pytest.mark.parametrize("width", [1, 16, 17, 100])
def test_every_path_fills_its_output_and_nothing_else(width, dtype, choice, device):
    inputs = OP.inputs((5, width), dtype, device, seed=2)
    framed = Framed(5, width, inputs[0].dtype, device)
    assert launch_softmax_backward(*inputs, framed.out, **choice) is framed.out
    assert_matches(OP, framed.out.contiguous(), inputs, dtype)
    framed.assert_frame_untouched()


@pytest.mark.parametrize("choice", PATHS)
@pytest.mark.parametrize("name", views("cpu"))
def test_a_gradient_of_any_strides(name, choice, device, poisoned):
    dy = views(device)[name]
    y = torch.softmax(torch.randn(dy.shape, generator=torch.Generator(device).manual_seed(5), device=device), -1)
    for weights in (y, views(device)[name]):
        assert_matches(OP, softmax_backward(weights, dy), (weights, dy), "float32")
    rows = [each.reshape(-1, each.shape[-1]) for each in (y, dy)]
    out = launch_softmax_backward(*rows, torch.full(rows[0].shape, NAN, device=device), **choice)
    assert_matches(OP, out, tuple(rows), "float32")


@settings(deadline=None, max_examples=15, derandomize=True)
@given(rows=st.integers(1, 7), width=st.integers(1, 70), shift=st.integers(-64, 64), seed=st.integers(0, 10**6))
def test_rows_sum_to_zero_and_a_common_part_changes_nothing(device, rows, width, shift, seed):
    generator = torch.Generator(device).manual_seed(seed)
    y = torch.softmax(torch.randn(rows, width, generator=generator, device=device), -1)
    dy = torch.randn(rows, width, generator=generator, device=device)
    dx = softmax_backward(y, dy)
    atol = 2.0**-24 * (width + 8) * 8
    torch.testing.assert_close(dx.sum(-1), torch.zeros(rows, device=device), rtol=0, atol=atol)
    shifted = softmax_backward(y, dy + shift)
    torch.testing.assert_close(shifted, dx, rtol=0, atol=2.0**-24 * (abs(shift) + 8) * 16)


@pytest.mark.parametrize("choice", PATHS)
def test_not_a_number_stays_in_its_row(choice, device):
    y = torch.full((3, 20), 1 / 20, device=device)
    dy = torch.zeros(3, 20, device=device)
    dy[1, 17] = NAN
    out = launch_softmax_backward(y, dy, torch.full_like(y, 9.0), **choice)
    assert out[1].isnan().all() and (out[[0, 2]] == 0).all()


@pytest.mark.parametrize("choice", PATHS)
def test_offsets_past_2_to_the_31(choice, device):
    if device == "cuda" and torch.cuda.mem_get_info()[0] < 6e9:
        pytest.skip("needs 6 GB of free GPU memory")
    try:
        buffer = torch.empty(2**31 + 8, dtype=torch.bfloat16, device=device)
    except RuntimeError:
        pytest.skip("cannot reserve 4.3 GB of address space")
    dy = buffer.as_strided((3, 8), (2**30, 1))
    for i in range(3):
        dy[i] = torch.arange(8, device=device) * (i + 1)
    y = torch.full((3, 8), 0.125, dtype=torch.bfloat16, device=device)
    out = launch_softmax_backward(y, dy, torch.full_like(y, NAN), **choice)
    assert_matches(OP, out, (y, dy), "bfloat16")


def test_an_empty_gradient_launches_nothing(device, monkeypatch):
    monkeypatch.setattr(module, "_launch", None)
    for shape in [(0, 8), (8, 0), (0,), (2, 0, 5)]:
        empty = torch.empty(shape, device=device)
        assert softmax_backward(empty, empty).shape == shape


def test_what_is_refused(device, monkeypatch):
    monkeypatch.setattr(module, "_launch", None)
    x = torch.ones(4, 6, device=device)
    for arguments, kind, message in [
        ((x, x[:3]), ValueError, "dy has shape (3, 6); expected the shape of y, (4, 6): no dimension is broadcast."),
        ((x, x.half()), TypeError, "dy has dtype float16; expected the dtype of y, float32: no dtype is promoted."),
        ((x, 1.0), TypeError, "dy is a float; expected a torch.Tensor."),
        ((x.sum(), x.sum()), ValueError, "y has shape (); expected at least one dimension."),
    ]:
        with pytest.raises(kind) as error:
            softmax_backward(*arguments)
        assert str(error.value) == message
    with pytest.raises(ValueError, match="dx overlaps y in memory"):
        launch_softmax_backward(x, x * 1, x)
    y = x * 1
    with pytest.raises(ValueError, match="dx overlaps dy in memory"):
        launch_softmax_backward(x, y, y)
    with pytest.raises(ValueError, match="path is 'looped'; expected"):
        launch_softmax_backward(x, y, torch.empty_like(x), path="looped")


@pytest.mark.parametrize(
    ("change", "fits"),
    [
        (lambda x: x, True),
        (lambda x: x[:, :-1], False),  # rows of an odd length
        (lambda x: x[:, 1:-1], False),  # rows that begin at odd elements
        (lambda x: x[:, :-1][:, ::2], False),
        (lambda x: x.half(), True),
        (lambda x: x.float(), False),
        (lambda x: x.t(), False),
    ],
    ids=["even", "odd length", "odd beginning", "every other", "float16", "float32", "turned"],
)
def test_pairs_are_for_even_rows_of_two_bytes(change, fits):
    x = torch.zeros(4, 40, dtype=torch.bfloat16)
    assert in_pairs(x, change(x)) is fits


@pytest.mark.gpu
@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
@pytest.mark.parametrize("shape", [(3, 32770), (512, 131072), (140, 65538), (300, 49152)])
def test_rows_in_pairs_match_the_reference(shape, dtype):
    if not torch.cuda.is_available():
        pytest.skip("needs a GPU, where programs of one launch run at the same time")
    inputs = OP.inputs(shape, dtype, "cuda", seed=5, padding=2)
    for _ in range(3):
        assert_matches(OP, softmax_backward(*inputs), inputs, dtype)
