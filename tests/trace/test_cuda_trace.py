"""The kernels of Lesson 9 on the CPU: their numbers, and the facts that the lesson shows about them."""

import re

import numpy as np
import pytest

from kernels.trace.cuda import trace_cuda, trace_cuda_launcher, why_not

pytestmark = pytest.mark.skipif(why_not() is not None, reason=str(why_not()))
KERNELS = ("softmax_serial", "softmax_parallel", "softmax_online", "softmax_online_scalar")


def scores(rows, columns, seed=0):
    x = np.random.default_rng(seed).normal(size=(rows, columns)).astype(np.float32) * 4
    x += np.array([-100, 0, 100], np.float32)[np.arange(rows) % 3, None]
    x[rows - 1, : columns // 2] = -np.inf  # a partly masked row
    return x


def reference(x):
    wide = x.astype(np.float64)
    e = np.exp(wide - wide.max(1, keepdims=True))
    return e / e.sum(1, keepdims=True)


def softmax(kernel, x, **more):
    rows, columns = x.shape
    out = np.full_like(x, np.nan)
    return out, trace_cuda_launcher(f"launch_{kernel}", [x, out, rows, columns, columns, columns], **more)


@pytest.mark.parametrize("kernel", KERNELS)
@pytest.mark.parametrize(
    ("rows", "columns"),
    [
        (3, 2),  # narrower than anything
        (4, 31),  # one lane short of a warp
        (3, 33),  # one lane more
        (5, 256),  # the block exactly
        (2, 1025),  # five turns for thread 0, four for the rest, and odd row starts
        (2, 4096),  # long sums
    ],
)
def test_softmax_equals_the_double_precision_reference(kernel, rows, columns):
    x = scores(rows, columns)
    out, trace = softmax(kernel, x)
    np.testing.assert_allclose(out, reference(x), rtol=2e-5, atol=1e-9)
    np.testing.assert_allclose(out.sum(1), 1, rtol=1e-5)
    assert trace.result == 0


@pytest.mark.parametrize("kernel", KERNELS)
def test_softmax_does_not_depend_on_the_order_of_threads(kernel):
    x = scores(3, 300, seed=1)
    assert (softmax(kernel, x)[0] == softmax(kernel, x, order="backward")[0]).all()


def test_vector_add_is_bit_equal_and_the_source_chooses_two_blocks():
    x, y = (np.random.default_rng(seed).normal(size=257).astype(np.float32) for seed in (1, 2))
    out = np.full(257, np.nan, np.float32)
    trace = trace_cuda_launcher("launch_vector_add", [x, y, out, 257])
    assert (out == x + y).all()
    assert (trace.launches[0].grid, trace.launches[0].block) == ((2, 1, 1), (256, 1, 1))
    assert trace.owner_pairs("out") == [(i // 256, i % 256) for i in range(257)]
    assert trace.elements("out", thread=0, block=1, what="write") == [256]
    assert len(trace.select(block=1)) == 3  # thread 0 of block 1 alone reads x, reads y and writes out
    # What the GPU's own recorder counts: 514 reads, 257 writes; 18 load requests, 66 load sectors.
    assert (len(trace.select(what="read")), len(trace.select(what="write"))) == (514, 257)
    loads = trace.requests(what="read")
    assert (len(loads), sum(len(r.sectors) for r in loads)) == (18, 66)


def test_a_block_of_128_threads_is_one_changed_constant():
    x = np.ones(257, np.float32)
    out = np.zeros_like(x)
    replace = {"kThreads = 256": "kThreads = 128"}
    trace = trace_cuda_launcher("launch_vector_add", [x, x, out, 257], replace=replace)
    assert (trace.launches[0].grid, trace.launches[0].block) == ((3, 1, 1), (128, 1, 1))
    y = scores(2, 400)
    out, trace = softmax("softmax_parallel", y, replace=replace)
    np.testing.assert_allclose(out, reference(y), rtol=2e-5, atol=1e-9)
    assert trace.buffer("scratch").shape == (4,)
    assert trace.elements("x", thread=67)[:3] == [67, 67 + 128, 67 + 2 * 128]


def test_the_facts_of_lesson_nine():
    x = scores(2, 600)
    _, trace = softmax("softmax_parallel", x)
    # Thread t owns columns t, t + 256, t + 512, and reads each three times.
    assert trace.elements("x", thread=67) == [67, 323, 579] * 3
    assert trace.elements("x", thread=100) == [100, 356] * 3
    # The first load of warp 2 asks for 32 neighbouring columns: four whole sectors.
    first = trace.warp_requests("x", warp=2)[0]
    assert (first.lanes, first.elements) == (tuple(range(32)), tuple(range(64, 96)))
    assert (len(first.sectors), first.efficiency) == (4, 1.0)
    # One partial a warp, by its lane 0.
    block = trace.select(block=0)
    assert block.buffer("scratch").shape == (8,)
    assert block.writers("scratch", "thread") == [(32 * w,) for w in range(8)]
    # Three barriers a reduction, twice; all 256 threads reach each.
    barriers = trace.barriers(block=0)
    assert [b.interval for b in barriers] == list(range(6))
    assert {b.threads for b in barriers} == {256}
    assert [b.line for b in barriers[:3]] == [b.line for b in barriers[3:]]
    # A shuffle tree has five steps; warp 0 runs it twice a reduction.
    assert (len(trace.warp_operations(67)), len(trace.warp_operations(3))) == (10, 20)


def test_the_story_of_thread_67():
    _, trace = softmax("softmax_parallel", scores(2, 600))
    told = trace.story(67)
    assert told[0] == "thread 67 of block 0: warp 2, lane 3"
    text = [re.sub(r"^line \d+: ", "", line) for line in told[1:]]
    reduction = [
        "takes part in 5 warp operations",
        "waits at barrier {}, which 256 of 256 threads reach",
        "waits at barrier {}, which 256 of 256 threads reach",
        "reads scratch[0]",
        "waits at barrier {}, which 256 of 256 threads reach",
    ]
    columns = "reads x[0, 67], x[0, 323], x[0, 579]"
    last = [f"{verb}[0, {c}]" for c in (67, 323, 579) for verb in ("reads x", "writes out")]
    barriers = iter(range(1, 7))
    both = [line.format(next(barriers)) if "{}" in line else line for line in reduction * 2]
    assert text == [columns, *both[:5], columns, *both[5:], *last]
    assert "writes scratch[2]" in trace.story(64, block=1)[3]  # lane 0 of warp 2 writes its warp's partial
    idle = softmax("softmax_parallel", scores(1, 33))[1].story(67)
    assert not [line for line in idle if "x[" in line or "out[" in line]
    assert len([line for line in idle if "waits at barrier" in line]) == 6
    with pytest.raises(ValueError, match="2 blocks of 256 threads; there is no block 0, thread 256"):
        trace.story(256)


def test_thirty_three_columns_leave_most_threads_without_any():
    _, trace = softmax("softmax_parallel", scores(1, 33))
    readers = {who for people in trace.readers("x", "thread") for who in people}
    assert readers == set(range(33))
    assert {b.threads for b in trace.barriers()} == {256}


def test_the_online_softmax_reads_twice_and_by_sixteen_bytes_where_it_can():
    _, wide = softmax("softmax_online", scores(2, 256))
    _, narrow = softmax("softmax_online", scores(2, 257))
    sizes = {t.select(what="read", buffer="x").columns["size"].max() for t in (wide, narrow)}
    assert sizes == {16, 4}
    assert (wide.counts("x", "read") == 2).all() and (narrow.counts("x", "read") == 2).all()
    assert wide.elements("x", thread=3) == [12, 13, 14, 15] * 2


def test_one_kernel_with_a_configuration_of_ones_own():
    x = np.ones(70, np.float32)
    out = np.zeros_like(x)
    trace = trace_cuda("vector_add", grid=(3,), block=32, args=[x, x, out, 70])
    assert (out == 2).all()
    assert trace.owners("out").tolist() == [i // 32 for i in range(70)]
    assert trace.launches[0].grid == (3, 1, 1)


def test_empty_input_launches_nothing():
    empty = np.empty(0, np.float32)
    trace = trace_cuda_launcher("launch_vector_add", [empty, empty, empty.copy(), 0])
    assert (trace.launches, len(trace), trace.result, trace.faults()) == ((), 0, 0, [])
    refused = trace_cuda_launcher("launch_vector_add", [empty, empty, empty.copy(), -1])
    assert refused.result == 1


@pytest.mark.parametrize(
    ("args", "words"),
    [
        ([np.zeros(4), np.zeros(4, np.float32), np.zeros(4, np.float32), 4], "argument x has dtype float64"),
        ([np.zeros(4, np.int32), np.zeros(4, np.float32), np.zeros(4, np.float32), 4], "argument x has dtype int32"),
        ([1.0, np.zeros(4, np.float32), np.zeros(4, np.float32), 4], "the parameter is a pointer"),
        ([np.zeros(4, np.float32)] * 3 + [4.5], "the parameter is an integer"),
        ([np.zeros(4, np.float32)] * 3, "takes 5 arguments (x, y, out, n, stream) and was given 3"),
    ],
)
def test_arguments_that_do_not_fit_are_named(args, words):
    with pytest.raises(TypeError) as caught:
        trace_cuda_launcher("launch_vector_add", args)
    assert words in str(caught.value)


def test_in_place_is_one_buffer_and_a_partial_overlap_is_refused():
    x = np.arange(8, dtype=np.float32)
    trace = trace_cuda_launcher("launch_vector_add", [x, x, x, 8])
    assert x.tolist() == [2 * i for i in range(8)]
    assert [b.name for b in trace.buffers] == ["x"]
    with pytest.raises(ValueError, match="x and out are overlapping parts of one array"):
        trace_cuda_launcher("launch_vector_add", [x[:4], np.ones(4, np.float32), x[2:6], 4])


def test_names_that_do_not_exist():
    with pytest.raises(KeyError, match="it has: vector_add, softmax_serial"):
        trace_cuda("vector_sub", grid=1, block=1, args=[])
    with pytest.raises(ValueError, match="does not contain 'kBlocks = 7'"):
        trace_cuda("vector_add", grid=1, block=1, args=[], replace={"kBlocks = 7": ""})


@pytest.mark.parametrize(
    ("more", "error", "words"),
    [
        ({"block": 1.5}, TypeError, "block is 1.5; it takes one to three integers, x first"),
        ({"block": "32"}, TypeError, "block is '32'"),
        ({"grid": None}, TypeError, "grid is None"),
        ({"grid": (1, 2.0)}, TypeError, "grid is (1, 2.0)"),
        ({"grid": True}, TypeError, "grid is True"),
        ({"grid": -1}, ValueError, "grid is -1; none of its numbers may be negative"),
        ({"grid": ()}, ValueError, "grid is (); it takes one to three integers"),
        ({"shared_bytes": -1}, ValueError, "shared_bytes is -1; a launch has 0 bytes of dynamic shared memory or more"),
        ({"shared_bytes": 4.0}, TypeError, "shared_bytes is 4.0; it is a number of bytes, an integer"),
        ({"max_events": -5}, ValueError, "max_events is -5; it is a positive integer"),
        ({"max_seconds": float("nan")}, ValueError, "max_seconds is nan; it is a positive number of CPU seconds"),
    ],
)
def test_a_launch_that_cannot_be_is_refused_in_words(more, error, words):
    args = [np.zeros(4, np.float32)] * 3 + [4]
    with pytest.raises(error) as caught:
        trace_cuda("vector_add", **{"grid": 1, "block": 32, "args": args} | more)
    assert str(caught.value).startswith(words)


def test_a_list_is_no_device_memory():
    with pytest.raises(TypeError, match="argument x is a list; the parameter is a pointer, so pass a numpy array"):
        trace_cuda("vector_add", grid=1, block=32, args=[[1.0], np.zeros(1, np.float32), np.zeros(1, np.float32), 1])
