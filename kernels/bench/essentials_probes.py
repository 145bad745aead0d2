"""What the probes of cuda/probes.cu say about a GPU: the latency of each level of memory, and its bandwidth."""

from __future__ import annotations

import statistics
from typing import Any

from kernels.bench.essentials import Row, Topic
from kernels.sources import fingerprint

LINE_BYTES = 128  # of a cache; a chain visits one element of each
KIB, MIB = 1 << 10, 1 << 20
SIZES = [4 << k for k in range(10, 31)]  # 4 KiB to 4 GiB
PROBES = "cuda/probes.cu"


def hashes(*names: str, file: str = PROBES) -> dict[str, str]:
    return {f"{file}:launch_{name}": fingerprint(f"{file}:launch_{name}") for name in names}


def sm_mhz(device: Any) -> float:
    """The clock of the multiprocessors, from a kernel that waits for a number of their cycles."""
    import torch

    def us(cycles: int) -> float:
        start = device.mark()
        torch.cuda._sleep(cycles)
        end = device.mark()
        device.synchronize()
        return device.elapsed_us(start, end)

    us(1000)
    return 4_000_000 / (us(6_000_000) - us(2_000_000))


def once_us(device: Any, call: Any) -> float:
    """The device's time of one call, queued behind a short wait so that the host is ahead."""
    import torch

    device.synchronize()
    torch.cuda._sleep(200_000)
    start = device.mark()
    call()
    end = device.mark()
    device.synchronize()
    return device.elapsed_us(start, end)


def ring(size_bytes: int, where: str = "cuda") -> Any:
    """A chain through every 128-byte line of `size_bytes`, in random order, that comes back to where it began."""
    import torch

    step = LINE_BYTES // 4
    lines = max(1, size_bytes // LINE_BYTES)
    order = torch.randperm(lines, device=where, dtype=torch.int32)
    following = torch.zeros(lines * step, dtype=torch.int32, device=where)
    following[order.long() * step] = torch.roll(order, -1) * step
    return following


def latency(device: Any, sizes: list[int] | None = None) -> Topic:
    """Nanoseconds and cycles of one dependent load, for working sets that each level can and cannot hold."""
    import torch

    from kernels.cuda import essentials

    torch.manual_seed(6)
    flush = torch.empty(256 * MIB, dtype=torch.uint8, device="cuda")
    rows = []

    def chase(name: str, where: str, size: int, chain: Any, steps: int, cold: bool) -> None:
        found = []
        for _ in range(3):
            if cold:  # what the last chase left in the L2 cache would answer faster
                flush.zero_()
            else:
                essentials.chase(chain, min(2 * chain.numel() // (LINE_BYTES // 4), 1 << 20), where)
            mhz = sm_mhz(device)
            us = once_us(device, lambda: essentials.chase(chain, steps, where))
            found.append((us * 1e3 / steps, us / steps * mhz))
        nanoseconds, cycles = statistics.median(found)
        rows.append(
            Row(name=name, settings={"where": where, "bytes": size}, values={"ns": nanoseconds, "cycles": cycles})
        )

    shared = ring(16 * KIB)
    chase("shared memory", "shared", 16 * KIB, shared, 100_000, cold=False)
    for size in sizes or SIZES:
        chain = ring(size)
        cold = size > 2 * device.l2_bytes
        steps = 20_000 if size > MIB else 50_000
        chase("through L1", "global", size, chain, steps, cold)
        if size <= 16 * MIB:
            chase("past L1", "l2", size, chain, steps, cold)
        del chain
    return Topic(
        what="one thread follows a chain of loads through a working set",
        hashes=hashes("chase_global", "chase_l2", "chase_shared"),
        rows=rows,
        sm_mhz=sm_mhz(device),
    )


def bandwidth(device: Any) -> Topic:
    """Bytes a second that reach the threads, for regions that each level can and cannot hold; arithmetic beside."""
    import torch

    from kernels.cuda import essentials

    blocks = 2 * device.sm_count  # of 1024 threads: all that a multiprocessor holds
    biggest = 1536
    x = torch.ones(blocks * biggest * 4096, device="cuda")
    rows = []

    def best_us(call: Any) -> float:
        call()
        return statistics.median(once_us(device, call) for _ in range(5))

    for pieces in (1, 2, 3, 4, 5, 6, 7, 8, 10, 12, 16, 24, 32, 64, 256, biggest):
        size = blocks * pieces * 16 * KIB
        rounds = max(1, round(6e9 / size))
        for where in ("global", "l2"):
            us = best_us(lambda w=where, p=pieces, r=rounds: essentials.read(x, blocks, p * 1024, blocks, r, w))
            rows.append(
                Row(
                    name="through L1" if where == "global" else "past L1",
                    settings={"where": where, "bytes": size, "bytes_a_multiprocessor": 2 * pieces * 16 * KIB},
                    values={"gb_per_s": size * rounds / us / 1e3, "us": us},
                )
            )
    words = x[: essentials.SHARED_WORDS].contiguous()
    rounds = 20_000
    us = best_us(lambda: essentials.read_shared(words, blocks, rounds))
    moved = blocks * 1024 * 16 * rounds
    rows.append(
        Row(name="shared memory", settings={"where": "shared"}, values={"gb_per_s": moved / us / 1e3, "us": us})
    )
    one = x[:32].contiguous()
    steps = 400_000
    mhz = sm_mhz(device)
    us = best_us(lambda: essentials.fma_chain(one, 1, 32, 1, steps))
    rows.append(
        Row(
            name="one chain of one warp",
            settings={"where": "registers", "chains": 1, "warps": 1},
            values={"ns": us * 1e3 / steps, "cycles": us * mhz / steps},
        )
    )
    threads, steps = blocks * 1024, 20_000
    many = x[:threads].contiguous()
    for chains in (1, 4):
        us = best_us(lambda c=chains: essentials.fma_chain(many, blocks, 1024, c, steps))
        rows.append(
            Row(
                name=f"{chains} chain{'s' * (chains > 1)} of every thread",
                settings={"where": "registers", "chains": chains, "warps": 64},
                values={"tflop_per_s": 2 * threads * chains * steps / us / 1e6, "us": us},
            )
        )
    return Topic(
        what="all threads read a region of their block again and again",
        hashes=hashes("read_global", "read_l2", "read_shared", "fma_chain"),
        rows=rows,
        sm_mhz=sm_mhz(device),
    )
