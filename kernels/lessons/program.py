"""A block of a page as a program of its own: what a reader copies, and what a scratch branch begins with."""

from __future__ import annotations

import ast
import builtins
import contextlib
import re
from textwrap import indent

from kernels.lessons.model import Block, PageScan

SILENT = 'import os, sys; sys.shown, sys.stdout = sys.stdout, open(os.devnull, "w", encoding="utf-8")'
SILENT += "  # what earlier blocks print stands on the page\n"
AGAIN = "import sys; sys.stdout = sys.shown  # from here on, this block\n"
IN_WORDS = "import sys; from kernels.lessons.in_words import InWords; sys.stdout = InWords(sys.stdout)"
IN_WORDS += "  # a figure as its words\n"
FIND = """import os, sys; from importlib.util import find_spec
find_spec("kernels") or sys.exit("This Python does not know the project. In its folder: source .venv/bin/activate")
sys.path.append(os.path.dirname(find_spec("kernels").submodule_search_locations[0]))  # lessons_src lies beside kernels
"""
_OURS = re.compile(r"\b(?:from|import) (?:kernels|lessons_src)\b")
ADDED = (SILENT, AGAIN, IN_WORDS, FIND)
"""Lines that a program has beside the code of blocks."""
_STAYS = re.compile(r"\n|=|\b(?:alias|cd|eval|exec|exit|export|return|set|shopt|source|trap|umask|unset)\b")
"""What in a shell block is more than one command, or may change or end the shell that runs it."""
_BUILT = re.compile(r"\bbuild/[\w./-]+")
INTERPRETED = 'import os; os.environ["TRITON_INTERPRET"] = "1"  # Triton without a GPU\n'


def program_of(scan: PageScan, block: Block, mark: str = "") -> str:
    """The block as a program that runs as it is, in the project's folder: its session's earlier code first.

    A Python program prints what the block prints, and of a figure the words. It finds the project's modules wherever
    it is saved, and says so where its Python does not know them. With a `mark`, a comment to stand above the block
    itself, it is one to work on: earlier code prints as well, and a figure is printed as it is.

    Commands are for the terminal that the reader works in: one that leaves nothing behind stands alone, others in a
    subshell, so that neither an option of the shell nor an `exit` reaches the terminal.
    """
    same = before_and(scan, block)
    if block.language == "bash":
        return _commands(same, mark)
    above = f"{mark}\n" * bool(mark and len(same) > 1)
    if not mark:
        above = AGAIN * (len(same) > 1) + IN_WORDS * block.html
    marked = above + block.code
    code = "\n\n".join(marked if each is block else _gone_through(each) for each in same) + "\n"
    head = f"# {scan.source.name}, block {block.id}"
    if not mark:
        head += ". Run it in the project's folder; in a new terminal first: source .venv/bin/activate"
    head += "\n"
    if not mark and _OURS.search(code):
        head += FIND
    if any("triton" in each.needs for each in same):
        head += INTERPRETED
    if len(same) > 1 and not mark:
        head += SILENT
    return head + code


def before_and(scan: PageScan, block: Block) -> list[Block]:
    """The blocks of the same language whose code the block builds on, in order, and the block itself.

    Each shell block has a shell of its own: it builds on one only where both name a file in `build/`.
    """
    same = [
        b
        for b in scan.blocks
        if (b.session, b.compiled, b.language) == (block.session, block.compiled, block.language)
        and b.line <= block.line
    ]
    if block.language == "bash":
        built = set(_BUILT.findall(block.code))
        return [b for b in same if b is block or built & set(_BUILT.findall(b.code))]
    return same


def _commands(same: list[Block], mark: str) -> str:
    """Shell blocks, the last of them the one that is asked for; with a mark, for a file, as the page ran them."""
    above = f"{mark}\n" * bool(mark and len(same) > 1)
    code = "\n\n".join(above * (each is same[-1]) + each.code.strip("\n") for each in same)
    if mark:
        return f"set -euo pipefail\n{code}\n"
    return f"(\nset -euo pipefail\n{code}\n)\n" if _STAYS.search(code) else f"{code}\n"


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
