#!/usr/bin/env python3
"""Measure what the Essentials say: `essentials.py [--topic NAME] [--output FILE.json]`, about a minute for all topics.

Memory latency and bandwidth by level, copies, transposes, reductions, divergence, residency and register budgets, the
occupancy calculator against the driver; with Nsight Compute and compute-sanitizer on the machine, their reports too.
The document is written after every topic, so a run that is stopped keeps what it has. Topics that the file has already,
of the same GPU, stay.

Exit status: 0 measured, 1 a topic failed, 2 wrong usage, 3 there is no GPU.
"""

import argparse
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from kernels.bench.device import CudaDevice, gpu_missing

TOPICS = (
    "latency",
    "bandwidth",
    "copies",
    "transposes",
    "reductions",
    "divergence",
    "residency",
    "occupancy",
    "counters",
    "reports",
    "clean",
)


def main() -> int:
    parser = argparse.ArgumentParser(description="Measure what the Essentials say.")
    parser.add_argument("--topic", action="append", choices=TOPICS, help="one topic; repeat for more (default: all)")
    parser.add_argument("--output", type=Path, default=Path("results/local/essentials.json"), metavar="FILE.json")
    chosen = parser.parse_args()
    missing = gpu_missing()
    if missing:
        print(f"{missing} These experiments need one.", file=sys.stderr)
        return 3
    return measure(chosen.topic or list(TOPICS), chosen.output)


def measure(names: list[str], output: Path) -> int:
    from kernels.bench import (
        essentials,
        essentials_check,
        essentials_counters,
        essentials_kernels,
        essentials_probes,
        occupancy,
        provenance,
    )
    from kernels.bench.results import ResultsError

    measures = {
        "latency": essentials_probes.latency,
        "bandwidth": essentials_probes.bandwidth,
        "copies": essentials_kernels.copies,
        "transposes": essentials_kernels.transposes,
        "reductions": essentials_kernels.reductions,
        "divergence": essentials_kernels.divergence,
        "residency": essentials_kernels.residency,
        "occupancy": occupancy.check_driver,
        "counters": essentials_counters.counters,
        "reports": essentials_counters.reports,
        "clean": essentials_check.clean,
    }
    try:
        before = essentials.decode(output.read_bytes(), output.name) if output.is_file() else None
    except (OSError, ResultsError) as error:
        print(f"{error} Move it away, or name another --output.", file=sys.stderr)
        return 2
    device = CudaDevice()
    device.warm_clocks()
    document = essentials.Essentials(provenance=provenance.provenance(device))
    if before:
        if before.provenance.gpu != device.name:
            print(f"{output} was measured on {before.provenance.gpu}, and this is {device.name}.", file=sys.stderr)
            return 2
        document.keep(before)

    def save(made: essentials.Essentials) -> None:
        made.clocks_after = provenance.clocks()
        essentials.write(output, made)

    chosen = {name: measures[name] for name in measures if name in names}
    essentials.run(document, chosen, device, save, lambda text: print(text, file=sys.stderr, flush=True))
    print(f"Written: {output}", file=sys.stderr)
    return 1 if any(topic.failed for topic in document.topics.values()) else 0


if __name__ == "__main__":
    sys.exit(main())
