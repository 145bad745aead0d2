"""A kernel that is written on a page, as a Python file of its own, so that another process can compile it."""

from __future__ import annotations

import inspect
from types import FunctionType, ModuleType
from typing import Any


def as_python(kernel: FunctionType) -> str:
    """The text of a Python file with the kernel, and the functions of its page that it calls, on their own lines.

    What else of the page they name comes on the first line: modules, functions of other files, and constants.

    Raises:
        ValueError: the kernel names something that has no such form; or its source is not to be found.
    """
    file = kernel.__code__.co_filename
    head = {"triton": "import triton", "tl": "import triton.language as tl"}
    lines: dict[int, str] = {}
    waiting, seen = [kernel], set()
    while waiting:
        function = waiting.pop()
        seen.add(function.__name__)
        _place(function, lines)
        for name in function.__code__.co_names:
            value = function.__globals__.get(name)
            inner = getattr(value, "fn", None)
            if isinstance(inner, FunctionType) and inner.__code__.co_filename == file:
                waiting += [inner] if inner.__name__ not in seen else []
            elif name in function.__globals__ and name not in head and not name.startswith("interpreter_"):
                head[name] = _imported(name, value, inner, kernel)
    if min(lines) < 2:
        raise ValueError(f"{kernel.__name__} begins on the first line of {file}; there must be a line above it.")
    lines[1] = "; ".join(head.values())
    return "\n".join(lines.get(number, "") for number in range(1, max(lines) + 1)) + "\n"


def _place(function: FunctionType, lines: dict[int, str]) -> None:
    try:
        source, first = inspect.getsourcelines(function)
    except OSError as missing:
        raise ValueError(f"the source of {function.__name__} is not to be found: {missing}") from None
    start = next(i for i, line in enumerate(source) if line.lstrip().startswith("def "))
    indent = len(source[start]) - len(source[start].lstrip())
    for i, line in enumerate(source[start:], first + start):
        lines[i] = line[indent:].rstrip()
    lines[first + start - 1] = "@triton.jit"  # the interpreter keeps functions without their decorators


def _imported(name: str, value: Any, inner: Any, kernel: FunctionType) -> str:
    if isinstance(value, ModuleType):
        return f"import {value.__name__} as {name}"
    function = inner or value
    if inspect.isfunction(function) and "." not in function.__qualname__:
        return f"from {function.__module__} import {function.__name__} as {name}"
    constant = getattr(value, "value", value)
    if isinstance(constant, (bool, int, float, str)):
        return f"{name} = tl.constexpr({constant!r})"
    raise ValueError(f"{kernel.__name__} names {name}, a {type(value).__name__}, which cannot be written into a file.")
