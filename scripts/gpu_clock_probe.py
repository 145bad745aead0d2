#!/usr/bin/env python3
"""How an idle GPU's clock rises under load: `gpu_clock_probe.py [--output FILE.json]`.

The card idles, then runs one fixed kernel again and again, each timed on the device. Early runs are slower, because the
clocks are still on their way up: a loop that starts right after a pause measures that, and not the kernel. It only
reads; no clock is set.
"""

import argparse
import json
import statistics
import sys
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from kernels.bench.device import CudaDevice, gpu_missing
from kernels.bench.provenance import clocks
from kernels.sources.files import write_whole

EDGES_MS = (0, 1, 3, 10, 30, 100, 300, 1000, 3000)


def probe(device: CudaDevice, idle_s: float, load_s: float) -> dict[str, object]:
    """Times of one 2048x2048 float32 product, in order, each with when it began after the first (both in µs)."""
    import torch

    torch.backends.cuda.matmul.allow_tf32 = False
    a, b = (torch.randn(2048, 2048, device="cuda") for _ in range(2))
    out = torch.empty_like(a)
    torch.matmul(a, b, out=out)
    device.synchronize()
    time.sleep(idle_s)
    idle = clocks()
    time.sleep(0.2)
    origin, marks = device.mark(), []
    until = time.monotonic() + load_s
    while time.monotonic() < until:
        for _ in range(8):
            start = device.mark()
            torch.matmul(a, b, out=out)
            marks.append((start, device.mark()))
        marks[-1][1].synchronize()
    loaded = clocks()  # a moment after the last launch; the clock falls more slowly than that
    runs = [(device.elapsed_us(origin, start), device.elapsed_us(start, end)) for start, end in marks]
    return {
        "idle": _plain(idle),
        "loaded": _plain(loaded),
        "began_us": [r[0] for r in runs],
        "took_us": [r[1] for r in runs],
    }


def _plain(value: object) -> dict[str, float | None]:
    return {name: getattr(value, name) for name in value.__struct_fields__}


def table(began_us: list[float], took_us: list[float]) -> list[tuple[str, int, float, float]]:
    """Rows (from when to when, runs, median µs, against the settled time), over the edges above."""
    settled = statistics.median(took_us[-max(1, len(took_us) // 4) :])
    rows = []
    for low, high in zip(EDGES_MS, (*EDGES_MS[1:], float("inf")), strict=True):
        inside = [took for began, took in zip(began_us, took_us, strict=True) if low <= began / 1e3 < high]
        if inside:
            middle = statistics.median(inside)
            label = f"{low} to {high} ms" if high != float("inf") else f"from {low} ms"
            rows.append((label, len(inside), middle, middle / settled))
    return rows


def main() -> int:
    parser = argparse.ArgumentParser(description="Show how the clocks of an idle GPU rise under load.")
    parser.add_argument("--idle", type=float, default=3.0, help="seconds of rest before the load (default 3)")
    parser.add_argument("--load", type=float, default=2.0, help="seconds of load (default 2)")
    parser.add_argument("--output", type=Path, metavar="FILE.json", help="also write the samples")
    chosen = parser.parse_args()
    if chosen.idle < 0 or chosen.load <= 0:
        parser.error("--idle must not be negative, and --load must be more than 0 seconds.")
    missing = gpu_missing()
    if missing:
        print(f"{missing} The probe needs one.", file=sys.stderr)
        return 3
    device = CudaDevice()
    found = probe(device, chosen.idle, chosen.load)
    print(f"{device.name}: {found['idle']['sm_mhz']} MHz at rest, {found['loaded']['sm_mhz']} MHz under load")
    print(f"{'after the first launch':<24}{'runs':>6}{'median µs':>12}{'of settled':>12}")
    for label, count, middle, share in table(found["began_us"], found["took_us"]):
        print(f"{label:<24}{count:>6}{middle:>12.1f}{share:>11.2f}x")
    if chosen.output:
        write_whole(chosen.output, json.dumps({"gpu": device.name, **found}, allow_nan=False).encode() + b"\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
