"""Layouts of Triton's memory operations: which warp, lane and register holds which element, and which copy acts."""

import numpy as np
import pytest

from kernels.inspect import InspectionFailed, TritonRequest, layouts
from kernels.inspect.layouts import MemoryAccess, free_bits, triton_layouts, triton_layouts_many
from kernels.inspect.layouts_worker import _linear_layouts, read_instructions, read_operations

FILE = "tests/trace/lane_kernels.py"


def access(what="read", register=(), lane=(0,) * 5, warp=(0, 0), vector=1):
    return MemoryAccess(what, "tt.load", "k.py", 7, 0, (64,), 4, "", register, lane, warp, vector, "ld.global.b32")


def test_an_element_is_the_exclusive_or_of_the_bases():
    held = access(register=(1, 2, 512), lane=(4, 8, 16, 32, 64), warp=(128, 256), vector=4)
    warp, lane, register = np.indices((4, 32, 8))
    assert (held.positions == register % 4 + 4 * lane + 128 * warp + 512 * (register // 4)).all()
    assert held.acts.all() and (held.registers, held.access_bytes) == (8, 16)


def test_copies_are_loaded_by_all_threads_and_stored_by_the_first():
    lanes = {"lane": (1, 2, 4, 8, 0), "warp": (0, 16)}
    assert access("read", **lanes).acts.all()
    for what in ("write", "atomic"):
        acts = access(what, **lanes).acts[:, :, 0]
        assert np.argwhere(acts).tolist() == [[warp, lane] for warp in (0, 2) for lane in range(16)]
    scalar = access("atomic").acts
    assert np.argwhere(scalar).tolist() == [[0, 0, 0]]


def test_a_register_that_repeats_another_is_not_loaded_twice():
    acts = access("read", register=(1, 0), lane=(2, 4, 8, 16, 32)).acts
    assert acts[:, :, :2].all() and not acts[:, :, 2:].any()


def test_a_bit_is_free_when_the_bits_before_it_reach_the_same_elements():
    assert free_bits([1, 2, 3, 0, 4]) == [False, False, True, True, False]
    assert free_bits([6, 5, 3, 1]) == [False, False, True, False]


@pytest.mark.triton
def test_what_was_compiled_is_remembered_until_its_lines_move(own_store, monkeypatch):
    request = TritonRequest(f"{FILE}:copy", {"x_ptr": "*fp32", "out_ptr": "*fp32", "n": "i32:16", "BLOCK": 1024})
    first = triton_layouts(request)
    assert [(a.what, a.line, a.vector, a.instruction) for a in first.accesses] == [
        ("read", 10, 4, "ld.global.v4.b32"),
        ("write", 10, 4, "st.global.v4.b32"),
    ]
    assert first.at(10, "write") == [first.accesses[1]] and first.at(11) == []
    assert (first.kernel, first.num_warps, first.accesses[0].file) == ("copy", 4, FILE)
    assert first.accesses[0].layout.startswith("#ttg.blocked<{sizePerThread = [4], threadsPerWarp = [32]")
    with monkeypatch.context() as patch:
        patch.setattr(layouts, "ask", lambda *_: pytest.fail("compiled again"))
        assert triton_layouts(request) == first
    monkeypatch.setattr(layouts, "_hash", lambda file: "another text")
    with pytest.raises(pytest.fail.Exception, match="compiled again"), monkeypatch.context() as patch:
        patch.setattr(layouts, "ask", lambda *_: pytest.fail("compiled again"))
        triton_layouts(request)


@pytest.mark.triton
def test_every_kind_of_operation_is_read():
    fp32, fp16, i32 = "*fp32", "*fp16", "*i32"
    named = {
        "row_sums": {"x_ptr": fp32, "out_ptr": fp32, "total_ptr": fp32, "N": "i32:16", "BLOCK_M": 8, "BLOCK_N": 128},
        "add_to_bins": {"x_ptr": i32, "bins_ptr": i32, "n": "i32", "BLOCK": 64},
        "swap": {"flags_ptr": i32, "seen_ptr": i32, "BLOCK": 64},
        "described": {"x_ptr": fp32, "out_ptr": fp32, "n": "i32", "BLOCK": 64},
        "handed": {"source": "tensordesc<fp32[64]>", "target": "tensordesc<fp32[64]>", "BLOCK": 64},
        "product": {"a_ptr": fp16, "b_ptr": fp16, "out_ptr": fp16, "K": "i32:16", "BLOCK": 64},
    }
    requests = [TritonRequest(f"{FILE}:{name}", signature) for name, signature in named.items()]
    found = dict(zip(named, triton_layouts_many(requests), strict=True))

    def told(name):
        return list(dict.fromkeys((a.what, a.shape, a.access_bytes, a.engine) for a in found[name].accesses))

    assert told("row_sums") == [
        ("read", (), 4, False), ("read", (8, 128), 16, False), ("write", (8,), 4, False), ("atomic", (), 4, False),
    ]  # fmt: skip
    assert told("add_to_bins") == [("read", (64,), 4, False), ("atomic", (64,), 4, False)]
    assert told("swap") == [("atomic", (64,), 4, False), ("write", (64,), 4, False)]
    for name in ("described", "handed"):  # TMA on Hopper: the tensor is in no register when it moves
        assert told(name) == [("read", (64,), 4, True), ("write", (64,), 4, True)]
    assert told("product") == [("read", (64, 64), 16, False), ("write", (64, 64), 16, False)]
    assert found["product"].accesses[0].operation == "ttg.async_copy_global_to_local"


@pytest.mark.triton
def test_a_kernel_that_does_not_compile_is_named():
    with pytest.raises(InspectionFailed, match="copy has no argument y_ptr"):
        triton_layouts(TritonRequest(f"{FILE}:copy", {"y_ptr": "*fp32"}))


MODULE = """\
#blocked = #ttg.blocked<{{sizePerThread = [1, 2], threadsPerWarp = [4, 8], warpsPerCTA = [2, 2], order = [1, 0]}}>
#mma2 = #ttg.nvidia_mma<{{versionMajor = 2, versionMinor = 0, warpsPerCTA = [2, 2], instrShape = [16, 8]}}>
#mma3 = #ttg.nvidia_mma<{{versionMajor = 3, versionMinor = 0, warpsPerCTA = [4, 1], instrShape = [16, 16, 16]}}>
#linear = #ttg.linear<{{register = [[0, 1]], lane = [[0, 2], [0, 4], [0, 8], [1, 0], [2, 0]], \
warp = [[4, 0], [0, 0]], block = []}}>
module attributes {{"ttg.num-ctas" = 1 : i32, "ttg.num-warps" = 4 : i32, ttg.target = "cuda:90", \
"ttg.threads-per-warp" = 32 : i32}} {{
  tt.func public @k(%p: tensor<{shape}x!tt.ptr<f32>, {layout}>, %v: tensor<{shape}xf32, {layout}>) {{
    tt.store %p, %v : tensor<{shape}x!tt.ptr<f32>, {layout}> loc(#loc1)
    tt.return
  }}
}}
#loc1 = loc("k.py":3:4)
"""


def owners(shape, layout):
    """Row and column of every (warp, lane, register), and which of them store."""
    (bases,) = _linear_layouts(MODULE.format(shape="x".join(map(str, shape)), layout=layout))
    held = access("write", *(tuple(bases[f"{who}_bases"]) for who in ("register", "lane", "warp")))
    return (*np.divmod(held.positions, shape[-1]), held.acts)


@pytest.mark.triton
def test_a_blocked_layout():
    pytest.importorskip("triton")
    warp, lane, register = np.indices((4, 32, 4))
    row, column, acts = owners((8, 64), "#blocked")
    assert (row == lane // 8 + 4 * (warp // 2)).all()
    assert (column == register % 2 + 2 * (lane % 8) + 16 * (warp % 2) + 32 * (register // 2)).all() and acts.all()
    row, column, acts = owners(
        (4, 32), "#blocked"
    )  # the layout is twice as high as the tensor: warps 2 and 3 hold copies
    assert (row == lane[:, :, :2] // 8).all() and acts[:2].all() and not acts[2:].any()


@pytest.mark.triton
def test_a_slice_keeps_copies_along_what_was_summed():
    pytest.importorskip("triton")
    _, row, acts = owners((8,), "#ttg.slice<{dim = 1, parent = #blocked}>")
    warp, lane, _ = np.indices(row.shape)
    assert (row == lane // 8 + 4 * (warp // 2)).all()
    # One of the eight lanes of a row stores it, of warps 0 and 2; the registers of a thread hold the same.
    assert np.argwhere(acts).tolist() == [[warp, lane, 0] for warp in (0, 2) for lane in (0, 8, 16, 24)]


@pytest.mark.triton
def test_the_accumulators_of_tensor_cores():
    # PTX manual, "Matrix Fragments for mma.m16n8k16": row = lane / 4 (+ 8), column = 2 * (lane % 4) + i % 2
    pytest.importorskip("triton")
    warp, lane, register = np.indices((4, 32, 4))
    row, column, acts = owners((32, 16), "#mma2")
    assert (row == lane // 4 + 8 * (register // 2) + 16 * (warp // 2)).all() and acts.all()
    assert (column == 2 * (lane % 4) + register % 2 + 8 * (warp % 2)).all()
    warp, lane, register = np.indices((4, 32, 8))
    row, column, acts = owners((64, 16), "#mma3")  # wgmma: four warps below each other, eight columns at a time
    assert (row == lane // 4 + 8 * (register // 2 % 2) + 16 * warp).all() and acts.all()
    assert (column == 2 * (lane % 4) + register % 2 + 8 * (register // 4)).all()


@pytest.mark.triton
def test_a_layout_that_is_given_by_its_bases():
    pytest.importorskip("triton")
    warp, lane, register = np.indices((4, 32, 2))
    row, column, acts = owners((8, 16), "#linear")
    assert (row == lane // 8 + 4 * (warp % 2)).all() and (column == register + 2 * (lane % 8)).all()
    assert acts[:2].all() and not acts[2:].any()


def test_operations_are_read_with_the_places_they_come_from():
    text = """\
#blocked = #ttg.blocked<{sizePerThread = [1], threadsPerWarp = [32], warpsPerCTA = [4], order = [0]}>
#loc = loc("k.py":3:0)
    %x = tt.load %p, %m evictionPolicy = evict_first : tensor<64x!tt.ptr<f16>, #blocked> loc(#loc4)
    tt.store %q, %x : tensor<2x8x!tt.ptr<i64>, #ttg.slice<{dim = 1, parent = #blocked}>> loc(#loc5)
    %s = tt.atomic_rmw fadd, acq_rel, gpu, %r, %v, %true : (!tt.ptr<f32>, f32, i1) -> f32 loc(#loc2)
#loc1 = loc("helper.py":5:2)
#loc2 = loc("k.py":7:4)
#loc3 = loc("x"(#loc1))
#loc4 = loc(callsite(#loc3 at #loc2))
#loc5 = loc(fused[#loc2, "k.py":9:1])
"""
    load, store, atomic = read_operations(text)
    assert (load["shape"], load["element_bytes"], load["positions"]) == ([64], 2, [("helper.py", 5, 2), ("k.py", 7, 4)])
    assert load["layout"].startswith("#ttg.blocked<{sizePerThread = [1]")
    assert (store["shape"], store["element_bytes"], store["positions"]) == ([2, 8], 8, [("k.py", 7, 4), ("k.py", 9, 1)])
    assert "parent = #ttg.blocked<" in store["layout"]
    assert (atomic["shape"], atomic["layout"], atomic["element_bytes"]) == ([], "", 4)


def test_instructions_are_read_with_their_width():
    ptx = """
	.loc	1 5 2
	@%p1 ld.global.L1::evict_first.v4.b32 { %r1, %r2, %r3, %r4 }, [ %rd1 + 0 ];
	.loc	1 6 3, function_name $L__info_string0, inlined_at 1 9 9
	st.global.v2.b64 [ %rd4 + 0 ], { %rd5, %rd6 };
	st.shared.b32 [ %r7 ], %r8;
	cp.async.cg.shared.global [ %r11 + 0 ], [ %rd5 + 0 ], 0x10, %r12;
	atom.global.gpu.acq_rel.add.noftz.f16x2 %r1, [ %rd1 + 0 ], %r2;
	red.global.gpu.relaxed.add.bf16x2 [ %rd1 + 0 ], %r2;
	.file	1 "/here" "k.py"
"""
    assert read_instructions(ptx) == {
        ("/here/k.py", 5, 2): [("ld.global.L1::evict_first.v4.b32", 16)],
        ("/here/k.py", 6, 3): [
            ("st.global.v2.b64", 16),
            ("cp.async.cg.shared.global", 16),
            ("atom.global.gpu.acq_rel.add.noftz.f16x2", 4),
            ("red.global.gpu.relaxed.add.bf16x2", 4),
        ],
    }
