"""The nouns of this room: an exercise and its checks, a failure, what a check gave, and the verdict on an answer."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, field, fields
from typing import Any

PASS, TODO, FAIL, LOAD_ERROR, UNAVAILABLE = "PASS", "TODO", "FAIL", "LOAD ERROR", "UNAVAILABLE"
EXIT_CODES = {PASS: 0, TODO: 2, FAIL: 1, LOAD_ERROR: 1, UNAVAILABLE: 3}
CHECKS_NAME = "_checks_of_"
"""How the name of a check file's module begins; what follows is the exercise's."""
ANSWERS_NAME = "lessons_src.exercises."
"""The same for the module of an answer."""
NEEDS = ("cpu", "triton", "gpu")
SECONDS = {"cpu": 10.0, "triton": 60.0, "gpu": 60.0}
"""How long a check may take, by what its exercise needs, where the check does not say."""


@dataclass(frozen=True)
class Check:
    """One question that is put to an answer: `run(answer)` returns where all is right.

    `cause` is the likely cause of a failure, `hint` a way on, `anchor` where the lesson explains it ("#heading", or
    "page.md#heading"), `seconds` its time limit.
    """

    title: str
    run: Callable[[Any], None]
    cause: str = ""
    hint: str = ""
    anchor: str = ""
    seconds: float = 0.0


@dataclass
class Exercise:
    """What an exercise asks, and the checks of an answer in the order in which they are asked, easy ones first.

    lesson: the page and heading below docs/, as in "lessons/1-offsets-and-masks.md#exercise". task: one sentence.
    needs: "cpu", "triton" (interpreted) or "gpu". hints: each stronger than the one before. explain: why the right
    answer is right, in Markdown. imports: modules that the checks stand on beside those of `needs`; they are imported
    once, before any answer is loaded. ValueError where one of these cannot be.
    """

    lesson: str
    task: str
    needs: str = "cpu"
    hints: Sequence[str] = ()
    explain: str = ""
    imports: Sequence[str] = ()
    checks: list[Check] = field(default_factory=list)

    def __post_init__(self) -> None:
        if self.needs not in NEEDS:
            raise ValueError(f"needs={self.needs!r}: an exercise needs one of {', '.join(NEEDS)}")
        if isinstance(self.imports, str):
            raise ValueError("imports is one string; it is a tuple of the names of modules")
        if isinstance(self.hints, str):
            raise ValueError("hints is one string; it is a tuple of strings, each stronger than the one before")
        if ".md" not in self.lesson:
            raise ValueError(f'lesson={self.lesson!r} names no page; write "lessons/1-offsets-and-masks.md#exercise"')

    def check(
        self, title: str, *, cause: str = "", hint: str = "", anchor: str = "", seconds: float = 0.0
    ) -> Callable[[Callable[[Any], None]], Callable[[Any], None]]:
        """Make the function below a check of this exercise. It takes the learner's module, loaded afresh for it.

        seconds: the time limit; left out, it is that of `SECONDS`. ValueError where two checks have one title.
        """
        if any(title == each.title for each in self.checks):
            raise ValueError(f"two checks are called {title!r}; give each its own title")

        def added(function: Callable[[Any], None]) -> Callable[[Any], None]:
            limit = seconds or SECONDS[self.needs]
            self.checks.append(Check(title, function, cause, hint, anchor, limit))
            return function

        return added


@dataclass(frozen=True)
class Strip:
    """Cells side by side, for a terminal: `rows` holds a label and the cells of each row, `marked` the bad column."""

    rows: tuple[tuple[str, tuple[str, ...]], ...]
    marked: int

    @staticmethod
    def of(given: dict[str, Any]) -> Strip:
        """From `asdict` that went through JSON."""
        return Strip(tuple((label, tuple(cells)) for label, cells in given["rows"]), given["marked"])


@dataclass(frozen=True)
class Failure:
    """Why a check failed. Everything is text, "" where it is unknown, and can be sent as JSON.

    `at` is the first bad element, `owner` who is to blame for it, `mask` the state of its mask, `place` a file and a
    line, `explanation` the key of a trace verdict's explanation, `drawing` a `Strip` or lines of text.
    """

    sentence: str
    kind: str = "wrong"
    given: str = ""
    at: str = ""
    expected: str = ""
    got: str = ""
    owner: str = ""
    mask: str = ""
    cause: str = ""
    hint: str = ""
    anchor: str = ""
    place: str = ""
    explanation: str = ""
    traceback: str = ""
    drawing: Strip | str | None = None

    def as_json(self) -> dict[str, Any]:
        """A dictionary of texts and numbers."""
        return asdict(self)

    @staticmethod
    def of(given: dict[str, Any]) -> Failure:
        """From `as_json` of another process."""
        known = {each.name for each in fields(Failure)}
        values = {name: value for name, value in given.items() if name in known}
        if isinstance(values.get("drawing"), dict):
            values["drawing"] = Strip.of(values["drawing"])
        return Failure(**values)

    @property
    def text(self) -> str:
        """All of it in one line, for searching."""
        words = (self.sentence, self.given, self.at, self.expected, self.got, self.owner, self.mask, self.cause)
        return "; ".join(filter(None, words))


@dataclass(frozen=True)
class CheckResult:
    """What one check gave: `status` is PASS, TODO, FAIL or LOAD ERROR; `compared` how many elements it looked at."""

    title: str
    status: str
    failure: Failure | None = None
    compared: int = 0
    seconds: float = 0.0
    output: str = ""


@dataclass(frozen=True)
class Verdict:
    """What became of an answer. `sentence` says it where no check does; `notes` are remarks that decide nothing."""

    name: str
    kind: str
    path: str
    results: tuple[CheckResult, ...] = ()
    sentence: str = ""
    notes: tuple[str, ...] = ()

    @property
    def exit_code(self) -> int:
        """0 PASS, 2 TODO, 1 FAIL and LOAD ERROR, 3 UNAVAILABLE."""
        return EXIT_CODES[self.kind]

    @property
    def first_failure(self) -> CheckResult | None:
        """The first check that failed or could not be loaded."""
        return next((result for result in self.results if result.status in (FAIL, LOAD_ERROR)), None)
