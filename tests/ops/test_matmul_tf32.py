"""Products that may cut float32: what goes which way, and how operands are turned and taken apart."""

import math

import pytest
import torch

from kernels.ops import matmul_tf32_launch
from kernels.ops.matmul import MORE, sum_tolerance
from kernels.ops.matmul_tf32_launch import RINGS, _turned, launch_tf32, plan_ring

from .shared import Banded


@pytest.mark.parametrize("precision", RINGS)
@pytest.mark.parametrize(
    "M,N,rows",
    [
        (4096, 4096, 128),
        (16384, 1024, 128),
        (8191, 4095, 128),
        (1024, 1024, 64),
        (512, 4096, 128),
        (512, 512, 0),
        (16, 65536, 0),
    ],
)
def test_a_ring_where_it_was_measured_to_be_faster(M, N, rows, precision):
    ring = plan_ring(M, N, precision, 132)
    assert (ring.block_m if ring else 0) == rows


def launched(monkeypatch, a, b, out, precision, capability=(9, 0), **more):
    """The names of what is launched, and the choices of what is left to the readable kernel."""
    found = []
    monkeypatch.setattr(matmul_tf32_launch, "JITFunction", object)
    monkeypatch.setattr(matmul_tf32_launch, "_may_ring", lambda _: capability == (9, 0))
    monkeypatch.setattr(matmul_tf32_launch, "sm_count", lambda _: 132)
    monkeypatch.setattr(
        matmul_tf32_launch, "launch", lambda k, g, given, **c: found.append(("turn", given[2] is not None))
    )
    monkeypatch.setattr(
        matmul_tf32_launch, "_launch_described", lambda k, g, given, d, **c: found.append(("ring", given))
    )
    monkeypatch.setattr(matmul_tf32_launch, "launch_product", lambda *_, choices: found.append(("tiles", choices)))
    launch_tf32(a, b, out, precision, **more)
    return found


def empty(rows, columns, turned=False):
    made = torch.empty((columns, rows) if turned else (rows, columns), device="meta")
    return made.t() if turned else made


@pytest.mark.parametrize(
    "a_turned,b_turned,turns", [(False, True, 0), (False, False, 1), (True, True, 1), (True, False, 2)]
)
def test_only_what_does_not_lie_in_rows_of_k_is_turned(a_turned, b_turned, turns, monkeypatch):
    a, b, out = empty(2048, 1024, a_turned), empty(1024, 2048, b_turned), empty(2048, 2048)
    found = launched(monkeypatch, a, b, out, "tf32")
    assert [name for name, _ in found] == ["turn"] * turns + ["ring"]
    given = found[-1][1]
    assert given[2] is None and given[3] is None and given[4] is not None


def test_three_products_take_both_operands_apart(monkeypatch):
    found = launched(monkeypatch, empty(2048, 1024), empty(1024, 2048, True), empty(2048, 2048), "tf32x3")
    assert [name for name, _ in found] == ["turn", "turn", "ring"] and found[0][1] and found[1][1]
    assert found[-1][1][2] is not None and found[-1][1][3] is not None


def test_rows_at_odd_addresses_are_copied_and_written_without_the_copy_engine(monkeypatch):
    found = launched(monkeypatch, empty(2048, 1023), empty(1023, 2047, True), empty(2048, 2047), "tf32")
    assert [name for name, _ in found] == ["turn", "turn", "ring"] and found[-1][1][4] is None


OTHERS = [
    ("tf32", False, (9, 0), True),
    ("tf32", True, (9, 0), False),
    ("tf32x3", True, (9, 0), True),
    ("tf32", False, (8, 0), False),
]


@pytest.mark.parametrize("precision,b_turned,capability,small", OTHERS)
def test_batches_and_other_cards_go_by_tiles(precision, b_turned, capability, small, monkeypatch):
    a, out = torch.empty(3, 512, 64, device="meta"), torch.empty(3, 512, 512, device="meta")
    b = torch.empty(3, 512, 64, device="meta").mT if b_turned else torch.empty(3, 64, 512, device="meta")
    found = launched(monkeypatch, a, b, out, precision, capability)
    assert [name for name, _ in found] == ["tiles"] and bool(found[0][1]) == small


@pytest.mark.parametrize("K,small", [(512, True), (65536, False)])
def test_a_long_sum_of_few_tiles_is_left_to_the_plan_which_cuts_it(K, small, monkeypatch):
    found = launched(monkeypatch, empty(512, K), empty(K, 512), empty(512, 512), "tf32")
    assert [name for name, _ in found] == ["tiles"] and bool(found[0][1]) == small


def test_a_ring_that_cannot_run_is_refused(device):
    if torch.cuda.is_available() and torch.cuda.get_device_capability() == (9, 0):
        pytest.skip("this GPU runs it")
    x = torch.ones(64, 64, device=device)
    with pytest.raises(RuntimeError, match=r"a ring was asked for, and out of shape \(64, 64\) is on "):
        launch_tf32(x, x, torch.empty_like(x), "tf32", RINGS["tf32"][0])


def bits(x):
    return x.contiguous().view(torch.int32)


@pytest.mark.parametrize("turned", [False, True])
def test_high_and_low_parts_have_eleven_bits_each_and_make_the_number(turned, device):
    x = torch.randn(70, 90, device=device) * torch.logspace(-30, 30, 90, device=device)
    high, low = _turned(x.t() if turned else x, True)
    x = x.t() if turned else x
    assert high.shape == low.shape == x.shape and high.stride(0) * 4 % 16 == 0
    assert (bits(high) & 0x1FFF == 0).all() and (bits(low) & 0x1FFF == 0).all()
    assert ((high.double() + low.double() - x.double()).abs() <= 2.0**-21 * x.double().abs()).all()
    assert (high.abs() <= x.abs()).all()  # cut, as the tensor cores cut it
    copy, nothing = _turned(x, False)
    assert torch.equal(copy, x) and nothing is None


def test_what_has_no_parts_stands_in_the_low_one_and_is_multiplied_with_its_sign(device):
    special = torch.tensor([[math.inf, -math.inf, math.nan, 0.0, -0.0, 1e38, 1e-30, 2.0]], device=device)
    high, low = _turned(special, True)
    assert high[0, :2].tolist() == [1, -1] and low[0, :2].tolist() == [math.inf, -math.inf] and low[0, 2].isnan()
    assert ((high + low)[0, 3:] / special[0, 3:] - 1).nan_to_num(0).abs().max() < 2.0**-21 and high.isfinite().all()
    other = torch.tensor([[3 - 2.0**-12], [-(3 - 2.0**-12)], [math.inf], [math.nan], [0.0]], device=device)
    (a, a_low), (b, b_low) = _turned(special, True), _turned(other, True)
    made = a.t() @ b.t() + a.t() @ b_low.t() + a_low.t() @ b.t()
    exact = special.double().t() @ other.double().t()
    assert torch.equal(made.isnan(), exact.isnan()) and torch.equal(
        made.isinf() * made.sign(), exact.isinf() * exact.sign()
    )


@pytest.mark.gpu
@pytest.mark.parametrize("record", MORE, ids=lambda record: record.name)
@pytest.mark.parametrize("ring", [0, 1], ids=["turns", "alone"])
@pytest.mark.parametrize("shape", [(300, 264, 128), (130, 1031, 99), (257, 68, 1), (1, 1, 40)], ids=str)
@pytest.mark.parametrize("turned", [(False, False), (True, True), (False, True)], ids=str)
def test_every_ring_gives_the_product_and_writes_nothing_beside_it(shape, turned, ring, record):
    if not torch.cuda.is_available() or torch.cuda.get_device_capability() != (9, 0):
        pytest.skip("needs a GPU of compute capability 9.0: no other runs the kernel, and nothing interprets it")
    a, b = record.inputs(shape, "float32", "cuda", seed=1)
    a, b = (x.t().contiguous().t() if turn else x for x, turn in zip((a, b), turned))
    precision = record.launch["precision"]
    banded = Banded(shape[:2], a.dtype, "cuda")
    launch_tf32(a, b, banded.out, precision, RINGS[precision][ring])
    rtol, atol = sum_tolerance("float32", shape[-1], precision)
    torch.testing.assert_close(banded.out.double(), record.reference(a, b), rtol=rtol, atol=atol)
    banded.assert_bands_untouched()


@pytest.mark.gpu
@pytest.mark.parametrize("record", MORE, ids=lambda record: record.name)
def test_infinities_and_nan_as_in_float64(record):
    if not torch.cuda.is_available() or torch.cuda.get_device_capability() != (9, 0):
        pytest.skip("needs a GPU of compute capability 9.0: no other runs the kernel, and nothing interprets it")
    a, b = torch.randn(256, 128, device="cuda"), torch.randn(128, 256, device="cuda")
    a[3, 5], a[7, 9], a[11, 1] = math.inf, -math.inf, math.nan
    b[5, 8], b[1, 77], b[5, 9] = math.inf, math.nan, 0.0
    precision = record.launch["precision"]
    out = launch_tf32(a, b, torch.empty(256, 256, device="cuda"), precision, RINGS[precision][0]).double()
    exact = record.reference(a, b)
    assert torch.equal(out.isnan(), exact.isnan()) and torch.equal(
        out.isinf() * out.sign(), exact.isinf() * exact.sign()
    )
