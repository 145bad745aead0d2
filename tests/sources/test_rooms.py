"""The rooms of `kernels/` import what the table of docs/authoring/architecture.md allows, and nothing else."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
PAGE = ROOT / "docs" / "authoring" / "architecture.md"
ROW = re.compile(r"^\| `kernels/(\w+)/` \| .+ \| (.+?) \|$", re.MULTILINE)
MODULE = re.compile(r"kernels(\.\w+)+[.:]?\Z")
FILES = sorted((ROOT / "kernels").glob("*/**/*.py"))


def allowed(text: str) -> dict[str, tuple[set[str], set[str]]]:
    """By room: the rooms that it may import, and those that it may only import inside of functions.

    In the table's third column stand rooms between backticks; what is for functions only ends with "when called", up to
    the semicolon before it. "everything above" are the rooms of the rows above.
    """
    found: dict[str, tuple[set[str], set[str]]] = {}
    for room, cell in ROW.findall(text):
        at_once, called = set(), set()
        for part in cell.split(";"):
            into = called if part.rstrip().endswith("when called") else at_once
            into |= set(found) if "everything above" in part else set(re.findall(r"`(\w+)`", part))
        found[room] = at_once, called
    return found


def imports(path: Path) -> Iterator[tuple[str, bool, int]]:
    """Every module that a file imports, whether it does so when it is imported itself, and the line.

    Imports for type checkers alone never happen, so they are left out. A text such as "kernels.cuda" counts as an
    import when called: `import_module` takes it, or `python -m`.
    """
    package = path.relative_to(ROOT).parent.parts
    yield from _imports(ast.parse(path.read_text(encoding="utf-8")), package, True)


def _imports(node: ast.AST, package: tuple[str, ...], at_once: bool) -> Iterator[tuple[str, bool, int]]:
    for each in ast.iter_child_nodes(node):
        if isinstance(each, ast.Import):
            yield from ((alias.name, at_once, each.lineno) for alias in each.names)
        elif isinstance(each, ast.ImportFrom):
            above = package[: len(package) + 1 - each.level] if each.level else ()
            module = ".".join([*above, *([each.module] if each.module else [])])
            for alias in each.names:
                yield f"{module}.{alias.name}", at_once, each.lineno
        elif isinstance(each, ast.Constant) and isinstance(each.value, str):
            if MODULE.match(each.value):
                yield each.value, False, each.lineno
        elif isinstance(each, ast.If) and ast.unparse(each.test).endswith("TYPE_CHECKING"):
            continue
        else:
            inside = isinstance(each, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda)
            yield from _imports(each, package, at_once and not inside)


def test_the_table_names_every_room_of_the_package():
    rooms = {path.relative_to(ROOT / "kernels").parts[0] for path in FILES}
    assert set(allowed(PAGE.read_text(encoding="utf-8"))) == rooms


@pytest.mark.parametrize("room", sorted(allowed(PAGE.read_text(encoding="utf-8"))))
def test_arrows_point_one_way(room):
    rooms = allowed(PAGE.read_text(encoding="utf-8"))
    at_once, called = rooms[room]
    wrong, seen = [], set()
    for path in FILES:
        if path.relative_to(ROOT / "kernels").parts[0] != room:
            continue
        for name, on_import, line in imports(path):
            root, _, rest = name.partition(".")
            other = rest.partition(".")[0]
            if root != "kernels" or other not in rooms or other == room:
                continue
            seen.add(other)
            where = f"{path.relative_to(ROOT)}:{line} imports {name}"
            if other not in at_once | called:
                wrong.append(f"{where}; {room} may not import {other}")
            elif on_import and other not in at_once:
                wrong.append(f"{where} at the top; it may when called")
    assert not wrong, "\n".join(wrong)
    if room != "lessons":
        assert seen == at_once | called, f"{PAGE.name} allows {room} more than it imports: {at_once | called - seen}"


@pytest.mark.parametrize(
    ("module", "place"), [("mkdocs", "lessons/mkdocs_plugin"), ("markdown_exec", "lessons/fence.py")]
)
def test_one_place_imports_what_makes_the_site(module, place):
    found = {
        path.relative_to(ROOT / "kernels").as_posix()
        for path in FILES
        if any(name.partition(".")[0] == module for name, _, _ in imports(path))
    }
    assert found and all(name == place or name.startswith(place + "/") for name in found), found
