"""No tolerance is typed on a page or in an exercise's check: it is derived, or excused by name with a reason.

A tolerance is what `rtol`, `atol` and their like are given, the third argument of `close`, and what an error is
compared with by `<` or `>`. Typed is a number between 0 and 0.01 that stands there as such; 2.0**-24 times something is
derived.
That a derivation is right, no such test can say.
"""

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
KEYWORDS = {"rtol", "atol", "rel_tol", "abs_tol", "tolerance"}
LARGEST = 0.01  # larger numbers are thresholds of something else, such as a share of lines or a time
FENCE = re.compile(r"^(?P<indent>[ ]*)```python [^\n]*exec=[^\n]*\n(?P<code>.*?)^(?P=indent)```", re.M | re.S)
EXCUSED = {
    ("docs/authoring/drift.md", "rtol=0.001"): "shows the option rtol itself",
    ("lessons_src/checks/measurement.py", "1e-09"): (
        "a few operations on Python's own numbers, 2**-53 each: a wrong unit or a wrong median is off by far more"
    ),
    ("lessons_src/checks/measurement.py", "1e-06"): "1e-6 of the value; the records hold medians with more digits",
    ("lessons_src/checks/measurement.py", "1e-06 * case['median_us']"): "the record's samples are rounded when stored",
    ("lessons_src/checks/measurement.py", "1e-06 * case['gb_per_s']"): "the record's samples are rounded when stored",
    ("lessons_src/checks/measurement.py", "1e-12"): "one division of Python's own numbers, 2**-53",
}


def typed_tolerances(code: str) -> Iterator[tuple[int, str]]:
    """Line and text of each tolerance in `code` that is typed."""
    for node in ast.walk(ast.parse(code)):
        if isinstance(node, ast.Call):
            for word in node.keywords:
                if word.arg in KEYWORDS and _typed(word.value):
                    yield word.value.lineno, f"{word.arg}={ast.unparse(word.value)}"
            if (
                isinstance(node.func, ast.Name)
                and node.func.id == "close"
                and len(node.args) > 2
                and _typed(node.args[2])
            ):
                yield node.args[2].lineno, ast.unparse(node.args[2])
        elif isinstance(node, ast.Compare) and any(
            isinstance(op, (ast.Lt, ast.LtE, ast.Gt, ast.GtE)) for op in node.ops
        ):
            for side in (node.left, *node.comparators):
                if _typed(side):
                    yield side.lineno, ast.unparse(node)
        elif isinstance(node, ast.Assign) and _typed(node.value):
            names = {target.id for target in node.targets if isinstance(target, ast.Name)}
            if names & KEYWORDS:
                yield node.lineno, ast.unparse(node)


def _typed(node: ast.expr) -> bool:
    """Whether a small number stands in a product or a sum, not as an exponent or an argument of a call."""
    if isinstance(node, ast.Constant):
        return isinstance(node.value, float) and 0 < node.value < LARGEST
    if isinstance(node, ast.BinOp):
        if isinstance(node.op, ast.Pow):
            base = node.left
            return isinstance(base, ast.Constant) and base.value == 10
        return _typed(node.left) or _typed(node.right)
    return isinstance(node, ast.UnaryOp) and _typed(node.operand)


def places() -> Iterator[tuple[str, int, str]]:
    """File, line and text of each typed tolerance of the pages' blocks and of the exercises' files."""
    for page in sorted((ROOT / "docs").rglob("*.md")):
        text, name = page.read_text(encoding="utf-8"), page.relative_to(ROOT).as_posix()
        for block in FENCE.finditer(text):
            before = text[: block.start("code")].count("\n")
            width = len(block["indent"])
            code = "\n".join(line[width:] for line in block["code"].splitlines())
            yield from ((name, before + line, found) for line, found in typed_tolerances(code))
    for folder in ("checks", "exercises", "solutions", "examples"):
        for path in sorted((ROOT / "lessons_src" / folder).rglob("*.py")):
            for line, found in typed_tolerances(path.read_text(encoding="utf-8")):
                yield path.relative_to(ROOT).as_posix(), line, found


def test_no_tolerance_is_typed_without_an_excuse():
    typed = [f"{file}:{line}: {text}" for file, line, text in places() if (file, text) not in EXCUSED]
    assert typed == [], "derive it with kernels.ops.error_budget, or excuse it in EXCUSED with the reason"


def test_every_excuse_is_still_needed():
    assert set(EXCUSED) == {(file, text) for file, _, text in places() if (file, text) in EXCUSED}
    assert all(reason.strip() for reason in EXCUSED.values())


@pytest.mark.parametrize(
    "code",
    (
        "torch.allclose(a, b, rtol=1e-5)",
        "np.testing.assert_allclose(a, b, atol=1e-6 * scale)",
        "close(got, expected, 1e-9, given='x')",
        "close(got, expected, tolerance=10**-6)",
        "right = abs(total - 1) < 1e-5",
        "wrong = error > 0.001",
        "tolerance = 1e-6",
    ),
)
def test_typed_tolerances_are_found(code):
    assert len(list(typed_tolerances(code))) == 1


@pytest.mark.parametrize(
    "code",
    (
        "close(got, expected, 3 * 2.0**-24 * largest)",
        "torch.allclose(a, b, rtol=rtol, atol=atol)",
        "value_faults(t, 'out', out, right, atol=budget('float32', 300).allows(1.0))",
        "close(got, expected, 0)",
        "rmsnorm(x, eps=1e-6)",
        "busy = share > 0.5",
    ),
)
def test_derived_tolerances_are_none_of_them(code):
    assert list(typed_tolerances(code)) == []


def test_blocks_of_pages_are_looked_at():
    fences = ('    ```python exec="1" id="a"\n    print(abs(x) < 1e-7)\n    ```', "```python\nnot run: 1 < 1e-7\n```")
    page = "??? note\n\n{}\n\n{}\n".format(*fences)
    (block,) = FENCE.finditer(page)
    assert "1e-7" in block["code"] and "not run" not in block["code"]
    assert len(list(places())) >= 1
