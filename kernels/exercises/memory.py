"""A list for kernels in plain Python that knows who touches it, and ends the check at the first bad access."""

from __future__ import annotations

import math
import operator
import sys
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path

from kernels.exercises.expect import AROUND, seen, shown
from kernels.exercises.model import ANSWERS_NAME, CHECKS_NAME, Failure, Strip

NOBODY = "nobody"
_HERE = __file__


class _Unchanged(type):
    """A class whose functions stay as they are: an answer is given its objects, and so has the class."""

    def __setattr__(cls, name: str, value: object) -> None:
        sentence = f"The answer replaces {cls.__name__}.{name}, and so what the checks stand on."
        seen.end(Failure(sentence, kind="tampered", place=_place()))


class Memory(metaclass=_Unchanged):
    """Elements with an address from 0, and a record of who read and wrote which.

    `reads` and `writes` hold (owner, index) in the order of the accesses. `owner` is whoever acts now, in words. An
    access outside, before the first element too, ends the check: memory does not wrap as a list does. `given` is the
    case, in words, that such a failure names.
    """

    def __init__(self, values: Iterable, name: str, given: str = "") -> None:
        self._values = list(values)
        self.name = name
        self.given = given
        self.owner = NOBODY
        self.reads: list[tuple[str, int]] = []
        self.writes: list[tuple[str, int]] = []
        self.poisoned = False
        self._written: set[int] = set()

    @classmethod
    def empty(cls, n: int, name: str, given: str = "") -> Memory:
        """`n` elements that nobody has written yet; each is NaN until then, and no program may read it."""
        memory = cls([math.nan] * n, name, given)
        memory.poisoned = True
        return memory

    @property
    def values(self) -> list:
        """The elements, for checks: no access is recorded. An answer that takes them so ends the check."""
        if str(sys._getframe(1).f_globals.get("__name__", "")).startswith(ANSWERS_NAME):
            sentence = f"The answer takes {self.name}.values, which records no access; an element is {self.name}[i]."
            seen.end(Failure(sentence, kind="unrecorded", at=f"{self.name}.values", place=_place(), given=self.given))
        return self._values

    @contextmanager
    def program(self, number: object, lane: object = None) -> Iterator[Memory]:
        """Within, whoever touches the memory is this program (and this lane of it)."""
        before = self.owner
        self.owner = f"program {number}" + ("" if lane is None else f", lane {lane}")
        try:
            yield self
        finally:
            self.owner = before

    def __len__(self) -> int:
        return len(self._values)

    def __iter__(self) -> Iterator:
        return (self[index] for index in range(len(self._values)))

    def __getitem__(self, index: int) -> object:
        index = self._look(index, "reads")
        self.reads.append((self.owner, index))
        if self.poisoned and self.owner != NOBODY and index not in self._written:
            self._end("reads", index, f"{self.name}[{index}] is read before anyone wrote it", "read-before-written")
        return self._values[index]

    def __setitem__(self, index: int, value: object) -> None:
        index = self._look(index, "writes")
        self.writes.append((self.owner, index))
        self._written.add(index)
        self._values[index] = value

    def __repr__(self) -> str:
        return f"Memory({shown(self._values)}, {self.name!r})"

    def never_written(self) -> list[int]:
        """The indices that nobody wrote, in order."""
        seen.compared += len(self._values)
        written = {index for _, index in self.writes}
        return [index for index in range(len(self._values)) if index not in written]

    def written_twice(self) -> list[tuple[int, list[str]]]:
        """The indices that were written more than once, each with who did, in order."""
        seen.compared += len(self._values)
        owners: dict[int, list[str]] = {}
        for owner, index in self.writes:
            owners.setdefault(index, []).append(owner)
        return [(index, each) for index, each in sorted(owners.items()) if len(each) > 1]

    def check_written_once(self, given: object = "", cause: str = "", hint: str = "") -> None:
        """End the check unless each element was written exactly once."""
        twice, never = self.written_twice(), self.never_written()
        if twice:
            index, owners = twice[0]
            who = " and again by ".join(owners[:2])
            more = f" In all, {len(twice)} elements are written more than once." if len(twice) > 1 else ""
            failure = self._failure(
                f"{self.name}[{index}] is written by {who}.{more}",
                "double-write",
                index,
                owner=" and ".join(dict.fromkeys(owners[:2])),
                given=str(given),
                cause=cause or "two programs own one element: the offsets of one program reach into the next",
                hint=hint,
                expected="one write",
                got=f"{len(owners)} writes",
            )
            seen.end(failure)
        if never:
            index = never[0]
            more = f" In all, {len(never)} elements are missing." if len(never) > 1 else ""
            failure = self._failure(
                f"{self.name}[{index}] is never written.{more}",
                "unwritten",
                index,
                owner=NOBODY,
                given=str(given),
                cause=cause or "too few programs or lanes, or a mask that ends too early",
                hint=hint,
                expected="one write",
                got="none",
            )
            seen.end(failure)

    def _look(self, index: object, verb: str) -> int:
        """The address as an int, whatever kind of whole number it is (NumPy has its own)."""
        seen.compared += 1
        if isinstance(index, slice):
            index = index.start if isinstance(index.start, int) else 0
            self._end(verb, index, f"{self.owner} {verb} a slice of {self.name}; a lane touches one element", "slice")
        if not isinstance(index, bool) and hasattr(type(index), "__index__"):
            index = operator.index(index)
        if isinstance(index, bool) or not isinstance(index, int):
            sentence = f"{self.owner} {verb} {self.name}[{shown(index)}], which is no address: {_why(index)}"
            self._end(verb, 0, sentence, "no-address", at=f"{self.name}[{shown(index)}]")
        if not 0 <= index < len(self._values):
            last = f"its last element is {self.name}[{len(self._values) - 1}]" if self._values else "it is empty"
            first = f"its first element is {self.name}[0]" if index < 0 and self._values else last
            self._end(
                verb, index, f"{self.owner} {verb} {self.name}[{index}], which is out of bounds: {first}",
                "out-of-bounds",
            )  # fmt: skip
        return index

    def _end(self, verb: str, index: int, sentence: str, kind: str, at: str = "") -> None:
        causes = {
            "out-of-bounds": "a mask is missing, or it lets one element too many through",
            "read-before-written": "the element's owner has not written it yet, or never does",
            "slice": "one lane does the work of many",
            "no-address": "an offset was computed with / where // is needed",
        }
        seen.end(
            self._failure(
                sentence + ".",
                kind,
                index,
                at=at,
                owner=self.owner,
                mask="on, or there is none: the access was made" if kind == "out-of-bounds" else "",
                cause=causes[kind],
                got=f"{self.owner} {verb} {at or f'{self.name}[{index}]'}",
                expected=f"an index from 0 to {len(self._values) - 1}" if kind == "out-of-bounds" else "",
            )
        )

    def _failure(self, sentence: str, kind: str, index: int, at: str = "", **words: str) -> Failure:
        explained = kind if kind in ("out-of-bounds", "unwritten", "double-write", "read-before-written") else ""
        words["given"] = words.get("given") or self.given
        return Failure(
            sentence,
            kind=kind,
            at=at or f"{self.name}[{index}]",
            place=_place(),
            explanation=explained,
            drawing=self._strip(index),
            **words,
        )

    def _strip(self, index: int) -> Strip:
        near = min(max(index, -1), len(self._values))  # far outside: the cell behind the edge stands for it
        columns = range(near - AROUND, near + AROUND + 1)
        columns = [i for i in columns if -1 <= i <= len(self._values)]
        last: dict[int, str] = {}
        for owner, at in [*self.reads, *self.writes]:
            last[at] = owner
        names = tuple(str(index) if i == near else str(i) for i in columns)
        values = tuple(_value(self._values[i]) if 0 <= i < len(self._values) else "outside" for i in columns)
        owners = tuple(_short(self.owner if i == near and i == index else last.get(i, "-")) for i in columns)
        if near != index:
            owners = tuple(_short(self.owner) if i == near else each for i, each in zip(columns, owners, strict=True))
        return Strip((("index", names), (self.name, values), ("owner", owners)), columns.index(near))


def _value(value: object) -> str:
    return f"{value:.6g}" if isinstance(value, float) else shown(value, 12)


def _short(owner: str) -> str:
    """`p1 l0` for `program 1, lane 0`."""
    return owner.replace("program ", "p").replace(", lane ", " l").replace("thread ", "t").replace(NOBODY, "-")


def _why(index: object) -> str:
    if isinstance(index, float):
        return "a float; a whole number is one"
    return f"a {type(index).__name__}; a whole number is one"


def _place() -> str:
    """The lines of the answer that led here, innermost first: `offsets.py:12, from offsets.py:47`."""
    lines: list[str] = []
    frame = sys._getframe(1)
    while frame is not None and len(lines) < 3:
        code = frame.f_code
        if str(frame.f_globals.get("__name__", "")).startswith(CHECKS_NAME):
            break
        # A comprehension is a frame of its own up to Python 3.11, and none from 3.12 on.
        if code.co_filename != _HERE and not code.co_name.startswith("<"):
            lines.append(f"{Path(code.co_filename).name}:{frame.f_lineno}")
        frame = frame.f_back
    return ", from ".join(lines) if frame is not None or len(lines) < 3 else lines[0]
