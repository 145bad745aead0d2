"""The products that may cut float32 operands: from tensors to launches, in tiles that were measured.

ring   `kernels.ops.matmul_tf32`, on compute capability 9.0, for a single product with LARGE rows and columns and
       RING_TILES tiles or more. An operand that does not lie in rows of k is turned first, and one whose rows
       begin between multiples of 16 bytes is copied; for three products both operands are taken apart.
tiles  `kernels.ops.matmul_kernels._matmul_tiles`, for everything else, in a small tile where that was faster than the
       tile of `kernels.ops.matmul_plan`.

Measured on an H200 beside cuBLAS, in one sweep of 97 candidates over 21 shapes and three layouts. Of the ring's tiles,
128 by 128 in turns was fastest, or within 4 % of it, wherever there are as many of them as multiprocessors; where there
are fewer, half the rows, by one consumer. WASTE is from there. Reading row-major b in place, Triton's wgmma kernel
copies it element by element into turned tiles, and is slower than a tile of 32 by 64 without wgmma (2,114 against
1,594 us at 4096 x 4096 x 4096, and the ring 413); three products spend their time on taking operands apart, once for
every tile. What was not faster: the ring's other tiles and ways to consume, and Triton's own kernel by descriptors.
"""

import itertools
from dataclasses import dataclass

import torch
import triton
from triton.runtime.jit import JITFunction

from kernels.ops.library import launch, wrap_triton
from kernels.ops.matmul_kernels import _matmul_tiles
from kernels.ops.matmul_launch import _launch_described, _may_ring, _outer_stride, launch_product, products
from kernels.ops.row_plan import sm_count

TURN_ROWS = TURN_COLUMNS = 64
LINE = 32  # elements; a row that was turned begins at a multiple of it


@dataclass(frozen=True)
class Ring:
    """A tile in elements, stages, how it is consumed, in how many parts it leaves; see `kernels.ops.matmul_tf32`."""

    block_m: int
    block_n: int
    block_k: int
    num_stages: int
    consumers: str
    parts: int
    group_m: int = 8


RINGS = {  # the first of equals is taken
    "tf32": (Ring(128, 128, 32, 6, "turns", 4), Ring(64, 128, 32, 8, "alone", 1)),
    "tf32x3": (Ring(128, 128, 32, 3, "turns", 4), Ring(64, 128, 32, 4, "alone", 1)),
}
WASTE = (1.0, 1.12)  # what the two take for the same work
SMALL_TILE = {"block_m": 32, "block_n": 64, "block_k": 32, "num_warps": 4, "num_stages": 5, "group_m": 2}
LARGE = 256  # rows, and columns: so often each element is used; what is smaller was not measured
RING_TILES = 64  # in an output: with 32 the small tile was faster, with 128 the ring


def launch_tf32(
    a: torch.Tensor, b: torch.Tensor, out: torch.Tensor, precision: str, ring: Ring | None = None
) -> torch.Tensor:
    """Write a @ b to `out` (..., M, N), contiguous, in "tf32" or "tf32x3", and return it.

    a: (..., M, K), b: (..., K, N), float32, any strides, leading dimensions that broadcast to out's. ring: the ring to
    use, whatever the size; RuntimeError where it cannot run.
    """
    if out.numel() == 0 or a.shape[-1] == 0:
        return out.zero_()
    batch = out.shape[:-2]
    a, b = a.detach().expand(*batch, *a.shape[-2:]), b.detach().expand(*batch, *b.shape[-2:])
    single = None
    if isinstance(_matmul_tiles, JITFunction) and _may_ring(out.device):
        found = list(itertools.islice(products(a, b, out), 2))
        single = found[0] if len(found) == 1 and found[0][2].shape[:2] == (1, 1) else None
    if ring is not None and single is None:
        raise RuntimeError(
            f"a ring was asked for, and out of shape {tuple(out.shape)} is on {out.device}; expected one product on "
            f"a GPU of compute capability 9.0."
        )
    if ring is None and single is not None:
        ring = plan_ring(*single[2].shape[-2:], precision, sm_count(out.device))
    if ring is not None:
        _launch_ring(ring, *(x[0, 0] for x in single), precision)
    else:
        launch_product(a, b, out, precision, choices=_choices(a, b, precision))
    return out


def plan_ring(M: int, N: int, precision: str, sm_count: int) -> Ring | None:
    """The ring for a product with M rows and N columns, or None where it is too small."""

    def cost(way: int) -> float:
        ring = RINGS[precision][way]
        rounds = triton.cdiv(_tiles(ring, M, N), sm_count)
        return rounds * ring.block_m * ring.block_n * WASTE[way]

    best = RINGS[precision][min(range(len(WASTE)), key=cost)]
    return best if min(M, N) >= LARGE and _tiles(best, M, N) >= RING_TILES else None


def _tiles(ring: Ring, M: int, N: int) -> int:
    return triton.cdiv(M, ring.block_m) * triton.cdiv(N, ring.block_n)


def _choices(a: torch.Tensor, b: torch.Tensor, precision: str) -> dict:
    """The readable kernel's tile where the plan's was measured to be slower; nothing where it was not, or faster."""
    (M, K), N = a.shape[-2:], b.shape[-1]
    in_place = precision == "tf32" and b.stride(-2) == 1  # b in rows of k: wgmma takes it as it lies
    tiles = triton.cdiv(M, SMALL_TILE["block_m"]) * triton.cdiv(N, SMALL_TILE["block_n"])
    cut = tiles * SMALL_TILE["block_k"] < K  # few tiles of a long sum: the plan cuts it into slices
    if in_place or cut or min(M, N) < LARGE or not _may_ring(a.device):
        return {}
    return {**SMALL_TILE, "splits": 1}


def _launch_ring(ring: Ring, a: torch.Tensor, b: torch.Tensor, out: torch.Tensor, precision: str) -> None:
    from kernels.ops.matmul_tf32 import _matmul_tf32, ring_launch  # Gluon is imported where it is used

    b = b.t()
    lows = None
    if precision == "tf32x3":
        (a, a_low), (b, b_low) = _turned(a, True), _turned(b, True)
        lows = a_low, b_low
    else:
        a, b = (x if _lies_ready(x) else _turned(x, False)[0] for x in (a, b))
    tile, programs = (ring.block_m, ring.block_n, ring.block_k), sm_count(out.device)
    grid, arguments, constants = ring_launch(
        a, b, lows, out, tile, programs, ring.num_stages, ring.consumers, ring.parts, ring.group_m
    )
    _launch_described(_matmul_tf32, grid, arguments, out.device, **constants)


def _lies_ready(x: torch.Tensor) -> bool:
    """Whether the copy engine reads a matrix as it lies, in rows of columns."""
    found = _outer_stride(x)
    return found is not None and not found[0] and found[1] == x.stride(0)


def _turned(x: torch.Tensor, split: bool) -> tuple[torch.Tensor, torch.Tensor | None]:
    """A matrix in rows that begin at multiples of 16 bytes; `split`: its high parts, and its low ones in another."""
    from kernels.ops.matmul_tf32 import _rows_of

    rows, columns = x.shape
    stride = triton.cdiv(columns, LINE) * LINE
    out = torch.empty((rows, stride), dtype=x.dtype, device=x.device)
    low = torch.empty_like(out) if split else None
    grid = (triton.cdiv(rows, TURN_ROWS) * triton.cdiv(columns, TURN_COLUMNS),)
    arguments = (x, out, low, rows, columns, *x.stride(), stride)
    launch(wrap_triton(_rows_of), grid, arguments, BLOCK_R=TURN_ROWS, BLOCK_C=TURN_COLUMNS, num_warps=8)
    return out[:, :columns], None if low is None else low[:, :columns]
