#!/usr/bin/env python3
"""Time the CUDA ladder: `ladder.py [--size N] [--samples N] [--output FILE.json]`.

Every rung of the GEMM ladder that this GPU can run, beside cuBLAS, on square matrices; then fused kernels, weights of
one byte and sums over a grid. It prints a line for each and writes a record as kernels/bench/ladder.py reads it. About
two minutes, much of it compiling.
"""

import argparse
import json
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from kernels.bench.device import CudaDevice, gpu_missing


def main() -> int:
    parser = argparse.ArgumentParser(description="Time every rung of the CUDA ladder beside cuBLAS.")
    parser.add_argument("--size", type=int, action="append", help="M = N = K; repeat for more (default: 1024 to 8192)")
    parser.add_argument("--samples", type=int, default=10, help="samples of each arm (default 10)")
    parser.add_argument("--output", type=Path, default=Path("results/local/ladder.json"), metavar="FILE.json")
    chosen = parser.parse_args()
    sizes = chosen.size or [1024, 2048, 4096, 8192]
    if min(sizes) < 1 or chosen.samples < 1:
        parser.error("--size and --samples are at least 1.")
    missing = gpu_missing()
    if missing:
        print(f"{missing} The ladder is timed on one.", file=sys.stderr)
        return 3

    import msgspec

    from kernels.bench.ladder import hashes, measure_rungs
    from kernels.bench.ladder_patterns import measure_patterns
    from kernels.bench.limits import copy_limit
    from kernels.bench.provenance import provenance
    from kernels.sources.files import write_whole

    def save() -> None:  # after each part, so that a run that is stopped leaves what it has
        write_whole(chosen.output, json.dumps(document, indent=1, allow_nan=False) + "\n")

    chosen.output.parent.mkdir(parents=True, exist_ok=True)
    document = {"schema_version": 1, "kind": "ladder", "hashes": hashes()}
    document["provenance"] = msgspec.to_builtins(provenance(CudaDevice()))
    document["times"] = measure_rungs(sizes, chosen.samples, lambda text: print(text, file=sys.stderr))
    save()
    document["patterns"] = measure_patterns(chosen.samples, lambda text: print(text, file=sys.stderr))
    document["patterns"]["copy"] = msgspec.to_builtins(copy_limit(CudaDevice()))
    save()
    print(f"Written: {chosen.output}", file=sys.stderr)
    return 0


if __name__ == "__main__":
    sys.exit(main())
