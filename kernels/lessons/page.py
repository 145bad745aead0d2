"""What a block on a page may call."""

from __future__ import annotations

from typing import Any

_values: dict[str, Any] = {}


def values(**named: Any) -> None:
    """Store named values of the block beside its text: they are compared with the block's tolerance.

    Numbers, strings, booleans, None, lists and dictionaries of these; tensors and arrays are stored as lists.

    Raises:
        TypeError: a value is of another kind.
    """
    for name, value in named.items():
        _values[name] = _jsonable(name, value)


def take_values() -> dict[str, Any]:
    """Return what `values` has stored since the last call, and forget it."""
    taken = dict(_values)
    _values.clear()
    return taken


def _jsonable(name: str, value: Any) -> Any:
    if hasattr(value, "tolist"):
        value = value.tolist()
    if value is None or isinstance(value, bool | int | float | str):
        return value
    if isinstance(value, list | tuple):
        return [_jsonable(name, each) for each in value]
    if isinstance(value, dict):
        return {str(key): _jsonable(name, each) for key, each in value.items()}
    raise TypeError(f"values({name}=…) got a {type(value).__name__}; give numbers, strings, lists or dictionaries")
