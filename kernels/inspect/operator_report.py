"""What an operator launches for a shape and what the compiler makes of it, as text for a terminal."""

from __future__ import annotations

from collections.abc import Sequence

from kernels.inspect.facts import CompileFacts
from kernels.inspect.launches import InstructionCounts, Launch, LaunchQuery, count_instructions
from kernels.inspect.limits import shared_limit_bytes


def _by_width(counts: dict[int, int]) -> str:
    return ", ".join(f"{count} of {width} bits" for width, count in sorted(counts.items(), reverse=True)) or "none"


def _lines(counts: InstructionCounts) -> list[tuple[str, str]]:
    matrix = ", ".join(f"{count} {name}" for name, count in counts.matrix.items()) or "none"
    return [
        ("instructions", str(counts.total)),
        ("global loads", _by_width(dict(counts.global_loads))),
        ("global stores", _by_width(dict(counts.global_stores))),
        (
            "shared memory",
            f"{counts.shared_loads} loads, {counts.shared_stores} stores, {counts.copies} copies into it",
        ),
        ("local memory", f"{counts.local_accesses} loads and stores"),
        ("atomics", str(counts.atomics)),
        ("matrix (mma, wgmma)", matrix),
        ("barriers", str(counts.barriers)),
        ("shuffles", str(counts.shuffles)),
        ("exp, rsqrt and such", str(counts.special)),
    ]


def report(query: LaunchQuery, found: Sequence[Launch], facts: Sequence[CompileFacts]) -> str:
    """One paragraph a launch: kernel, grid, warps, resources, instructions by kind."""
    shape = "x".join(map(str, query.shape)) or "scalar"
    head = f"{query.op}, {query.dtype} {shape}, sm_{query.arch} with {query.sm_count} multiprocessors"
    if not found:
        return f"{head}: nothing is launched."
    parts = [f"{head}: {len(found)} launch{'es' if len(found) > 1 else ''}"]
    for launch, fact in zip(found, facts, strict=True):
        grid = " x ".join(map(str, launch.grid)) if launch.grid[1:] != (1, 1) else f"{launch.grid[0]:,}"
        tile = f", {launch.tile}" if launch.tile else ""
        limit = shared_limit_bytes(query.arch)
        rows = [
            ("grid", f"{grid} programs of {launch.num_warps} warps ({32 * launch.num_warps} threads){tile}"),
            ("registers", f"{fact.registers} a thread"),
            ("spills", f"{fact.spill_store_bytes} bytes stored, {fact.spill_load_bytes} bytes loaded"),
            ("shared memory size", f"{fact.shared_bytes:,} bytes a block of at most {limit:,}"),
            *_lines(count_instructions(fact)),
        ]
        parts += ["", f"{launch.name}  ({fact.toolchain})", *(f"  {name:<22}{text}" for name, text in rows)]
    parts += [
        "",
        "Instructions are those of the program text: a loop's body counts once for each copy, whatever it runs.",
    ]
    return "\n".join(parts)


def report_cuda(fact: CompileFacts) -> str:
    """One CUDA kernel as nvcc compiles it: resources and instructions by kind. Its launcher chooses the grid."""
    rows = [
        ("registers", f"{fact.registers} a thread"),
        ("spills", f"{fact.spill_store_bytes} bytes stored, {fact.spill_load_bytes} bytes loaded"),
        ("shared memory size", f"{fact.shared_bytes} bytes a block, static; its launcher may ask for more"),
        *_lines(count_instructions(fact)),
    ]
    head = f"{fact.kernel}, sm_{fact.arch}  ({fact.toolchain})"
    return "\n".join([head, *(f"  {name:<22}{text}" for name, text in rows)])


def as_json(query: LaunchQuery, found: Sequence[Launch], facts: Sequence[CompileFacts]) -> dict[str, object]:
    """The same as values for a file."""
    return {
        "op": query.op,
        "shape": list(query.shape),
        "dtype": query.dtype,
        "arch": query.arch,
        "sm_count": query.sm_count,
        "launches": [
            {
                "kernel": launch.kernel,
                "grid": list(launch.grid),
                "num_warps": launch.num_warps,
                "num_stages": launch.num_stages,
                "arguments": dict(launch.signature),
                "registers": fact.registers,
                "spill_store_bytes": fact.spill_store_bytes,
                "spill_load_bytes": fact.spill_load_bytes,
                "shared_bytes": fact.shared_bytes,
                "toolchain": fact.toolchain,
                "instructions": count_instructions(fact).to_json(),
            }
            for launch, fact in zip(found, facts, strict=True)
        ],
    }
