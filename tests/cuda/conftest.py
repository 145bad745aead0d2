"""Skips, in a sentence, what this machine has no tool for; and the test program built for the CPU."""

from pathlib import Path

import pytest

from kernels.cuda import CompilerMissing, compiler, why_not
from kernels.cuda.building import sources_of, substitute
from kernels.trace import cuda as cuda_trace
from kernels.trace.cuda_build import build_program
from kernels.trace.cuda_translate import translate

ROOT = Path(__file__).parents[2]


def pytest_runtest_setup(item):
    if item.get_closest_marker("nvcc"):
        try:
            compiler()
        except CompilerMissing as missing:
            pytest.skip(str(missing))
    if item.get_closest_marker("gpu") and (reason := why_not()):
        pytest.skip(reason)


# What the program asks of the device, so that each answer can be tried.
PROBE = """#include <cstdlib>
static cudaError_t count_devices(int* count) {
    *count = 1;
    const char* error = std::getenv("CPU_DEVICE_COUNT_ERROR");
    return error ? static_cast<cudaError_t>(std::atoi(error)) : cudaSuccess;
}
"""


@pytest.fixture(scope="session")
def cpu_portfolio(tmp_path_factory):
    """Builds cuda/portfolio.cu for the CPU by cuda/host, with texts of its sources exchanged; returns it."""
    if reason := cuda_trace.why_not():
        pytest.skip(reason)

    def make(replace=None):
        sources = substitute(sources_of(ROOT / "cuda" / "portfolio.cu"), replace)
        sources["portfolio.cu"] = PROBE + sources["portfolio.cu"].replace("cudaGetDeviceCount(", "count_devices(")
        main = sources.pop("portfolio.cu")
        translation = translate(main, "portfolio.cu", headers=tuple(sorted(sources.items())))
        program = tmp_path_factory.mktemp("portfolio") / "program"
        name = r'-DKH_DEVICE_NAME="A \"quoted\" CPU\\"'
        build_program(translation.text, "portfolio.cu", program, translation.headers, ["-O1", name])
        return program

    return make
