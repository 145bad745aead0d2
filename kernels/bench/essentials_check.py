"""Every kernel of the Essentials on a GPU against PyTorch, on whole and ragged sizes; also what a sanitizer watches.

`python -m kernels.bench.essentials_check` runs all of it: exit status 0 when everything is right, 1 when not.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from typing import Any

from kernels.bench.essentials import Row, Topic
from kernels.bench.essentials_probes import hashes

LENGTHS = (1, 33, 256, 1000)
SHAPES = ((1, 1), (33, 65), (64, 96))
TOOLS = ("memcheck", "racecheck", "initcheck", "synccheck")
LIMIT_S = 120  # of one tool; they run side by side
SOURCES = {
    "cuda/strided.cu": ("copy_strided", "copy_float4"),
    "cuda/transposes.cu": ("transpose_direct", "transpose_swizzled", "shared_walk"),
    "cuda/reductions.cu": ("block_sums_shuffle", "block_sums_shared", "block_sums_atomic", "warp_exchanges"),
    "cuda/divergence.cu": ("two_paths",),
    "cuda/residency.cu": ("copy_resident", "copy_resident_4", *(f"strip_products_{blocks}" for blocks in (1, 3, 4, 6))),
    "cuda/probes.cu": (
        "chase_global",
        "chase_l2",
        "chase_shared",
        "read_global",
        "read_l2",
        "read_shared",
        "fma_chain",
    ),
}


def results() -> Iterator[tuple[str, Any, Any]]:
    """(what was computed, the kernel's result, what it should be in float64) of every kernel and size."""
    import torch

    from kernels.cuda import essentials

    generator = torch.Generator().manual_seed(6)

    def random(*shape: int) -> Any:
        return torch.randn(*shape, generator=generator).cuda()

    for n in LENGTHS:
        x = random(n * 7 + 3)
        for stride, first in ((1, 0), (1, 1), (7, 3)):
            at = first + stride * torch.arange(n, device="cuda")
            yield f"copy_strided {n}, {stride}, {first}", essentials.copy_strided(x, n, stride, first), x[at]
        yield (
            f"copy_float4 {n}",
            essentials.copy_float4(random(n).mul_(0).add_(2)),
            torch.full((n,), 2.0, device="cuda"),
        )
        y = random(n)
        padded = torch.zeros(-(-n // 256) * 256, device="cuda", dtype=torch.float64)
        padded[:n] = y
        for way in ("shuffle", "shared", "atomic"):
            yield f"block_sums {way} {n}", essentials.block_sums(y, way, 2), padded.view(-1, 256).sum(dim=1)
        warps = padded.view(-1, 32)
        lane = torch.arange(32, device="cuda")
        for argument in (1, 16):
            down = torch.where(lane + argument < 32, lane + argument, lane)
            rows = [warps[:, [argument]].expand(-1, 32), warps[:, down], warps[:, lane ^ argument]]
            rows.append(warps.sum(dim=1, keepdim=True).expand(-1, 32))
            want = torch.stack([row.reshape(-1)[:n] for row in rows])
            yield f"warp_exchanges {argument}, {n}", essentials.warp_exchanges(y, argument), want
        kind = torch.arange(n, device="cuda", dtype=torch.int32) % 2
        value = y.double()
        for _ in range(3):
            value = torch.where(kind == 0, value * 0.5 + 1, value * -0.5 + 3)
        yield f"two_paths {n}", essentials.two_paths(y, kind, 3), torch.where(kind == 0, value, -value)
        for loads in (1, 4):
            yield f"copy_resident {loads}, {n}", essentials.copy_resident(y, 2, 64, 60_000, loads), y
        strip = random(essentials.STRIP, n)
        wide = strip.double()
        want = sum((wide * wide.roll(-lag, 0)).sum(dim=0) for lag in (1, 2, 4, 8, 16, 32))
        for blocks in (1, 3, 4, 6):
            yield f"strip_products {blocks}, {n}", essentials.strip_products(strip, blocks), want
    for rows_, columns in SHAPES:
        matrix = random(rows_, columns + 3)[:, :columns]
        for kernel in (essentials.transpose_direct, essentials.transpose_swizzled):
            yield f"{kernel.__name__} {rows_}x{columns}", kernel(matrix), matrix.T
    words = torch.arange(essentials.WALK_WORDS, device="cuda", dtype=torch.float32)
    thread = torch.arange(512, device="cuda")
    for stride in (1, 32):
        at = ((thread % 32) * stride + thread % 256 // 32)[:, None] + torch.arange(5, device="cuda")
        yield f"shared_walk {stride}", essentials.shared_walk(words, 2, stride, 5), (at % 4096).double().sum(dim=1)
    yield from _probes()


def _probes() -> Iterator[tuple[str, Any, Any]]:
    import torch

    from kernels.bench.essentials_probes import ring
    from kernels.cuda import essentials

    chain = ring(16 << 10)
    once_around = chain.numel() // 32
    for where in ("global", "l2", "shared"):
        yield f"chase {where}", essentials.chase(chain, once_around, where), torch.zeros(1, device="cuda")
    x = torch.ones(4 * 2 * 1024 * 4, device="cuda")
    for where in ("global", "l2"):
        want = torch.full((5 * 1024,), 3 * 2 * 4.0, device="cuda")
        yield f"read {where}", essentials.read(x, 5, 2 * 1024, 4, 3, where), want
    ones = torch.ones(essentials.SHARED_WORDS, device="cuda")
    yield "read_shared", essentials.read_shared(ones, 2, 3), torch.full((2048,), 12.0, device="cuda")
    for chains in (1, 4):
        want = sum(2 - (1 - chain) * 0.5**6 for chain in range(chains))  # towards 2, from 1 + chain
        got = essentials.fma_chain(torch.ones(120, device="cuda"), 3, 40, chains, 6)
        yield f"fma_chain {chains}", got, torch.full((120,), want, device="cuda")


def wrong() -> list[str]:
    """A sentence for every result that is not right."""
    found = []
    for name, got, want in results():
        error = (got.double() - want.double()).abs()
        # Sums of up to 576 products of numbers near 1; copies are exact, and so far below it.
        bound = 1e-4 * (1 + want.double().abs()) if "copy" not in name and "transpose" not in name else 0 * error
        if got.shape != want.shape or not bool((error <= bound).all()):
            found.append(f"{name}: off by up to {float(error.max()) if error.numel() else 'its shape'}")
    return found


def clean(device: Any) -> Topic:
    """A row a tool of compute-sanitizer: what it says of a run of all kernels."""
    import os
    import subprocess
    from concurrent.futures import ThreadPoolExecutor

    from kernels.bench.profile_metrics import ProfileError
    from kernels.bench.profiling import tool
    from kernels.sources import project_root

    sanitizer = tool("compute-sanitizer")
    if sanitizer is None:
        raise ProfileError("compute-sanitizer is not on this machine.")
    environment = {**os.environ, "PYTORCH_NO_CUDA_MEMORY_CACHING": "1"}  # every tensor has bounds of its own

    def watched(name: str) -> Row:
        command = [str(sanitizer), "--tool", name, sys.executable, "-m", "kernels.bench.essentials_check"]
        try:
            done = subprocess.run(
                command,
                capture_output=True,
                text=True,
                timeout=LIMIT_S,
                cwd=project_root(),
                env=environment,
                check=False,
            )
        except subprocess.TimeoutExpired:
            return Row(name=name, settings={"status": -1}, said=f"not done after {LIMIT_S} s")
        said = [line.removeprefix("=========").strip() for line in done.stdout.splitlines() if "SUMMARY" in line]
        return Row(name=name, settings={"status": done.returncode}, said="; ".join(said) or done.stdout[-300:])

    with ThreadPoolExecutor(len(TOOLS)) as pool:
        rows = list(pool.map(watched, TOOLS))
    every = {}
    for file, names in SOURCES.items():
        every |= hashes(*names, file=file)
    return Topic(what="compute-sanitizer on every kernel of the Essentials", hashes=every, rows=rows)


def main() -> int:
    found = wrong()
    print("\n".join(found) or "right")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
