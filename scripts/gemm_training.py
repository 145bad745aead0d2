#!/usr/bin/env python3
"""Time the three products of a training step one by one: `gemm_training.py [--iters N] [--output FILE.json]`.

16384 tokens and a weight of 1024 x 1024. The weight's gradient is also cut into slices, added up in order and by atomic
additions, and run twenty times on the same tensors. It prints a table and writes a results document (strict JSON).
"""

import argparse
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from kernels.bench.device import CudaDevice, gpu_missing


def main() -> int:
    parser = argparse.ArgumentParser(description="Time the three products of a training step one by one.")
    parser.add_argument("--iters", type=int, default=30, help="samples of each arm (default 30)")
    parser.add_argument("--output", type=Path, default=Path("results/local/gemm-training.json"), metavar="FILE.json")
    chosen = parser.parse_args()
    if chosen.iters < 1:
        parser.error(f"--iters is {chosen.iters}; expected at least 1.")
    missing = gpu_missing()
    if missing:
        print(f"{missing} The products are timed on one.", file=sys.stderr)
        return 3
    return measure(chosen)


def measure(chosen: argparse.Namespace) -> int:
    from kernels.bench import provenance, training
    from kernels.bench.limits import copy_limit
    from kernels.bench.results import ResultsError, Writer
    from kernels.bench.run import run
    from kernels.bench.timer import DeviceFailure
    from lessons_src.examples.split_k import by_atomics

    device = CudaDevice()
    try:
        writer = Writer(chosen.output, provenance.provenance(device))
    except ResultsError as error:
        print(error, file=sys.stderr)
        return 2
    products = training.products(by_atomics, "lessons_src.examples.split_k:by_atomics")
    try:
        device.warm_clocks()
        writer.add_limit(copy_limit(device))
        records = run(
            device, products, training.options(chosen.iters), writer, lambda text: print(text, file=sys.stderr)
        )
        writer.finish(provenance.clocks())
    except DeviceFailure as error:
        print(f"{error}\nThe device stopped answering; what was finished is in {writer.partial}.", file=sys.stderr)
        return 4
    print(training.table(records))
    print(f"Written: {chosen.output}", file=sys.stderr)
    return 1 if any(record.status not in ("ok", "unavailable") for record in records) else 0


if __name__ == "__main__":
    sys.exit(main())
