#!/usr/bin/env python3
"""Times the softmax of one matrix in several layouts: `softmax_layouts.py [--output FILE.json]`. Needs a GPU.

The numbers are the same; where they lie in memory is not. Each layout is read in place by our operator, copied first
and then read, given to torch.softmax, and read by the workshop's kernel with 1, 8 and 16 rows in a program.
"""

import argparse
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

SHAPE = (16384, 1024)  # 64 MiB in float32: more than the L2 cache of an H200
LAYOUTS = ("contiguous", "rows apart", "every second column", "transposed")
ROWS_OF_A_PROGRAM = (1, 8, 16)
WORKSHOP = "lessons_src.solutions.strided_softmax:_softmax_anywhere"
OURS = "kernels.ops.softmax:_launch"


def laid(values, layout):
    """`values` (M, N) in another layout; what is not theirs in the storage is 0."""
    rows, columns = values.shape
    if layout == "contiguous":
        return values.contiguous()
    if layout == "transposed":
        return values.t().contiguous().t()
    width = {"rows apart": columns + 64, "every second column": 2 * columns}[layout]
    stored = values.new_zeros((rows, width))
    view = stored[:, :columns] if layout == "rows apart" else stored[:, ::2]
    return view.copy_(values)


def arms(x):
    """(name, source, call) of each contender on a matrix like x."""
    import torch

    from kernels.ops.softmax import softmax
    from lessons_src.solutions import strided_softmax

    def workshop(block_m):
        def call(each):
            out = torch.empty(each.shape, dtype=each.dtype, device=each.device)
            strided_softmax.softmax(each, out, block_m)
            return out

        return call

    found = [
        ("triton", OURS, softmax),
        ("copy, then triton", OURS, lambda each: softmax(each.contiguous())),
        ("torch", "", lambda each: torch.softmax(each, dim=-1)),
    ]
    return found + [(f"workshop, {rows} rows a program", WORKSHOP, workshop(rows)) for rows in ROWS_OF_A_PROGRAM]


def records(device, shape, samples, timed):
    """Checks every arm on every layout against float64 and, where `timed`, measures it. Yields kernel-bench records."""
    import torch

    from kernels.bench.results import Record, hash_today
    from kernels.bench.run import judge
    from kernels.bench.timer import Arm, buffer_sets, first_call, measure
    from kernels.ops.softmax import OP, reference

    values = torch.randn(shape, generator=torch.Generator("cpu").manual_seed(1)).to(device.where)
    traffic, tolerance, exact = OP.bytes_moved(shape, "float32"), OP.tolerance("float32", shape), reference(values)
    for layout in LAYOUTS:
        x, sound, found = laid(values, layout), [], []
        for name, source, call in arms(x):
            record = Record(
                op="softmax", implementation=name, ours=bool(source), source=source,
                source_hash=(hash_today(source) or "") if source else "", shape=list(shape), dtype="float32",
                config={"layout": layout}, status="ok", bytes_moved=traffic, flops=OP.flops(shape), timing="graph",
                cache="cold", tolerance=list(tolerance),
            )  # fmt: skip
            if timed:
                once = first_call(device, lambda call=call, x=x: call(x))
                record.first_call_ms, record.compile_ms = once.first_call_ms, once.compile_ms
            judged = judge(call(x), exact, tolerance)
            record.max_abs_error, record.error_over_tolerance = judged.max_abs_error, judged.error_over_tolerance
            if not judged.right:
                record.status, record.reason = "wrong", judged.sentence
            elif timed:
                sound.append((Arm(name, call), record))
            found.append(record)
        if timed:
            sets, note = buffer_sets(traffic, device.l2_bytes, "cold")
            inputs = device.rotated((x,), sets)
            measured = measure(device, [arm for arm, _ in sound], inputs, samples=samples)
            for (_, record), result in zip(sound, measured, strict=True):
                record.samples_us, record.launches, record.buffer_sets = result.samples_us, result.launches, sets
                record.graph_nodes, record.in_l2, record.cache_note = result.nodes, note is not None, note
            del inputs, measured
        yield from found


def main():
    parser = argparse.ArgumentParser(description="Time the softmax of one matrix in several layouts.")
    parser.add_argument("--output", type=Path, default=Path("results/local/softmax-layouts.json"), metavar="FILE.json")
    parser.add_argument("--iters", type=int, default=20, help="samples of each arm")
    parser.add_argument("--check", action="store_true", help="small, untimed, without a GPU under TRITON_INTERPRET=1")
    chosen = parser.parse_args()
    from kernels.bench.device import CudaDevice, gpu_missing

    if chosen.check:
        from types import SimpleNamespace

        for record in records(SimpleNamespace(where="cpu"), (6, 40), 0, timed=False):
            print(
                f"{record.config['layout']:<22}{record.implementation:<30}{record.error_over_tolerance:.2f} of allowed"
            )
        return 0
    if missing := gpu_missing():
        print(f"{missing} softmax_layouts measures on one.", file=sys.stderr)
        return 3
    from kernels.bench import provenance
    from kernels.bench.limits import copy_limit
    from kernels.bench.results import Writer, complete

    device = CudaDevice()
    device.warm_clocks()
    writer, limit = Writer(chosen.output, provenance.provenance(device)), copy_limit(device)
    writer.add_limit(limit)
    for record in records(device, SHAPE, chosen.iters, timed=True):
        writer.add(complete(record, limit))
        print(f"{record.config['layout']:<22}{record.implementation:<30}{record.median_us or record.reason} µs")
    print(f"Written: {writer.finish(provenance.clocks())}", file=sys.stderr)
    return 0


if __name__ == "__main__":
    sys.exit(main())
