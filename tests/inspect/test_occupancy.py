"""The occupancy calculator against NVIDIA's own `cuda_occupancy.h`, compiled for the host."""

import itertools
import random
import subprocess

import pytest

from kernels.inspect import shared_limit_bytes
from kernels.inspect.occupancy import MOST_THREADS, MULTIPROCESSORS, REGISTERS, RESERVED_BYTES, occupancy

PROGRAM = """
#include <cstdio>
#include <cstring>
#include "cuda_occupancy.h"
int main() {
    int arch, threads, registers;
    long shared, warps, per_block, per_multiprocessor;
    while (std::scanf("%d %d %d %ld %ld %ld %ld", &arch, &threads, &registers, &shared, &warps, &per_block,
                      &per_multiprocessor) == 7) {
        cudaOccDeviceProp device;
        device.computeMajor = arch / 10; device.computeMinor = arch % 10; device.warpSize = 32;
        device.maxThreadsPerBlock = 1024; device.maxThreadsPerMultiprocessor = 32 * warps;
        device.regsPerBlock = device.regsPerMultiprocessor = 65536; device.numSms = 1;
        device.sharedMemPerBlock = 48 * 1024; device.sharedMemPerMultiprocessor = per_multiprocessor;
        device.sharedMemPerBlockOptin = per_block; device.reservedSharedMemPerBlock = 1024;
        cudaOccFuncAttributes kernel;
        kernel.maxThreadsPerBlock = 1024; kernel.numRegs = registers; kernel.sharedSizeBytes = 0;
        kernel.shmemLimitConfig = FUNC_SHMEM_LIMIT_OPTIN; kernel.maxDynamicSharedSizeBytes = shared;
        cudaOccDeviceState state;
        cudaOccResult result;
        if (cudaOccMaxActiveBlocksPerMultiprocessor(&result, &device, &kernel, &state, threads, shared)) return 1;
        std::printf("%d\\n", result.activeBlocksPerMultiprocessor);
    }
}
"""


@pytest.fixture(scope="module")
def nvidia(tmp_path_factory):
    from kernels.cuda.toolchain import CompilerMissing, compiler

    try:
        nvcc = compiler()
    except CompilerMissing as missing:
        pytest.skip(str(missing))
    folder = tmp_path_factory.mktemp("occupancy")
    (folder / "ask.cpp").write_text(PROGRAM)
    command = [str(nvcc.nvcc), *nvcc.flags, "-o", "ask", "ask.cpp"]
    made = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)
    if "cuda_occupancy.h: No such file" in made.stderr:
        pytest.skip("this toolkit has no cuda_occupancy.h")
    assert made.returncode == 0, made.stderr

    def ask(cases):
        lines = [
            f"{arch} {threads} {registers} {shared} {has.warps} {shared_limit_bytes(arch)} {has.shared_bytes}"
            for arch, threads, registers, shared in cases
            for has in [MULTIPROCESSORS[arch]]
        ]
        done = subprocess.run([folder / "ask"], input="\n".join(lines), capture_output=True, text=True, check=True)
        return [int(line) for line in done.stdout.split()]

    return ask


def test_nvidias_header_agrees(nvidia):
    edges = list(
        itertools.product(MULTIPROCESSORS, (1, 32, 33, 96, 256, 1024), (0, 1, 32, 33, 128, 255), (0, 1, 48 << 10))
    )
    pick = random.Random(6)
    anywhere = [
        (pick.choice(list(MULTIPROCESSORS)), pick.randint(1, 1024), pick.randint(0, 255), pick.randint(0, 230 << 10))
        for _ in range(20_000)
    ]
    cases = edges + anywhere
    wrong = [
        (c, occupancy(*c).blocks, n) for c, n in zip(cases, nvidia(cases), strict=True) if occupancy(*c).blocks != n
    ]
    assert not wrong, wrong[:5]


def test_the_example_of_128_registers():
    found = occupancy(90, threads=256, registers=128, shared_bytes=0)
    assert (found.blocks, found.warps, found.limited_by, found.share) == (2, 16, ("registers",), 0.25)
    assert found.warps * 32 == REGISTERS // 128


def test_what_cannot_be_launched_says_why():
    assert occupancy(90, 1024, 80).limited_by == ("registers",) and occupancy(90, 1024, 80).blocks == 0
    assert occupancy(120, 128, 32, 100 * 1024).limited_by == ("shared memory",)
    assert occupancy(90, 32, 16).limited_by == ("blocks",)
    assert occupancy(90, MOST_THREADS, 32).limited_by == ("warps", "registers")
    assert occupancy(90, 128, 32, shared_limit_bytes(90)).blocks == 1
    assert occupancy(90, 128, 32, shared_limit_bytes(90) + 1).blocks == 0
    assert RESERVED_BYTES == 1024


@pytest.mark.parametrize(
    "wrong", [{"arch": 75}, {"threads": 0}, {"threads": 1025}, {"registers": 256}, {"shared_bytes": -1}]
)
def test_out_of_range(wrong):
    with pytest.raises(ValueError, match=r"not in the table|it can be"):
        occupancy(**{"arch": 90, "threads": 32, "registers": 32, "shared_bytes": 0, **wrong})
