"""Where the operators run: on the GPU when there is one, otherwise under Triton's interpreter on the CPU."""

import pytest
import torch


@pytest.fixture(scope="session")
def device() -> str:
    return "cuda" if torch.cuda.is_available() else "cpu"


@pytest.fixture
def poisoned(monkeypatch):
    """Every tensor that an operator allocates starts as NaN, so an element that no program writes shows."""
    allocate = torch.empty

    def empty(*shape, **kind):
        tensor = allocate(*shape, **kind)
        with torch.no_grad():  # PyTorch itself asks for leaves with gradients
            return tensor.fill_(float("nan")) if tensor.is_floating_point() else tensor

    monkeypatch.setattr(torch, "empty", empty)
