"""The Gluon product, run as Python in many orders: its barriers, its ring and its copies, without a GPU."""

import pytest
import torch

from .gluon_model import Broken, multiply

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


@pytest.mark.parametrize("consumers", [1, 2])
@pytest.mark.parametrize("parts", [1, 2])
@pytest.mark.parametrize("shape", [(32, 32, 16), (64, 96, 80), (40, 72, 24), (96, 64, 16)])
def test_every_order_gives_the_product(shape, parts, consumers):
    """One step a tile, more steps than stages, fewer; one tile a program, several, and none for the second consumer."""
    for seed in SEEDS:
        out, exact = product(*shape, seed=seed, parts=parts, consumers=consumers)
        assert torch.equal(out, exact.bfloat16())


@pytest.mark.parametrize("transposed", [(True, False), (False, True), (True, True)])
def test_turned_operands(transposed):
    out, exact = product(64, 48, 40, transposed=transposed, consumers=2)
    assert torch.equal(out, exact.bfloat16())


BROKEN = {
    "no turns: a parity of the round before the last": (
        2,
        ("mbarrier.wait(turns.index(ME), turn & 1 ^ 1 ^ ME)  # the first one's first turn comes by itself", "pass"),
    ),
    "the other's turn never comes": (2, ("mbarrier.arrive(turns.index(1 - ME), count=1)", "pass")),
    "a slot handed back while it is read": (
        1,
        ("total = warpgroup_mma_wait(num_outstanding=1, deps=(total,))\n            # The", "# The"),
    ),
    "steps of the other consumer not passed over": (2, ("step += (CONSUMERS - 1) * steps", "pass")),
    "the result overwritten while it leaves": (1, ("tma.store_wait(0)  # until", "pass  # until")),
    "no fence": (
        1,
        ("out_buffer.store(done)\n            fence_async_shared()", "out_buffer.store(done)\n            pass"),
    ),
}


@pytest.mark.parametrize("name", BROKEN)
def test_a_broken_ring_is_found_in_some_order(name):
    consumers, change = BROKEN[name]
    for seed in range(40):
        try:
            out, exact = product(64, 96, 80, seed=100 * seed, consumers=consumers, changes=[change])
        except Broken:
            return
        if not torch.equal(out, exact.bfloat16()):
            return
    pytest.fail("the broken kernel gave the right result in every order")
