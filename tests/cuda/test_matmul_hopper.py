"""cuda/ladder_hopper.cu without a Hopper: its kernels on the CPU, its barriers in two blocks, and what is compiled."""

import re
import subprocess

import cluster_model
import numpy as np
import pytest
from bfloat16 import POISON, padded, widened

from kernels.cuda.ladder import HOPPER
from kernels.inspect import disassembler
from kernels.inspect.facts import read_ptxas_log
from kernels.sources import project_root
from kernels.trace.cuda import NotForHost, trace_cuda_launcher, why_not
from kernels.trace.hopper import hopper_on_cpu

traced = pytest.mark.skipif(why_not() is not None, reason=str(why_not()))
KERNELS = ("matmul_tma", "matmul_wgmma", "matmul_cluster", "matmul_persistent")
ONE_BLOCK = {"constexpr int kHopperCluster = 2;": "constexpr int kHopperCluster = 1;"}


@pytest.fixture(scope="module")
def source(tmp_path_factory):
    """The kernels as they are, on a hopper.cuh that does on a CPU what each instruction does to memory."""
    return hopper_on_cpu(tmp_path_factory.mktemp("hopper"))


def run(source, kernel, m, n, k, *, wider=0, apart=0, replace=None, **more):
    """Strides are multiples of 8, as the copy unit wants them; 1e30 lies between the rows."""
    rng = np.random.default_rng(m + n + k)
    a_stride, b_stride, c_stride = -(-k // 8) * 8 + wider, -(-n // 8) * 8 + wider, n + wider + apart
    a, left = padded(rng, m, k, a_stride, half=True)
    b, right = padded(rng, k, n, b_stride, half=True)
    c = np.full((m, c_stride), POISON, np.uint16)
    trace = trace_cuda_launcher(
        f"launch_{kernel}",
        [a, b, c, m, n, k, a_stride, b_stride, c_stride],
        source=source,
        replace=ONE_BLOCK | (replace or {}),
        max_seconds=60.0,
        **more,
    )
    return widened(c), left @ right, trace


def is_right(got, want, k):
    """One rounding to eight bits, and sums of k terms of size one in float32, which tensor cores cut off."""
    n = want.shape[1]
    close = np.abs(got[:, :n] - want) <= 2.0**-8 * np.abs(want) + 1e-5 + 1e-6 * k
    return np.isfinite(got[:, :n]).all() and close.all() and np.isnan(got[:, n:]).all()


@traced
@pytest.mark.parametrize(
    ("m", "n", "k", "wider", "order"),
    [
        (1, 1, 1, 0, "forward"),
        (33, 65, 129, 8, "forward"),  # ragged in all three
        (70, 40, 64 * 6 + 9, 0, "backward"),  # deeper than the stages, in the other order of threads
        (129, 260, 70, 0, "forward"),  # several tiles of c, one row and four columns over
        (5, 7, 0, 0, "forward"),
    ],
)
@pytest.mark.parametrize("kernel", KERNELS)
def test_every_element_is_right_and_no_stage_is_refilled_too_early(source, kernel, m, n, k, wider, order):
    # Rows of c an odd number apart, which no box can be written to: judging boxes takes minutes, see the next test.
    apart = 0 if kernel == "matmul_tma" else 1 + (n + wider) % 2
    got, want, trace = run(source, kernel, m, n, k, wider=wider, apart=apart, order=order)
    assert trace.result == 0
    assert trace.faults(outputs=()) == []
    assert is_right(got, want, k)


@traced
@pytest.mark.parametrize(("m", "n", "k"), [(70, 40, 64), (129, 264, 128), (300, 520, 8)])
@pytest.mark.parametrize("order", ["forward", "backward"])
@pytest.mark.parametrize("kernel", ["matmul_wgmma", "matmul_persistent"])
def test_sums_leave_in_boxes_for_the_right_places(source, kernel, m, n, k, order):
    got, want, trace = run(source, kernel, m, n, k, order=order)
    assert trace.result == 0 and is_right(got, want, k)


@traced
@pytest.mark.parametrize(("m", "n"), [(1, 1), (9, 65)])
@pytest.mark.parametrize("kernel", KERNELS)
def test_what_lies_behind_a_row_that_ends_within_16_bytes_stays(source, kernel, m, n):
    # The copy unit writes whole pieces of 16 bytes: rows of c may be sent by it only where they end with one.
    got, want, trace = run(source, kernel, m, n, 64, apart=-n % 8)
    assert trace.result == 0 and is_right(got, want, 64)


@traced
@pytest.mark.parametrize(
    "replace",
    [
        {"^ (row % 8)": "^ (row % 4)"},  # not the swizzle of the copy unit
        {"place.n + box * kHopperBox": "place.n"},
    ],
)
def test_a_planted_fault_of_the_boxes_shows(source, replace):
    got, want, trace = run(source, "matmul_persistent", 70, 264, 64, order="backward", replace=replace)
    assert trace.result == 0 and not is_right(got, want, 64)


@traced
@pytest.mark.parametrize(
    "replace",
    [
        {"wgmma_wait<1>();  //": "// "},  # the stage is released while its products still read it
        {"a + k * 2 / 16": "a + k * 4 / 16"},
        {"describe(b_tile, kHopperBytesBox, 8 * kHopperRow)": "describe(b_tile, 16, 8 * kHopperRow)"},
        {"place.n + box * kHopperBox": "place.n"},
    ],
    ids=["release before the wait", "k of a", "descriptor of b", "coordinate of b"],
)
def test_a_planted_fault_shows(source, replace):
    got, want, trace = run(source, "matmul_wgmma", 8, 100, 64 * 6, apart=1, replace=replace)
    assert trace.faults() or not is_right(got, want, 64 * 6)


@traced
def test_what_the_copy_unit_cannot_fetch_is_refused(source):
    a, b, c = (np.zeros(200, np.uint16) for _ in range(3))
    for kernel in KERNELS:
        for strides in [(9, 8, 8), (8, 9, 8), (8, 8, 7), (0, 8, 8), (-8, 8, 8)]:
            trace = trace_cuda_launcher(
                f"launch_{kernel}", [a, b, c, 8, 8, 8, *strides], source=source, replace=ONE_BLOCK
            )
            assert (trace.result, trace.launches) == (1, ())
        trace = trace_cuda_launcher(
            f"launch_{kernel}", [a[1:], b, c, 8, 8, 8, 8, 8, 8], source=source, replace=ONE_BLOCK
        )
        assert trace.result == 1


PLACES = """extern "C" int places(int* out, int64_t tiles_m, int64_t tiles_n) {
    for (int tile = 0; tile < tiles_m * tiles_n; ++tile) {
        const HopperPlace place = hopper_place(tile, static_cast<int>(tiles_m), static_cast<int>(tiles_n));
        out[2 * tile] = place.m;
        out[2 * tile + 1] = place.n;
    }
    return 0;
}

using HopperKernel"""


@traced
@pytest.mark.parametrize(("tiles_m", "tiles_n"), [(2, 1), (16, 3), (18, 5), (64, 32), (2, 40)])
def test_each_tile_has_one_place_and_a_cluster_stands_on_top_of_each_other(source, tiles_m, tiles_n):
    out = np.full((tiles_m * tiles_n, 2), -1, np.int32)
    trace_cuda_launcher("places", [out, tiles_m, tiles_n], source=source, replace={"using HopperKernel": PLACES})
    assert {tuple(place) for place in out.tolist()} == {
        (128 * m, 256 * n) for m in range(tiles_m) for n in range(tiles_n)
    }
    first, second = out[0::2], out[1::2]
    assert (first[:, 1] == second[:, 1]).all() and (first[:, 0] + 128 == second[:, 0]).all()


@pytest.mark.parametrize("steps", [1, 4, 23])
def test_two_blocks_of_a_cluster_neither_overwrite_nor_wait_for_ever(steps):
    for seed in range(10):
        cluster_model.play(seed, steps=steps)


@pytest.mark.parametrize(
    ("wrong", "words"),
    [
        ({"arrivals": 8, "tell_both": False}, "overwrites|expects step"),
        ({"arrivals": 8}, "overwrites|expects step|more arrivals"),
        ({"tell_both": False}, "nobody can go on"),
    ],
    ids=["own warps only", "half of the arrivals", "nobody tells the other block"],
)
def test_the_model_of_a_cluster_sees_a_wrong_count(wrong, words):
    with pytest.raises(AssertionError, match=words):
        for seed in range(20):
            cluster_model.play(seed, steps=23, **wrong)


def test_the_host_build_says_why_it_cannot_run_the_file():
    with pytest.raises((NotForHost, KeyError), match=r"Hopper|hopper"):
        trace_cuda_launcher("launch_matmul_tma", [], source="cuda/matmul_tma.cu")


# ---- what is compiled ----


@pytest.fixture(scope="module")
def compiled(tmp_path_factory):
    from kernels.cuda import compiler

    nvcc = compiler()
    cubin = tmp_path_factory.mktemp("sm_90a") / "hopper.cubin"
    command = [str(nvcc.nvcc), *nvcc.flags, "-std=c++17", "-O3", "-gencode=arch=compute_90a,code=sm_90a"]
    command += ["-cubin", "-Xptxas", "-v", "-o", str(cubin), HOPPER]
    done = subprocess.run(command, cwd=project_root() / "cuda", capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return done.stderr, read_ptxas_log(done.stderr), disassembler.disassemble(cubin)


@pytest.mark.nvcc
def test_no_rung_spills_and_no_product_is_serialized(compiled):
    log, resources, _ = compiled
    assert "warning" not in log.lower() and "serializ" not in log and not re.search(r"C75\d\d", log)
    assert len(resources) == 5  # matmul_tma exists for wide and for ragged rows of c
    for name, used in resources.items():
        assert (used.spill_store_bytes, used.spill_load_bytes, used.stack_bytes) == (0, 0, 0), name
    # 384 threads share 65536 registers until warps give some to others.
    assert next(used for name, used in resources.items() if "persistent" in name).registers <= 168


@pytest.mark.nvcc
def test_the_instructions_are_hoppers(compiled):
    _, _, sass = compiled
    for name, text in sass.items():
        assert ("UTMALDG.2D" in text) and ("SYNCS" in text), name
        assert ("HGMMA.64x256x16" in text) == ("matmul_tma" not in name), name
        assert (".MULTICAST" in text) == ("cluster" in name or "persistent" in name), name
        assert ("USETMAXREG" in text) == ("persistent" in name), name
    assert any("HMMA" in text for name, text in sass.items() if "matmul_tma" in name)


# ---- on a GPU ----

GPU_SHAPES = [(1, 8, 8), (33, 72, 136), (128, 256, 64), (257, 520, 1000), (1000, 2000, 4096), (5, 8, 0)]


@pytest.mark.gpu
@pytest.mark.parametrize(("m", "n", "k"), GPU_SHAPES)
@pytest.mark.parametrize("kernel", KERNELS)
def test_products_on_the_gpu(kernel, m, n, k):
    import torch

    from kernels.cuda import matmul

    if torch.cuda.get_device_capability() != (9, 0):
        pytest.skip("These instructions exist on GPUs of compute capability 9.0 only.")
    a, b = torch.randn(m, k, device="cuda").bfloat16(), torch.randn(k, n, device="cuda").bfloat16()
    got = getattr(matmul, kernel)(a, b).double().cpu().numpy()
    assert is_right(got, (a.double() @ b.double()).cpu().numpy(), k)
