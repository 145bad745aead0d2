"""Triton traces with lanes: every thread's accesses, held against the PTX that the compiler wrote for the launch."""

import inspect
from collections import Counter
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

torch = pytest.importorskip("torch")
triton = pytest.importorskip("triton")
import lane_kernels as kernels  # noqa: E402
import triton.language as tl  # noqa: E402
from lane_cases import CASES, float_, small  # noqa: E402
from pace import in_sorts  # noqa: E402
from ptx_machine import accesses  # noqa: E402

from kernels.figures.warps import request_figure  # noqa: E402
from kernels.inspect import TritonRequest, compile_triton_many  # noqa: E402
from kernels.inspect.layouts import triton_layouts_many  # noqa: E402
from kernels.trace.calls import describe  # noqa: E402
from kernels.trace.lanes import with_lanes  # noqa: E402
from kernels.trace.triton import TritonTrace, trace_triton  # noqa: E402

pytestmark = pytest.mark.triton

SPACE = 1 << 32  # bytes between the buffers of the pretended machine


@pytest.fixture(scope="module")
def traces():
    """The traces of all cases with their lanes, and their PTX; two helper processes compile everything."""
    plain = {name: case.trace() for name, case in CASES.items()}
    requests = [
        TritonRequest(call.kernel, call.signature, CASES[name].arch, call.num_warps, call.num_stages)
        for name, trace in plain.items()
        for call in trace.calls
    ]
    layouts, facts = triton_layouts_many(requests), compile_triton_many(requests)
    return {
        name: (with_lanes(trace, [layout]), fact.ptx)
        for (name, trace), layout, fact in zip(plain.items(), layouts, facts, strict=True)
    }


def traced(trace, block):
    """The accesses of one program as the machine counts them."""
    rows = trace.select(block=block, active=True)
    assert (rows.columns["thread"] >= 0).all()
    base = np.array([SPACE * (i + 1) + b.address for i, b in enumerate(trace.buffers)])
    itemsize = np.array([b.itemsize for b in trace.buffers])
    number = rows.columns["buffer"]
    address = base[number] + rows.columns["element"] * itemsize[number]
    kind = np.array(["read", "write", "atomic"])[rows.columns["what"]]
    return Counter(zip(rows.columns["thread"].tolist(), kind.tolist(), address.tolist(), rows.columns["size"].tolist()))


@pytest.mark.parametrize("name", CASES)
def test_every_access_of_every_thread_is_what_the_ptx_does(name, traces):
    trace, ptx = traces[name]
    assert trace.without_threads == ()
    values = [
        SPACE * (trace.buffer_number(a) + 1) + trace.buffer(a).address if isinstance(a, str) else a
        for a in CASES[name].arguments
    ]
    for block in range(trace.launches[0].blocks):
        found = traced(trace, block)
        assert found and found == accesses(ptx, [*values, 0, 0], block, trace.launches[0].threads)


def test_a_trace_with_lanes_judges_as_without(traces):
    for trace, _ in traces.values():
        assert trace.faults(outputs=[]) == trace.of_programs.faults(outputs=[]) == []
    x, out = torch.zeros(100), torch.zeros(90)
    wrong = small(kernels.copy, 1, {"x": x, "out": out}, 100, BLOCK=128).trace()
    assert [fault.kind for fault in wrong.faults()] == ["out-of-bounds"]
    assert with_lanes(wrong).faults() == wrong.faults()


def test_requests_are_those_of_warps(traces):
    aligned, ragged = (traces[f"add {n} torch.float32"][0].requests(buffer="x", block=0) for n in (1024, 1025))
    # 1024: 32 lanes read 16 bytes each, side by side. 1025 is no multiple of 16, so a mask may end within 16 bytes:
    # each lane reads its four neighbours one after the other.
    assert [(r.warp, r.size, len(r.lanes), len(r.sectors), r.efficiency) for r in aligned] == [
        (warp, 16, 32, 16, 1.0) for _ in range(2) for warp in range(4)
    ]
    assert {(r.size, len(r.lanes), len(r.sectors), r.efficiency) for r in ragged} == {(4, 32, 16, 0.25)}
    assert len(ragged) == 8 * 4
    assert ragged[0].lanes == tuple(range(32)) and ragged[0].elements == tuple(range(0, 128, 4))
    tail = traces["add 1025 torch.float32"][0].requests(buffer="x", block=1)
    assert [(r.warp, r.lanes, r.elements) for r in tail] == [(0, (0,), (1024,))]


def test_lanes_that_a_mask_switches_off_are_seen(traces):
    trace = traces["fewer elements than threads"][0]
    off = trace.select(block=1, buffer="out", active=False)
    assert off.columns["thread"].tolist() == list(range(36, 64)) and off.columns["element"].tolist() == [
        *range(100, 128)
    ]
    assert trace.masked("out") == dict.fromkeys(range(100, 128), 1)


def test_a_scalar_is_read_by_every_thread_and_updated_by_one(traces):
    trace = traces["sums and scalars"][0].select(block=0, buffer="total")
    assert trace.select(what="read").columns["thread"].tolist() == list(range(128))
    assert trace.select(what="atomic").columns["thread"].tolist() == [0]
    out = traces["sums and scalars"][0].select(block=0, buffer="out")
    assert out.columns["thread"].tolist() == list(range(8))  # 128 threads hold eight sums; the first eight store them


def test_owners_are_warps_and_figures_draw_them(traces):
    trace = traces["add 1024 torch.float32"][0]
    assert trace.owners("out", by="warp").tolist() == [e // 128 % 4 for e in range(1024)]
    assert trace.owners("out", by="thread")[[0, 3, 4, 127, 128, 512]].tolist() == [0, 0, 1, 31, 32, 0]
    assert "32 lanes read 16 bytes each of x in 16 sectors" in request_figure(trace.requests(buffer="x")[0])
    assert trace.launches[0].threads == 128
    assert trace.launches[0].who(0, 40) == "program 0, thread 40 (warp 1, lane 8)"


def test_each_launch_has_the_layouts_that_it_was_compiled_for():
    x, y, out = torch.randn(512), torch.zeros(512), torch.zeros(512)

    def both():
        kernels.copy[(1,)](x, y, 512, BLOCK=512, num_warps=2)
        kernels.tuned[(1,)](y, out, 512)  # the tuner chooses eight warps

    trace = with_lanes(trace_triton(both, {"x": x, "y": y, "out": out}))
    assert torch.equal(out, x) and [launch.threads for launch in trace.launches] == [64, 256]
    assert trace.owners("y", by="warp", launch=0).tolist() == [e // 128 % 2 for e in range(512)]
    assert trace.owners("out", by="warp", launch=1).tolist() == [e // 64 for e in range(512)]


def test_descriptors_are_moved_by_a_copy_engine_on_hopper(tmp_path):
    from triton.tools.tensor_descriptor import TensorDescriptor

    x, out = torch.randn(100), torch.zeros(100)
    for launch in (
        lambda: kernels.described[(2,)](x, out, 100, BLOCK=64),
        lambda: kernels.handed[(2,)](*(TensorDescriptor.from_tensor(t, [64]) for t in (x, out)), BLOCK=64),
    ):
        out.zero_()
        trace = with_lanes(trace_triton(launch, {"x": x, "out": out}))
        assert torch.equal(out, x) and set(trace.columns["thread"].tolist()) == {-1}
        assert trace.owners("out").tolist() == [0] * 64 + [1] * 36
        assert trace.masked("x") == dict.fromkeys(range(100, 128), 1)
        assert {reason for _, _, reason in trace.without_threads} == {
            "a copy engine (TMA) moves the tensor, asked by one thread"
        }


def test_a_gather_through_a_descriptor_is_seen():
    from triton.tools.tensor_descriptor import TensorDescriptor

    x, out = torch.randn(20, 16), torch.zeros(8, 16)
    rows = torch.tensor([3, 19, 0, 5, 5, 7, 20, 1], dtype=torch.int32)  # row 20 does not exist: zeros
    source = TensorDescriptor.from_tensor(x, [1, 16])
    trace = trace_triton(lambda: kernels.gathered[(1,)](source, rows, out, N=16), {"x": x, "rows": rows, "out": out})
    assert torch.equal(out, torch.cat([x, torch.zeros(1, 16)])[rows.long()])
    assert trace.counts("x", "read")[[0, 2, 5, 19], 4].tolist() == [1, 0, 2, 1] and trace.faults() == []
    assert set(trace.masked("x")) == set(range(320, 336))


def test_what_the_compiler_leaves_out_has_no_thread():
    x, out = torch.randn(65), torch.zeros(64)
    trace = with_lanes(trace_triton(lambda: kernels.loads_for_nothing[(1,)](x, out, BLOCK=64), {"x": x, "out": out}))
    assert [(line, reason.startswith("the compiled kernel has no such access")) for _, line, reason in
            trace.without_threads] == [(line_of(kernels.loads_for_nothing, "UNUSED"), True)]  # fmt: skip
    assert (trace.select(buffer="out").columns["thread"] >= 0).all()


def test_two_layouts_on_one_line_are_refused():
    x, out = torch.randn(32, 32), torch.zeros(32, 32)
    with pytest.raises(
        ValueError, match=rf"lane_kernels.py:{line_of(kernels.two_layouts, 'AMBIGUOUS')} has 2 accesses"
    ):
        with_lanes(trace_triton(lambda: kernels.two_layouts[(1,)](x, out, N=32), {"x": x, "out": out}))


def test_layouts_for_other_arguments_are_refused(traces):
    layout = traces["add 1024 torch.float32"][0].layouts
    with pytest.raises(ValueError, match=r"moves 4 neighbours with one ld\.global\.v4\.b32, but in the trace"):
        with_lanes(CASES["add 1025 torch.float32"].trace(), layout)
    with pytest.raises(ValueError, match="0 layouts for 1 launches"):
        with_lanes(CASES["add 1025 torch.float32"].trace(), [])


def test_an_argument_that_cannot_be_handed_over_is_named():
    trace = trace_triton(lambda: kernels.typed[(1,)](x, KIND=tl.float32), {"x": (x := torch.zeros(1))})
    with pytest.raises(ValueError, match="KIND of typed is a dtype, which cannot be handed"):
        with_lanes(trace)


def test_programs_of_several_blocks_are_refused():
    x, out = torch.zeros(64), torch.zeros(64)
    trace = trace_triton(lambda: kernels.copy[(1,)](x, out, 64, BLOCK=64, num_ctas=2), {"x": x, "out": out})
    with pytest.raises(ValueError, match="copy is launched with num_ctas=2; lanes are known for one block a program"):
        with_lanes(trace)


PAGE = """# A page

```python
@triton.jit
def scaled(p, i):
    return tl.load(p + i) * SCALE


@triton.jit
def first(x_ptr, out_ptr, BLOCK: tl.constexpr):
    i = tl.arange(0, BLOCK)
    j = helpers._read(x_ptr, i, BLOCK)
    tl.store(out_ptr + i, scaled(x_ptr, i) + j)
```
"""


def page(tmp_path, **names):
    """The names that the page's block leaves behind."""
    path = tmp_path / "page.md"
    path.write_text(PAGE)
    code = PAGE.partition("```python\n")[2].partition("```")[0]
    scope = {"triton": triton, "tl": tl, "__name__": "page", **names}
    exec(compile("\n" * 3 + code, str(path), "exec"), scope)
    return scope


def test_a_kernel_on_a_page_is_compiled_for_its_lanes(tmp_path, monkeypatch):
    monkeypatch.syspath_prepend(Path(__file__).parent)
    scope = page(tmp_path, SCALE=tl.constexpr(3), helpers=kernels)
    x, out = torch.ones(256), torch.zeros(256)
    trace = with_lanes(trace_triton(lambda: scope["first"][(1,)](x, out, BLOCK=256), {"x": x, "out": out}))
    assert out.eq(4).all() and trace.without_threads == ()
    assert sorted({(Path(file).name, line) for file, line in trace.sites}) == [
        ("lane_kernels.py", line_of(kernels._read, "return")),
        ("page.md", 6),
        ("page.md", 13),
    ]
    assert trace.owners("out", by="warp").tolist() == [e // 64 for e in range(256)]


def test_a_kernel_on_a_page_that_names_what_has_no_text(tmp_path):
    scope = page(tmp_path, SCALE=object(), helpers=kernels)
    with pytest.raises(ValueError, match=r"first of page.md cannot be compiled for its lanes: .*SCALE, a object"):
        with_lanes(TritonTrace((), (), (), {}, calls=(describe(scope["first"].fn, (), (), {}),)))


def line_of(kernel, mark):
    lines, first = inspect.getsourcelines(kernel.fn)
    return first + next(i for i, line in enumerate(lines) if mark in line)


def test_a_million_rows_get_their_lanes_quickly():
    case = small(kernels.copy, 128, {"x": float_(1 << 17), "out": float_(1 << 17)}, 1 << 17, BLOCK=1024)
    trace = case.trace()
    layouts = with_lanes(trace).layouts
    many = with_rows_repeated(trace, 4)
    assert len(with_lanes(many, layouts)) == (1 << 20) // 4
    assert in_sorts(lambda: with_lanes(many, layouts)) < 60  # 11 here; one access after the other: hundreds


def with_rows_repeated(trace, times):
    columns = {name: np.tile(column, times) for name, column in trace.columns.items()}
    columns["sequence"] += np.repeat(np.arange(times), len(trace)) * 1000
    return replace(
        trace, columns=columns, positions=np.tile(trace.positions, times), shapes=np.tile(trace.shapes, times)
    )
