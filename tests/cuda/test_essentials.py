"""The demonstrations and probes of the Essentials: right values on whole and ragged lengths, and what each is about."""

import math

import numpy as np
import pytest

from kernels.trace.cuda import trace_cuda, trace_cuda_launcher, why_not

traced = pytest.mark.skipif(why_not() is not None, reason=str(why_not()))
LENGTHS = (1, 31, 256, 257, 1000)
ORDERS = ("forward", "backward")


def rng(seed=0):
    return np.random.default_rng(seed)


def nans(*shape):
    return np.full(shape, np.nan, np.float32)


def clean(trace):
    assert trace.result == 0 and trace.faults() == [], [str(fault) for fault in trace.faults()]
    return trace


def refused(launcher, args, source):
    trace = trace_cuda_launcher(launcher, args, source=source)
    assert (trace.result, trace.launches) == (1, ())


# ---- copies ----


@traced
@pytest.mark.parametrize("n", LENGTHS)
@pytest.mark.parametrize(("stride", "first"), [(1, 0), (1, 1), (2, 0), (7, 3), (32, 0), (0, 2)])
def test_copy_strided_takes_what_it_says(n, stride, first):
    x, out = rng(n).standard_normal(first + (n - 1) * stride + 1, dtype=np.float32), nans(n)
    clean(trace_cuda_launcher("launch_copy_strided", [x, out, n, stride, first], source="cuda/strided.cu"))
    np.testing.assert_array_equal(out, x[first + stride * np.arange(n)])


@traced
@pytest.mark.parametrize(
    ("stride", "first", "sectors"), [(1, 0, 4), (1, 1, 5), (2, 0, 8), (4, 0, 16), (8, 0, 32), (64, 0, 32)]
)
def test_sectors_of_a_strided_copy(stride, first, sectors):
    x, out = np.ones(first + 31 * stride + 1, np.float32), nans(32)
    trace = trace_cuda_launcher("launch_copy_strided", [x, out, 32, stride, first], source="cuda/strided.cu")
    assert [len(request.sectors) for request in trace.requests(buffer="x")] == [sectors]


@traced
@pytest.mark.parametrize("n", (*LENGTHS, 1028))
def test_copy_float4_moves_the_tail_as_well(n):
    x, out = rng(n).standard_normal(n, dtype=np.float32), nans(n)
    trace = clean(trace_cuda_launcher("launch_copy_float4", [x, out, n], source="cuda/strided.cu"))
    np.testing.assert_array_equal(out, x)
    assert {event.size for event in trace.select(buffer="x")} == (
        {4, 16} if n % 4 and n > 4 else {4} if n < 4 else {16}
    )


@traced
def test_copies_refuse():
    x, out = np.ones(9, np.float32), nans(9)
    refused("launch_copy_strided", [x, out, -1, 1, 0], "cuda/strided.cu")
    refused("launch_copy_strided", [x, out, 1, -1, 0], "cuda/strided.cu")
    refused("launch_copy_float4", [x[1:], out, 4], "cuda/strided.cu")


# ---- transposes and banks ----


@traced
@pytest.mark.parametrize("kernel", ["transpose_direct", "transpose_swizzled"])
@pytest.mark.parametrize("order", ORDERS)
@pytest.mark.parametrize(("rows", "columns"), [(1, 1), (32, 32), (33, 31), (5, 70), (257, 3)])
def test_transposes(kernel, rows, columns, order):
    stored, whole = nans(rows, columns + 3), nans(columns, rows + 2)
    x, out = stored[:, :columns], whole[:, :rows]
    x[:] = rng(rows).standard_normal((rows, columns))
    args = [x, out, rows, columns, columns + 3, rows + 2]
    clean(trace_cuda_launcher(f"launch_{kernel}", args, source="cuda/transposes.cu", order=order))
    np.testing.assert_array_equal(out, x.T)
    assert np.isnan(whole[:, rows:]).all()


@traced
def test_a_swizzled_tile_has_no_conflict_and_a_direct_transpose_has_32_sectors():
    x, out = np.ones((32, 32), np.float32), nans(32, 32)
    swizzled = trace_cuda_launcher("launch_transpose_swizzled", [x, out, 32, 32, 32, 32], source="cuda/transposes.cu")
    assert {request.conflict_degree for request in swizzled.requests(buffer="tile")} == {1}
    plain = {"[threadIdx.x ^ line]": "[threadIdx.x]", "[line ^ threadIdx.x]": "[line]"}
    args = [x, out, 32, 32, 32, 32]
    bad = trace_cuda_launcher("launch_transpose_swizzled", args, source="cuda/transposes.cu", replace=plain)
    assert {request.conflict_degree for request in bad.requests(buffer="tile", what="read")} == {32}
    x, out = np.ones((64, 64), np.float32), nans(64, 64)
    direct = trace_cuda_launcher("launch_transpose_direct", [x, out, 64, 64, 64, 64], source="cuda/transposes.cu")
    assert {len(request.sectors) for request in direct.requests(buffer="x")} == {4}
    assert {len(request.sectors) for request in direct.requests(buffer="out")} == {32}


@traced
@pytest.mark.parametrize("stride", [0, 1, 2, 3, 4, 8, 16, 32, 33])
def test_the_shared_walk_meets_in_as_many_words_as_the_divisor_says(stride):
    x, out, rounds = np.arange(4096, dtype=np.float32), nans(512), 5
    trace = clean(trace_cuda_launcher("launch_shared_walk", [x, out, 2, stride, rounds], source="cuda/transposes.cu"))
    lane, warp = np.arange(512) % 32, np.arange(512) % 256 // 32
    words = (lane * stride + warp)[:, None] + np.arange(rounds)
    np.testing.assert_array_equal(out, (words % 4096).sum(axis=1).astype(np.float32))
    degrees = {request.conflict_degree for request in trace.requests(buffer="words", what="read")}
    assert degrees == {math.gcd(stride, 32) if stride else 1}


@traced
def test_the_shared_walk_refuses():
    x, out = np.ones(4096, np.float32), nans(256)
    refused("launch_shared_walk", [x, out, 1, 4096, 1], "cuda/transposes.cu")
    refused("launch_shared_walk", [x, out, -1, 1, 1], "cuda/transposes.cu")


# ---- reductions ----


@traced
@pytest.mark.parametrize("order", ORDERS)
@pytest.mark.parametrize("rounds", [1, 3])
@pytest.mark.parametrize("n", LENGTHS)
@pytest.mark.parametrize("kernel", ["block_sums_shuffle", "block_sums_shared", "block_sums_atomic"])
def test_block_sums(kernel, n, rounds, order):
    x, out = rng(n).standard_normal(n, dtype=np.float32), nans(-(-n // 256))
    args = [x, out, n, rounds]
    clean(trace_cuda_launcher(f"launch_{kernel}", args, source="cuda/reductions.cu", order=order))
    padded = np.zeros(256 * out.size)
    padded[:n] = x
    # 256 additions in any order, and as many again for every round that moves the values
    bound = 256 * rounds * np.abs(padded).reshape(-1, 256).sum(axis=1) * 2.0**-24
    assert (np.abs(out - padded.reshape(-1, 256).sum(axis=1)) <= bound).all()


@traced
@pytest.mark.parametrize(("way", "barriers"), [("shuffle", 2), ("shared", 10), ("atomic", 3)])
def test_barriers_of_a_round(way, barriers):
    x, out = np.ones(256, np.float32), nans(1)
    trace = trace_cuda_launcher(f"launch_block_sums_{way}", [x, out, 256, 1], source="cuda/reductions.cu")
    assert len(trace.barriers()) == barriers


@traced
@pytest.mark.parametrize(
    "barrier", ["__syncthreads();  // all partial sums are written", "__syncthreads();  // the sum is written"]
)
def test_a_missing_barrier_is_a_race(barrier):
    x, out = np.ones(256, np.float32), nans(1)
    args = [x, out, 256, 2]
    trace = trace_cuda_launcher("launch_block_sums_shuffle", args, source="cuda/reductions.cu", replace={barrier: "//"})
    assert "shared-race" in {fault.kind for fault in trace.faults()}


@traced
@pytest.mark.parametrize("argument", [0, 1, 5, 16, 31])
@pytest.mark.parametrize("n", [1, 32, 45, 256, 300])
def test_warp_exchanges(n, argument):
    x, out = rng(n).integers(-50, 50, n).astype(np.float32), nans(4 * n)
    clean(trace_cuda_launcher("launch_warp_exchanges", [x, out, n, argument], source="cuda/reductions.cu"))
    warps = np.zeros(-(-n // 32) * 32, np.float32)
    warps[:n] = x
    warps, lane = warps.reshape(-1, 32), np.arange(32)
    down = np.where(lane + argument < 32, lane + argument, lane)
    want = [np.repeat(warps[:, [argument]], 32, axis=1), warps[:, down], warps[:, lane ^ argument]]
    want.append(np.repeat(warps.sum(axis=1, keepdims=True), 32, axis=1))
    np.testing.assert_array_equal(out.reshape(4, n), [rows.reshape(-1)[:n] for rows in want])


@traced
def test_reductions_refuse():
    x, out = np.ones(4, np.float32), nans(16)
    refused("launch_block_sums_shuffle", [x, out, 4, 0], "cuda/reductions.cu")
    refused("launch_block_sums_shared", [x, out, -4, 1], "cuda/reductions.cu")
    refused("launch_warp_exchanges", [x, out, 4, 32], "cuda/reductions.cu")


# ---- divergence ----


def two_paths(kind, steps=3):
    n = kind.size
    x, out = rng(n).standard_normal(n, dtype=np.float32), nans(n)
    trace = trace_cuda_launcher("launch_two_paths", [x, kind, out, n, steps], source="cuda/divergence.cu")
    want = x.copy()
    for _ in range(steps):
        want = np.where(kind == 0, want * np.float32(0.5) + 1, want * np.float32(-0.5) + 3).astype(np.float32)
    np.testing.assert_allclose(out, np.where(kind == 0, want, -want), rtol=1e-6)
    return clean(trace)


@traced
@pytest.mark.parametrize("n", LENGTHS)
def test_two_paths_by_lane_and_by_warp(n):
    lane, warp = np.arange(n, dtype=np.int32) % 2, np.arange(n, dtype=np.int32) // 32 % 2
    writes = {name: two_paths(kind).requests(what="write") for name, kind in (("lane", lane), ("warp", warp))}
    warps = -(-n // 32)
    assert len(writes["warp"]) == warps
    assert len(writes["lane"]) == 2 * warps - (n % 32 == 1)  # a last warp of one lane does not disagree with itself


# ---- residency ----


@traced
@pytest.mark.parametrize("kernel", ["copy_resident", "copy_resident_4"])
@pytest.mark.parametrize(("n", "blocks", "threads"), [(1, 1, 32), (257, 2, 64), (1000, 3, 64), (96, 1, 1024)])
def test_resident_copies(kernel, n, blocks, threads):
    x, out = rng(n).standard_normal(n, dtype=np.float32), nans(n)
    args = [x, out, n, blocks, threads, 50_000, 1]
    clean(trace_cuda_launcher(f"launch_{kernel}", args, source="cuda/residency.cu"))
    np.testing.assert_array_equal(out, x)
    refused(f"launch_{kernel}", [x, out, n, 0, threads, 0, 1], "cuda/residency.cu")


@traced
@pytest.mark.parametrize("kernel", ["strip_products_1", "strip_products_3", "strip_products_4", "strip_products_6"])
@pytest.mark.parametrize("n", [1, 33, 257])
def test_strip_products(kernel, n):
    x, out = rng(n).standard_normal((96, n), dtype=np.float32), nans(n)
    clean(trace_cuda_launcher(f"launch_{kernel}", [x, out, n], source="cuda/residency.cu"))
    exact = sum((x.astype(float) * np.roll(x, -lag, axis=0)).sum(axis=0) for lag in (1, 2, 4, 8, 16, 32))
    magnitude = sum(np.abs(x * np.roll(x, -lag, axis=0)).sum(axis=0) for lag in (1, 2, 4, 8, 16, 32))
    assert (np.abs(out - exact) <= 2 * 576 * 2.0**-24 * magnitude).all()


# ---- probes ----


def ring(n, seed=1):
    """One cycle through all n indices, in random order."""
    order = rng(seed).permutation(n)
    following = np.empty(n, np.int32)
    following[order] = np.roll(order, -1)
    return following


@traced
@pytest.mark.parametrize("kernel", ["chase_global", "chase_l2", "chase_shared"])
@pytest.mark.parametrize(("n", "steps"), [(1, 3), (7, 0), (100, 99), (100, 250)])
def test_a_chase_arrives_where_the_chain_leads(kernel, n, steps):
    chain, out = ring(n), np.full(1, -1, np.int32)
    trace = trace_cuda_launcher(f"launch_{kernel}", [chain, out, n, steps], source="cuda/probes.cu")
    at = 0
    for _ in range(steps):
        at = chain[at]
    assert clean(trace) and out[0] == at
    refused(f"launch_{kernel}", [chain, out, 0, 1], "cuda/probes.cu")


@traced
@pytest.mark.parametrize("kernel", ["read_global", "read_l2"])
@pytest.mark.parametrize(
    ("blocks", "pieces", "regions", "rounds"), [(1, 1, 1, 1), (3, 2, 1, 2), (4, 3, 4, 1), (5, 2, 2, 1)]
)
def test_reads_touch_the_whole_region_every_round(kernel, blocks, pieces, regions, rounds):
    x = rng(3).integers(0, 9, regions * pieces * 4096).astype(np.float32)
    out = nans(blocks * 1024)
    args = [x, out, blocks, pieces * 1024, regions, rounds]
    trace = clean(trace_cuda_launcher(f"launch_{kernel}", args, source="cuda/probes.cu"))
    by_region = x.reshape(regions, pieces, 1024, 4).sum(axis=(1, 3))
    np.testing.assert_array_equal(out.reshape(blocks, 1024), rounds * by_region[np.arange(blocks) % regions])
    assert {event.size for event in trace.select(buffer="x")} == {16}
    refused(f"launch_{kernel}", [x, out, blocks, 1000, regions, rounds], "cuda/probes.cu")


@traced
def test_shared_reads_have_no_conflict():
    x, out, rounds = rng(3).integers(0, 9, 8192).astype(np.float32), nans(1024), 3
    trace = clean(trace_cuda_launcher("launch_read_shared", [x, out, 1, rounds], source="cuda/probes.cu"))
    quads = x.reshape(2048, 4).sum(axis=1)
    thread = np.arange(1024)
    np.testing.assert_array_equal(out, sum(quads[(thread + 32 * r) % 2048] for r in range(rounds)))
    reads = trace.requests(buffer="words", what="read")
    assert {(request.wavefronts, request.ideal_wavefronts) for request in reads} == {(4, 4)}


@traced
@pytest.mark.parametrize("chains", [1, 4])
def test_fma_chains(chains):
    x, out, steps = rng(2).standard_normal(3 * 40, dtype=np.float32), nans(3 * 40), 5
    clean(trace_cuda_launcher("launch_fma_chain", [x, out, 3, 40, chains, steps], source="cuda/probes.cu"))
    want = np.zeros(x.size)
    for chain in range(chains):
        value = x.astype(float) + chain
        for _ in range(steps):
            value = value * 0.5 + 1
        want += value
    np.testing.assert_allclose(out, want, rtol=2e-6)
    refused("launch_fma_chain", [x, out, 1, 1, 2, 1], "cuda/probes.cu")


@traced
def test_a_forgotten_condition_is_seen():
    x, kind, out = np.ones(33, np.float32), np.zeros(33, np.int32), nans(33)
    trace = trace_cuda(
        "two_paths",
        grid=1,
        block=64,
        args=[x, kind, out, 33, 1],
        source="cuda/divergence.cu",
        replace={"if (i < n)": "if (true)"},
    )
    assert "out-of-bounds" in {fault.kind for fault in trace.faults()}


# ---- what the compiler made of them ----


@pytest.mark.nvcc
def test_compiled_kernels_are_what_the_pages_say():
    from kernels.inspect import compile_cuda

    def facts(file, kernel):
        return compile_cuda(kernel, arch=90, source=f"cuda/{file}.cu")

    spills = {blocks: facts("residency", f"strip_products_{blocks}").spill_store_bytes for blocks in (1, 3, 4, 6)}
    assert spills[1] == 0 < spills[3] < spills[4] < spills[6]
    assert facts("residency", "strip_products_1").registers > 96
    for name in ("chase_global", "chase_l2", "read_global", "read_l2", "read_shared", "fma_chain_1", "fma_chain_4"):
        assert facts("probes", name).spill_store_bytes == 0
    assert facts("probes", "read_global").instructions("LDG.E.128") and facts("probes", "read_shared").instructions(
        "LDS.128"
    )
    assert facts("strided", "copy_float4").instructions("LDG.E.128") and facts("strided", "copy_float4").instructions(
        "STG.E.128"
    )
    assert facts("residency", "copy_resident").instructions("LDG") == 1  # not unrolled, or it would be copy_resident_4
    assert facts("reductions", "block_sums_shuffle").instructions("BAR") == 2
    assert facts("reductions", "block_sums_atomic").instructions("ATOMS.CAS")  # no add of floats in shared memory


# ---- the functions on tensors, as far as no GPU is needed ----


def test_what_the_functions_refuse_before_any_launch():
    torch = pytest.importorskip("torch")
    from kernels.cuda import essentials

    x = torch.ones(8)
    for call in (
        lambda: essentials.copy_strided(x, 8),
        lambda: essentials.block_sums(x),
        lambda: essentials.two_paths(x, x.int(), 1),
        lambda: essentials.read_shared(x, 1, 1),
        lambda: essentials.transpose_swizzled(x.view(2, 4)),
    ):
        with pytest.raises(ValueError, match="runs on a CUDA GPU, and x is on cpu"):
            call()
    with pytest.raises(TypeError, match="chase follows contiguous int32"):
        essentials.chase(x, 1)
    with pytest.raises(TypeError, match="needs a tensor, and x is of type list"):
        essentials.copy_float4([1.0])


def test_a_gradient_that_would_get_lost_is_refused(monkeypatch):
    torch = pytest.importorskip("torch")
    from torch._subclasses.fake_tensor import FakeTensorMode

    from kernels.cuda import dequantize, essentials, fused, grid_sum

    for module in (dequantize, essentials, fused, grid_sum):
        monkeypatch.setattr(module, "run_launcher", lambda *_: pytest.fail("it was launched"))
    monkeypatch.setattr(torch._subclasses.fake_tensor.FakeTensor, "data_ptr", lambda _: 256)  # tensors without memory
    with FakeTensorMode():
        x, q = torch.empty(8, 16, device="cuda"), torch.empty(8, 16, dtype=torch.int8, device="cuda")
        few = torch.empty(2, 16, dtype=torch.bfloat16, device="cuda")
        wants = torch.empty(16, device="cuda", requires_grad=True)
        scale = torch.empty(8, device="cuda", requires_grad=True)
        for call, name in (
            (lambda: fused.fused_bias_gelu(x, wants), "bias"),
            (lambda: fused.fused_bias_relu_scale_float4(x, wants, 2.0), "bias"),
            (lambda: dequantize.dequantize(q, scale), "scale"),
            (lambda: dequantize.dequantize_matmul(few, q, scale), "scale"),
            (lambda: grid_sum.grid_sum_last_block(wants, 4), "x"),
            (lambda: essentials.copy_float4(wants), "x"),
            (lambda: essentials.block_sums(wants), "x"),
        ):
            with pytest.raises(ValueError, match=f"has no backward pass, and {name} requires a gradient"):
                call()
