"""Results documents as Markdown that a person can read."""

from collections.abc import Sequence
from pathlib import Path

from kernels.bench.compare import geometric_mean, rows
from kernels.bench.rates import ratio
from kernels.bench.results import (
    Clocks,
    Document,
    Limit,
    Record,
    ResultsError,
    decode,
    read,
    same_gpu,
)
from kernels.sources.files import write_whole

BASELINE = "torch"


def number(value: float | None, digits: int = 4) -> str:
    """A number with about `digits` significant digits and no exponent; a dash where there is none."""
    if value is None:
        return "–"
    if value == 0.0:
        return "0"
    text = f"{value:.{digits}g}"
    return f"{value:.0f}" if "e+" in text else text


def _percent(value: float | None) -> str:
    return "–" if value is None else f"{100 * value:.1f}%"


def shape_text(shape: Sequence[int]) -> str:
    """4096×1024; a tensor without dimensions is "scalar"."""
    return "×".join(map(str, shape)) or "scalar"


def _limit_line(limit: Limit) -> str:
    if limit.gb_per_s is None:
        return f"Copy limit: not measured. {limit.reason or ''}".strip()
    return (
        f"Copy limit in this run: {number(limit.gb_per_s)} GB/s, bytes read plus bytes written ({limit.method}, "
        f"{limit.bytes_moved} bytes, median of {len(limit.samples_us)})."
    )


def _provenance_lines(document: Document) -> list[str]:
    p = document.provenance
    software = [
        ("driver", p.driver),
        ("CUDA", p.cuda),
        ("Python", p.python),
        ("PyTorch", p.torch),
        ("Triton", p.triton),
    ]
    before, after = p.clocks_before, p.clocks_after or Clocks()
    lines = [
        f"- GPU: {p.gpu}, {p.sm_count} multiprocessors, {p.l2_bytes // 2**20} MiB of L2 cache",
        "- " + ", ".join(f"{name} {value}" for name, value in software if value),
        f"- Multiprocessor clock: {number(before.sm_mhz)} MHz before, {number(after.sm_mhz)} MHz after; power "
        f"{number(before.power_w)} W before, {number(after.power_w)} W after, limit {number(p.power_limit_w)} W",
        f"- Commit: {p.commit or 'unknown'}{' with local changes' if p.dirty else ''}",
        f"- Command: `{p.command}`",
        f"- Taken: {p.utc}",
    ]
    if not document.finished:
        lines.append("- **Unfinished**: the run stopped before its last case; what it finished is below.")
    return lines


def _against_peers(records: Sequence[Record]) -> list[str]:
    """Ours against the fastest of PyTorch's own call, eager mode and torch.compile; the geometric mean of all."""
    found = [row for row in rows(records) if row.best_peer is not None and row.ours.median_us]
    if not found:
        return []
    lines = ["## Against the fastest peer", "", "| case | ours µs | peer | its µs | peer / ours | |"]
    lines.append("| --- | ---: | --- | ---: | ---: | --- |")
    for row in found:
        case = f"{row.op}, {row.dtype} {shape_text(row.shape)}"
        peer = row.best_peer
        cells = (case, number(row.ours.median_us), peer.implementation, number(peer.median_us), f"{row.speedup:.2f}×")
        lines.append("| " + " | ".join(cells) + f" | {'**loses**' if row.loses else ''} |")
    mean = geometric_mean(row.speedup for row in found)
    return [*lines, "", f"Geometric mean of {len(found)} rows: {mean:.2f}×. Above 1, ours is faster.", ""]


def _row(record: Record, base: Record | None) -> str:
    if record.status not in ("ok",):
        cells = [shape_text(record.shape), record.implementation, *["–"] * 6, f"{record.status}: {record.reason or ''}"]
    else:
        against = ratio(base.median_us if base else None, record.median_us)
        notes = ["data stays in L2" if record.in_l2 else "cold"]
        if record.stale:
            notes.append("stale: the kernel has changed since")
        cells = [
            shape_text(record.shape),
            record.implementation,
            number(record.median_us),
            number(record.spread_us, 2),
            number(record.gb_per_s),
            _percent(record.fraction_of_limit),
            "–" if against is None else f"{against:.2f}×",
            number(record.error_over_tolerance, 2),
            ", ".join(notes),
        ]
    return "| " + " | ".join(cell.replace("|", "\\|").replace("\n", " ") for cell in cells) + " |"


def markdown(documents: Sequence[Document]) -> str:
    """One report of one or more documents. Raises ResultsError where they come from different GPUs."""
    gpu = same_gpu(documents)
    lines = [f"# Results on {gpu}", ""]
    for document in documents:
        lines += [*_provenance_lines(document), "", *(_limit_line(limit) for limit in document.limits), ""]
        groups: dict[tuple[str, str, str], list[Record]] = {}
        for record in document.cases:
            groups.setdefault((record.op, record.dtype, record.timing), []).append(record)
        for (op, dtype, timing), records in groups.items():
            lines += [
                f"## {op}, {dtype}, {'graph replay' if timing == 'graph' else 'ordinary dispatch'}",
                "",
                f"| shape | implementation | median µs | spread µs | GB/s | of copy limit | against {BASELINE} "
                "| error / tolerance | notes |",
                "| --- | --- | ---: | ---: | ---: | ---: | ---: | ---: | --- |",
            ]
            for record in records:
                base = next(
                    (r for r in records if r.implementation == BASELINE and r.shape == record.shape and r.median_us),
                    None,
                )
                lines.append(_row(record, base))
            lines.append("")
    lines += _against_peers([record for document in documents for record in document.cases])
    lines += [
        "The spread is the distance between the quartiles of the samples. A rate counts the bytes that the formula "
        "needs, read once and written once.",
        "",
    ]
    return "\n".join(lines)


def write(text: str, path: Path) -> None:
    """Write a report atomically. Refuses (ResultsError) to put one where results are kept."""
    if path.suffix == ".json":
        raise ResultsError(f"{path} would hold a report, which is Markdown: name it {path.with_suffix('.md')}.")
    if path.is_file():
        try:
            decode(path.read_bytes())
        except ResultsError:
            pass
        else:
            raise ResultsError(f"{path} holds results: a report never replaces them. Choose another --output.")
    write_whole(path, text)


def report(paths: Sequence[Path]) -> str:
    """The report of results files."""
    return markdown([read(path) for path in paths])
