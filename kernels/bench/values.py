"""The experiment on the values of the inputs: one product, of zeros, of ones, and of random numbers.

The instructions are the same; what differs is how many wires change their state, and so the power. A card at its power
limit lowers its clock. The result is a document of the bench's schema.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from kernels.bench.results import Limit, Record, complete
from kernels.bench.timer import Arm, first_call, measure

OP = "product_of_values"
SIZE = 8192
SETS = 2


def kinds(size: int, device: str) -> dict[str, tuple[Any, Any]]:
    """Both operands of each arm, bfloat16."""
    import torch

    def random() -> Any:
        return torch.randn((size, size), device=device, generator=seeded).bfloat16()

    seeded = torch.Generator(device=device).manual_seed(0)
    zeros, ones = (make((size, size), device=device, dtype=torch.bfloat16) for make in (torch.zeros, torch.ones))
    return {"zeros": (zeros, zeros.clone()), "ones": (ones, ones.clone()), "random": (random(), random())}


def run(device: Any, limit: Limit | None = None, samples: int = 30, size: int = SIZE) -> list[Record]:
    """Times the products in turns, each on its own operands. Raises DeviceFailure."""
    import torch

    found = kinds(size, device.where)
    names = list(found)
    operands = [matrix for pair in found.values() for matrix in pair]
    out = torch.empty((size, size), device=device.where, dtype=torch.bfloat16)
    records, arms = [], []
    for index, name in enumerate(names):

        def call(*given: Any, at: int = 2 * index) -> Any:
            return torch.mm(given[at], given[at + 1], out=given[-1])

        record = Record(
            op=OP,
            implementation=name,
            ours=False,
            shape=[size, size, size],
            dtype="bfloat16",
            status="ok",
            bytes_moved=3 * 2 * size * size,
            flops=2 * size**3,
            timing="graph",
            cache="cold",
        )
        timed = first_call(device, _with(call, (*operands, out)))
        record.first_call_ms, record.compile_ms = timed.first_call_ms, timed.compile_ms
        records.append(record)
        arms.append(Arm(name, call))
    inputs = device.rotated((*operands, out), SETS)
    for record, result in zip(records, measure(device, arms, inputs, samples=samples), strict=True):
        record.samples_us, record.launches = result.samples_us, result.launches
        record.buffer_sets, record.graph_nodes = result.buffer_sets, result.nodes
    return [complete(record, limit) for record in records]


def _with(call: Callable[..., Any], given: tuple[Any, ...]) -> Callable[[], Any]:
    return lambda: call(*given)


def table(records: list[Record]) -> str:
    """A line a kind of values, with its time against that of random numbers."""
    lines = [f"{'values':<10}{'median µs':>11}{'spread µs':>11}{'TFLOP/s':>9}{'of random':>11}"]
    base = next((r.median_us for r in records if r.implementation == "random"), None)
    for r in records:
        if r.median_us is None:
            lines.append(f"{r.implementation:<10}  {r.status}: {r.reason}")
            continue
        share = f"{r.median_us / base:>11.3f}" if base else f"{'–':>11}"
        lines.append(f"{r.implementation:<10}{r.median_us:>11.1f}{r.spread_us or 0:>11.2f}{r.tflop_per_s:>9.1f}{share}")
    return "\n".join(lines)
