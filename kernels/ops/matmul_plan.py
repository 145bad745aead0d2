"""The matmul plan: which kernel computes a product, in what tiles, chosen in one place.

Three ways, and two things that may be done around them:

tiles       one program a tile, which loads its operands by pointers: any dtype, any strides, any GPU, batches.
persistent  as many programs as the GPU has multiprocessors; each takes tile after tile, and the copy engine (TMA)
            brings the operands by descriptor. For two-byte dtypes on compute capability 9.0 and later, where both
            operands can be described: one stride is 1, the other a multiple of 16 bytes, the address a multiple of 16.
ring        the same in Gluon, where fetching, multiplying and writing are written out, each for warps of its own:
            compute capability 9.0 alone, no residual, and an output that can be described. See `matmul_gluon`.
slices      the sum over k is cut into `splits` slices, each a product of its own, where there are fewer tiles than
            multiprocessors. A second launch adds the slices up in their order, so the same input gives the same bits.
pack        an operand that cannot be described, because its rows begin between multiples of 16 bytes, is first copied
            into rows that begin at such multiples. It costs a pass over the operand and saves loads of single elements,
            so it is done where each element is used PACK_USES times or more. A transposed operand is never copied: what
            its descriptor describes is its transpose.

The rules. A tile of 128 by 256 in 8 warps keeps the tensor cores busiest, since each element that it reads is used most
often; but tiles must also fill the GPU, and the last round of them is as long as the others. `_cost` puts a time on
both, in units of one product of 64 by 64 by 64 elements, and the cheapest of TILES with 1 to MAX_SPLITS slices wins:

- rounds: tiles over multiprocessors, rounded up, times what a tile's k takes, times what a smaller tile wastes;
- START for what a program does before and after its loop;
- for slices, what they cost to write and to read again, and ANOTHER_LAUNCH.

With at most THIN rows the product is turned around, (b.T @ a.T).T: the instruction of the tensor cores takes 64 rows at
least, so the long side of b gives them. All of it reads strides, and copies nothing.

Measured on an H200, in one sweep of candidates beside cuBLAS, and decided by it: three stages of the large tile, not
four (as fast for long sums, faster for short ones); 128 by 128 in 4 warps for two slices of a long sum (four slices of
the large tile write twice the bytes); steps of 256 rows of b for a thin product, in no more slices than run at once
(two thirds of the time of eight slices in steps of 64); steps of 128 for one tile a multiprocessor; 16 by 16 where the
sum has a single step. A second sweep on the same GPU decided where the ring takes over, in `_ring`, and that slices are
set up early and added up by a launch that overlaps them. `residents` above 1 and consumers of "halves" won nowhere. A
caller can choose them. What `_cost` is made of comes from arithmetic; only the order that it puts tiles in was held
against the sweep. An operand that is packed keeps the first sweep's plan: the second one had none.
"""

import functools
from dataclasses import dataclass

import triton

from kernels.ops import checks
from kernels.ops.op import MAX_WARPS

THIN = 64  # rows; no more, and the product is turned around
PACK_USES = 512  # times that an element must be used before packing its operand pays
MAX_SPLITS = 16
MOST_SPLITS = 64  # that a caller may choose
START = 24.0  # of a program beside its loop, in products of 64 by 64 by 64
ANOTHER_LAUNCH = 60.0
SLICE_BYTES = 4096.0  # of slices that the whole GPU writes or reads in the time of one such product
LINE = 64  # columns; a packed row is a multiple of it long

# Rows, columns and k of a tile, warps, stages, halves in which the result leaves, and what its loop takes for the same
# work, the first being 1. Shared memory: `tests/ops/test_matmul_compiled.py` has them compiled and looks.
TILES = (
    (128, 256, 64, 8, 3, 2, 1.0),
    (128, 128, 64, 4, 4, 1, 1.04),
    (128, 64, 128, 4, 4, 1, 1.3),
    (64, 64, 64, 4, 6, 1, 1.7),
)
PLAIN = {  # the same for the kernel that takes any operands
    "half": (
        (128, 256, 64, 8, 3, 1.0),
        (128, 128, 64, 8, 3, 1.1),
        (64, 64, 64, 4, 4, 1.6),
        (32, 32, 64, 4, 4, 3.0),
        (16, 16, 128, 4, 3, 6.0),
    ),
    "ieee": ((64, 64, 16, 4, 3, 1.0), (32, 32, 16, 4, 3, 1.6)),
    "tf32": ((128, 128, 32, 8, 3, 1.0), (64, 64, 32, 4, 4, 1.4), (32, 32, 32, 4, 4, 2.5)),
    "tf32x3": ((64, 128, 32, 8, 2, 1.0), (64, 64, 32, 4, 3, 1.2), (32, 32, 32, 4, 3, 2.2)),
}
SHORT_SUM = 512  # k, up to which the epilogue of GELU decides about stages and parts
INTERPRETED = (16, 16, 16, 4, 1)  # a tile under the interpreter, so that small shapes have several


@dataclass(frozen=True)
class MatmulPlan:
    """What a launch does: the path, a tile in elements, its order, slices, warps, stages, and what is done around it.

    subtiles: in how many parts a tile's result leaves. residents: programs that a multiprocessor holds at once.
    consumers: of the Gluon kernel, "alone", "turns" or "halves"; see there. early: whether the launch may be set up
    before the one before it has ended.
    overlap: whether what adds the slices up may be set up while they are computed.
    turned: the product is computed as (b.T @ a.T).T. pack_a, pack_b: the operand is copied into aligned rows first.
    """

    path: str
    block_m: int
    block_n: int
    block_k: int
    num_warps: int
    num_stages: int
    group_m: int = 8
    splits: int = 1
    subtiles: int = 1
    residents: int = 1
    consumers: str = "alone"
    early: bool = False
    overlap: bool = False
    turned: bool = False
    pack_a: bool = False
    pack_b: bool = False

    @property
    def sliced(self) -> bool:
        """Whether float32 slices are written first; a turned product always is, and turned back with them."""
        return self.splits > 1 or self.turned


CHOICES = tuple(name for name in MatmulPlan.__dataclass_fields__)


@functools.cache
def plan_matmul(
    M: int,
    N: int,
    K: int,
    batch: int,
    element_bytes: int,
    precision: str,
    sm_count: int,
    described: tuple[bool, bool] = (False, False),
    may_describe: bool = False,
    may_ring: bool = False,
    interpreted: bool = False,
    activation: str = "none",
) -> MatmulPlan:
    """The plan for `batch` products (M, K) @ (K, N).

    described: whether the copy engine can read a, and b, as they are. may_describe: whether there is a copy engine, and
    the dtype has two bytes. may_ring: whether the Gluon kernel can run as well. interpreted: tiles that a small shape
    has several of. activation: "none", "relu" or "gelu", which comes behind the sum.
    """
    kind = "half" if element_bytes == 2 else precision
    uses = (N, M)
    pack = tuple(may_describe and not ok and use >= PACK_USES for ok, use in zip(described, uses))
    fast = may_describe and batch == 1 and K > 0 and all(ok or packed for ok, packed in zip(described, pack))
    if interpreted:
        block_m, block_n, block_k, warps, stages = INTERPRETED
        splits = 2 if 4 * max(M, N) < K else 1
        return MatmulPlan("tiles", block_m, block_n, block_k, warps, stages, 2, splits)
    if not fast:
        tiles = [(*tile[:5], 1, tile[5]) for tile in PLAIN[kind]]
        best, splits = _cheapest(tiles, M, N, K, batch, sm_count)
        stages = best[4] if best[2] < K else 1  # of a single step nothing is fetched ahead
        return MatmulPlan("tiles", *best[:4], stages, splits=splits)
    if M <= THIN:
        # One column of tiles along the long side, as narrow as there are rows, and as many slices as still run at
        # once. A step reads 256 rows of b: few steps, and many bytes on their way.
        splits = max(1, min(sm_count // triton.cdiv(N, 64), K // 512, MAX_SPLITS))
        width = max(16, triton.next_power_of_2(M))
        stages = 4 if width < 64 else 3
        around = {"splits": splits, "early": not any(pack), "overlap": not any(pack)}
        return MatmulPlan(
            "persistent", 64, width, 256, 4, stages, turned=True, pack_a=pack[0], pack_b=pack[1], **around
        )
    best, splits = _cheapest(list(TILES), M, N, K, batch, sm_count)
    if may_ring and splits == 1 and not any(pack):
        ring = _ring(best[:3], M, N, K, sm_count, activation)
        if ring is not None:
            return ring
    sliced = splits > 1 and not any(pack)
    around = {"splits": splits, "subtiles": best[5] if splits == 1 else 1, "early": sliced, "overlap": sliced}
    return MatmulPlan("persistent", *best[:5], pack_a=pack[0], pack_b=pack[1], **around)


def _ring(tile: tuple[int, int, int], M: int, N: int, K: int, sm_count: int, activation: str) -> MatmulPlan | None:
    """The Gluon kernel's plan where it takes over a product that `tile` would be cheapest for, or None.

    More tiles of 128 by 128 than multiprocessors: two consumers take them in turns, and one multiplies while the other
    writes. In every shape of the sweep this was faster than 128 by 256, or as fast. The result leaves in four parts;
    but whole, with a stage less to make room for it, where GELU follows a short sum and takes as long as the product.
    Tiles for one round: the launch is set up early, since it is as short as what lies between two launches.
    """
    if tile in ((128, 256, 64), (128, 128, 64)) and triton.cdiv(M, 128) * triton.cdiv(N, 128) > sm_count:
        stages, parts = (5, 1) if activation == "gelu" and K <= SHORT_SUM else (6, 4)
        return MatmulPlan("ring", 128, 128, 64, 8, stages, subtiles=parts, consumers="turns")
    if tile == (128, 64, 128) and N >= 128 and triton.cdiv(M, 64) * triton.cdiv(N, 128) <= sm_count:
        return MatmulPlan("ring", 64, 128, 128, 4, 4, early=True)
    return None


def _cheapest(tiles: list[tuple], M: int, N: int, K: int, batch: int, sm_count: int) -> tuple[tuple, int]:
    """The tile and the number of slices of least cost; of equals the first, with fewest slices."""
    found = []
    for tile in tiles:
        steps = max(triton.cdiv(K, tile[2]), 1)
        for splits in range(1, min(MAX_SPLITS, max(1, steps // 4)) + 1):
            found.append((_cost(tile, splits, M, N, K, batch, sm_count), tile, splits))
    _, tile, splits = min(found, key=lambda each: each[0])
    return tile, splits


def _cost(tile: tuple, splits: int, M: int, N: int, K: int, batch: int, sm_count: int) -> float:
    block_m, block_n, block_k, *_, waste = tile
    programs = triton.cdiv(M, block_m) * triton.cdiv(N, block_n) * batch * splits
    steps = triton.cdiv(triton.cdiv(max(K, 1), block_k), splits)
    loop = steps * (block_m / 64) * (block_n / 64) * (block_k / 64) * waste
    cost = triton.cdiv(programs, sm_count) * (loop + START)
    if splits > 1:
        cost += ANOTHER_LAUNCH + 2 * splits * batch * M * N * 4 / (SLICE_BYTES * sm_count)
    return cost


def require_choice(choices: dict[str, object]) -> None:
    """What a caller chose of a plan must be possible; ValueError with a sentence otherwise."""
    for name, value in choices.items():
        if value is None:
            continue
        if name == "path" and value not in ("tiles", "persistent", "ring"):
            raise ValueError(f'path is {value!r}; expected "tiles", "persistent", "ring" or None.')
        if name in ("block_m", "block_n", "block_k"):
            checks.require_power_of_two(name, value, 256)
            if value < 16:
                raise ValueError(f"{name} is {value}; expected at least 16, the least that a matrix instruction takes.")
        if name == "num_warps":
            checks.require_power_of_two(name, value, MAX_WARPS)
        if name == "subtiles":
            checks.require_power_of_two(name, value, 4)
        if name == "consumers" and value not in ("alone", "turns", "halves"):
            raise ValueError(f'consumers is {value!r}; expected "alone", "turns" or "halves".')
        most = {"group_m": 1024, "splits": MOST_SPLITS, "num_stages": 8, "residents": 8}.get(name)
        if most and (type(value) is not int or not 1 <= value <= most):
            raise ValueError(f"{name} is {value!r}; expected a number from 1 to {most}.")
