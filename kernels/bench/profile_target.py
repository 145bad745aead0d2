"""The program that a profiler runs: warm up, then one call of an operator between profiler start and stop.

python -m kernels.bench.profile_target OP IMPLEMENTATION DTYPE SHAPE
"""

from __future__ import annotations

import sys

WARM_UP = 5


def main(op_name: str, implementation: str, dtype: str, shape: str) -> int:
    """Makes the calls on the current GPU. Prints one line when the profiled call has finished."""
    import torch

    from kernels.bench.run import parse_shape
    from kernels.ops import registry

    op = registry.get(op_name)
    call = op.implementation(implementation).call
    inputs = op.inputs(parse_shape(shape) if shape else (), dtype, "cuda", seed=0, padding=0)
    for _ in range(WARM_UP):
        call(*inputs)
    torch.cuda.synchronize()
    torch.cuda.profiler.start()
    out = call(*inputs)
    torch.cuda.synchronize()
    torch.cuda.profiler.stop()
    del out
    print("profiled one call")
    return 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
