"""Launches of Triton kernels whose every access is known in two ways: as a trace with lanes, and as PTX."""

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

import lane_kernels as kernels
import torch

from kernels.ops.add import launch_add
from kernels.ops.softmax import launch_softmax
from kernels.trace.triton import trace_triton


@dataclass
class Case:
    """One launch: the kernel's parameters in the order of its PTX, tensors by name; and what it is compiled for."""

    launch: Callable[..., object]
    tensors: dict[str, torch.Tensor]
    arguments: list[str | int]
    arch: int = 90

    def trace(self):
        return trace_triton(lambda: self.launch(**self.tensors), self.tensors)


def add_case(n, dtype):
    tensors = {name: torch.randn(n).to(dtype) for name in ("x", "y", "out")}
    return Case(launch_add, tensors, ["x", "y", "out", n])


def softmax_case(M, N):
    tensors = {"x": torch.randn(M, N + 3)[:, :N], "out": torch.empty(M, N)}
    one_block = partial(launch_softmax, path="block")  # one kernel, whatever the plan would choose for so few rows
    return Case(one_block, tensors, ["x", "out", M, N, N + 3, N])  # the column stride is 1, and compiled in


def float_(*shape):
    return torch.zeros(*shape)


def whole(*shape):
    return torch.zeros(*shape, dtype=torch.int32)


def half(*shape):
    return torch.zeros(*shape, dtype=torch.float16)


def small(kernel, grid, tensors, *numbers, arch=90, num_warps=4, **constants):
    def launch(**given):
        kernel[(grid,)](*given.values(), *numbers, **constants, num_warps=num_warps)

    return Case(launch, tensors, [*tensors, *numbers], arch)


CASES = {
    **{
        f"add {n} {kind}": add_case(n, kind) for n in (257, 1024, 1025, 4100) for kind in (torch.float32, torch.float16)
    },
    **{f"softmax {m} x {n}": softmax_case(m, n) for m, n in ((3, 31), (6, 257), (17, 128), (3, 1024), (2, 4097))},
    "fewer elements than threads": small(kernels.copy, 2, {"x": half(100), "out": half(100)}, 100, BLOCK=64),
    "eight warps": small(kernels.copy, 1, {"x": half(2000), "out": half(2000)}, 2000, BLOCK=2048, num_warps=8),
    "one warp": small(kernels.copy, 1, {"x": float_(60), "out": float_(60)}, 60, BLOCK=64, num_warps=1),
    "a view that is not aligned": small(
        kernels.copy, 1, {"x": float_(65)[1:], "out": float_(64)}, 64, BLOCK=64, num_warps=1
    ),
    "sums and scalars": small(
        kernels.row_sums, 2, {"x": float_(16, 128), "out": float_(16), "total": float_(2)}, 128, BLOCK_M=8, BLOCK_N=128
    ),
    "a transpose": small(kernels.transpose, 1, {"x": float_(32, 32), "out": float_(32, 32)}, N=32),
    "atomics": small(kernels.add_to_bins, 2, {"x": whole(100), "bins": whole(4)}, 100, BLOCK=64),
    **{
        f"items of {kind}": small(
            kernels.copy,
            1,
            {"x": torch.zeros(1024, dtype=kind), "out": torch.zeros(1024, dtype=kind)},
            1024,
            BLOCK=1024,
            num_warps=1,
        )
        for kind in (torch.int8, torch.bfloat16, torch.int64, torch.float64)
    },
    "atomics in pairs": small(kernels.add_side_by_side, 1, {"x": half(512), "out": half(512)}, 512, BLOCK=512),
    "atomics in pairs, ragged": small(kernels.add_side_by_side, 2, {"x": half(301), "out": half(301)}, 301, BLOCK=256),
    "atomics without a result": small(
        kernels.add_side_by_side, 1, {"x": float_(512), "out": float_(512)}, 512, BLOCK=512
    ),
    "compare and swap": small(kernels.swap, 1, {"flags": whole(64), "seen": whole(64)}, BLOCK=64),
    "descriptors on Ampere": small(
        kernels.described, 2, {"x": float_(100), "out": float_(100)}, 100, BLOCK=64, arch=80
    ),
    "a helper function": small(kernels.through_a_helper, 2, {"x": float_(100), "out": float_(100)}, 100, BLOCK=64),
    "a loop": small(kernels.in_a_loop, 1, {"x": float_(200), "out": float_(64)}, 200, BLOCK=64),
    "copies of copies": small(
        kernels.product, 1, {"a": half(16, 64), "b": half(64, 16), "out": half(16, 16)}, 64, BLOCK=16, arch=80
    ),
    "a pipelined product": small(
        kernels.product, 1, {"a": half(32, 64), "b": half(64, 32), "out": half(32, 32)}, 64, BLOCK=32, arch=80
    ),
}
