"""The experiment on the three products of a training step: which lacks parallelism, and what slices cost.

For out = a @ b with M tokens, K features and N results, the step needs two products more: da = dout @ b.T and
db = a.T @ dout. Each is timed by itself, with its transposed operand read in place, beside the library. db, a sum over
all tokens with a small output, is timed in 1 to 16 slices as well, added up in a fixed order, and in slices that meet
in atomic additions, which whoever runs the experiment hands over. Every arm of db also says how many different results
it gave for the same tensors.
"""

import dataclasses
import hashlib
from collections.abc import Callable, Sequence
from typing import Any

from kernels.bench.results import Record
from kernels.bench.run import Options

TOKENS, FEATURES, RESULTS = 16384, 1024, 1024
SLICES = (1, 2, 4, 8, 16)
RUNS = 20  # on the same tensors
# One tile for all numbers of slices, so that they differ in nothing else.
TILE = {"path": "persistent", "block_m": 128, "block_n": 128, "block_k": 64, "num_warps": 8, "num_stages": 4}


class Repeated:
    """A product that is also run RUNS times on the same tensors: `configuration` tells how many results differed."""

    tune_ms = staticmethod(lambda *_: None)  # nothing is tuned

    def __init__(self, call: Callable[..., Any], **config: int | str) -> None:
        self.call, self.config = call, config

    def __call__(self, a: Any, b: Any) -> Any:
        return self.call(a, b)

    def configuration(self, a: Any, b: Any) -> dict[str, int | str]:
        seen = {_digest(self.call(a, b)) for _ in range(RUNS)}
        return {**self.config, "runs": RUNS, "different": len(seen)}


def _digest(tensor: Any) -> str:
    import torch

    return hashlib.sha256(tensor.contiguous().view(torch.uint8).cpu().numpy().tobytes()).hexdigest()


def _sliced(splits: int) -> Callable[..., Any]:
    def call(a: Any, b: Any) -> Any:
        import torch

        from kernels.ops.matmul import launch_matmul

        out = torch.empty((a.shape[0], b.shape[1]), dtype=a.dtype, device=a.device)
        return launch_matmul(a, b, out, splits=splits, **TILE)

    return call


def products(atomics: Callable[[Any, Any, int], Any] | None = None, source: str = "") -> list[Any]:
    """The three products as operators of the bench, each with one shape (rows, columns, k).

    atomics(a, b, slices) is the product with atomic additions, and `source` names it; left out, it has no arm.
    """
    from kernels.ops import matmul
    from kernels.ops.op import Case, Implementation

    def inputs(transposed: str) -> Callable[..., tuple[Any, ...]]:
        def make(shape: tuple[int, ...], dtype: str, device: str, seed: int, padding: int = 0) -> tuple[Any, ...]:
            given = matmul.inputs(shape, dtype, device, seed, padding)
            return tuple(x.t().contiguous().t() if name in transposed else x for name, x in zip("ab", given))

        return make

    def product(name: str, shape: tuple[int, int, int], transposed: str, arms: Sequence[Any] = ()) -> Any:
        ours = matmul.OP.implementation("triton")
        library = Implementation("torch", lambda a, b: a @ b, "torch", "")
        return dataclasses.replace(
            matmul.OP,
            name=name,
            inputs=inputs(transposed),
            implementations=(ours, library, *arms),
            benches=(Case(shape, "one product of a training step"),),
        )

    arms = [
        Implementation(
            f"slices={n}", Repeated(_sliced(n), slices=n), "triton", "kernels.ops.matmul:_launch", True, ("bfloat16",)
        )
        for n in SLICES
    ]
    arms.append(Implementation("torch, repeated", Repeated(lambda a, b: a @ b), "torch", ""))
    if atomics is not None:
        for n in SLICES[1:]:
            call = Repeated(lambda a, b, n=n: atomics(a, b, n), slices=n)
            arms.append(Implementation(f"atomic slices={n}", call, "triton", source, True, ("bfloat16",)))
    return [
        product("matmul_out", (TOKENS, RESULTS, FEATURES), ""),
        product("matmul_da", (TOKENS, FEATURES, RESULTS), "b"),
        product("matmul_db", (FEATURES, RESULTS, TOKENS), "a", arms),
    ]


def options(samples: int = 30) -> Options:
    """What `kernels.bench.run.run` is asked."""
    return Options(samples=samples, dtypes=("bfloat16",))


def tiles(shape: Sequence[int], block_m: int = TILE["block_m"], block_n: int = TILE["block_n"]) -> int:
    """Tiles of an output: the programs that can work on it before k is cut."""
    return -(-shape[0] // block_m) * -(-shape[1] // block_n)


def table(records: Sequence[Record]) -> str:
    """A line an arm: product, tiles, time, spread, ratio to the library, and how many results differed."""
    lines = [f"{'product':<12}{'arm':<20}{'tiles':>6}{'median µs':>12}{'spread µs':>11}{'of library':>12}  results"]
    for record in records:
        if record.median_us is None:
            lines.append(f"{record.op:<12}{record.implementation:<20}{record.status}: {record.reason}")
            continue
        peer = next((r for r in records if r.op == record.op and r.implementation == "torch"), None)
        share = f"{peer.median_us / record.median_us:.3f}" if peer and peer.median_us else "–"
        said = f"{record.config['different']} of {record.config['runs']}" if "different" in record.config else ""
        times = f"{record.median_us:>12.2f}{record.spread_us or 0:>11.3f}{share:>12}"
        lines.append(f"{record.op:<12}{record.implementation:<20}{tiles(record.shape):>6}{times}  {said}")
    return "\n".join(lines)
