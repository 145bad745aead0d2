"""The row plan: what every plan must keep to, and which way typical shapes go."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kernels.ops.row_plan import MAX_BLOCK, MAX_PARTS, NARROW, plan_rows

MOST_HELD = 128  # 32-bit values in a thread; it has 255 registers


@settings(deadline=None, max_examples=400, derandomize=True)
@given(
    M=st.one_of(st.none(), st.integers(1, 2**31), st.integers(1, 300)),
    N=st.one_of(st.integers(1, 2**21), st.integers(0, 21).flatmap(lambda k: st.sampled_from([2**k, 2**k + 1]))),
    element_bytes=st.sampled_from([2, 4]),
    sm_count=st.sampled_from([1, 16, 108, 132]),
    held=st.sampled_from([0, 1, 2]),
    side_by_side=st.booleans(),
    may_wait=st.booleans(),
)
def test_a_plan_can_be_launched(M, N, element_bytes, sm_count, held, side_by_side, may_wait):
    plan = plan_rows(M, N, element_bytes, sm_count, held, side_by_side, may_wait)
    for size in (plan.block_m, plan.block_n, plan.num_warps):
        assert size > 0 and size & (size - 1) == 0
    assert plan.block_n <= MAX_BLOCK and plan.num_warps <= 32
    assert plan.block_m * plan.block_n * max(held, 1) <= MOST_HELD * 32 * plan.num_warps
    if plan.path == "joint":  # else programs wait for others that cannot start
        assert may_wait and held and plan.parts <= sm_count
    if plan.path in ("joint", "block") and held:
        assert plan.parts * plan.block_n >= N
    if plan.path == "looped":
        assert plan.block_m == plan.parts == 1 and held < 2  # the gradient has no such kernel
    if plan.path == "twice":
        assert plan.block_m == plan.parts == 1 == held and plan.block_n >= N
    assert 1 <= plan.parts <= MAX_PARTS


@pytest.mark.parametrize(
    "shape,held,side_by_side,path",
    [
        ((4096, NARROW), 1, False, "block"),
        ((4096, NARROW + 1), 1, False, "looped"),
        ((4096, NARROW + 1), 2, False, "block"),  # its second look would be two reads
        ((4096, MAX_BLOCK), 1, False, "looped"),
        ((4096, MAX_BLOCK + 1), 1, False, "joint"),
        ((4096, MAX_BLOCK // 2 + 1), 2, False, "joint"),
        ((131, 16384), 1, False, "joint"),  # fewer rows than multiprocessors: some would be idle
        ((132, 16384), 1, False, "looped"),
        ((32, 2**21), 1, False, "joint"),
        ((32, 2**22), 1, False, "split"),  # more parts of the widest kind than multiprocessors
        ((16384, 4096), 1, True, "joint"),  # 32 rows at once are too much for one program
        ((16384, 1000), 1, True, "block"),
        ((132, 4096), 0, False, "looped"),
        ((32, 2**20), 0, False, "split"),
        ((32, 1000), 0, False, "block"),
        ((None, 2**17), 1, False, "joint"),
    ],
)
def test_which_way_rows_go(shape, held, side_by_side, path):
    assert plan_rows(*shape, 4, 132, held, side_by_side).path == path
    elsewhere = plan_rows(*shape, 4, 132, held, side_by_side, may_wait=False).path
    assert elsewhere == path or (path == "joint" and elsewhere in ("split", "looped", "block"))


def test_few_rows_are_cut_only_where_programs_can_wait():
    # Two launches read a row twice, which is what a loop does in one.
    assert plan_rows(3, 16384, 4, 132, may_wait=True).path == "joint"
    assert plan_rows(3, 16384, 4, 132, may_wait=False).path == "looped"


@pytest.mark.parametrize("N", [NARROW + 1, 4096, 16384, MAX_BLOCK])
def test_elements_of_two_bytes_take_one_exponential(N):
    plan = plan_rows(4096, N, 2, 132)
    assert (plan.path, plan.block_m, plan.block_n) == ("twice", 1, 2048 if N == NARROW + 1 else N)
    assert plan.block_n // (32 * plan.num_warps) <= 64 and plan_rows(4096, N, 4, 132).path == "looped"
    assert plan_rows(4096, N, 2, 132, side_by_side=True).path == "joint" and plan_rows(99, N, 2, 132, 2).path != "twice"


def test_a_choice_is_kept():
    plan = plan_rows(5, 100, 4, 132, path="looped", block=16, num_warps=1)
    assert (plan.path, plan.block_n, plan.num_warps) == ("looped", 16, 1)


def test_narrow_rows_share_a_program_and_neighbours_share_a_line():
    for element_bytes in (2, 4):
        assert [plan_rows(10**6, N, element_bytes, 132).block_m for N in (1, 64, 128, 512, 1024)] == [1024, 16, 8, 2, 1]
        for N in (64, 1024, 4096, 16384):
            rows = plan_rows(10**6, N, element_bytes, 132, side_by_side=True).block_m
            assert 32 <= rows * element_bytes <= 128  # between a sector and a line
