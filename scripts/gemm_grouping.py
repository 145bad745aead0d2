#!/usr/bin/env python3
"""Compare orders of tiles: `gemm_grouping.py [--shape 4096x4096x4096] [--iters N] [--output FILE.json]`.

The readable product in one tile, with GROUP_M from 1 (row by row) to 32, beside the library. It prints a table and
writes a results document (strict JSON) of every arm's samples. About a minute.
"""

import argparse
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from kernels.bench.device import CudaDevice, gpu_missing


def main() -> int:
    parser = argparse.ArgumentParser(description="Compare tiles in groups with tiles row by row.")
    parser.add_argument("--shape", action="append", metavar="MxNxK", help="a shape; repeat for more (default: four)")
    parser.add_argument("--dtype", choices=("bfloat16", "float16"), default="bfloat16")
    parser.add_argument("--iters", type=int, default=30, help="samples of each arm (default 30)")
    parser.add_argument("--output", type=Path, default=Path("results/local/gemm-grouping.json"), metavar="FILE.json")
    chosen = parser.parse_args()
    if chosen.iters < 1:
        parser.error(f"--iters is {chosen.iters}; expected at least 1.")
    try:
        shapes = _shapes(chosen.shape)
    except ValueError as error:
        parser.error(str(error))
    missing = gpu_missing()
    if missing:
        print(f"{missing} The orders are compared on one.", file=sys.stderr)
        return 3
    return measure(chosen, shapes)


def _shapes(texts: list[str] | None) -> tuple[tuple[int, ...], ...]:
    """The shapes asked for, or the experiment's own. Raises ValueError with a sentence."""
    from kernels.bench.grouping import SHAPES
    from kernels.bench.run import parse_shape

    if not texts:
        return SHAPES
    shapes = tuple(parse_shape(text) for text in texts)
    for text, shape in zip(texts, shapes):
        if len(shape) != 3 or 0 in shape:
            raise ValueError(f"--shape {text!r} is not a product; write rows, columns and k, such as 4096x4096x4096.")
    return shapes


def measure(chosen: argparse.Namespace, shapes: tuple[tuple[int, ...], ...]) -> int:
    from kernels.bench import grouping, provenance
    from kernels.bench.limits import copy_limit
    from kernels.bench.results import ResultsError, Writer
    from kernels.bench.run import run
    from kernels.bench.timer import DeviceFailure
    from kernels.ops.unmeasured import find

    device = CudaDevice()
    try:
        writer = Writer(chosen.output, provenance.provenance(device))
    except ResultsError as error:
        print(error, file=sys.stderr)
        return 2
    options = grouping.options(shapes, chosen.iters, chosen.dtype)
    try:
        device.warm_clocks()
        writer.add_limit(copy_limit(device))
        records = run(device, [find("matmul")], options, writer, lambda text: print(text, file=sys.stderr))
        writer.finish(provenance.clocks())
    except DeviceFailure as error:
        print(f"{error}\nThe device stopped answering; what was finished is in {writer.partial}.", file=sys.stderr)
        return 4
    print(grouping.table(records, device.l2_bytes))
    print(f"Written: {chosen.output}", file=sys.stderr)
    return 1 if any(record.status not in ("ok", "unavailable") for record in records) else 0


if __name__ == "__main__":
    sys.exit(main())
