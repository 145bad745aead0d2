"""Shared memory's banks: which lanes of a warp ask which bank for which word, and how many passes that takes."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kernels.figures.html import PHONE, figure, fitting, number, place, span, svg, text
from kernels.figures.warps import lane_words, require_warp
from kernels.trace.requests import BANK_BYTES, BANKS

if TYPE_CHECKING:
    from kernels.trace.model import Buffer
    from kernels.trace.requests import Request

CELL, LEFT, TOP = 18, 58, 34
NEAR_LEFT, NEAR_RIGHT, NEAR_ROW = 24, 40, 12  # on a phone; its cells hold no numbers, which stand right of each row
MOST_ROWS, MOST_COLUMNS = 40, 40


def passes(request: Request) -> list[dict[int, tuple[int, list[int]]]]:
    """The passes that a request takes over the banks: in each, {bank: (word, lanes that ask for it)}.

    A bank delivers one word a pass, to as many lanes as ask for that word. Accesses of 8 bytes go by half warps, those
    of 16 by quarter warps (`request.lanes_at_once`). Atomics on one word take turns. There are `request.wavefronts`
    passes.
    """
    width = request.lanes_at_once
    phases: dict[int, dict[int, dict[tuple[int, int], list[int]]]] = {}
    for lane, address in zip(request.lanes, request.addresses, strict=True):
        for word in range(address // BANK_BYTES, (address + request.size - 1) // BANK_BYTES + 1):
            banks = phases.setdefault(lane // width, {})
            turn = lane if request.what == "atomic" else 0
            banks.setdefault(word % BANKS, {}).setdefault((word, turn), []).append(lane)
    found = []
    for _, banks in sorted(phases.items()):
        for turn in range(max(len(words) for words in banks.values())):
            served = ((bank, sorted(words.items())) for bank, words in sorted(banks.items()) if turn < len(words))
            found.append({bank: (words[turn][0][0], words[turn][1]) for bank, words in served})
    return found


def bank_figure(request: Request, caption: str = "") -> str:
    """One warp's request to shared memory: the 32 banks across, the passes downwards, the lanes served in each box.

    ValueError for a request to global memory, or one that belongs to no warp.
    """
    _require_shared(request)
    turns = passes(request)
    words, described = _words(request), "; ".join(_fact(turn, banks) for turn, banks in enumerate(turns)) or "no lane"
    wide = svg("banks", words, described, *_passes_drawn(turns, CELL))
    near = (PHONE - NEAR_LEFT - NEAR_RIGHT) / BANKS
    phone = svg("banks", words, described, *_passes_drawn(turns, near))
    return figure(fitting(words, wide, LEFT + BANKS * CELL + 8, phone), f"{caption} {words}".strip(), "banks")


def _passes_drawn(turns: list[dict[int, tuple[int, list[int]]]], cell: float) -> tuple[float, float, list[str]]:
    """Width, height and drawing. Lanes stand in the boxes, or, where these are small, their number beside a row."""
    large = cell == CELL
    left, row = (LEFT, CELL) if large else (NEAR_LEFT, NEAR_ROW)
    boxes: dict[str, list[str]] = {}
    inside, numbers, names, served = [], [], [], []
    for bank in range(BANKS):
        if bank % 4 == 0 or bank == BANKS - 1:
            numbers.append(f'<text x="{place(left + (bank + 0.5) * cell)}" y="{TOP - 6}">{bank}</text>')
    for turn, banks in enumerate(turns):
        y = TOP + turn * row
        base = y + 13 if large else y + 10
        names.append(f'<text x="{left - (8 if large else 5)}" y="{base}">{"pass " * large}{turn + 1}</text>')
        for bank in range(BANKS):
            x = left + bank * cell
            name = "kl-asked-bank" if bank in banks else "kl-idle"
            wide, tall = (cell - 2, row - 2) if large else (cell - 1.5, row - 2)
            boxes.setdefault(name, []).append(f"M{place(x + 1)} {y + 1}h{place(wide)}v{tall}h-{place(wide)}z")
            if bank in banks and large:
                lanes = banks[bank][1]
                shown = str(lanes[0]) if len(lanes) == 1 else f"×{len(lanes)}"
                inside.append(f'<text x="{place(x + cell / 2)}" y="{base}">{shown}</text>')
        if not large:
            count = len({lane for _, lanes in banks.values() for lane in lanes})
            served.append(f'<text x="{PHONE - 2}" y="{base}">{count}</text>')
    body = [
        text(left if large else left + 22, 12, "bank →", "kl-t--soft"),
        *(f'<path class="{name}" d="{"".join(shapes)}"/>' for name, shapes in sorted(boxes.items())),
        f'<g class="kl-t kl-t--small kl-t--m">{"".join(inside)}</g>',
        f'<g class="kl-t kl-t--soft kl-t--m">{"".join(numbers)}</g>',
        f'<g class="kl-t kl-t--soft kl-t--e">{"".join(names + served)}</g>',
    ]
    if not large:
        body += [text(0, 12, "pass ↓", "kl-t--soft"), text(PHONE - 2, 12, "lanes served", "kl-t--soft", "e")]
    return (left + BANKS * cell + 8 if large else PHONE), TOP + max(1, len(turns)) * row + 4, body


def bank_tile(request: Request, buffer: Buffer, caption: str = "") -> str:
    """The shared array itself, with the bank of every element, and the elements that one warp asks for set apart.

    `buffer` is the array of the request, of one or two dimensions; a one-dimensional one is drawn in rows of 32. Of a
    large array the first 40 rows and columns are drawn. ValueError as for `bank_figure`, and for another buffer.
    """
    _require_shared(request)
    if buffer.name != request.buffer:
        raise ValueError(f"the request is to {request.buffer!r}, but the buffer is {buffer.name!r}; give its own")
    if len(buffer.shape) > 2:
        raise ValueError(f"a tile has one or two dimensions; {buffer.name} has shape {buffer.shape}")
    offsets = buffer.offsets.reshape(-1)
    width = buffer.shape[1] if len(buffer.shape) == 2 else min(BANKS, max(1, buffer.count))
    height = -(-len(offsets) // width) if width else 0
    wide, high = min(width, MOST_COLUMNS), min(height, MOST_ROWS)
    asked = {e + i for e in request.elements for i in range(max(1, request.size // buffer.itemsize))}
    rows = []
    for row in range(high):
        elements = offsets[row * width : row * width + wide].tolist()
        banks = [(buffer.address + element * buffer.itemsize) // BANK_BYTES % BANKS for element in elements]
        rows.append([(bank, element in asked) for bank, element in zip(banks, elements, strict=True)])
    hit: dict[int, list[int]] = {}
    for element in asked:
        hit.setdefault((buffer.address + element * buffer.itemsize) // BANK_BYTES % BANKS, []).append(element)
    shape = " × ".join(map(str, buffer.shape))
    words = (
        f"{buffer.name}, {shape}, with its banks. Warp {request.warp} {_verb(request)} the "
        f"{number(len(asked))} marked element{'s' * (len(asked) != 1)}, which lie in {number(len(hit))} "
        f"bank{'s' * (len(hit) != 1)}."
    )
    if (wide, high) != (width, height):
        words += f" The first {high} rows and {wide} columns are drawn."
    described = "; ".join(f"bank {bank}: {len(found)} marked" for bank, found in sorted(hit.items()))
    described = described or "nothing is asked for"
    picture = svg("tile", words, described, *_tile_drawn(rows, wide))
    phone = svg("tile", words, described, *_tile_marked(rows, wide))
    shown = fitting(f"Banks of {buffer.name}", picture, LEFT + wide * CELL + 8, phone)
    return figure(shown, f"{caption} {words}".strip(), "banks")


def _tile_drawn(rows: list[list[tuple[int, bool]]], wide: int) -> tuple[float, float, list[str]]:
    """Width, height and drawing of an array: (bank, whether it is asked for) of each element."""
    high, lines, marked = len(rows), [], []
    for row, elements in enumerate(rows):
        cells: dict[bool, list[str]] = {True: [], False: []}
        for column, (bank, is_asked) in enumerate(elements):
            x = LEFT + column * CELL
            cells[is_asked].append(f'<text x="{place(x + CELL / 2)}">{bank}</text>')
            if is_asked:
                marked.append(f"M{x + 1} {TOP + row * CELL + 1}h{CELL - 2}v{CELL - 2}h-{CELL - 2}z")
        for strong, texts in cells.items():
            name = "kl-t kl-t--small kl-t--m" + (" kl-faint" if not strong else "")
            where = f'transform="translate(0 {TOP + row * CELL + 13})"'
            lines.append(f'<g class="{name}" {where}>{"".join(texts)}</g>' if texts else "")
    numbers = [
        f'<text x="{place(LEFT + (c + 0.5) * CELL)}" y="{TOP - 6}">{c}</text>'
        for c in range(wide)
        if c % 8 == 0 or c == wide - 1
    ]
    labelled = [row for row in range(high) if row % 8 == 0 or row == high - 1]
    names = [f'<text x="{LEFT - 8}" y="{TOP + row * CELL + 13}">{row}</text>' for row in labelled]
    rules = [f"M{LEFT} {TOP + row * CELL}h{wide * CELL}" for row in range(high + 1)]
    rules += [f"M{LEFT + column * CELL} {TOP}v{high * CELL}" for column in range(wide + 1)]
    body = [
        text(LEFT, 12, "column →", "kl-t--soft"),
        text(4, 12, "row ↓", "kl-t--soft"),
        f'<path class="kl-gridline" d="{"".join(rules)}"/>',
        f'<path class="kl-asked-bank" d="{"".join(marked)}"/>',
        *(line for line in lines if line),
        f'<g class="kl-t kl-t--soft kl-t--m">{"".join(numbers)}</g>',
        f'<g class="kl-t kl-t--soft kl-t--e">{"".join(names)}</g>',
    ]
    return LEFT + wide * CELL + 8, TOP + high * CELL + 4, body


def _tile_marked(rows: list[list[tuple[int, bool]]], wide: int) -> tuple[float, float, list[str]]:
    """The same for a phone: no numbers in the cells, but beside each row the banks of its marked elements."""
    cell = min(NEAR_ROW, (PHONE - NEAR_LEFT - NEAR_RIGHT) / max(1, wide))
    right, high = NEAR_LEFT + wide * cell, len(rows)
    marked, banks, names = [], [], []
    for row, elements in enumerate(rows):
        y = TOP + row * NEAR_ROW
        for column, (_, is_asked) in enumerate(elements):
            if is_asked:
                x = place(NEAR_LEFT + column * cell)
                marked.append(f"M{x} {y}h{place(cell)}v{NEAR_ROW}h-{place(cell)}z")
        found = sorted({bank for bank, is_asked in elements if is_asked})
        if found:
            words = (
                span(found[0], found[-1]) if len(found) in (1, found[-1] - found[0] + 1) else f"{len(found)} of them"
            )
            banks.append(f'<text x="{PHONE - 2}" y="{y + 10}">{words}</text>')
        if row % 8 == 0 or row == high - 1:
            names.append(f'<text x="{NEAR_LEFT - 5}" y="{y + 10}">{row}</text>')
    numbers = [
        f'<text x="{place(NEAR_LEFT + (c + 0.5) * cell)}" y="{TOP - 6}">{c}</text>'
        for c in range(wide)
        if c % 8 == 0 or (c == wide - 1 and c % 8 > 1)
    ]
    rules = [f"M{NEAR_LEFT} {TOP + row * NEAR_ROW}H{place(right)}" for row in range(high + 1)]
    rules += [f"M{place(NEAR_LEFT + column * cell)} {TOP}v{high * NEAR_ROW}" for column in range(wide + 1)]
    body = [
        text(NEAR_LEFT + 22, 12, "column →", "kl-t--soft"),
        text(0, 12, "row ↓", "kl-t--soft"),
        text(PHONE - 2, 12, "bank of the marked", "kl-t--soft", "e"),
        f'<path class="kl-gridline" d="{"".join(rules)}"/>',
        f'<path class="kl-asked-bank" d="{"".join(marked)}"/>',
        f'<g class="kl-t kl-t--soft kl-t--m">{"".join(numbers)}</g>',
        f'<g class="kl-t kl-t--soft kl-t--e">{"".join(names + banks)}</g>',
    ]
    return PHONE, TOP + high * NEAR_ROW + 4, body


def _require_shared(request: Request) -> None:
    require_warp(request)
    if request.space != "shared":
        raise ValueError(
            f"{request.buffer!r} lies in {request.space} memory, which has sectors and no banks; see request_figure"
        )


def _verb(request: Request) -> str:
    return {"read": "reads", "write": "writes", "atomic": "updates"}[request.what]


def _words(request: Request) -> str:
    lanes, turns, degree = len(request.lanes), request.wavefronts, request.conflict_degree
    words = (
        f"Block {request.block}, warp {request.warp}: {lanes} lane{'s' * (lanes != 1)} {request.what} "
        f"{request.size} bytes each of {request.buffer} in {number(turns)} pass{'es' * (turns != 1)}"
    )
    if degree > 1 and request.what == "atomic":
        return f"{words}; one bank takes {degree} turns (conflict degree {degree}); atomics on one word never share."
    if degree > 1:
        return f"{words}; one bank must deliver {degree} different words (conflict degree {degree})."
    shared = len(set(request.addresses)) < lanes
    return f"{words}; no bank is asked for two different words{', lanes that ask for the same one share it' * shared}."


def _fact(turn: int, banks: dict[int, tuple[int, list[int]]]) -> str:
    """`pass 1: bank 0 serves lane 0, …`; long lists say how they go on."""
    parts = [f"bank {bank} serves {lane_words(lanes)}" for bank, (_, lanes) in banks.items()]
    if len(parts) > 8:
        lanes = sorted({lane for _, served in banks.values() for lane in served})
        low, high = min(banks), max(banks)
        return f"pass {turn + 1}: {len(banks)} banks from {low} to {high} serve {lane_words(lanes)}"
    return f"pass {turn + 1}: {', '.join(parts)}"
