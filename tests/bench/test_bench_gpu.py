"""The timer, the limits and kernel-bench on a real GPU."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from kernels.bench.device import CudaDevice, gpu_missing
from kernels.bench.rates import median, rates
from kernels.bench.results import Document, read
from kernels.bench.timer import Arm, buffer_sets, measure

ROOT = Path(__file__).resolve().parents[2]
pytestmark = [pytest.mark.gpu, pytest.mark.skipif(gpu_missing() is not None, reason="needs an NVIDIA GPU")]


@pytest.fixture(scope="module")
def device() -> CudaDevice:
    made = CudaDevice()
    made.warm_clocks(0.3)
    return made


SPIN = r"""
#include <cuda_runtime.h>
__global__ void spin(long long nanoseconds) {
    long long start, now;
    asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(start));
    do {
        asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(now));
    } while (now - start < nanoseconds);
}
extern "C" int launch_spin(long long nanoseconds, void* stream) {
    spin<<<1, 1, 0, static_cast<cudaStream_t>(stream)>>>(nanoseconds);
    return cudaGetLastError();
}
"""


@pytest.mark.nvcc
@pytest.mark.parametrize("mode", ["graph", "events"])
def test_a_kernel_that_spins_five_milliseconds_reads_five(device: CudaDevice, mode: str, tmp_path: Path) -> None:
    import ctypes

    import torch

    from kernels.cuda import compiler

    nvcc = compiler()
    (tmp_path / "spin.cu").write_text(SPIN)
    library = tmp_path / "libspin.so"
    command = [nvcc.nvcc, *nvcc.flags, "-shared", "-Xcompiler", "-fPIC", "-arch=native", "-o", library]
    subprocess.run([*map(str, command), str(tmp_path / "spin.cu")], check=True, timeout=500)
    spin = ctypes.CDLL(str(library)).launch_spin
    spin.argtypes = [ctypes.c_longlong, ctypes.c_void_p]

    def call() -> None:
        assert spin(5_000_000, torch.cuda.current_stream().cuda_stream) == 0

    found = measure(device, [Arm("spin", call)], [()], mode=mode, samples=5)[0]
    assert median(found.samples_us) == pytest.approx(5000.0, rel=0.05)


def test_matmul_grows_eightfold_and_stays_below_the_peak(device: CudaDevice) -> None:
    import torch

    times = []
    for size in (2048, 4096, 8192):
        a = torch.randn(size, size, device="cuda", dtype=torch.float16)
        found = measure(device, [Arm("matmul", torch.matmul)], [(a, a.clone())], samples=10)[0]
        times.append(median(found.samples_us))
        assert rates(0, 2 * size**3, times[-1]).tflop_per_s < 1000.0
    assert 5.0 < times[2] / times[1] < 11.0


def test_a_graph_holds_the_counted_kernels_and_nothing_else(device: CudaDevice) -> None:
    import torch

    x = torch.randn(1 << 20, device="cuda")
    sets, _ = buffer_sets(2 * x.numel() * 4, device.l2_bytes, "cold")
    found = measure(device, [Arm("neg", torch.neg), Arm("copy", torch.clone)], device.rotated((x,), sets), samples=3)
    assert found[0].nodes == {"kernel": found[0].launches}
    assert "memcpy" in found[1].nodes  # why the copy limit is not a copy_


def test_rotated_copies_keep_strides_and_values(device: CudaDevice) -> None:
    import torch

    x = torch.randn(8, 12, device="cuda")[:, :10]
    copies = device.rotated((x,), 3)
    assert len({t.data_ptr() for (t,) in copies}) == 3
    assert all(t.stride() == (12, 1) and torch.equal(t, x) for (t,) in copies)


def test_the_copy_limit_is_a_kernels(device: CudaDevice) -> None:
    from kernels.bench.limits import copy_limit

    limit = copy_limit(device, samples=5)
    assert limit.status == "ok" and limit.method != "none"
    assert 100.0 < limit.gb_per_s < 8000.0


FAULT = """
import torch
from kernels.bench.device import CudaDevice
from kernels.bench.timer import Arm, DeviceFailure, measure
table = torch.zeros(16, device="cuda")
index = torch.full((1024,), 2**40, device="cuda", dtype=torch.int64)
try:
    measure(CudaDevice(), [Arm("out of range", lambda: torch.take(table, index))], [()], samples=3)
except DeviceFailure as failure:
    print("failed:", failure)
"""


def test_a_late_device_error_fails_the_run() -> None:
    done = subprocess.run([sys.executable, "-c", FAULT], cwd=ROOT, capture_output=True, text=True, timeout=500)
    assert "failed: The device reported an error" in done.stdout, done.stdout + done.stderr


def kernel_bench(output: Path, *options: str, **environment: str) -> Document:
    """One run of the command in its own process; the document it wrote."""
    done = subprocess.run(
        [sys.executable, "-m", "kernels.bench.command", *options, "--output", str(output)],
        cwd=ROOT,
        env={**{k: v for k, v in os.environ.items() if k != "TRITON_INTERPRET"}, **environment},
        capture_output=True,
        text=True,
        timeout=500,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return read(output)


def test_kernel_bench_measures_and_writes(tmp_path: Path) -> None:
    shapes = ["--shape", "1048576", "--shape", "0"]
    document = kernel_bench(
        tmp_path / "add.json", "--op", "add", "--dtype", "float32", *shapes, "--iters", "5", "--variant", "block=128"
    )
    made = {(r.implementation, r.shape[0]): r for r in document.cases}
    assert made["triton", 0].status == "no_work" and made["triton", 0].gb_per_s is None
    for name in ("triton", "triton[block=128]", "torch"):
        case = made[name, 1048576]
        assert case.status == "ok" and len(case.samples_us) == 5 and not case.in_l2
        assert case.graph_nodes == {"kernel": case.launches}
        assert 0.0 < case.fraction_of_limit < 1.5
    assert document.finished and document.provenance.clocks_after.sm_mhz


def test_compiling_stays_out_of_the_kernels_time(tmp_path: Path) -> None:
    options = ["--op", "softmax", "--dtype", "float32", "--shape", "4096x1024", "--implementation", "triton"]
    cache = {"TRITON_CACHE_DIR": str(tmp_path / "cache")}
    empty, filled = (kernel_bench(tmp_path / f"{n}.json", *options, **cache).cases[0] for n in ("empty", "filled"))
    assert empty.compile_ms > 2 * filled.compile_ms
    assert empty.median_us == pytest.approx(filled.median_us, rel=0.2)
