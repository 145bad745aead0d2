"""The record of the CUDA ladder: each rung's time beside cuBLAS, variants, counters, and the patterns around it.

`scripts/ladder.py` measures the rungs on a GPU with compute capability 9.0. The committed record also holds variants
that were tried, counters of Nsight Compute, and what came of building the PyTorch extension. Pages read it with `read`.
"""

from __future__ import annotations

import json
import statistics
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from kernels.sources import project_root

FILE = Path("results/h200/experiments/ladder.json")
COMMAND = "python scripts/ladder.py --output results/local/ladder.json"
MISSING = f"Not measured yet on this GPU. `{COMMAND}` measures it."
LIBRARY = "cublas"


@dataclass(frozen=True)
class Rung:
    """One arm at one size. Times are in µs, `of_cublas` is cuBLAS's time in the same run over this one's."""

    name: str
    dtype: str
    size: int
    median_us: float
    spread_us: float
    tflop_per_s: float
    of_cublas: float


def read(path: Path | None = None) -> dict[str, Any] | None:
    """The committed record, or None where there is none yet."""
    file = path or project_root() / FILE
    return json.loads(file.read_text(encoding="utf-8")) if file.is_file() else None


def rungs(document: dict[str, Any], dtype: str, size: int, variants: bool = False) -> list[Rung]:
    """The rungs of a dtype and a size in the order of the ladder, cuBLAS last; with `variants`, everything measured.

    An arm that was timed twice counts once, as it was timed first.
    """
    from kernels.cuda.matmul import RUNGS

    order = {name: number for number, name in enumerate((*RUNGS, LIBRARY))}
    found: dict[str, Rung] = {}
    for row in document.get("times", ()):
        if row["dtype"] == dtype and row["size"] == size and (variants or row["name"] in order):
            kept = {key: row[key] for key in Rung.__dataclass_fields__}
            found.setdefault(row["name"], Rung(**kept))
    return sorted(found.values(), key=lambda rung: (order.get(rung.name, len(order)), rung.name))


def launchers() -> dict[str, str]:
    """The launcher of each rung, and of each pattern that is measured beside them, as kernels.sources names it."""
    from kernels.cuda.matmul import FLOAT32_RUNGS, HOPPER_RUNGS

    files = dict.fromkeys(FLOAT32_RUNGS, "matmul") | {rung: rung for rung in ("matmul_wmma", *HOPPER_RUNGS)}
    files |= {
        f"{kernel}{form}": "fused"
        for kernel in ("fused_bias_relu_scale", "fused_bias_gelu")
        for form in ("", "_float4")
    }
    files |= {"dequantize": "dequantize", "dequantize_matmul": "dequantize"}
    files |= {"grid_sum_two_launches": "grid_sum", "grid_sum_last_block": "grid_sum"}
    files["grid_sum_cooperative"] = "grid_sum_cooperative"
    files |= {f"histogram_{kind}": "histogram" for kind in ("plain", "shared", "replicated")}
    return {kernel: f"cuda/{file}.cu:launch_{kernel}" for kernel, file in files.items()}


def hashes() -> dict[str, str]:
    """A fingerprint of each launcher and of all that it reaches, today."""
    from kernels.sources import fingerprint

    return {place: fingerprint(place) for place in launchers().values()}


def stale(document: dict[str, Any]) -> list[str]:
    """The launchers whose code is not the measured one any more."""
    today = hashes()
    return [place for place, then in document.get("hashes", {}).items() if today.get(place) != then]


def stale_rungs(document: dict[str, Any]) -> set[str]:
    """The rungs that were measured with earlier code than today's."""
    changed = set(stale(document))
    return {kernel for kernel, place in launchers().items() if place in changed}


def counter(document: dict[str, Any], kernel: str, name: str) -> float | None:
    """A counter of Nsight Compute, such as "dram__bytes_read.sum", for one launch at `document["counters_size"]`."""
    return document.get("counters", {}).get(kernel, {}).get(name)


def summary(name: str, samples_us: Sequence[float], **more: Any) -> dict[str, Any]:
    """A row of the record: median, and the spread of the middle half."""
    ordered = sorted(samples_us)
    quarters = statistics.quantiles(ordered, n=4) if len(ordered) > 1 else [ordered[0]] * 3
    return {
        "name": name,
        "median_us": statistics.median(ordered),
        "spread_us": quarters[2] - quarters[0],
        "samples": len(ordered),
        **more,
    }


def measure_rungs(
    sizes: Sequence[int], samples: int = 10, say: Callable[[str], object] = print
) -> list[dict[str, Any]]:
    """Times every rung that this GPU can run, and cuBLAS beside it, on square matrices; rows as `rungs` reads them.

    Each rung's product is compared with float64 first, and one that is wrong raises ValueError.
    """
    import torch

    from kernels.bench.device import CudaDevice
    from kernels.bench.timer import Arm, measure
    from kernels.cuda import matmul

    torch.backends.cuda.matmul.allow_tf32 = False
    device = CudaDevice()
    hopper = torch.cuda.get_device_capability() == (9, 0)
    rows: list[dict[str, Any]] = []
    for dtype, names in (("float32", matmul.FLOAT32_RUNGS), ("bfloat16", matmul.BFLOAT16_RUNGS)):
        usable = [name for name in names if hopper or name not in matmul.HOPPER_RUNGS]
        for name in usable:
            _check(name, getattr(torch, dtype))
        for size in sizes:
            copies = max(2, min(8, 3 * device.l2_bytes // (3 * size * size * getattr(torch, dtype).itemsize) + 2))
            sets = [
                tuple(torch.randn(size, size, device="cuda").to(getattr(torch, dtype)) for _ in "ab")
                for _ in range(copies)
            ]
            arms = [Arm(LIBRARY, torch.mm), *(Arm(name, getattr(matmul, name)) for name in usable)]
            found = measure(device, arms, sets, samples=samples)
            library_us = statistics.median(found[0].samples_us)
            for one in found:
                row = summary(one.name, one.samples_us, dtype=dtype, size=size)
                row["tflop_per_s"] = 2 * size**3 / row["median_us"] / 1e6
                row["of_cublas"] = library_us / row["median_us"]
                rows.append(row)
                say(f"{dtype} {size}: {one.name} {row['tflop_per_s']:.1f} TFLOP/s, {row['of_cublas']:.2f} of cuBLAS")
    return rows


def _check(name: str, dtype: Any) -> None:
    import torch

    from kernels.cuda import matmul

    m, n, k = 257, 520, 1000
    a, b = torch.randn(m, k, device="cuda").to(dtype), torch.randn(k, n, device="cuda").to(dtype)
    want = a.double() @ b.double()
    error = float((getattr(matmul, name)(a, b).double() - want).abs().max())
    allowed = 1e-3 if dtype == torch.float32 else 2.0**-8 * float(want.abs().max()) + 1e-3
    if not error <= allowed:
        raise ValueError(f"{name} is off by {error:.3g} at {m} x {n} x {k}, and {allowed:.3g} is allowed.")
