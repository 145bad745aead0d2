"""A verdict as lines for a terminal: which check, what was given, the element, its owner, its mask, and a drawing.

Pure: a verdict and a width in, lines out, each a list of (text, style). Colour says nothing that the words do not.
"""

from __future__ import annotations

import textwrap
from collections.abc import Callable

from kernels.exercises.model import FAIL, LOAD_ERROR, PASS, TODO, UNAVAILABLE, CheckResult, Exercise, Strip, Verdict

Line = list[tuple[str, str]]
Places = Callable[[str, str], list[str]]
STYLES = {PASS: "bold green", TODO: "bold yellow", FAIL: "bold red", LOAD_ERROR: "bold red", UNAVAILABLE: "bold cyan"}
_PLAIN = str.maketrans({"…": "...", "–": "-", "—": "-", "×": "x", "≤": "<=", "≥": ">=", "→": "->", "·": ".", "µ": "u"})
_LABEL = 15
_OUTPUT_LINES = 10


def verdict_lines(
    verdict: Verdict,
    exercise: Exercise,
    width: int = 100,
    *,
    verbose: bool = False,
    places: Places | None = None,
    mine: bool = True,
) -> list[Line]:
    """The verdict in full. mine: whether it is on a file that the reader edits, and so says what to do to it now.

    places: what gives the lines that say where to read, from a failure's anchor and the key of its explanation.
    """
    width = max(24, width)
    lines: list[Line] = [[(verdict.kind, STYLES[verdict.kind]), (f"  {verdict.name}  ({verdict.path})", "")]]
    if verdict.sentence and verdict.kind != FAIL:
        lines += _wrapped(verdict.sentence, width, "  ")
    lines += [line for note in verdict.notes for line in _wrapped(f"note: {note}", width, "  ", "yellow")]
    if verdict.kind == TODO and not verdict.results:
        lines += _wrapped(f"task: {exercise.task}", width, "  ")
        lines += _next(verdict, exercise, width)
        return lines
    if verdict.results and verdict.kind != LOAD_ERROR:
        lines.append([])
        for result in verdict.results:
            lines += _checked(result, width, verbose)
    failed = verdict.first_failure
    if failed and verdict.kind in (FAIL, LOAD_ERROR):
        lines += [[], *_failed(failed, exercise, width, verbose, places)]
        others = sum(result.status == FAIL for result in verdict.results) - 1
        if others > 0:
            lines += _wrapped(f"{others} more check{'s' * (others > 1)} failed; mend the first one first.", width, "")
    if not mine:
        return [*lines, [], *_row("your own file", f"lessons check {verdict.name}", width)]
    return lines + (_next(verdict, exercise, width) if verdict.kind != UNAVAILABLE else [])


def as_ascii(text: str) -> str:
    """The text for a terminal that shows nothing else: signs spelled out, whatever is left as a question mark."""
    return text.translate(_PLAIN).encode("ascii", "replace").decode("ascii")


def _checked(result: CheckResult, width: int, verbose: bool) -> list[Line]:
    more = f"  ({result.compared} compared, {result.seconds:.2f} s)" if verbose else ""
    first, *rest = textwrap.wrap(result.title + more, max(20, width - 14)) or [""]
    lines: list[Line] = [[(f"  {result.status:10}", STYLES[result.status]), (f"  {first}", "")]]
    lines += [[(" " * 14 + each, "")] for each in rest]
    if verbose and result.output.strip():
        lines += _output(result.output, width, 200)
    return lines


def _failed(result: CheckResult, exercise: Exercise, width: int, verbose: bool, places: Places | None) -> list[Line]:
    failure = result.failure
    lines: list[Line] = []
    if result.title and result.status == FAIL:
        lines += [[(line, "bold")] for line in textwrap.wrap(f"{result.status}  {result.title}", width)]
    if result.status == FAIL:
        lines += _wrapped(failure.sentence, width, "  ")
    raised = failure.kind == "raised"  # then it is a place in the answer and the code there, not an element
    rows = [
        ("given", failure.given),
        ("line" if raised else "element", failure.at),
        ("expected", failure.expected),
        ("code" if raised else "got", failure.got),
        ("owner", failure.owner),
        ("mask", failure.mask),
        ("line", failure.place if failure.place != failure.at else ""),
        ("likely cause", failure.cause),
        ("hint", failure.hint),
    ]
    for label, text in rows:
        if text:
            lines += _row(label, text, width)
    if isinstance(failure.drawing, Strip):
        lines += [[], *strip_lines(failure.drawing, width), []]
    elif failure.drawing:
        lines += [[], *([("  " + each[: width - 2], "")] for each in failure.drawing.split("\n")), []]
    told = places(failure.anchor, failure.explanation) if places else [f"docs/{exercise.lesson}"]
    for number, place in enumerate(told):
        served = "make serve" if place.startswith("http://localhost:") else ""  # there is nothing unless it runs
        lines += _row("read" if not number else served, place, width)
    if result.output.strip() and not verbose:
        lines += _output(result.output, width, _OUTPUT_LINES)
    if verbose and failure.traceback:
        lines += [[], *([("  " + each, "dim")] for each in failure.traceback.rstrip().split("\n"))]
    return lines


def strip_lines(strip: Strip, width: int) -> list[Line]:
    """The cells of a strip with the bad column marked below; columns that do not fit are left out, the bad never."""
    labels = max(len(label) for label, _ in strip.rows) + 4
    count = len(strip.rows[0][1])
    sizes = [max(len(cells[i]) for _, cells in strip.rows) for i in range(count)]
    first, last = strip.marked, strip.marked
    room = width - labels - sizes[strip.marked] - 3
    while True:
        options = [i for i in (first - 1, last + 1) if 0 <= i < count and sizes[i] + 3 <= room]
        if not options:
            break
        chosen = min(options, key=lambda i: abs(i - strip.marked))
        room -= sizes[chosen] + 3
        first, last = min(first, chosen), max(last, chosen)
    lines: list[Line] = []
    for label, cells in strip.rows:
        line: Line = [(f"  {label:{labels - 2}}", "dim")]
        for i in range(first, last + 1):
            style = "bold red" if i == strip.marked else ""
            line += [("| ", "dim"), (f"{cells[i]:>{sizes[i]}} ", style)]
        lines.append([*line, ("|", "dim")])
    before = labels + sum(sizes[i] + 3 for i in range(first, strip.marked)) + 2
    lines.append([(" " * before, ""), ("^" * sizes[strip.marked], "bold red")])
    return lines


def hint_lines(exercise: Exercise, number: int, width: int) -> list[Line]:
    """The hints up to `number`, and whether there are more."""
    lines: list[Line] = []
    for i, hint in enumerate(exercise.hints[:number], 1):
        lines += _wrapped(f"hint {i} of {len(exercise.hints)}: {hint}", width, "")
    return lines


def _next(verdict: Verdict, exercise: Exercise, width: int) -> list[Line]:
    """What to do now; commands have a line of their own, so that they can be copied."""
    if verdict.kind == PASS:
        return [[], *_row("why it holds", f"lessons check {verdict.name} --explain", width)] if exercise.explain else []
    lines = [[], *_row("edit", verdict.path, width), *_row("check again", f"lessons check {verdict.name}", width)]
    return lines + (_row("a hint", f"lessons check {verdict.name} --hint", width) if exercise.hints else [])


def _row(label: str, text: str, width: int) -> list[Line]:
    if width < 60:
        return _wrapped(f"{label}: {text}" if label else text, width, "  ")
    room = width - _LABEL - 2
    first, *rest = textwrap.wrap(text, room, break_on_hyphens=False, break_long_words="://" not in text) or [""]
    lines: list[Line] = [[(f"  {label:{_LABEL}}", "dim"), (first, "")]]
    return [*lines, *([(" " * (_LABEL + 2) + each, "")] for each in rest)]


def _output(output: str, width: int, most: int) -> list[Line]:
    lines = output.rstrip().split("\n")
    shown = [line if len(line) <= width - 6 else line[: width - 9] + "..." for line in lines[:most]]
    if len(lines) > most:
        end = lines[-1] if lines[-1].startswith("[cut") else ""
        shown.append(f"[{len(lines) - most} more lines; --verbose shows what was kept] {end}".rstrip())
    return [
        [("  it printed:", "dim")],
        *([("    " + "".join(c if c.isprintable() else "?" for c in line), "")] for line in shown),
    ]


def _wrapped(text: str, width: int, indent: str, style: str = "") -> list[Line]:
    lines: list[Line] = []
    for part in text.split("\n"):
        wrapped = textwrap.wrap(part, width - len(indent), break_on_hyphens=False, break_long_words=False) or [""]
        lines += [[(indent + line, style)] for line in wrapped]
    return lines
