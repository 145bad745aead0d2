"""The Gluon product, run as Python in many orders: its barriers, its ring and its copies, without a GPU."""

import pytest
import torch

from kernels.ops.matmul_gluon import describe

from .gluon_model import Broken, Map, multiply

TILE = (32, 32, 16)
SEEDS = range(6)


def product(M, N, K, programs=2, seed=0, transposed=(False, False), **more):
    def numbers(rows, columns, turned):
        stored = (columns, rows) if turned else (rows, columns)
        values = torch.arange(rows * columns).remainder(7).sub(3).to(torch.bfloat16).reshape(stored)
        return values.t() if turned else values

    a, b = numbers(M, K, transposed[0]), numbers(K, N, transposed[1])
    out = torch.full((M, N), float("nan"), dtype=torch.bfloat16)
    multiply(a, b, out, TILE, programs, seed, **more)
    return out, a.double() @ b.double()


@pytest.mark.parametrize("consumers", ["alone", "turns", "halves"])
@pytest.mark.parametrize("parts", [1, 2, 4])
@pytest.mark.parametrize("shape", [(32, 32, 16), (64, 96, 80), (40, 72, 24), (96, 64, 16)])
def test_every_order_gives_the_product(shape, parts, consumers):
    """One step a tile, more steps than stages, fewer; one tile a program, several, and none for the second consumer."""
    for seed in SEEDS:
        out, exact = product(*shape, seed=seed, parts=parts, consumers=consumers)
        assert torch.equal(out, exact.bfloat16())


@pytest.mark.parametrize("consumers", ["turns", "halves"])
@pytest.mark.parametrize("transposed", [(True, False), (False, True), (True, True)])
def test_turned_operands(transposed, consumers):
    out, exact = product(64, 48, 40, transposed=transposed, consumers=consumers)
    assert torch.equal(out, exact.bfloat16())


@pytest.mark.parametrize("activation", ["none", "relu", "gelu"])
def test_bias_activation_and_factor(activation):
    bias = torch.linspace(-40, 40, 96).to(torch.bfloat16)
    out, exact = product(64, 96, 80, consumers="halves", parts=4, bias=bias, activation=activation, scale=0.5)
    value = exact + bias.double()
    after = {"none": value, "relu": value.relu(), "gelu": torch.nn.functional.gelu(value, approximate="tanh")}
    torch.testing.assert_close(out, (after[activation] * 0.5).bfloat16(), rtol=2**-7, atol=1e-6)


def test_what_the_copy_engine_writes_ends_with_a_piece_of_16_bytes():
    """Why an output of other rows is left to other kernels: see `kernels.ops.matmul_launch._out_describable`."""
    with pytest.raises(AssertionError):  # rows side by side would not begin at multiples of 16 bytes
        product(64, 60, 80, transposed=(False, True))
    around = torch.full((4, 128), 7.0, dtype=torch.bfloat16)
    Map(describe(around[:, :60], False, 128, [4, 64])).write([0, 0], torch.zeros(4 * 64, dtype=torch.bfloat16))
    assert (around[:, :64] == 0).all() and (around[:, 64:] == 7).all()  # four columns too many
    out, exact = product(64, 56, 80, transposed=(False, True))
    assert torch.equal(out, exact.bfloat16())


LARGE = (64, 96, 80)
BROKEN = {  # how it consumes, the shape, and what is changed
    "no turns: a parity of the round before the last": (
        "turns",
        LARGE,
        ("mbarrier.wait(turns.index(ME), turn & 1 ^ 1 ^ ME)  # the first one's first turn comes by itself", "pass"),
    ),
    "the other's turn never comes": ("turns", LARGE, ("mbarrier.arrive(turns.index(1 - ME), count=1)", "pass")),
    "a slot handed back while it is read": (
        "alone",
        LARGE,
        ("total = warpgroup_mma_wait(num_outstanding=1, deps=(total,))\n            # The", "# The"),
    ),
    "steps of the other consumer not passed over": ("turns", LARGE, ("step += (TURNS - 1) * steps", "pass")),
    "the result overwritten while it leaves": (
        "alone",
        LARGE,
        ("tma.store_wait(BUFFERS - 1)  # until", "pass  # until"),
    ),
    "no fence": ("alone", LARGE, ("fence_async_shared()\n            at = [tile_m", "at = [tile_m")),
    "the sum before is kept": ("alone", LARGE, ("use_acc=k > 0", "use_acc=True")),
    "the rows of the other half": ("halves", LARGE, ("slot * HALVES + (ME if HALVES == 2 else 0)", "slot * HALVES")),
    "a slot is free when one half has read it": ("halves", LARGE, ("count=HALVES", "count=1")),
    "the second half is never let go": (
        "halves",
        LARGE,
        ("mbarrier.arrive(turns.index(0), count=1, pred=step == gl.minimum(steps, LEAD))", "pass"),
    ),
    "a lead that a short sum never has": ("halves", (32, 32, 16), ("step == gl.minimum(steps, LEAD)", "step == LEAD")),
}


@pytest.mark.parametrize("name", BROKEN)
def test_a_broken_ring_is_found_in_some_order(name):
    consumers, shape, change = BROKEN[name]
    for seed in range(40):
        try:
            out, exact = product(*shape, seed=100 * seed, consumers=consumers, changes=[change])
        except Broken:
            return
        if not torch.equal(out, exact.bfloat16()):
            return
    pytest.fail("the broken kernel gave the right result in every order")


def test_buffers_that_are_waited_for_too_late():
    """In four parts a buffer is used twice a tile: it must be empty when its turn comes."""
    change = ("tma.store_wait(BUFFERS - 1)  # until", "tma.store_wait(BUFFERS)  # until")
    with pytest.raises(Broken, match="overwritten"):
        for seed in range(40):
            product(*LARGE, seed=seed, consumers="halves", parts=4, changes=[change])
