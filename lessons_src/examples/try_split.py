#!/usr/bin/env python3
"""Runs the two kernels of Workshop A2 on whatever there is: `try_split.py [--mine] [--splits N]`.

On a GPU they are compiled, for 32 rows of 2**20 scores; elsewhere Triton interprets them, for 3 of 1000. --mine takes
your answer, lessons_src/exercises/split_softmax.py, in the place of the solution.
"""

import argparse
import os
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))


def compare(splits, mine):
    """The largest difference from torch.softmax, and a sentence that says what ran."""
    import torch

    there = torch.cuda.is_available()
    if not there:
        os.environ["TRITON_INTERPRET"] = "1"  # before Triton is imported
    from importlib import import_module

    answer = import_module(f"lessons_src.{'exercises' if mine else 'solutions'}.split_softmax")
    x = torch.randn((32, 1 << 20) if there else (3, 1000), device="cuda" if there else "cpu")
    out = torch.full_like(x, float("nan"))
    answer.softmax(x, out, splits)
    where = f"on an {torch.cuda.get_device_name()}" if there else "under Triton's interpreter"
    difference = (out - torch.softmax(x, dim=1)).abs().max().item()
    return difference, f"{x.shape[0]} rows of {x.shape[1]:,} in {splits} splits, {where}"


def main(arguments=None):
    parser = argparse.ArgumentParser(description="Run the two kernels of Workshop A2.")
    parser.add_argument("--mine", action="store_true", help="your answer, not the solution")
    parser.add_argument("--splits", type=int, default=128)
    chosen = parser.parse_args(arguments)
    if chosen.splits < 1:
        parser.error(f"--splits is {chosen.splits}; expected at least 1, the whole row in one piece.")
    difference, said = compare(chosen.splits, chosen.mine)
    print(f"{said}: no weight is further than {difference:.0e} from torch.softmax")


if __name__ == "__main__":
    main()
