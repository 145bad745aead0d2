#!/usr/bin/env python3
"""Times the softmax of wide rows over the number of splits: `split_sweep.py [--output FILE.json]`. Needs a GPU.

The workshop's kernels hold a split in one block, so they begin where a split is 16384 columns wide; the operator's walk
along theirs, so they begin with one. Beside them: our softmax, which chooses for itself, and torch.softmax.
"""

import argparse
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

SHAPES = ((1, 1 << 24), (32, 1 << 20), (512, 131072), (16384, 4096))
SPLITS = (1, 4, 16, 64, 256, 1024)
WIDEST = 16384  # columns of a split that the workshop's kernels take


def arms(shape):
    """The contenders on rows of this shape."""
    import torch

    from kernels.ops.softmax import softmax
    from kernels.ops.split_softmax import split_softmax
    from lessons_src.examples.timed_arms import Timed
    from lessons_src.solutions import split_softmax as workshop

    def learners(splits):
        def call(x):
            out = torch.empty_like(x)
            workshop.softmax(x, out, splits)
            return out

        return Timed(f"workshop, {splits} splits", "lessons_src.solutions.split_softmax:softmax", call)

    def ours(splits):
        source = "kernels.ops.split_softmax:_launch"
        return Timed(f"operator, {splits} splits", source, lambda x: split_softmax(x, splits=splits))

    N = shape[1]
    found = [
        Timed("softmax", "kernels.ops.softmax:_launch", softmax),
        Timed("torch", "", lambda x: torch.softmax(x, dim=-1)),
        Timed("operator", "kernels.ops.split_softmax:_launch", split_softmax),
    ]
    found += [ours(splits) for splits in SPLITS if N // splits >= 256 and shape[0] * splits <= 1 << 20]
    return found + [learners(s) for s in SPLITS if 256 <= N // s <= WIDEST and shape[0] * s <= 1 << 20]


def records(device, samples, shapes=SHAPES):
    """Each shape's arms, checked and, with samples, timed. Yields kernel-bench records."""
    from kernels.ops.split_softmax import OP
    from lessons_src.examples import timed_arms

    for shape in shapes:
        (x,) = OP.inputs(shape, "float32", device.where, 1, 0)
        yield from timed_arms.records(device, OP, shape, "float32", (x,), OP.reference(x), arms(shape), samples)
        del x


def main():
    parser = argparse.ArgumentParser(description="Time the softmax of wide rows over the number of splits.")
    parser.add_argument("--output", type=Path, default=Path("results/local/split-sweep.json"), metavar="FILE.json")
    parser.add_argument("--iters", type=int, default=20, help="samples of each arm")
    parser.add_argument("--check", action="store_true", help="small, untimed, without a GPU under TRITON_INTERPRET=1")
    chosen = parser.parse_args()
    if chosen.check:
        from types import SimpleNamespace

        for record in records(SimpleNamespace(where="cpu"), 0, ((1, 4096), (3, 1000))):
            print(f"{record.shape!s:<14}{record.implementation:<26}{record.error_over_tolerance:.2f} of allowed")
        return 0
    from lessons_src.examples.timed_arms import run

    return run(records, chosen.output, chosen.iters)


if __name__ == "__main__":
    sys.exit(main())
