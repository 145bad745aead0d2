"""The tf32 product in Gluon, run as Python in many orders: its barriers, its ring, and the copies of both sorts."""

import pytest
import torch

from kernels.ops.matmul_tf32 import ring_launch

from .gluon_model import Broken, Machine, Map, Pointer, load_kernel

TILE = (32, 32, 16)
SEEDS = range(4)


def product(M, N, K, split=False, programs=2, seed=0, stages=3, changes=(), parts=4, consumers="turns"):
    """out and the exact product; with `split`, of numbers whose low parts count."""

    def numbers(rows, columns):
        stored = torch.full((rows, columns + -columns % 4 + 4), float("nan"))
        stored[:, :columns] = torch.arange(rows * columns).remainder(7).sub(3).reshape(rows, columns)
        return stored[:, :columns]

    a, b = numbers(M, K), numbers(N, K)
    lows = (numbers(M, K).div_(8), numbers(N, K).div_(16)) if split else None
    out = torch.full((M, N), float("nan"))
    made = ring_launch(a, b, lows, out, TILE, programs, stages, consumers, parts, 2)
    (grid,), values, constants = made
    values = [Map(x) if hasattr(x, "block_shape") else Pointer(x) if isinstance(x, torch.Tensor) else x for x in values]
    constants.pop("maxnreg")
    for program in range(grid):
        kernel = load_kernel(Machine(seed + program), program, grid, 64, changes, "matmul_tf32", chained=True)
        kernel["_matmul_tf32"](*values, **constants)
    exact = a @ b.t()
    return out, exact if lows is None else exact + a @ lows[1].t() + lows[0] @ b.t()


@pytest.mark.parametrize("split", [False, True], ids=["one product", "three"])
@pytest.mark.parametrize("consumers", ["alone", "turns", "halves"])
@pytest.mark.parametrize("shape", [(32, 32, 16), (64, 96, 80), (40, 72, 24), (37, 71, 21), (96, 64, 16)])
def test_every_order_gives_the_product(shape, consumers, split):
    """One step a tile, more steps than stages, fewer; rows that the copy engine can write, and rows that it cannot."""
    for seed in SEEDS:
        out, exact = product(*shape, split=split, seed=seed, consumers=consumers)
        assert torch.equal(out, exact)


BROKEN = {
    "a slot handed back while its products read it": ("num_outstanding=PRODUCTS", "num_outstanding=PRODUCTS + 1"),
    "bytes of one sort only": ("BYTES: gl.constexpr = SORTS * (", "BYTES: gl.constexpr = 1 * ("),
    "the other's turn never comes": ("mbarrier.arrive(turns.index(1 - ME), count=1)", "pass"),
    "steps of the other consumer not passed over": ("step += (TURNS - 1) * steps", "pass"),
    "the result overwritten while it leaves": ("tma.store_wait(0)  # until", "pass  # until"),
    "no fence before it leaves": ("fence_async_shared()\n                tma", "tma"),
    "a low part multiplied by another low part": (
        "warpgroup_mma(a, b_lows.index(slot)",
        "warpgroup_mma(a_lows.index(mine), b_lows.index(slot)",
    ),
}


@pytest.mark.parametrize("name", BROKEN)
def test_what_is_broken_shows(name):
    def right(seed):
        try:
            out, exact = product(64, 96, 80, split=True, seed=seed, changes=[BROKEN[name]])
        except Broken:
            return False
        return torch.equal(out, exact)

    assert not all(right(seed) for seed in range(12)), name
