"""A project of one small exercise in plain Python, for tests that need files of their own."""

from pathlib import Path

from kernels.exercises.library import Files

HEAD = '''"""Exercise: halves.

    lessons check halves
"""


def half(n):
    """n // 2, rounded up."""
'''
TAIL = """

def halves(numbers):
    return [half(n) for n in numbers]
"""
ASKS = '    # Round up.\n    raise NotImplementedError("half: divide by 2, rounded up")\n'
RIGHT = "    return -(-n // 2)\n"
CHECKS = """
from kernels.exercises import Exercise, equal, fail

EXERCISE = Exercise(
    lesson="lessons/halves.md#exercise",
    task="Halve numbers, rounded up.",
    hints=("Look at 3.", "-(-n // 2)"),
    explain="Floor division of the negative number\\nrounds *up*.\\n\\nA second paragraph.",
)


@EXERCISE.check("even numbers", seconds=60.0)
def even(answer):
    for n in (0, 2, 4):
        equal(answer.half(n), n // 2, given=f"n = {n}")


@EXERCISE.check("odd numbers", cause="// rounds down – to the floor.", anchor="#odd", seconds=60.0)
def odd(answer):
    n = 3
    equal(answer.half(n), 2, given="n = 3")
    equal(answer.halves([1, 2, 5]), [1, 1, 3])


def timed(answer, device):
    return lambda: answer.halves(range(100))
"""
HURRIED = CHECKS.replace("seconds=60.0", "seconds=1.0")  # for answers that do not end; others may take their time


def source(body: str, head: str = HEAD, tail: str = TAIL) -> str:
    """The exercise's file with this between its marks."""
    return f"{head}    # --- fill in ---\n{body}    # --- end ---\n{tail}"


def make(root: Path, *, starter: str = ASKS, solution: str = RIGHT, checks: str = CHECKS, answers: str = "") -> Files:
    """Write the project below `root`."""
    files = Files("halves", root)
    (root / "docs/lessons").mkdir(parents=True)
    (root / "docs/lessons/halves.md").write_text("# Halves\n", encoding="utf-8")
    for path, text in (
        (files.starter, source(starter)),
        (files.solution, source(solution)),
        (files.checks, checks),
        (files.answers, answers),
    ):
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
    return files
