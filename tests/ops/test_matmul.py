"""matmul: values, layouts, batches, the paths of its plan, and what it refuses."""

import itertools

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from kernels.ops import matmul as module
from kernels.ops import matmul_launch
from kernels.ops.matmul import MORE, OP, launch_matmul, matmul, sum_tolerance
from kernels.ops.matmul_launch import describable

from .shared import Banded, whole_storage

CASES = [pytest.param(case.shape, id="x".join(map(str, case.shape))) for case in OP.checks]
NAN = float("nan")
SMALL = {"block_m": 16, "block_n": 16, "block_k": 16}
# fmt: off
WAYS = {
    "tiles": {"path": "tiles", **SMALL},
    "tiles in three slices": {"path": "tiles", **SMALL, "splits": 3},
    "tiles turned": {"path": "tiles", **SMALL, "turned": True},
    "wide tiles, not grouped": {"path": "tiles", "block_m": 32, "block_n": 64, "block_k": 32, "group_m": 1},
    "persistent": {"path": "persistent", **SMALL},
    "persistent in slices": {"path": "persistent", **SMALL, "splits": 3},
    "persistent, in halves": {"path": "persistent", "block_m": 16, "block_n": 32, "block_k": 16, "subtiles": 2},
    "persistent, two on a multiprocessor": {"path": "persistent", **SMALL, "residents": 2},
    "persistent, turned": {"path": "persistent", **SMALL, "turned": True, "splits": 2},
    "persistent, packed": {"path": "persistent", **SMALL, "pack_a": True, "pack_b": True},
}
# fmt: on
WAYS = [pytest.param(way, id=name) for name, way in WAYS.items()]


def assert_product(out, a, b, precision="ieee"):
    """Rounded once, of sums of K products near 1."""
    dtype = str(a.dtype).removeprefix("torch.")
    rtol, atol = sum_tolerance(dtype, a.shape[-1], precision)
    assert out.dtype == a.dtype and out.is_contiguous()
    torch.testing.assert_close(out.double(), OP.reference(a, b), rtol=rtol, atol=atol, equal_nan=True)


def whole_numbers(shape, strides, offset, device, dtype):
    """Numbers from -3 to 3 with any strides: their sums of products are exact in every dtype here."""
    length = offset + sum((size - 1) * stride for size, stride in zip(shape, strides)) + 1
    values = torch.arange(length, device=device) * 5 % 7 - 3
    return values.to(dtype).as_strided(shape, strides, offset)


@pytest.mark.parametrize("dtype", OP.dtypes)
@pytest.mark.parametrize("shape", CASES)
def test_matches_the_reference_and_leaves_its_operands_alone(shape, dtype, device, poisoned):
    a, b = OP.inputs(shape, dtype, device, seed=1)
    before = whole_storage(a), whole_storage(b)
    out = matmul(a, b)
    assert out.shape == (*shape[:-3], shape[-3], shape[-2])
    assert_product(out, a, b)
    assert torch.equal(whole_storage(a), before[0]) and torch.equal(whole_storage(b), before[1])


@pytest.mark.parametrize("record", MORE, ids=lambda record: record.name)
@pytest.mark.parametrize("shape", [(1, 1, 1), (33, 17, 65), (3, 2, 0)])
def test_other_precisions_match_within_theirs(shape, record, device, poisoned):
    a, b = record.inputs(shape, "float32", device, seed=1)
    assert_product(record.implementation("triton").call(a, b), a, b, record.launch["precision"])


def test_tf32_is_what_the_caller_asked_for_and_nothing_else(device):
    a = torch.full((16, 4096), 1 + 2.0**-12, device=device)
    b = torch.ones(4096, 16, device=device)
    assert (matmul(a, b) == 4097.0).all()
    assert (matmul(a, b, "tf32x3") == 4097.0).all()
    assert (matmul(a, b, "tf32") == 4096.0).all()  # 11 significant bits: the last one is lost


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
@pytest.mark.parametrize("shape", [(33, 40, 72), (16, 16, 16), (17, 23, 100)])
def test_every_way_fills_its_output_and_nothing_else(shape, dtype, way, device):
    a, b = OP.inputs(shape, dtype, device, seed=2, padding=0)
    banded = Banded((shape[0], shape[1]), a.dtype, device)
    assert launch_matmul(a, b, banded.out, **way) is banded.out
    assert_product(banded.out, a, b)
    banded.assert_bands_untouched()


@pytest.mark.parametrize("way", WAYS[:4])
@pytest.mark.parametrize("precision", ["ieee", "tf32", "tf32x3"])
def test_every_way_of_float32(precision, way, device):
    a, b = OP.inputs((33, 40, 70), "float32", device, seed=3)
    banded = Banded((33, 40), a.dtype, device)
    assert_product(launch_matmul(a, b, banded.out, precision=precision, **way), a, b, precision)
    banded.assert_bands_untouched()


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("a_turned,b_turned", list(itertools.product([False, True], repeat=2)))
def test_transposes_are_read_in_place(a_turned, b_turned, way, device, monkeypatch):
    a, b = OP.inputs((24, 40, 72), "bfloat16", device, seed=4, padding=0)
    a = a.t().contiguous().t() if a_turned else a
    b = b.t().contiguous().t() if b_turned else b
    if not way.get("pack_a"):
        monkeypatch.setattr(matmul_launch, "_packed", None)
    out = launch_matmul(a, b, torch.full((24, 40), NAN, dtype=a.dtype, device=device), **way)
    assert_product(out, a, b)


@pytest.mark.parametrize("way", WAYS[4:])
def test_what_no_descriptor_can_say_is_packed_first(way, device):
    # Rows of 41 and 73 elements, and an address one element off: a descriptor of these would fail without a word.
    buffer = torch.randn(40 * 73 + 1, device=device).bfloat16()
    a, b = buffer[1:].view(40, 73), torch.randn(73, 41, device=device).div(8).bfloat16()
    for left, right in ((a, b), (b.t(), a.t()), (a[:, ::2], b[::2]), (a[:1], b), (a.t(), b.t()[:, :40].t())):
        assert not (describable(left) and describable(right))
        out = torch.full((left.shape[0], right.shape[1]), NAN, dtype=a.dtype, device=device)
        assert_product(launch_matmul(left, right, out, **way), left, right)


def test_what_a_descriptor_can_say(device):
    base = torch.zeros(32, 32, dtype=torch.bfloat16, device=device)
    good = {"whole": base, "transposed": base.t(), "part": base[:, 8:24], "one row": base[1:2, :5], "rows": base[::2]}
    bad = {
        "off by one": base[:, 1:],
        "every other column": base[:, ::2],
        "odd rows": torch.zeros(5, 7, dtype=torch.bfloat16, device=device),
        "one row repeated": base[:1].expand(32, 32),
        "nothing": base[:0],
    }
    assert all(describable(x) for x in good.values())
    assert [name for name, x in bad.items() if describable(x)] == []


@settings(deadline=None, max_examples=40, derandomize=True)
@given(
    extents=st.tuples(*[st.integers(1, 40)] * 3),
    a_strides=st.tuples(st.integers(0, 50), st.integers(0, 50)),
    b_strides=st.tuples(st.integers(0, 50), st.integers(0, 50)),
    offset=st.integers(0, 9),
    dtype=st.sampled_from([torch.float32, torch.bfloat16]),
    splits=st.integers(1, 4),
    turned=st.booleans(),
)
def test_whole_numbers_multiply_exactly(device, extents, a_strides, b_strides, offset, dtype, splits, turned):
    M, N, K = extents
    a = whole_numbers((M, K), a_strides, offset, device, dtype)
    b = whole_numbers((K, N), b_strides, offset, device, dtype)
    out = torch.full((M, N), NAN, dtype=dtype, device=device)
    launch_matmul(a, b, out, path="tiles", **SMALL, splits=splits, turned=turned)
    assert torch.equal(out, OP.reference(a, b).to(dtype))
    assert torch.equal(matmul(a, b), out)


@settings(deadline=None, max_examples=30, derandomize=True)
@given(
    extents=st.tuples(*[st.integers(1, 40)] * 3),
    gaps=st.tuples(*[st.integers(0, 9)] * 2),
    transposed=st.tuples(*[st.booleans()] * 2),
    splits=st.integers(1, 4),
    turned=st.booleans(),
)
def test_the_persistent_way_takes_any_strides(device, extents, gaps, transposed, splits, turned):
    M, N, K = extents
    a_strides, b_strides = (K + gaps[0], 1), (N + gaps[1], 1)
    a_strides = (1, M + gaps[0]) if transposed[0] else a_strides
    b_strides = (1, K + gaps[1]) if transposed[1] else b_strides
    a = whole_numbers((M, K), a_strides, 0, device, torch.bfloat16)
    b = whole_numbers((K, N), b_strides, 0, device, torch.bfloat16)
    out = torch.full((M, N), NAN, dtype=a.dtype, device=device)
    launch_matmul(a, b, out, path="persistent", **SMALL, splits=splits, turned=turned)
    assert torch.equal(out, OP.reference(a, b).to(a.dtype))


BATCHES = {
    "one weight for all": ((3, 5, 7), (7, 4)),
    "one row each": ((6, 1, 7), (7, 4)),
    "a missing": ((5, 7), (3, 7, 4)),
    "both ways": ((3, 1, 5, 7), (1, 2, 7, 4)),
    "three dimensions": ((2, 1, 3, 5, 7), (2, 2, 1, 7, 4)),
    "ones": ((1, 1, 5, 7), (1, 1, 7, 4)),
    "empty": ((0, 5, 7), (0, 7, 4)),
}


@pytest.mark.parametrize("name", BATCHES)
def test_batches_are_broadcast_as_pytorch_does(name, device, poisoned):
    a_shape, b_shape = BATCHES[name]
    a, b = torch.randn(a_shape, device=device), torch.randn(b_shape, device=device) / 3
    out = matmul(a, b)
    assert out.shape == torch.matmul(a, b).shape
    assert_product(out, a, b)


def test_permuted_batches_are_read_in_place(device, monkeypatch):
    base = torch.randn(2, 3, 4, 5, 6, device=device)
    other = torch.randn(6, 4, 3, 2, 7, device=device) / 3
    a, b = base.permute(1, 0, 2, 3, 4), other.permute(2, 3, 1, 0, 4)
    monkeypatch.setattr(torch.Tensor, "contiguous", None)
    monkeypatch.setattr(torch.Tensor, "clone", None)
    assert_product(matmul(a, b), a, b)


def test_a_weight_for_a_batch_is_one_product(device):
    a, b, out = torch.ones(3, 5, 7), torch.ones(7, 4), torch.ones(3, 5, 4)
    (only,) = matmul_launch.products(a, b.expand(3, 7, 4), out)
    assert [tuple(each.shape) for each in only] == [(1, 1, 15, 7), (1, 1, 7, 4), (1, 1, 15, 4)]
    assert (
        len(
            list(
                matmul_launch.products(
                    *(x.expand(2, 3, 4, 5, 6, 6) for x in (a[:1, :1, :1],) * 2), torch.ones(2, 3, 4, 5, 6, 6)
                )
            )
        )
        == 1
    )


def test_the_same_operands_give_the_same_bits(device):
    a, b = OP.inputs((16, 48, 600), "float32", device, seed=5)
    for way in ({"path": "tiles", **SMALL, "splits": 5}, {"path": "tiles", **SMALL, "turned": True}):
        outs = [launch_matmul(a, b, torch.full((16, 48), NAN, device=device), **way) for _ in range(3)]
        assert all(torch.equal(out, outs[0]) for out in outs)


def test_the_first_call_for_each_shape_is_right(device):
    for K in (64, 65, 640):
        ones = torch.ones(16, K, device=device), torch.ones(K, 16, device=device)
        assert (matmul(*ones) == K).all()
        assert (OP.implementation("tiled").call(*ones) == K).all()


def test_special_values(device):
    a = torch.zeros(3, 4, device=device)
    a[0, 0], a[1, 1], a[2] = float("inf"), NAN, 3e38
    b = torch.ones(4, 2, device=device)
    torch.testing.assert_close(matmul(a, b), a @ b, equal_nan=True)
    big = torch.full((1, 2), 40000.0, device=device).half()
    assert matmul(big, torch.ones(2, 1, device=device).half()).item() == float("inf")


def test_offsets_past_2_to_the_31(device):
    if device == "cuda" and torch.cuda.mem_get_info()[0] < 6e9:
        pytest.skip("needs 6 GB of free GPU memory")
    try:
        buffer = torch.empty(2**31 + 8, dtype=torch.bfloat16, device=device)
    except RuntimeError:
        pytest.skip("cannot reserve 4.3 GB of address space")
    rows = buffer.as_strided((3, 8), (2**30, 1))
    for i in range(3):
        rows[i].fill_(i + 1)
    ones = torch.ones(8, 2, dtype=buffer.dtype, device=device)
    assert matmul(rows, ones).tolist() == [[8, 8], [16, 16], [24, 24]]
    assert matmul(ones.t(), rows.t()).tolist() == [[8, 16, 24], [8, 16, 24]]
    batch = buffer.as_strided((3, 2, 4), (2**30, 4, 1))
    assert matmul(batch, ones[:4])[:, 0, 0].tolist() == [4, 8, 12]


def test_nothing_is_launched_where_there_is_nothing_to_add(device, monkeypatch):
    monkeypatch.setattr(module, "launch_product", None)
    assert torch.equal(
        matmul(torch.ones(3, 0, device=device), torch.ones(0, 2, device=device)), torch.zeros(3, 2, device=device)
    )
    assert matmul(torch.ones(0, 4, device=device), torch.ones(4, 2, device=device)).shape == (0, 2)
    out = torch.full((3, 2), NAN, device=device)
    assert (launch_matmul(torch.ones(3, 0, device=device), torch.ones(0, 2, device=device), out) == 0).all()


BAD = {
    "one dimension": (((4,), (4, 2)), {}, ValueError, "a has shape (4,); expected at least two dimensions."),
    "inner extents": (
        ((3, 4), (5, 2)),
        {},
        ValueError,
        "b has shape (5, 2); expected 4 rows, as many as a of shape (3, 4) has columns.",
    ),
    "batches": (
        ((2, 3, 4), (3, 4, 2)),
        {},
        ValueError,
        "b has shape (3, 4, 2); expected leading dimensions that are those of a, (2,), or 1, or missing.",
    ),
    "a precision": (
        ((3, 4), (4, 2)),
        {"precision": "fast"},
        ValueError,
        'precision is \'fast\'; expected "ieee", "tf32" or "tf32x3".',
    ),
}


@pytest.mark.parametrize("name", BAD)
def test_refuses_before_any_launch(name, device, monkeypatch):
    monkeypatch.setattr(module, "launch_product", None)
    shapes, choice, error, message = BAD[name]
    tensors = [torch.ones(shape, device=device) for shape in shapes]
    for call in (matmul, module._matmul_operator):
        with pytest.raises(error) as caught:
            call(*tensors, choice.get("precision", "ieee"))
        assert str(caught.value) == message


def test_refuses_dtypes_and_choices(device, monkeypatch):
    monkeypatch.setattr(module, "launch_product", None)
    half, full = torch.ones(4, 4, device=device).half(), torch.ones(4, 4, device=device)
    with pytest.raises(TypeError, match="b has dtype bfloat16; expected the dtype of a, float16"):
        matmul(half, full.bfloat16())
    with pytest.raises(TypeError, match="a has dtype float64; expected float32, float16 or bfloat16"):
        matmul(full.double(), full.double())
    with pytest.raises(ValueError, match='precision is "tf32" for float16; expected "ieee"'):
        matmul(half, half, "tf32")
    for choice, message in (
        ({"path": "fast"}, 'path is \'fast\'; expected "tiles", "persistent", "ring" or None.'),
        ({"block_m": 24}, "block_m is 24; expected a power of two from 1 to 256."),
        ({"block_k": 8}, "block_k is 8; expected at least 16, the least that a matrix instruction takes."),
        ({"splits": 0}, "splits is 0; expected a number from 1 to 64."),
        ({"subtiles": 8}, "subtiles is 8; expected a power of two from 1 to 4."),
        ({"consumers": 2}, 'consumers is 2; expected "alone", "turns" or "halves".'),
    ):
        with pytest.raises(ValueError) as caught:
            launch_matmul(full, full, torch.empty(4, 4, device=device), **choice)
        assert str(caught.value) == message
    with pytest.raises(ValueError, match=r"out has shape \(4, 3\); expected \(4, 4\)"):
        launch_matmul(full, full, torch.empty(4, 3, device=device))
    with pytest.raises(ValueError, match="out overlaps b in memory"):
        launch_matmul(full + 1, full.t(), full)
    with pytest.raises(ValueError, match="out overlaps a in memory"):
        launch_matmul(full, full + 1, full)


def test_the_persistent_way_is_refused_where_it_cannot_go(device):
    full = torch.ones(4, 4, device=device)
    with pytest.raises(
        ValueError, match=r'path is "persistent" for a of shape .* expected a single product of a two-byte'
    ):
        launch_matmul(full, full, torch.empty(4, 4, device=device), path="persistent")


@pytest.mark.parametrize(("left", "right"), [((5, 0), (0, 3)), ((5, 3), (3, 0)), ((2, 5, 0), (0, 3)), ((0, 3), (3, 4))])
def test_gradients_of_products_without_elements(left, right, device):
    a, b = (torch.ones(size, device=device, requires_grad=True) for size in (left, right))
    matmul(a, b).sum().backward()
    assert a.grad.shape == a.shape and b.grad.shape == b.shape
    assert (b.grad == 0).all() if 0 in left else b.grad.numel() == 0


def test_rows_of_all_products_together_are_limited(device):
    a = torch.empty(1, device=device).expand(2, 2**30, 1)
    with pytest.raises(ValueError, match=r"expected a product of at most \d+ rows in all"):
        matmul(a, torch.empty(1, 1, device=device))


def test_a_launcher_records_no_gradient_and_says_so(device):
    from kernels.ops.fused_gemm import launch_fused_gemm

    a, b, bias = (torch.ones(size, device=device) for size in ((3, 4), (4, 5), (5,)))
    out = torch.empty(3, 5, device=device)
    for name, tensor in (("a", a), ("b", b), ("bias", bias)):
        tensor.requires_grad_()
        with pytest.raises(ValueError, match=f"{name} requires a gradient"):
            launch_fused_gemm(a, b, bias, out)
        if name != "bias":
            with pytest.raises(ValueError, match=f"{name} requires a gradient"):
                launch_matmul(a, b, out)
        tensor.requires_grad_(False)
    assert (launch_matmul(a, b, out) == 4).all()
