"""Tables about the sanitizers: a line an operator with a column a tool, and behind it a line a path."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from kernels.figures.html import Markup, data_table, escape

if TYPE_CHECKING:
    from kernels.bench.sanitizer.record import Check, PathRecord, Sanitizers

_SHOWN = {
    "proved": "clean",
    "nothing to see": "nothing there",
    "unproved": "unproved",
    "misread": "misread",
    "blind": "not seen",
    "no": "report",
    "not run": "not run",
}
# Sentences that stand in the cells of many paths, and the words that stand for them.
_STANDING = {
    "The fault was planted and launched, and the tool reported nothing.": "not seen",
    "The kernel has no shared memory.": "nothing there",
    "The kernel has no barrier.": "nothing there",
    "The kernel reads nothing from global memory.": "nothing there",
    "The time of the run was over.": "not run",
}
_KINDS = {"blind": "bad", "no": "bad", "not run": "none"}  # what was not run is no fault


def _mark(state: str, words: str) -> str:
    kind = _KINDS.get(state)
    return f'<span class="kl-mark kl-mark--{kind}">{escape(words)}</span>' if kind else escape(words)


def _origin(document: Sanitizers) -> str:
    origin = document.provenance
    commit = f", commit {origin.commit[:7]}" if origin.commit else ""
    return f"{document.tool_version} on {origin.gpu}, {origin.utc[:10]}{commit}"


def sanitizer_summary(document: Sanitizers, caption: str = "") -> str:
    """How many paths of each operator are in which state under each tool.

    "clean": the tool reported the planted fault and nothing else. "nothing there": clean, and no kernel of the path has
    what the tool looks at. "unproved": nothing was reported, but not every kernel was run with a fault.
    "misread": all that was reported is explained. "not seen": the tool missed the fault, so its silence says nothing.
    """
    from kernels.bench.sanitizer.plants import TOOLS
    from kernels.bench.sanitizer.record import STATES, summary

    counts, rows = summary(document.paths), []
    every: dict[str, Counter] = {tool: Counter() for tool in TOOLS}

    def cell(found: Mapping[str, int]) -> Markup:
        return Markup(
            "<br>".join(_mark(state, f"{found[state]} {_SHOWN[state]}") for state in STATES if found.get(state))
        )

    for op in dict.fromkeys(path.op for path in document.paths):
        of_op = [counts.get((op, tool), Counter()) for tool in TOOLS]
        for tool, found in zip(TOOLS, of_op):
            every[tool].update(found)
        number = sum(path.op == op for path in document.paths)
        rows.append((Markup(f"<code>{escape(op)}</code>"), number, *map(cell, of_op)))
    rows.append(("all", len(document.paths), *map(cell, every.values())))
    return data_table(("operator", "paths", *TOOLS), rows, caption or _origin(document), numeric=(1,), stack=True)


def _name(kernel: str) -> str:
    """A kernel's name, which may be broken behind a `_` that does not begin it."""
    name = escape(kernel)
    return name[:1] + name[1:].replace("_", "_<wbr>")


def _said(check: Check, standing: dict[str, set[str]]) -> Markup:
    """The state, and what is to say about it beyond that. A sentence that many paths share goes to `standing`, under
    the words that stand for it; kernels are named where it is said of some of them."""
    whole = _STANDING.get(check.reason or "")
    if whole == _SHOWN[check.state]:
        standing.setdefault(whole, set()).add(check.reason)
        return Markup(_mark(check.state, whole))
    words = [escape(word) for word in ([check.reason] if check.reason else check.reports)]
    alike = len({plant.reason for plant in check.plants}) == 1
    for plant in check.plants if not words else ():
        if not plant.reason:
            continue
        short = _STANDING.get(plant.reason)
        if short is None:
            words.append(f"{_name(plant.kernel)}: {escape(plant.reason)}")
            continue
        standing.setdefault(short, set()).add(plant.reason)
        if not alike:
            words.append(f"{'' if short == _SHOWN[check.state] else f'{short} '}in {_name(plant.kernel)}")
    head = _mark(check.state, _SHOWN[check.state])
    return Markup(head + "".join(f"<br><small>{word}</small>" for word in words))


def sanitizer_table(paths: Sequence[PathRecord], stale: Sequence[bool] = (), caption: str = "") -> str:
    """A line a path with its kernels, and each tool's word. `stale` says of each whether its code has changed since.
    What "nothing there" and "not seen" stand for is said once, below the table."""
    from kernels.bench.sanitizer.plants import TOOLS

    rows, groups, standing = [], [], {}
    for index, path in enumerate(paths):
        if groups and groups[-1][0] == path.op:
            groups[-1][1] += 1
        else:
            groups.append([path.op, 1])
        name = escape(f"{path.way}, {path.dtype}")
        if index < len(stale) and stale[index]:
            name += ' <span class="kl-badge kl-badge--stale">stale</span>'
        by_tool = {check.tool: check for check in path.checks}
        name += "".join(f"<br><small><code>{_name(kernel)}</code></small>" for kernel in path.kernels)
        said = (_said(by_tool[tool], standing) if tool in by_tool else "" for tool in TOOLS)
        rows.append((Markup(name), *said))
    shown = data_table(
        ("path and its kernels", *TOOLS), rows, caption or "Kernel paths", [tuple(g) for g in groups], stack=True
    )
    shown = shown.replace("kl-table--stack", "kl-table--stack kl-tools", 1)
    for short, sentences in standing.items():
        shown += f"\n<p><small><b>{escape(short)}</b>: {escape(' '.join(sorted(sentences)))}</small></p>"
    return shown


def _earlier(document: Sanitizers) -> str:
    """One sentence: how many checks are of an earlier run, and of which commit."""
    from kernels.bench.sanitizer.merge import earlier

    found = earlier(document)
    if not found:
        return ""
    checks = sum(len(path.checks) for path in document.paths)
    words = ", ".join(f"{number:,} of commit {commit[:7]}" for commit, number in found.items())
    return (
        f"<p>Of these {checks:,} checks {sum(found.values()):,} are from earlier runs, {words}: "
        "the code of their paths has not changed since.</p>\n"
    )


def _reasons(document: Sanitizers) -> str:
    """What is misread and what is not seen, each reason once with the tool and the kernels that it is about."""
    from kernels.bench.sanitizer.readings import MISREAD, why_unseen
    from kernels.bench.sanitizer.record import UNREPORTED

    kernels: dict[tuple[str, str, str], list[str]] = {}
    about: dict[tuple[str, str, str], set[int]] = {}
    for number, path in enumerate(document.paths):
        for check in path.checks:
            said = []
            if check.state == "misread":
                said = [
                    (m.kernel, "misread", m.reason)
                    for m in MISREAD
                    if any(m.says(check.tool, r) for r in check.reports)
                ]
            if check.state == "blind":
                unseen = [plant.kernel for plant in check.plants if plant.reason == UNREPORTED]
                why = [why_unseen(check.tool, name, check.commit is not None) for name in unseen]
                said = [(name, "not seen", reason or "Why is not known.") for name, reason in zip(unseen, why)]
            for name, word, reason in said:
                names = kernels.setdefault((check.tool, word, reason), [])
                if name not in names:
                    names.append(name)
                about.setdefault((check.tool, word, reason), set()).add(number)
    lines = []
    for (tool, word, reason), names in kernels.items():
        named = ", ".join(f"<code>{_name(name)}</code>" for name in names)
        count = len(about[tool, word, reason])
        others = (about[each] for each in list(kernels)[: len(lines)] if each[:2] == (tool, word))
        again = ", counted above" if any(about[tool, word, reason] <= other for other in others) else ""
        paths = f"{count} path{'s' if count != 1 else ''}{again} ({named})"
        lines.append(f"<li><b>{tool}, {word}</b>, {paths}: {escape(reason)}</li>\n")
    return f"<ul>\n{''.join(lines)}</ul>\n" if lines else ""


def sanitizer_block(document: Sanitizers, stale: Sequence[bool] = ()) -> str:
    """The summary, what is of an earlier run, why something is misread or not seen, and every path folded away."""
    inner = sanitizer_table(document.paths, stale)
    before = f"{sanitizer_summary(document)}\n{_earlier(document)}{_reasons(document)}"
    return f"{before}<details>\n<summary>All {len(document.paths)} paths</summary>\n{inner}\n</details>"
