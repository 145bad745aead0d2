"""Exercise of Lab 1: add two vectors with a fixed number of programs, each of which takes several blocks.

    python lessons_src/exercises/grid_stride_add.py

Edit only what lies between the marks. The check runs the kernel in Triton's interpreter, so it needs no GPU; it looks
at the result, and at every element that the kernel touched.
"""

import os

os.environ.setdefault("TRITON_INTERPRET", "1")

import torch
import triton
import triton.language as tl

from kernels.lessons.explained import with_explanation
from kernels.trace.triton import trace_triton

CASES = ((1, 1), (257, 2), (1000, 3), (4096, 4), (300, 8))  # (elements, programs); the last has programs without work


@triton.jit
def _add_grid_stride(x_ptr, y_ptr, out_ptr, n, BLOCK: tl.constexpr):
    # --- fill in ---
    # A program takes the block with its own number and stops. Let it go on: where does its next block begin?
    offsets = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    mask = offsets < n
    total = tl.load(x_ptr + offsets, mask=mask) + tl.load(y_ptr + offsets, mask=mask)
    tl.store(out_ptr + offsets, total, mask=mask)
    # --- end ---


def verdicts(n: int, programs: int, block: int = 256) -> list[str]:
    """What is wrong with the kernel on n elements; empty where nothing is."""
    generator = torch.Generator().manual_seed(n)
    x, y = torch.randn(n, generator=generator), torch.randn(n, generator=generator)
    out = torch.full_like(x, float("nan"))
    buffers = {"x": x, "y": y, "out": out}
    trace = trace_triton(lambda: _add_grid_stride[(programs,)](x, y, out, n, BLOCK=block), buffers)
    found = [with_explanation(fault) for fault in trace.faults(outputs=["out"])]
    twice = [name for name in ("x", "y") if (trace.counts(name, "read") > 1).any()]
    found += [f"{name} is read more than once in some element, which is traffic for nothing." for name in twice]
    if not found and not torch.equal(out, x + y):
        first = int((out != x + y).nonzero()[0])
        found.append(f"out[{first}] is {out[first].item():g}; x + y is {(x + y)[first].item():g} there.")
    return found


def check() -> bool:
    """Print a verdict for every case; True where all are right."""
    right = True
    for n, programs in CASES:
        found = verdicts(n, programs)
        right = right and not found
        print(f"{'FAIL' if found else 'PASS'}  n = {n}, programs = {programs}", *found, sep="\n      ")
    return right


if __name__ == "__main__":
    raise SystemExit(0 if check() else 1)
