#!/usr/bin/env python3
"""Times attention over the length of the sequence: `stream_attention.py [--output FILE.json]`. Needs a GPU.

One head of 64 numbers in bfloat16, causal: the formula with its whole matrix of scores, the workshop's kernel, our
operator, and PyTorch's own attention.
"""

import argparse
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

LENGTHS = (512, 2048, 8192, 16384)
D = 64


def formula(q, k, v):
    """Attention as it reads, for (1, 1, S, D): a matrix of S by S float32 scores in memory."""
    import torch

    score = q.float() @ k.float().transpose(-1, -2) * q.shape[-1] ** -0.5
    later = torch.ones(score.shape[-2:], dtype=torch.bool, device=q.device).triu(1)
    return torch.softmax(score.masked_fill(later, float("-inf")), dim=-1).to(v.dtype) @ v


def arms():
    """The contenders, each a function of q, k and v of shape (1, 1, S, D)."""
    import torch

    from kernels.ops.attention import attention
    from lessons_src.examples.timed_arms import Timed
    from lessons_src.solutions import streaming_attention as workshop

    def learners(q, k, v):
        return workshop.attention(q[0, 0], k[0, 0], v[0, 0], None, True)[None, None]

    def library(q, k, v):
        return torch.nn.functional.scaled_dot_product_attention(q, k, v, is_causal=True)

    return [
        Timed("formula", "lessons_src.examples.stream_attention:formula", formula),
        Timed("workshop", "lessons_src.solutions.streaming_attention:attention", learners),
        Timed("operator", "kernels.ops.attention:_launch_either", lambda q, k, v: attention(q, k, v, causal=True)),
        Timed("torch", "", library),
    ]


def records(device, samples, lengths=LENGTHS):
    """Each length's arms, checked and, with samples, timed. Yields kernel-bench records."""
    from kernels.ops.attention import OP
    from lessons_src.examples import timed_arms

    for length in lengths:
        shape = (1, 1, 1, length, length, D)
        tensors = OP.inputs(shape, "bfloat16", device.where, 1, 0)
        exact = OP.reference(*tensors)
        yield from timed_arms.records(device, OP, shape, "bfloat16", tensors, exact, arms(), samples)
        del tensors, exact


def main():
    parser = argparse.ArgumentParser(description="Time attention over the length of the sequence.")
    parser.add_argument("--output", type=Path, default=Path("results/local/stream-attention.json"), metavar="FILE.json")
    parser.add_argument("--iters", type=int, default=20, help="samples of each arm")
    parser.add_argument("--check", action="store_true", help="small, untimed, without a GPU under TRITON_INTERPRET=1")
    chosen = parser.parse_args()
    if chosen.check:
        from types import SimpleNamespace

        for record in records(SimpleNamespace(where="cpu"), 0, (40,)):
            print(f"{record.shape!s:<26}{record.implementation:<12}{record.error_over_tolerance:.2f} of allowed")
        return 0
    from lessons_src.examples.timed_arms import run

    return run(records, chosen.output, chosen.iters)


if __name__ == "__main__":
    sys.exit(main())
