"""No right kernel is accused, however unusual its style and however it declares its memory."""

from pathlib import Path

import numpy as np
import pytest

from kernels.trace.cuda import trace_cuda, why_not

pytestmark = pytest.mark.skipif(why_not() is not None, reason=str(why_not()))
SOURCES = Path(__file__).parent / "cuda_sources"
BOTH = pytest.mark.parametrize("order", ["forward", "backward"])
RANDOM = np.random.default_rng(3)


def real(*shape):
    return RANDOM.standard_normal(shape, dtype=np.float32)


def empty(*shape, kind=np.float32):
    return np.zeros(shape, kind)


def whole(count, low=-3, high=9, kind=np.int32):
    return RANDOM.integers(low, high, count).astype(kind)


HALF, BRAIN = real(64).astype(np.float16), (real(32).view(np.uint32) >> 16).astype(np.uint16)
LINE = np.concatenate([[0], np.full(39, 100)]).astype(np.int32)

# kernel: grid, block, arguments, bytes of dynamic shared memory
STYLES = {
    "warp_shared_sum": (1, 256, [real(1000), empty(1), 1000], 0),
    "last_block": (5, 128, [real(1000), empty(5), empty(1), 1000], 0),
    "double_buffer": (1, 128, [real(512), empty(128), 4], 0),
    "cg_red": (1, 256, [real(200), empty(1), 200], 0),
    "mm<16>": ((3, 2), (16, 16), [real(20, 33), real(33, 40), empty(20, 40), 20, 40, 33], 0),
    "scan_hs": (1, 64, [whole(50), empty(50, kind=np.int32), 50], 2 * 64 * 4),
    "bitonic": (1, 256, [whole(256, -999, 999)], 0),
    "hist": (3, 100, [np.arange(999).astype(np.uint8), empty(64, kind=np.uint32), 999], 0),
    "tr": ((2, 3), (32, 8), [real(70, 45), empty(45, 70), 70, 45], 0),
    "stencil": (3, 64, [real(150), empty(150), 150], 0),
    "axpy4": (2, 64, [2.0, real(1027), real(1027), 1027], 0),
    "reverse": (2, 64, [real(100), 100], 0),
    "aggregated": (3, 96, [whole(250), empty(1, kind=np.int32), 250], 0),
    "tile8": (1, 96, [real(96), empty(12)], 0),
    "halves": (1, 64, [real(64), empty(64)], 0),
    "vol": ((2, 3, 2), (8, 4, 3), [real(5, 11, 13), empty(5, 11, 13), 13, 11, 5], 0),
    "reuse": (1, 64, [real(64), empty(64)], 64 * 8),
    "pipe3": (1, 32, [real(5 * 32 * 4), empty(32), 5], 0),
    "wm": (1, 32, [real(256).astype(np.float16), real(256).astype(np.float16), empty(256)], 0),
    "locked": (2, 48, [np.arange(90, dtype=np.int32), empty(4, kind=np.int32), empty(4), 90], 0),
    "relax": (1, 40, [LINE, 40], 160),
    "h2": (1, 32, [HALF, empty(64, kind=np.float16), BRAIN, empty(32, kind=np.uint16), 32], 0),
    "prod_cons": (1, 64, [real(160), empty(32), 5], 0),
    "match": (1, 64, [np.arange(64, dtype=np.int32) % 5, empty(5, kind=np.int32)], 0),
    "sub_sync": (1, 64, [whole(64), empty(64, kind=np.int32)], 0),
    "structs": (2, 20, [real(33, 3), empty(33, 3), 33], 0),
    "shift": (1, 64, [real(33), 33], 0),
    "var": (1, 128, [real(33), empty(2), 33], 0),
    "active": (1, 64, [whole(64), empty(64, kind=np.int32)], 0),
    "uniform_exit": (3, 64, [np.array([1, 0, 1], np.int32), empty(3)], 0),
    "count_break": (1, 70, [whole(70, 0, 5), empty(70, kind=np.int32)], 0),
    "pingpong": (1, 64, [real(100), empty(100), 100, 4], 0),
    "types": (1, 32, [np.arange(20) % 3 > 0, whole(20, kind=np.int8), whole(20, kind=np.int64),
                      empty(20, kind=np.int64), 20], 0),
}  # fmt: skip

PLACES = [
    *(f"d{number}" for number in (*range(1, 16), 18, *range(20, 26))),
    "ns::nested<32, ns::Y>", "d16<Mode::kB, float, true>", "d17<float>", "d19<-5>", "d19<9>", "hidden",
]  # fmt: skip


def sentences(kernel, source, grid, block, args, shared_bytes, order="forward"):
    copied = [arg.copy() if isinstance(arg, np.ndarray) else arg for arg in args]
    trace = trace_cuda(
        kernel, grid=grid, block=block, args=copied, source=SOURCES / source, shared_bytes=shared_bytes, order=order
    )
    return [fault.sentence for fault in trace.faults()], trace


@BOTH
@pytest.mark.parametrize("kernel", STYLES)
def test_no_style_is_accused(kernel, order):
    assert sentences(kernel, "styles.cu", *STYLES[kernel], order)[0] == []


@pytest.mark.parametrize("kernel", PLACES)
def test_every_way_to_declare_memory_is_known(kernel):
    args, dynamic = [np.zeros(32, np.float32)], 128 if kernel in ("d9", "d12") else 0
    assert sentences(kernel, "shared_forms.cu", 1, 32, args, dynamic)[0] == []


@pytest.mark.parametrize(
    ("kernel", "grid", "count", "dynamic"),
    [("bytes_of_ints", 2, 64, 0), ("halves_in_floats", 1, 64, 128), ("storage", 1, 32, 0), ("points", 1, 64, 0)],
)
def test_threads_at_different_parts_of_an_item_do_not_meet(kernel, grid, count, dynamic):
    args = [np.zeros(32, np.int32), 32] if grid == 2 else [np.zeros(count, np.float32)]
    assert sentences(kernel, "shared_forms.cu", grid, count, args, dynamic)[0] == []


def test_threads_at_the_same_part_of_an_item_do_meet():
    (sentence, *more), _ = sentences("points_race", "shared_forms.cu", 1, 64, [np.zeros(64, np.float32)], 0)
    assert "writes p[0]" in sentence and "with no barrier between them" in sentence and not more


def test_a_byte_that_nobody_writes_is_named():
    (sentence,), trace = sentences("bytes_of_ints", "shared_forms.cu", 1, 63, [np.zeros(16, np.int32), 16], 0)
    assert sentence.startswith("out[15, 3] is never written")
    assert trace.buffer("out").shape == (16,), "the array itself stays as it was passed"


@BOTH
def test_a_counter_that_is_set_back_too_early_is_a_race(order):
    source = SOURCES / "styles.cu"
    for old, new in [
        ("if (last) {", "if (t == 0 && !last) g_count = 0;\n    if (last) {"),
        ("        last = ticket == gridDim.x - 1;", "        last = ticket == gridDim.x - 1;\n        g_count = 0;"),
    ]:
        args = [real(1000), empty(5), empty(1), 1000]
        trace = trace_cuda("last_block", grid=5, block=128, args=args, source=source, replace={old: new}, order=order)
        assert ("global-race", "g_count") in {(fault.kind, fault.buffer) for fault in trace.faults()}
