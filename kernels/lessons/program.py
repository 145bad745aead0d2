"""A block of a page as a program of its own: what a reader copies, and what a scratch branch begins with."""

from __future__ import annotations

import ast
import builtins
import contextlib
from textwrap import indent

from kernels.lessons.model import Block, PageScan

SILENT = 'import os, sys; sys.shown, sys.stdout = sys.stdout, open(os.devnull, "w", encoding="utf-8")'
SILENT += "  # what earlier blocks print stands on the page\n"
AGAIN = "import sys; sys.stdout = sys.shown  # from here on, this block\n"
IN_WORDS = "import sys; from kernels.lessons.in_words import InWords; sys.stdout = InWords(sys.stdout)"
IN_WORDS += "  # a figure as its words\n"
ADDED = (SILENT, AGAIN, IN_WORDS)
"""Lines that a program has beside the code of blocks."""
INTERPRETED = 'import os; os.environ["TRITON_INTERPRET"] = "1"  # Triton without a GPU\n'


def program_of(scan: PageScan, block: Block, mark: str = "") -> str:
    """The block as a program that runs as it is: its session's earlier code first.

    A Python program prints what the block prints, and of a figure the words. With a `mark`, a comment to stand above
    the block itself, it is one to work on: earlier code prints as well, and a figure is printed as it is.
    """
    same = before_and(scan, block)
    above = f"{mark}\n" * bool(mark and len(same) > 1)
    if not mark and block.language == "python":
        above = AGAIN * (len(same) > 1) + IN_WORDS * block.html
    marked = above + block.code
    code = "\n\n".join(marked if each is block else _gone_through(each) for each in same) + "\n"
    if block.language == "bash":
        return "set -euo pipefail\n" + code
    head = f"# {scan.source.name}, block {block.id}\n"
    if any("triton" in each.needs for each in same):
        head += INTERPRETED
    if len(same) > 1 and not mark:
        head += SILENT
    return head + code


def before_and(scan: PageScan, block: Block) -> list[Block]:
    """The blocks of the same language whose code the block builds on, in order, and the block itself."""
    return [
        b
        for b in scan.blocks
        if (b.session, b.compiled, b.language) == (block.session, block.compiled, block.language)
        and b.line <= block.line
    ]


def _gone_through(block: Block) -> str:
    """An earlier block in a program: where it raises on purpose, the program says so and goes on, as the page did."""
    if not block.raises:
        return block.code
    expected = getattr(builtins, block.raises, Exception)
    is_end = isinstance(expected, type) and not issubclass(expected, Exception)  # SystemExit, KeyboardInterrupt
    return f"""try:
{indent(_inside(block.code), "    ")}
except {"BaseException" if is_end else "Exception"} as error:
    print(type(error).__name__, "on purpose:", error)"""


def _inside(code: str) -> str:
    """The code, as it may be indented: a text over several lines would become another, and not all code is Python."""
    with contextlib.suppress(SyntaxError):
        if ast.dump(ast.parse(f"if 1:\n{indent(code, '    ')}").body[0]) == _indented(code):
            return code
    return f'exec(compile({code!r}, "block", "exec"))'


def _indented(code: str) -> str:
    return ast.dump(ast.If(ast.Constant(1), ast.parse(code).body, []))
