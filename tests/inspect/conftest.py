"""Skips, in a sentence, what this machine has no tool for."""

import importlib.util

import pytest

from kernels.cuda import CompilerMissing, compiler, why_not


def pytest_runtest_setup(item):
    if item.get_closest_marker("nvcc"):
        try:
            compiler()
        except CompilerMissing as missing:
            pytest.skip(str(missing))
    if item.get_closest_marker("triton") and importlib.util.find_spec("triton") is None:
        pytest.skip("Triton is not installed.")
    if item.get_closest_marker("gpu") and (reason := why_not()):
        pytest.skip(reason)


@pytest.fixture
def own_store(tmp_path, monkeypatch):
    """An empty store of facts, apart from the project's."""
    from kernels.inspect import store

    monkeypatch.setattr(store, "_path", lambda key: tmp_path / "inspect" / f"{key}.json")
    return tmp_path / "inspect"
