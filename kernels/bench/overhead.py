"""The experiment on wrapper overhead: what a call costs the host, for each way to make it.

The tensor is so small that the GPU always waits for the host. A sample is a batch of calls without waiting in between,
divided by their number; the GPU is waited for between batches, outside the clock. `overhead.schema.json` beside this
file describes the document; `python -m kernels.bench.overhead` writes it again.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import msgspec

from kernels.bench import documents
from kernels.bench.rates import median, ratio, spread
from kernels.bench.results import Clocks, Provenance
from kernels.sources.files import write_whole

SCHEMA_VERSION = 1
SHAPE = (32, 127)
CALLS = 200  # in a batch: fewer than the launches that the driver queues before it makes the host wait
SCHEMA = Path(__file__).with_name("overhead.schema.json")
BASELINE = "torch eager"


class Way(msgspec.Struct, kw_only=True, forbid_unknown_fields=True):
    """One way to call: host time of a call in µs, or why it could not be measured. `of_eager` is against BASELINE."""

    name: str
    what: str
    status: Literal["ok", "unavailable"] = "ok"
    reason: str | None = None
    samples_us: list[float] = msgspec.field(default_factory=list)
    median_us: float | None = None
    spread_us: float | None = None
    of_eager: float | None = None


class Overhead(msgspec.Struct, kw_only=True, forbid_unknown_fields=True):
    """One run of the experiment on one operator."""

    schema_version: int = SCHEMA_VERSION
    op: str
    shape: list[int]
    dtype: str
    calls_in_sample: int
    provenance: Provenance
    clocks_after: Clocks | None = None
    ways: list[Way]


@dataclass(frozen=True)
class Call:
    """A way to be measured. `make` prepares it and returns what is called without arguments, or raises a reason."""

    name: str
    what: str
    make: Callable[[], Callable[[], object]]


def measure(
    ways: Sequence[Call],
    synchronize: Callable[[], None],
    clock_us: Callable[[], float] = lambda: time.perf_counter_ns() / 1e3,
    samples: int = 30,
    calls: int = CALLS,
) -> list[Way]:
    """Times the ways in turns, so that a slow moment of the host meets all of them.

    A way whose preparation or first call raises is "unavailable", with the error's first line as the reason.
    """
    if samples < 1 or calls < 1:
        raise ValueError(f"At least one sample of one call is needed; got {samples} of {calls}.")
    found = [Way(name=way.name, what=way.what) for way in ways]
    ready: list[Callable[[], object] | None] = []
    for way, entry in zip(ways, found, strict=True):
        try:
            call = way.make()
            for _ in range(3):
                call()
            synchronize()
            ready.append(call)
        except Exception as error:
            entry.status = "unavailable"
            entry.reason = f"{type(error).__name__}: {(str(error).strip().splitlines() or ['no message'])[0]}"
            ready.append(None)
    for index in range(samples):
        for turn in range(len(ready)):
            at = (index + turn) % len(ready)
            call = ready[at]
            if call is None:
                continue
            synchronize()
            start = clock_us()
            for _ in range(calls):
                call()
            found[at].samples_us.append((clock_us() - start) / calls)
    synchronize()
    for entry in found:
        entry.median_us, entry.spread_us = median(entry.samples_us), spread(entry.samples_us)
    base = next((entry.median_us for entry in found if entry.name == BASELINE), None)
    for entry in found:
        entry.of_eager = ratio(entry.median_us, base)
    return found


def ways_of(op: Any, inputs: tuple[Any, ...]) -> list[Call]:
    """The ways to call an operator on these CUDA tensors."""
    import torch

    ours, theirs = op.implementation("triton").call, op.implementation("torch").call

    def custom() -> Callable[[], object]:
        from kernels.ops.library import NAMESPACE

        registered = getattr(getattr(torch.ops, NAMESPACE), op.name)  # AttributeError where it is not registered
        extra = [a.default_value for a in registered.default._schema.arguments[len(inputs) :]]
        return lambda: registered(*inputs, *extra)

    def autograd(call: Callable[..., object]) -> Callable[[], object]:
        tracked = tuple(t.detach().clone().requires_grad_() if t.is_floating_point() else t for t in inputs)
        return lambda: call(*tracked)

    def replay() -> Callable[[], object]:
        ours(*inputs)
        torch.cuda.synchronize()
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph):
            kept = ours(*inputs)

        def run(kept: object = kept) -> None:
            graph.replay()

        return run

    return [
        Call(BASELINE, "PyTorch's own call, no gradient", lambda: lambda: theirs(*inputs)),
        Call("torch eager, autograd", "PyTorch's own call, a gradient recorded", lambda: autograd(theirs)),
        Call("direct call", "our function, no gradient", lambda: lambda: ours(*inputs)),
        Call("custom operator", "torch.ops: the dispatcher finds our kernel", custom),
        Call("direct call, autograd", "our function, a gradient recorded", lambda: autograd(ours)),
        Call("CUDA graph", "replay of one captured call of ours", replay),
    ]


def table(document: Overhead) -> str:
    """A line a way."""
    shape = "x".join(map(str, document.shape))
    lines = [f"{document.op}, {document.dtype} {shape}, {document.provenance.gpu}: host time of a call"]
    lines.append(f"{'way':<24}{'median µs':>10}{'spread µs':>11}{'of eager':>10}  what")
    for way in document.ways:
        if way.median_us is None:
            lines.append(f"{way.name:<24}{'–':>10}{'–':>11}{'–':>10}  {way.reason}")
        else:
            share = "–" if way.of_eager is None else f"{way.of_eager:.2f} x"
            lines.append(f"{way.name:<24}{way.median_us:>10.2f}{way.spread_us or 0:>11.3f}{share:>10}  {way.what}")
    return "\n".join(lines)


def encode(document: Overhead) -> bytes:
    """Strict JSON. Raises ResultsError where a time is no number."""
    return documents.encoded(document)


def decode(data: bytes, name: str = "file") -> Overhead:
    """Reads what `encode` wrote. Raises ResultsError with a sentence."""
    return documents.decoded(data, Overhead, name, "document of the overhead experiment")


def schema_text() -> str:
    """JSON Schema (draft 2020-12) of `Overhead`, as it stands in the file."""
    return documents.schema_text(Overhead, "wrapper overhead")


if __name__ == "__main__":
    write_whole(SCHEMA, schema_text())
    print(SCHEMA.name)
