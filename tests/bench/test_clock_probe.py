"""scripts/gpu_clock_probe.py: its table, and what it says without a GPU."""

import importlib.util
import os
import subprocess
import sys
from pathlib import Path

import pytest

from kernels.bench.device import gpu_missing

SCRIPT = Path(__file__).resolve().parents[2] / "scripts" / "gpu_clock_probe.py"


def module() -> object:
    spec = importlib.util.spec_from_file_location("gpu_clock_probe", SCRIPT)
    made = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(made)
    return made


def test_the_table_shows_the_ramp() -> None:
    began = [index * 500.0 for index in range(4000)]  # two seconds
    took = [400.0 if start < 30_000.0 else 100.0 for start in began]
    rows = {label: (count, middle, share) for label, count, middle, share in module().table(began, took)}
    assert rows["0 to 1 ms"] == (2, 400.0, 4.0)
    assert rows["10 to 30 ms"] == (40, 400.0, 4.0)
    assert rows["30 to 100 ms"][2] == 1.0 and rows["1000 to 3000 ms"][2] == 1.0
    assert sum(count for count, _, _ in rows.values()) == len(began)


def test_one_run_is_a_table_too() -> None:
    assert module().table([5000.0], [100.0]) == [("3 to 10 ms", 1, 100.0, 1.0)]


def run(*options: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, str(SCRIPT), *options],
        env={**os.environ, "CUDA_VISIBLE_DEVICES": ""},
        capture_output=True,
        text=True,
        timeout=500,
    )


def test_without_a_gpu_it_says_so() -> None:
    done = run()
    assert done.returncode == 3 and "GPU" in done.stderr and "Traceback" not in done.stderr


def test_no_load_is_a_usage_error() -> None:
    assert run("--load", "0").returncode == 2


@pytest.mark.gpu
@pytest.mark.skipif(gpu_missing() is not None, reason="needs an NVIDIA GPU")
def test_on_a_gpu(tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, str(SCRIPT), "--idle", "0.5", "--load", "0.5", "--output", str(tmp_path / "probe.json")],
        capture_output=True,
        text=True,
        timeout=500,
    )
    assert done.returncode == 0, done.stderr
    assert "of settled" in done.stdout and (tmp_path / "probe.json").stat().st_size > 100
