"""The occupancy calculator as a figure: a table for every reader, and controls where scripts run.

The controls are made by `docs/assets/occupancy.js` from the limits and kernels that the figure carries. Its arithmetic
is that of `kernels.inspect.occupancy`; a test in a browser compares the two.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from kernels.figures.html import Markup, data_table, escape, figure

if TYPE_CHECKING:
    from kernels.inspect import CompileFacts


@dataclass(frozen=True)
class Kernel:
    """A kernel as it is launched: threads a block, and what the compiler made of it for each architecture."""

    name: str
    threads: int
    facts: Mapping[int, CompileFacts]


def limits() -> dict[str, object]:
    """What the script needs to know, from `kernels.inspect`."""
    from kernels.inspect import occupancy as rules
    from kernels.inspect.limits import shared_limit_bytes

    return {
        "unit": rules.REGISTER_UNIT,
        "registers": rules.REGISTERS,
        "partitions": rules.PARTITIONS,
        "mostRegisters": rules.MOST_REGISTERS,
        "mostThreads": rules.MOST_THREADS,
        "sharedUnit": rules.SHARED_UNIT,
        "reserved": rules.RESERVED_BYTES,
        "reasons": rules.REASONS,
        "gpus": {
            str(arch): {
                "warps": m.warps,
                "blocks": m.blocks,
                "shared": m.shared_bytes,
                "most": shared_limit_bytes(arch),
            }
            for arch, m in rules.MULTIPROCESSORS.items()
        },
    }


def occupancy_figure(kernels: Sequence[Kernel], caption: str = "") -> str:
    """Resident blocks and warps of each kernel on each architecture, and controls to try other numbers."""
    from kernels.inspect.occupancy import occupancy

    archs = list(dict.fromkeys(arch for kernel in kernels for arch in kernel.facts))
    rows = []
    for kernel in kernels:
        cells: list[object] = []
        for arch in archs:
            fact = kernel.facts[arch]
            found = occupancy(arch, kernel.threads, fact.registers, fact.shared_bytes)
            reason = " and ".join(found.limited_by)
            head = f"{found.share:.0%}, {found.warps} of {found.most_warps} warps"
            below = f"{fact.registers} registers; limited by {reason}"
            cells.append(Markup(f"{escape(head)}<br><small>{escape(below)}</small>"))
        rows.append((kernel.name, kernel.threads, *cells))
    table = data_table(
        ("kernel", "threads", *(f"sm_{arch}" for arch in archs)),
        rows,
        caption or "Warps that are resident at once, and what stops one more block",
        numeric=(1,),
    )
    given = [
        {
            "name": kernel.name,
            "threads": kernel.threads,
            "uses": {str(arch): [fact.registers, fact.shared_bytes] for arch, fact in kernel.facts.items()},
        }
        for kernel in kernels
    ]
    data = json.dumps({"limits": limits(), "kernels": given}, separators=(",", ":"), sort_keys=True)
    return figure(f'<div class="kl-occupancy" data-occupancy="{escape(data)}"></div>\n{table}', "", "occupancy")
