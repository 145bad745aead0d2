#!/usr/bin/env python3
"""Puts states that are computed tile by tile to the test: `try_walk.py [FILE.py]`, in Triton's interpreter.

FILE.py defines states_walking(x, splits, tile), with a kernel of its own; without it, ours is tried.
"""

import argparse
import os
import runpy
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

CASES = {  # (rows, columns, splits, tile): why
    (2, 64, 2, 32): "a split is one tile",
    (2, 64, 2, 8): "four tiles a split",
    (3, 50, 4, 8): "the last tile of a split holds columns of the neighbour",
    (1, 3, 8, 4): "splits that own nothing",
}


def complaint(states):
    """What is wrong with such a function, as a sentence, and "" where nothing was found."""
    import torch

    from kernels.ops.op import ROUNDOFF
    from kernels.trace.triton import trace_triton
    from lessons_src.examples.split_versions import states_in_torch

    for (rows, width, splits, tile), why in CASES.items():
        x = 3 * torch.randn(rows, width, generator=torch.Generator().manual_seed(width))
        x[0, : width // 2] = float("-inf")
        found = []
        trace = trace_triton(lambda: found.append(states(x, splits, tile)), {"x": x})  # noqa: B023
        given = f"{rows} x {width} in {splits} splits, tiles of {tile} ({why})"
        if trace.faults():
            return f"{given}: {trace.faults()[0]}"
        if (most := int(trace.counts("x", "read").max())) > 1:
            return f"{given}: a score is read {most} times"
        (maxima, sums), (right_maxima, right_sums) = found[0], states_in_torch(x.double(), splits)
        if not torch.equal(maxima.double(), right_maxima):
            return f"{given}: a maximum is wrong"
        allowed = ROUNDOFF["float32"] * (width + 8 + 2 * float(x[x.isfinite()].abs().max())) * float(right_sums.max())
        if not float((sums - right_sums).abs().max()) <= allowed:
            return f"{given}: a sum is wrong"
    return ""


def main(arguments=None):
    parser = argparse.ArgumentParser(description="Try states that are computed tile by tile.")
    parser.add_argument("file", nargs="?", metavar="FILE.py", help="defines states_walking; left out: ours")
    chosen = parser.parse_args(arguments)
    os.environ["TRITON_INTERPRET"] = "1"  # before Triton is imported
    from lessons_src.examples.split_versions import states_walking

    states = runpy.run_path(chosen.file).get("states_walking") if chosen.file else states_walking
    if states is None:
        parser.error(f"{chosen.file} defines no states_walking(x, splits, tile).")
    said = complaint(states)
    print(said or f"right: maxima and sums of {len(CASES)} cases, each score read once")
    return 1 if said else 0


if __name__ == "__main__":
    sys.exit(main())
