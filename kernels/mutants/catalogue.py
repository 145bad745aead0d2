"""Reads the catalogue: one TOML file a group of subjects, `[[wrong]]` for mutants and `[[right]]` for rewrites.

Keys are the fields of `Mutant`; `old` and `new` are the text to exchange, `also` a list of further pairs.
"""

from __future__ import annotations

import tomllib
from functools import cache
from pathlib import Path

from kernels.mutants.model import Mutant

FOLDER = Path(__file__).parent / "catalogue"


@cache
def catalogue() -> tuple[Mutant, ...]:
    """Every mutant and every rewrite, in the order of the files and of each file.

    ValueError where a name stands twice, a wrong one expects nothing and gives no reason, or a right one expects
    something.
    """
    found: dict[str, Mutant] = {}
    for path in sorted(FOLDER.glob("*.toml")):
        with path.open("rb") as file:
            entries = tomllib.load(file)
        for kind in ("wrong", "right"):
            for entry in entries.pop(kind, ()):
                mutant = _mutant(entry, path.name)
                if mutant.wrong != (kind == "wrong"):
                    raise ValueError(f"{path.name}: {mutant.name!r} is listed as {kind}, and its keys say otherwise")
                if mutant.name in found:
                    raise ValueError(f"{path.name}: the name {mutant.name!r} is taken; every mutant has its own")
                found[mutant.name] = mutant
        if entries:
            raise ValueError(f"{path.name} has a table {next(iter(entries))!r}; it takes [[wrong]] and [[right]]")
    return tuple(found.values())


def _mutant(entry: dict, file: str) -> Mutant:
    entry = dict(entry)
    try:
        edits = ((entry.pop("old"), entry.pop("new")), *((old, new) for old, new in entry.pop("also", ())))
        expect = tuple(sorted(entry.pop("expect", ())))
        return Mutant(**entry, edits=edits, expect=expect)
    except (KeyError, TypeError) as problem:
        named = entry.get("name")
        raise ValueError(f"{file}: the entry {named!r} lacks a key, or has one too many: {problem}") from None


def wrong() -> tuple[Mutant, ...]:
    return tuple(mutant for mutant in catalogue() if mutant.wrong)


def right() -> tuple[Mutant, ...]:
    return tuple(mutant for mutant in catalogue() if not mutant.wrong)
