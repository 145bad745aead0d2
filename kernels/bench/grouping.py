"""The experiment on the order of tiles: one product, one tile, and how many rows of tiles go together.

Every arm runs the readable kernel in the same tile, so they differ in which tile a program takes and in nothing else.
GROUP_M = 1 goes through the output row by row; a group of g rows of tiles goes down g tiles before one to the right,
so that programs which run together share rows of a and columns of b, if the L2 cache would not hold b anyway.
"""

from collections.abc import Sequence

from kernels.bench.compare import slower
from kernels.bench.rates import ratio
from kernels.bench.results import Record
from kernels.bench.run import Options

TILE = {"path": "tiles", "splits": 1, "block_m": 128, "block_n": 128, "block_k": 64, "num_warps": 8, "num_stages": 3}
GROUPS = (1, 2, 4, 8, 16, 32)
SHAPES = (
    (2048, 2048, 2048),  # b is 8 MiB in two-byte elements: any L2 cache of a large GPU holds it
    (4096, 4096, 4096),  # 32 MiB: a 60 MB cache still does
    (8192, 8192, 8192),  # 128 MiB: none does
    (4096, 32768, 4096),  # a wide output: a row of tiles reads 256 MiB of b
)


def variants() -> tuple[str, ...]:
    """The arms as kernel-bench's --variant writes them."""
    fixed = ",".join(f"{name}={value}" for name, value in TILE.items())
    return tuple(f"{fixed},group_m={group}" for group in GROUPS)


def options(shapes: Sequence[tuple[int, ...]] = SHAPES, samples: int = 30, dtype: str = "bfloat16") -> Options:
    """What `kernels.bench.run.run` is asked: every group and the library, interleaved, checked first."""
    return Options(samples=samples, dtypes=(dtype,), shapes=tuple(shapes), variants=variants(), only=("torch",))


def table(records: Sequence[Record], l2_bytes: int) -> str:
    """A line a shape and group: time, spread, and how many times as fast as row by row; then a verdict a shape."""
    lines = [f"{'M x N x K':<22}{'b, MiB':>8}{'GROUP_M':>9}{'median µs':>12}{'spread µs':>11}{'of row by row':>15}"]
    for shape in dict.fromkeys(tuple(record.shape) for record in records):
        _, N, K = shape
        b_bytes = 2 * N * K
        here = [record for record in records if tuple(record.shape) == shape]
        arms = {int(record.config["group_m"]): record for record in here if "group_m" in record.config}
        name = " x ".join(map(str, shape))
        for group, record in arms.items():
            if record.median_us is None:
                lines.append(f"{name:<22}{b_bytes / 2**20:>8.0f}{group:>9}  {record.status}: {record.reason}")
                continue
            gain = ratio(arms[1].median_us, record.median_us) if 1 in arms else None
            shown = f"{gain:>15.3f}" if gain is not None else f"{'–':>15}"
            times = f"{record.median_us:>12.2f}{record.spread_us or 0:>11.3f}"
            lines.append(f"{name:<22}{b_bytes / 2**20:>8.0f}{group:>9}{times}{shown}")
        timed = [record for record in arms.values() if record.median_us is not None]
        if 1 in arms and arms[1] in timed and len(timed) > 1:
            best = min(timed, key=lambda record: record.median_us or 0.0)
            holds = "holds" if b_bytes <= l2_bytes else "does not hold"
            found = (
                f"GROUP_M = {best.config['group_m']} is faster than row by row by more than both spreads"
                if slower(arms[1], best)
                else "no group differs from row by row by more than the spreads"
            )
            lines.append(f"{name}: {found}; the L2 cache {holds} b.")
    return "\n".join(lines)
