"""A built library of CUDA kernels: its symbols, its source lines, and the calls that run it.

The layouts of C structures here mirror `cuda/host/runtime.h` and `runtime.cpp`.
"""

from __future__ import annotations

import ctypes
import json
import re
import shutil
import struct
import sys
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from functools import cached_property, lru_cache
from pathlib import Path

import numpy as np

from kernels.sources.files import write_whole
from kernels.sources.processes import answered

# One event: `place` is its distance from the region's first byte, times 2**24, plus its size in bytes.
EVENT = np.dtype([("pc", "<u4"), ("region", "<u2"), ("kind", "u1"), ("unused", "u1"), ("place", "<i8")])
SIZE_BITS = 24
# Events in a row that one thread makes between the same two barriers; `first` is the number of the first of them.
TURN = np.dtype(
    [
        ("first", "<u8"),
        ("block", "<u4"),
        ("interval", "<u4"),
        ("warp_interval", "<u4"),
        ("thread", "<u2"),
        ("launch", "<u2"),
    ]
)
LAUNCH = np.dtype(
    {
        "names": ["name", "line", "grid", "block", "shared_bytes", "refused"],
        "formats": ["S128", "<i4", ("<u4", 3), ("<u4", 3), "<u8", "<i4"],
        "offsets": [0, 128, 132, 144, 160, 168],
        "itemsize": 176,
    }
)
FAILURE = np.dtype(
    [
        ("stop", "<i4"),
        ("launch", "<i4"),
        ("thread", "<i4"),
        ("block", "<u4"),
        ("pc", "<u4"),
        ("kind", "<i4"),
        ("address", "<u8"),
        ("size", "<u8"),
        ("last", "<u4"),
        ("later", "<u4"),
    ]
)
LANE_FAULT = np.dtype(
    [("pc", "<u4"), ("block", "<u4"), ("thread", "<i4"), ("source", "<i4"), ("launch", "<i4"), ("line", "<i4")]
)
STOPS = (
    "", "barrier", "warp", "mask", "wild", "misaligned", "too-long", "too-many-events", "stack-overflow", "crash",
    "assertion", "out-of-memory", "out-of-memory", "too-long",
    "assertion", "shuffle-width",
)  # fmt: skip
READY, RETURNED, AT_BARRIER, AT_WARP_OP = range(4)
BARRIER, WARP_OP, FENCE, COMPARE_AND_SWAP, COPY_BEGIN, COPY_END = (
    3,
    4,
    5,
    6,
    7,
    8,
)  # kinds of events beyond READ, WRITE, ATOMIC

# Parts of a mangled name (Itanium C++ ABI, chapter 5) whose digits count no letters: a number as a template's argument,
# a substitution, a template's parameter, an array's extent; the value of an enumerator; the number of a lambda.
_NO_NAME = re.compile(r"L[a-z]n?\d+E|S[0-9A-Z]*_|T\d*_|A\d+_|DF16_|DF16b|DF\d+_")
_ENUMERATION = re.compile(r"L(?:(N)|(?=\d))")
_ENUMERATOR = re.compile(r"n?\d+E")
_ENUMERATOR_AFTER_E = re.compile(r"En?\d+E")
_NUMBER_OF_LAMBDA = re.compile(r"E\d*_")


@dataclass(frozen=True)
class Symbol:
    """A variable of the library: `value` is its address, or for a thread-local its place in the thread's block."""

    mangled: str
    value: int
    size: int
    thread_local: bool

    @cached_property
    def components(self) -> list[str]:
        """The names inside the mangled name: `_ZZ12block_reducefE7scratch_0` gives block_reduce, scratch."""
        if not self.mangled.startswith("_Z"):
            return [self.mangled]
        found, position, text = [], 2, self.mangled
        lambdas, enumeration = 0, ""  # lambdas whose numbers are to come; "N" or "1" within the type of an enumerator
        while position < len(text):
            if lambdas and (match := _NUMBER_OF_LAMBDA.match(text, position)):
                lambdas, position = lambdas - 1, match.end()
                continue
            if (match := _NO_NAME.match(text, position)) or (
                enumeration == "N" and (match := _ENUMERATOR_AFTER_E.match(text, position))
            ):
                position, enumeration = match.end(), ""
                continue
            if match := _ENUMERATION.match(text, position):
                enumeration, position = match[1] or "1", match.end()
            lambdas += text.startswith("Ul", position)
            end = position
            while end < len(text) and text[end].isdigit():
                end += 1
            length = int(text[position:end] or 0)
            name = text[end : end + length]
            if length and len(name) == length and (name[0].isalpha() or name[0] == "_"):
                found.append(name)
                position = end + length
                if enumeration == "1":
                    match, enumeration = _ENUMERATOR.match(text, position), ""
                    position = match.end() if match else position
            else:
                position = max(end, position + 1)
        return found or [self.mangled]

    @cached_property
    def name(self) -> str:
        return self.components[-1]


def read_symbols(library: Path) -> list[Symbol]:
    """Variables in the symbol table of a 64-bit ELF or Mach-O file."""
    data = library.read_bytes()
    if data[:4] == b"\xcf\xfa\xed\xfe":
        return _mach_symbols(data)
    if data[:5] != b"\x7fELF\x02":
        raise ValueError(f"{library.name} is neither a 64-bit ELF nor a 64-bit Mach-O file")
    (sections,) = struct.unpack_from("<Q", data, 40)
    size, count = struct.unpack_from("<HH", data, 58)
    headers = [struct.unpack_from("<IIQQQQIIQQ", data, sections + i * size) for i in range(count)]
    found = []
    for _, kind, _, _, start, length, link, _, _, _ in headers:
        if kind != 2:  # SHT_SYMTAB
            continue
        names = headers[link][4]
        for position in range(start, start + length, 24):
            name, info, _, section, value, extent = struct.unpack_from("<IBBHQQ", data, position)
            if info & 15 in (1, 6) and section:  # STT_OBJECT, STT_TLS
                end = data.index(b"\0", names + name)
                found.append(Symbol(data[names + name : end].decode(), value, extent, info & 15 == 6))
    return found


def _mach_symbols(data: bytes) -> list[Symbol]:
    """A Mach-O symbol has no size: it ends where the next one, or its section, begins. Thread-locals have their first
    values under `name$tlv$init`; a thread's block is a copy of these, so differences of addresses hold there, too."""
    (commands,) = struct.unpack_from("<I", data, 16)
    position, sections, table = 32, [], None
    for _ in range(commands):
        command, size = struct.unpack_from("<II", data, position)
        if command == 0x19:  # LC_SEGMENT_64
            (count,) = struct.unpack_from("<I", data, position + 64)
            for at in range(position + 72, position + 72 + 80 * count, 80):
                name = data[at : at + 16].rstrip(b"\0").decode()
                sections.append((name, *struct.unpack_from("<QQ", data, at + 32)))
        elif command == 0x2:  # LC_SYMTAB
            table = struct.unpack_from("<IIII", data, position + 8)
        position += size
    if table is None:
        return []
    start, count, strings, _ = table
    entries = []
    for at in range(start, start + 16 * count, 16):
        name, kind, section, _, value = struct.unpack_from("<IBBHQ", data, at)
        if kind & 0xE0 or kind & 0x0E != 0x0E or not 0 < section <= len(sections):  # of a debugger, or not in a section
            continue
        end = data.index(b"\0", strings + name)
        text = data[strings + name : end].decode().removeprefix("_")
        if sections[section - 1][0] in ("__data", "__bss", "__common", "__const", "__thread_data", "__thread_bss"):
            entries.append((section, value, text))
    found = []
    for section, value, text in entries:
        name, first, length = sections[section - 1]
        later = [other for number, other, _ in entries if number == section and other > value]
        size = min([*later, first + length]) - value
        found.append(Symbol(text.removesuffix("$tlv$init"), value, size, name.startswith("__thread")))
    return found


@dataclass
class Library:
    """A library that is loaded into this process. Not safe to use from two threads at once."""

    path: Path
    shown: str
    calls: ctypes.CDLL = field(init=False)
    symbols: list[Symbol] = field(init=False)
    _lines: dict[int, int] = field(default_factory=dict, init=False)

    def __post_init__(self) -> None:
        self.calls = calls = ctypes.CDLL(str(self.path))
        self.symbols = read_symbols(self.path)
        calls.kh_begin.argtypes = (ctypes.c_uint64, ctypes.c_int, ctypes.c_double)
        calls.kh_region.argtypes = (ctypes.c_size_t, ctypes.c_uint64, ctypes.c_uint64, ctypes.c_int, ctypes.c_int)
        if calls.kh_record_bytes() != EVENT.itemsize << 16 | TURN.itemsize:
            raise RuntimeError(
                f"{self.path.name} writes events of other sizes than the {EVENT.itemsize} and {TURN.itemsize} bytes "
                "that are read here; `EVENT` and `TURN` must mirror `Event` and `Turn` of cuda/host/record.cpp"
            )
        for name in ("kh_events", "kh_turns", "kh_launches", "kh_failure", "kh_library", "kh_anchor_address"):
            getattr(calls, name).restype = ctypes.c_void_p
        calls.kh_assertion.restype = ctypes.c_char_p

    @property
    def thread_block(self) -> int:
        """Address of this thread's thread-local variables, where shared memory lives."""
        anchor = next(symbol for symbol in self.symbols if symbol.name == "kh_anchor")
        return self.calls.kh_anchor_address() - anchor.value

    @property
    def _lines_file(self) -> Path:
        """Source lines of this library that an earlier process asked for: asking again takes longer than the trace."""
        return self.path.with_suffix(".lines.json")

    @property
    def base(self) -> int:
        return self.calls.kh_library() or 0

    def signature(self, number: int) -> list[str]:
        """Three letters a parameter; see `cuda/host/kh_launch.h`."""
        letters = ctypes.create_string_buffer(3 * 128 + 1)
        getattr(self.calls, f"kh_signature_{number}")(letters)
        text = letters.value.decode()
        return [text[i : i + 3] for i in range(0, len(text), 3)]

    def events(self) -> np.ndarray:
        """What was recorded since `kh_begin`: the recorder's own memory, gone after `kh_forget_events`."""
        return self._recorded(self.calls.kh_events, EVENT)

    def turns(self) -> np.ndarray:
        """Who made the events; the recorder's own memory, as for `events`."""
        return self._recorded(self.calls.kh_turns, TURN)

    def _recorded(self, call: Callable, kind: np.dtype) -> np.ndarray:
        count = ctypes.c_uint64()
        return _view(call(ctypes.byref(count)), count.value, kind)

    def launches(self) -> np.ndarray:
        return _copy(self.calls.kh_launches(), self.calls.kh_launch_count(), LAUNCH)

    def failure(self) -> np.void:
        return _copy(self.calls.kh_failure(), 1, FAILURE)[0]

    def lane_faults(self) -> tuple[np.ndarray, int]:
        start = ctypes.c_void_p()
        count = self.calls.kh_lane_faults(ctypes.byref(start), 0)
        return _copy(start.value, min(count, 256), LANE_FAULT), count

    def assertion(self) -> str:
        """The expression of the `assert` that failed last; empty for `__trap()`."""
        return self.calls.kh_assertion().decode(errors="replace")

    def allocations(self) -> list[int]:
        start = ctypes.c_void_p()
        count = self.calls.kh_allocations(ctypes.byref(start))
        return _copy(start.value, count, np.dtype("<u8")).tolist()

    def filled(self) -> list[tuple[int, int]]:
        """Address and bytes of each piece of memory that the launcher filled or copied to itself."""
        start = ctypes.c_void_p()
        count = self.calls.kh_filled(ctypes.byref(start))
        return [tuple(pair) for pair in _copy(start.value, count, np.dtype(("<u8", 2))).tolist()]

    def thread_states(self) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """State, line and return address of each thread of the block that ran last."""
        state, line, pc = np.zeros(1024, np.int32), np.zeros(1024, np.int32), np.zeros(1024, np.uint32)
        count = self.calls.kh_thread_states(*(a.ctypes.data_as(ctypes.c_void_p) for a in (state, line, pc)))
        return state[:count], line[:count], pc[:count]

    def lines(self, places: np.ndarray) -> dict[int, int]:
        """The line in the kernels' source for each return address; 0 where the code is not from there."""
        wanted = [int(place) for place in places]
        if any(place not in self._lines for place in wanted):
            self._lines |= _read_lines(self._lines_file)
        if missing := [place for place in wanted if place not in self._lines]:
            self._lines |= _resolve(str(self.path), self.shown, missing)
            _write_lines(self._lines_file, self._lines)
        return {place: self._lines[place] for place in wanted}


@lru_cache(maxsize=64)
def load(path: Path, shown: str) -> Library:
    try:
        return Library(path, shown)
    except (OSError, ValueError, IndexError, struct.error) as damage:
        raise RuntimeError(f"the library {path} is damaged ({damage}); delete it, and it is compiled again") from None


def _view(start: int | None, count: int, kind: np.dtype) -> np.ndarray:
    if not count or not start:
        return np.empty(0, kind)
    return np.frombuffer((ctypes.c_char * (count * kind.itemsize)).from_address(start), kind)


def _copy(start: int | None, count: int, kind: np.dtype) -> np.ndarray:
    return _view(start, count, kind).copy()


def _read_lines(file: Path) -> dict[int, int]:
    try:
        return {int(place): int(line) for place, line in json.loads(file.read_text(encoding="utf-8")).items()}
    except (OSError, ValueError, TypeError, AttributeError):  # not there yet, or damaged: it is made again
        return {}


def _write_lines(file: Path, lines: dict[int, int]) -> None:
    with suppress(OSError):  # no room, or not ours to write: the next process asks again
        write_whole(file, json.dumps(lines), durable=False)


def _resolve(library: str, shown: str, places: list[int]) -> dict[int, int]:
    """Asks for the chain of inlined calls at each address and takes the innermost one that is in the source."""
    if sys.platform == "darwin":
        return _resolve_by_atos(library, shown, places)
    tool = shutil.which("addr2line") or shutil.which("llvm-addr2line")
    if tool is None:
        raise RuntimeError(
            "source lines need `addr2line`, which comes with g++ (package binutils) or as llvm-addr2line"
        )
    found = dict.fromkeys(places, 0)
    for first in range(0, len(places), 500):
        some = places[first : first + 500]
        # A return address is the instruction after the call; one byte less is still the call.
        command = [tool, "-a", "-i", "-e", library, *(hex(place - 1) for place in some)]
        done = _told(command, library)
        place = 0
        for text in done.splitlines():
            if text.startswith("0x"):
                place = int(text, 16) + 1
            elif not found[place]:
                file, _, line = text.partition(" ")[0].rpartition(":")
                if file.endswith(shown) and line.isdigit():
                    found[place] = int(line)
    return found


def _told(command: list[str], library: str) -> str:
    """What a program says of a library's lines. RuntimeError where it cannot read them."""
    done = answered(command, 120)
    if done.returncode:
        why = (done.stderr.strip().splitlines() or [f"exit status {done.returncode}"])[-1]
        raise RuntimeError(
            f"{Path(command[0]).name} could not read the lines of {library}: {why}; remove that file, and trace again"
        )
    return done.stdout


def _resolve_by_atos(library: str, shown: str, places: list[int]) -> dict[int, int]:
    """The same on macOS: `atos` prints the inlined frames of an address, innermost first, and then an empty line."""
    found = dict.fromkeys(places, 0)
    debug = f"{library}.dSYM/Contents/Resources/DWARF/{Path(library).name}"
    for first in range(0, len(places), 500):
        some = places[first : first + 500]
        command = ["atos", "-i", "-fullPath", "-o", debug, "-l", "0x0", *(hex(place - 1) for place in some)]
        done = _told(command, library)
        for place, frames in zip(some, done.strip().split("\n\n")):
            for frame in frames.splitlines():
                if (match := re.search(r"\(([^()]+):(\d+)\)\s*$", frame)) and match[1].endswith(shown):
                    found[place] = int(match[2])
                    break
    return found
