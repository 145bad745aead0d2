"""Every way in which a Triton kernel touches memory, with ragged tails: what is read, written, updated, masked off."""

import pytest

torch = pytest.importorskip("torch")
triton = pytest.importorskip("triton")
import triton.language as tl  # noqa: E402

from kernels.trace.triton import trace_triton  # noqa: E402

pytestmark = pytest.mark.triton


@triton.jit
def copy_tiles(source, target, BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr):
    m, n = tl.program_id(0) * BLOCK_M, tl.program_id(1) * BLOCK_N
    target.store([m, n], source.load([m, n]))


@triton.jit
def copy_tiles_described_here(x_ptr, out_ptr, M, N, BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr):
    source = tl.make_tensor_descriptor(x_ptr, [M, N], [N, 1], [BLOCK_M, BLOCK_N])
    target = tl.make_tensor_descriptor(out_ptr, [M, N], [N, 1], [BLOCK_M, BLOCK_N])
    m, n = tl.program_id(0) * BLOCK_M, tl.program_id(1) * BLOCK_N
    target.store([m, n], source.load([m, n]))


@triton.jit
def scatter_rows(target, rows_ptr, N: tl.constexpr):
    rows = tl.load(rows_ptr + tl.arange(0, 8))
    target.scatter(tl.full((8, N), 2.0, tl.float32), rows, 0)


@triton.jit
def update(x_ptr, n, WHICH: tl.constexpr, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    value = tl.full((BLOCK,), 3, tl.int32)
    if WHICH == "add":
        tl.atomic_add(x_ptr + i, value, mask=i < n)
    elif WHICH == "max":
        tl.atomic_max(x_ptr + i, value, mask=i < n)
    elif WHICH == "min":
        tl.atomic_min(x_ptr + i, value, mask=i < n)
    elif WHICH == "and":
        tl.atomic_and(x_ptr + i, value, mask=i < n)
    elif WHICH == "or":
        tl.atomic_or(x_ptr + i, value, mask=i < n)
    elif WHICH == "xor":
        tl.atomic_xor(x_ptr + i, value, mask=i < n)
    else:
        tl.atomic_xchg(x_ptr + i, value, mask=i < n)


@triton.jit
def add_to_total(x_ptr, total_ptr, n, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.atomic_add(total_ptr, tl.sum(tl.load(x_ptr + i, mask=i < n, other=0.0)))


def tiles(x, out, block, here):
    from triton.tools.tensor_descriptor import TensorDescriptor

    grid = tuple(triton.cdiv(size, part) for size, part in zip(x.shape, block, strict=True))

    def launch():
        if here:
            copy_tiles_described_here[grid](x, out, *x.shape, *block)
        else:
            copy_tiles[grid](*(TensorDescriptor.from_tensor(t, list(block)) for t in (x, out)), *block)

    return trace_triton(launch, {"x": x, "out": out})


@pytest.mark.parametrize("here", [True, False], ids=["described in the kernel", "described on the host"])
@pytest.mark.parametrize("shape", [(4, 16), (5, 16), (4, 20), (5, 20), (1, 4)])
def test_tiles_through_descriptors(shape, here):
    x, out = torch.randn(shape), torch.full(shape, float("nan"))
    trace = tiles(x, out, (4, 16), here)
    assert torch.equal(out, x) and trace.faults() == []
    assert (trace.counts("x", "read") == 1).all() and (trace.counts("out") == 1).all()
    rows, columns = -(-shape[0] // 4) * 4, -(-shape[1] // 16) * 16
    assert trace.launches[0].blocks == rows * columns // 64
    assert trace.owners("out")[-1, -1] == trace.launches[0].blocks - 1
    for name, what in (("x", "read"), ("out", "write")):
        off = trace.select(buffer=name, what=what, active=False)
        assert len(off) == rows * columns - x.numel()  # what hangs over the edges is masked off, and nothing else


def test_a_row_that_a_tile_reaches_and_no_program_owns_is_unwritten():
    x, out = torch.randn(8, 16), torch.zeros(8, 16)
    trace = trace_triton(
        lambda: copy_tiles_described_here[(1, 1)](x, out, 8, 16, BLOCK_M=4, BLOCK_N=16), {"x": x, "out": out}
    )
    (fault,) = trace.faults()
    assert (fault.kind, fault.element, fault.count) == ("unwritten", 64, 64)


def test_rows_scattered_through_a_descriptor():
    from triton.tools.tensor_descriptor import TensorDescriptor

    out = torch.zeros(6, 16)
    rows = torch.tensor([0, 5, 2, 6, 7, 1, 8, 9], dtype=torch.int32)  # four of them do not exist
    target = TensorDescriptor.from_tensor(out, [1, 16])
    trace = trace_triton(lambda: scatter_rows[(1,)](target, rows, N=16), {"out": out, "rows": rows})
    assert out[:, 3].tolist() == [2, 2, 2, 0, 0, 2]
    assert trace.counts("out")[:, 3].tolist() == [1, 1, 1, 0, 0, 1]
    assert set(trace.masked("out")) == set(range(6 * 16, 10 * 16))
    (fault,) = trace.faults()
    assert (fault.kind, fault.element, fault.count) == ("unwritten", 48, 32)


@pytest.mark.parametrize(
    ("which", "result"), [("add", 8), ("max", 5), ("min", 3), ("and", 1), ("or", 7), ("xor", 6), ("xchg", 3)]
)
def test_atomics_of_every_kind_with_a_ragged_tail(which, result):
    base = torch.full((8,), 5, dtype=torch.int32)
    x = base[:6]
    trace = trace_triton(lambda: update[(2,)](x, 6, WHICH=which, BLOCK=4), {"x": x})
    assert base.tolist() == [result] * 6 + [5] * 2 and trace.faults() == []
    assert trace.counts("x", "atomic").tolist() == [1] * 6 and trace.counts("x", "write").tolist() == [0] * 6
    assert {event.what for event in trace} == {"atomic"} and trace.masked("x", "atomic") == {6: 1, 7: 1}
    assert [p["atomics"] for p in trace.programs()] == [4, 2]
    missing = trace_triton(lambda: update[(2,)](x, 8, WHICH=which, BLOCK=4), {"x": x})
    assert [(f.kind, f.element, f.count) for f in missing.faults()] == [("out-of-bounds", 6, 2)]
    assert base[6:].tolist() == [5, 5]


@pytest.mark.parametrize("n", [1, 63, 64, 65, 130])
def test_one_total_from_all_programs(n):
    x, total = torch.ones(n), torch.zeros(1)
    programs = triton.cdiv(n, 64)
    trace = trace_triton(lambda: add_to_total[(programs,)](x, total, n, BLOCK=64), {"x": x, "total": total})
    assert total.item() == n and trace.faults() == []
    assert trace.counts("total", "atomic").tolist() == [programs]
    assert trace.writers("total") == [tuple(range(programs))]
    sequences = trace.select(what="atomic").columns["sequence"]
    assert len(set(sequences.tolist())) == programs  # one operation of each program, in the order they were made
