"""The rungs of the ladder that every GPU can run: products, the cost that each is there to show, what is compiled."""

import numpy as np
import pytest
from bfloat16 import POISON, padded, rounded, widened

from kernels.inspect import compile_cuda
from kernels.trace.cuda import trace_cuda_launcher, why_not

traced = pytest.mark.skipif(why_not() is not None, reason=str(why_not()))
SOURCES = {
    "matmul_naive": "cuda/matmul.cu",
    "matmul_tiled": "cuda/matmul.cu",
    "matmul_register_tiled": "cuda/matmul.cu",
    "matmul_async_copy": "cuda/matmul.cu",
    "matmul_wmma": "cuda/matmul_wmma.cu",
}
SHAPES = [
    (1, 1, 1, 0),  # one element of one tile
    (33, 65, 129, 3),  # ragged in all three, rows off the 16-byte boundary
    (130, 136, 72, 8),  # two tiles each way, rows of whole 16-byte pieces, a k that no tile divides
    (3, 5, 330, 0),  # many tiles deep: every stage is used again and again
    (5, 7, 0, 0),  # empty sums are zero
    (0, 7, 3, 0),
    (4, 0, 3, 0),
]


def run(kernel, m, n, k, padding=0, **more):
    """The product, what it should be, and the trace. Rows of a, b and c are followed by `padding` elements."""
    half = kernel == "matmul_wmma"
    rng = np.random.default_rng(m + n + k)
    a, left = padded(rng, m, k, k + padding, half=half)
    b, right = padded(rng, k, n, n + padding, half=half)
    c = np.full((m, n + padding), POISON, np.uint16) if half else np.full((m, n + padding), np.nan, np.float32)
    strides = (k + padding, n + padding, n + padding)
    trace = trace_cuda_launcher(
        f"launch_{kernel}", [a, b, c, m, n, k, *strides], source=SOURCES[kernel], max_seconds=60.0, **more
    )
    return widened(c) if half else c, left @ right, trace


def is_close(got, want, k, half):
    """One rounding to eight bits, or k roundings to 24 of terms of size one."""
    bound = 2.0**-8 * np.abs(want) + 1e-5 + 1e-6 * k if half else 1e-6 * (k + 1) ** 0.5 * 8
    return np.isfinite(got).all() and (np.abs(got - want) <= bound).all()


@traced
@pytest.mark.parametrize(("b_stride", "c_stride"), [(9, 8), (8, 9)])
def test_either_of_b_and_c_may_be_off_the_boundary_alone(b_stride, c_stride):
    m, n, k = 5, 8, 9
    rng = np.random.default_rng(0)
    (a, left), (b, right) = padded(rng, m, k, k, half=False), padded(rng, k, n, b_stride, half=False)
    c = np.full((m, c_stride), np.nan, np.float32)
    arguments = [a, b, c, m, n, k, k, b_stride, c_stride]
    trace = trace_cuda_launcher("launch_matmul_async_copy", arguments, source="cuda/matmul.cu")
    assert trace.faults(outputs=()) == [] and is_close(c[:, :n], left @ right, k, False)


@traced
@pytest.mark.parametrize(("m", "n", "k", "padding"), SHAPES)
@pytest.mark.parametrize("kernel", SOURCES)
def test_every_element_is_right_and_nothing_else_is_touched(kernel, m, n, k, padding):
    got, want, trace = run(kernel, m, n, k, padding)
    assert trace.result == 0
    assert trace.faults(outputs=()) == []  # what follows the rows of c stays unwritten
    assert is_close(got[:, :n], want, k, kernel == "matmul_wmma")
    assert np.isnan(got[:, n:]).all()
    if m and n:
        assert len(trace.launches) == 1


@traced
@pytest.mark.parametrize("kernel", ["matmul_tiled", "matmul_async_copy", "matmul_wmma"])
def test_the_order_of_threads_changes_nothing(kernel):
    got, want, trace = run(kernel, 33, 40, 100, order="backward")
    assert trace.faults() == [] and is_close(got, want, 100, kernel == "matmul_wmma")


@traced
@pytest.mark.parametrize("kernel", SOURCES)
def test_a_launcher_refuses_before_it_launches(kernel):
    none = np.empty(0, np.uint16 if kernel == "matmul_wmma" else np.float32)

    def result(*numbers):
        trace = trace_cuda_launcher(
            f"launch_{kernel}", [none, none.copy(), none.copy(), *numbers], source=SOURCES[kernel]
        )
        assert trace.launches == ()
        return trace.result

    assert [result(*(-1 if i == at else 5 for i in range(6))) for at in range(6)] == [1] * 6
    assert result(2, 5, 1, 1, 5, 4) == 1  # rows of c would overlap
    assert result(65536 * 128, 1, 1, 1, 1, 1) == 1  # more tiles than a grid has along y


# ---- what each step changes, on whole tiles ----


def cost(trace, buffer, what):
    """Requests, sectors of a request, and the worst conflict."""
    found = [r for r in trace.requests(buffer=buffer, what=what) if r.lanes]
    return len(found), {len(r.sectors) for r in found}, max(int(r.conflict_degree) for r in found)


@traced
def test_naive_reads_two_factors_for_each_product():
    _, _, trace = run("matmul_naive", 128, 128, 16)
    warps = 128 * 128 // 32
    assert cost(trace, "a", "read")[:2] == (warps * 16, {1})  # 32 lanes, one element
    assert cost(trace, "b", "read")[:2] == (warps * 16, {4})  # 32 neighbours
    assert cost(trace, "c", "write")[:2] == (warps, {4})


@traced
def test_tiles_are_read_a_thirty_second_as_often_without_a_conflict():
    _, _, trace = run("matmul_tiled", 128, 128, 32)
    warps = 128 * 128 // 32
    for buffer in "ab":
        assert cost(trace, buffer, "read")[:2] == (warps, {4})  # naive: warps * 32
    assert cost(trace, "a_tile", "read") == (warps * 32, {1}, 1)  # a broadcast
    assert cost(trace, "b_tile", "read") == (warps * 32, {4}, 1)
    assert trace.bank_conflicts() == []


@traced
def test_register_tiles_ask_shared_memory_a_sixteenth_as_often():
    _, _, trace = run("matmul_register_tiled", 128, 128, 32)
    reads = [cost(trace, buffer, "read") for buffer in ("a_tile", "b_tile")]
    assert [(count, worst) for count, _, worst in reads] == [(8 * 32 * 2, 1)] * 2  # tiled: 512 * 32 each
    assert trace.requests(buffer="a_tile", what="read")[0].wavefronts == 2  # half a warp at a time
    assert trace.bank_conflicts() == []
    assert cost(trace, "a", "read")[1] == {4}


@traced
def test_asynchronous_copies_move_sixteen_bytes_of_b_and_turn_a_without_a_conflict():
    _, _, trace = run("matmul_async_copy", 128, 128, 32)
    assert cost(trace, "a", "read")[:2] == (128 * 32 // 32, {4})
    assert cost(trace, "b", "read")[:2] == (128 * 32 * 4 // 512, {16})
    assert trace.bank_conflicts() == []
    barriers = len(trace.barriers())
    _, _, before = run("matmul_register_tiled", 128, 128, 32)
    assert (barriers, len(before.barriers())) == (5, 8)  # one at first and one a tile; two a tile


# ---- planted faults ----

TILED_LOAD = "        __syncthreads();  // both tiles are whole before anyone multiplies\n"
TILED_USE = "        __syncthreads();  // everyone is done with the tiles before the next ones replace them\n"
ASYNC_WAIT = "                __pipeline_wait_prior(kAsyncStages - 2);\n"
WMMA_WAIT = "                __pipeline_wait_prior(kWmmaStages - 2);\n"
NEXT_WHOLE = "                __syncthreads();  // the next tile is whole"


@traced
@pytest.mark.parametrize(
    ("kernel", "replace"),
    [
        ("matmul_tiled", {TILED_LOAD: ""}),
        ("matmul_tiled", {TILED_USE: ""}),
        ("matmul_register_tiled", {"        __syncthreads();  // both tiles are whole\n": ""}),
        ("matmul_async_copy", {ASYNC_WAIT: ""}),
        ("matmul_async_copy", {NEXT_WHOLE: "                // "}),
        ("matmul_wmma", {WMMA_WAIT: ""}),
        ("matmul_wmma", {NEXT_WHOLE: "                // "}),
    ],
)
def test_a_forgotten_wait_is_a_race(kernel, replace):
    _, _, trace = run(kernel, 33, 40, 136, replace=replace)
    assert {fault.kind for fault in trace.faults()} & {"shared-race", "read-before-written"}


@traced
@pytest.mark.parametrize("kernel", SOURCES)
def test_a_forgotten_mask_reads_or_writes_past_the_end(kernel):
    masks = {
        "matmul_naive": {"m >= M || n >= N": "m >= M"},
        "matmul_tiled": {"m < M && first_k + x < K ?": "m < M ?"},
        "matmul_register_tiled": {"= m < M && k < K ?": "= k < K ?"},
        "matmul_async_copy": {"a_row + i < rows && a_column": "a_column"},
        "matmul_wmma": {"row + i < rows && column": "column"},
    }
    _, _, trace = run(kernel, 33, 40, 24, replace=masks[kernel])
    assert "out-of-bounds" in {fault.kind for fault in trace.faults(outputs=())}


@traced
@pytest.mark.parametrize(
    ("kernel", "pitch", "buffer", "what"),
    [
        ("matmul_register_tiled", "kRegisterPitch = kSgemmM + 4", "a_tile", "write"),
        ("matmul_async_copy", "kAsyncPitch = kSgemmM + 4", "async_tiles", "write"),
    ],
)
def test_without_the_padding_lanes_meet_in_a_bank(kernel, pitch, buffer, what):
    _, _, trace = run(kernel, 128, 128, 16, replace={pitch: pitch.replace("+ 4", "+ 0")})
    assert trace.faults() == [] and cost(trace, buffer, what)[2] > 1


# ---- what is compiled ----

COMPILED = {
    "matmul_naive": (0, 40),
    "matmul_tiled": (2 * 32 * 32 * 4, 64),  # 1024 threads: 64 registers are all there are
    "matmul_register_tiled": ((132 + 128) * 8 * 4, 255),
    "_Z17matmul_async_copyILi4EEvPKfS1_Pfllllll": (0, 255),  # its shared memory is asked for at the launch
    "_Z17matmul_async_copyILi1EEvPKfS1_Pfllllll": (0, 255),
}


@pytest.mark.nvcc
@pytest.mark.parametrize("arch", [80, 90, 100, 120])
def test_every_float32_rung_fits_its_registers_without_a_spill(arch):
    for kernel, (shared, registers) in COMPILED.items():
        facts = compile_cuda(kernel, arch=arch, source="cuda/matmul.cu")
        assert (facts.spill_store_bytes, facts.spill_load_bytes, facts.stack_bytes) == (0, 0, 0), kernel
        assert facts.registers <= registers, kernel
        # Newer GPUs add 1 KiB of their own to what a kernel uses.
        assert facts.shared_bytes in (shared, shared + 1024), kernel
    wide = compile_cuda("_Z17matmul_async_copyILi4EEvPKfS1_Pfllllll", arch=arch, source="cuda/matmul.cu")
    assert wide.instructions("LDGSTS") and wide.instructions("FFMA")


@pytest.mark.nvcc
@pytest.mark.parametrize("arch", [80, 90, 100, 120])
def test_wmma_multiplies_on_tensor_cores_without_a_spill(arch):
    for wide in (0, 1):
        name = f"_Z11matmul_wmmaILb{wide}EEvPK13__nv_bfloat16S2_PS0_llllll"
        facts = compile_cuda(name, arch=arch, source="cuda/matmul_wmma.cu")
        assert (facts.spill_store_bytes, facts.spill_load_bytes, facts.stack_bytes) == (0, 0, 0)
        assert facts.registers <= 255
        assert facts.instructions("HMMA") and facts.instructions("LDSM") and not facts.instructions("FFMA")


# ---- on a GPU ----


@pytest.mark.gpu
@pytest.mark.parametrize(("m", "n", "k"), [(1, 1, 1), (33, 65, 129), (256, 384, 512), (257, 520, 1000), (5, 7, 0)])
@pytest.mark.parametrize("kernel", SOURCES)
def test_products_on_the_gpu(kernel, m, n, k):
    import torch

    from kernels.cuda import matmul

    half = kernel == "matmul_wmma"
    dtype = torch.bfloat16 if half else torch.float32
    a, b = torch.randn(m, k, device="cuda").to(dtype), torch.randn(k, n, device="cuda").to(dtype)
    got = getattr(matmul, kernel)(a, b).double().cpu().numpy()
    assert is_close(got, (a.double() @ b.double()).cpu().numpy(), k, half)


def test_rounding_helpers_know_a_tie():
    assert rounded([1.0, 1.00390625, 1.01171875]).tolist() == [0x3F80, 0x3F80, 0x3F82]
