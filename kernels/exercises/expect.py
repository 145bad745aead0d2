"""What a check compares with: `equal`, `close`, `fail`. The first bad element ends the check, and says which it is.

The failure is remembered as well as raised, so an answer that catches every exception does not hide it. What was
compared is counted, so a check that compared nothing is not taken for one that passed.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from decimal import Decimal
from fractions import Fraction
from typing import Any

from kernels.exercises.model import Failure, Strip

AROUND = 3  # neighbours of the bad element that are drawn on either side
_NOTHING = object()  # where one list is shorter than the other
_NUMBERS = {bool, int, float, complex, Decimal, Fraction}
Said = str | int | Callable[..., Any] | None


class CheckFailed(BaseException):
    """Ends a check. No `Exception`, so that `except Exception` in an answer lets it pass."""

    def __init__(self, failure: Failure) -> None:
        super().__init__(failure.sentence)
        self.failure = failure


class Seen:
    """What the check of this process has compared, and its first failure."""

    def __init__(self) -> None:
        self.compared = 0
        self.failure: Failure | None = None

    def end(self, failure: Failure) -> None:
        """Remember the first failure and end the check."""
        if self.failure is None:
            self.failure = failure
        raise CheckFailed(self.failure)


seen = Seen()


def fail(
    sentence: str,
    *,
    given: object = "",
    at: object = "",
    expected: object = "",
    got: object = "",
    owner: Said = None,
    mask: Said = None,
    cause: str = "",
    hint: str = "",
    drawing: Strip | str | None = None,
) -> None:
    """End the check with a sentence of its own. The rest is what a failure of `equal` says, too.

    at: the bad element, as text or as an index. drawing: a `Strip`, or text of several lines.
    """
    index = at if isinstance(at, (int, tuple)) else None
    seen.end(
        Failure(
            sentence,
            given=_text(given),
            at=_text(at),
            expected=shown(expected) if expected != "" else "",
            got=shown(got) if got != "" else "",
            owner=_said(owner, index, "program"),
            mask=_said(mask, index, ""),
            cause=cause,
            hint=hint,
            drawing=drawing,
        )
    )


def equal(
    got: object,
    expected: object,
    *,
    given: object = "",
    owner: Said = None,
    mask: Said = None,
    cause: str = "",
    hint: str = "",
) -> None:
    """End the check unless `got` equals `expected`: numbers, text, (nested) lists, dictionaries, arrays, tensors.

    NaN equals NaN. A float is no answer where a whole number is expected. A list, a tuple, a range and a tensor with
    equal elements are equal. owner, mask: text, a program's number, or a function of the bad element's index (of
    several indices, where the lists are nested).
    """
    _compare(got, expected, _same, "", given, owner, mask, cause, hint)


def close(
    got: object,
    expected: object,
    tolerance: float,
    *,
    given: object = "",
    owner: Said = None,
    mask: Said = None,
    cause: str = "",
    hint: str = "",
) -> None:
    """As `equal`, but numbers may differ by `tolerance`, an absolute distance. NaN and infinities must be the same."""
    if not (isinstance(tolerance, (int, float)) and 0 <= tolerance < math.inf):
        raise ValueError(f"tolerance is {tolerance!r}; it is a finite distance, 0 or more")

    def near(one: object, other: object) -> str:
        if _is_number(one) and _is_number(other) and math.isfinite(one) and math.isfinite(other):
            return "" if abs(one - other) <= tolerance else f"they are {abs(one - other):.3g} apart"
        return _same(one, other, exact=False)

    _compare(got, expected, near, f" within {tolerance:.3g}", given, owner, mask, cause, hint)


def shown(value: object, most: int = 120) -> str:
    """A value as a failure shows it, cut where it is long."""
    value = plain(value)
    if isinstance(value, float):
        return f"{value:.9g}"
    if isinstance(value, list) and len(value) > 12:
        text = f"[{', '.join(shown(each, 24) for each in value[:8])}, … {len(value)} elements]"
    elif isinstance(value, list):
        text = f"[{', '.join(shown(each, 60) for each in value)}]"
    else:
        try:
            text = repr(value)
        except Exception as error:
            text = f"a {type(value).__name__} whose repr raises {type(error).__name__}"
    return text if len(text) <= most else text[: most - 1] + "…"


def plain(value: object) -> object:
    """Tensors, arrays, tuples, ranges and `Memory` as (nested) lists, numbers and text as such, the rest as it is."""
    if hasattr(value, "detach") and hasattr(value, "cpu"):
        value = value.detach().cpu()
    if hasattr(value, "tolist") and not isinstance(value, (list, tuple)):
        return plain(value.tolist())
    for kind in (list, tuple):  # of a class of the answer's own only what it holds, whatever its methods say
        if isinstance(value, kind):
            return [plain(each) for each in kind.__iter__(value)]
    if isinstance(value, range):
        return list(value)
    for kind, zero in ((int, 0), (float, 0.0), (str, "")):
        if isinstance(value, kind) and type(value) is not kind and not isinstance(value, bool):
            return kind.__add__(value, zero)
    if type(value).__name__ == "Memory" and hasattr(value, "values"):
        return [plain(each) for each in value.values]
    return value


def _compare(got, expected, differs, within, given, owner, mask, cause, hint) -> None:
    expected, received = plain(expected), got
    got = plain(got)
    for index, one, other, lists in _pairs(got, expected, ()):
        seen.compared += 1
        reason = _shape(one, other, received) or ("" if isinstance(other, list) else differs(one, other))
        if not reason:
            continue
        at = f"[{', '.join(map(str, index))}]" if index else ""
        wrong, right = _apart(one, other, shown)
        sentence = f"{'element ' + at if at else 'the result'} is {wrong}, and should be {right}{within}"
        key = index[0] if len(index) == 1 else index or None
        failure = Failure(
            f"{sentence}: {reason}" if reason != "unequal" else sentence,
            given=_text(given),
            at=at,
            expected=right + within,
            got=wrong,
            owner=_said(owner, key, "program"),
            mask=_said(mask, key, ""),
            cause=cause or _obvious(one, other),
            hint=hint,
            drawing=_strip(index, lists, owner),
        )
        seen.end(failure)


def _pairs(got: object, expected: object, index: tuple) -> Iterator[tuple[tuple, object, object, Any]]:
    """Every element to compare, with its index and the two innermost lists; a list only where its length is wrong."""
    yield from _walk(got, expected, index, None)


def _walk(got: object, expected: object, index: tuple, lists: Any) -> Iterator[tuple[tuple, object, object, Any]]:
    if isinstance(expected, Mapping) and isinstance(got, Mapping):
        if set(got) != set(expected):
            yield index, sorted(map(str, got)), sorted(map(str, expected)), None
        for key in expected:
            yield from _walk(plain(got.get(key)), plain(expected[key]), (*index, key), None)
    elif isinstance(expected, list) and isinstance(got, list):
        for number, (one, other) in enumerate(zip(got, expected, strict=False)):
            yield from _walk(one, other, (*index, number), (got, expected))
        if len(got) != len(expected) or not expected:
            yield index, got, expected, (got, expected) if index == () else lists
    else:
        yield index, got, expected, lists


def _shape(got: object, expected: object, received: object) -> str:
    """What is wrong with the kind of a result, before any value is looked at."""
    if isinstance(expected, list) and isinstance(got, list):
        return "" if len(got) == len(expected) else f"it has {len(got)} elements, and should have {len(expected)}"
    if isinstance(expected, list) and hasattr(received, "__next__"):
        return "it is a generator; make a list of it"
    if isinstance(expected, list) or isinstance(got, list):
        return f"it is {_kind(got)}, and should be {_kind(expected)}"
    return ""


def _kind(value: object) -> str:
    if isinstance(value, list):
        return f"a list of {len(value)}"
    return "nothing (None)" if value is None else f"a {type(value).__name__}"


def _is_number(value: object) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool)


def _same(got: object, expected: object, exact: bool = True) -> str:
    """Why two elements differ, "" where they do not."""
    if _is_number(got) and _is_number(expected):
        if got != got and expected != expected:
            return ""
        if exact and isinstance(expected, int) and isinstance(got, float):
            return "it is a float; a count or an index is a whole number, which / never gives and // does"
        return "" if got == expected else "unequal"
    if type(got) is type(expected) or {type(got), type(expected)} <= _NUMBERS:
        return "" if bool(expected == got) else "unequal"
    return f"it is {_kind(got)}, and should be {_kind(expected)}"


def _obvious(got: object, expected: object) -> str:
    if got is None and expected is not None:
        return "The function ends without `return`."
    if _is_number(got) and got != got:
        return "NaN: an element that nobody wrote, or inf - inf, 0 * inf, 0 / 0."
    return ""


def _said(what: Said, index: object, noun: str) -> str:
    """An owner or a mask in words: called with the index where it is a function."""
    if callable(what):
        if index is None:
            return ""
        try:
            what = what(*index) if isinstance(index, tuple) else what(index)
        except Exception as error:
            return f"unknown ({type(error).__name__}: {error})"
    if hasattr(what, "item"):  # a number of numpy or torch
        what = what.item()
    if isinstance(what, bool):
        return "on" if what else "off"
    if what == -1 and isinstance(what, int):
        return "nobody"
    if isinstance(what, int) and noun:
        return f"{noun} {what}"
    return "" if what is None else str(what)


def _strip(index: tuple, lists: Any, owner: Said) -> Strip | None:
    """The bad element among its neighbours, in the innermost list; None where it has none."""
    if lists is None:
        return None
    got, expected = lists
    length = max(len(got), len(expected))
    bad = index[-1] if index and isinstance(index[-1], int) else min(len(got), len(expected))
    if length < 2 or any(isinstance(each, (list, Mapping)) for each in [*got, *expected]):
        return None
    columns = range(max(0, min(bad, length - 1) - AROUND), min(length, bad + AROUND + 1))
    cells = [_apart(*(each[i] if i < len(each) else _NOTHING for each in (got, expected)), _cell) for i in columns]
    rows = [
        ("index", tuple(map(str, columns))),
        ("expected", tuple(right for _, right in cells)),
        ("got", tuple(wrong for wrong, _ in cells)),
    ]
    if callable(owner):
        rows.append(("owner", tuple(_said(owner, (*index[:-1], i) if len(index) > 1 else i, "") for i in columns)))
    return Strip(tuple(rows), min(bad, length - 1) - columns[0])


def _cell(value: object) -> str:
    if value is _NOTHING:
        return "-"
    return f"{value:.6g}" if isinstance(value, float) else shown(value, 12)


def _apart(one: object, other: object, short: Callable[[object], str]) -> tuple[str, str]:
    """Both as `short` shows them, with all their digits where that would make two different numbers look alike."""
    texts = short(one), short(other)
    if texts[0] == texts[1] and isinstance(one, float) and isinstance(other, float) and one != other:
        return repr(one), repr(other)
    return texts


def _text(value: object) -> str:
    if value is None:
        return ""
    if isinstance(value, tuple):
        return f"[{', '.join(map(str, value))}]"
    return f"[{value}]" if isinstance(value, int) else str(value)


def filled(failure: Failure, **more: str) -> Failure:
    """The failure with what it lacks."""
    return replace(failure, **{name: value for name, value in more.items() if not getattr(failure, name)})
