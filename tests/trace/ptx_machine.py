"""Runs the integer part of a kernel's PTX for all threads of a block at once, and notes every access to global memory.

It follows addresses and predicates only: a value that comes from memory or from floating point is unknown, and an
address or a predicate that needs one is an error. Branches are taken by all threads or by none.
"""

from __future__ import annotations

import re
from collections import Counter

import numpy as np

_COMPARE = {
    "eq": np.equal, "ne": np.not_equal, "lt": np.less, "le": np.less_equal, "gt": np.greater, "ge": np.greater_equal,
}  # fmt: skip


def accesses(ptx: str, arguments: list[int], block: int, threads: int) -> Counter:
    """How often each (thread, "read"/"write"/"atomic", byte address, bytes) occurs in one block of a one-dimensional
    grid. `arguments` are the kernel's parameters, pointers as addresses."""
    machine = _Machine(arguments, block, threads)
    lines = [line.partition("//")[0].strip().rstrip(";") for line in ptx[ptx.index("{") + 1 :].splitlines()]
    labels = {line[:-1]: at for at, line in enumerate(lines) if re.fullmatch(r"\$\w+:", line)}
    at = steps = 0
    while at < len(lines):
        steps += 1
        assert steps < 100_000, "the PTX does not end"
        match = re.match(r"(?:@(!?)(%\w+)\s+)?([a-z][\w.:]*)\s*(.*)", lines[at])
        at += 1
        if not match or lines[at - 1].endswith(":"):
            continue
        negated, guard, opcode, operands = match.groups()
        if opcode == "ret":
            break
        on = np.ones(threads, bool)
        if guard and (opcode.startswith(("bra",)) or "global" in opcode):
            on = machine.value(guard) != (negated == "!")
        if opcode.startswith("bra"):
            assert on.all() or not on.any(), "the threads take different branches"
            at = labels[operands] if on.all() else at
        else:
            machine.run(opcode, operands, on)
    return machine.found


class _Machine:
    def __init__(self, arguments: list[int], block: int, threads: int) -> None:
        self._threads, self._arguments, self._known = threads, arguments, {}
        self._special = {"%tid.x": np.arange(threads), "%ctaid.x": np.full(threads, block), "global_smem": np.zeros(1)}
        self.found: Counter = Counter()

    def value(self, text: str) -> np.ndarray:
        """An operand in every thread; KeyError where it is unknown."""
        text = text.strip()
        if re.fullmatch(r"-?\d+|0x[0-9a-f]+", text):
            return np.full(self._threads, int(text, 0), np.int64)
        found = self._special.get(text)
        return self._known[text] if found is None else found.astype(np.int64)

    def run(self, opcode: str, operands: str, on: np.ndarray) -> None:
        if ".global" in opcode:
            self._touch(opcode, operands, on)
            return
        parts = [part.strip() for part in operands.split(",")]
        try:
            self._known[parts[0]] = self._compute(opcode, parts)
        except (KeyError, NotImplementedError):
            self._known.pop(parts[0], None)

    def _touch(self, opcode: str, operands: str, on: np.ndarray) -> None:
        kind = {"ld": "read", "st": "write", "cp": "read"}.get(opcode[:2], "atomic")
        places = re.findall(r"\[\s*(%\w+)\s*(?:\+\s*(-?\d+))?\s*\]", operands)
        base, offset = places[1] if opcode.startswith("cp.async") else places[0]
        address = self.value(base) + int(offset or 0)
        if opcode.startswith("cp.async"):
            size, *source_size = (part.strip() for part in operands.split("]")[2].split(",")[1:])
            size = int(size, 0)
            on = on & (self.value(source_size[0]) > 0) if source_size else on  # nothing is read, zeros are written
        else:
            vector, bits = re.search(r"\.v(\d)", opcode), re.search(r"[bfus](\d+)(x2)?$", opcode)
            size = int(bits[1]) // 8 * (int(vector[1]) if vector else 1) * (2 if bits[2] else 1)
        if not opcode.startswith("st"):
            for name in re.findall(r"%\w+", operands.split("[")[0]):
                self._known.pop(name, None)
        for thread in np.flatnonzero(on).tolist():
            self.found[thread, kind, int(address[thread]), size] += 1

    def _compute(self, opcode: str, parts: list[str]) -> np.ndarray:
        name, *kinds = opcode.split(".")
        if name == "ld" and kinds[0] == "param":
            number = int(re.search(r"param_(\d+)", parts[1])[1])
            return _narrow(np.full(self._threads, self._arguments[number], np.int64), kinds[-1])
        if name not in (
            "mov",
            "shl",
            "shr",
            "and",
            "or",
            "xor",
            "add",
            "sub",
            "mul",
            "mad",
            "bfe",
            "setp",
            "selp",
            "cvt",
        ):
            raise NotImplementedError
        if kinds[-1][0] == "f" or "f16x2" in kinds:
            raise NotImplementedError
        values = [self.value(part) for part in parts[1:]]
        kind = kinds[-1]
        if kind[0] == "u":
            values[:2] = [_unsigned(value, kind) for value in values[:2]]  # the third of a wide one has 64 bits
        if name == "setp":
            return _COMPARE[kinds[0]](values[0], values[1])
        if kind == "pred":
            return {"and": np.logical_and, "or": np.logical_or, "xor": np.logical_xor}[name](values[0], values[1])
        if name == "selp":
            return np.where(values[2], values[0], values[1])
        if name == "cvt":
            return _narrow(values[0], kinds[0])
        if name == "shr" and kind[0] != "s":
            values[0] = _unsigned(values[0], kind)
        if name == "bfe":
            bits = (values[0] >> values[1]) & ((1 << values[2]) - 1)
            return np.where((kind[0] == "s") & (bits >> (values[2] - 1) & 1 == 1), bits - (1 << values[2]), bits)
        result = {
            "mov": lambda a: a,
            "shl": lambda a, b: a << b,
            "shr": lambda a, b: a >> b,
            "and": lambda a, b: a & b,
            "or": lambda a, b: a | b,
            "xor": lambda a, b: a ^ b,
            "add": lambda a, b: a + b,
            "sub": lambda a, b: a - b,
            "mul": lambda a, b: a * b,
            "mad": lambda a, b, c: a * b + c,
        }[name](*values)
        return result if "wide" in kinds else _narrow(result, kind)


def _unsigned(value: np.ndarray, kind: str) -> np.ndarray:
    return value & 0xFFFFFFFF if kind.endswith("32") else value


def _narrow(value: np.ndarray, kind: str) -> np.ndarray:
    """A value as a register of that type holds it; 32-bit ones are kept as signed numbers."""
    return (
        value.astype(np.int32).astype(np.int64)
        if kind.endswith("32") and kind[0] != "u"
        else (value & 0xFFFFFFFF if kind == "u32" else value)
    )
