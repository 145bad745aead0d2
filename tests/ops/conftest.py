"""Where the operators run: on the GPU when there is one, otherwise under Triton's interpreter on the CPU."""

import os

import pytest
import torch

# Triton decides when it is first imported, so this stands before any import of it. In a run that has already imported
# Triton without the variable, the kernels refuse CPU tensors with a sentence that says so.
if not torch.cuda.is_available():
    os.environ.setdefault("TRITON_INTERPRET", "1")


@pytest.fixture(scope="session")
def device() -> str:
    return "cuda" if torch.cuda.is_available() else "cpu"


@pytest.fixture
def poisoned(monkeypatch):
    """Every tensor that an operator allocates starts as NaN, so an element that no program writes shows."""
    allocate = torch.empty

    def empty(*shape, **kind):
        tensor = allocate(*shape, **kind)
        return tensor.fill_(float("nan")) if tensor.is_floating_point() else tensor

    monkeypatch.setattr(torch, "empty", empty)
