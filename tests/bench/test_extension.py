"""scripts/extension.py: what its parts ask of the operator, tried on a CPU with one of the same name; its refusal."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

pytest.importorskip("torch")
ROOT = Path(__file__).resolve().parents[2]
SCRIPT = ROOT / "scripts" / "extension.py"
STAND_IN = """
import importlib.util, json, sys, torch
spec = importlib.util.spec_from_file_location("extension", sys.argv[1])
script = importlib.util.module_from_spec(spec)
spec.loader.exec_module(script)
library = torch.library.Library("matmul_ext", "DEF")
library.define("matmul(Tensor a, Tensor b) -> Tensor")
library.impl("matmul", lambda a, b: a.detach().contiguous() @ b.detach().contiguous(), "CPU")
script.DEVICE, script.jit = "cpu", dict
print(json.dumps(script.PARTS[sys.argv[2]]()))
"""


def part(name: str) -> dict:
    done = subprocess.run([sys.executable, "-c", STAND_IN, SCRIPT, name], capture_output=True, text=True, cwd=ROOT)
    assert done.returncode == 0, done.stderr[-2000:]
    return json.loads(done.stdout.splitlines()[-1])


def test_registered_first_it_passes_opcheck() -> None:
    found = part("opcheck")
    assert len(found) == 4 and set(found.values()) == {"SUCCESS"}


def test_registered_after_a_compiled_call_it_loses_its_gradients_under_the_compiler() -> None:
    """Why each part has a process of its own. Where a newer PyTorch mends it, this test and Essentials 7 say so."""
    found = part("late")
    assert found["gradients"] == {"grad a": None, "grad b": None}
    assert "Gradients" in found["opcheck"]["test_aot_dispatch_dynamic"]
    assert found["gradients, memory cleared"] == {"grad a": 0.0, "grad b": 0.0}
    assert set(found["opcheck, memory cleared"].values()) == {"SUCCESS"}


def test_gradients_are_measured_apart_from_the_result() -> None:
    found = part("values")
    assert set(found) == {"forward", "grad a", "grad b"} and 0 < max(found.values()) < 1e-4


def test_a_wrong_argument_is_told_in_what_the_operator_says() -> None:
    assert "4x5 and 4x5" in part("wrong inner sizes")["said"]


def test_a_part_that_raises_says_so_under_its_name() -> None:
    import importlib.util

    spec = importlib.util.spec_from_file_location("extension", SCRIPT)
    script = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(script)
    told = script.run_apart("no such part")
    assert "invalid choice" in told["no such part"]["error"] and "no such part seconds" in told
    assert script.raised({"values": told["no such part"], "errors": {"device": "refused"}, "gpu": "x"}) == ["values"]


def test_without_a_gpu_it_says_what_is_missing(tmp_path: Path) -> None:
    output = tmp_path / "extension.json"
    done = subprocess.run(
        [sys.executable, SCRIPT, "--output", output],
        capture_output=True,
        text=True,
        env={**os.environ, "CUDA_VISIBLE_DEVICES": ""},
    )
    assert done.returncode == 3 and "PyTorch sees no NVIDIA GPU here." in done.stderr and not output.exists()
