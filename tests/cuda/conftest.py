"""Skips, in a sentence, what this machine has no tool for; and the test program built for the CPU."""

import re
import shutil
import subprocess
from pathlib import Path

import pytest

from kernels.cuda import CompilerMissing, compiler, why_not
from kernels.cuda.building import sources_of, substitute

HERE = Path(__file__).parent
ROOT = HERE.parents[1]


def pytest_runtest_setup(item):
    if item.get_closest_marker("nvcc"):
        try:
            compiler()
        except CompilerMissing as missing:
            pytest.skip(str(missing))
    if item.get_closest_marker("gpu") and (reason := why_not()):
        pytest.skip(reason)


@pytest.fixture(scope="session")
def cpu_portfolio(tmp_path_factory):
    """Builds cuda/portfolio.cu for the CPU, with texts of its sources exchanged, and returns the program."""
    if shutil.which("g++") is None:
        pytest.skip("There is no g++ to build the test program for the CPU with.")

    def make(replace=None):
        folder = tmp_path_factory.mktemp("portfolio")
        for name, text in substitute(sources_of(ROOT / "cuda" / "portfolio.cu"), replace).items():
            text, launches = re.subn(r"(\w+)<<<(.+), (\w+), 0, stream>>>\(", r"cpu_launch(\1, \2, \3, ", text)
            assert "<<<" not in text and (launches > 0) == (name == "kernels.cu")
            (folder / name).write_text(text)
        command = ["g++", "-std=c++17", "-O1", "-w", "-x", "c++", f"-I{HERE / 'cpu'}", "-o", "program", "portfolio.cu"]
        subprocess.run(command, cwd=folder, check=True)
        return folder / "program"

    return make
