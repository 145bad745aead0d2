"""The row plan of `kernels.ops.row_plan` against every path and against the rule that it replaced, on a grid of shapes.

The arms are softmax as planned, each path with the plan's own tile and warps, and the old rule. What comes out is an
ordinary results document, so a record that no longer fits the kernels is known as stale.
"""

import math
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any

from kernels.bench.results import Record, Writer
from kernels.bench.run import Options, run

QUICK = (
    (131072, 128),
    (4096, 1024),
    (16384, 4096),
    (8192, 16384),
    (4096, 32768),
    (512, 131072),
    (64, 16384),
    (32, 1 << 20),
)
FULL = tuple((max(1, min(1 << 18, (1 << shift) // n)), n) for shift in (22, 27) for n in (1 << k for k in range(7, 21)))
FEW = tuple((m, n) for m in (1, 16, 100) for n in (8192, 65536, 1 << 20))
ELEMENT_BYTES = {"float32": 4, "float16": 2, "bfloat16": 2}
_WIDEST_BLOCK, _WARPS = 32768, 32


@dataclass(frozen=True)
class Score:
    """One shape and dtype: medians in µs of the plan, of the fastest arm and of the old rule (None: not measured)."""

    shape: tuple[int, ...]
    dtype: str
    plan_us: float
    best: str
    best_us: float
    old_us: float | None


def old_rule(columns: int, element_bytes: int) -> str:
    """What the rule before this plan would have launched, as a variant: a block wherever a row fits, else a loop.

    It took twice as many narrow rows to a program as the plan does; its tiles of several rows are not made again.
    """
    path = "block" if columns <= _WIDEST_BLOCK else "looped"
    widest = _WIDEST_BLOCK if path == "block" else _WARPS * 32 * 64 // element_bytes
    block = min(1 << (columns - 1).bit_length(), widest)
    rows = max(1, 2048 // block) if path == "block" and block < 1024 else 1
    warps = min(max(rows * block * element_bytes // (32 * 64), 4), _WARPS)
    return f"path={path},block={block},warps={warps}"


def measure_grid(
    device: Any,
    op: Any,
    shapes: Sequence[tuple[int, int]],
    options: Options,
    writer: Writer,
    tell: Callable[[str], None],
    *,
    paths: Iterable[str],
    seconds: float = math.inf,
    now: Callable[[], float] = time.monotonic,
) -> bool:
    """Measure `op` on the shapes in the dtypes of `options`, case by case into `writer`; False where time ran out.

    A case that has begun is finished; `seconds` is looked at before each. Raises DeviceFailure where the device gave
    up.
    """
    end = now() + seconds
    for shape in shapes:
        for dtype in options.dtypes or op.dtypes:
            if now() >= end:
                return False
            old = old_rule(shape[-1], ELEMENT_BYTES[dtype])
            arms = tuple(dict.fromkeys((*(f"path={path}" for path in paths), *options.variants, old)))
            here = replace(options, shapes=(shape,), dtypes=(dtype,), only=("triton",), variants=arms)
            run(device, [op], here, writer, tell)
    return True


def scores(records: Iterable[Record]) -> list[Score]:
    """A score for each shape and dtype whose plan was measured, in order."""
    cases: dict[tuple[tuple[int, ...], str], list[Record]] = {}
    for record in records:
        if record.status == "ok" and record.median_us is not None:
            cases.setdefault((tuple(record.shape), record.dtype), []).append(record)
    found = []
    for (shape, dtype), arms in cases.items():
        plan = next((arm for arm in arms if arm.implementation == "triton"), None)
        if plan is None:
            continue
        best = min(arms, key=lambda arm: arm.median_us)
        rule = old_rule(shape[-1], ELEMENT_BYTES[dtype])
        old = next((arm.median_us for arm in arms if arm.implementation == f"triton[{rule}]"), None)
        found.append(Score(shape, dtype, plan.median_us, best.implementation, best.median_us, old))
    return found


def table(found: Sequence[Score]) -> str:
    """The scores as lines of text, and their geometric means; 1.00 is as fast as the best, and as the old rule."""
    if not found:
        return "No case was measured: there is nothing to score."
    lines = [f"{'shape':>14} {'dtype':<8} {'plan µs':>8} {'best µs':>8} {'plan/best':>9} {'old/plan':>8}  best"]
    for score in found:
        shape = " x ".join(map(str, score.shape))
        old = "-" if score.old_us is None else f"{score.old_us / score.plan_us:.2f}"
        best = score.best.removeprefix("triton") or "[the plan]"
        lines.append(
            f"{shape:>14} {score.dtype:<8} {score.plan_us:>8.1f} {score.best_us:>8.1f} "
            f"{score.plan_us / score.best_us:>9.2f} {old:>8}  {best}"
        )
    against_best = _mean([score.plan_us / score.best_us for score in found])
    against_old = _mean([score.old_us / score.plan_us for score in found if score.old_us is not None])
    lines.append(f"geometric means: the plan takes {against_best:.3f} times the time of the best arm;")
    lines.append(f"the old rule takes {against_old:.3f} times the time of the plan, {len(found)} cases.")
    return "\n".join(lines)


def _mean(ratios: Sequence[float]) -> float:
    return math.exp(sum(map(math.log, ratios)) / len(ratios)) if ratios else math.nan
