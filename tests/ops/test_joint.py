"""Counters for programs that wait for one another."""

import pytest
import torch
import triton.language as tl
from triton import jit

from kernels.ops import early, joint


@jit
def _kernel(x_ptr):
    tl.store(x_ptr, 1)


def test_counters_begin_at_zero_and_nothing_starts_early_without_a_gpu(device):
    assert joint.counters(5, torch.device(device), False).tolist() == [0] * 5
    assert joint.counters(5, torch.device(device), False).dtype == torch.int32
    if device == "cpu":
        assert not early.starts_early(_kernel, torch.device("cpu"))


def test_a_traced_kernel_does_not_start_early(monkeypatch):
    monkeypatch.setattr(early, "has_early_starts", lambda device: True)
    assert not early.starts_early(object(), torch.device("cuda"))  # what wrap_triton returns while torch traces


@pytest.mark.gpu
def test_counters_that_a_kernel_clears():
    if not torch.cuda.is_available():
        pytest.skip("needs a GPU")
    device = torch.device("cuda", torch.cuda.current_device())
    if not early.has_early_starts(device):
        pytest.skip("needs compute capability 9.0")
    for count in (1, 1024, 1025):
        torch.full((count,), 7, dtype=torch.int32, device=device)
        assert not joint.counters(count, device, True).any()
