"""What a new lesson or operator begins with: files that run and pass their gate, to be changed into something true.

The texts lie in `starts/`. An answer is written once: a line `#! …` between the marks of an exercise stands in the
starter, the code below it in the solution.
"""

from __future__ import annotations

import contextlib
import keyword
import re
from dataclasses import dataclass, field
from pathlib import Path

from kernels.lessons.registered import with_name
from kernels.sources.files import write_whole

_STARTS = Path(__file__).parent / "starts"
_REGION = re.compile(
    r"(?P<head>^ *# --- fill in ---\n(?: *#(?!!)[^\n]*\n)*)(?P<todo> *#! [^\n]*\n)"
    r"(?P<code>.*?)(?P<end>^ *# --- end ---\n)",
    re.MULTILINE | re.DOTALL,
)


# Modules and names that the files of a start use, which a function of that name would hide; and devices of Windows,
# which no file may be named after.
_TAKEN = {"torch", "triton", "tl", "pytest", "numpy", "kernels", "tests", "conftest"}
_DEVICES = re.compile(r"con|prn|aux|nul|(com|lpt)[0-9]")


@dataclass
class Start:
    """Files to write, by path from the project's folder, and the page among them, by its path below docs/."""

    page: str
    exercise: str
    files: dict[str, str] = field(default_factory=dict)


def new_lesson(root: Path, name: str) -> Start:
    """A lesson after the last one: page, exercise, its line of navigation and its place in the schedule.

    Raises:
        ValueError: the name is no name for it, or something of that name is there; the message says which.
    """
    number = _next_number(root, "lessons")
    start = Start(f"lessons/{number}-{name.replace('_', '-')}.md", name)
    _fill(root, start, "lesson", name, number)
    _name_it(root, start, "lessons", name)
    return start


def new_operator(root: Path, name: str) -> Start:
    """An operator that is not measured yet: its file, its test, its line of registry, and a lab with an exercise.

    Raises:
        ValueError: the name is no name for it, or something of that name is there; the message says which.
    """
    number = _next_number(root, "labs")
    start = Start(f"labs/{number}-{name.replace('_', '-')}.md", f"triton_{name}")
    _fill(root, start, "operator", name, number)
    for text, path in (("operator", f"kernels/ops/{name}.py"), ("test", f"tests/ops/test_{name}.py")):
        start.files[path] = _text(f"operator/{text}", start, name, number)
    place = "kernels/ops/unmeasured.py"
    try:
        start.files[place] = with_name(_read(root, place), name)
    except ValueError as error:
        raise ValueError(f"{place} holds {error}") from None
    _name_it(root, start, "labs", name)
    return start


def write(root: Path, start: Start) -> list[str]:
    """Write the files; returns their paths. Where one of them cannot be written, all is as it was before.

    Raises:
        OSError: the first that could not be written.
    """
    before = {path: (root / path).read_bytes() if (root / path).exists() else None for path in start.files}
    with contextlib.ExitStack() as taken_back:
        for path, text in start.files.items():
            folders = [each for each in (root / path).parents if not each.exists()]
            taken_back.callback(_restore, root / path, before[path], folders)
            write_whole(root / path, text)
        taken_back.pop_all()
    return sorted(start.files)


def _restore(path: Path, data: bytes | None, folders: list[Path]) -> None:
    with contextlib.suppress(OSError):
        if data is not None:
            write_whole(path, data)
            return
        path.unlink(missing_ok=True)
        for each in folders:  # the innermost first
            each.rmdir()


def _fill(root: Path, start: Start, kind: str, name: str, number: int) -> None:
    if not re.fullmatch(r"[a-z][a-z0-9_]*", name) or keyword.iskeyword(name):
        raise ValueError(f"{name!r} is no name; write a word of Python in small letters, as in row_sums")
    if name in _TAKEN or _DEVICES.fullmatch(name):
        raise ValueError(
            f"{name!r} is no name: {'no file of Windows' if _DEVICES.fullmatch(name) else 'nothing else here'} may be "
            "called that; choose another, as row_sums"
        )
    answer = _text(f"{kind}/answer", start, name, number)
    start.files |= {
        f"docs/{start.page}": _text(f"{kind}/page", start, name, number),
        f"lessons_src/exercises/{start.exercise}.py": _REGION.sub(_asks, answer),
        f"lessons_src/solutions/{start.exercise}.py": _REGION.sub(r"\g<head>\g<code>\g<end>", answer),
        f"lessons_src/checks/{start.exercise}.py": _text(f"{kind}/checks", start, name, number),
        f"lessons_src/checks/{start.exercise}.toml": _text(f"{kind}/answers", start, name, number),
    }
    dashed = name.replace("_", "-")
    places = [*start.files, *([f"kernels/ops/{name}.py"] if kind == "operator" else [])]
    there = [path for path in places if (root / path).exists()]
    there += [path.relative_to(root).as_posix() for path in (root / "docs" / start.page).parent.glob(f"*-{dashed}.md")]
    if there:
        raise ValueError(f"{there[0]} is there already; choose another name, or remove it")


def _asks(match: re.Match[str]) -> str:
    return match["head"] + match["todo"].replace("#! ", "", 1) + match["end"]


def _name_it(root: Path, start: Start, folder: str, name: str) -> None:
    """The page in the navigation, after the last one of its kind; in the schedule, in the last session."""
    config = _read(root, "mkdocs.yml")
    lines = [*re.finditer(rf"^ *- {folder}/\d+-[\w-]+\.md\n", config, re.MULTILINE)]
    if not lines:
        raise ValueError(f"mkdocs.yml names no page {folder}/N-….md under nav, after which the new one could come")
    last = lines[-1]
    line = re.sub(rf"{folder}/.*\.md", start.page, last[0])
    start.files["mkdocs.yml"] = config[: last.end()] + line + config[last.end() :]
    place = "docs/lessons/schedule.md"
    if (root / place).exists():
        schedule = _read(root, place)
        sessions = [*re.finditer(r"^\| \d+ \| (.+?) \| (.+?) \| .+? \|\n", schedule, re.MULTILINE)]
        if sessions:
            session = sessions[-1]
            href = start.page.removeprefix("lessons/") if folder == "lessons" else f"../{start.page}"
            done = f"{session[1]}; [{_title(name)}]({href})"
            typed = f"{session[2]}, `lessons check {start.exercise}`"
            row = session[0].replace(session[1], done, 1).replace(session[2], typed, 1)
            start.files[place] = schedule[: session.start()] + row + schedule[session.end() :]


def _next_number(root: Path, folder: str) -> int:
    numbers = [re.match(r"(\d+)-", path.name) for path in (root / "docs" / folder).glob("*.md")]
    return max((int(match[1]) for match in numbers if match), default=0) + 1


def _text(name: str, start: Start, exercise: str, number: int) -> str:
    text = (_STARTS / f"{name}.txt").read_text(encoding="utf-8")
    words = {"NAME": exercise, "TITLE": _title(exercise), "NUMBER": str(number), "PAGE": start.page}
    return re.sub(r"@(NAME|TITLE|NUMBER|PAGE)@", lambda match: words[match[1]], text)


def _title(name: str) -> str:
    return name.replace("_", " ").capitalize()


def _read(root: Path, path: str) -> str:
    return (root / path).read_text(encoding="utf-8")
