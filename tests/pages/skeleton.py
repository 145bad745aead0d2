"""The skeleton of a page that teaches, and what each of its sections must hold to keep the promise of its heading."""

from __future__ import annotations

import itertools
import re
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import yaml
from typed_commands import fences

ROOT = Path(__file__).resolve().parents[2]
SENTENCE = 40
"""The fewest characters that say why something is left out."""
VERDICT = re.compile(
    r'class="kl-verdict__kind"|\b(out of bounds|never written|written twice|race|masks?|double write|unwritten'
    r"|is written by|barrier|misaligned|not a number|NaN|wrong|FAIL|ends past|reads past|lost|failed|no complaint)\b",
    re.IGNORECASE,
)
"""What an output says that finds a kernel wrong: a verdict of the trace, of a check, or of a comparison."""


@dataclass(frozen=True)
class Block:
    """An executed block: its line, options and code, and its accepted output."""

    line: int
    options: dict[str, str]
    code: str
    output: str


@dataclass(frozen=True)
class Page:
    """A page as the skeleton sees it."""

    name: str
    meta: dict
    opening: str
    sections: dict[str, str]
    """Text of each heading of the second or third level, its deeper headings included; those of one name together."""
    first: dict[str, int]
    """Line of each of them; the first, where a page has several."""
    last: dict[str, int]
    blocks: list[Block]

    def of(self, *titles: str) -> str:
        """The text of the first of these sections that the page has."""
        return next((self.sections[title] for title in titles if title in self.sections), "")

    def blocks_of(self, *titles: str) -> list[Block]:
        """The executed blocks of a section."""
        text = self.of(*titles)
        return [block for block in self.blocks if f'id="{block.options["id"]}"' in text]


def read(text: str, name: str, outputs: Path = ROOT / "lessons_src" / "outputs") -> Page:
    """A page from its text. `name` is its path below docs/, by which its accepted outputs are found."""
    front = re.match(r"---\n(.*?)\n---\n", text, re.DOTALL)
    code = set()
    blocks = []
    for line, head, body in fences(text):
        code |= set(range(line, line + body.count("\n") + 3))
        if re.match(r"(python|py|bash|sh) ", head) and 'exec="1"' in head:
            options = dict(re.findall(r'([\w-]+)="([^"]*)"', head))
            ending = "html" if options.get("html") == "1" else "txt"
            accepted = outputs / name.removesuffix(".md") / f"{options.get('id')}.{ending}"
            output = accepted.read_text(encoding="utf-8") if accepted.is_file() else ""
            blocks.append(Block(line, options, body, output))
    heads = []
    lines = text.split("\n")
    for number, line in enumerate(lines, 1):
        heading = re.match(r"(#{1,6}) (.+?)(?: *\{ *#[\w-]+ *\})?$", line)
        if heading and number not in code:
            heads.append((number, len(heading[1]), heading[2].strip()))
    sections: dict[str, str] = {}
    first: dict[str, int] = {}
    last: dict[str, int] = {}
    for index, (number, level, title) in enumerate(heads):
        if level not in (2, 3):
            continue
        end = next((other for other, deep, _ in heads[index + 1 :] if deep <= level), len(lines) + 1)
        sections[title] = sections.get(title, "") + "\n".join(lines[number : end - 1]) + "\n"
        first.setdefault(title, number)
        last[title] = number
    begins = next((number for number, level, _ in heads if level == 2), len(lines) + 1)
    meta = yaml.safe_load(front[1]) if front else {}
    return Page(name, meta or {}, "\n".join(lines[: begins - 1]), sections, first, last, blocks)


def _explain(page: Page) -> str:
    points = re.findall(r"^- ", page.of("What you will be able to explain"), re.MULTILINE)
    return "" if len(points) >= 3 else f"lists {len(points)} points; a reader is told at least three"


def _predict(page: Page) -> str:
    text = page.of("Predict")
    if not re.search(r"\?|[Ww]rite down|how many", text):
        return "asks for nothing"
    start = page.first["Predict"]
    if not any(block.line > start for block in page.blocks):
        return "is answered by no executed block in it or after it"
    return ""


def _code(page: Page) -> str:
    text = page.of("The code") or "\n".join(page.sections.values())  # a page may show it where it explains it
    return "" if re.search(r"^ *```\w+ include=", text, re.MULTILINE) else "includes nothing from a source"


def _run(page: Page) -> str:
    return "" if page.blocks_of("Run", "Run it") else "runs nothing"


def _owners(page: Page) -> str:
    drawn = [b for b in page.blocks_of("Who owns what") if b.options.get("evidence") == "trace" and "html" in b.options]
    return "" if drawn else "holds no figure that is drawn from a trace"


def _evidence(title: str, kind: str) -> Callable[[Page], str]:
    def check(page: Page) -> str:
        found = [block for block in page.blocks_of(title) if block.options.get("evidence") == kind and block.output]
        return "" if found else f"holds no executed block of the evidence {kind}"

    return check


def _cost(page: Page) -> str:
    if not (missing := _evidence("What it costs", "measure")(page)):
        return ""
    counted = [
        b for b in page.blocks_of("What it costs") if b.options.get("evidence") == "trace" and "sectors" in b.output
    ]
    return "" if counted else f"{missing}, and counts no sectors in a trace"


def _wrong(page: Page) -> str:
    blocks = page.blocks_of("What goes wrong")
    if not blocks:
        return "runs nothing that is wrong"
    judged = [block for block in blocks if "raises" in block.options or VERDICT.search(block.output)]
    return "" if judged else "shows no verdict on what it runs"


def _exercise(page: Page) -> str:
    text = page.of("Exercise")
    named = re.search(r"lessons (?:check|verify) ([\w/.-]+)", text)
    if not named:
        folded = [block for block in page.blocks_of("Exercise") if "???" in text.partition(block.options["id"])[0]]
        return "" if folded else "names no command that checks an answer (lessons check NAME), and computes none"
    name = named[1]
    if "verify" not in named[0] and not (ROOT / "lessons_src" / "exercises" / f"{name}.py").is_file():
        return f"names the exercise {name}, which does not exist"
    return "" if "???" in text or "--hint" in text else "offers no hint, and folds no solution away"


def _exit(page: Page) -> str:
    answers = re.split(r"^\?\?\?\+? \w+ ", page.of("Exit questions"), flags=re.MULTILINE)[1:]
    if not 3 <= len(answers) <= 8:
        return f"asks {len(answers)} questions, folded; between three and eight are asked"
    computed = [answer for answer in answers if "#!value" in answer or 'exec="1"' in answer]
    if len(computed) < len(answers) - 1:
        return f"computes {len(computed)} of its {len(answers)} answers; one at most may be words alone"
    return ""


def _next(page: Page) -> str:
    return "" if re.search(r"\]\([\w./-]+\.md", page.of("Next")) else "leads nowhere"


SECTIONS: dict[str, tuple[tuple[str, ...], Callable[[Page], str]]] = {
    "What you will be able to explain": ((), _explain),
    "Predict": ((), _predict),
    "The code": ((), _code),
    "Run": (("Run it",), _run),
    "Who owns what": ((), _owners),
    "What the compiler made of it": ((), _evidence("What the compiler made of it", "compile")),
    "What it costs": ((), _cost),
    "What goes wrong": ((), _wrong),
    "Exercise": ((), _exercise),
    "Exit questions": ((), _exit),
    "Next": ((), _next),
}
"""Each section with other names for it, and what must be true of it."""
OPENING = {
    "Time": r"^\*\*Time\*\*",
    "Prerequisite": r"\*\*Prerequisites?\*\*",
    "Read beside this page": r"\*\*Read\s+beside\s+this\s+page\*\*",
}


def faults(page: Page) -> list[str]:
    """What the page lacks, each as a sentence."""
    found = []
    for name, pattern in OPENING.items():
        if not re.search(pattern, page.opening, re.MULTILINE):
            found.append(f"{page.name}: the opening paragraph does not say {name!r}")
    left_out = page.meta.get("left_out") or {}
    for title, reason in left_out.items():
        if title not in SECTIONS:
            found.append(f"{page.name}: left_out names {title!r}, which is no section of the skeleton")
        elif len(str(reason)) < SENTENCE:
            found.append(f"{page.name}: the reason for leaving out {title!r} is too short to be one: {reason!r}")
        elif any(name in page.sections for name in (title, *SECTIONS[title][0])):
            found.append(f"{page.name}: {title!r} is named in left_out, and is on the page")
    for title, (others, check) in SECTIONS.items():
        if title in left_out:
            continue
        if not any(name in page.sections for name in (title, *others)) and title != "The code":
            found.append(f"{page.name}: no section {title!r}, and no reason in left_out")
        elif why := check(page):
            found.append(f"{page.name}: the section {title!r} {why}")
    here = [title for title in SECTIONS if page.first.get(title)]
    for before, title in itertools.pairwise(here):
        if page.last[title] < page.first[before] and title not in (
            "What goes wrong",
            "Who owns what",
            "What the compiler made of it",
        ):
            found.append(f"{page.name}: {title!r} stands before the section that it follows")
    return found
