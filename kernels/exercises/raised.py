"""What an error in a Triton launch usually means: Triton says what it could not do, and not what the learner missed."""

from __future__ import annotations

import linecache
import re
import sysconfig
import traceback
from pathlib import Path

from kernels.exercises.model import Failure

_FRAMES = 20
_KNOWN = (  # of what is raised, a pattern for "Type: message" and one for the line of code
    (
        r"object of type 'int' has no len",
        r"\[",
        "the grid is a number; it is a tuple, also where it has one number",
        "kernel[(programs,)](...): the comma makes it a tuple.",
    ),
    (
        r"missing \d+ required positional argument.*: '\w+'",
        r"\]\(",
        "the launch leaves out an argument of the kernel",
        "All that the kernel's first line names is passed at the launch, constexpr arguments by name: BLOCK=BLOCK.",
    ),
    (
        r"arange\(\) missing",
        r"",
        "tl.arange takes a first number and an end, and has no short form",
        "tl.arange(0, BLOCK) holds the numbers 0 to BLOCK - 1.",
    ),
    (
        r"program_id\(\) missing",
        r"",
        "tl.program_id takes the axis of the grid",
        "A grid of one number has axis 0: tl.program_id(0).",
    ),
    (
        r"range must be a power of 2",
        r"",
        "a block has a power of two of places, and this one would not",
        "Round up with triton.next_power_of_2, and let a mask cut off what is too much.",
    ),
    (
        r"'range' object|'list' object",
        r"",
        "a kernel works on blocks; Python's lists and ranges are none",
        "tl.arange(0, BLOCK) is all the numbers at once.",
    ),
    (
        r"'int' object is not iterable|not subscriptable|Index",
        r"_ptr\s*\[",
        "a pointer is no list, so it has no elements to pick",
        "tl.load(x_ptr + offsets, mask=mask) reads, tl.store(out_ptr + offsets, values, mask=mask) writes.",
    ),
    (
        r"invalid operands of type pointer",
        r"",
        "a pointer stands where a number is meant, as happens when the launch passes arguments in another order",
        "Compare the launch with the first line of the kernel, argument by argument.",
    ),
    (
        r"(Mask|Value) argument cannot be block type",
        r"",
        "the pointer has one place, and what is stored there, or its mask, has many",
        "One number goes to out_ptr + row and needs no mask; a block goes to out_ptr + offsets, with a mask as wide.",
    ),
    (
        r"axis -?\d+ out of bounds for shape",
        r"",
        "the block has one axis, and axes count from 0",
        "tl.sum(x, axis=0) reduces a block of one axis to one number.",
    ),
    (
        r"Expected dtype \['fp32', 'fp64'\]",
        r"",
        "exponentials and their like take float32, and this block is narrower",
        "Convert it first: x.to(tl.float32).",
    ),
    (
        r"length-1 arrays can be converted|must be Tensor, not tensor|must be real number|'int' object is not iterable",
        r"",
        "a function of Python, math or torch met a block; inside a kernel, functions on blocks come from tl",
        "tl.exp, tl.sum(x, axis=0), tl.max(x, axis=0), tl.where.",
    ),
)


def launch_failure(error: Exception, given: str = "") -> Failure | None:
    """The failure of a check whose launch raised `error`, with the likely cause; None where the error is not known.

    `given` says on which input. The place is the innermost line of the learner's code.
    """
    chain = [error]
    while chain[-1].__cause__ is not None and len(chain) < _FRAMES:
        chain.append(chain[-1].__cause__)
    root = chain[-1]
    file, line = _place(chain)
    if not file or isinstance(root, NotImplementedError):
        return None
    code = linecache.getline(file, line).strip()
    name = type(root).__name__.removesuffix("Impl")
    meaning = _without_grid(chain) or _meaning(f"{name}: {root}", code)
    if meaning is None:
        return None
    place, told = f"{Path(file).name}:{line}", "".join(traceback.format_exception(error, limit=-_FRAMES))
    return Failure(
        f"The answer raises {name}: {root}",
        kind="raised",
        given=given,
        at=place,
        got=code,
        cause=meaning[0],
        hint=meaning[1],
        place=place,
        traceback=told,
    )


def _meaning(raised: str, code: str) -> tuple[str, str] | None:
    for pattern, where, cause, hint in _KNOWN:
        if re.search(pattern, raised) and re.search(where, code):
            return cause, hint
    return None


def _without_grid(chain: list[BaseException]) -> tuple[str, str] | None:
    """A kernel that was called as a function: the interpreter runs its lines, and no launch stands around them."""
    frames = [frame for error in chain for frame in traceback.extract_tb(error.__traceback__)]
    interpreter = [frame.name for frame in frames if frame.filename.endswith("triton/runtime/interpreter.py")]
    if not interpreter or "run" in interpreter:
        return None
    return "the kernel is called like a function, without a grid", "kernel[(programs,)](...) launches it."


def _place(chain: list[BaseException]) -> tuple[str, int]:
    """The innermost line of a file that is neither ours nor a library's."""
    ours = str(Path(__file__).resolve().parents[1])
    others = (ours, sysconfig.get_path("stdlib"), sysconfig.get_path("purelib"), sysconfig.get_path("platlib"), "<")
    for error in reversed(chain):
        for frame in reversed(traceback.extract_tb(error.__traceback__)):
            if not frame.filename.startswith(others) and "lessons_src/checks/" not in frame.filename:
                return frame.filename, frame.lineno or 0
    return "", 0
