"""row_sum: values, layouts, and the parts of a row."""

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from kernels.ops import row_sum as module
from kernels.ops.row_sum import OP, launch_row_sum, plan_row_sum, row_sum

from .shared import Framed, views, whole_storage

CASES = [pytest.param(case.shape, id="x".join(map(str, case.shape))) for case in OP.checks]
PATHS = [
    pytest.param({"path": "block"}, id="block"),
    pytest.param({"path": "looped", "block": 16}, id="looped"),
    pytest.param({"path": "split", "block": 16}, id="split"),
]
INF, NAN = float("inf"), float("nan")


def assert_sums(result, x, dtype="float32"):
    rtol, atol = OP.tolerance(dtype, tuple(x.shape))
    assert result.shape == x.shape[:-1] and result.dtype == x.dtype and result.is_contiguous()
    torch.testing.assert_close(result.double(), OP.reference(x), rtol=rtol, atol=atol, equal_nan=True)


@pytest.mark.parametrize("dtype", OP.dtypes)
@pytest.mark.parametrize("shape", CASES)
def test_matches_the_reference_and_leaves_its_input_alone(shape, dtype, device, poisoned):
    if shape[-1] >= 1 << 20 and dtype == "float16" and device == "cpu":
        pytest.skip("the interpreter takes seconds, and float16 differs from bfloat16 in its conversions only")
    (x,) = OP.inputs(shape, dtype, device, seed=1)
    before = whole_storage(x)
    assert_sums(row_sum(x), x, dtype)
    assert torch.equal(whole_storage(x), before)


@pytest.mark.parametrize("choice", PATHS)
@pytest.mark.parametrize("dtype", OP.dtypes)
@pytest.mark.parametrize("width", [1, 16, 17, 100])
def test_every_path_fills_its_output_and_nothing_else(width, dtype, choice, device):
    (x,) = OP.inputs((5, width), dtype, device, seed=2)
    framed = Framed(1, 5, x.dtype, device)
    out = framed.out[0]
    assert launch_row_sum(x, out, **choice) is out
    assert_sums(out.clone(), x, dtype)
    framed.assert_frame_untouched()


@pytest.mark.parametrize("choice", PATHS)
@pytest.mark.parametrize("name", views("cpu"))
def test_any_strides(name, choice, device, poisoned):
    x = views(device)[name]
    assert_sums(row_sum(x), x)
    rows = x.reshape(-1, x.shape[-1])
    assert_sums(launch_row_sum(rows, torch.full(rows.shape[:1], NAN, device=device), **choice), rows)


@pytest.mark.parametrize("choice", PATHS)
@pytest.mark.parametrize(
    "row", [[INF, 1.0], [-INF] * 20, [INF, -INF], [NAN] + [1.0] * 20, [1.0] * 33 + [NAN], [0.0] * 17, [-0.0]]
)
def test_special_values_as_pytorch(row, choice, device):
    x = torch.tensor([[0.0] * len(row), row, [0.0] * len(row)], device=device)
    out = launch_row_sum(x, torch.full((3,), 9.0, device=device), **choice)
    torch.testing.assert_close(out, x.sum(-1), equal_nan=True)


def test_sums_are_formed_in_float32(device):
    # In float16 the sum would stop at 2048: the next one is half a step away.
    x = torch.ones(2, 5000, dtype=torch.float16, device=device)
    assert row_sum(x).tolist() == [5000.0, 5000.0]
    assert row_sum(x * 100).tolist() == [INF, INF]


@settings(deadline=None, max_examples=15, derandomize=True)
@given(
    rows=st.integers(1, 9),
    width=st.integers(1, 70),
    row_gap=st.integers(0, 5),
    column_stride=st.integers(0, 3),
    offset=st.integers(0, 17),
    path=st.sampled_from(["block", "looped", "split"]),
)
def test_whole_numbers_sum_exactly(device, rows, width, row_gap, column_stride, offset, path):
    row_stride = column_stride * width + row_gap
    length = offset + (rows - 1) * row_stride + (width - 1) * column_stride + 1
    x = (torch.arange(length, device=device) % 251 - 125.0).as_strided(
        (rows, width), (row_stride, column_stride), offset
    )
    choice = {} if path == "block" else {"block": 16}
    out = launch_row_sum(x, torch.full((rows,), NAN, device=device), path=path, **choice)
    assert torch.equal(out, x.sum(-1))


def test_the_order_of_arrival_changes_no_bit(device, monkeypatch):
    (x,) = OP.inputs((3, 3000), "float32", device, seed=4)
    sums = [row_sum(x) for _ in range(3)]
    assert all(torch.equal(each, sums[0]) for each in sums)
    parts = launch_row_sum(x, torch.empty(3, device=device), path="split", block=64)
    assert torch.equal(parts, launch_row_sum(x, torch.empty(3, device=device), path="split", block=64))


@pytest.mark.parametrize("choice", PATHS[1:])
def test_offsets_past_2_to_the_31(choice, device):
    if device == "cuda" and torch.cuda.mem_get_info()[0] < 6e9:
        pytest.skip("needs 6 GB of free GPU memory")
    try:
        buffer = torch.empty(2**31 + 8, dtype=torch.bfloat16, device=device)
    except RuntimeError:
        pytest.skip("cannot reserve 4.3 GB of address space")
    x = buffer.as_strided((3, 8), (2**30, 1))
    for i in range(3):
        x[i].fill_(i + 1)
    assert row_sum(x).tolist() == [8, 16, 24]
    assert launch_row_sum(x, torch.zeros(3, dtype=x.dtype, device=device), **choice).tolist() == [8, 16, 24]
    columns = buffer.as_strided((2, 3), (1, 2**30))
    for i in range(3):
        columns[:, i].fill_(i + 1)
    assert row_sum(columns).tolist() == [6, 6]


def test_empty_rows_sum_to_zero(device, monkeypatch):
    monkeypatch.setattr(module, "_launch", None)
    for shape in [(0, 8), (8, 0), (0,), (2, 0, 5)]:
        out = row_sum(torch.empty(shape, device=device))
        assert out.shape == shape[:-1] and (out == 0).all()
    assert launch_row_sum(torch.empty(3, 0, device=device), torch.ones(3, device=device)).tolist() == [0, 0, 0]


@pytest.mark.parametrize(
    "arguments,choice,message",
    [
        ((4, 6), {"path": "joint"}, 'path is \'joint\'; expected "block", "looped", "split" or None.'),
        ((4, 6), {"block": 100}, "block is 100; expected a power of two from 1 to 32768."),
        ((4, 6), {"num_warps": 3}, "num_warps is 3; expected a power of two from 1 to 32."),
        ((4,), {}, "x has shape (4,); expected two dimensions, (rows, columns)."),
        ((5, 6), {}, "out has shape (4,); expected the shape of the rows of x, (5,): no dimension is broadcast."),
    ],
)
def test_launch_row_sum_refuses(arguments, choice, message, device, monkeypatch):
    monkeypatch.setattr(module, "_launch", None)
    with pytest.raises(ValueError) as error:
        launch_row_sum(torch.ones(arguments, device=device), torch.ones(4, device=device), **choice)
    assert str(error.value) == message


def test_row_sum_refuses_a_scalar_and_an_overlap(device, monkeypatch):
    monkeypatch.setattr(module, "_launch", None)
    with pytest.raises(ValueError, match=r"x has shape \(\); expected at least one dimension."):
        row_sum(torch.tensor(1.0, device=device))
    buffer = torch.ones(16, device=device)
    with pytest.raises(ValueError, match="out overlaps x in memory"):
        launch_row_sum(buffer.view(4, 4), buffer[:4])


def test_the_parts_of_a_row_are_walked_in_steps_of_the_same_bytes():
    for dtype, columns in (("float32", 2048), ("bfloat16", 4096)):
        plan = plan_row_sum(torch.empty(32, 1 << 20, dtype=getattr(torch, dtype), device="meta"))
        assert (plan.path, plan.block_n, plan.num_warps, plan.parts) == ("split", columns, 8, 64)
