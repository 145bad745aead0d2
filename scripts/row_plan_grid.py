#!/usr/bin/env python3
"""Score the row plan: `row_plan_grid.py [--quick] [--seconds N] [--output FILE.json]`.

Softmax as planned, beside every path and the rule that the plan replaced, on a grid of shapes. It prints a table and
writes a results document (strict JSON) of every arm's samples. --quick takes eight shapes, about a
minute; without it there are some forty, each with 4, 8, 16 and 32 warps too.
"""

import argparse
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from kernels.bench.device import CudaDevice, gpu_missing


def main() -> int:
    parser = argparse.ArgumentParser(description="Score the row plan against the best path and the rule before it.")
    parser.add_argument("--quick", action="store_true", help="eight shapes, float32 and bfloat16, paths only")
    parser.add_argument("--seconds", type=float, default=float("inf"), help="begin no case after this many seconds")
    parser.add_argument("--iters", type=int, help="samples of each arm (default 50, quick 20)")
    parser.add_argument("--output", type=Path, default=Path("results/local/row-plan-grid.json"), metavar="FILE.json")
    chosen = parser.parse_args()
    if not chosen.seconds > 0:
        parser.error(f"--seconds is {chosen.seconds:g}; expected more than 0.")
    if chosen.iters is not None and chosen.iters < 1:
        parser.error(f"--iters is {chosen.iters}; expected at least 1.")
    missing = gpu_missing()
    if missing:
        print(f"{missing} The grid is measured on one; Lab 3 shows the recorded scores.", file=sys.stderr)
        return 3
    return measure(chosen)


def measure(chosen: argparse.Namespace) -> int:
    from kernels.bench import provenance
    from kernels.bench.limits import copy_limit
    from kernels.bench.results import ResultsError, Writer
    from kernels.bench.row_grid import FEW, FULL, QUICK, measure_grid, scores, table
    from kernels.bench.run import Options
    from kernels.bench.timer import DeviceFailure
    from kernels.ops.softmax import OP, PATHS

    device = CudaDevice()
    try:
        writer = Writer(chosen.output, provenance.provenance(device))
    except ResultsError as error:
        print(error, file=sys.stderr)
        return 2
    warps = () if chosen.quick else tuple(f"path={path},warps={n}" for path in PATHS for n in (4, 8, 16, 32))
    samples = chosen.iters or (20 if chosen.quick else 50)
    options = Options(samples=samples, dtypes=("float32", "bfloat16"), variants=warps)
    shapes = QUICK if chosen.quick else (*FULL, *FEW)
    try:
        device.warm_clocks()
        writer.add_limit(copy_limit(device))
        whole = measure_grid(
            device,
            OP,
            shapes,
            options,
            writer,
            lambda text: print(text, file=sys.stderr, flush=True),
            paths=PATHS,
            seconds=chosen.seconds,
        )
        writer.finish(provenance.clocks())
    except DeviceFailure as error:
        print(f"{error}\nThe device stopped answering; what was finished is in {writer.partial}.", file=sys.stderr)
        return 4
    print(table(scores(writer.document.cases)))
    if not whole:
        print(f"Stopped after {chosen.seconds:g} s; the cases above are those that were begun.", file=sys.stderr)
    bad = [record for record in writer.document.cases if record.status not in ("ok", "unavailable")]
    for record in bad:
        shape = "x".join(map(str, record.shape))
        print(f"{record.status}: {record.implementation} {record.dtype} {shape}: {record.reason}", file=sys.stderr)
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main())
