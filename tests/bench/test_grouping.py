"""The experiment on the order of tiles: its arms are possible, and its table says what the samples say."""

import subprocess
import sys
from pathlib import Path

import pytest

from kernels.bench import grouping
from kernels.bench.results import Record, complete

ROOT = Path(__file__).resolve().parents[2]


def record(group, median, shape=(4096, 4096, 4096), status="ok"):
    made = Record(
        op="matmul",
        implementation=f"triton[group_m={group}]",
        ours=True,
        shape=list(shape),
        dtype="bfloat16",
        config={**grouping.TILE, "group_m": group},
        status=status,
        reason=None if status == "ok" else "It did not fit.",
        bytes_moved=1,
        flops=2 * 4096**3,
        timing="graph",
        cache="cold",
        samples_us=[median - 1, median, median + 1] if status == "ok" else [],
    )
    return complete(made)


def test_every_arm_is_a_variant_of_the_launcher_with_the_same_tile():
    pytest.importorskip("triton")
    from kernels.bench.run import contenders
    from kernels.ops.unmeasured import find

    found = contenders(find("matmul"), grouping.options())
    assert found[0].name == "torch" and len(found) == 1 + len(grouping.GROUPS)
    configs = [each.config for each in found[1:]]
    assert [config.pop("group_m") for config in configs] == list(grouping.GROUPS)
    assert all(config == grouping.TILE for config in configs)


def test_the_table_names_a_gain_beyond_the_spreads_and_no_other():
    clear = grouping.table([record(1, 200.0), record(8, 180.0)], l2_bytes=60_000_000)
    assert "1.111" in clear
    assert "GROUP_M = 8 is faster than row by row by more than both spreads; the L2 cache holds b." in clear
    none = grouping.table([record(1, 200.0), record(8, 199.0)], l2_bytes=1_000_000)
    assert "no group differs from row by row by more than the spreads; the L2 cache does not hold b." in none


def test_an_arm_without_a_time_is_shown_with_its_reason():
    text = grouping.table([record(1, 200.0), record(8, 0.0, status="failed")], l2_bytes=1)
    assert "failed: It did not fit." in text and "faster" not in text


@pytest.mark.parametrize(
    "arguments,status,message",
    [
        (["--iters", "0"], 2, "--iters is 0; expected at least 1."),
        (["--shape", "64x64"], 2, "--shape '64x64' is not a product; write rows, columns and k"),
        (["--shape", "axb"], 2, "--shape 'axb' is not a shape"),
    ],
)
def test_wrong_usage(arguments, status, message):
    command = [sys.executable, ROOT / "scripts" / "gemm_grouping.py", *arguments]
    done = subprocess.run(command, capture_output=True, text=True, cwd=ROOT)
    assert done.returncode == status and message in done.stderr
