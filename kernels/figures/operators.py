"""Tables and plots about operators: contract, plan, times beside the peers, and the share of the limit over a size."""

from __future__ import annotations

import html
import re
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING

from kernels.figures.charts import line_chart
from kernels.figures.html import MISSING, Markup, data_table, escape, number, scroll, shape_text

if TYPE_CHECKING:
    from kernels.bench.compare import Row
    from kernels.bench.contracts import Contract
    from kernels.bench.targets import Judgement
    from kernels.inspect.launches import Launch


def _code(text: str) -> str:
    """Text with `names` between backticks as code."""
    parts = text.split("`")
    return "".join(f"<code>{html.escape(p)}</code>" if i % 2 else html.escape(p) for i, p in enumerate(parts))


_REMARK = re.compile(r"[A-Za-z][A-Za-z ,]*:?")
_DESCRIBED = re.compile(r"tensordesc<\w+\[([\d, ]+)\]")


def _formula(lines: Sequence[str]) -> str:
    """The formulas below each other as code; words before one, with a colon, and words after one are text."""
    shown: list[str] = []
    ahead = ""
    for piece in (piece for line in lines for piece in re.split(r" {3,}", line.strip()) if piece):
        if not _REMARK.fullmatch(piece):
            shown.append(f"{ahead}<code>{escape(piece)}</code>")
            ahead = ""
        elif piece.endswith(":") or not shown:
            ahead = f"{escape(piece)} "
        else:
            shown[-1] += f", {escape(piece)}"
    return "<br>".join(shown)


def contract_table(contract: Contract) -> str:
    """The formula, then a row for each part of the contract. Sentences wrap; nothing is shortened."""
    formula = _formula(contract.formula)
    rows = "\n".join(
        f"<tr><td><strong>{escape(label)}</strong></td><td>{_code(text)}</td></tr>"
        for label, text in contract.parts.items()
    )
    head = f"<p>{formula}</p>\n" if formula else ""
    return head + scroll("contract", f'<table class="kl-contract">\n<tbody>\n{rows}\n</tbody>\n</table>')


def _tile(launch: Launch) -> str:
    """The sizes of a launch's constants; of attention through descriptors, what these say of queries and of keys."""
    if launch.tile:
        return launch.tile.replace("BLOCK_", "")
    described = {name: _DESCRIBED.match(str(value)) for name, value in launch.signature.items()}
    rows = {name: int(found[1].split(",")[-2]) for name, found in described.items() if found}
    if not {"q_desc", "k_desc"} <= rows.keys():
        return ""
    groups = int(launch.signature.get("GROUPS", 1))  # of warps, side by side
    return f"M={groups * rows['q_desc']}, N={rows['k_desc']}"


def plan_table(found: Sequence[tuple[tuple[int, ...], str, Sequence[Launch]]], caption: str = "") -> str:
    """What an operator launches: shape and dtype, kernel, programs, threads of each and tile, a row a launch."""
    rows: list[tuple[object, ...]] = []
    for shape, dtype, launches in found:
        size = f"{shape_text(shape)}, {dtype}"
        for launch in launches:
            rows.append((size, launch.name, launch.programs, 32 * launch.num_warps, _tile(launch)))
        if not launches:
            rows.append((size, "nothing", None, None, ""))
    headers = ("shape", "kernel", "programs", "threads in each", "tile")
    return data_table(headers, rows, caption or "What is launched", numeric=(2, 3))


def _demand(judgements: Sequence[Judgement]) -> Markup:
    parts = []
    for judgement in judgements:
        words = escape(judgement.target.words.replace(" %", "%"))
        if judgement.met is None:
            parts.append(f"{words} <small>not judged</small>")
        elif judgement.met:
            parts.append(f"{words}, met")
        else:
            parts.append(f'<span class="kl-mark kl-mark--bad">missed</span> {words}')
    return Markup("<br>".join(parts) or MISSING)


def _share(value: float | None) -> str:
    return MISSING if value is None else f"{value:.0%}"


def comparison_table(rows: Sequence[Row], judged: Mapping[int, Sequence[Judgement]] = {}, caption: str = "") -> str:
    """Ours beside the better of PyTorch's own call, the formula in eager mode and torch.compile, a row a shape.

    `judged` maps a row's place to what came of its demands. A row where the peer is faster by more than both spreads is
    marked "loses". The caption names GPU, day and commit unless one is given, and the geometric mean of the ratios.
    """
    from kernels.bench.compare import geometric_mean

    headers = ("shape", "ours µs", "spread µs", "of copy limit", "best peer", "its µs", "peer / ours", "demand")
    cells, groups = [], []
    for index, row in enumerate(rows):
        name = f"{row.op}, {row.dtype}"
        if groups and groups[-1][0] == name:
            groups[-1][1] += 1
        else:
            groups.append([name, 1])
        peer, ours = row.best_peer, row.ours
        shape = escape(shape_text(row.shape))
        if ours.stale:
            shape += ' <span class="kl-badge kl-badge--stale">stale</span>'
        if ours.median_us is None:
            shown: tuple[object, ...] = (Markup(f"<small>{escape(ours.reason or ours.status)}</small>"), *[MISSING] * 2)
        else:
            share = _share(ours.fraction_of_limit) if not ours.in_l2 else "in L2"
            shown = (number(ours.median_us), number(ours.spread_us, 2), share)
        verdict = MISSING if row.speedup is None else f"{row.speedup:.2f} ×"
        if row.loses:
            if verdict == "1.00 ×":  # how little it is stands in the third decimal
                verdict = f"{row.speedup:.3f} ×"
            verdict = f'<span class="kl-mark kl-mark--bad">loses</span> {verdict}'
        cells.append(
            (
                Markup(shape),
                *shown,
                peer.implementation if peer else MISSING,
                number(peer.median_us) if peer else MISSING,
                Markup(verdict),
                _demand(judged.get(index, ())),
            )
        )
    mean = geometric_mean(row.speedup for row in rows)
    if mean is not None:
        count = sum(row.speedup is not None for row in rows)
        caption = f"{caption or _origin(rows)}; geometric mean of peer / ours over {count} row{'s' * (count != 1)} "
        caption += f"with a peer: {mean:.2f} ×"
    return data_table(headers, cells, caption or _origin(rows), [tuple(g) for g in groups], numeric=(1, 2, 3, 5, 6))


def _origin(rows: Sequence[Row]) -> str:
    from kernels.figures.results import origin_words as origin

    return origin([row.ours for row in rows])


def limit_chart(rows: Iterable[Row], dtype: str, caption: str = "") -> str:
    """The share of the copy limit over the size, a line for ours and one for each peer; the numbers follow as a table.

    The size is the width of a row, or the elements of a one-dimensional input. Of several shapes with one width the
    largest is drawn. Data that stayed in the L2 cache has no share, and is left out.
    """
    chosen: dict[int, Row] = {}
    for row in rows:
        size = row.shape[-1] if row.shape else 1
        if row.dtype != dtype or row.ours.in_l2:
            continue
        if size not in chosen or row.ours.bytes_moved > chosen[size].ours.bytes_moved:
            chosen[size] = row
    series: dict[str, list[tuple[float, float | None]]] = {}
    for size, row in sorted(chosen.items()):
        for record in (row.ours, *row.others):
            name = "ours, Triton" if record is row.ours else record.implementation
            share = record.fraction_of_limit
            if share is not None:
                series.setdefault(name, []).append((size, 100 * share))
    if not series:
        return ""
    wide = any(len(row.shape) > 1 for row in chosen.values())
    label = "columns of a row" if wide else "elements"
    return line_chart(
        series,
        label,
        "% of the copy limit",
        caption or f"{dtype}: how much of the copy limit is reached",
        log_x=True,
        log_base_x=2,
    )


def overview_table(entries: Sequence[Mapping[str, object]], caption: str = "") -> str:
    """All operators: a link, geometric mean, rows lost, demands met, rows measured, freshness. What a phone shows
    without scrolling stands first.

    An entry has name, rows (of `kernels.bench.compare`), stale (a count), met and demanded.
    """
    from kernels.bench.compare import geometric_mean, losses

    cells = []
    for entry in entries:
        rows, name = entry["rows"], escape(entry["name"])
        mean = geometric_mean(row.speedup for row in rows)
        if not rows:
            state: object = Markup('<span class="kl-mark kl-mark--none">no record yet</span>')
        elif entry["stale"]:
            state = Markup('<span class="kl-badge kl-badge--stale">stale</span>')
        else:
            state = "fresh"
        cells.append(
            (
                Markup(f'<a href="#op-{name}"><code>{name}</code></a>'),
                MISSING if mean is None else f"{mean:.2f} ×",
                len(losses(rows)) if rows else None,
                f"{entry['met']} of {entry['demanded']}" if entry["demanded"] else MISSING,
                len(rows),
                state,
            )
        )
    headers = ("operator", "peer / ours, mean", "rows lost", "demands met", "rows", "record")
    return data_table(headers, cells, caption or "Operators", numeric=(1, 2, 3, 4))
