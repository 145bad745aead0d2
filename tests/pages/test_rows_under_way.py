"""The experiment of Lab 6 that limits how many programs a multiprocessor holds, as far as a CPU can follow it."""

from __future__ import annotations

import os
import subprocess
import sys
from types import SimpleNamespace

import pytest
from typed_commands import ROOT

from kernels.inspect.occupancy import MULTIPROCESSORS, occupancy
from lessons_src.examples import rows_under_way


@pytest.mark.parametrize("arch", sorted(MULTIPROCESSORS))
@pytest.mark.parametrize("rows", [1, 2, 3, 4, 5, 8])
def test_so_many_programs_fit_and_one_more_does_not(arch, rows):
    asked = rows_under_way.shared_for(arch, rows)
    assert occupancy(arch, 32, 16, asked).blocks == rows


@pytest.mark.parametrize(
    ("arch", "rows", "words"), [(90, 0, "expected 1 or more"), (70, 2, "sm_70 is not in the table")]
)
def test_what_cannot_be_asked_for_is_refused(arch, rows, words):
    with pytest.raises(ValueError, match=words):
        rows_under_way.shared_for(arch, rows)


COMPILED = """
import triton
from triton.backends.compiler import GPUTarget
from triton.compiler import ASTSource
from kernels.ops.softmax import _softmax_twice as kernel
from lessons_src.examples.rows_under_way import with_shared

constants = {"N": 256, "x_stride_m": 256, "x_stride_n": 1, "out_stride_m": 256, "BLOCK_N": 256}
signature = {name: "constexpr" if name in constants else "*bf16" for name in kernel.arg_names}
made = triton.compile(ASTSource(kernel, signature, constants), target=GPUTarget("cuda", 90, 32))
own = made.metadata.shared
made.module = made.function = made._run = "loaded"
other = with_shared(made, 115712)
assert own < 100, own
assert (other.metadata.shared, other.packed_metadata[2]) == (115712, 115712), other.packed_metadata
assert (made.metadata.shared, made.packed_metadata[2], made.module) == (own, own, "loaded")
assert other.kernel == made.kernel and other.packed_metadata[:2] == made.packed_metadata[:2]
assert other.module is None and other.function is None and other._run is None
try:
    with_shared(made, own - 1)
except ValueError as error:
    assert "are fewer" in str(error)
else:
    raise AssertionError("fewer bytes than the kernel uses were taken")
"""
INTERPRETED = """
import torch
from kernels.ops import softmax
from lessons_src.examples.rows_under_way import KINDS, SHAPE, arguments, constants

x = torch.randn(2, SHAPE[1], generator=torch.Generator().manual_seed(0))
for name, _ in KINDS.values():
    out = torch.full_like(x, float("nan"))
    getattr(softmax, name)[(2,)](*arguments(name, x, out), *constants(name).values())
    assert torch.allclose(out, torch.softmax(x, dim=1), atol=1e-6), name
"""


@pytest.mark.parametrize(
    ("program", "interpret"), [(COMPILED, "0"), (INTERPRETED, "1")], ids=["compiled", "interpreted"]
)
def test_a_copy_asks_for_more_and_the_kernels_get_what_they_want(program, interpret):
    environment = {**os.environ, "TRITON_INTERPRET": interpret, "PYTHONPATH": str(ROOT), "CUDA_VISIBLE_DEVICES": ""}
    done = subprocess.run([sys.executable, "-c", program], env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


class Pretended:
    """A compiled kernel, as far as `arms` looks at one: 96 registers, and calls that only leave their grid."""

    def __init__(self, warps: int, shared: int = 32) -> None:
        self.metadata = SimpleNamespace(num_warps=warps, shared=shared)
        self.n_regs, self.function, self.grids = 80 if warps == 8 else 30, 1, []

    def __getitem__(self, grid):
        return lambda *_: self.grids.append(grid)


@pytest.fixture
def pretended(monkeypatch):
    """A driver that answers as the calculator does, and kernels that are compiled by nobody."""
    import torch

    from kernels.bench import occupancy as asked
    from kernels.ops import softmax

    class Driver:
        def blocks(self, _, threads: int, shared: int) -> int:
            return occupancy(90, threads, 80 if threads == 256 else 30, shared).blocks

    class Kernel:
        def __getitem__(self, _):
            return lambda *_, num_warps, **__: Pretended(num_warps)

    monkeypatch.setattr(torch.cuda, "get_device_capability", lambda: (9, 0))
    monkeypatch.setattr(asked, "Driver", Driver)
    for name in ("_softmax_twice", "_softmax_rows"):
        monkeypatch.setattr(softmax, name, Kernel())
    monkeypatch.setattr(rows_under_way, "with_shared", lambda each, shared: Pretended(each.metadata.num_warps, shared))
    return Driver


def test_every_kernel_is_launched_as_it_is_and_with_each_number_of_rows_that_fits(pretended):
    import torch

    found = rows_under_way.arms(torch.zeros(4, 16384))
    assert [timed.name for timed, _ in found] == [
        *("twice, as launched", "twice, 3 rows", "twice, 2 rows", "twice, 1 row"),
        *("hold, as launched", "hold, 2 rows", "hold, 1 row"),
        *("hold, 8 warps, as launched", "hold, 8 warps, 3 rows", "hold, 8 warps, 2 rows", "hold, 8 warps, 1 row"),
    ]
    assert [choices["rows"] for _, choices in found][:4] == [3, 3, 2, 1]
    assert [choices["limited"] for _, choices in found][:4] == [0, 1, 1, 1]


def test_a_limit_that_the_driver_does_not_confirm_ends_the_experiment(pretended, monkeypatch):
    import torch

    monkeypatch.setattr(rows_under_way, "shared_for", lambda _arch, _rows: 1024)
    with pytest.raises(RuntimeError, match="fits 3 programs of twice, 2 rows; 2 were wanted"):
        rows_under_way.arms(torch.zeros(4, 16384))
