"""Exercise of Lab 3: the logarithm of a softmax, without ever forming the softmax.

    m = max(x)    out = (x - m) - log(sum(exp(x - m)))        for each row of x

    python lessons_src/exercises/log_softmax.py

Edit only what lies between the marks. The check runs the kernel in Triton's interpreter, so it needs no GPU; it looks
at the result, and at every element that the kernel touched.
"""

import os

os.environ.setdefault("TRITON_INTERPRET", "1")

import torch
import triton
import triton.language as tl

from kernels.lessons.explained import with_explanation
from kernels.ops.interpreter import behave_like_a_gpu
from kernels.ops.op import ROUNDOFF
from kernels.trace.triton import trace_triton

behave_like_a_gpu()  # infinities without numpy's warnings

# (rows' centre, width): a centre of -100 shows a wrong padding or a logarithm of 0, one of +100 a missing maximum
CASES = ((0.0, 32), (0.0, 33), (-100.0, 33), (100.0, 33), (0.0, 1), (-100.0, 1000))


@triton.jit
def _log_softmax_rows(x_ptr, out_ptr, N, x_stride_m, BLOCK_N: tl.constexpr):
    # One program owns one row; rows of x begin x_stride_m elements apart, rows of out N elements.
    row = tl.program_id(0)
    n = tl.arange(0, BLOCK_N)
    mask = n < N
    # --- fill in ---
    x = tl.load(x_ptr + row * x_stride_m + n, mask=mask, other=float("-inf"))
    shifted = x - tl.max(x, axis=0)
    out = shifted - tl.log(tl.sum(tl.exp(shifted), axis=0))  # the largest term is exp(0), so the sum is at least 1
    # --- end ---
    tl.store(out_ptr + row * N + n, out, mask=mask)


def verdicts(centre: float, width: int, rows: int = 3) -> list[str]:
    """What is wrong with the kernel on rows near `centre`; empty where nothing is."""
    generator = torch.Generator().manual_seed(width)
    stored = torch.full((rows, width + 5), float("nan"))  # NaN behind each row: a wrong stride or mask meets it
    stored[:, :width] = centre + 3 * torch.randn(rows, width, generator=generator)
    stored[1, width // 2] += 20.0  # one dominant score: the others have weights near exp(-20)
    x, out = stored[:, :width], torch.full((rows, width), float("nan"))

    def launch() -> None:
        block = triton.next_power_of_2(width)
        _log_softmax_rows[(rows,)](x, out, width, x.stride(0), BLOCK_N=block)

    found = [with_explanation(fault) for fault in trace_triton(launch, {"x": x, "out": out}).faults(outputs=["out"])]
    expected = torch.log_softmax(x.double(), dim=-1)
    # The scores are rounded once more when the maximum is taken off, so the error grows with their size.
    allowed = ROUNDOFF["float32"] * (width**0.5 + 8 + 2 * (abs(centre) + 30))
    wrong = ~((out - expected).abs() <= allowed)
    if wrong.any():
        m, n = (int(i) for i in wrong.nonzero()[0])
        found.append(f"out[{m}, {n}] is {out[m, n].item():g}; {expected[m, n].item():.6g} is right, by {allowed:.1g}.")
    return found


def check() -> bool:
    """Print a verdict for every case; True where all are right."""
    right = True
    for centre, width in CASES:
        found = verdicts(centre, width)
        right = right and not found
        print(f"{'FAIL' if found else 'PASS'}  width {width}, scores near {centre:g}", *found, sep="\n      ")
    return right


if __name__ == "__main__":
    raise SystemExit(0 if check() else 1)
