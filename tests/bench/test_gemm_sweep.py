"""The sweep of products and the plan that was decided by it."""

import pytest

pytest.importorskip("triton")

from kernels.bench.gemm_sweep import LIBRARY, read_sweep
from kernels.bench.results import ResultsError
from kernels.ops.matmul import BENCHES

SLACK = 0.03  # of the fastest arm's time, as far apart as two runs of one arm of this sweep were


@pytest.mark.parametrize("shape", [case.shape for case in BENCHES], ids=lambda shape: "x".join(map(str, shape)))
def test_the_plan_takes_an_arm_that_was_about_as_fast_as_any(shape):
    sweep = read_sweep()
    planned, fastest = sweep.planned(shape), sweep.arms(shape)[0]
    assert planned is not None, "the plan's choice was not among the arms: measure it"
    assert planned.median_us <= fastest.median_us * (1 + SLACK), (planned.arm, fastest.arm)


def test_every_arm_was_right_and_has_a_library_beside_it():
    sweep = read_sweep()
    assert len(sweep.cases) > 150
    for case in sweep.cases:
        assert case.least_us <= case.median_us <= case.most_us
        assert (case.error_over_tolerance or 0) <= 1 or "library" in case.arm
        assert (case.error_over_tolerance is None) == (case.arm == "our product alone")
        same = [
            c for c in sweep.cases if (c.shape, c.product, c.transposed) == (case.shape, case.product, case.transposed)
        ]
        assert sum(c.arm == LIBRARY for c in same) == 1


def test_a_file_that_is_no_sweep_is_refused_by_name(tmp_path):
    (tmp_path / "x.json").write_text('{"cases": []}')
    with pytest.raises(ResultsError, match=r"x\.json is not a sweep of products"):
        read_sweep(path=tmp_path / "x.json")
    assert read_sweep(path=tmp_path / "none.json") is None
