"""The readable kernel with a tuned tile: eight configurations, each timed once for a kind of product, the fastest kept.

A kind of product is its dtype, precision, GPU, which way its operands lie, and its extents rounded up to powers of two:
a number of rows that changes at every step of a training run does not tune at every step. Tuning runs each
configuration on the caller's own tensors. That is safe because a configuration writes every element of the output and
adds to none, so the call that tunes is as right as any other; no counter has to be reset between them.

Where Triton interprets there is nothing to time, and no GPU to ask: the plan's tile is used. A test runs each
configuration there by name. While a graph is captured nothing can be timed either: the first one that fits is used.
"""

import math
import time
from dataclasses import dataclass

import torch
import triton
from triton.runtime.errors import OutOfResources
from triton.runtime.jit import JITFunction

from kernels.ops import checks
from kernels.ops.matmul_kernels import _matmul_tiles
from kernels.ops.matmul_launch import launch_product

# Rows, columns and k of a tile, its warps, stages, and the rows of tiles in a group.
FIELDS = ("block_m", "block_n", "block_k", "num_warps", "num_stages", "group_m")
CONFIGURATIONS = tuple(
    dict(zip(FIELDS, values))
    for values in (
        (128, 256, 64, 8, 3, 8),  # the most use of each element that is read
        (256, 128, 64, 8, 3, 8),  # the same, for tall products
        (128, 128, 64, 8, 4, 8),  # more tiles, one more stage on the way
        (128, 128, 32, 4, 4, 8),  # twice the work a thread, and room for two programs
        (128, 64, 64, 4, 4, 8),
        (64, 128, 32, 4, 5, 8),  # fits cards with 99 KiB in every dtype
        (64, 64, 64, 4, 5, 4),
        (32, 64, 32, 4, 5, 2),  # small products: enough tiles to go round
    )
)
FMA_REGISTERS = 64 * 32  # of sums times k in a thread: beyond it, what float32 without tensor cores holds is spilled
TRIAL_MS = 20  # of each configuration, after as long a warm-up


@dataclass(frozen=True)
class Winner:
    """A configuration, its time in ms as the tuner saw it, and what finding it took, compiling included."""

    configuration: dict[str, int]
    kernel_ms: float
    tune_ms: float


_winners: dict[tuple, Winner] = {}


def shared_bytes(configuration: dict[str, int], element_bytes: int) -> int:
    """Shared memory of a configuration: the stages of both operands' tiles."""
    tile = (configuration["block_m"] + configuration["block_n"]) * configuration["block_k"]
    return tile * element_bytes * configuration["num_stages"]


def fitting(element_bytes: int, precision: str, limit_bytes: int) -> list[dict[str, int]]:
    """The configurations that a multiprocessor with `limit_bytes` of shared memory a program can run without spilling.

    Raises RuntimeError naming the need and the limit where there is none.
    """
    found = [each for each in CONFIGURATIONS if shared_bytes(each, element_bytes) <= limit_bytes]
    if not found:
        least = min(shared_bytes(each, element_bytes) for each in CONFIGURATIONS)
        raise RuntimeError(
            f"matmul's smallest configuration needs {least} bytes of shared memory for elements of {element_bytes} "
            f"bytes, and this GPU gives a program {limit_bytes}; call it untuned, or with blocks of your own."
        )
    if element_bytes == 4 and precision == "ieee":
        held = [c["block_m"] * c["block_n"] // (32 * c["num_warps"]) * c["block_k"] for c in found]
        found = [each for each, size in zip(found, held) if size <= FMA_REGISTERS]
    return found


def kind(a: torch.Tensor, b: torch.Tensor, precision: str) -> tuple:
    """What a winner is kept for: tuned once, used for every product of the same kind."""
    sizes = (triton.next_power_of_2(max(size, 1)) for size in (*a.shape[-2:], b.shape[-1], math.prod(a.shape[:-2])))
    ways = (a.stride(-1) == 1, a.stride(-2) == 1, b.stride(-1) == 1, b.stride(-2) == 1)
    aligned = all(x.data_ptr() % 16 == 0 and max(x.stride()[-2:]) * x.element_size() % 16 == 0 for x in (a, b))
    return (a.device, a.dtype, precision, *ways, aligned, *sizes)


def launch_tuned(a: torch.Tensor, b: torch.Tensor, out: torch.Tensor, precision: str) -> None:
    """As `launch_product`, by the tiled kernel in the tile that is fastest for this kind of product."""
    choices = {"path": "tiles", "splits": 1}
    if isinstance(_matmul_tiles, JITFunction):
        choices |= winner(a, b, out, precision).configuration
    launch_product(a, b, out, precision, choices=choices)


def winner(a: torch.Tensor, b: torch.Tensor, out: torch.Tensor, precision: str) -> Winner:
    """The winner for this kind of product; the first time, all are timed, and `out` is overwritten with the product."""
    key = kind(a, b, precision)
    if key in _winners:
        return _winners[key]
    limit = torch.cuda.get_device_properties(a.device).shared_memory_per_block_optin
    candidates = fitting(a.element_size(), precision, limit)
    if torch.cuda.is_current_stream_capturing():
        return Winner(candidates[0], math.nan, 0.0)
    started = time.perf_counter()
    times = [_time(a, b, out, precision, each) for each in candidates]
    best = min(range(len(times)), key=times.__getitem__)
    if times[best] == math.inf:
        raise RuntimeError(f"None of matmul's {len(candidates)} configurations runs on {a.device}.")
    _winners[key] = Winner(candidates[best], times[best], (time.perf_counter() - started) * 1e3)
    return _winners[key]


def _time(a, b, out, precision, configuration) -> float:
    """Milliseconds of one launch; infinite where the configuration does not fit after all."""
    choices = {"path": "tiles", "splits": 1, **configuration}

    def run():
        launch_product(a, b, out, precision, choices=choices)

    try:
        with torch.cuda.device(a.device):
            return triton.testing.do_bench(run, warmup=TRIAL_MS, rep=TRIAL_MS, return_mode="median")
    except OutOfResources:
        return math.inf


class Tuned:
    """The product by the tuned tiled kernel, for one precision, as an operator's implementation.

    `configuration(a, b)` is what was chosen for such operands, for a results file; empty where nothing was tuned.
    """

    def __init__(self, precision: str) -> None:
        self.precision = precision

    def __call__(self, a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
        from kernels.ops.matmul import require_operands

        shape = require_operands(a, b, self.precision)
        checks.require_runnable("a", a, _matmul_tiles)
        out = torch.empty(shape, dtype=a.dtype, device=a.device)
        if out.numel() == 0 or a.shape[-1] == 0:
            return out.zero_()
        a, b = a.expand(*shape[:-2], *a.shape[-2:]), b.expand(*shape[:-2], *b.shape[-2:])
        launch_tuned(a.detach(), b.detach(), out, self.precision)
        return out

    def configuration(self, a: torch.Tensor, b: torch.Tensor) -> dict[str, int]:
        found = _winners.get(kind(a, b, self.precision))
        return dict(found.configuration) if found else {}

    def tune_ms(self, a: torch.Tensor, b: torch.Tensor) -> float | None:
        found = _winners.get(kind(a, b, self.precision))
        return found.tune_ms if found else None
