"""Does today's output equal the accepted one: exactly, or within a stated tolerance."""

from __future__ import annotations

import difflib
import math
import re
from typing import Any

from kernels.lessons.model import Block, Output

_NUMBER = re.compile(r"(?<![\w.])[+-]?(?:\d+\.?\d*(?:[eE][+-]?\d+)?|\.\d+(?:[eE][+-]?\d+)?)(?![\w])")


def differences(block: Block, accepted: Output, today: Output) -> list[str]:
    """Sentences for whatever differs more than the block's check allows; empty when nothing does."""
    if block.check == "none":
        return []
    if block.check == "exact":
        found = [] if accepted.text == today.text else ["the output differs (check: exact)"]
        return found + _compare_values(accepted.values, today.values, 0.0, 0.0)
    found = _compare_text(accepted.text, today.text, block.rtol, block.atol)
    return found + _compare_values(accepted.values, today.values, block.rtol, block.atol)


def unified_diff(accepted: str, today: str, name: str, limit: int = 60) -> str:
    """A diff that a reviewer can read, at most `limit` lines long."""
    lines = list(
        difflib.unified_diff(
            accepted.split("\n"), today.split("\n"), f"accepted/{name}", f"today/{name}", lineterm="", n=2
        )
    )
    if len(lines) > limit:
        lines = [*lines[:limit], f"[… {len(lines) - limit} more lines of diff]"]
    return "\n".join(line if len(line) <= 240 else line[:240] + "…" for line in lines)


def _compare_text(accepted: str, today: str, rtol: float, atol: float) -> list[str]:
    """Words must match exactly, numbers within the tolerance."""
    if _NUMBER.sub("#", accepted) != _NUMBER.sub("#", today):
        return ["the words of the output differ; only its numbers have a tolerance"]
    pairs = zip(_NUMBER.findall(accepted), _NUMBER.findall(today))
    return [
        _broken("the output", float(old), float(new), rtol, atol)
        for old, new in pairs
        if not _near(float(old), float(new), rtol, atol)
    ]


def _compare_values(accepted: Any, today: Any, rtol: float, atol: float, path: str = "") -> list[str]:
    where = path or "values"
    if isinstance(accepted, dict) and isinstance(today, dict):
        found = [f"{where} lost {key!r}" for key in accepted if key not in today]
        found += [f"{where} gained {key!r}" for key in today if key not in accepted]
        for key in accepted:
            if key in today:
                found += _compare_values(accepted[key], today[key], rtol, atol, f"{path}.{key}" if path else str(key))
        return found
    if isinstance(accepted, list) and isinstance(today, list):
        if len(accepted) != len(today):
            return [f"{where} has {len(today)} elements, accepted {len(accepted)}"]
        return [
            text
            for index, (old, new) in enumerate(zip(accepted, today))
            for text in _compare_values(old, new, rtol, atol, f"{where}[{index}]")
        ]
    numbers = all(isinstance(each, int | float) and not isinstance(each, bool) for each in (accepted, today))
    if numbers:
        if _near(float(accepted), float(today), rtol, atol):
            return []
        return [_broken(where, float(accepted), float(today), rtol, atol)]
    return [] if accepted == today else [f"{where} is {today!r}, accepted {accepted!r}"]


def _near(old: float, new: float, rtol: float, atol: float) -> bool:
    if math.isnan(old) or math.isnan(new):
        return math.isnan(old) and math.isnan(new)
    if math.isinf(old) or math.isinf(new):
        return old == new
    return abs(new - old) <= atol + rtol * abs(old)


def _broken(where: str, old: float, new: float, rtol: float, atol: float) -> str:
    allowed = atol + rtol * abs(old)
    return (
        f"{where}: {new!r} against {old!r} differs by {abs(new - old):.3g}, allowed {allowed:.3g} "
        f"(rtol={rtol:g}, atol={atol:g})"
    )
