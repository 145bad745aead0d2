#!/usr/bin/env python3
"""A sum down the rows, brought together in three ways: `weight_gradients.py [--output FILE.json]`. Needs a GPU.

dweight[n] is the sum over all rows of dout[m, n] * normed[m, n]. Programs add to it with atomics, a row at a time or
their whole share at once, or each leaves a row of partial sums for a second kernel. Each way runs many times on the
same numbers, and the different results are counted, bit by bit; then it is timed.
"""

import argparse
import sys
from pathlib import Path

import triton
import triton.language as tl

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

SHAPE, PROGRAMS, RUNS = (16384, 4096), 264, 50


@triton.jit
def _share(dout_ptr, normed_ptr, out_ptr, M, N, BLOCK_N: tl.constexpr, HOW: tl.constexpr):
    # Program p sums rows p, p + programs, ... It differs in where a sum goes: HOW.
    program = tl.program_id(0)
    n = tl.arange(0, BLOCK_N)
    mask = n < N
    share = tl.zeros([BLOCK_N], tl.float32)
    for row in range(program, M, tl.num_programs(0)):
        at = tl.cast(row, tl.int64) * N + n
        product = tl.load(dout_ptr + at, mask=mask, other=0.0) * tl.load(normed_ptr + at, mask=mask, other=0.0)
        if HOW == "atomic a row":
            tl.atomic_add(out_ptr + n, product, mask=mask, sem="relaxed")
        share += product
    if HOW == "atomic a share":
        tl.atomic_add(out_ptr + n, share, mask=mask, sem="relaxed")
    elif HOW == "partial rows":
        tl.store(out_ptr + program * N + n, share, mask=mask)


WAYS = ("atomic a row", "atomic a share", "partial rows")


def weight_gradient(dout, normed, how, programs=PROGRAMS):
    """dweight (N,) of dout and normed (M, N), contiguous float32, brought together in one of WAYS."""
    import torch

    from kernels.ops.partials import sum_partials

    M, N = dout.shape
    out = torch.zeros(N, device=dout.device)
    target = torch.empty((programs, N), device=dout.device) if how == "partial rows" else out
    _share[(programs,)](dout, normed, target, M, N, BLOCK_N=triton.next_power_of_2(N), HOW=how, num_warps=8)
    if how == "partial rows":
        sum_partials(target, out)
    return out


def records(device, shape, programs, runs, samples, timed):
    """Runs each way `runs` times, counts its results and, where `timed`, measures it: kernel-bench records."""
    import torch

    from kernels.bench.results import Record, hash_today
    from kernels.bench.timer import Arm, buffer_sets, first_call, measure

    generator = torch.Generator("cpu").manual_seed(2)
    dout, normed = (torch.randn(shape, generator=generator).to(device.where) for _ in range(2))
    exact = (dout.double() * normed.double()).sum(dim=0)
    magnitude = (dout.double() * normed.double()).abs().sum(dim=0)
    allowed = 2.0**-24 * (shape[0] ** 0.5 + 8) * float(magnitude.max())
    traffic, source = 8 * dout.numel() + 4 * shape[1], "lessons_src.examples.weight_gradients:weight_gradient"
    made = []
    for how in WAYS:
        results = [weight_gradient(dout, normed, how, programs) for _ in range(runs)]
        different = len({bytes(result.cpu().numpy().tobytes()) for result in results})
        apart = float((torch.stack(results).amax(dim=0) - torch.stack(results).amin(dim=0)).max())
        error = max(float((result.double() - exact).abs().max()) for result in results)
        record = Record(
            op="weight_gradient", implementation=how, ours=True, source=source, source_hash=hash_today(source) or "",
            shape=list(shape), dtype="float32", status="ok", bytes_moved=traffic, flops=2 * dout.numel(),
            config={"programs": programs, "runs": runs, "different": different, "furthest_apart": f"{apart:.3g}"},
            timing="graph", cache="cold", tolerance=[0.0, allowed], max_abs_error=error,
            error_over_tolerance=error / allowed,
        )  # fmt: skip
        if not error <= allowed:
            record.status, record.reason = "wrong", f"A sum is off by {error:.3g}; {allowed:.3g} is allowed."
        made.append(record)
    if timed:
        sets, note = buffer_sets(traffic, device.l2_bytes, "cold")
        inputs, chosen = device.rotated((dout, normed), sets), []
        for record in made:
            how = record.implementation
            once = first_call(device, lambda how=how: weight_gradient(dout, normed, how, programs))
            record.first_call_ms, record.compile_ms = once.first_call_ms, once.compile_ms
            chosen.append(Arm(how, lambda a, b, how=how: weight_gradient(a, b, how, programs)))
        for record, result in zip(made, measure(device, chosen, inputs, samples=samples), strict=True):
            record.samples_us, record.launches, record.buffer_sets = result.samples_us, result.launches, sets
            record.graph_nodes, record.in_l2, record.cache_note = result.nodes, note is not None, note
    return made


def main():
    parser = argparse.ArgumentParser(description="Bring a sum down the rows together in three ways, many times.")
    parser.add_argument("--output", type=Path, default=Path("results/local/weight-gradients.json"), metavar="FILE.json")
    parser.add_argument("--iters", type=int, default=20, help="samples of each way")
    parser.add_argument("--check", action="store_true", help="small, untimed, without a GPU under TRITON_INTERPRET=1")
    chosen = parser.parse_args()
    from kernels.bench.device import CudaDevice, gpu_missing

    if chosen.check:
        from types import SimpleNamespace

        for record in records(SimpleNamespace(where="cpu"), (20, 40), 4, 3, 0, timed=False):
            different, times = record.config["different"], record.config["runs"]
            print(f"{record.implementation:<16}{different} different results in {times} runs, {record.status}")
        return 0
    if missing := gpu_missing():
        print(f"{missing} weight_gradients measures on one.", file=sys.stderr)
        return 3
    from kernels.bench import provenance
    from kernels.bench.limits import copy_limit
    from kernels.bench.results import Writer, complete

    device = CudaDevice()
    device.warm_clocks()
    writer, limit = Writer(chosen.output, provenance.provenance(device)), copy_limit(device)
    writer.add_limit(limit)
    for record in records(device, SHAPE, PROGRAMS, RUNS, chosen.iters, timed=True):
        writer.add(complete(record, limit))
        print(f"{record.implementation:<16}{record.config}  {record.median_us or record.reason} µs")
    print(f"Written: {writer.finish(provenance.clocks())}", file=sys.stderr)
    return 0


if __name__ == "__main__":
    sys.exit(main())
