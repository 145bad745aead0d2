"""Arguments of a traced kernel: numpy arrays become device buffers between guard bands, numbers become C values."""

from __future__ import annotations

import ctypes
import mmap
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np

GUARD_BYTES = 64 * 1024
ALIGNMENT = 256  # of every GPU allocation
SPARSE_BYTES = 1 << 28  # a span beyond this is reserved and not filled: rows far apart, offsets past 2**31
_INTEGERS = {"i": (ctypes.c_int32, -(2**31), 2**31), "I": (ctypes.c_uint32, 0, 2**32)} | {
    "l": (ctypes.c_int64, -(2**63), 2**63),
    "L": (ctypes.c_uint64, 0, 2**64),
}
_KINDS = {"f": "f", "i": "i", "u": "u"}


@dataclass
class DeviceBuffer:
    """One array in the traced kernel's memory.

    `owner` is the caller's array; `start` the address of element 0 of the copy; `shift` how far element 0 lies from a
    256-byte boundary, kept from the caller's view, so that `x[1:]` is as misaligned here as on the GPU.
    """

    name: str
    owner: np.ndarray
    writable: bool
    memory: np.ndarray
    start: int
    span: int
    shift: int

    def copy_in(self) -> None:
        if self.span > SPARSE_BYTES:
            np.copyto(self._view(), self.owner)
        else:
            ctypes.memmove(self.start, self.owner.ctypes.data, self.span)

    def copy_out(self) -> None:
        if self.writable and self.span > SPARSE_BYTES:
            np.copyto(self.owner, self._view())
        elif self.writable:
            ctypes.memmove(self.owner.ctypes.data, self.start, self.span)

    def _view(self) -> np.ndarray:
        """The elements in the kernel's memory, with the owner's shape and strides."""
        offset = self.start - self.memory.ctypes.data
        return np.ndarray(self.owner.shape, self.owner.dtype, self.memory.data, offset, self.owner.strides)


def make_buffer(name: str, array: np.ndarray, writable: bool) -> DeviceBuffer:
    """A copy of `array` with a guard band of NaN (all bits set) on both sides.

    Rows may be padded: a view is copied with the padding between its elements, which kernels must not touch. Where it
    spans more than SPARSE_BYTES, only the elements are copied, and pages that nobody touches cost no memory. ValueError
    for a negative stride or a stride that is no whole number of items.
    """
    strides = [stride for stride, size in zip(array.strides, array.shape) if size > 1]
    if any(stride < 0 or stride % array.itemsize for stride in strides):
        raise ValueError(f"argument {name} has strides {array.strides} bytes; a kernel takes whole, positive strides")
    if writable and not array.flags.writeable:
        raise ValueError(f"argument {name} is read-only, and the kernel's parameter may write to it; pass a copy")
    extent = (
        0 if array.size == 0 else 1 + sum((n - 1) * s // array.itemsize for n, s in zip(array.shape, array.strides))
    )
    span = extent * array.itemsize
    root = array
    while isinstance(root.base, np.ndarray):
        root = root.base
    shift = (array.ctypes.data - root.ctypes.data) % ALIGNMENT
    memory = _memory(span + 2 * GUARD_BYTES + 2 * ALIGNMENT)
    start = memory.ctypes.data + GUARD_BYTES
    start += -start % ALIGNMENT + shift
    buffer = DeviceBuffer(name, array, writable, memory, start, span, shift)
    buffer.copy_in()
    return buffer


def _memory(size: int) -> np.ndarray:
    """`size` bytes with all bits set; of a large piece only both ends, for about as much as the guard bands take."""
    if size <= SPARSE_BYTES:
        return np.full(size, 0xFF, np.uint8)
    flags = mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS | getattr(mmap, "MAP_NORESERVE", 0)
    memory = np.frombuffer(mmap.mmap(-1, size, flags=flags), np.uint8)
    memory[:GUARD_BYTES] = memory[-GUARD_BYTES:] = 0xFF
    return memory


def scalar(name: str, letter: str, value: object) -> ctypes._SimpleCData:
    """The C value of a number for a parameter of this letter; TypeError or ValueError where it does not fit."""
    if letter in _INTEGERS:
        kind, low, high = _INTEGERS[letter]
        if isinstance(value, bool) or not isinstance(value, (int, np.integer)):
            raise TypeError(f"argument {name} is {value!r}; the parameter is an integer")
        if not low <= int(value) < high:
            raise ValueError(f"argument {name} is {value}; the parameter holds {low} to {high - 1}")
        return kind(int(value))
    if letter in "fd":
        if not isinstance(value, (int, float, np.integer, np.floating)):
            raise TypeError(f"argument {name} is {value!r}; the parameter is a floating-point number")
        return (ctypes.c_float if letter == "f" else ctypes.c_double)(float(value))
    if letter == "b":
        return ctypes.c_bool(bool(value))
    raise TypeError(f"parameter {name} is neither a pointer nor a number; the tracer cannot pass it")


def check_type(name: str, letters: str, array: np.ndarray) -> None:
    """TypeError where the array's items are not what the parameter points to."""
    size = ord(letters[1]) - ord("0")
    if size and (
        size % array.itemsize
        or (size == array.itemsize and _KINDS.get(letters[2], array.dtype.kind) != array.dtype.kind != "b")
    ):
        kind = {"f": "floating-point", "i": "integer", "u": "unsigned"}.get(letters[2], "vector or structure")
        raise TypeError(
            f"argument {name} has dtype {array.dtype}; the parameter points to {kind} items of {size} bytes"
        )


def _refuse_overlap(buffers: Sequence[DeviceBuffer]) -> None:
    """ValueError where one array is part of another's memory: as two buffers they would no longer see each other."""
    spans = sorted((b.owner.ctypes.data, b.owner.ctypes.data + b.span, b.name) for b in buffers if b.span)
    for (_, end, name), (start, _, other) in pairwise(spans):
        if start < end:
            raise ValueError(
                f"arguments {name} and {other} are overlapping parts of one array; pass the same array twice, or copies"
            )


def pack(
    call: str, names: Sequence[str], signature: Sequence[str], args: Sequence[object]
) -> tuple[ctypes.Array, list[DeviceBuffer], list[object]]:
    """A table of pointers to the arguments' values, the buffers among them, and what must stay alive.

    A stream parameter at the end may be left out. The same array passed twice is one buffer, as on the GPU;
    ValueError where two arrays overlap in part.
    """
    args = list(args)
    while len(args) < len(signature) and signature[len(args)][0] == "s":
        args.append(None)
    if len(args) != len(signature):
        listed = ", ".join(names)
        raise TypeError(f"{call} takes {len(signature)} arguments ({listed}) and was given {len(args)}")
    table, kept, buffers = (ctypes.c_void_p * max(1, len(args)))(), [], []
    known: dict[tuple[int, tuple[int, ...], tuple[int, ...]], DeviceBuffer] = {}
    for number, (name, letters, value) in enumerate(zip(names, signature, args)):
        if letters[0] == "s" or (letters[0] in "rw" and value is None):
            held: object = ctypes.c_void_p(None)
        elif letters[0] in "rw":
            if isinstance(value, (int, float, np.generic)):
                raise TypeError(f"argument {name} is {value!r}; the parameter is a pointer, so pass a numpy array")
            if not hasattr(value, "__array__"):
                what = type(value).__name__
                raise TypeError(f"argument {name} is a {what}; the parameter is a pointer, so pass a numpy array")
            array = np.asarray(value)
            check_type(name, letters, array)
            key = (array.ctypes.data, array.shape, array.strides)
            if key not in known:
                known[key] = make_buffer(name, array, letters[0] == "w")
                buffers.append(known[key])
            known[key].writable |= letters[0] == "w"
            held = ctypes.c_void_p(known[key].start)
        else:
            held = scalar(name, letters[0], value)
        kept.append(held)
        table[number] = ctypes.addressof(held)
    _refuse_overlap(buffers)
    return table, buffers, kept
