"""The contract of an operator, as its module's docstring states it: formula, shapes, dtypes, strides, limits."""

import ast
import re
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
LABELS = ("Shapes", "Visible", "Splits", "Dtypes", "Strides", "Limits", "Precision", "Order", "Special", "Gradient")
REQUIRED = ("Shapes", "Dtypes", "Strides", "Limits", "Special")
_LABELLED = re.compile(r"^([A-Z][a-z]+)\s{1,}(\S.*)$")
INDENT = 10


@dataclass(frozen=True)
class Contract:
    """A summary line, the formula's lines, the labelled parts in the docstring's order, and paragraphs of text."""

    summary: str
    formula: tuple[str, ...]
    parts: dict[str, str]
    text: tuple[str, ...]


def contract(module: str) -> Contract:
    """The contract of a module of operators, such as "kernels.ops.softmax". Reads the file; imports nothing.

    Raises ValueError with a sentence where the docstring lacks a part that every contract has, or has an unknown one.
    """
    path = ROOT / Path(*module.split(".")).with_suffix(".py")
    return parse(ast.get_docstring(ast.parse(path.read_text(encoding="utf-8"))) or "", module)


def parse(docstring: str, name: str) -> Contract:
    """The contract in a docstring: a summary, indented lines of formula, then labels that begin in the first column."""
    lines = docstring.splitlines()
    summary = lines[0].partition(": ")[2] or lines[0] if lines else ""
    formula: list[str] = []
    parts: dict[str, str] = {}
    paragraphs: list[list[str]] = [[]]
    label = None
    for line in lines[1:]:
        found = _LABELLED.match(line)
        if found and label and found.start(2) == INDENT and found[1] not in LABELS:
            raise ValueError(f"The contract in the docstring of {name} has a part {found[1]}; {_known()}.")
        if found and found[1] in LABELS:
            label = found[1]
            parts[label] = found[2]
        elif label and line.startswith(" " * INDENT):
            parts[label] += " " + line.strip()
        elif label and line.strip():
            raise ValueError(
                f"The contract in the docstring of {name} has a line between its parts that belongs to none: "
                f"{line!r}. Put an empty line before it, or indent it; {_known()}."
            )
        elif not line.strip():
            label = None
            paragraphs.append([])
        elif line.startswith("    "):
            formula.append(line[4:])
        else:
            paragraphs[-1].append(line.strip())
    missing = [each for each in REQUIRED if each not in parts]
    if missing:
        raise ValueError(
            f"The docstring of {name} says nothing about {', '.join(missing)}; each begins with a contract, "
            f"and {_known()}."
        )
    text = tuple(" ".join(each) for each in paragraphs if each)
    return Contract(summary.rstrip(".") + ".", tuple(formula), parts, text)


def _known() -> str:
    return f"its parts are {', '.join(LABELS)}, each a word at the start of a line"


def ways(docstring: str) -> dict[str, str]:
    """The named ways in a docstring: a word at the start of a line, at least two spaces, text that goes on indented."""
    found: dict[str, str] = {}
    name = None
    for line in docstring.splitlines():
        begins = re.match(r"^([a-z]+)\s{2,}(\S.*)$", line)
        if begins:
            name = begins[1]
            found[name] = begins[2]
        elif name and line.startswith("      ") and line.strip():
            found[name] += " " + line.strip()
        else:
            name = None
    return found
