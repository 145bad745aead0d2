"""Triton kernels traced under the interpreter: right ones are not accused, wrong ones are named to the element."""

import gc
import inspect
import weakref
from pathlib import Path

import pytest

torch = pytest.importorskip("torch")
triton = pytest.importorskip("triton")
import triton.language as tl  # noqa: E402

from kernels.trace.triton import trace_triton  # noqa: E402

pytestmark = pytest.mark.triton


@triton.jit
def masked_add(x_ptr, y_ptr, out_ptr, n, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    x = tl.load(x_ptr + i, mask=i < n)
    y = tl.load(y_ptr + i, mask=i < n)
    tl.store(out_ptr + i, x + y, mask=i < n)


@triton.jit
def add_without_load_mask(x_ptr, y_ptr, out_ptr, n, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    x = tl.load(x_ptr + i)  # PLANTED
    y = tl.load(y_ptr + i, mask=i < n)
    tl.store(out_ptr + i, x + y, mask=i < n)


@triton.jit
def add_without_store_mask(x_ptr, y_ptr, out_ptr, n, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    total = tl.load(x_ptr + i, mask=i < n) + tl.load(y_ptr + i, mask=i < n)
    tl.store(out_ptr + i, total)  # PLANTED


@triton.jit
def fill(out_ptr, n, STEP: tl.constexpr, BLOCK: tl.constexpr):
    i = tl.program_id(0) * STEP + tl.arange(0, BLOCK)
    tl.store(out_ptr + i, 1.0, mask=i < n)  # PLANTED


@triton.jit
def shift(x_ptr, n, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    after = tl.load(x_ptr + i + 1, mask=i + 1 < n)
    tl.store(x_ptr + i, after, mask=i < n)


@triton.jit
def copy_rows(x_ptr, out_ptr, N, x_stride_m, x_stride_n, BLOCK: tl.constexpr):
    m = tl.program_id(0)
    n = tl.arange(0, BLOCK)
    x = tl.load(x_ptr + m * x_stride_m + n * x_stride_n, mask=n < N)
    tl.store(out_ptr + m * N + n, x, mask=n < N)


@triton.jit
def count(bins_ptr, n, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.atomic_add(bins_ptr + i % 2, 1.0, mask=i < n)


@triton.jit
def swap(flags_ptr, seen_ptr, BLOCK: tl.constexpr):
    i = tl.arange(0, BLOCK)
    seen = tl.atomic_cas(flags_ptr + i, tl.full((BLOCK,), 2, tl.int32), tl.full((BLOCK,), 7, tl.int32))
    tl.store(seen_ptr + i, seen)


@triton.jit
def store_four_bytes(bytes_ptr, at):
    tl.store((bytes_ptr + at).to(tl.pointer_type(tl.int32)), 0x01010101)


@triton.jit
def copy_blocks(x_ptr, out_ptr, n, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK
    source = tl.make_block_ptr(x_ptr, (n,), (1,), (at,), (BLOCK,), (0,))
    target = tl.make_block_ptr(out_ptr, (n,), (1,), (at,), (BLOCK,), (0,))
    tl.store(target, tl.load(source, boundary_check=(0,)), boundary_check=(0,))


@triton.jit
def copy_described(x_ptr, out_ptr, n, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK
    source = tl.make_tensor_descriptor(x_ptr, [n], [1], [BLOCK])
    target = tl.make_tensor_descriptor(out_ptr, [n], [1], [BLOCK])
    target.store([at], source.load([at]))


@triton.jit
def corners(out_ptr):
    x, y, z = tl.program_id(0), tl.program_id(1), tl.program_id(2)
    tl.store(out_ptr + x + 2 * (y + 3 * z), 1.0)


@triton.jit
def halve(x_ptr, out_ptr, n, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    x = tl.load(x_ptr + i, mask=i < n)
    tl.store(out_ptr + i // 2, x, mask=i < n)  # PLANTED


@triton.jit
def fail(x_ptr):
    tl.load(x_ptr)
    tl.static_assert(False, "planted")


def planted(kernel):
    lines, first = inspect.getsourcelines(kernel.fn)
    return first + next(i for i, line in enumerate(lines) if "PLANTED" in line)


def add_tensors(n=257):
    return {"x": torch.randn(n), "y": torch.randn(n), "out": torch.full((n,), float("nan"))}


def run(kernel, tensors, block=256):
    n = len(tensors["x"])
    return trace_triton(lambda: kernel[(triton.cdiv(n, block),)](*tensors.values(), n, BLOCK=block), tensors)


def one(faults):
    assert len(faults) == 1, [str(fault) for fault in faults]
    return faults[0]


def test_the_masked_add_is_right_and_its_tail_is_seen():
    tensors = add_tensors()
    trace = run(masked_add, tensors)
    assert torch.equal(tensors["out"], tensors["x"] + tensors["y"])
    assert trace.faults() == []
    assert trace.owners("out").tolist() == [0] * 256 + [1]
    assert trace.masked("out") == dict.fromkeys(range(257, 512), 1)
    assert trace.launches[0].grid == (2, 1, 1) and trace.launches[0].kernel == "masked_add"
    assert [(p["reads"], p["writes"], p["masked"]) for p in trace.programs()] == [(512, 256, 0), (2, 1, 765)]


def test_a_dropped_load_mask_names_element_program_and_line():
    tensors = add_tensors()
    trace = run(add_without_load_mask, tensors)
    fault = one(trace.faults())
    assert (fault.kind, fault.buffer, fault.element, fault.count) == ("out-of-bounds", "x", 257, 255)
    assert (fault.who, fault.line) == ("program 1", planted(add_without_load_mask))
    assert Path(fault.file) == Path(__file__)
    assert fault.sentence.startswith("Program 1 reads x[257], which is out of bounds: the last element is x[256].")
    assert f"tests/trace/test_triton.py:{fault.line}" in fault.sentence and "(257–511)" in fault.sentence
    assert "the load on this line has no mask" in fault.cause
    assert trace.outside("x") == dict.fromkeys(range(257, 512), 1) and trace.outside("y") == {}
    assert trace.owners("x", what="read").tolist() == [0] * 256 + [1] and set(trace.owners("x")) == {-1}
    assert torch.equal(tensors["out"], tensors["x"] + tensors["y"])  # which is why a test of values never sees it


def test_a_dropped_store_mask_is_named_and_writes_nothing_outside():
    base = torch.full((600,), 5.0)
    tensors = add_tensors() | {"out": base[:257]}
    fault = one(run(add_without_store_mask, tensors).faults())
    assert (fault.kind, fault.element, fault.line) == ("out-of-bounds", 257, planted(add_without_store_mask))
    assert base[257:].eq(5.0).all() and torch.equal(tensors["out"], tensors["x"] + tensors["y"])


def test_an_element_past_one_tensor_is_never_taken_for_its_neighbour():
    both = torch.randn(514)
    tensors = {"x": both[:257], "y": both[257:], "out": torch.empty(257)}
    fault = one(run(add_without_load_mask, tensors).faults())
    assert (fault.buffer, fault.element) == ("x", 257)


def test_a_step_that_is_too_small_writes_twice():
    out = torch.zeros(100)
    fault = one(trace_triton(lambda: fill[(3,)](out, 100, STEP=48, BLOCK=64), {"out": out}).faults())
    assert (fault.kind, fault.element, fault.count, fault.line) == ("double-write", 48, 20, planted(fill))
    assert "written by program 0 and again by program 1" in fault.sentence


def test_a_grid_that_is_too_small_leaves_elements_unwritten():
    out = torch.zeros(100)
    fault = one(trace_triton(lambda: fill[(1,)](out, 100, STEP=64, BLOCK=64), {"out": out}).faults())
    assert (fault.kind, fault.element, fault.count) == ("unwritten", 64, 36) and "(64–99)" in fault.sentence


def test_a_store_mask_that_is_too_narrow_names_its_holder():
    out = torch.zeros(100)
    fault = one(trace_triton(lambda: fill[(2,)](out, 99, STEP=64, BLOCK=64), {"out": out}).faults())
    assert (fault.element, fault.who, fault.line) == (99, "program 1", planted(fill))
    assert "the store's mask of program 1" in fault.cause


def test_reading_what_a_neighbour_overwrites():
    x = torch.arange(8.0)
    fault = one(trace_triton(lambda: shift[(2,)](x, 8, BLOCK=4), {"x": x}).faults())
    assert (fault.kind, fault.element, fault.who) == ("read-write-overlap", 4, "program 0")


def test_launches_are_kept_apart():
    a, b = torch.zeros(64), torch.zeros(64)

    def both():
        fill[(1,)](a, 64, STEP=64, BLOCK=64)
        copy_rows[(2,)](a, b, 32, 32, 1, BLOCK=32)

    trace = trace_triton(both, {"a": a, "b": b})
    assert [launch.kernel for launch in trace.launches] == ["fill", "copy_rows"]
    assert [launch.grid[0] for launch in trace.launches] == [1, 2]
    assert trace.faults() == []  # program 0 wrote and program 1 read the same element, but in different launches
    assert len(trace.select(launch=0)) == 64 and len(trace.select(launch=1)) == 128


def test_a_strided_view_is_traced_in_its_own_indices():
    x = torch.arange(40.0).reshape(4, 10)[:, 2:7]
    out = torch.empty(4, 5)
    trace = trace_triton(lambda: copy_rows[(4,)](x, out, 5, *x.stride(), BLOCK=8), {"x": x, "out": out})
    assert torch.equal(out, x) and trace.faults() == []
    assert trace.buffer("x").index(21) == (2, 1) and trace.buffer("x").address == 8
    assert trace.owners("out").tolist() == [[m] * 5 for m in range(4)]
    assert trace.counts("x", "read").tolist() == [[1] * 5] * 4


def test_a_wrong_row_stride_is_caught_in_the_padding():
    x = torch.arange(40.0).reshape(4, 10)[:, :5]
    out = torch.empty(4, 5)
    trace = trace_triton(lambda: copy_rows[(4,)](x, out, 5, 5, 1, BLOCK=8), {"x": x, "out": out})
    fault = one(trace.faults())
    assert (fault.buffer, fault.element, fault.who) == ("x", 5, "program 1") and "row stride is wrong" in fault.cause


def test_a_transposed_view_and_a_slice_of_a_named_tensor():
    x, out = torch.randn(3, 4), torch.empty(4, 3)
    trace = trace_triton(lambda: copy_rows[(4,)](x.t(), out, 3, *x.t().stride(), BLOCK=4), {"x": x, "out": out})
    assert torch.equal(out, x.t()) and trace.readers("x")[1] == (1,)
    tail = trace_triton(lambda: fill[(1,)](out.view(-1)[5:], 7, STEP=8, BLOCK=8), {"out": out})
    assert tail.counts("out").reshape(-1).tolist() == [0] * 5 + [1] * 7


def test_atomics_are_counted_and_no_double_write():
    bins = torch.zeros(2)
    trace = trace_triton(lambda: count[(2,)](bins, 5, BLOCK=4), {"bins": bins})
    assert bins.tolist() == [3.0, 2.0] and trace.counts("bins", "atomic").tolist() == [3, 2]
    assert trace.faults() == []


def test_compare_and_swap_outside_is_noted_and_not_done():
    base, seen = torch.tensor([2, 3, 2, 2, 2], dtype=torch.int32), torch.full((4,), -1, dtype=torch.int32)
    flags = base[:3]
    fault = one(trace_triton(lambda: swap[(1,)](flags, seen, BLOCK=4), {"flags": flags, "seen": seen}).faults())
    assert (fault.element, base.tolist(), seen.tolist()) == (3, [7, 3, 7, 2, 2], [2, 3, 2, 0])


def test_an_access_that_begins_inside_and_ends_outside_is_not_done():
    base = torch.zeros(8, dtype=torch.int8)
    fault = one(trace_triton(lambda: store_four_bytes[(1,)](base[:7], 4), {"bytes": base[:7]}).faults(outputs=[]))
    assert (fault.element, fault.count, base.any().item()) == (7, 1, False)
    trace_triton(lambda: store_four_bytes[(1,)](base[:7], 3), {"bytes": base[:7]})
    assert base.tolist() == [0, 0, 0, 1, 1, 1, 1, 0]


def test_a_tensor_lives_as_long_as_the_trace_so_that_its_address_is_not_given_to_another():
    held = []

    def launch():
        temporary = torch.empty(64)
        held.append(weakref.ref(temporary))
        fill[(1,)](temporary, 64, STEP=64, BLOCK=64)
        del temporary
        gc.collect()
        assert held[0]() is not None
        fill[(1,)](torch.empty(64), 64, STEP=64, BLOCK=64)

    assert [buffer.name for buffer in trace_triton(launch, {}).buffers] == ["out", "out_2"]
    gc.collect()
    assert held[0]() is None


@pytest.mark.parametrize("kernel", [copy_blocks, copy_described])
def test_block_pointers_and_descriptors_are_seen(kernel):
    if kernel is copy_blocks and "removed" in (tl.make_block_ptr.__doc__ or "removed"):
        pytest.skip("this Triton has no block pointers")
    x, out = torch.randn(24), torch.empty(24)
    trace = trace_triton(lambda: kernel[(2,)](x, out, 24, BLOCK=16), {"x": x, "out": out})
    assert torch.equal(out, x) and trace.faults() == []
    assert trace.owners("out").tolist() == [0] * 16 + [1] * 8
    assert trace.masked("x") == dict.fromkeys(range(24, 32), 1)


def test_a_grid_of_three_dimensions():
    out = torch.zeros(24)
    trace = trace_triton(lambda: corners[(2, 3, 4)](out), {"out": out})
    assert trace.owners("out").tolist() == list(range(24))
    assert trace.select(block=23)[0].block_id == (1, 2, 3)


@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "int8", "int64"])
def test_elements_are_counted_in_items_of_the_dtype(dtype):
    kind = getattr(torch, dtype)
    x, out = torch.ones(2, 5).to(kind), torch.empty(2, 5, dtype=kind)
    trace = trace_triton(lambda: copy_rows[(2,)](x, out, 5, 5, 1, BLOCK=8), {"x": x, "out": out})
    assert torch.equal(out, x) and trace.faults() == []
    assert trace[0].size == kind.itemsize and trace.owners("out")[1].tolist() == [1] * 5


def test_tensors_that_are_not_named_take_the_parameters_name():
    x = torch.randn(64)
    trace = trace_triton(lambda: copy_rows[(2,)](x, torch.empty(64), 32, 32, 1, BLOCK=32), {"input": x})
    assert [buffer.name for buffer in trace.buffers] == ["input", "out"]


def test_tensors_that_the_interpreter_copies_are_traced_through_the_copy(monkeypatch):
    monkeypatch.setattr(torch.UntypedStorage, "cpu", lambda storage: storage.clone())  # as for a tensor on a GPU
    tensors = add_tensors()
    trace = run(masked_add, tensors)
    assert trace.faults() == [] and trace.owners("out").tolist() == [0] * 256 + [1]
    assert torch.equal(tensors["out"], tensors["x"] + tensors["y"])


def test_an_access_tells_its_own_line():
    trace = run(masked_add, add_tensors())
    lines, first = inspect.getsourcelines(masked_add.fn)
    expected = [first + i for i, line in enumerate(lines) if "tl.load" in line or "tl.store" in line]
    assert [line for _, line in trace.sites] == expected


def test_a_kernel_on_a_page_is_traced_to_the_page(tmp_path):
    import linecache

    page = tmp_path / "page.md"
    code = "@triton.jit\ndef first(x_ptr):\n    tl.store(x_ptr + 3, 1.0)\n"
    page.write_text("# Title\n\n```python\n" + code + "```\n")
    linecache.checkcache(str(page))
    scope = {"triton": triton, "tl": tl, "__name__": "page"}
    exec(compile("\n" * 3 + code, str(page), "exec"), scope)
    x = torch.zeros(3)
    fault = one(trace_triton(lambda: scope["first"][(1,)](x), {"x": x}).faults(outputs=[]))
    assert (Path(fault.file).name, fault.line) == ("page.md", 6)


def test_a_warp_free_request_covers_the_whole_load():
    requests = run(masked_add, add_tensors()).requests(buffer="x")
    assert [(r.block, r.warp, len(r.sectors)) for r in requests] == [(0, -1, 32), (1, -1, 1)]


def test_the_projects_operators_are_not_accused():
    add = pytest.importorskip("kernels.ops.add").add
    softmax = pytest.importorskip("kernels.ops.softmax").softmax
    x = torch.randn(257)
    assert trace_triton(lambda: add(x, x), {"x": x}).faults() == []
    for shape in ((3, 31), (2, 1000), (1, 33000)):
        rows = torch.randn(shape[0], shape[1] + 3)[:, : shape[1]]
        trace = trace_triton(lambda rows=rows: softmax(rows), {"x": rows})
        assert trace.faults() == [] and trace.counts("out").min() == 1


def test_two_lanes_of_one_program_that_store_different_values_to_one_element():
    x, out = torch.arange(6.0), torch.zeros(3)
    trace = trace_triton(lambda: halve[(2,)](x, out, 6, BLOCK=4), {"x": x, "out": out})
    fault = one(trace.faults())
    assert (fault.kind, fault.buffer, fault.element, fault.count) == ("double-write", "out", 0, 3)
    assert (fault.who, fault.file, fault.line) == ("program 0", __file__, planted(halve))
    assert "out[0] is written twice by one store of program 0, with different values" in fault.sentence
    assert "which one stays is not defined" in fault.sentence and "3 elements in all (0–2)" in fault.sentence


def test_equal_values_from_two_lanes_are_one_value():
    x, out = torch.ones(6), torch.zeros(3)
    assert trace_triton(lambda: halve[(2,)](x, out, 6, BLOCK=4), {"x": x, "out": out}).faults() == []


def test_lanes_that_a_mask_switches_off_or_that_lie_outside_write_nothing_twice():
    x, out = torch.arange(5.0), torch.zeros(5)
    tensors = {"x": x, "out": out}
    assert trace_triton(lambda: halve[(1,)](x, out, 1, BLOCK=4), tensors).faults(outputs=[]) == []
    found = trace_triton(lambda: halve[(1,)](x, out[4:], 4, BLOCK=4), tensors).faults(outputs=[])
    assert [(f.kind, f.element, f.count) for f in found] == [("out-of-bounds", 5, 1), ("double-write", 4, 1)]


@pytest.mark.parametrize(
    ("launch", "cause"),
    [
        (lambda x, out: None, "no kernel was launched"),
        (lambda x, out: copy_blocks[(0,)](x, out, 8, BLOCK=4), "no program"),
    ],
    ids=["never", "grid 0"],
)
def test_an_output_that_no_program_could_write_is_unwritten_only_where_it_is_named(launch, cause):
    x, out = torch.arange(8.0), torch.zeros(8)
    trace = trace_triton(lambda: launch(x, out), {"x": x, "out": out})
    assert trace.faults() == []
    fault = one(trace.faults(outputs=["out"]))
    assert (fault.kind, fault.count) == ("unwritten", 8)
    assert cause in fault.cause


@triton.jit
def last_program_sums(x_ptr, part_ptr, count_ptr, out_ptr, ALWAYS: tl.constexpr, BLOCK: tl.constexpr):
    pid = tl.program_id(0)
    tl.store(part_ptr + pid, tl.sum(tl.load(x_ptr + pid * BLOCK + tl.arange(0, BLOCK)), 0))
    ticket = tl.atomic_add(count_ptr, 1)
    if ALWAYS:
        tl.store(count_ptr, 0)
    elif ticket == tl.num_programs(0) - 1:
        tl.store(out_ptr, tl.sum(tl.load(part_ptr + tl.arange(0, 4)), 0))
        tl.store(count_ptr, 0)


@pytest.mark.parametrize(("always", "kinds"), [(False, []), (True, ["global-race"])])
def test_the_last_program_may_set_the_counter_back_and_no_other_may(always, kinds):
    x, part, out = torch.randn(128), torch.zeros(4), torch.zeros(1)
    count = torch.zeros(1, dtype=torch.int32)
    buffers = {"x": x, "part": part, "count": count, "out": out}
    trace = trace_triton(lambda: last_program_sums[(4,)](x, part, count, out, always, 32), buffers)
    found = [fault for fault in trace.faults(outputs=["part"]) if fault.buffer == "count"]
    assert sorted({fault.kind for fault in found} - {"double-write"}) == kinds
