"""The experiments and the profiler on a real GPU: what they must show whatever the card."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

from kernels.bench import overhead, profiling
from kernels.bench.device import gpu_missing
from kernels.bench.results import read

ROOT = Path(__file__).resolve().parents[2]
pytestmark = [pytest.mark.gpu, pytest.mark.skipif(gpu_missing() is not None, reason="needs an NVIDIA GPU")]


def script(name: str, *arguments: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, f"scripts/{name}.py", *arguments]
    return subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=500, check=False)


def test_specialization_measures_right_results(tmp_path: Path) -> None:
    file = tmp_path / "scale_rows.json"
    done = script("specialization", "--iters", "3", "--output", str(file))
    assert done.returncode == 0, done.stderr
    document = read(file)
    assert document.finished and len(document.cases) == 5
    assert all(record.status == "ok" and record.max_abs_error == 0.0 for record in document.cases)
    assert all(not record.stale for record in document.cases)


def test_host_times_of_all_ways(tmp_path: Path) -> None:
    file = tmp_path / "overhead.json"
    done = script("wrapper_overhead", "--op", "row_sum", "--iters", "5", "--output", str(file))
    assert done.returncode == 0, done.stderr
    found = {way.name: way for way in overhead.decode(file.read_bytes()).ways}
    assert all(way.status == "ok" for way in found.values()), [way.reason for way in found.values()]
    assert found["direct call"].median_us < found["custom operator"].median_us
    assert all(0.5 < way.median_us < 1000.0 for way in found.values())


@pytest.mark.skipif(profiling.tool("ncu") is None, reason="ncu is not installed")
def test_a_profile_of_one_launch(tmp_path: Path) -> None:
    file = tmp_path / "profile.json"
    chosen = ("--op", "row_sum", "--shape", "8192x4096", "--dtype", "float32")
    done = script("profile_kernel", *chosen, "--output", str(file))
    assert done.returncode == 0, done.stdout + done.stderr
    (kernel,) = profiling.decode(file.read_bytes()).kernels
    assert "_row_sum" in kernel.kernel
    assert kernel.values["dram_read_bytes"] == pytest.approx(4 * 8192 * 4096, rel=0.05)
    assert json.loads(file.read_text())["kernels"][0]["values"]["duration_us"] > 0
