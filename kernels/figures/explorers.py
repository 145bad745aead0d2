"""Figures whose reader changes a number and sees what follows: a warp's addresses, tiles, merged softmaxes, a roofline.

What stands in the page is a table of some chosen cases, and the numbers as JSON. `docs/assets/explorers.js` makes
sliders and a picture of them, and computes every other case. Without it the table stays. A test compares what the
script says of each case with the table.
"""

from __future__ import annotations

import json
import math
from collections.abc import Sequence

from kernels.figures.banks import passes
from kernels.figures.html import data_table, figure, number, shape_text
from kernels.trace.requests import SECTOR_BYTES, Request

LANES = 32
STRIDES = (1, 2, 3, 4, 8, 16, 17, 31, 32, 33)
"""Steps from lane to lane that the access explorer's table shows."""


def access_explorer(space: str = "global", stride: int = 1, offset: int = 0, size: int = 4, caption: str = "") -> str:
    """32 lanes read `size` bytes each, `stride` elements apart, `offset` elements behind a multiple of 128 bytes.

    `space` is "global", where sectors of 32 bytes count, or "shared", where banks do; the reader may change all four.
    ValueError for another space, a stride outside 0–33, an offset outside 0–31, or a size that is not 4, 8 or 16.
    """
    if space not in ("global", "shared"):
        raise ValueError(f"space={space!r}; a warp's request goes to 'global' or to 'shared' memory")
    if not (0 <= stride <= 33 and 0 <= offset < LANES and size in (4, 8, 16)):
        raise ValueError(f"stride={stride}, offset={offset}, size={size}; give 0–33, 0–31, and 4, 8 or 16 bytes")
    rows = []
    for step in STRIDES:
        one = access(step, offset, size, "global"), access(step, offset, size, "shared")
        turns = len(passes(one[1]))
        rows.append((step, len(one[0].sectors), one[0].sector_bytes, f"{number(100 * one[0].efficiency)}%", turns))
    headers = ("step, elements", "sectors", "bytes moved", "of them used", "passes over the banks")
    table = data_table(headers, rows, f"32 lanes read {size} bytes each, from element {offset} on", numeric=range(5))
    start = {"space": ("global", "shared").index(space), "stride": stride, "offset": offset, "size": size}
    return _figure("access", {"start": start, "sector": SECTOR_BYTES}, table, caption)


def access(stride: int, offset: int, size: int, space: str) -> Request:
    """The request that the explorer draws."""
    elements = tuple(offset + lane * stride for lane in range(LANES))
    addresses = tuple(element * size for element in elements)
    return Request(0, 0, 0, "read", "x", space, "", 0, 0, size, tuple(range(LANES)), elements, addresses)


def tile_explorer(
    m: int, n: int, k: int, tile: tuple[int, int, int] = (32, 64, 32), item: int = 4, caption: str = ""
) -> str:
    """The walk of one program of a tiled matrix product C (m × n) = A (m × k) · B (k × n), for a tile of any size.

    The reader moves the tile (a power of two from 8 to 256), the program and the step along k. `item` is the bytes of
    an element. ValueError for a size below 1 or a side of the tile that is no such power of two.
    """
    sides = [1 << power for power in range(3, 9)]
    if min(m, n, k) < 1 or any(side not in sides for side in tile):
        raise ValueError(f"m={m}, n={n}, k={k}, tile={tile}; sizes are 1 or more, a tile's sides one of {sides}")
    rows = []
    for bm, bn in ((8, 8), (16, 16), (32, 32), (32, 64), (64, 64), (128, 128), (256, 16)):
        down, across = -(-m // bm), -(-n // bn)
        loaded = (m * k * across + k * n * down) * item
        flops = number(2 * m * n * k / loaded)
        rows.append((f"{bm} × {bn}", down * across, across, down, loaded, flops))
    headers = ("tile of C", "programs", "reads of an element of A", "of B", "bytes loaded", "operations a byte")
    table = data_table(headers, rows, f"C of {m} × {n}, k = {k}, {item} bytes an element", numeric=range(1, 6))
    data = {"m": m, "n": n, "k": k, "item": item, "sides": sides, "start": dict(zip(("bm", "bn", "bk"), tile))}
    return _figure("tiles", data, table, caption)


def merge_explorer(values: Sequence[float], chunk: int = 4, caption: str = "") -> str:
    """A softmax in one pass: every chunk of `values` becomes a maximum and a sum, and these are merged one by one.

    The reader takes steps and changes the chunk. ValueError for no values, more than 32, or one that is not finite.
    """
    values = [float(value) for value in values]
    if not 1 <= len(values) <= 32 or not all(map(math.isfinite, values)) or not 1 <= chunk <= len(values):
        raise ValueError(
            f"{len(values)} values in chunks of {chunk}; give 1 to 32 finite values and a chunk among them"
        )
    rows = [
        (step + 1, f"{first}–{last}", *(f"{value:.4f}" for value in (*own, *state)), f"{factor:.4f}")
        for step, (first, last, own, state, factor) in enumerate(merged(values, chunk))
    ]
    headers = ("step", "elements", "their maximum", "their sum", "maximum so far", "sum so far", "old sum times")
    table = data_table(headers, rows, f"{len(values)} scores in chunks of {chunk}", numeric=range(7))
    return _figure("merge", {"values": values, "start": {"chunk": chunk}}, table, caption)


State = tuple[float, float]
"""A maximum, and the sum of exp(value - maximum)."""


def merged(values: Sequence[float], chunk: int) -> list[tuple[int, int, State, State, float]]:
    """For each chunk: its first and last element, its state, the state of all so far, and the old sum's factor."""
    steps, maximum, total = [], -math.inf, 0.0
    for first in range(0, len(values), chunk):
        part = values[first : first + chunk]
        own = max(part), sum(math.exp(value - max(part)) for value in part)
        higher = max(maximum, own[0])
        factor = math.exp(maximum - higher) if total else 0.0
        total = total * factor + own[1] * math.exp(own[0] - higher)
        maximum = higher
        steps.append((first, first + len(part) - 1, own, (maximum, total), factor))
    return steps


def roofline_explorer(
    roofs: Sequence[tuple[str, float, int]], memory_gb_per_s: float, shape: tuple[int, int, int], caption: str = ""
) -> str:
    """A matrix product of a shape that the reader moves, under the roofs of a machine.

    Each roof is (name, TFLOP/s, bytes of an element); the slanted one is `memory_gb_per_s` (10**9 bytes a second). The
    product moves its three matrices once, which is the least. ValueError where a roof is not above 0.
    """
    if not roofs or min(memory_gb_per_s, *(peak for _, peak, _ in roofs)) <= 0:
        raise ValueError(f"a roof is above 0; the roofs are {roofs}, the memory's is {memory_gb_per_s} GB/s")
    rows = []
    for m, n, k in dict.fromkeys([shape, (16, 4096, 4096), (1024, 1024, 1024), (4096, 4096, 4096), (8192, 8192, 128)]):
        for name, peak, item in roofs:
            flops, moved = 2 * m * n * k, item * (m * k + k * n + m * n)
            memory_us, compute_us = moved / (memory_gb_per_s * 1e3), flops / (peak * 1e6)
            wall = "memory" if memory_us > compute_us else "computing"
            rows.append((shape_text((m, n, k)), name, number(flops / moved), number(max(memory_us, compute_us)), wall))
    headers = ("M × N × K", "element", "operations a byte", "µs at least", "limited by")
    table = data_table(headers, rows, f"At {number(memory_gb_per_s)} GB/s of memory", numeric=(2, 3))
    data = {
        "roofs": [{"name": name, "peak": peak, "item": item} for name, peak, item in roofs],
        "memory": memory_gb_per_s,
        "start": dict(zip("mnk", shape)),
    }
    return _figure("roofline", data, table, caption)


def _figure(kind: str, data: dict[str, object], table: str, caption: str) -> str:
    text = json.dumps({"kind": kind, "caption": caption} | data, separators=(",", ":"), allow_nan=False)
    text = text.replace("&", "\\u0026").replace("<", "\\u003c").replace(">", "\\u003e").replace("'", "\\u0027")
    inner = f"<div class=\"kl-explore__table\">\n{table}\n</div>\n<div hidden data-explore='{text}'></div>"
    return figure(inner, caption, "explore")
