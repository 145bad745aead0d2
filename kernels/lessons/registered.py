"""The names in a list of operators, `NAMES = (…)`, read and not imported: Triton may be missing, and it is slow."""

from __future__ import annotations

import ast
import re

_LIST = re.compile(r"^NAMES = (\(.*?\))$", re.MULTILINE | re.DOTALL)


def names(text: str) -> tuple[str, ...]:
    """The names that the text of a module registers, in order; none where it holds no such list."""
    found = _LIST.search(text)
    return ast.literal_eval(found[1]) if found else ()


def with_name(text: str, name: str) -> str:
    """The text of the module with another name at the end, laid out as the formatter would: on a line, or one a line.

    Raises:
        ValueError: it holds no such list.
    """
    if not _LIST.search(text):
        raise ValueError(f"no list NAMES = (…) that {name!r} could be added to")
    words = [f'"{each}"' for each in (*names(text), name)]
    line = f"NAMES = ({', '.join(words)}{',' if len(words) == 1 else ''})"
    if len(line) > 120:
        line = "NAMES = (\n" + "".join(f"    {word},\n" for word in words) + ")"
    return _LIST.sub(lambda _: line, text, count=1)
