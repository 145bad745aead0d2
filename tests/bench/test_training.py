"""The experiment on the products of a training step: its arms are right, and it counts results that differ."""

import subprocess
import sys
from pathlib import Path

import pytest

pytest.importorskip("triton")
torch = pytest.importorskip("torch")

from kernels.bench import training  # noqa: E402
from kernels.bench.results import Record, complete  # noqa: E402
from kernels.ops.matmul import sum_tolerance  # noqa: E402
from lessons_src.examples.split_k import by_atomics, different, in_order  # noqa: E402

pytestmark = pytest.mark.interpreted

ROOT = Path(__file__).resolve().parents[2]


@pytest.mark.parametrize("index", range(3))
def test_every_arm_computes_the_product_of_operands_that_lie_as_in_training(index):
    op = training.products(by_atomics, "lessons_src.examples.split_k:by_atomics")[index]
    a, b = op.inputs((24, 16, 70), "bfloat16", "cpu", 3)
    ways = {0: ((70, 1), (16, 1)), 1: ((70, 1), (1, 70)), 2: ((1, 24), (16, 1))}
    assert (a.stride(), b.stride()) == ways[index]
    rtol, atol = sum_tolerance("bfloat16", 70)
    names = [each.name for each in op.implementations]
    assert ("slices=16" in names) == ("atomic slices=16" in names) == (index == 2)
    for each in op.implementations:
        if each.name.endswith("=8") or "=" not in each.name:
            torch.testing.assert_close(each.call(a, b).double(), op.reference(a, b), rtol=rtol, atol=atol)


def test_results_that_differ_are_counted():
    a, b = torch.ones(2, 2), torch.ones(2, 2)
    made = iter(range(1000))
    assert training.Repeated(lambda a, b: a @ b, slices=2).configuration(a, b) == {
        "slices": 2, "runs": training.RUNS, "different": 1,
    }  # fmt: skip
    assert training.Repeated(lambda a, b: a @ b + next(made) % 3).configuration(a, b)["different"] == 3


def test_atomic_slices_depend_on_who_comes_first_and_slices_in_order_do_not():
    generator = torch.Generator().manual_seed(0)
    a, b = (torch.randn(size, generator=generator) for size in ((16, 640), (640, 16)))
    assert different([by_atomics(a, b, 8, start) for start in range(4)]) > 1
    assert different([in_order(a, b, 8) for _ in range(2)]) == 1
    exact = a.double() @ b.double()
    allowed = 2.0**-24 * 642 * (a.double().abs() @ b.double().abs())  # 640 products and their sums, in any order
    for made in (by_atomics(a, b, 8, 3), in_order(a, b, 8)):
        assert ((made.double() - exact).abs() <= allowed).all()


def record(op, implementation, median, **config):
    made = Record(
        op=op, implementation=implementation, ours=True, shape=[1024, 1024, 16384], dtype="bfloat16", config=config,
        status="ok", bytes_moved=1, flops=1, timing="graph", cache="cold", samples_us=[median - 1, median, median + 1],
    )  # fmt: skip
    return complete(made)


def test_the_table_has_tiles_ratio_and_results():
    arms = [record("matmul_db", "torch", 60.0), record("matmul_db", "slices=2", 50.0, slices=2, runs=20, different=1)]
    lines = training.table(arms).splitlines()
    assert lines[2].split() == ["matmul_db", "slices=2", "64", "50.00", "1.000", "1.200", "1", "of", "20"]


def test_wrong_usage():
    command = [sys.executable, ROOT / "scripts" / "gemm_training.py", "--iters", "0"]
    done = subprocess.run(command, capture_output=True, text=True, cwd=ROOT)
    assert done.returncode == 2 and "--iters is 0; expected at least 1." in done.stderr
