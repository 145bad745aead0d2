"""The reader's measurements beside ours: a table of ours, and what the browser needs to check and draw a dropped file.

`docs/assets/your-gpu.js` reads the file that `kernel-bench` wrote, checks it against the published schema, and draws it
over these records. Nothing leaves the browser. Without the script our table stands.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from typing import TYPE_CHECKING

from kernels.figures.html import MISSING, Markup, data_table, escape, figure, number, shape_text

if TYPE_CHECKING:
    from kernels.bench.results import Document


def your_gpu(documents: Iterable[Document], schema: dict[str, object], caption: str = "") -> str:
    """A place to drop a results file, over our own records: of each case what the operator launches by itself.

    `documents` are of one GPU; cold caches, replayed as graphs, status ok. `schema` is the JSON Schema of such a file.
    ValueError for records of two GPUs, or none.
    """
    documents = list(documents)
    gpus = {document.provenance.gpu for document in documents}
    if len(gpus) != 1:
        raise ValueError(
            f"records of one GPU stand beside the reader's; these are of {', '.join(sorted(gpus)) or 'none'}"
        )
    best: dict[tuple[str, tuple[int, ...], str], dict[str, object]] = {}
    for document in documents:
        copy = next((each.gb_per_s for each in document.limits if each.name == "copy" and each.gb_per_s), None)
        for record in document.cases:
            ours = record.ours and record.implementation == "triton"  # not what settings by hand give
            usable = ours and record.status == "ok" and record.cache == "cold" and record.timing == "graph"
            if not usable or not record.median_us:
                continue
            key = record.op, tuple(record.shape), record.dtype
            if key not in best or record.median_us < best[key]["us"]:
                best[key] = {
                    "us": record.median_us,
                    "gb": record.gb_per_s,
                    "share": record.fraction_of_limit,
                    "intensity": record.flops / record.bytes_moved if record.bytes_moved else None,
                    "copy": copy,
                }
    gpu, rows, groups = gpus.pop(), [], {}
    for (op, shape, dtype), one in sorted(best.items()):
        share = MISSING if one["share"] is None else f"{number(100 * one['share'])}%"
        rows.append((Markup(f"{shape_text(shape)} <small>{escape(dtype)}</small>"), one["us"], one["gb"], share))
        groups[op] = groups.get(op, 0) + 1
    headers = ("shape", "median µs", "GB/s", "of the copy limit")
    caption = caption or f"Ours, on {gpu}: what each operator launches by itself"
    table = data_table(headers, rows, caption, list(groups.items()), numeric=range(1, 4))
    copies = [one["copy"] for one in best.values() if one["copy"]]
    ours = [{"op": op, "shape": shape, "dtype": dtype, **one} for (op, shape, dtype), one in sorted(best.items())]
    data = {"gpu": gpu, "copy": max(copies, default=None), "ours": ours, "schema": schema}
    text = json.dumps(data, separators=(",", ":"), allow_nan=False)
    text = text.replace("&", "\\u0026").replace("<", "\\u003c").replace(">", "\\u003e").replace("'", "\\u0027")
    inner = f"<div class=\"kl-yours__ours\">\n{table}\n</div>\n<div hidden data-your-gpu='{text}'></div>"
    return figure(inner, "", "yours")
