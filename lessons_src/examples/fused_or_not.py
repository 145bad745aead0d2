#!/usr/bin/env python3
"""Times a product with bias and GELU, in one kernel and in two: `fused_or_not.py [--output FILE.json]`. Needs a GPU.

Workshop I3 reads what it writes. Every arm is checked against float64 first, within what two roundings may be off, and
its largest error is kept.
"""

import argparse
import dataclasses
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

SHAPES = ((4096, 4096, 4096), (16384, 1024, 1024), (8192, 8192, 512))  # rows, columns, k: ever less work a result
SLOPE = 1.13  # of GELU, at most
LARGEST = 8.0  # no sum of the inputs here is farther from zero
ONE, TWO = "fused", "product, then bias and GELU"


def operator():
    """The fused product as an operator of the bench, with the ways of this experiment."""
    import torch

    from kernels.ops.bias_act import bias_act
    from kernels.ops.fused_gemm import OP, fused_gemm
    from kernels.ops.matmul import matmul
    from kernels.ops.op import ROUNDOFF, Case, Implementation
    from lessons_src.solutions import fused_gemm as workshop

    def of_the_workshop(a, b, bias):
        out = torch.empty((a.shape[0], b.shape[1]), dtype=a.dtype, device=a.device)
        workshop.fused_gemm(a, b, bias, out, "gelu")
        return out

    def tolerance(dtype, shape):
        rtol, atol = OP.tolerance(dtype, shape)
        return rtol, atol + SLOPE * LARGEST * ROUNDOFF[dtype]  # the sum may be rounded before the activation

    library = OP.implementation("torch").call
    ways = (
        (ONE, lambda a, b, bias: fused_gemm(a, b, bias, activation="gelu"), "kernels.ops.fused_gemm:_launch"),
        (TWO, lambda a, b, bias: bias_act(matmul(a, b), bias, activation="gelu"), "kernels.ops.matmul:_launch"),
        ("torch, fused", library, ""),
        (
            "torch, two calls",
            lambda a, b, bias: torch.nn.functional.gelu(torch.addmm(bias, a, b), approximate="tanh"),
            "",
        ),
        ("workshop", of_the_workshop, "lessons_src.solutions.fused_gemm:_fused_tile"),
    )
    return dataclasses.replace(
        OP,
        implementations=tuple(
            Implementation(name, call, "triton" if source else "torch", source, bool(source))
            for name, call, source in ways
        ),
        benches=tuple(Case(shape, "ever less work a result") for shape in SHAPES),
        tolerance=tolerance,
    )


def main() -> int:
    parser = argparse.ArgumentParser(description="Time a product with bias and GELU in one kernel and in two.")
    parser.add_argument("--output", type=Path, default=Path("results/local/fused-or-not.json"), metavar="FILE.json")
    parser.add_argument("--iters", type=int, default=20, help="samples of each arm (default 20)")
    chosen = parser.parse_args()
    if chosen.iters < 1:
        parser.error(f"--iters is {chosen.iters}; expected at least 1.")
    from kernels.bench.device import CudaDevice, gpu_missing

    if missing := gpu_missing():
        print(f"{missing} fused_or_not measures on one.", file=sys.stderr)
        return 3
    from kernels.bench import provenance
    from kernels.bench.limits import copy_limit
    from kernels.bench.results import Writer
    from kernels.bench.run import Options, run

    device = CudaDevice()
    device.warm_clocks()
    writer = Writer(chosen.output, provenance.provenance(device))
    writer.add_limit(copy_limit(device))
    asked = Options(samples=chosen.iters, dtypes=("bfloat16",))
    for record in run(device, [operator()], asked, writer, lambda text: print(text, file=sys.stderr)):
        shape = "x".join(map(str, record.shape))
        print(f"{shape:<18}{record.implementation:<30}{record.median_us or record.reason} µs")
    print(f"Written: {writer.finish(provenance.clocks())}", file=sys.stderr)
    return 0


if __name__ == "__main__":
    sys.exit(main())
