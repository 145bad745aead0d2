"""The copy limit: what this card moves at best, measured in the same run as everything that is compared with it."""

from collections.abc import Callable
from typing import Any

from kernels.bench.rates import median, rates
from kernels.bench.results import Limit
from kernels.bench.timer import Arm, check_plausible, measure

COPY_ELEMENTS = 1 << 28  # 1 GiB of float32 read and 1 GiB written: far beyond any L2 cache


def copy_kernel() -> Callable[..., object]:
    """A Triton kernel that copies; `run(source, target, block, warps)` launches it.

    A kernel, because a captured copy_ becomes a memcpy node, which the copy engine runs at two thirds of what the
    multiprocessors reach. Raises ImportError without Triton.
    """
    import triton
    import triton.language as tl

    @triton.jit
    def _copy(source_ptr, target_ptr, n, BLOCK: tl.constexpr):
        offsets = tl.program_id(0).to(tl.int64) * BLOCK + tl.arange(0, BLOCK)
        mask = offsets < n
        tl.store(target_ptr + offsets, tl.load(source_ptr + offsets, mask=mask), mask=mask)

    def run(source: Any, target: Any, block: int, warps: int) -> None:
        n = source.numel()
        _copy[(triton.cdiv(n, block),)](source, target, n, BLOCK=block, num_warps=warps)

    return run


def copy_limit(device: Any, samples: int = 20, elements: int = COPY_ELEMENTS) -> Limit:
    """Measure the copy limit: the fastest of a Triton copy in two block sizes and torch.neg, bytes read plus written.

    Each is checked before it is timed. What cannot run here is left out; a card with too little free memory copies
    less.
    """
    import torch

    free, _ = torch.cuda.mem_get_info()
    while elements * 4 * 6 > free and elements > 1 << 22:
        elements //= 2
    source = torch.randn(elements, device="cuda")
    target = torch.empty_like(source)

    calls: dict[str, Callable[..., object]] = {"torch.neg": lambda x, out: torch.neg(x, out=out)}
    signs = {"torch.neg": -1.0}
    try:
        run = copy_kernel()
        for block, warps in ((1024, 4), (4096, 8)):
            calls[f"triton copy[block={block},warps={warps}]"] = lambda x, out, b=block, w=warps: run(x, out, b, w)
    except ImportError:
        pass
    arms = []
    for name, call in calls.items():
        target.fill_(float("nan"))
        call(source, target)
        device.synchronize()
        if torch.equal(target, source * signs.get(name, 1.0)):
            arms.append(Arm(name, call))
    bytes_moved = 2 * elements * source.element_size()
    if not arms:
        return Limit(
            name="copy",
            method="none",
            bytes_moved=bytes_moved,
            status="wrong",
            reason="No copy kernel copied correctly.",
        )
    measured = measure(device, arms, [(source, target)], samples=samples)
    best = min(measured, key=lambda arm: median(arm.samples_us) or float("inf"))
    return finish(device.name, best.name, bytes_moved, best.samples_us)


def finish(gpu: str, method: str, bytes_moved: int, samples_us: list[float]) -> Limit:
    """The limit's record, refused (no rate, a reason) where the rate is above the card's peak."""
    limit = Limit(name="copy", method=method, bytes_moved=bytes_moved, samples_us=samples_us)
    limit.median_us = median(samples_us)
    limit.gb_per_s = rates(bytes_moved, 0, limit.median_us).gb_per_s
    try:
        check_plausible(gpu, "float32", False, limit.gb_per_s, None)
    except ValueError as error:
        limit.status, limit.reason, limit.median_us, limit.gb_per_s = "implausible", str(error), None, None
    return limit
