"""No right kernel is accused: every launcher of cuda/*.cu and every operator, on whole and ragged shapes.

CUDA kernels run in both orders of blocks, warps and lanes. A new launcher or operator is taken up by itself, or the
test says what it must be told.
"""

import math
import os
import re

import numpy as np
import pytest

from kernels.sources import Sources
from kernels.trace.cuda import trace_cuda_launcher, why_not
from kernels.trace.values import value_faults

# Rows and columns: one element; less than, exactly and more than a warp, a tile, a block; a multiple of four and not.
SHAPES = [(1, 1), (3, 31), (32, 32), (2, 33), (33, 260), (40, 64), (2, 1025), (257, 3)]


def launchers():
    """(file, launcher, its parameters) of everything that the CUDA sources export and that launches a kernel."""
    found = []
    for path, parsed in Sources().cuda_files().items():
        text = (Sources().root / path).read_text(encoding="utf-8")
        for name, symbol in parsed.symbols.items():
            if symbol.exported and name.startswith("launch_"):
                declared = re.search(rf"\b{name}\(([^)]*)\)\s*{{", text)
                parameters = [part.split()[-1].lstrip("*&") for part in declared[1].split(",")]
                found.append((path, name, tuple(parameters)))
    return sorted(found)


def vector(rows, columns, padding):
    x, y = np.random.default_rng(rows).standard_normal((2, rows * columns), dtype=np.float32)
    out = np.full_like(x, np.nan)
    return [x, y, out, x.size], {"out": x + y}


def matrix(turned):
    def arguments(rows, columns, padding):
        stored = np.full((rows, columns + padding), np.nan, np.float32)
        x = stored[:, :columns]
        x[:] = np.random.default_rng(columns).standard_normal((rows, columns), dtype=np.float32)
        shape = (columns, rows) if turned else (rows, columns)
        out = np.full((shape[0], shape[1] + padding), np.nan, np.float32)[:, : shape[1]]
        return [x, out, rows, columns, columns + padding, shape[1] + padding], {"out": x.T if turned else x}

    return arguments


def softmax(rows, columns, padding):
    arguments, given = matrix(False)(rows, columns, padding)
    weights = np.exp(given["out"].astype(np.float64) - given["out"].max(axis=1, keepdims=True))
    return arguments, {"out": weights / weights.sum(axis=1, keepdims=True)}


def histogram(rows, columns, padding):
    x = np.random.default_rng(rows).integers(-3, 23, rows * columns, dtype=np.int32)
    counts = np.bincount(x[(x >= 0) & (x < 20)], minlength=20)
    return [x, np.full(20, 2**64 - 1, np.uint64), x.size, 20, 2 + padding], {"out": counts}


PARAMETERS = {
    ("x", "out", "n", "bins", "blocks", "stream"): lambda name: histogram,
    ("x", "y", "out", "n", "stream"): lambda name: vector,
    ("x", "out", "rows", "columns", "x_stride", "out_stride", "stream"): lambda name: (
        softmax if "softmax" in name else matrix("transpose" in name)
    ),
}

# Sources whose own tests trace every launcher on shapes of its own, and ask for no verdict there.
ELSEWHERE = {
    "cuda/divergence.cu": "tests/cuda/test_essentials.py",
    "cuda/dequantize.cu": "tests/cuda/test_dequantize.py",
    "cuda/fused.cu": "tests/cuda/test_fused.py",
    "cuda/probes.cu": "tests/cuda/test_essentials.py",
    "cuda/reductions.cu": "tests/cuda/test_essentials.py",
    "cuda/residency.cu": "tests/cuda/test_essentials.py",
    "cuda/strided.cu": "tests/cuda/test_essentials.py",
    "cuda/transposes.cu": "tests/cuda/test_essentials.py",
    "cuda/grid_sum.cu": "tests/cuda/test_grid_sum.py",
    "cuda/grid_sum_cooperative.cu": "tests/cuda/test_grid_sum.py",  # the host build has no barrier of a grid
    "cuda/matmul.cu": "tests/cuda/test_matmul_ladder.py",
    "cuda/matmul_wmma.cu": "tests/cuda/test_matmul_ladder.py",
    **{  # with emulated instructions
        f"cuda/matmul_{rung}.cu": "tests/cuda/test_matmul_hopper.py"
        for rung in ("tma", "wgmma", "cluster", "persistent")
    },
}
HERE = [row for row in launchers() if row[0] not in ELSEWHERE]


@pytest.mark.parametrize("path", ELSEWHERE)
def test_what_is_judged_elsewhere_is_named_there(path):
    text = (Sources().root / ELSEWHERE[path]).read_text(encoding="utf-8")
    assert ".faults(" in text
    stems = [name.removeprefix("launch_").removeprefix("fused_").removesuffix("_float4") for _, name, _ in launchers()]
    named = [stem for stem, (where, _, _) in zip(stems, launchers(), strict=True) if where == path]
    assert named and all(stem in text for stem in named), named


@pytest.mark.skipif(why_not() is not None, reason=str(why_not()))
@pytest.mark.parametrize("order", ["forward", "backward"])
@pytest.mark.parametrize(("path", "launcher", "parameters"), [pytest.param(*row, id=row[1]) for row in HERE])
def test_no_right_cuda_kernel_is_accused(path, launcher, parameters, order):
    if parameters not in PARAMETERS:
        pytest.fail(f"{path}: {launcher} takes {', '.join(parameters)}; add what to pass to PARAMETERS in {__file__}")
    for rows, columns in SHAPES:
        for padding in (0, 3):
            arguments, expected = PARAMETERS[parameters](launcher)(rows, columns, padding)
            trace = trace_cuda_launcher(launcher, arguments, source=path, order=order)
            found = list(trace.faults())
            for name, right in expected.items():
                result = next(a for a, p in zip(arguments, parameters, strict=False) if p == name)
                found += value_faults(trace, name, result, right, rtol=1e-5, atol=1e-7)
            assert found == [], (rows, columns, padding, [str(fault) for fault in found])
            assert trace.result == 0 and len(trace)


def test_the_launchers_are_found():
    assert {"launch_vector_add", "launch_softmax_online", "launch_transpose_tile_33"} <= {row[1] for row in launchers()}


@pytest.mark.triton
@pytest.mark.skipif(
    os.environ.get("TRITON_INTERPRET") != "1",
    reason="Triton is compiled in this run; with TRITON_INTERPRET=1 its kernels are traced.",
)
def test_no_right_triton_kernel_is_accused():
    pytest.importorskip("torch")
    pytest.importorskip("triton")
    from kernels.ops.registry import OPS
    from kernels.trace.triton import trace_triton

    records = [record for op in OPS.values() for record in (op, op.backward) if record is not None]
    looked_at = {record.name: 0 for record in records}
    for op in records:
        for implementation in op.implementations:
            if not implementation.ours or implementation.needs != "triton":
                continue
            # A product or attention has work for minutes in its shapes; its own tests run them all.
            of_rows = len(op.benches[0].shape) <= 2
            for case in op.checks if of_rows else [case for case in op.checks if math.prod(case.shape) < 20_000]:
                for dtype in op.dtypes if of_rows else op.dtypes[:1]:
                    inputs = op.inputs(case.shape, dtype, "cpu", 3)
                    given = {f"input_{i}": tensor for i, tensor in enumerate(inputs)}
                    results = []
                    trace = trace_triton(lambda f=implementation.call, g=inputs, r=results: r.append(f(*g)), given)
                    found = trace.faults()
                    assert found == [], (op.name, implementation.name, case, dtype, [str(fault) for fault in found])
                    assert len(trace) or 0 in case.shape
                    looked_at[op.name] += len(trace) > 0
    assert all(looked_at.values()), looked_at
