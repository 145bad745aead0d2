"""The experiment on specialization: what Triton knows about a width, and what that is worth.

Five kernels double the same rows. They differ in what the compiler knows of the width and the row stride: a multiple of
16, some number, or the number itself. The compiler's side needs no GPU; the times are written by the bench's schema.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from kernels.bench.results import Limit, Record, complete, hash_today
from kernels.bench.timer import Arm, buffer_sets, first_call, measure

MODULE = "kernels.bench.scale_rows"
ROWS = 16384
BLOCK_N = 4096
NUM_WARPS = 8
OP = "scale_rows"


@dataclass(frozen=True)
class Variant:
    """One kernel on one width. `knows` says what the compiler knows of the width and of the row stride."""

    name: str
    kernel: str
    columns: int
    knows: str


VARIANTS = (
    Variant("run time, multiple of 16", "_scale_rows", 4096, "a multiple of 16"),
    Variant("run time, odd", "_scale_rows", 4095, "nothing"),
    Variant("run time, not looked at", "_scale_rows_unknown", 4096, "nothing"),
    Variant("constant, multiple of 16", "_scale_rows_constant", 4096, "the number"),
    Variant("constant, odd", "_scale_rows_constant", 4095, "the number"),
)


def compiled(arch: int = 90) -> list[Any]:
    """`kernels.inspect.CompileFacts` of the variants, in their order. Needs Triton and no GPU."""
    from kernels.inspect import TritonRequest, compile_triton_many

    pointers = {"x_ptr": "*fp32", "out_ptr": "*fp32"}
    return compile_triton_many(
        [
            TritonRequest(
                f"{MODULE}:{variant.kernel}",
                {**pointers, "N": variant.columns, "stride": variant.columns, "BLOCK_N": BLOCK_N},
                arch,
                NUM_WARPS,
            )
            for variant in VARIANTS
        ]
    )


def facts_of(facts: Any) -> dict[str, int | str]:
    """What a record keeps of a compiled kernel: registers, instructions, loads and stores by their bits."""
    from kernels.inspect.launches import count_instructions

    counts = count_instructions(facts)
    kinds = {"loads": counts.global_loads, "stores": counts.global_stores}
    words = {
        name: ", ".join(f"{count} of {width} bits" for width, count in sorted(found.items(), reverse=True)) or "none"
        for name, found in kinds.items()
    }
    return {"registers": facts.registers, "instructions": counts.total, **words}


def table(facts: Sequence[Any], records: Sequence[Record] = ()) -> str:
    """A line a variant: what the compiler knows, instructions, widths of loads, and times where there are any."""
    head = f"{'variant':<26}{'columns':>8}  {'knows':<18}{'registers':>10}{'instructions':>14}  {'global loads':<24}"
    lines = [head + ("median µs  spread µs" if records else "")]
    for index, (variant, fact) in enumerate(zip(VARIANTS, facts, strict=True)):
        kept = facts_of(fact)
        line = (
            f"{variant.name:<26}{variant.columns:>8}  {variant.knows:<18}{kept['registers']:>10}"
            f"{kept['instructions']:>14}  {kept['loads']:<24}"
        )
        if records:
            record = records[index]
            line += (
                f"{record.reason}"
                if record.median_us is None
                else f"{record.median_us:9.2f}  {record.spread_us or 0:9.3f}"
            )
        lines.append(line)
    return "\n".join(lines)


def call_of(variant: Variant) -> Callable[[Any, Any], Any]:
    """Launches the variant on x and out, (ROWS, columns) and contiguous."""
    from kernels.bench import scale_rows

    kernel = getattr(scale_rows, variant.kernel)

    def call(x: Any, out: Any) -> Any:
        kernel[(x.shape[0],)](x, out, x.shape[1], x.stride(0), BLOCK_N=BLOCK_N, num_warps=NUM_WARPS)
        return out

    return call


def blank(variant: Variant, facts: Any | None) -> Record:
    """The variant's record before it is measured."""
    source = f"{MODULE}:{variant.kernel}"
    return Record(
        op=OP,
        implementation=variant.name,
        ours=True,
        source=source,
        source_hash=hash_today(source) or "",
        shape=[ROWS, variant.columns],
        dtype="float32",
        config={"knows": variant.knows, **(facts_of(facts) if facts is not None else {})},
        status="ok",
        bytes_moved=2 * 4 * ROWS * variant.columns,
        flops=ROWS * variant.columns,
        timing="graph",
        cache="cold",
        tolerance=[0.0, 0.0],
    )


def run(device: Any, facts: Sequence[Any] | None, limit: Limit | None, samples: int = 30) -> list[Record]:
    """Checks and times every variant; widths are timed apart, since their buffers differ. Raises DeviceFailure."""
    import torch

    found = [blank(variant, facts[i] if facts else None) for i, variant in enumerate(VARIANTS)]
    for columns in dict.fromkeys(variant.columns for variant in VARIANTS):
        chosen = [(v, r) for v, r in zip(VARIANTS, found, strict=True) if v.columns == columns]
        x = torch.randn((ROWS, columns), device=device.where)
        sound = []
        for variant, record in chosen:
            out = torch.full_like(x, float("nan"))
            timed = first_call(device, lambda v=variant, x=x, out=out: call_of(v)(x, out))
            record.first_call_ms, record.compile_ms = timed.first_call_ms, timed.compile_ms
            record.max_abs_error = (out - 2 * x).abs().max().item()
            if record.max_abs_error == 0.0:
                sound.append((variant, record))
            else:
                record.status, record.reason = "wrong", "The result is not twice the input."
        sets, note = buffer_sets(chosen[0][1].bytes_moved, device.l2_bytes, "cold")
        inputs = device.rotated((x, torch.empty_like(x)), sets)
        results = measure(device, [Arm(v.name, call_of(v)) for v, _ in sound], inputs, samples=samples)
        for (_, record), result in zip(sound, results, strict=True):
            record.samples_us, record.launches = result.samples_us, result.launches
            record.buffer_sets, record.graph_nodes = result.buffer_sets, result.nodes
            record.in_l2, record.cache_note = note is not None, note
    return [complete(record, limit) for record in found]
