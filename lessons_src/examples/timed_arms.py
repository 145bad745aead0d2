"""What the timing programs of Workshops A2 and A3 share: arms are checked against float64, then timed side by side."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any


@dataclass(frozen=True)
class Timed:
    """One contender: its name, the symbol whose code is timed ("" for a library's), and the call."""

    name: str
    source: str
    call: Callable[..., Any]


def records(device, op, shape, dtype, tensors, exact, arms, samples: int) -> Iterator:
    """kernel-bench records of `arms` on `tensors`; samples 0 checks them and times nothing.

    op: the operator whose tolerance, bytes and operations count. exact: its result in float64.
    """
    from kernels.bench.results import Record, hash_today
    from kernels.bench.run import judge_all, results
    from kernels.bench.timer import Arm, buffer_sets, first_call, measure

    traffic, tolerance, sound, found = op.bytes_moved(shape, dtype), op.tolerance(dtype, shape), [], []
    for arm in arms:
        record = Record(
            op=op.name, implementation=arm.name, ours=bool(arm.source), source=arm.source,
            source_hash=(hash_today(arm.source) or "") if arm.source else "", shape=list(shape), dtype=dtype, config={},
            status="ok", bytes_moved=traffic, flops=op.flops(shape), timing="graph", cache="cold",
            tolerance=list(tolerance),
        )  # fmt: skip
        if samples:
            once = first_call(device, lambda arm=arm: arm.call(*tensors))
            record.first_call_ms, record.compile_ms = once.first_call_ms, once.compile_ms
        judged = judge_all(results(arm.call(*tensors)), results(exact), tolerance)
        record.max_abs_error, record.error_over_tolerance = judged.max_abs_error, judged.error_over_tolerance
        if not judged.right:
            record.status, record.reason = "wrong", judged.sentence
        elif samples:
            sound.append((Arm(arm.name, arm.call), record))
        found.append(record)
    if sound:
        sets, note = buffer_sets(traffic, device.l2_bytes, "cold")
        measured = measure(device, [arm for arm, _ in sound], device.rotated(tensors, sets), samples=samples)
        for (_, record), result in zip(sound, measured, strict=True):
            record.samples_us, record.launches, record.buffer_sets = result.samples_us, result.launches, sets
            record.graph_nodes, record.in_l2, record.cache_note = result.nodes, note is not None, note
    yield from found


def run(found: Callable[[Any, int], Iterator], output: Path, samples: int) -> int:
    """Measure `found(device, samples)` on this machine's GPU and write a document; 3 where there is no GPU."""
    import sys

    from kernels.bench.device import CudaDevice, gpu_missing

    if missing := gpu_missing():
        print(f"{missing} This program measures on one.", file=sys.stderr)
        return 3
    from kernels.bench import provenance
    from kernels.bench.limits import copy_limit
    from kernels.bench.results import Writer, complete

    device = CudaDevice()
    device.warm_clocks()
    writer, limit = Writer(output, provenance.provenance(device)), copy_limit(device)
    writer.add_limit(limit)
    for record in found(device, samples):
        writer.add(complete(record, limit))
        shape = "x".join(map(str, record.shape))
        took = f"{record.median_us:,.1f} µs" if record.median_us else record.reason
        print(f"{shape:<22}{record.implementation:<34}{took}", flush=True)
    print(f"Written: {writer.finish(provenance.clocks())}", file=sys.stderr)
    return 0
