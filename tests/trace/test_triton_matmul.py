"""Every way of the matmul plan, traced: no program reads outside its operands, none leaves a gap or writes twice."""

import importlib.util
from pathlib import Path

import numpy as np
import pytest
import torch

from kernels.ops import matmul_kernels, matmul_launch
from kernels.ops.matmul import launch_matmul
from kernels.trace.faults import faults
from kernels.trace.triton import trace_triton

SMALL = {"block_m": 16, "block_n": 16, "block_k": 16}
WAYS = {
    "tiles": {"path": "tiles", **SMALL},
    "slices": {"path": "tiles", **SMALL, "splits": 2},
    "turned": {"path": "tiles", **SMALL, "turned": True},
    "persistent": {"path": "persistent", **SMALL},
    "persistent in slices": {"path": "persistent", **SMALL, "splits": 2},
    "packed": {"path": "persistent", **SMALL, "pack_a": True, "pack_b": True},
}


def found(way, shape=(17, 33, 24), right=True):
    M, N, K = shape
    generator = torch.Generator().manual_seed(1)
    a = torch.randn(M, K, generator=generator).bfloat16()
    b = torch.randn(K, N, generator=generator).bfloat16()
    out = torch.full((M, N), float("nan"), dtype=torch.bfloat16)
    trace = trace_triton(lambda: launch_matmul(a, b, out, **way), {"a": a, "b": b, "out": out})
    assert len(trace) > 0
    assert not (right and np.isnan(out.float().numpy()).any())
    return faults(trace, outputs=["out"])


@pytest.mark.parametrize("name", WAYS)
def test_no_program_is_accused(name):
    assert found(WAYS[name]) == []


PLANTED = {
    "a is read past its last row": ("mask=(m < M) & inside[None, :]", "mask=inside[None, :]", "out-of-bounds"),
    "b is read past its last k": ("mask=inside[:, None] & (n < N)", "mask=n < N", "out-of-bounds"),
    "each slice begins at 0": ("first = part * slice_k", "first = part * 0", None),
    "slices in one place": ("(item * SPLITS + part) * M * N + m", "item * SPLITS * M * N + m", "double-write"),
}


@pytest.mark.parametrize("name", PLANTED)
def test_a_planted_fault_is_seen(name, tmp_path, monkeypatch):
    right, wrong, verdict = PLANTED[name]
    text = Path(matmul_kernels.__file__).read_text(encoding="utf-8")
    assert text.count(right) == 1
    path = tmp_path / "planted.py"
    path.write_text(text.replace(right, wrong), encoding="utf-8")
    spec = importlib.util.spec_from_file_location("planted", path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    monkeypatch.setattr(matmul_launch, "_matmul_tiles", module._matmul_tiles)
    if verdict is None:  # every element is read and written as often as before: only the values show it
        a, b = torch.ones(16, 64).bfloat16(), torch.ones(64, 16).bfloat16()
        a[:, 32:] = 0
        out = launch_matmul(a, b, torch.empty(16, 16).bfloat16(), **WAYS["slices"])
        assert not (out == 32).all()
        return
    kinds = {fault.kind for fault in found(WAYS["slices"], right=False)}
    assert verdict in kinds, kinds
