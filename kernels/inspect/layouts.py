"""Which thread holds which element of a tensor: the layouts that Triton's compiler chose, read with no GPU.

A program's tensor is spread over its warps, lanes and registers by a *layout*, which TTGIR, the compiler's second
stage, writes beside every tensor. Triton's own library turns each layout into bases over GF(2) ("Linear Layouts",
Zhou et al., 2025): the element of (warp, lane, register) is the exclusive or of one basis for each bit that is set.
How many neighbouring registers one instruction moves is not in TTGIR; it is read from the PTX, by source position.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING

from kernels.inspect import store
from kernels.inspect.triton import TritonRequest, ask, key_of, triton_version
from kernels.sources import fingerprint, project_root

if TYPE_CHECKING:
    import numpy as np

LANES = 32


@dataclass(frozen=True)
class MemoryAccess:
    """One memory operation of a compiled kernel, and how its tensor lies over the program's threads.

    Attributes:
        what: "read", "write" or "atomic".
        operation: its name in TTGIR, such as "tt.load" or "ttng.async_tma_copy_global_to_local".
        file, line, column: where it is written; in a helper function, the helper's line. A file of the project is
            relative to the project.
        shape: the tensor's shape; () for a scalar.
        element_bytes: bytes of one element.
        layout: the layout's text in TTGIR, "" for a scalar and for what a copy engine moves.
        register_bases, lane_bases, warp_bases: for each bit of the number, the element that it adds, in
            C order.
        vector: elements that one instruction moves for a lane: neighbours in memory, in consecutive registers.
        instruction: the PTX instruction, such as "ld.global.v4.b32".
        engine: True where a copy engine (TMA) moves the tensor, asked by a single thread: no lane holds an address.
    """

    what: str
    operation: str
    file: str
    line: int
    column: int
    shape: tuple[int, ...]
    element_bytes: int
    layout: str
    register_bases: tuple[int, ...]
    lane_bases: tuple[int, ...]
    warp_bases: tuple[int, ...]
    vector: int
    instruction: str
    engine: bool = False

    @property
    def access_bytes(self) -> int:
        """Bytes that one instruction moves for one lane."""
        return self.vector * self.element_bytes

    @property
    def registers(self) -> int:
        """Elements of the tensor in each thread, copies included."""
        return 1 << len(self.register_bases)

    @cached_property
    def positions(self) -> np.ndarray:
        """The element of every (warp, lane, register), counted in C order: an int64 array of that shape."""
        warp, lane, register = (_span(bases) for bases in (self.warp_bases, self.lane_bases, self.register_bases))
        return warp[:, None, None] ^ lane[:, None] ^ register

    @cached_property
    def acts(self) -> np.ndarray:
        """Which (warp, lane, register) really touch memory: a boolean array of the shape of `positions`.

        Every thread loads its own copies, but once each: a register that repeats another one of its thread is filled
        from that one. Of several threads that hold one element, one stores it, or makes the atomic.
        """
        import numpy as np

        free = free_bits(self.register_bases + self.lane_bases + self.warp_bases)
        split = len(self.register_bases), len(self.register_bases) + len(self.lane_bases)
        of_register, of_lane, of_warp = free[: split[0]], free[split[0] : split[1]], free[split[1] :]
        keep = [
            (np.arange(1 << len(bits)) & sum(1 << i for i, bit in enumerate(bits) if bit)) == 0
            for bits in (of_warp, of_lane, of_register)
        ]
        if self.what == "read":
            keep[0][:] = keep[1][:] = True
        return keep[0][:, None, None] & keep[1][:, None] & keep[2]


@dataclass(frozen=True)
class KernelLayouts:
    """The memory operations of one compiled kernel, in the order of its TTGIR.

    `num_warps` warps of 32 lanes run each program; `ttgir` is the stage's text, and `toolchain` what made it.
    """

    kernel: str
    arch: int
    num_warps: int
    accesses: tuple[MemoryAccess, ...]
    ttgir: str
    toolchain: str

    def at(self, line: int, what: str | None = None) -> list[MemoryAccess]:
        """The operations of a source line; `what` keeps only "read", "write" or "atomic"."""
        return [access for access in self.accesses if access.line == line and what in (None, access.what)]


def free_bits(bases: Sequence[int]) -> list[bool]:
    """Which bits of a thread's number change nothing that earlier bits could not: those number copies of elements."""
    pivots: dict[int, int] = {}
    free = []
    for basis in bases:
        while basis and (top := basis.bit_length()) in pivots:
            basis ^= pivots[top]
        if basis:
            pivots[basis.bit_length()] = basis
        free.append(not basis)
    return free


def _span(bases: Sequence[int]) -> np.ndarray:
    """The exclusive or of the bases that each number's bits pick, for 0 .. 2**len(bases) - 1."""
    import numpy as np

    found = np.zeros(1, np.int64)
    for basis in bases:
        found = np.concatenate([found, found ^ basis])
    return found


def triton_layouts(request: TritonRequest) -> KernelLayouts:
    """Compiles a kernel as a launch would, with no GPU, and returns how its tensors lie over warps, lanes, registers.

    Raises: as `triton_layouts_many`.
    """
    return triton_layouts_many([request])[0]


def triton_layouts_many(requests: Sequence[TritonRequest]) -> list[KernelLayouts]:
    """`triton_layouts` for several requests, in their order, in one helper process: its start takes seconds.

    What was compiled is remembered in build/inspect/ until the kernel, a file it is written in, or the tools change.

    Raises:
        KeyError: there is no such kernel.
        ToolMissing: Triton is not installed.
        InspectionFailed: a request does not compile, or an operation's instructions are not found in the PTX.
    """
    toolchain = f"Triton {triton_version()}"
    reader = fingerprint("kernels.inspect.layouts_worker:main")  # what other code stored may mean something else
    keys = [store.key_of("layouts", key_of(request, toolchain), reader) for request in requests]
    known = {key: _read(key) for key in keys}
    missing = {key: request for key, request in zip(keys, requests, strict=True) if known[key] is None}
    if missing:
        answers = ask("kernels.inspect.layouts_worker", list(missing.values()), {})
        for (key, request), answer in zip(missing.items(), answers, strict=True):
            accesses = [
                {**access, "file": _relative(access["file"]), "shape": tuple(access["shape"])}
                for access in answer["accesses"]
            ]
            files = {access["file"]: _hash(access["file"]) for access in accesses}
            value = {
                "kernel": request.kernel.rpartition(":")[2],
                "arch": request.arch,
                "num_warps": request.num_warps,
                "accesses": accesses,
                "ttgir": answer["ttgir"],
                "toolchain": toolchain,
            }
            store.write_json(key, {"files": files, "layouts": value})
            known[key] = _layouts(value)
    return [known[key] for key in keys]  # type: ignore[misc]


def _read(key: str) -> KernelLayouts | None:
    # A kernel's fingerprint does not change when it moves within its file; its lines do.
    stored = store.read_json(key)
    try:
        if all(_hash(file) == text for file, text in stored["files"].items()):
            return _layouts(stored["layouts"])
    except (TypeError, KeyError, AttributeError):
        pass
    return None


def _layouts(value: dict) -> KernelLayouts:
    accesses = [
        MemoryAccess(**{name: tuple(part) if isinstance(part, list) else part for name, part in access.items()})
        for access in value["accesses"]
    ]
    return replace(KernelLayouts(**{**value, "accesses": ()}), accesses=tuple(accesses))


def _hash(file: str) -> str:
    try:
        return hashlib.sha256((project_root() / file).read_bytes()).hexdigest()
    except OSError:
        return ""


def _relative(file: str) -> str:
    path, root = Path(file), project_root()
    return path.relative_to(root).as_posix() if path.is_relative_to(root) else file
