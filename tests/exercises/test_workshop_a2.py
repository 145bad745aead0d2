"""What Workshop A2 runs beside its exercise: version 0, the launch too few, states that walk, and their test."""

import subprocess
import sys
from pathlib import Path

import pytest

pytest.importorskip("triton")
torch = pytest.importorskip("torch")


from kernels.trace.triton import trace_triton  # noqa: E402
from lessons_src.examples import split_versions, try_walk  # noqa: E402

pytestmark = pytest.mark.interpreted

ROOT = Path(__file__).resolve().parents[2]
INF = float("inf")


def drawn(*shape, seed=0):
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed))


@pytest.mark.parametrize("splits", [1, 3, 7, 40])  # whole, even, ragged, more than columns
def test_states_in_torch_merge_to_the_sum_of_the_row(splits):
    x = drawn(4, 30).double()
    x[1, 4:20], x[2] = -INF, -INF
    maxima, sums = split_versions.states_in_torch(x, splits)
    assert maxima.shape == sums.shape == (4, splits) and not sums.isnan().any()
    highest, total = split_versions.merged_in_torch(maxima, sums)
    assert torch.equal(highest, x.amax(1, keepdim=True))
    assert total[2].isnan().all()  # nothing counts in that row: -inf - -inf
    counted = [0, 1, 3]
    assert torch.allclose(total[counted], torch.exp(x - highest)[counted].sum(1, keepdim=True))


def test_one_launch_is_accused_and_wrong_for_all_but_the_last_program():
    row, out, maxima, sums = drawn(20), *(torch.full((n,), float("nan")) for n in (20, 4, 4))
    trace = trace_triton(
        lambda: split_versions._in_one_launch[(4,)](row, out, maxima, sums, 20, 4, 5, ALL_SPLITS=4, BLOCK_N=8),
        {"row": row, "out": out, "maxima": maxima, "sums": sums},
    )
    assert {fault.kind for fault in trace.faults()} == {"read-write-overlap"}
    right = torch.isclose(out, torch.softmax(row, 0))
    assert right[15:].all() and not right[:15].any()


@pytest.mark.parametrize("shape, splits, tile", list(zip([(2, 64), (3, 50), (1, 3)], (2, 4, 8), (8, 8, 4))))
def test_states_that_walk_are_those_of_torch(shape, splits, tile):
    x = drawn(*shape, seed=3)
    x[0, : shape[1] // 2] = -INF
    found, right = split_versions.states_walking(x, splits, tile), split_versions.states_in_torch(x, splits)
    assert torch.equal(found[0], right[0]) and torch.allclose(found[1], right[1])


BODY = """import torch, triton, triton.language as tl
from lessons_src.examples import split_versions
from lessons_src.examples.split_versions import states_in_torch

def states_walking(x, splits, tile):
"""
WRONG = {
    "a maximum is wrong": "    m, l = states_in_torch(x, splits)\n    return m + 1, l",
    "a sum is wrong": "    m, l = states_in_torch(x, splits)\n    return m, l * 1.001",
    "a score is read 2 times": "    split_versions.states_walking(x, splits, tile)\n"
    "    return split_versions.states_walking(x, splits, tile)",
}


@pytest.mark.parametrize("said", WRONG)
def test_the_command_says_what_is_wrong_with_a_file(said, tmp_path):
    file = tmp_path / "mine.py"
    file.write_text(BODY + WRONG[said] + "\n", encoding="utf-8")
    command = [sys.executable, "lessons_src/examples/try_walk.py"]
    done = subprocess.run([*command, str(file)], cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 1 and said in done.stdout, done


def test_ours_is_right_and_a_file_without_the_function_is_refused(tmp_path):
    command = [sys.executable, "lessons_src/examples/try_walk.py"]
    assert subprocess.run(command, cwd=ROOT, capture_output=True, text=True).stdout.startswith("right: ")
    (tmp_path / "empty.py").write_text("", encoding="utf-8")
    done = subprocess.run([*command, str(tmp_path / "empty.py")], cwd=ROOT, capture_output=True, text=True)
    assert done.returncode == 2 and "defines no states_walking" in done.stderr
    assert try_walk.complaint(split_versions.states_walking) == ""
