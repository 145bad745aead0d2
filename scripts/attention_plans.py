#!/usr/bin/env python3
"""Attention in the plans that were tried, beside cuDNN: `attention_plans.py [--output FILE.json]`. Needs a Hopper GPU.

Forward: the Gluon kernel's tiles, rings, schedules and turns. Backward: one pass with rings of two and of three, and
how many heads are worked on side by side; the two passes. A plan that hangs, hangs this program: give it a time limit.
"""

import argparse
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

PLANS = {  # fields of RingPlan that differ from those of the plan in use
    "in use": {},
    "each, one tile a program": {"schedule": "each", "slots": 1},
    "strided": {"schedule": "strided"},
    "planned": {"schedule": "planned"},
    "in turn": {"pingpong": True},
    "4 heads side by side": {"section": 4},
    "blocks of 64, 4 buffers": {"block_n": 64, "stages": 4},
    "3 consumers, blocks of 64": {"groups": 3, "block_n": 64, "stages": 3, "slots": 1},
}
SHAPES = ((4, 16, 16, 4096, 4096, 128), (4, 32, 32, 4096, 4096, 64))
ONE_PASS = {"in use": {}, "2 buffers": {"CAUSAL_STAGES": 2}, "1 head": {"SECTION": 1}, "8 heads": {"SECTION": 8}}


def forward_arms(op, shape, causal):
    """Each plan as a call on q, k and v, then cuDNN and the readable kernel as the record has them."""
    import dataclasses

    import torch

    from kernels.ops import attention_gluon_launch as host
    from lessons_src.examples.timed_arms import Timed

    def arm(name, fields):
        plan = dataclasses.replace(host.plan_ring(shape[5], causal, shape[4]), **fields)

        def call(q, k, v):
            out = torch.empty_like(q)
            lse = torch.empty(q.shape[:3], dtype=torch.float32, device=q.device)
            host.launch_ring(q, k, v, out, lse, None, causal, 0, q.shape[-1] ** -0.5, plan)
            return out

        return Timed(name, "kernels.ops.attention_gluon_launch:launch_ring", call)

    others = [op.implementation(name) for name in ("cudnn", "readable")]
    return [*(Timed(each.name, each.source, each.call) for each in others), *(arm(*each) for each in PLANS.items())]


def backward_arms(op):
    """cuDNN and the two passes as the record has them, then one pass in each setting."""
    import torch

    from kernels.ops import attention_gluon_backward_launch as host
    from lessons_src.examples.timed_arms import Timed

    usual = {name: getattr(host, name) for name in ("CAUSAL_STAGES", "SECTION")}

    def arm(name, settings):
        def call(q, k, v, out, lse, _natural, dout):
            gradients = tuple(torch.empty_like(each) for each in (q, k, v))
            for key, value in (usual | settings).items():
                setattr(host, key, value)
            try:
                host.launch_one_pass(q, k, v, out, lse, dout, *gradients, True, q.shape[-1] ** -0.5)
            finally:
                for key, value in usual.items():
                    setattr(host, key, value)
            return gradients

        return Timed(f"one pass, {name}", "kernels.ops.attention_gluon_backward_launch:launch_one_pass", call)

    others = [op.implementation(name) for name in ("cudnn", "two passes")]
    return [*(Timed(each.name, each.source, each.call) for each in others), *(arm(*each) for each in ONE_PASS.items())]


def records(device, samples):
    from kernels.ops import attention, attention_backward
    from lessons_src.examples import timed_arms

    for shape in SHAPES:
        for op in (attention.OP, attention.MORE[0]):
            tensors = op.inputs(shape, "bfloat16", device.where, 1, 0)
            arms = forward_arms(op, shape, op.launch["causal"])
            yield from timed_arms.records(device, op, shape, "bfloat16", tensors, op.reference(*tensors), arms, samples)
    op, shape = attention_backward.OP, SHAPES[0]
    tensors = op.inputs(shape, "bfloat16", device.where, 1, 0)
    arms = backward_arms(op)
    yield from timed_arms.records(device, op, shape, "bfloat16", tensors, op.reference(*tensors), arms, samples)


def main():
    parser = argparse.ArgumentParser(description="Time attention in the plans that were tried, beside cuDNN.")
    parser.add_argument("--output", type=Path, default=Path("results/local/attention-plans.json"), metavar="FILE.json")
    parser.add_argument("--iters", type=int, default=10, help="samples of each arm")
    chosen = parser.parse_args()
    from lessons_src.examples.timed_arms import run

    return run(records, chosen.output, chosen.iters)


if __name__ == "__main__":
    sys.exit(main())
