"""The plan of a product: which kernel, in what tiles, for which shape. Numbers alone; nothing is launched."""

import pytest

from kernels.ops.matmul_plan import MatmulPlan, plan_matmul

pytestmark = pytest.mark.triton


def plan(M, N, K, activation="none", ring=True, sm_count=132, described=(True, True)):
    return plan_matmul(M, N, K, 1, 2, "ieee", sm_count, described, True, ring, activation=activation)


TURNS = MatmulPlan("ring", 128, 128, 64, 8, 6, subtiles=4, consumers="turns")
SHORT = MatmulPlan("ring", 128, 128, 64, 8, 5, subtiles=1, consumers="turns")
MEASURED = {  # on an H200: what was fastest
    (8192, 8192, 512, "none"): TURNS,
    (16384, 1024, 1024, "none"): TURNS,
    (8192, 8192, 8192, "none"): TURNS,
    (4096, 4096, 4096, "none"): TURNS,
    (4096, 4096, 4096, "gelu"): TURNS,
    (16384, 1024, 1024, "gelu"): TURNS,
    (8192, 8192, 512, "gelu"): SHORT,
    (8192, 8192, 512, "relu"): TURNS,
    (1024, 1024, 1024, "none"): MatmulPlan("ring", 64, 128, 128, 4, 4, early=True),
    (1024, 1024, 16384, "none"): MatmulPlan("persistent", 128, 128, 64, 4, 4, splits=2, early=True, overlap=True),
    (16, 4096, 4096, "none"): MatmulPlan(
        "persistent", 64, 16, 256, 4, 4, splits=2, turned=True, early=True, overlap=True
    ),
}


@pytest.mark.parametrize("case", MEASURED, ids=str)
def test_a_measured_shape_gets_what_was_fastest(case):
    assert plan(*case) == MEASURED[case]


def test_without_the_ring_the_plan_is_the_persistent_kernel():
    assert plan(4096, 4096, 4096, ring=False) == MatmulPlan("persistent", 128, 256, 64, 8, 3, subtiles=2)
    assert plan(1024, 1024, 1024, ring=False) == MatmulPlan("persistent", 128, 64, 128, 4, 4)


def test_one_tile_a_multiprocessor_has_no_turns():
    assert plan(1408, 1408, 4096).consumers == "alone"  # 121 tiles of 128 by 128
    assert plan(2048, 2048, 4096).consumers == "turns"  # 256 of them
    assert plan(2048, 2048, 4096, sm_count=256).consumers == "alone"
    assert plan(8192, 64, 1024).path == "persistent"  # half of a tile of 128 columns would be empty


@pytest.mark.parametrize("described", [(False, True), (True, False)])
def test_a_packed_operand_keeps_the_plan_that_was_measured_with_packing(described):
    for shape in ((8192, 8192, 4097), (1024, 1024, 1023), (1024, 1024, 16383), (16, 4096, 4095)):
        found = plan(*shape, described=described)
        assert not (found.early or found.overlap) and found.path in ("persistent", "tiles"), shape
