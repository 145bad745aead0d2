"""Traces of Triton kernels need the interpreter; a GPU machine's run compiles (see tests/conftest.py)."""

import os

import pytest


def pytest_runtest_setup(item):
    if item.path.name.startswith("test_triton") and os.environ.get("TRITON_INTERPRET") != "1":
        pytest.skip("Triton is compiled in this run; with TRITON_INTERPRET=1 its kernels are traced.")
