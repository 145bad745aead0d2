"""What the compiler made of a kernel, and what it cost: tables over compile facts and measurements."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

from kernels.figures.html import MISSING, Markup, data_table, escape, number, shape_text

if TYPE_CHECKING:
    from kernels.bench.results import Record
    from kernels.inspect import CompileFacts

STATUS = {
    "ok": "",
    "no_work": "no work to time",
    "wrong": "wrong result",
    "failed": "failed",
    "implausible": "implausible time",
    "not_finite": "result not finite",
    "unavailable": "not available",
}


def compile_table(
    facts: Iterable[CompileFacts],
    instructions: Sequence[str] = ("LDG", "STG", "LDS", "STS", "SHFL", "BAR"),
    caption: str = "",
) -> str:
    """Kernel by target: registers a thread, spilled bytes, shared memory a block, machine instructions by kind.

    `instructions` are prefixes of SASS opcodes; each column counts how many the compiled kernel contains, not how often
    they run. The caption names the toolchains unless one is given. Rows keep the order of `facts`. What is the same in
    all rows stands in the caption and has no column: one target, nothing spilled, no shared memory.
    """
    facts = list(facts)
    if not facts:
        return data_table(("kernel",), [], caption or "Nothing compiled")
    targets = list(dict.fromkeys(f"sm_{fact.arch}" for fact in facts))
    spilled = [fact.spill_store_bytes + fact.spill_load_bytes for fact in facts]
    shared = [fact.shared_bytes for fact in facts]
    columns = {"kernel": [fact.kernel.rpartition(":")[2] for fact in facts]}
    if len(targets) > 1:
        columns["target"] = [f"sm_{fact.arch}" for fact in facts]
    words = len(columns)
    columns["registers"] = [fact.registers for fact in facts]
    if any(spilled):
        columns["spilled bytes"] = spilled
    if any(shared):
        columns["shared bytes"] = shared
    columns |= {prefix: [fact.instructions(prefix) for fact in facts] for prefix in instructions}
    alike = f" for {targets[0]}" if len(targets) == 1 else ""
    if not caption:
        caption = f"Compiled{alike} by " + "; ".join(dict.fromkeys(fact.toolchain for fact in facts))
    elif alike and targets[0] not in caption:
        caption += f";{alike}"
    caption += "; nothing spilled" * (not any(spilled)) + "; no shared memory" * (not any(shared))
    return data_table(tuple(columns), zip(*columns.values(), strict=True), caption, numeric=range(words, len(columns)))


def result_table(records: Iterable[Record], caption: str = "") -> str:
    """Measurements, grouped by operator, shape and dtype, fastest first.

    Columns: implementation, median µs, GB/s by formula, share of the copy limit that was measured in the same run,
    spread (interquartile range, µs), largest absolute error; a phone shows the first whole. A record without a time
    shows why; a stale one says so. The caption names GPU, date and commit unless one is given. Records of different
    GPUs are grouped by GPU as well.
    """
    records = list(records)
    several = len({_gpu(record) for record in records}) > 1
    groups: dict[tuple, list[Record]] = {}
    for record in records:
        key = (_gpu(record) if several else "", record.op, tuple(record.shape), record.dtype)
        groups.setdefault(key, []).append(record)
    headers = ("implementation", "median µs", "GB/s", "of copy limit", "spread µs", "max error")
    rows, sizes, ours = [], [], []
    for (gpu, op, shape, dtype), members in groups.items():
        members.sort(key=lambda r: (r.median_us is None, r.median_us or 0.0, r.implementation))
        name = f"{op} {shape_text(shape)}, {dtype}{f', {gpu}' if gpu else ''}"
        sizes.append((name, len(members)))
        for record in members:
            if record.ours:
                ours.append(len(rows))
            rows.append((_implementation(record), *_measured(record)))
    origin = origin_words(records) + "; in bold: kernels of this project" * bool(ours)
    return data_table(headers, rows, caption or origin, sizes, numeric=range(1, 6), marked=ours)


def _gpu(record: Record) -> str:
    return record.provenance.gpu if record.provenance else ""


def _implementation(record: Record) -> Markup:
    words = escape(record.implementation)
    if record.config:
        words += f" <small>{escape(', '.join(f'{key} {value}' for key, value in record.config.items()))}</small>"
    if record.stale:
        words += ' <span class="kl-badge kl-badge--stale">stale</span>'
    return Markup(words)


def _measured(record: Record) -> tuple[object, ...]:
    if record.status != "ok":
        reason = record.reason or STATUS.get(record.status, record.status)
        return Markup(f'<small class="kl-soft">{escape(reason)}</small>'), *[MISSING] * 3, _error(record)
    share = record.fraction_of_limit
    return (
        number(record.median_us),
        number(record.gb_per_s),
        MISSING if share is None else f"{share:.0%}",
        number(record.spread_us, 2),
        _error(record),
    )


def _error(record: Record) -> str:
    error = record.max_abs_error
    return MISSING if error is None else "0" if error == 0 else f"{error:.1e}"


def origin_words(records: Sequence[Record]) -> str:
    """`NVIDIA H200, 2026-11-20, commit 1a2b3c4d5e6f`, once for each run among the records."""
    runs = []
    for record in records:
        source = record.provenance
        if source is None:
            continue
        commit = (
            f", commit {source.commit[:12]}{' with local changes' if source.dirty else ''}" if source.commit else ""
        )
        runs.append(f"{source.gpu}, {source.utc[:10]}{commit}")
    return "Measured on " + "; ".join(dict.fromkeys(runs)) if runs else "Measurements"
