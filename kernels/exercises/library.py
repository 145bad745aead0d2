"""Where exercises lie: the three files of each, what its check file says of it, and its wrong and right answers."""

from __future__ import annotations

import ast
import difflib
import importlib.util
import re
import sys
import tomllib
from dataclasses import dataclass
from pathlib import Path

from kernels.exercises.model import CHECKS_NAME, Exercise
from kernels.sources.closure import project_root

FOLDER = "lessons_src"
EXERCISES, SOLUTIONS, CHECKS = (f"{FOLDER}/{name}" for name in ("exercises", "solutions", "checks"))


class UnknownExercise(KeyError):
    """No exercise has that name; the message says which it may have meant."""

    def __str__(self) -> str:
        return str(self.args[0])


@dataclass(frozen=True)
class Answer:
    """A named answer of the gate's list: the solution with pieces of text exchanged.

    `wrong` ones must fail first at the check `fails`, with `says` in what it says. `line` is where it stands in
    the list.
    """

    name: str
    wrong: bool
    replace: tuple[tuple[str, str], ...]
    line: int
    thought: str = ""
    fails: str = ""
    says: str = ""


@dataclass(frozen=True)
class Files:
    """The files of one exercise."""

    name: str
    root: Path

    @property
    def starter(self) -> Path:
        """What the learner edits."""
        return self.root / EXERCISES / f"{self.name}.py"

    @property
    def solution(self) -> Path:
        """One right answer."""
        return self.root / SOLUTIONS / f"{self.name}.py"

    @property
    def checks(self) -> Path:
        """What is looked at."""
        return self.root / CHECKS / f"{self.name}.py"

    @property
    def answers(self) -> Path:
        """The gate's list."""
        return self.root / CHECKS / f"{self.name}.toml"

    def shown(self, path: Path) -> str:
        """A path as readers know it: from the project's folder where it lies there."""
        return path.relative_to(self.root).as_posix() if path.is_relative_to(self.root) else str(path)


def shipped(files: Files) -> tuple[str, ...]:
    """The digests of starter regions that hold working code, from the list's `shipped`; see `marks.Region.digest`."""
    try:
        given = tomllib.loads(files.answers.read_text(encoding="utf-8")).get("shipped", [])
    except (OSError, tomllib.TOMLDecodeError):
        return ()  # the gate says what is wrong with the list
    return tuple(given) if isinstance(given, list) else (str(given),)


def exercises(root: Path | None = None) -> list[str]:
    """The names of all exercises: of every check file."""
    folder = (root or project_root()) / CHECKS
    return sorted(path.stem for path in folder.glob("*.py") if not path.stem.startswith("_"))


def place_of(files: Files, lesson: str) -> tuple[int, int, str, int]:
    """What sorts exercises as a learner meets them: lessons, labs, workshops, then the rest; on a page, downwards.

    Lessons and labs go by their number; workshops too, those of I before those of A.

    lesson: the page below docs/ with the heading, as in "lessons/1-offsets-and-masks.md#exercise".
    """
    page, _, heading = lesson.partition("#")
    folders = ("lessons", "labs", "workshops")
    match = re.match(r"(\w+)/([ia]?)(\d+)-", page)
    known = match is not None and match[1] in folders
    try:
        down = (files.root / "docs" / page).read_text(encoding="utf-8").find(f"{{#{heading}}}")
    except OSError:
        down = -1
    if not known:
        return len(folders), 0, page, down
    return folders.index(match[1]), int(match[3]) + 100 * (match[2] == "a"), page, down


def find(name: str, root: Path | None = None) -> Files:
    """The files of an exercise, by its name or the path of one of its files. UnknownExercise where there is none."""
    root = root or project_root()
    known = exercises(root)
    short = Path(name.strip()).stem if name.endswith((".py", ".toml")) else name.strip()
    if short in known:
        return Files(short, root)
    if name.endswith(".md"):
        page = "/".join(Path(name).parts[-2:])
        there = [each for each in known if described(Files(each, root)).lesson.partition("#")[0] == page]
        if there:
            raise UnknownExercise(f"{name!r} is a page; its exercise is {' or '.join(there)}.")
    near = difflib.get_close_matches(short.lower(), known, 3, 0.5) or [each for each in known if short.lower() in each]
    if near:
        raise UnknownExercise(f"there is no exercise {name!r}; did you mean {' or '.join(near)}?")
    raise UnknownExercise(f"there is no exercise {name!r}; there are: {', '.join(known) or 'none'}")


def module_of(files: Files) -> object:
    """The check file, run as a module. It is never found by `import`, so an answer does not get hold of it by name."""
    name = f"{CHECKS_NAME}{files.name}"
    spec = importlib.util.spec_from_file_location(name, files.checks)
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    try:
        spec.loader.exec_module(module)
    finally:
        del sys.modules[name]
    return module


def load(files: Files) -> Exercise:
    """The exercise that the check file defines. ValueError where it defines none, or no check; else what it raises."""
    exercise = getattr(module_of(files), "EXERCISE", None)
    if not isinstance(exercise, Exercise):
        raise ValueError(f"{files.shown(files.checks)} defines no EXERCISE = Exercise(…)")
    if not exercise.checks:
        raise ValueError(f"{files.shown(files.checks)} has no check: nothing would be looked at, and any answer pass")
    return exercise


def described(files: Files) -> Exercise:
    """The exercise without its checks, read from the text where that is possible: nothing heavy is imported."""
    tree = ast.parse(files.checks.read_text(encoding="utf-8"))
    for node in tree.body:
        value = getattr(node, "value", None)
        if isinstance(value, ast.Call) and getattr(value.func, "id", "") == "Exercise":
            try:
                given = {word.arg: ast.literal_eval(word.value) for word in value.keywords}
            except ValueError:
                break
            return Exercise(**given)
    return load(files)


def answers(files: Files) -> list[Answer]:
    """The gate's list. ValueError where it is missing or not as it should be; the message names file and line."""
    where = files.shown(files.answers)
    try:
        text = files.answers.read_text(encoding="utf-8")
    except FileNotFoundError:
        raise ValueError(f"{where}:1: there is no such file; it lists the wrong answers of {files.name}") from None
    try:
        document = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        line = re.search(r"at line (\d+)", str(error))
        raise ValueError(f"{where}:{line[1] if line else 1}: this is no TOML: {error}") from None
    starts = [number for number, line in enumerate(text.split("\n"), 1) if re.match(r"\s*\[\[(wrong|right)\]\]", line)]
    found: list[Answer] = []
    tables = {"wrong": [], "right": []} | document
    if extra := sorted(set(tables) - {"wrong", "right", "shipped"}):
        raise ValueError(f"{where}:1: {extra[0]!r} is unknown; there are [[wrong]], [[right]] and shipped")
    kinds = [re.match(r"\s*\[\[(\w+)\]\]", text.split("\n")[number - 1])[1] for number in starts]
    lines = {kind: [line for line, each in zip(starts, kinds, strict=True) if each == kind] for kind in set(kinds)}
    for kind in ("wrong", "right"):
        for entry, line in zip(tables[kind], lines.get(kind, []), strict=True):
            found.append(_answer(entry, kind == "wrong", line, where))
    repeated = {each.name for each in found if sum(each.name == other.name for other in found) > 1}
    for each in found:
        if each.name in repeated:
            raise ValueError(f"{where}:{each.line}: two answers are called {each.name!r}")
    return sorted(found, key=lambda each: each.line)


def _answer(entry: dict, wrong: bool, line: int, where: str) -> Answer:
    needed = {"name", "replace"} | ({"thought", "fails", "says"} if wrong else set())
    if lacking := sorted(needed - entry.keys()):
        raise ValueError(f"{where}:{line}: {', '.join(lacking)} is missing here")
    if extra := sorted(entry.keys() - {"name", "replace", "thought", "fails", "says"}):
        raise ValueError(f"{where}:{line}: {extra[0]!r} is unknown here")
    pairs = entry["replace"]
    if not (isinstance(pairs, list) and pairs and all(isinstance(p, list) and len(p) == 2 for p in pairs)):
        raise ValueError(f'{where}:{line}: replace is a list of pairs: [["in the solution", "instead"]]')
    replace = tuple((old, new) for old, new in pairs)
    words = {key: entry.get(key, "") for key in ("thought", "fails", "says")}
    return Answer(entry["name"], wrong, replace, line, **words)


def text_of(files: Files, answer: Answer) -> str:
    """The solution with the answer's text in it. ValueError where a text to exchange is not found exactly once."""
    text = files.solution.read_text(encoding="utf-8")
    solution = text
    for old, new in answer.replace:
        if (count := text.count(old)) != 1:
            raise ValueError(
                f"{files.shown(files.answers)}:{answer.line}: {answer.name!r}: the text to exchange occurs {count} "
                f"times in {files.shown(files.solution)}, not once: {old!r}"
            )
        text = text.replace(old, new)
    if text == solution:
        raise ValueError(f"{files.shown(files.answers)}:{answer.line}: {answer.name!r} changes nothing")
    return text
