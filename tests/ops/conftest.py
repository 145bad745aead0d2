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
